/** The package as npm makes it of a fresh clone, and as those who install it find it. */
import assert from "node:assert/strict";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, posix } from "node:path";
import { test } from "node:test";
import { limitsWith } from "../../src/config.ts";
import { describeApi } from "../../src/openapi.ts";
import { command, modules, pack } from "../support/package.ts";
import { root, temporaryFolder } from "../support/support.ts";

const consumer = temporaryFolder();
const installed = join(consumer, "node_modules", "plant-store");

/** What the package holds, by its paths. */
mkdirSync(installed, { recursive: true });
const tarball = pack();
const packed = command(
  installed,
  "tar",
  "-xvzf",
  tarball,
  "--strip-components=1"
)
  .stdout.trim()
  .split("\n")
  .map((path) => path.replace(/^package\//, ""));

test("the modes of its files do not follow the umask under which it was packed", () => {
  const lines = command(consumer, "tar", "-tvzf", tarball)
    .stdout.trim()
    .split("\n");
  assert.equal(lines.length, packed.length);
  for (const line of lines) assert.ok(line.startsWith("-rw-r--r-- "), line);
});

test("the SBOM has no component but this package", () => {
  const bill = (...options: readonly string[]) =>
    JSON.parse(
      command(
        root,
        "npm",
        "sbom",
        "--package-lock-only",
        ...options,
        "--sbom-format",
        "cyclonedx"
      ).stdout
    );
  const { components, metadata } = bill("--omit", "dev");
  assert.equal(metadata.component.purl, "pkg:npm/plant-store@1.0.0");
  assert.deepEqual(components, []);
  assert.ok(
    bill().components.length > 0,
    "the control: with the development packages it has some"
  );
});

test("it has what is built, its types, the source and the description, and nothing else", () => {
  for (const path of [
    "dist/index.js",
    "dist/index.d.ts",
    "dist/server.js",
    "dist/openapi.json",
    "src/index.ts",
    "src/README.md",
    "src/program/README.md",
    "README.md",
    "LICENSE"
  ]) {
    assert.ok(packed.includes(path), path);
  }
  const others = packed.filter(
    (path) => !/^(?:dist|src)\/|^(?:package\.json|LICENSE)$/.test(path)
  );
  assert.deepEqual(others.sort(), [
    ".github/CONTRIBUTING.md",
    ".github/SECURITY.md",
    "CHANGELOG.md",
    "README.md",
    "test/README.md",
    "test/bench/README.md",
    "test/bench/chart.svg"
  ]);
  const declarations = packed.filter((path) => path.endsWith(".d.ts"));
  assert.ok(declarations.includes("dist/nats/nats.d.ts"));
  assert.deepEqual(
    declarations.filter((path) => /^dist\/(?:program\/|server)/.test(path)),
    [],
    "an embedder calls nothing of the program"
  );
  assert.ok(!packed.includes("dist/gone.js"), "dist is built again");
});

test("each link in its documents leads to a file or folder of it", () => {
  const links = packed
    .filter((path) => path.endsWith(".md"))
    .flatMap((path) => {
      const text = readFileSync(join(installed, path), "utf8");
      return [...text.matchAll(/\]\(([^)\s#]+)[^)]*\)/g)].map(
        ([, link = ""]) =>
          link.startsWith("https:")
            ? link
            : posix.join(posix.dirname(path), link)
      );
    });
  assert.ok(
    links.includes("src/journal/README.md"),
    "the control: links are found"
  );
  assert.deepEqual(
    links.filter(
      (link) => !link.startsWith("https:") && !existsSync(join(installed, link))
    ),
    []
  );
});

test("its program runs, its library loads, and so do the description and package.json", () => {
  const program = command(
    consumer,
    process.execPath,
    join(installed, "dist/server.js"),
    "openapi"
  );
  const text = readFileSync(join(installed, "dist", "openapi.json"), "utf8");
  assert.equal(program.status, 0);
  assert.equal(program.stdout, text);
  assert.deepEqual(
    JSON.parse(text),
    JSON.parse(JSON.stringify(describeApi(limitsWith())))
  );
  const { status, said } = command(
    consumer,
    process.execPath,
    "--input-type=module",
    "--eval",
    `
    import { createRequire } from "node:module";
    import { openJournal } from "plant-store";
    const require = createRequire(import.meta.url);
    const { openapi } = require("plant-store/openapi.json");
    const { version } = require("plant-store/package.json");
    if (openapi !== "3.1.0" || version !== "1.0.0" || !openJournal) process.exit(1);
    try { require("plant-store/dist/service.js"); process.exit(2); } catch {}`
  );
  assert.equal(status, 0, said);
});

/** What a consumer may write: every option that may be left out is undefined here. */
const good = `
import { BearerTokens, createPlantHandler, createPlantServer, JournalError, openJournal, StoreError, tokenDigest, type DrainableServer, type Limits, type PlantOptions, type PlantStore } from "plant-store";

declare const basePath: string | undefined;
declare const limits: Partial<Limits> | undefined;
declare const tag: string | undefined;
declare const tls: { key: string; cert: string } | undefined;
declare const warn: ((message: string) => void) | undefined;
declare const onFault: ((error: unknown) => void) | undefined;

export async function run(): Promise<boolean> {
  const store: PlantStore = await openJournal("plants.ndjson", { limits, warn });
  await store.append({ id: 9007199254740993n, name: "Fern", tag });
  const tokens = new BearerTokens([tokenDigest("garden")]);
  const options: PlantOptions = { store, tokens, basePath, limits, onFault };
  createPlantHandler(options);
  const server: DrainableServer = createPlantServer({ ...options, tls });
  if (tls) server.setSecureContext?.(tls);
  server.listen(8080);
  return server.drain();
}

export const codeOf = (error: unknown): string | undefined =>
  error instanceof StoreError || error instanceof JournalError ? error.code : undefined;
`;

/** Each a mistake that the types find, where they are there. */
const bad = `
import { BearerTokens, createPlantServer, openJournal, type PlantStore } from "plant-store";
declare const store: PlantStore;
createPlantServer({ store, tokens: ["garden"], basePath: 1 });
createPlantServer({ tokens: ["garden"] });
createPlantServer({ store });
openJournal("plants.ndjson", { limits: { bodyBytesMax: "1" } });
store.append({ id: 1, name: "Fern" });
openJournal("plants.ndjson", { disk: undefined });
new BearerTokens(["garden"]).check("Bearer garden");
openJournal(new URL("file:///plants")).then((journal) => { journal.stats.records = 0; });
`;

/** What tsc says of a consumer's files, each error with its file and line. */
function compile(
  texts: Readonly<Record<string, string>>,
  options: object,
  type = "module"
): readonly string[] {
  const compilerOptions = {
    target: "es2022",
    module: "nodenext",
    strict: true,
    exactOptionalPropertyTypes: true,
    noEmit: true,
    ...options
  };
  const files = Object.keys(texts);
  for (const name of files)
    writeFileSync(join(consumer, name), texts[name] ?? "");
  writeFileSync(join(consumer, "package.json"), JSON.stringify({ type }));
  writeFileSync(
    join(consumer, "tsconfig.json"),
    JSON.stringify({ compilerOptions, files })
  );
  const { said } = command(
    consumer,
    join(modules, ".bin", "tsc"),
    "--pretty",
    "false"
  );
  return said.split("\n").filter((line) => line.includes("error TS"));
}

const typeRoots = [join(modules, "@types")];
for (const [says, options] of [
  ["@types/node", { types: ["node"], typeRoots }],
  ["skipLibCheck instead of @types/node", { types: [], skipLibCheck: true }]
] as const) {
  test(`with ${says}, a strict consumer may pass undefined, and its mistakes are found`, () => {
    const places = compile({ "good.ts": good, "bad.ts": bad }, options).map(
      (error) => /^(.*?),/.exec(error)?.[1]
    );
    assert.deepEqual(
      places,
      [4, 5, 6, 7, 8, 9, 10, 11].map((line) => `bad.ts(${line}`)
    );
  });
}

test("without both, tsc says that it misses node's types: the README names what is needed", () => {
  const errors = compile({ "consumer.ts": good }, { types: [] });
  assert.match(errors[0] ?? "", /node:http/);
  const readme = readFileSync(join(root, "src", "README.md"), "utf8");
  assert.match(readme, /needs `@types\/node`.* or `skipLibCheck`/);
});

test("CommonJS in TypeScript: TS1479 with module node16, none with node20, as the README says", () => {
  const errorsWith = (module: string): readonly string[] =>
    compile(
      { "consumer.ts": good },
      { module, types: ["node"], typeRoots },
      "commonjs"
    );
  assert.match(errorsWith("node16").join(), /^consumer\.ts\S+ error TS1479/);
  assert.deepEqual(errorsWith("node20"), []);
  const readme = readFileSync(join(root, "src", "README.md"), "utf8");
  assert.match(readme, /`"module": "node20"`.*TS1479/);
});
