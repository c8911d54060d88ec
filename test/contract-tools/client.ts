/** The typed client of src/http/README.md: types by openapi-typescript, requests by openapi-fetch. */
import assert from "node:assert/strict";
import { copyFileSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, test } from "node:test";
import { command, modules } from "../support/package.ts";
import { recipeOf } from "../support/recipes.ts";
import { root, start, temporaryFolder, token } from "../support/support.ts";

const here = import.meta.dirname;
const cwd = temporaryFolder();
const server = await start({ cwd });
after(() => server.end());

/** The ids in the journal, with all their digits. */
const idsKept = (): readonly string[] =>
  [...readFileSync(join(cwd, "plants.ndjson"), "utf8").matchAll(/"plant":\{"id":(-?\d+),/g)]
    .map(([, id = ""]) => id);

/** A project folder with files of the README and the description. */
function project(...files: readonly string[]): string {
  const folder = temporaryFolder();
  symlinkSync(join(here, "node_modules"), join(folder, "node_modules"));
  copyFileSync(join(root, "dist", "openapi.json"), join(folder, "openapi.json"));
  writeFileSync(join(folder, "package.json"), '{"type":"module"}');
  for (const file of files) writeFileSync(join(folder, file), recipeOf(file));
  return folder;
}

/** The errors that tsc finds in the project's client.ts. */
function compile(folder: string): readonly string[] {
  const { said } = command(folder, join(modules, ".bin", "tsc"), "--ignoreConfig", "--noEmit",
    "--strict", "--exactOptionalPropertyTypes", "--target", "es2022", "--module", "nodenext",
    "--types", "node", "--typeRoots", join(modules, "@types"), "--skipLibCheck", "client.ts");
  return said.split("\n").filter((line) => line.includes("error TS"));
}

/** Runs a file against the server and returns what it prints. */
function run(folder: string, file: string): string {
  const loader = join(modules, "tsx", "dist", "loader.mjs");
  const { status, said } = command(folder, "env", `PLANTS_URL=${server.url}`,
    `PLANTS_TOKEN=${token}`, process.execPath, "--import", loader, file);
  assert.equal(status, 0, said);
  return said;
}

test("the typed client posts plants, and JavaScript rounds an id beyond 2^53", () => {
  const folder = project("client.ts");
  const made = command(folder, "sh", "-ec", recipeOf("types"));
  assert.equal(made.status, 0, made.said);
  assert.deepEqual(compile(folder), []);
  const before = idsKept().length;
  assert.match(run(folder, "client.ts"), /^Fern\n.* unknown/);
  assert.deepEqual(idsKept().slice(before), ["9007199254740992"], "it was written as ...993");

  // The control: a name that is not a string does not compile.
  const text = readFileSync(join(folder, "client.ts"), "utf8");
  writeFileSync(join(folder, "client.ts"), text.replace('name: "Fern"', "name: 7"));
  assert.match(compile(folder).join("\n"), /'number' is not assignable to type 'string'/);
});

test("with bigint types and a serializer of one line, every digit of the id arrives", () => {
  const folder = project("types.mts");
  run(folder, "types.mts");
  const text = recipeOf("client.ts").replace(/const \{ data \}[^]*/, () => recipeOf("exact.ts"));
  writeFileSync(join(folder, "client.ts"), text);
  assert.deepEqual(compile(folder), []);
  const before = idsKept().length;
  assert.equal(run(folder, "client.ts"), "Fern\n");
  assert.deepEqual(idsKept().slice(before), ["9007199254740993"]);

  // The control: an id that is a number does not compile.
  writeFileSync(join(folder, "client.ts"), text.replace("9007199254740993n", "9007199254740993"));
  assert.match(compile(folder).join("\n"), /'number' is not assignable to type 'bigint'/);
});
