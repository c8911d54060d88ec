/** publint and "Are the types wrong?" check the package. */
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { command, pack } from "../support/package.ts";
import { temporaryFolder } from "../support/support.ts";

const tool = (name: string): string =>
  join(import.meta.dirname, "node_modules", ".bin", name);
const folder = temporaryFolder();
const unpacked = join(folder, "package");
const file = pack();
assert.equal(command(folder, "tar", "-xzf", file).status, 0);

/** Unpacks the package, changes its exports, and returns the folder. */
function withExports(exports: object): string {
  const other = temporaryFolder();
  assert.equal(command(other, "tar", "-xzf", file).status, 0);
  const path = join(other, "package", "package.json");
  const manifest = JSON.parse(readFileSync(path, "utf8"));
  Object.assign(manifest.exports, exports);
  writeFileSync(path, JSON.stringify(manifest));
  return other;
}

const publint = (path: string) =>
  command(path, tool("publint"), "run", ".", "--strict", "--pack", "false");

test("publint finds no error, warning or suggestion", () => {
  const { status, said } = publint(unpacked);
  assert.equal(status, 0, said);
  assert.match(said, /All good!/);
});

test("the control: publint finds an export without a file", () => {
  const { status, said } = publint(
    join(withExports({ "./x": "./dist/x.js" }), "package")
  );
  assert.equal(status, 1);
  assert.match(said, /does not exist/);
});

const attw = (path: string) =>
  command(folder, tool("attw"), path, "--profile", "esm-only");

test('"Are the types wrong?" finds the types of each import', () => {
  const { status, said } = attw(file);
  assert.equal(status, 0, said);
  assert.match(said, /node16 \(from ESM\).*🟢/);
});

test("the control: types without a file are found", () => {
  const other = withExports({ ".": "./dist/none.js" });
  assert.equal(command(other, "tar", "-czf", "other.tgz", "package").status, 0);
  assert.equal(attw(join(other, "other.tgz")).status, 1);
});
