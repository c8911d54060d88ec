/** An opening loses nothing of what another process writes meanwhile, in spite of all locks. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { JournalError } from "../../src/journal/error.ts";
import type { Disk } from "../../src/journal/files.ts";
import { openJournal } from "../support/journals.ts";
import { SimulatedDisk } from "../support/simdisk.ts";

/** A journal of three batches of two, as the program writes it. */
const journalPath = "/plants.ndjson";
/** A window of keys that is made in no time: a journal is opened thousands of times. */
const limits = { keysBytesMax: 4096 };
const whole = await (async () => {
  const disk = new SimulatedDisk();
  const journal = await openJournal(journalPath, { disk, limits });
  for (let batch = 0n; batch < 3n; batch++) {
    await Promise.all(
      ["Fern", "Moss"].map((name) => journal.append({ id: batch, name }))
    );
  }
  await journal.close();
  return disk.bytes(journalPath) ?? assert.fail();
})();

/** The calls of an opening, with a step before each but the truncation, which comes with the look
 * at the size before it. */
function between<T extends object>(target: T, step: () => void): T {
  return new Proxy(target, {
    get(_, name) {
      const member: unknown = Reflect.get(target, name);
      if (typeof member !== "function") return member;
      return (...given: unknown[]): unknown => {
        if (name !== "truncate") step();
        const result: unknown = member.apply(target, given);
        return name === "open" && typeof result === "object" && result
          ? between(result, step)
          : result;
      };
    }
  });
}

const last = whole.lastIndexOf("\n", -2) + 1;

for (const [says, cutAt] of [
  ["a whole line", last],
  ["the rest of a line", last + 30],
  ["an LF", whole.length - 1],
  ["the rest of a header", 50]
] as const) {
  test(`${says} that another process writes while a journal is opened is not lost`, async (t) => {
    const file = whole.subarray(0, cutAt);
    const rest = whole.subarray(cutAt);
    let acknowledged = 0;
    let refused = 0;
    for (let skip = 0, isOver = false; !isOver; skip++) {
      const disk = new SimulatedDisk();
      disk.put(journalPath, file);
      let steps = 0;
      let isAcknowledged = false;
      const intrude = (): void => {
        if (steps++ !== skip) return;
        const other = disk.open(journalPath);
        void other.append(rest);
        // As a server does, it looks at the size before it acknowledges.
        isAcknowledged = other.size() === whole.length;
      };
      const shared: Disk = between(disk, intrude);
      const outcome: unknown = await openJournal(journalPath, {
        disk: shared,
        limits
      }).then(
        (journal) => journal.close(),
        (error: unknown) => error
      );
      isOver = steps <= skip;
      if (outcome instanceof JournalError) {
        assert.equal(outcome.code, "locked", `${skip}: ${outcome.message}`);
        assert.deepEqual(
          disk.bytes(journalPath),
          whole,
          `${skip}: nothing is truncated`
        );
        if (refused++ === 0)
          assert.deepEqual(disk.names(), [journalPath], "no copy was made");
      }
      disk.restart({ bytes: true, names: true });
      if (isAcknowledged) {
        acknowledged++;
        await (await openJournal(journalPath, { disk, limits })).close();
        assert.deepEqual(
          disk.bytes(journalPath),
          whole,
          `${skip}: it is there`
        );
      }
    }
    t.diagnostic(`${acknowledged} acknowledged, ${refused} openings refused`);
    assert.ok(acknowledged > refused && refused > 0);
  });
}
