/** What a journal tells of itself: its figures, and an event for each batch. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { inspect } from "node:util";
import { setImmediate } from "node:timers/promises";
import { openJournal } from "../../src/journal/journal.ts";
import { type NewPlant } from "../../src/plant.ts";
import { SimulatedDisk } from "../support/simdisk.ts";
import { appendJson } from "../../src/store.ts";

const path = "/plants.ndjson";
const headerBytes = 133;
const fern: NewPlant = { id: 1n, name: "Fern" };
const fernBytes = '{"id":1,"name":"Fern"}'.length;
const ENOSPC = 28;

test("the figures are those of the file, and of what waits or is being written", async () => {
  const disk = new SimulatedDisk();
  const journal = await openJournal(path, { disk });
  const nothing = { records: 0, bytes: 0 };
  assert.deepEqual(journal.stats, { records: 0, bytes: headerBytes, queue: nothing });
  const begun = disk.hold();
  const first = journal.append(fern);
  await begun;
  const second = journal.append(fern);
  assert.deepEqual(journal.stats,
    { records: 0, bytes: headerBytes, queue: { records: 2, bytes: 2 * fernBytes } });
  disk.letGo();
  await Promise.all([first, second]);
  const bytes = disk.bytes(path)?.length;
  assert.deepEqual(journal.stats, { records: 2, bytes, queue: nothing });
  await journal.close();
  const again = await openJournal(path, { disk });
  assert.deepEqual(again.stats, { records: 2, bytes, queue: nothing });
  await again.close();
});

test("the time of a batch is that of its write: not of who waits for the answer", async () => {
  const disk = new SimulatedDisk();
  const journal = await openJournal(path, { disk });
  const told = new Promise<number>((resolve) => {
    journal.once("batch", (_, millis) => resolve(millis));
  });
  const begun = performance.now();
  journal[appendJson].append('{"id":1,"name":"Fern"}', () => {
    // As who computes for that long.
    while (performance.now() < begun + 200);
  });
  const millis = await told;
  assert.ok(millis < performance.now() - begun - 100, `${millis}`);
  await journal.close();
});

test("a batch is told when it is durable, one that found no space as that, a failure as neither",
  async () => {
    const disk = new SimulatedDisk();
    const journal = await openJournal(path, { disk });
    const told: string[] = [];
    journal.on("batch", (records, millis) => {
      assert.ok(millis >= 0 && Number.isFinite(millis), `${millis}`);
      assert.equal(journal.stats.queue.records, 0);
      told.push(`batch of ${records}`);
    });
    journal.on("full", () => void told.push("full"));
    journal.on("failed", () => void told.push("failed"));
    await Promise.all([journal.append(fern), journal.append(fern), journal.append(fern)]);
    disk.fail("append", { errno: ENOSPC });
    await assert.rejects(journal.append(fern), { code: "full" });
    await journal.append(fern);
    disk.fail("append", { errno: 5 });
    await assert.rejects(journal.append(fern), { code: "unknown" });
    await setImmediate();
    assert.deepEqual([told, disk.faultsFired],
      [["batch of 3", "full", "batch of 1", "failed"], 2]);
    await journal.close();
  });

test("an inspected journal shows no plant, neither waiting nor written", async () => {
  const disk = new SimulatedDisk();
  const journal = await openJournal(path, { disk });
  const shown = (): string => inspect(journal, { depth: Infinity, showHidden: true })
    + JSON.stringify(journal) + String(journal);
  const begun = disk.hold();
  const appends = [1n, 2n].map((id) => journal.append({ id, name: "s3cret" }));
  await begun;
  assert.equal(journal.stats.queue.records, 2, "the control: it holds them");
  assert.doesNotMatch(shown(), /s3cret/);
  disk.letGo();
  await Promise.all(appends);
  assert.doesNotMatch(shown(), /s3cret/);
  await journal.close();
});
