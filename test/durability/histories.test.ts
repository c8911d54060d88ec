/**
 * Every history with one fault, and the broken programs that it finds: each of them loses, doubles
 * or refuses an acknowledged plant. The long tests have every history with two faults.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { brokenPrograms } from "../support/broken.ts";
import { explore } from "../support/histories.ts";
import { SimulatedDisk } from "../support/simdisk.ts";

test("no history with one fault loses, doubles or refuses an acknowledged plant", async (t) => {
  const { count, violation } = await explore(() => new SimulatedDisk(), 1);
  assert.equal(violation, undefined);
  t.diagnostic(`${count} histories`);
});

for (const { says, make, operator, faults } of brokenPrograms)
  test(`histories with ${faults === 1 ? "one fault" : "two faults"} find ${says}`, async (t) => {
    if (faults === 2)
      assert.equal((await explore(make, 1, [operator])).violation, undefined);
    const { count, violation } = await explore(make, faults, [operator]);
    assert.ok(violation);
    t.diagnostic(`history ${count}: ${violation}`);
  });
