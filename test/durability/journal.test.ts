/**
 * Appending: one durable write for what arrives together, a true answer for each plant whatever
 * the disk does, limits to the record and the byte, rotation, and one writer.
 */
import assert from "node:assert/strict";
import { once } from "node:events";
import {
  appendFileSync, copyFileSync, linkSync, mkdirSync, readFileSync, renameSync, rmSync,
  symlinkSync, truncateSync, writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { setImmediate } from "node:timers/promises";
import type { Limits } from "../../src/config.ts";
import { realDisk, type JournalFile } from "../../src/journal/files.ts";
import { openJournal, type Journal } from "../../src/journal/journal.ts";
import { JournalError } from "../../src/journal/error.ts";
import { headerText, plantText, recordText, fillChecksums } from "../../src/journal/record.ts";
import { type NewPlant } from "../../src/plant.ts";
import { SimulatedDisk } from "../support/simdisk.ts";
import { temporaryFolder } from "../support/support.ts";
import { StoreError } from "../../src/store.ts";

const path = "/plants.ndjson";
const headerBytes = 133;

/** A plant whose JSON has so many bytes. */
const plantOf = (bytes: number, id = 1n): NewPlant =>
  ({ id, name: "a".repeat(bytes - plantText({ id, name: "" }).length) });
const fern: NewPlant = { id: 1n, name: "Fern" };

interface Line { readonly seq: number; readonly synced: number; readonly plant: { id: number } }
const linesOf = (bytes: Buffer | undefined): Line[] =>
  (bytes?.toString() ?? "").trimEnd().split("\n").slice(1).map((line) => JSON.parse(line) as Line);

async function simulated(limits: Partial<Limits> = {}) {
  const disk = new SimulatedDisk();
  const journal = await openJournal(path, { disk, limits });
  disk.calls.length = 0;
  return { disk, journal, writes: () => disk.calls.filter((call) => call === "append").length };
}

/** What became of each: "stored", or the StoreError's code. */
const outcomes = async (promises: readonly Promise<void>[]): Promise<string[]> =>
  (await Promise.allSettled(promises)).map((result) => {
    if (result.status === "fulfilled") return "stored";
    return result.reason instanceof StoreError ? result.reason.code : String(result.reason);
  });
const appendAll = (journal: Journal, ...plants: readonly NewPlant[]): Promise<string[]> =>
  outcomes(plants.map((plant) => journal.append(plant)));
const many = (count: number): NewPlant[] => Array<NewPlant>(count).fill(fern);

test("plants appended in one turn share one write, in their order", async () => {
  const { disk, journal, writes } = await simulated();
  const ids = [3n, 1n, 2n];
  await Promise.all(ids.map((id) => journal.append({ id, name: "" })));
  assert.equal(writes(), 1);
  await journal.append(fern);
  await journal.append(fern);
  assert.equal(writes(), 3, "the control: those of three turns do not share");
  const text = disk.bytes(path)?.toString() ?? "";
  const third = text.split("\n").slice(0, 4).join("\n").length + 1;
  const fourth = text.split("\n").slice(0, 5).join("\n").length + 1;
  assert.deepEqual(linesOf(disk.bytes(path)).map(({ seq, synced, plant }) =>
    [seq, synced, plant.id]), [[1, headerBytes, 3], [2, headerBytes, 1], [3, headerBytes, 2],
    [4, third, 1], [5, fourth, 1]]);
  await journal.close();
});

test("what arrives while a write is in flight joins the next one", async () => {
  const { disk, journal, writes } = await simulated();
  const begun = disk.hold();
  const first = journal.append(fern);
  await begun;
  const later = [journal.append(fern), journal.append(fern)];
  disk.letGo();
  await Promise.all([first, ...later]);
  assert.equal(writes(), 2);
  const [one, ...others] = linesOf(disk.bytes(path)).map(({ synced }) => synced);
  assert.equal(one, headerBytes);
  assert.equal(new Set(others).size, 1);
});

test("no plant is acknowledged before its write has returned", async () => {
  for (const lies of [false, true]) {
    const { disk, journal } = await simulated();
    disk.lies = lies;
    const begun = disk.hold();
    let answered = 0;
    const appends = many(3).map((plant) => journal.append(plant).then(() => { answered++; }));
    await begun;
    assert.deepEqual([answered, disk.bytes(path)?.length], [0, headerBytes]);
    disk.letGo();
    await Promise.all(appends);
    disk.restart({ bytes: false, names: false });
    assert.equal(linesOf(disk.bytes(path)).length, lies ? 0 : 3, "the control: a disk that lies");
  }
});

const limits: readonly (readonly [says: string, limits: Partial<Limits>, plants: NewPlant[],
  outcomes: string[]])[] = [
  ["three records at a limit of three", { queueRecordsMax: 3 }, many(3), Array(3).fill("stored")],
  ["four records at a limit of three", { queueRecordsMax: 3 }, many(4),
    [...Array<string>(3).fill("stored"), "busy"]],
  ["plants of 1024 bytes at a limit of 1024", { queueBytesMax: 1024 },
    [plantOf(1000), plantOf(24)], ["stored", "stored"]],
  ["plants of 1025 bytes at a limit of 1024", { queueBytesMax: 1024 },
    [plantOf(1000), plantOf(25)], ["stored", "busy"]],
  ["one plant over the limit alone", { queueBytesMax: 1024 }, [plantOf(5000)], ["stored"]],
  ["one plant over the limit behind another", { queueBytesMax: 1024 },
    [fern, plantOf(5000), fern], ["stored", "busy", "stored"]],
];

for (const [says, limit, plants, expected] of limits) {
  test(`the queue takes what its limits allow: ${says}`, async () => {
    const { disk, journal } = await simulated(limit);
    assert.deepEqual(await appendAll(journal, ...plants), expected);
    assert.deepEqual(await appendAll(journal, fern), ["stored"], "and has room again");
    const stored = expected.filter((outcome) => outcome === "stored").length + 1;
    assert.equal(linesOf(disk.bytes(path)).length, stored, "what is busy is not stored");
  });
}

test("the queue's limit counts what is in flight, too", async () => {
  const { disk, journal } = await simulated({ queueRecordsMax: 2 });
  const begun = disk.hold();
  const first = journal.append(fern);
  await begun;
  const later = many(2).map((plant) => journal.append(plant));
  const settled = outcomes([first, ...later]);
  disk.letGo();
  assert.deepEqual(await settled, ["stored", "stored", "busy"]);
});

const lineBytes = (bytes: number): number =>
  recordText(1, new Date(0).toISOString(), headerBytes, plantText(plantOf(bytes))).length;
const frame = lineBytes(100) - 100;

for (const [says, bytes, expected] of [
  ["1024 bytes", [400, 1024 - 400 - 2 * frame], 1],
  ["1025 bytes", [400, 1025 - 400 - 2 * frame], 2],
  ["one record of 5000 bytes and another", [5000, 100], 2],
  ["one record alone of 5000 bytes", [5000], 1],
] as const) {
  test(`a batch has at most batchBytesMax bytes: ${says} at 1024`, async () => {
    const { disk, journal, writes } = await simulated({ batchBytesMax: 1024 });
    const plants = bytes.map((count) => plantOf(count));
    assert.deepEqual(await appendAll(journal, ...plants), plants.map(() => "stored"));
    assert.equal(writes(), expected);
    assert.equal(new Set(linesOf(disk.bytes(path)).map(({ synced }) => synced)).size, expected);
  });
}

test("the rest of a short write is written before the answer", async () => {
  for (const bytes of [1, 50, 200]) {
    const { disk, journal, writes } = await simulated();
    disk.fail("append", { bytes });
    assert.deepEqual(await appendAll(journal, fern, fern, fern), Array(3).fill("stored"));
    assert.deepEqual([disk.faultsFired, writes()], [1, 2]);
    disk.restart({ bytes: false, names: false });
    assert.deepEqual(linesOf(disk.bytes(path)).map(({ seq }) => seq), [1, 2, 3]);
  }
});

/** Linux's numbers; libuv has no name for EDQUOT. */
const [EIO, EACCES, EFBIG, ENOSPC, EDQUOT] = [5, 13, 27, 28, 122];

for (const [name, errno] of Object.entries({ ENOSPC, EDQUOT, EFBIG })) {
  test(`${name}: nothing is stored, the file is cut back, the next plant is stored`, async () => {
    for (const bytes of [0, 1, 100, 1e6]) {
      const { disk, journal } = await simulated();
      journal.on("failed", assert.fail);
      await journal.append(fern);
      const before = disk.bytes(path);
      disk.fail("append", { errno, bytes });
      assert.deepEqual(await appendAll(journal, ...many(3)), Array(3).fill("full"));
      assert.deepEqual([disk.faultsFired, disk.bytes(path)], [1, before]);
      assert.deepEqual(await appendAll(journal, fern), ["stored"]);
      disk.restart({ bytes: false, names: false });
      assert.deepEqual(linesOf(disk.bytes(path)).map(({ seq }) => seq), [1, 2]);
    }
  });
}

test("no space after a part of a batch was written: none of it is stored", async () => {
  const { disk, journal } = await simulated();
  disk.fail("append", { bytes: 150 });
  disk.fail("append", { errno: ENOSPC, bytes: 20 }, 1);
  assert.deepEqual(await appendAll(journal, fern, fern), ["full", "full"]);
  assert.deepEqual([disk.faultsFired, disk.bytes(path)?.length], [2, headerBytes]);
});

test("no space for one batch: the next, that waited, is tried as usual", async () => {
  const { disk, journal } = await simulated();
  const begun = disk.hold();
  const first = outcomes([journal.append(fern)]);
  await begun;
  disk.fail("append", { errno: ENOSPC });
  const second = outcomes([journal.append(fern)]);
  disk.letGo();
  assert.deepEqual([await first, await second], [["full"], ["stored"]]);
});

/** Faults after which nothing can be trusted; `isCut`: the file then ends where it did. */
const final: readonly (
  readonly [says: string, isCut: boolean, fail: (disk: SimulatedDisk) => void]
)[] = [
  ["EIO", true, (disk) => disk.fail("append", { errno: EIO, bytes: 100 })],
  ["EACCES", true, (disk) => disk.fail("append", { errno: EACCES, bytes: 0 })],
  ["no space, and the cut fails", false, (disk) => {
    disk.fail("append", { errno: ENOSPC, bytes: 100 });
    disk.fail("truncate", { errno: EIO });
  }],
  ["no space, and its size can't be read", false, (disk) => {
    disk.fail("append", { errno: ENOSPC, bytes: 100 });
    disk.fail("size", { errno: EIO });
  }],
  ["its path can't be looked at", false, (disk) => disk.fail("look", { errno: EIO })],
];

for (const [says, isCut, fail] of final) {
  test(`${says}: all are unknown, waiting and later ones too; "failed" is told once`, async () => {
    const { disk, journal } = await simulated();
    const failures: JournalError[] = [];
    journal.on("failed", (error) => failures.push(error));
    await journal.append(fern);
    const before = disk.bytes(path);
    const begun = disk.hold();
    const first = outcomes(many(2).map((plant) => journal.append(plant)));
    await begun;
    fail(disk);
    const waiting = outcomes([journal.append(fern)]);
    disk.letGo();
    assert.deepEqual([...await first, ...await waiting], Array(3).fill("unknown"));
    assert.ok(disk.faultsFired > 0);
    assert.deepEqual(await appendAll(journal, fern), ["unknown"]);
    assert.deepEqual(failures.map(({ code, exitCode }) => [code, exitCode]), [["failed", 74]]);
    if (isCut) assert.deepEqual(disk.bytes(path), before);
    await Promise.all([journal.close(), journal.close()]);
  });
}

/** What somebody else does to the file; each is real, and so is the file. */
const intrusions: readonly (readonly [says: string, act: (path: string) => void])[] = [
  ["bytes appended", (name) => appendFileSync(name, "x\n")],
  ["truncate", (name) => truncateSync(name, headerBytes)],
  ["emptied", (name) => truncateSync(name, 0)],
  ["deleted", (name) => rmSync(name)],
  ["renamed, and nobody rotates", (name) => renameSync(name, `${name}.1`)],
  ["replaced by its own copy", (name) => {
    copyFileSync(name, `${name}.1`);
    renameSync(`${name}.1`, name);
  }],
  ["renamed, and a directory in its place", (name) => {
    renameSync(name, `${name}.1`);
    mkdirSync(name);
  }],
];

for (const [says, act] of intrusions) {
  test(`the file ${says}: no plant is acknowledged, and the journal has failed`, async () => {
    const real = join(temporaryFolder(), "plants.ndjson");
    const journal = await openJournal(real, { limits: { rotationMillis: 10 } });
    const failed = once(journal, "failed");
    assert.deepEqual(await appendAll(journal, fern, fern), ["stored", "stored"], "the control");
    act(real);
    assert.deepEqual(await appendAll(journal, fern, fern), ["unknown", "unknown"]);
    const [error] = await failed;
    assert.ok(error instanceof JournalError && error.code === "failed");
    assert.deepEqual(await appendAll(journal, fern), ["unknown"]);
    await journal.close();
  });
}

test("a failed journal may be closed twice at once", async () => {
  const real = join(temporaryFolder(), "plants.ndjson");
  const journal = await openJournal(real);
  rmSync(real);
  assert.deepEqual(await appendAll(journal, fern), ["unknown"]);
  await Promise.all([journal.close(), journal.close()]);
  assert.deepEqual(await appendAll(journal, fern), ["unknown"], "why it takes none is still told");
});

test("bytes that another has appended are not cut away", async () => {
  const { disk, journal } = await simulated();
  void disk.hold();
  const other = disk.open(path).append(Buffer.from("another's".repeat(99)));
  disk.fail("append", { errno: EIO }, 1);
  const outcome = appendAll(journal, fern);
  // The journal has looked at the file, and its write waits behind the other process's.
  while (!disk.calls.includes("look")) await setImmediate();
  disk.letGo();
  await other;
  assert.deepEqual([await outcome, disk.faultsFired], [["unknown"], 1]);
  assert.match(disk.bytes(path)?.toString() ?? "", /another's/);
});

test("after a rename and rotate() a new file goes on: what was in flight lands", async () => {
  const real = join(temporaryFolder(), "plants.ndjson");
  const journal = await openJournal(real);
  assert.equal(await journal.rotate(), false, "the control: a file in its place stays");
  await journal.append(fern);
  renameSync(real, `${real}.1`);
  const during = outcomes([journal.append({ id: 2n, name: "" })]);
  assert.equal(await journal.rotate(), true);
  assert.deepEqual(await during, ["stored"]);
  await journal.append({ id: 3n, name: "" });
  await journal.close();
  const [old, now] = [`${real}.1`, real].map((name) => readFileSync(name));
  assert.deepEqual([...linesOf(old), ...linesOf(now)].map(({ plant }) => plant.id), [1, 2, 3]);
  assert.deepEqual(linesOf(now).map(({ seq, synced }) => [seq, synced]).at(0), [1, headerBytes]);
  assert.match(String(now), /^\{"journal":"plant-store","version":1,/);
  for (const name of [real, `${real}.1`]) await (await openJournal(name)).close();
});

test("where no new file can be made the old one stays in use, until one can", async () => {
  const real = join(temporaryFolder(), "plants.ndjson");
  const journal = await openJournal(real);
  renameSync(real, `${real}.1`);
  mkdirSync(real);
  await assert.rejects(journal.rotate(), JournalError);
  assert.deepEqual(await appendAll(journal, fern, fern), ["stored", "stored"]);
  assert.equal(linesOf(readFileSync(`${real}.1`)).length, 2);
  rmSync(real, { recursive: true });
  assert.equal(await journal.rotate(), true);
  assert.deepEqual(await appendAll(journal, fern), ["stored"]);
  assert.equal(linesOf(readFileSync(real)).length, 1);
  await journal.close();
});

const noPlants: readonly (readonly [says: string, plant: unknown])[] = [
  ["an id over int64", { id: 2n ** 63n, name: "" }],
  ["an id under int64", { id: -(2n ** 63n) - 1n, name: "" }],
  ["an id that is a number", { id: 7, name: "" }],
  ["an id that is text", { id: "7", name: "" }],
  ["no id", { name: "" }],
  ["no name", { id: 7n }],
  ["a name that is null", { id: 7n, name: null }],
  ["a name with a lone surrogate", { id: 7n, name: "\ud800" }],
  ["a tag with a lone surrogate", { id: 7n, name: "", tag: "a\udc00" }],
  ["a tag that is null", { id: 7n, name: "", tag: null }],
];

for (const [says, plant] of noPlants) {
  test(`a plant with ${says} is invalid, and nothing is written`, async () => {
    const { journal, writes } = await simulated();
    assert.deepEqual(await outcomes([journal.append(plant as NewPlant)]), ["invalid"]);
    assert.deepEqual([await appendAll(journal, fern), writes()], [["stored"], 1]);
  });
}

test("plants that come with every turn of the event loop do not fill the queue", async () => {
  const { journal, writes } = await simulated();
  const promises: Promise<void>[] = [];
  // As a client that pipelines: 300 with each turn, twice as many as the queue holds.
  for (let turns = 0; turns < 28; turns++) {
    for (let count = 0; count < 300; count++) promises.push(journal.append(fern));
    await setImmediate();
  }
  assert.deepEqual(new Set(await outcomes(promises)), new Set(["stored"]));
  assert.ok(writes() > 1 && writes() < 28, `${writes()} writes`);
});

test("a journal fails once, whoever notices first", async () => {
  const { disk, journal } = await simulated();
  let failures = 0;
  journal.on("failed", () => { failures++; });
  disk.put(path, Buffer.concat([disk.bytes(path) ?? Buffer.alloc(0), Buffer.from("x")]));
  const outcome = outcomes([journal.append(fern)]);
  assert.equal(await journal.rotate().catch(() => false), false);
  assert.deepEqual([await outcome, failures], [["unknown"], 1]);
});

test("close settles all that was taken, takes no more, and may be called again", async () => {
  const { disk, journal } = await simulated({ batchBytesMax: 1024 });
  const taken = outcomes(many(99).map((plant) => journal.append(plant)));
  const closed = Promise.all([journal.close(), journal[Symbol.asyncDispose]()]);
  const late = outcomes([journal.append(fern)]);
  await closed;
  assert.deepEqual(await taken, Array(99).fill("stored"));
  assert.deepEqual([await late, await appendAll(journal, fern)], [["closed"], ["closed"]]);
  assert.equal(linesOf(disk.bytes(path)).length, 99);
  await (await openJournal(path, { disk })).close();
});

test("a file has one writer, by whatever name", async () => {
  const folder = temporaryFolder();
  const real = join(folder, "plants.ndjson");
  const journal = await openJournal(real);
  linkSync(real, join(folder, "hard"));
  symlinkSync(real, join(folder, "soft"));
  const before = readFileSync(real);
  for (const name of ["plants.ndjson", "hard", "soft", "../" + folder.slice(5) + "/soft"]) {
    await assert.rejects(openJournal(join(folder, name)), { code: "locked", exitCode: 75 });
  }
  assert.deepEqual(readFileSync(real), before);
  await journal.close();
  for (const name of ["hard", "soft"]) await (await openJournal(join(folder, name))).close();
});

test("opening reads the end only: as much of 200,000 records as of 2,000", async () => {
  const readOf = async (records: number): Promise<number> => {
    const at = new Date(0).toISOString();
    const lines = [headerText("5f0c1d2e-3b4a-4c5d-8e6f-7a8b9c0d1e2f", at)];
    for (let seq = 1, end = headerBytes, synced = end; seq <= records; seq++) {
      if (seq % 100 === 0) synced = end;
      end += lines[lines.push(recordText(seq, at, synced, plantText(fern))) - 1]?.length ?? 0;
    }
    const real = join(temporaryFolder(), "plants.ndjson");
    writeFileSync(real, fillChecksums(lines.join("")));
    let bytes = 0;
    const open = (name: string): JournalFile => {
      const file = realDisk.open(name);
      const read = (offset: number, length: number): Buffer => {
        bytes += length;
        return file.read(offset, length);
      };
      return { ...file, read };
    };
    await (await openJournal(real, { disk: { ...realDisk, open } })).close();
    return bytes;
  };
  const [tiny, small, big] = [await readOf(200), await readOf(2_000), await readOf(200_000)];
  assert.ok(tiny > 10_000 && tiny < small, `the control: ${tiny} bytes read of a small one`);
  assert.ok(big < small + 4096 && big < 2 ** 18, `${small} and ${big} bytes read`);
});
