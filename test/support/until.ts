/** How long tests wait: as long as the machine needs, and no longer. */
import assert from "node:assert/strict";
import {
  setImmediate as turn,
  setTimeout as pause
} from "node:timers/promises";

/** How many times slower than an idle machine this one is: quick.mjs and long.mjs measure it. */
const slowness = Number(process.env["PLANT_TEST_SLOWNESS"] ?? 1);

/** A test's own limit in milliseconds, which is so many seconds on an idle machine. */
export const seconds = (count: number): number =>
  Math.round(count * 1_000 * slowness);

/** Waits until a condition holds, and fails after a minute of an idle machine. */
export async function until(
  what: string,
  condition: () => Promise<boolean> | boolean
): Promise<void> {
  // Tests replace other clocks.
  const giveUpAt = process.uptime() + seconds(60) / 1_000;
  for (let turns = 0; !(await condition()); turns++) {
    assert.ok(process.uptime() < giveUpAt, `waited in vain until ${what}`);
    // What this process does by itself takes few turns; another process needs the processor.
    await (turns < 100 ? turn() : pause(5));
  }
}
