/** Single executables made by postject, for versions of Node without --build-sea. */
import { statSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { assertServes, bundled, nodes, runRecipe } from "../support/recipes.ts";
import { unless } from "../support/tools.ts";

const able = nodes.filter(({ major }) => major >= 22);
const reason = unless(
  able.length > 0,
  "no Node 22 or later among this one and PLANT_TEST_NODES"
);

test(
  "postject makes an executable of each Node that serves plants",
  { skip: reason },
  async (t) => {
    for (const { path, version } of able) {
      const folder = bundled();
      runRecipe(
        "injected",
        folder,
        path,
        join(import.meta.dirname, "node_modules", ".bin")
      );
      const file = join(folder, "plant-store");
      t.diagnostic(`Node ${version}: ${statSync(file).size} bytes`);
      await assertServes(file);
    }
  }
);
