/** The program in one file, and as a single executable, by the commands of the README. */
import assert from "node:assert/strict";
import { statSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { documentOf } from "../house/documents.ts";
import { assertServes, bundled, nodes, runRecipe } from "../support/recipes.ts";

const folder = bundled();
const kilobytes = Number(/file of about (\d+) KB/.exec(documentOf("src/program/README.md").text)?.[1]);

for (const { path, version } of nodes) {
  test(`one CommonJS file by esbuild serves plants on Node ${version}, of the size that the README says`, async () => {
    const file = join(folder, "plant-store.cjs");
    const { size } = statSync(file);
    assert.ok(Math.abs(size - kilobytes * 1_000) < size / 10, `the README says ${kilobytes} KB: ${size} bytes`);
    await assertServes(path, file);
  });
}

const able = nodes.find(({ major }) => major >= 26);
const reason = able ? false : "no Node 26 among this one and PLANT_TEST_NODES";
if (reason) console.error(`bundle.test.ts: skipped: ${reason}`);
test("node --build-sea makes an executable that serves plants", { skip: reason }, async (t) => {
  runRecipe("executable", folder, able?.path ?? "");
  const file = join(folder, "plant-store");
  t.diagnostic(`${statSync(file).size} bytes, of Node ${able?.version}`);
  await assertServes(file);
});
