/** What opening does where another process writes meanwhile, in spite of all locks. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Disk } from "../../src/journal/files.ts";
import { openJournal } from "../../src/journal/journal.ts";
import { JournalError } from "../../src/journal/error.ts";
import { SimulatedDisk } from "../support/simdisk.ts";

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
        return name === "open" && typeof result === "object" && result ? between(result, step)
          : result;
      };
    },
  });
}

const path = "/plants.ndjson";
/** A header and three writes of a record each. */
const whole = await (async () => {
  const disk = new SimulatedDisk();
  const journal = await openJournal(path, { disk });
  for (const id of [1n, 2n, 3n]) await journal.append({ id, name: "Fern" });
  await journal.close();
  return disk.bytes(path) ?? assert.fail();
})();
const last = whole.lastIndexOf("\n", -2) + 1;

for (const [says, cutAt] of [
  ["a whole line", last], ["the rest of a line", last + 30], ["an LF", whole.length - 1],
  ["the rest of a header", 50],
] as const) {
  test(`${says} that another process writes while a journal is opened is not lost`, async (t) => {
    const [file, rest] = [whole.subarray(0, cutAt), whole.subarray(cutAt)];
    let [acknowledged, refused] = [0, 0];
    for (let skip = 0, isOver = false; !isOver; skip++) {
      const disk = new SimulatedDisk();
      disk.put(path, file);
      let [steps, isAcknowledged] = [0, false];
      const intrude = (): void => {
        if (steps++ !== skip) return;
        const other = disk.open(path);
        void other.append(rest);
        // As a server does, it looks at the size before it acknowledges.
        isAcknowledged = other.size() === whole.length;
      };
      const shared: Disk = between(disk, intrude);
      const outcome: unknown = await openJournal(path, { disk: shared })
        .then((journal) => journal.close(), (error: unknown) => error);
      isOver = steps <= skip;
      if (outcome instanceof JournalError) {
        assert.equal(outcome.code, "locked", `${skip}: ${outcome.message}`);
        assert.deepEqual(disk.bytes(path), whole, `${skip}: nothing is truncated`);
        refused++;
      }
      disk.restart({ bytes: true, names: true });
      if (isAcknowledged) {
        acknowledged++;
        await (await openJournal(path, { disk })).close();
        assert.deepEqual(disk.bytes(path), whole, `${skip}: it is there`);
      }
    }
    t.diagnostic(`${acknowledged} acknowledged, ${refused} openings refused`);
    assert.ok(acknowledged > refused && refused > 0);
  });
}
