/** Every history with two faults. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { explore } from "../support/histories.ts";
import { SimulatedDisk } from "../support/simdisk.ts";

test("no history with two faults loses, doubles or refuses an acknowledged plant", async (t) => {
  const { count, violation } = await explore(() => new SimulatedDisk(), 2);
  assert.equal(violation, undefined);
  t.diagnostic(`${count} histories`);
});
