/**
 * Two openings in a row, with no plant between them, of journals that were changed at random: the
 * second one finds nothing to repair or to refuse that the first one has left.
 *
 * PLANT_TEST_RUNS: ten times as many journals as are tried.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { JournalError } from "../../src/journal/error.ts";
import { openJournal } from "../../src/journal/journal.ts";
import { planOpening } from "../../src/journal/rewrite.ts";
import { verifyJournal } from "../../src/journal/verify.ts";
import { bytesIn, header, headerBytes, record } from "../support/journals.ts";
import { SimulatedDisk } from "../support/simdisk.ts";
import { seeded } from "../support/support.ts";

const path = "/plants.ndjson";
const limits = { keysBytesMax: 1 };
const runs = Number(process.env["PLANT_TEST_RUNS"] ?? 30_000) / 10;

/** Returns a journal of up to five writes of up to four records, and where each write begins. */
function madeBy(below: (limit: number) => number) {
  let file = header;
  const writes: number[] = [];
  let seq = 0;
  for (let count = 1 + below(5); count > 0; count--) {
    const synced = file.length;
    writes.push(synced);
    for (let records = 1 + below(4); records > 0; records--)
      file += record(++seq, synced);
  }
  return { file: Buffer.from(file), writes };
}

/** Changes some bytes, mostly in the last two writes, and perhaps the length. */
function changedBy(
  below: (limit: number) => number,
  { file, writes }: ReturnType<typeof madeBy>
) {
  let changed = Buffer.from(file);
  const place = () => {
    const from = writes.at(-1 - below(2)) ?? headerBytes;
    return from + below(changed.length - from);
  };
  for (let count = 1 + below(3); count > 0; count--) {
    const start = place();
    const end = Math.min(changed.length, start + 1 + below(200));
    const kind = below(5);
    if (kind < 2) changed.fill(0, start, end);
    else if (kind === 2) changed[start] = below(256);
    else if (kind === 3) changed = changed.subarray(0, Math.max(start, 1));
    else changed = Buffer.concat([changed, Buffer.alloc(below(99))]);
  }
  return changed;
}

async function openedBy(disk: SimulatedDisk) {
  const outcome = await openJournal(path, { disk, limits }).then(
    (journal) => journal.close().then(() => "opened"),
    (error: unknown) =>
      error instanceof JournalError ? error.code : String(error)
  );
  const bytes = disk.bytes(path) ?? assert.fail("no file");
  const torn = disk.files().filter((name) => name.includes(".torn-"));
  return { outcome, bytes: Buffer.from(bytes), torn };
}

test(`of ${runs} changed journals, a second opening leaves each as the first one did`, async (t) => {
  const counts: Record<string, number> = {};
  for (let seed = 1; seed <= runs; seed++) {
    const below = seeded(seed);
    const file = changedBy(below, madeBy(below));
    const plan = planOpening(bytesIn(file), undefined);
    const { opening = "" } = verifyJournal(plan, false, () => {});
    const disk = new SimulatedDisk();
    disk.put(path, file);
    const first = await openedBy(disk);
    disk.restart({ bytes: true, names: true });

    // As if the first one had been killed: without its mark, the second one rewrites the end.
    if (below(2) === 0) for (const mark of disk.marks()) disk.remove(mark);
    const second = await openedBy(disk);
    const says = `seed ${seed}: ${opening}`;
    assert.deepEqual(second, first, says);
    assert.equal(first.outcome === "damaged", /^refuses/.test(opening), says);
    if (first.outcome === "damaged") assert.deepEqual(first.bytes, file, says);
    const kind = first.torn.length > 0 ? "torn" : first.outcome;
    counts[kind] = (counts[kind] ?? 0) + 1;
  }
  t.diagnostic(JSON.stringify(counts));
  for (const kind of ["opened", "torn", "damaged"])
    assert.ok((counts[kind] ?? 0) > runs / 100, `${kind} is met`);
});
