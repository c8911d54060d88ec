/** The package, in the eyes of publint and of "Are the types wrong?". */
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { command, pack } from "../support/package.ts";
import { temporaryFolder } from "../support/support.ts";

const tool = (name: string): string => join(import.meta.dirname, "node_modules", ".bin", name);
const folder = temporaryFolder();
const unpacked = join(folder, "package");
const file = pack();
assert.equal(command(folder, "tar", "-xzf", file).status, 0);

/** The same package with other exports: where it is. */
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

test("publint finds nothing, not even to suggest", () => {
  const { status, said } = publint(unpacked);
  assert.equal(status, 0, said);
  assert.match(said, /All good!/);
});

test("the control: publint finds an export that is not there", () => {
  const { status, said } = publint(join(withExports({ "./x": "./dist/x.js" }), "package"));
  assert.equal(status, 1);
  assert.match(said, /does not exist/);
});

const attw = (path: string) => command(folder, tool("attw"), path, "--profile", "esm-only");

test("the types are right for whoever imports it", () => {
  const { status, said } = attw(file);
  assert.equal(status, 0, said);
  assert.match(said, /node16 \(from ESM\).*🟢/);
});

test("the control: types that are not there are seen", () => {
  const other = withExports({ ".": "./dist/none.js" });
  assert.equal(command(other, "tar", "-czf", "other.tgz", "package").status, 0);
  assert.equal(attw(join(other, "other.tgz")).status, 1);
});
