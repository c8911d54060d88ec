/** The limits that an embedder may set: each within its bounds, and no other name. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { limitsWith, limitTable, type Limits } from "../../src/config.ts";
import { createPlantServer, openJournal } from "../../src/index.ts";
import { temporaryFolder } from "../support/support.ts";
import { HeldStore } from "../support/serving.ts";

/** headMillis must not exceed requestMillis. With these, each of the two may have any value. */
const apart = {
  headMillis: limitTable.headMillis.min, requestMillis: limitTable.requestMillis.max,
};

for (const [name, { min, max, unit }] of Object.entries(limitTable)) {
  test(`${name} is a whole number from ${min} to ${max}, or a RangeError`, () => {
    for (const value of [min, max]) {
      assert.equal(limitsWith({ ...apart, [name]: value })[name as keyof Limits], value);
    }
    const message = `${name} must be a whole number of ${unit}, ${min} to ${max}`;
    for (const value of [min - 1, max + 1, min + 0.5, NaN, `${min}`, BigInt(min), undefined]) {
      assert.throws(() => limitsWith({ ...apart, [name]: value }), { name: "RangeError", message });
    }
  });
}

test("headMillis may equal requestMillis, and a millisecond more is a RangeError", () => {
  assert.equal(limitsWith({ headMillis: 500, requestMillis: 500 }).headMillis, 500);
  assert.throws(() => limitsWith({ headMillis: 501, requestMillis: 500 }), RangeError);
});

test("an unknown name of a limit is a RangeError", async () => {
  const path = join(temporaryFolder(), "plants.ndjson");
  for (const name of ["maxBody", "bodyBytes", "BodyBytesMax", "toString", "__proto__", ""]) {
    const limits: Partial<Limits> = Object.fromEntries([[name, 1]]);
    const expected = { name: "RangeError", message: new RegExp(`^there is no limit ${name}; the limits are bodyBytesMax, headBytesMax, .* drainMillis$`) };
    assert.throws(() => limitsWith(limits), expected);
    const options = { store: new HeldStore(), tokens: ["a"], limits };
    assert.throws(() => createPlantServer(options), expected);
    await assert.rejects(openJournal(path, { limits }), expected);
  }
});

test("limits have the table's defaults, and are frozen", () => {
  const defaultValue = Object.entries(limitTable).map(([name, limit]) => [name, limit.defaultValue]);
  assert.deepEqual(limitsWith(), Object.fromEntries(defaultValue));
  assert.ok(Object.isFrozen(limitsWith({ bodyBytesMax: 7 })));
});

test("a limit that is a getter is read once", () => {
  let reads = 0;
  const fickle = { get bodyBytesMax(): number { return ++reads; } };
  assert.deepEqual([limitsWith(fickle).bodyBytesMax, reads], [1, 1]);
});
