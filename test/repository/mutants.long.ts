/**
 * Whether the tests notice a mistake: mutants of the source, each with one small change at a place
 * chosen at random. The compiler or one of the tests nearest to the file must find it.
 *
 * PLANT_TEST_MUTANTS=40 tries that many; PLANT_TEST_MUTANTS_SEED=n tries other ones, and
 * PLANT_TEST_MUTANTS_OF=journal/ those of some files. One source and seed make one list. stderr shows
 * each as it is done.
 */
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import {
  cpSync,
  existsSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync
} from "node:fs";
import { join, sep } from "node:path";
import { test } from "node:test";
import {
  cleanEnvironment,
  root,
  seeded,
  temporaryFolder
} from "../support/support.ts";

const {
  PLANT_TEST_MUTANTS = "40",
  PLANT_TEST_MUTANTS_OF = "",
  PLANT_TEST_MUTANTS_SEED = "1",
  PLANT_TEST_SLOWNESS = "1"
} = process.env;

/** The share that may survive: some changes make no difference, as that of a pause. */
const shareMax = 0.2;

/** What is changed, and into what. A statement alone on its line is left out. */
const changes: readonly (readonly [from: RegExp, to: string])[] = [
  [/ === /g, " !== "],
  [/ !== /g, " === "],
  [/ < /g, " <= "],
  [/ <= /g, " < "],
  [/ > /g, " >= "],
  [/ >= /g, " > "],
  [/ && /g, " || "],
  [/ \|\| /g, " && "],
  [/ \+ /g, " - "],
  [/ - /g, " + "],
  [/\bif \(/g, "if (!"],
  [/\btrue\b/g, "false"],
  [/\bfalse\b/g, "true"],
  [/(?<=[ (])\d[\d_]*(?=[,;)])/g, "7"],
  [/^ +(?:await )?(?:this\.)?#?[\w.#]+\([^()]*\);$/g, ""]
];

/** The folders of tests that are nearest to a folder of the source, if not the one of its name. */
const nearest: Readonly<Record<string, readonly string[]>> = {
  http: ["unit", "contract", "attack"],
  json: ["unit", "contract"],
  journal: ["unit", "durability"]
};
const others = ["unit", "contract", "program", "durability"];

/** No mutant is begun after so long. */
const minutesMax = 20;

interface Mutant {
  readonly name: string;
  readonly line: number;
  readonly before: string;
  readonly after: string;
}

/** Each change of a file that is possible, outside of comments and types. */
function mutantsOf(name: string): readonly Mutant[] {
  const lines = readFileSync(join(root, "src", name), "utf8").split("\n");
  return lines.flatMap((before, line) =>
    /^\s*(?:\/|\*|import|export \*|type|interface|meaning:)/.test(before)
      ? []
      : changes
          .flatMap(([from, to]) =>
            [...before.matchAll(from)].map(({ index, 0: { length } }) => ({
              name,
              line,
              before,
              after: before.slice(0, index) + to + before.slice(index + length)
            }))
          )
          .filter(({ after }) => after !== before)
  );
}

/** A copy of the checkout, in which mutants are built. */
function copyOfCheckout(): string {
  const folder = temporaryFolder();
  for (const name of readdirSync(root)) {
    if (["node_modules", "dist", ".git"].includes(name)) continue;
    cpSync(join(root, name), join(folder, name), {
      recursive: true,
      filter: (path) => !/[\\/](?:node_modules|\.built)$/.test(path)
    });
  }
  symlinkSync(join(root, "node_modules"), join(folder, "node_modules"));
  return folder;
}

/** Builds the program and the tests; what the compiler finds. */
function compile(folder: string): string {
  const { status, stdout } = spawnSync(
    "npm run --silent build && npx tsc --project test",
    { cwd: folder, shell: true, encoding: "utf8" }
  );
  return status === 0 ? "" : `the compiler: ${stdout.split("\n")[0]}`;
}

/**
 * Runs the tests of some folders until the first one fails; its name. Tests that take longer than the
 * patience have failed, too: a mutant may be an endless loop.
 */
async function firstFailure(
  folder: string,
  folders: readonly string[],
  patienceMillis: number
): Promise<string> {
  const files = folders.flatMap((each) =>
    readdirSync(join(root, "test", each))
      .filter((name) => name.endsWith(".test.ts"))
      .map((name) =>
        join("test/.built/test", each, name.replace(/\.ts$/, ".js"))
      )
  );
  const child = spawn(
    process.execPath,
    ["--test", "--test-reporter=tap", "--test-concurrency=4", ...files],
    {
      cwd: folder,
      // Without the variables of the runner that runs this test, beside whose files it runs.
      env: cleanEnvironment({
        PLANT_TEST_SLOWNESS: `${3 * Number(PLANT_TEST_SLOWNESS)}`
      }),
      detached: true,
      stdio: ["ignore", "pipe", "ignore"]
    }
  );
  const { pid: group = 0 } = child;
  let found = "";
  const end = (what: string): void => {
    found ||= what;
    process.kill(-group, "SIGKILL");
  };
  const timer = setTimeout(() => end("no end"), patienceMillis);
  let text = "";
  child.stdout.setEncoding("utf8").on("data", (more: string) => {
    text += more;
    const [failed] = /^ *not ok .*$/m.exec(text) ?? [];
    if (failed !== undefined) end(failed.trim());
  });
  const code = await new Promise((resolve) => child.once("close", resolve));
  clearTimeout(timer);
  const passed = text.match(/^ok /gm)?.length ?? 0;
  return (
    found ||
    (code === 0 && passed > 20 ? "" : `exit code ${code}, ${passed} passed`)
  );
}

function foldersFor(name: string): readonly string[] {
  const [folder = ""] = name.split(sep);
  const isNamed = existsSync(join(root, "test", folder));
  return nearest[folder] ?? (isNamed ? [folder] : others);
}

const all = readdirSync(join(root, "src"), {
  recursive: true,
  encoding: "utf8"
})
  .filter((name) => name.endsWith(".ts"))
  .filter((name) => name.startsWith(PLANT_TEST_MUTANTS_OF))
  .sort()
  .flatMap(mutantsOf);

/** How long the tests take with the source as it is, on this machine, now. */
let quietMillis = 0;

test("the control: the tests pass with the source as it is", async () => {
  const folder = copyOfCheckout();
  const begin = performance.now();
  assert.equal(compile(folder), "");
  assert.equal(await firstFailure(folder, others, minutesMax * 60_000), "");
  quietMillis = performance.now() - begin;
});

test(`of ${PLANT_TEST_MUTANTS} mutants at most ${shareMax * 100} % survive`, async (t) => {
  const below = seeded(Number(PLANT_TEST_MUTANTS_SEED));
  const folder = copyOfCheckout();
  const end = performance.now() + minutesMax * 60_000;
  const survivors: string[] = [];
  let tried = 0;
  while (tried < Number(PLANT_TEST_MUTANTS) && performance.now() < end) {
    const mutant = all[below(all.length)] ?? assert.fail("there are mutants");
    const { name, line, before, after } = mutant;
    const path = join(folder, "src", name);
    const text = readFileSync(path, "utf8");
    writeFileSync(path, text.split("\n").with(line, after).join("\n"));
    const caught =
      compile(folder) ||
      (await firstFailure(folder, foldersFor(name), 3 * quietMillis + 60_000));
    writeFileSync(path, text);
    tried++;
    const what = `src/${name}:${line + 1}: ${after.trim() || `without ${before.trim()}`}`;
    console.error(`${what}: ${caught || "survives"}`);
    if (caught === "") survivors.push(what);
  }
  t.diagnostic(`${survivors.length} of ${tried} mutants survive`);

  // One of three is no share: a mutant may equal the source, or need a tool that is absent here.
  assert.ok(
    survivors.length <= Math.max(1, shareMax * tried),
    `${survivors.length} of ${tried} survive:\n${survivors.join("\n")}`
  );
});
