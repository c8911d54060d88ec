/**
 * The documents' claims: tables equal the code, links lead to headings that exist, names exist.
 * `node --import tsx test/repository/update.ts` writes the tables. readme.long.ts runs what they show.
 */
import assert from "node:assert/strict";
import {
  existsSync,
  readdirSync,
  readFileSync,
  utimesSync,
  writeFileSync
} from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { run } from "../support/in-process.ts";
import { preload } from "../support/operator.ts";
import {
  program,
  refuseOldBuild,
  root,
  startProcess,
  temporaryFolder
} from "../support/support.ts";
import { exitCodes } from "../../src/failure.ts";
import { allText, blocks, documentOf, documents } from "./documents.ts";
import { loadedBy, sourceNames } from "./modules.ts";
import { findTable, tables } from "./tables.ts";

const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
const frontPage = documentOf("README.md");

test("the workflow names actions by their commits, keeps no credentials, and runs no package's script", () => {
  const text = readFileSync(join(root, ".github/workflows/ci.yml"), "utf8");
  const uses = text.match(/^ +- uses: .*$/gm) ?? [];
  const pinned = text.match(/^ +- uses: [\w/-]+@[\da-f]{40} # v[\d.]+$/gm);
  assert.deepEqual(pinned, uses);
  assert.equal(uses.length, 4, "the control: they are found");
  assert.equal(
    text.match(/actions\/checkout@/g)?.length,
    text.match(/^ +persist-credentials: false$/gm)?.length
  );
  assert.equal(text.match(/npm ci\b(?! --ignore-scripts)/g), null);
});

test("the commands to start and to test are scripts of package.json", () => {
  // Each in a block of its own: pasted together, the tests would begin after Ctrl-C.
  const commands = blocks
    .filter(
      ({ document, language, name }) =>
        document.name === "README.md" && language === "sh" && name === ""
    )
    .map(({ text }) => text);
  assert.deepEqual(commands, ["npm ci && npm start\n", "npm ci && npm test\n"]);
  const { start, prestart, pretest, test: testScript } = manifest.scripts;
  // Debian's sh stays beside its command without `exec`: a SIGTERM would end it, not the server.
  assert.equal(start, "exec node dist/server.js");
  assert.equal(prestart, "npm run --silent build");
  assert.match(pretest, /^npm run --silent build && tsc --project test /);
  assert.equal(testScript, "node test/quick.mjs");
});

for (const name of Object.keys(tables)) {
  test(`the table of ${name} says what the code says`, () => {
    const { document, found, expected } = findTable(name);
    assert.equal(
      found,
      expected,
      `${document.name}: node --import tsx test/repository/update.ts`
    );
  });
}

/** Arguments of node that write to stderr what it loads. */
const loadHook = preload(`import { register } from "node:module";
  register(${JSON.stringify(
    `data:text/javascript,${encodeURIComponent(String.raw`import { writeSync } from "node:fs";
    export function load(url, context, next) {
      writeSync(2, "LOADS " + url + "\n");
      return next(url, context);
    }`)}`
  )});`);

/** What `serve` loads: the entry point, and what that loads on demand. */
const serving = ["server", "failure", "program/exit", "program/run"].map(
  (name) => `src/${name}.ts`
);

test("the table of what is loaded names what a load hook sees", async () => {
  const [, section = ""] =
    /^## What is loaded$([^]*?)^## /m.exec(documentOf("src/README.md").text) ??
    [];
  const rows = [...section.matchAll(/^\| (.*) \| (.*) \|$/gm)].map(
    ([, what, names = ""]) => {
      const files = [...names.matchAll(/`(src\/[^`]*)`/g)];
      const isNamed = (each: string): boolean =>
        files.some(([, name = ""]) => each.startsWith(name));
      return { what, files: sourceNames.filter(isNamed) };
    }
  );
  const named = (what: string): readonly string[] => {
    const files = rows.find((row) => row.what === what)?.files ?? [];
    assert.notEqual(files.length, 0, what);
    return files;
  };
  const library = named("the library alone");
  const later = rows.flatMap(({ files }) => (files === library ? [] : files));
  const first = sourceNames.filter((name) => !later.includes(name));

  const loaded = (...others: readonly string[]) => {
    const entries = [...serving, ...others];
    return [...new Set(entries.flatMap((each) => [...loadedBy(each)]))].sort();
  };
  assert.deepEqual(loaded(), first);
  const admin = [...first, ...named("`--admin` adds")].sort();
  assert.deepEqual(loaded("src/program/serving/admin.ts"), admin);
  const stream = [...first, ...named("`--store nats://…` adds")].sort();
  assert.deepEqual(loaded("src/nats/nats.ts", "src/nats/address.ts"), stream);
  const alone = first.filter((name) => !library.includes(name));
  assert.deepEqual([...loadedBy("src/index.ts")].sort(), alone);

  // Node loads what the imports name.
  const server = await startProcess({
    args: ["--admin", "0"],
    nodeArgs: loadHook
  });
  await server.end();
  const seen = server.stderr().matchAll(/^LOADS .*\/dist\/(.*)\.js$/gm);
  assert.deepEqual([...seen].map(([, name]) => `src/${name}.ts`).sort(), admin);
});

test("the table of exit codes has those of the code, and no other", () => {
  const [, table = ""] =
    /\| exit code \|[^\n]*\n((?:\|.*\n)+)/.exec(allText) ?? [];
  const shown = [...table.matchAll(/^\| (\d+) \|/gm)].map(([, code]) =>
    Number(code)
  );
  assert.deepEqual(
    shown,
    [...new Set(Object.values(exitCodes))].sort((a, b) => a - b)
  );
});

test("the table of development packages is package.json's", () => {
  const shown = [...allText.matchAll(/^\| `([@\w/]+)` \| (\d[\d.]+) \| \w/gm)];
  assert.deepEqual(
    Object.fromEntries(shown.map(([, name, version]) => [name, version])),
    manifest.devDependencies
  );
});

test("each bound of the security page names a test, and its file has it", () => {
  const { text } = documentOf(".github/SECURITY.md");
  const [, section = ""] = text.split(
    "## What clients can make the server hold"
  );
  const [bounds = ""] = section.split("\n## ");
  const rows = bounds.match(/^\|(?! who| ---).+$/gm) ?? [];
  assert.ok(rows.length > 5);
  for (const row of rows) {
    const [, path = "", named = ""] = /\| `(\S+)`: ([^|]+) \|$/.exec(row) ?? [];
    const source = readFileSync(join(root, path), "utf8");
    assert.ok(
      testNamesOf(source).some((pattern) => pattern.test(named)),
      row
    );
  }
});

/** The names of a file's tests. What a template inserts may be any text. */
function testNamesOf(source: string): readonly RegExp[] {
  const names = source.matchAll(/\btest\(\s*(?:"([^"]+)"|`([^`]+)`)/g);
  return [...names].map(([, whole = "", template = whole]) => {
    const parts = template.split(/\$\{.+?\}/);
    const escaped = parts.map((part) => part.replace(/[^\w ]/g, "\\$&"));
    return new RegExp(`^${escaped.join(".+")}$`);
  });
}

test("test/README.md lists each PLANT_TEST_ variable that the tests and .ci/run read", () => {
  const files = readdirSync(join(root, "test"), {
    recursive: true,
    encoding: "utf8"
  })
    .filter(
      (name) => /\.(?:ts|mjs)$/.test(name) && !name.includes("node_modules")
    )
    .map((name) => join("test", name));
  const texts = [...files, ".ci/run", ".ci/tools", "package.json"].map((name) =>
    readFileSync(join(root, name), "utf8")
  );
  const used = texts.flatMap(
    (text) => text.match(/\bPLANT_TEST_[A-Z_]*[A-Z]\b/g) ?? []
  );
  const listed = [
    ...documentOf("test/README.md").text.matchAll(/^\| `(PLANT_TEST_\w+)` \|/gm)
  ].map(([, name = ""]) => name);
  assert.ok(used.length > 20, "the control: variables are found");
  assert.deepEqual(listed.toSorted(), [...new Set(used)].sort());
});

test("tests refuse a build that is older than the source", () => {
  const folder = temporaryFolder();
  const [older, newer] = [join(folder, "server.js"), join(folder, "router.ts")];
  for (const [at, path] of [newer, older].entries()) {
    writeFileSync(path, "");
    utimesSync(path, at, at);
  }
  assert.doesNotThrow(() => refuseOldBuild(folder, older));
  utimesSync(newer, 2, 2);
  assert.throws(
    () => refuseOldBuild(folder, older),
    /dist is older than src\/router\.ts: run npx tsc/
  );
  assert.throws(
    () => refuseOldBuild(folder, join(folder, "none.js")),
    /run npx tsc/
  );
});

test("the front page's ratios are those of the page on performance", () => {
  const { text } = documentOf("test/bench/README.md");
  const [, speed = ""] =
    /^## How fast it is$([^]*?)^## /m.exec(frontPage.text) ?? [];
  assert.match(speed, /!\[[^\]]*\]\(test\/bench\/chart\.svg\)/);
  const shown = ["durable / bar", "durable / Fastify with SQLite"].map(
    (name) => text.split(`\n| ${name} | `)[1]?.split(" ")[0]
  );
  assert.deepEqual(speed.match(/\d+\.\d+/g), shown);
});

// Names, links and length

test("every file, flag and script that the documents name exists", async () => {
  const named = [
    ...allText.matchAll(/`((?:src|test|\.ci|\.github)\/[\w./-]+)`/g)
  ];
  for (const [, file = ""] of named)
    assert.ok(existsSync(join(root, file)), file);
  assert.ok(named.length > 40, "the control: names are found");
  for (const [, script = ""] of allText.matchAll(/npm run ([\w:]+)/g)) {
    assert.ok(Object.hasOwn(manifest.scripts, script), script);
  }
  const { stdout: help } = await run(["help"]);
  const ofOthers =
    "--permission --allow-net --allow-fs-read --allow-fs-write --env-file " +
    "--test --test-name-pattern --import --against --deploy-hook --owner --minify --jitless";
  const given = allText.replace(/npm run bench -- --.*`/g, "");
  for (const [flag] of given.matchAll(/(?<=`)--[\w-]+/g)) {
    assert.ok(`${help} ${ofOthers}`.includes(flag), flag);
  }
  assert.ok(
    frontPage.text.includes("MIT") && existsSync(join(root, "LICENSE"))
  );
  assert.ok(existsSync(program));
});

/** A heading's name in links, as code hosts make it. */
const anchorOf = (heading: string): string =>
  heading
    .toLowerCase()
    .replace(/[^\w\s-]/g, "")
    .replaceAll(" ", "-");

test("every link of the documents leads to a file, and to a heading of it", () => {
  let links = 0;
  for (const { name, text } of documents) {
    const own =
      text.replace(/^```[\s\S]*?^```$/gm, "").match(/^#+ .*$/gm) ?? [];
    assert.equal(new Set(own).size, own.length, `${name} has a heading twice`);
    for (const [, target = ""] of text.matchAll(/\]\(([^)\s]+)\)/g)) {
      const [file = "", anchor] = target.split("#");
      const path =
        file === "" ? join(root, name) : join(root, dirname(name), file);
      assert.ok(existsSync(path), `${name}: ${target}`);
      links++;
      if (anchor === undefined) continue;
      const headings = [...readFileSync(path, "utf8").matchAll(/^#+ (.*)$/gm)];
      const anchors = headings.map(([, heading = ""]) => anchorOf(heading));
      assert.ok(
        anchors.includes(anchor),
        `${name}: ${target}, expected one of ${anchors.join()}`
      );
    }
  }
  assert.ok(links > 8, `the control: ${links} links were seen`);
});

test("the tour names every file of the source, and no other", () => {
  const { text } = documentOf("src/README.md");
  const [, tour = ""] = /^## A tour$([\s\S]*?)^## /m.exec(text) ?? [];
  const named = [...tour.matchAll(/^(src\/\S+\.ts) /gm)].map(
    ([, name]) => name
  );
  assert.ok(named.length > 40, "the control: files are seen");
  assert.deepEqual(named.toSorted(), sourceNames);
});
