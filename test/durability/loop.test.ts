/** The journal's one loop: what a write takes, what wakes it, and what ends it for good. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { test } from "node:test";
import { setImmediate } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import type { Limits } from "../../src/config.ts";
import { openJournal, type Journal } from "../../src/journal/journal.ts";
import { plantText, recordText } from "../../src/journal/record.ts";
import { type NewPlant } from "../../src/plant.ts";
import { SimulatedDisk } from "../support/simdisk.ts";
import { root, temporaryFolder } from "../support/support.ts";
import { StoreError } from "../../src/store.ts";

const path = "/plants.ndjson";
const fern: NewPlant = { id: 1n, name: "Fern" };
const [EIO, ENOSPC] = [5, 28];

async function simulated(limits: Partial<Limits> = {}) {
  const disk = new SimulatedDisk();
  const journal = await openJournal(path, { disk, limits });
  disk.calls.length = 0;
  return { disk, journal, writes: () => disk.calls.filter((call) => call === "append").length };
}

/** What became of each: "stored", or the StoreError's code. */
const append = (journal: Journal, ...plants: readonly NewPlant[]): Promise<string[]> =>
  Promise.all(plants.map((plant) => journal.append(plant).then(() => "stored", (error: unknown) =>
    error instanceof StoreError ? error.code : String(error))));

/** A plant whose JSON has so many bytes. */
const plantOf = (bytes: number): NewPlant =>
  ({ id: 1n, name: "a".repeat(bytes - plantText({ id: 1n, name: "" }).length) });

test("what the event loop still delivers joins the write, while it is half as much", async () => {
  const { journal, writes } = await simulated();
  const outcomes: Promise<string[]>[] = [];
  for (const count of [1, 2, 4, 8, 1]) {
    outcomes.push(append(journal, ...Array<NewPlant>(count).fill(fern)));
    await setImmediate();
  }
  assert.deepEqual(new Set((await Promise.all(outcomes)).flat()), new Set(["stored"]));
  assert.equal(writes(), 1);
  await append(journal, fern);
  assert.equal(writes(), 2, "the control");
  await journal.close();
});

test("a batch keeps its limit where a record's number gets a digit more", async () => {
  for (const [batchBytesMax, expected] of [[1024, 2], [1026, 1]] as const) {
    const { disk, journal, writes } = await simulated({ batchBytesMax });
    for (let seq = 1; seq < 9; seq++) await append(journal, fern);
    const end = disk.bytes(path)?.length ?? 0;
    const lineOf = (seq: number): number =>
      recordText(seq, new Date(0).toISOString(), end, "").length;
    // Records 9 and 10 have 1,025 bytes together. Each is reckoned to be as long as with the
    // longer number: one byte more.
    const room = 1025 - lineOf(9) - lineOf(10);
    const before = writes();
    const plants = [plantOf(500), plantOf(room - 500)];
    assert.deepEqual(await append(journal, ...plants), ["stored", "stored"]);
    assert.equal(writes() - before, expected);
    await journal.close();
  }
});

test("bytes that are settled make room: the queue's limit is met again and again", async () => {
  const { journal } = await simulated({ queueBytesMax: 1024 });
  const plants = [plantOf(1000), plantOf(24), plantOf(24)];
  for (let times = 0; times < 3; times++) {
    assert.deepEqual(await append(journal, ...plants), ["stored", "stored", "busy"]);
  }
  await journal.close();
});

test("a renamed file waits for its rotation as long as it may, and no longer", async () => {
  const { disk, journal } = await simulated({ rotationMillis: 60_000 });
  disk.rename(path, `${path}.1`);
  let isSettled = false;
  const stored = append(journal, fern).finally(() => { isSettled = true; });
  // It is written, and its path looked at: from there on it waits.
  while (!disk.calls.includes("look")) await setImmediate();
  for (let turns = 0; turns < 100; turns++) await setImmediate();
  assert.equal(isSettled, false);
  assert.equal(await journal.rotate(), true);
  assert.deepEqual(await stored, ["stored"]);
  assert.match(String(disk.bytes(`${path}.1`)), /"seq":1,/);
  assert.doesNotMatch(String(disk.bytes(path)), /"seq"/);
  await journal.close();
});

test("a plant that waits while a rotation is asked for goes to the new file", async () => {
  const { disk, journal } = await simulated();
  const begun = disk.hold();
  const first = append(journal, fern);
  await begun;
  disk.rename(path, `${path}.1`);
  const second = append(journal, { id: 2n, name: "" });
  const rotated = journal.rotate();
  disk.letGo();
  assert.deepEqual([await first, await rotated, await second], [["stored"], true, ["stored"]]);
  assert.match(String(disk.bytes(`${path}.1`)), /"id":1,/);
  assert.match(String(disk.bytes(path)), /"seq":1,.*"id":2,/);
  await journal.close();
});

test("no space, and another has written behind the end: nothing is cut, it is final", async () => {
  const { disk, journal } = await simulated();
  const before = disk.bytes(path)?.length ?? 0;
  void disk.hold();
  const other = disk.open(path).append(Buffer.from("another's".repeat(99)));
  disk.fail("append", { errno: ENOSPC }, 1);
  const outcome = append(journal, fern, fern);
  // The journal has looked at the file, and its write waits behind the other process's.
  while (!disk.calls.includes("look")) await setImmediate();
  disk.letGo();
  await other;
  assert.deepEqual(await outcome, ["unknown", "unknown"]);
  assert.deepEqual([disk.faultsFired, disk.bytes(path)?.length], [1, before + 9 * 99]);
  assert.deepEqual(await append(journal, fern), ["unknown"]);
  await journal.close();
});

test("a file that can't be looked at any more is not rotated away: it is final", async () => {
  const { disk, journal } = await simulated();
  const failures: string[] = [];
  journal.on("failed", ({ code }) => failures.push(code));
  disk.rename(path, `${path}.1`);
  disk.fail("look", { errno: EIO });
  assert.equal(await journal.rotate(), false);
  assert.deepEqual(await append(journal, fern), ["unknown"]);
  assert.deepEqual([disk.faultsFired, disk.names(), failures], [1, [`${path}.1`], ["failed"]]);
  await journal.close();
});

test("a failed journal that is closed says that it has failed", async () => {
  const { disk, journal } = await simulated();
  disk.fail("append", { errno: EIO });
  assert.deepEqual(await append(journal, fern), ["unknown"]);
  await journal.close();
  assert.deepEqual(await append(journal, fern), ["unknown"]);
  assert.equal(await journal.rotate(), false);
});

test("a listener of the failure that throws keeps nobody from closing", () => {
  const script = `
    import { rmSync } from "node:fs";
    import { openJournal } from ${JSON.stringify(pathToFileURL(join(root, "dist", "index.js")))};
    process.on("uncaughtException", (error) => console.log(error.message));
    const journal = await openJournal("plants.ndjson");
    journal.on("failed", () => { throw new Error("a listener's"); });
    rmSync("plants.ndjson");
    await journal.append({ id: 1n, name: "" }).catch(({ code }) => console.log(code));
    await journal.close();
    console.log("closed");`;
  const told = execFileSync(process.execPath, ["--input-type=module", "--eval", script],
    { cwd: temporaryFolder(), encoding: "utf8", timeout: 60_000 });
  assert.deepEqual(told.trimEnd().split("\n").sort(), ["a listener's", "closed", "unknown"]);
});
