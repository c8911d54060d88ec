/** The program in one file, and as a single executable, by the commands of the README. */
import assert from "node:assert/strict";
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { assertServes, bundled, nodes, runRecipe } from "../support/recipes.ts";
import { root } from "../support/support.ts";

const folder = bundled();

for (const { path, version } of nodes) {
  test(`one CommonJS file by esbuild serves plants on Node ${version}`, async (t) => {
    const file = join(folder, "plant-store.cjs");
    t.diagnostic(`${statSync(file).size} bytes`);
    await assertServes(path, file);
  });
}

test("the README says how large the one file is, within a tenth", () => {
  const readme = readFileSync(join(root, "src/program/README.md"), "utf8");
  const [, kilobytes = ""] = /one CommonJS file of about (\d+) KB/.exec(readme) ?? [];
  const { size } = statSync(join(folder, "plant-store.cjs"));
  assert.ok(Math.abs(size - Number(kilobytes) * 1_000) < size / 10, `${size} bytes`);
});

const able = nodes.find(({ major }) => major >= 26);
const reason = able ? false : "no Node 26 among this one and PLANT_TEST_NODES";
if (reason) console.error(`bundle.test.ts: skipped: ${reason}`);
test("node --build-sea makes an executable that serves plants", { skip: reason }, async (t) => {
  runRecipe("executable", folder, able?.path ?? "");
  const file = join(folder, "plant-store");
  t.diagnostic(`${statSync(file).size} bytes, of Node ${able?.version}`);
  await assertServes(file);
});
