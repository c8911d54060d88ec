/** Prettier: the layout of src is what `.prettierrc.json` makes of it. */
import assert from "node:assert/strict";
import { cpSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { command } from "../support/package.ts";
import { root, temporaryFolder } from "../support/support.ts";

const check = (folder: string) =>
  command(
    folder,
    join(import.meta.dirname, "node_modules", ".bin", "prettier"),
    "--check",
    "src/**/*.ts"
  );

test("every file of src is laid out by Prettier: run it with --write where it is not", () => {
  const { status, said } = check(root);
  assert.equal(status, 0, said);
  assert.match(said, /All matched files use Prettier/);
});

test("the control: a line that is too long for Prettier is found", () => {
  const folder = temporaryFolder();
  cpSync(join(root, ".prettierrc.json"), join(folder, ".prettierrc.json"));
  cpSync(join(root, "src"), join(folder, "src"), { recursive: true });
  const path = join(folder, "src", "plant.ts");
  writeFileSync(path, readFileSync(path, "utf8").replaceAll(/,\n\s+/g, ", "));
  const { status, said } = check(folder);
  assert.equal(status, 1, said);
  assert.match(said, /plant\.ts/);
});
