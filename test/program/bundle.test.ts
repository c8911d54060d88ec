/** The program in one file, and as a single executable, by the commands of the README. */
import { statSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { assertServes, bundled, nodes, runRecipe } from "../support/recipes.ts";

const folder = bundled();

for (const { path, version } of nodes) {
  test(`one CommonJS file by esbuild serves plants on Node ${version}`, async (t) => {
    const file = join(folder, "plant-store.cjs");
    t.diagnostic(`${statSync(file).size} bytes`);
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
