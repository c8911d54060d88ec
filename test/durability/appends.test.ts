/**
 * Whatever a host hands to `append`, and whatever keeps a batch from becoming lines: every append
 * settles, with a StoreError where it is not stored, and the journal's file opens again.
 */
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { openJournal } from "../../src/journal/journal.ts";
import { JournalError } from "../../src/journal/open.ts";
import { StoreError, type NewPlant } from "../../src/plant.ts";
import { SimulatedDisk } from "../support/simdisk.ts";

const path = "/plants.ndjson";
const fern: NewPlant = { id: 1n, name: "Fern" };

/** A journal; the plants of its file, as JSON, once it is closed and has opened again. */
async function simulated() {
  const disk = new SimulatedDisk();
  const warnings: string[] = [];
  const warn = (message: string): void => void warnings.push(message);
  const journal = await openJournal(path, { disk, warn });
  const reopened = async (): Promise<string[]> => {
    await journal.close();
    await (await openJournal(path, { disk })).close();
    const lines = disk.bytes(path)?.toString().trimEnd().split("\n").slice(1) ?? [];
    return lines.map((line) => /"plant":(\{.*\}),"crc"/.exec(line)?.[1] ?? line);
  };
  return { journal, reopened, warnings };
}

/** "stored", or the StoreError's code. */
const outcome = (stored: Promise<void>): Promise<string> =>
  stored.then(() => "stored", (error: unknown) =>
    error instanceof StoreError ? error.code : String(error));

const revoked = Proxy.revocable({}, {});
revoked.revoke();

const noPlants: readonly (readonly [says: string, plant: unknown])[] = [
  ["null", null],
  ["undefined", undefined],
  ["a number", 7],
  ["text", "Fern"],
  ["an array", []],
  ["a getter that throws", { id: 1n, get name() { throw new Error("boom"); } }],
  ["a revoked proxy", revoked.proxy],
  ["a name that is a String object", { id: 1n, name: Object("Fern") as unknown }],
];

for (const [says, plant] of noPlants) {
  test(`append of ${says} rejects with a StoreError, and nothing is written`, async () => {
    const { journal, reopened } = await simulated();
    assert.equal(await outcome(journal.append(plant as NewPlant)), "invalid");
    assert.equal(await outcome(journal.append(fern)), "stored");
    assert.deepEqual(await reopened(), ['{"id":1,"name":"Fern"}']);
  });
}

test("what a getter throws is the StoreError's cause", async () => {
  const { journal } = await simulated();
  const boom = new Error("boom");
  const plant: NewPlant = { id: 1n, get name(): string { throw boom; } };
  await assert.rejects(journal.append(plant), { name: "StoreError", cause: boom });
  await journal.close();
});

/** A plant whose member is one value when it is first read, and another ever after. */
function fickle(member: keyof NewPlant, first: unknown, later: unknown): NewPlant {
  let reads = 0;
  const get = (): unknown => (reads++ === 0 ? first : later);
  return Object.defineProperty({ id: 1n, name: "Fern", tag: "shade" }, member, { get }) as NewPlant;
}

const fickles: readonly (readonly [says: string, plant: NewPlant, written: string])[] = [
  ["an id that becomes text", fickle("id", 7n, '7,"name":"","x":'),
    '{"id":7,"name":"Fern","tag":"shade"}'],
  ["an id that leaves int64", fickle("id", 7n, 2n ** 64n),
    '{"id":7,"name":"Fern","tag":"shade"}'],
  ["a name that becomes half of a pair", fickle("name", "Moss", "\ud800"),
    '{"id":1,"name":"Moss","tag":"shade"}'],
  ["a name that becomes nothing", fickle("name", "Moss", undefined),
    '{"id":1,"name":"Moss","tag":"shade"}'],
  ["a tag that becomes an object", fickle("tag", "sun", { toJSON: () => 1 }),
    '{"id":1,"name":"Fern","tag":"sun"}'],
  ["a tag that appears", fickle("tag", undefined, 7), '{"id":1,"name":"Fern"}'],
];

for (const [says, plant, written] of fickles) {
  test(`what was checked is what is written, and opens again: ${says}`, async () => {
    const { journal, reopened } = await simulated();
    assert.equal(await outcome(journal.append(plant)), "stored");
    assert.deepEqual(await reopened(), [written]);
  });
}

/** What can keep a batch from becoming lines; the next one becomes them. */
const obstacles: readonly (readonly [says: string, arrange: (t: TestContext) => () => void])[] = [
  ["a clock that has no time", (t) => {
    const clock = t.mock.method(Date.prototype, "toISOString", () => {
      throw new RangeError("Invalid time value");
    });
    return () => clock.mock.restore();
  }],
  ["a clock in the year 10000", (t) => {
    t.mock.timers.enable({ apis: ["Date"], now: Date.UTC(10_000, 0) });
    return () => t.mock.timers.reset();
  }],
  ["no memory for the batch's bytes", (t) => {
    const from = Buffer.from.bind(Buffer) as (text: string) => Buffer;
    const memory = t.mock.method(Buffer, "from", (text: string) => {
      if (String(text).startsWith('{"seq"')) throw new RangeError("Array buffer allocation failed");
      return from(text);
    });
    return () => memory.mock.restore();
  }],
];

for (const [says, arrange] of obstacles) {
  test(`${says}: every append of the batch settles, and the journal goes on`, async (t) => {
    const { journal, reopened, warnings } = await simulated();
    journal.on("failed", (error: JournalError) => assert.fail(error));
    const remove = arrange(t);
    const refused = await Promise.all([1n, 2n, 3n].map((id) =>
      outcome(journal.append({ id, name: "" }))));
    assert.deepEqual(refused, Array(3).fill("unknown"));
    assert.equal(warnings.length, 1, "the operator is told, once for the batch");
    assert.match(warnings.join(), /^\/plants\.ndjson: 3 plants are not stored: \w/);
    remove();
    assert.equal(await outcome(journal.append({ id: 4n, name: "" })), "stored");
    assert.deepEqual(await reopened(), ['{"id":4,"name":""}']);
  });
}
