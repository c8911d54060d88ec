/**
 * Reading a body takes a number of steps that grows linearly with it. V8 counts how often each block
 * of the source has run: a busy machine does not change that. growth.long.ts measures the time.
 */
import assert from "node:assert/strict";
import { Session } from "node:inspector";
import { test } from "node:test";
import { shapes } from "../support/shapes.ts";

const session = new Session();
session.connect();

/** The runs of all blocks of this repository since the last call. */
function countSteps(): number {
  let steps = 0;
  session.post("Profiler.takePreciseCoverage", (error, { result }) => {
    assert.equal(error, null);
    for (const { url, functions } of result)
      if (url.startsWith("file:"))
        for (const { ranges } of functions)
          for (const { count } of ranges) steps += count;
  });
  return steps;
}

// Blocks are counted in what is compiled from here on.
session.post("Profiler.enable");
session.post("Profiler.startPreciseCoverage", {
  callCount: true,
  detailed: true
});
const { readNewPlant } = await import("../../src/plant.ts");
const { JsonError } = await import("../../src/json/parse.ts");

// V8 counts a block up to 2 ** 32: a larger body would hide what is quadratic.
const factor = 16;

/** The steps of a large run, by those of so many small ones of the same sum: 1 where linear. */
function growthOf(work: (size: number) => () => void): number {
  const small = work(2 ** 10);
  const large = work(2 ** 10 * factor);
  countSteps();
  small();
  const smallSteps = countSteps();
  large();
  return countSteps() / (factor * smallSteps);
}

const growthMax = 1.5;

test("the measure of growth tells linear from quadratic", () => {
  const scan = (rounds: number, length: number) => (): void => {
    let sum = 0;
    for (let at = 0; at < rounds * length; at++) sum ^= at;
    assert.ok(Number.isInteger(sum));
  };
  const linear = growthOf((size) => scan(size / 64, 64));
  assert.ok(linear < growthMax, `linear: ${linear}`);
  const quadratic = growthOf((size) => scan(size / 128, size / 128));
  assert.ok(quadratic > growthMax, `quadratic: ${quadratic}`);
});

for (const [what, body] of shapes) {
  test(`steps grow linearly with the body: ${what}`, () => {
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
      `it grows ${growth.toFixed(2)} times as fast`
    );
  });
}
