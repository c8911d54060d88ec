/** The typed client of the recipes: types by openapi-typescript, requests by openapi-fetch. */
import assert from "node:assert/strict";
import {
  copyFileSync,
  readFileSync,
  symlinkSync,
  writeFileSync
} from "node:fs";
import { join } from "node:path";
import { after, test } from "node:test";
import { command, modules } from "../support/package.ts";
import { recipeOf } from "../support/recipes.ts";
import {
  root,
  startProcess,
  temporaryFolder,
  token
} from "../support/support.ts";

const here = import.meta.dirname;
const cwd = temporaryFolder();
const server = await startProcess({ cwd });
after(() => server.end());

/** The ids in the journal, with all their digits. */
const idsKept = (): readonly string[] =>
  [
    ...readFileSync(join(cwd, "plants.ndjson"), "utf8").matchAll(
      /"plant":\{"id":(-?\d+),/g
    )
  ].map(([, id = ""]) => id);

/** A project folder with files of the README and the description. */
function project(...files: readonly string[]): string {
  const folder = temporaryFolder();
  symlinkSync(join(here, "node_modules"), join(folder, "node_modules"));
  copyFileSync(
    join(root, "dist", "openapi.json"),
    join(folder, "openapi.json")
  );
  writeFileSync(join(folder, "package.json"), '{"type":"module"}');
  for (const file of files) writeFileSync(join(folder, file), recipeOf(file));
  return folder;
}

/** The errors that tsc finds in the project's client.ts. */
function compile(folder: string): readonly string[] {
  const { said } = command(
    folder,
    join(modules, ".bin", "tsc"),
    "--ignoreConfig",
    "--noEmit",
    "--strict",
    "--exactOptionalPropertyTypes",
    "--target",
    "es2022",
    "--module",
    "nodenext",
    "--types",
    "node",
    "--typeRoots",
    join(modules, "@types"),
    "--skipLibCheck",
    "client.ts"
  );
  return said.split("\n").filter((line) => line.includes("error TS"));
}

/** Runs a file against the server, with a token, and returns what it prints. */
function run(folder: string, file: string, bearer = token): string {
  const loader = join(modules, "tsx", "dist", "loader.mjs");
  const { status, said } = command(
    folder,
    "env",
    `PLANTS_URL=${server.url}`,
    `PLANTS_TOKEN=${bearer}`,
    process.execPath,
    "--import",
    loader,
    file
  );
  assert.equal(status, 0, said);
  return said;
}

test("the typed client sends every digit of an id, reads an Error, and compiles only for plants", () => {
  const folder = project("types.mts", "client.ts");
  run(folder, "types.mts");
  assert.deepEqual(compile(folder), []);
  const before = idsKept().length;
  assert.equal(run(folder, "client.ts"), "Fern\n");
  assert.deepEqual(idsKept().slice(before), ["9007199254740993"]);
  assert.equal(
    run(folder, "client.ts", "weeds"),
    "The bearer token is unknown.\n"
  );

  // The controls: a name that is not a string, and an id that is a number.
  const text = readFileSync(join(folder, "client.ts"), "utf8");
  for (const [from, to, message] of [
    ['name: "Fern"', "name: 7", /'number' is not assignable to type 'string'/],
    [
      "9007199254740993n",
      "9007199254740993",
      /'number' is not assignable to type 'bigint'/
    ]
  ] as const) {
    writeFileSync(join(folder, "client.ts"), text.replace(from, to));
    assert.match(compile(folder).join("\n"), message);
  }
});
