/**
 * Whatever a host hands to `append`: it settles, with a StoreError where it is not stored, and the
 * journal's file opens again.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { openJournal } from "../src/journal/journal.ts";
import { StoreError, type NewPlant } from "../src/plant.ts";
import { SimulatedDisk } from "./simdisk.ts";

const path = "/plants.ndjson";
const fern: NewPlant = { id: 1n, name: "Fern" };

/** A journal; the plants of its file, as JSON, once it is closed and has opened again. */
async function simulated() {
  const disk = new SimulatedDisk();
  const journal = await openJournal(path, { disk });
  const reopened = async (): Promise<string[]> => {
    await journal.close();
    await (await openJournal(path, { disk })).close();
    const lines = disk.bytes(path)?.toString().trimEnd().split("\n").slice(1) ?? [];
    return lines.map((line) => /"plant":(\{.*\}),"crc"/.exec(line)?.[1] ?? line);
  };
  return { journal, reopened };
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
