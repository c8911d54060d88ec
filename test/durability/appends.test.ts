/**
 * Whatever a host hands to `append`, and whatever keeps a batch from becoming lines: every append
 * settles, with a StoreError where it is not stored, and the journal's file opens again.
 */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync, statSync, truncateSync } from "node:fs";
import { constants } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { realDisk, type JournalFile } from "../../src/journal/files.ts";
import { openJournal } from "../../src/journal/journal.ts";
import { JournalError } from "../../src/journal/error.ts";
import { headerBytes, plantText, recordText } from "../../src/journal/record.ts";
import { type NewPlant } from "../../src/plant.ts";
import { SimulatedDisk } from "../support/simdisk.ts";
import { root, temporaryFolder } from "../support/support.ts";
import { StoreError } from "../../src/store.ts";

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

test("a file that another has cut is not made longer again after a write that failed", async () => {
  const real = join(temporaryFolder(), "plants.ndjson");
  let isFull = false;
  const errno = -constants.errno.ENOSPC;
  const noSpace = Object.assign(new Error("ENOSPC: no space left"), { errno });
  const open = (name: string): JournalFile => {
    const file = realDisk.open(name);
    const write = (bytes: Buffer): Promise<number> =>
      isFull ? Promise.reject(noSpace) : file.append(bytes);
    return { ...file, append: write };
  };
  const journal = await openJournal(real, { disk: { ...realDisk, open } });
  const failed = once(journal, "failed");
  assert.equal(await outcome(journal.append(fern)), "stored");
  truncateSync(real, headerBytes);
  isFull = true;
  assert.equal(await outcome(journal.append(fern)), "unknown", "its end is not what it was");
  await failed;
  assert.equal(statSync(real).size, headerBytes);
  await journal.close();
});

test("a write that gives seq a digit more is within batchBytesMax, too", async () => {
  const disk = new SimulatedDisk();
  const batchBytesMax = 1024;
  const journal = await openJournal(path, { disk, limits: { batchBytesMax } });
  const size = (): number => disk.bytes(path)?.length ?? 0;
  const writes = (): number => disk.calls.filter((call) => call === "append").length;
  for (let seq = 1; seq <= 8; seq++) await journal.append(fern);
  const [bytes, calls] = [size(), writes()];
  const at = new Date(0).toISOString();
  const lineBytes = (seq: number, plant: NewPlant): number =>
    recordText(seq, at, bytes, plantText(plant)).length;
  const rest = batchBytesMax + 1 - lineBytes(9, fern) - lineBytes(10, { id: 1n, name: "" });
  const long: NewPlant = { id: 1n, name: "x".repeat(rest) };
  await Promise.all([journal.append(fern), journal.append(long)]);
  const second = String(bytes + lineBytes(9, fern)).length - String(bytes).length;
  assert.equal(size() - bytes, batchBytesMax + 1 + second, "both in one were a byte too long");
  assert.equal(writes() - calls, 2);
  await journal.close();
});

test("a caller's function that throws is no fault of the journal, nor of its batch", () => {
  const dist = join(root, "dist");
  const script = `
    import { openJournal } from ${JSON.stringify(join(dist, "index.js"))};
    import { appendJson } from ${JSON.stringify(join(dist, "store.js"))};
    process.on("uncaughtException", ({ message }) => console.log("heard", message));
    const journal = await openJournal("plants.ndjson");
    journal[appendJson].append('{"id":1,"name":"Fern"}', () => { throw new Error("boom"); });
    await journal.append({ id: 2n, name: "Moss" });
    await journal.append({ id: 3n, name: "Ivy" });
    await journal.close();
    console.log("closed");`;
  const folder = temporaryFolder();
  const { status, stdout, stderr } = spawnSync(process.execPath,
    ["--input-type=module", "--eval", script], { cwd: folder, encoding: "utf8", timeout: 60_000 });
  assert.deepEqual([status, stdout, stderr], [0, "heard boom\nclosed\n", ""]);
  assert.match(readFileSync(join(folder, "plants.ndjson"), "utf8"), /Fern.*\n.*Moss.*\n.*Ivy/);
});

test('a listener to "failed" that throws does not get into the way of closing', () => {
  const folder = temporaryFolder();
  const { status, stdout, stderr } = spawnSync(process.execPath, ["--input-type=module", "-e", `
    import { rmSync } from "node:fs";
    import { openJournal } from ${JSON.stringify(join(root, "dist", "index.js"))};
    process.on("uncaughtException", (error) => console.log(error.message));
    const journal = await openJournal("plants.ndjson");
    journal.once("failed", () => { throw new Error("thrown"); });
    rmSync("plants.ndjson");
    await journal.append({ id: 1n, name: "" }).catch((error) => console.log(error.code));
    await journal.close();
    console.log("closed");`], { cwd: folder, encoding: "utf8", timeout: 60_000 });
  const told = stdout.trimEnd().split("\n").toSorted();
  assert.deepEqual([status, told], [0, ["closed", "thrown", "unknown"]], stderr);
  assert.deepEqual(readdirSync(folder), [], "its lock is gone");
});
