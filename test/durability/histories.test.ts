/**
 * Every history with one fault, and the broken programs that it finds: each of them loses, doubles
 * or refuses an acknowledged plant, or says of one what is not true. The long tests have every
 * history with two faults.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { brokenPrograms, removingMarks } from "../support/broken.ts";
import { explore } from "../support/histories.ts";
import { SimulatedDisk } from "../support/simdisk.ts";

test("no history with one fault loses, doubles or refuses an acknowledged plant", async (t) => {
  const make = () => new SimulatedDisk();
  const { count, violation } = await explore({ make }, 1);
  assert.equal(violation, undefined);
  t.diagnostic(`${count} histories`);
});

test("nor does one where marks fit every state of a file, because they are removed before a write", async () => {
  const subject = { make: removingMarks };
  const { violation } = await explore(subject, 1, ["does nothing"]);
  assert.equal(violation, undefined);
});

for (const { says, subject, operator } of brokenPrograms)
  test(`histories with one fault find ${says}`, async (t) => {
    const { count, violation } = await explore(subject, 1, [operator]);
    assert.ok(violation);
    t.diagnostic(`history ${count}: ${violation}`);
  });
