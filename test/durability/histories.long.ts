/** Every history with two faults, by what an operator does between the lives. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { explore, operators, type Operator } from "../support/histories.ts";
import { SimulatedDisk } from "../support/simdisk.ts";

for (const operator of Object.keys(operators) as Operator[])
  test(`no history with two faults, in which an operator ${operator}, loses, doubles or refuses an acknowledged plant`, async (t) => {
    const make = () => new SimulatedDisk();
    const { count, violation } = await explore({ make }, 2, [operator]);
    assert.equal(violation, undefined);
    t.diagnostic(`${count} histories`);
  });
