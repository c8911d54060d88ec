/**
 * The CPU time of reading a body grows linearly with it. growth.test.ts counts the steps of the
 * source instead. It does not see the time of what V8 itself does within a step: hashing names,
 * regular expressions, slices.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { JsonError, parseJson } from "../../src/json/parse.ts";
import { readNewPlant } from "../../src/plant.ts";
import { shapes } from "../support/shapes.ts";

/** The CPU time of a run, in microseconds: the least of several runs, if there is time for them. */
function costOf(run: () => void, times: number): number {
  const costs: number[] = [];
  for (
    let spent = 0;
    costs.length < times && spent < 50_000;
    spent += costs.at(-1) ?? 0
  ) {
    const start = process.cpuUsage();
    run();
    const { user, system } = process.cpuUsage(start);
    costs.push(user + system);
  }
  return Math.min(...costs);
}

/**
 * A large run against 128 small ones of the same sum: 1 where linear, up to 7 where the garbage
 * collector has its hands full, 128 where quadratic. The large run comes first, before the code is
 * optimised: a single run of each finds too much rather than too little. It is repeated then, since
 * other processes disturb the measure, too.
 */
function growthOf(work: (size: number) => () => void): number {
  const small = work(2 ** 13);
  const large = work(2 ** 20);
  const many = (): void => Array.from({ length: 128 }).forEach(small);
  let growth = Infinity;
  for (const times of [1, 10, 10, 10, 10, 10]) {
    growth = Math.min(
      growth,
      costOf(large, times) / Math.max(costOf(many, times), 1)
    );
    if (growth < growthMax) break;
  }
  return growth;
}
const growthMax = 30;

test("the measure of growth tells linear from quadratic", () => {
  const scan = (rounds: number, length: number) => (): void => {
    let sum = 0;
    for (let at = 0; at < rounds * length; at++)
      sum = (sum + (at ^ rounds)) | 0;
    assert.ok(Number.isInteger(sum));
  };
  assert.ok(
    growthOf((size) => scan(size / 64, 64)) < growthMax,
    "the linear control"
  );
  assert.ok(
    growthOf((size) => scan(size / 128, size / 128)) > growthMax,
    "the quadratic control"
  );
});

for (const [what, body] of shapes) {
  test(`time grows linearly with the body: ${what}`, () => {
    const growth = growthOf((size) => {
      const bytes = Buffer.from(body(size));
      return () => {
        try {
          readNewPlant(bytes, 512);
        } catch (error) {
          assert.ok(error instanceof JsonError);
        }
      };
    });
    assert.ok(
      growth < growthMax,
      `128 times the body costs ${growth.toFixed(0)} times 128`
    );
  });
}

test("long names of one length cost hardly more than names that are a little shorter", () => {
  const costOfNames = (length: number) => {
    const names = Array.from(
      { length: 1_024 },
      (_, index) => `"${`${index}`.padStart(length - 2, "x")}":0`
    );
    const text = `{${names.join(",")}}`;
    return costOf(() => parseJson(text, 64, []), 10);
  };
  const growth = costOfNames(16_384) / costOfNames(16_383);
  assert.ok(growth < 3, `${growth.toFixed(1)} times`);
});
