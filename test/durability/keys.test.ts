/** Keys in the journal: the window of records that are remembered, and what survives what. */
import assert from "node:assert/strict";
import { hash } from "node:crypto";
import { renameSync, rmSync, statSync, truncateSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { setImmediate } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { limitTable, type Limits } from "../../src/config.ts";
import { StoreError, type Journal } from "../../src/index.ts";
import { KeyWindow } from "../../src/journal/keys.ts";
import {
  diskWith,
  EIO,
  ENOSPC,
  fern,
  openJournal,
  outcomeOf,
  plantOf,
  record,
  simulated
} from "../support/journals.ts";
import { temporaryFolder } from "../support/support.ts";

const keyOf = (text: string | number): string =>
  hash("sha256", String(text), "buffer").toString("base64url", 0, 16);

/** What the window finds of an equal plant. */
const replayed = { isReplay: true };

/** "stored", "replayed", or the StoreError's code. */
const once = (
  journal: Journal,
  key: string | number,
  plant = fern
): Promise<string> => {
  assert.ok(journal.appendOnce);
  let outcome = "";
  const done = journal.appendOnce(plant, keyOf(key)).then((value) => {
    outcome = value;
  });
  return outcomeOf(done).then((result) =>
    result === "stored" ? outcome : result
  );
};

const open = (path: string, limits: Partial<Limits> = {}) =>
  openJournal(path, { limits });
const freshPath = (): string => join(temporaryFolder(), "plants.ndjson");

test("equal calls that wait for one in progress count in the queue's limit of records", async () => {
  const room = 3;
  const { journal, disk, records } = await simulated({ queueRecordsMax: 4 });
  const plant = plantOf(300);
  // Those that have settled leave their room.
  for (const key of ["k", "second"]) {
    const begun = disk.stall();
    const first = once(journal, key, plant);
    await begun;
    const waiting = Array.from({ length: room }, () =>
      once(journal, key, plant)
    );
    assert.equal(await once(journal, key, plant), "unknown", "the limit + 1");

    // What waits for one key takes the room of what would wait for another one.
    const other = once(journal, `other ${key}`, plant);
    assert.equal(await once(journal, `other ${key}`, plant), "unknown");
    disk.resume();
    assert.deepEqual(await Promise.all([first, other, ...waiting]), [
      "stored",
      "stored",
      ...waiting.map(() => "replayed")
    ]);
  }
  assert.equal(records().length, 4);
  await journal.close();
});

test("keys are remembered after a restart, whatever stands between them", async () => {
  const path = freshPath();
  const limits = { keysBytesMax: 2 ** 20 };
  const before = await open(path, limits);
  for (let id = 0; id < 50; id++) {
    await once(before, id, { id: BigInt(id), name: "Fern" });
    await before.append(plantOf(18 + id * 400));
  }
  await before.close();
  await using journal = await open(path, limits);
  for (let id = 0; id < 50; id++) {
    assert.equal(
      await once(journal, id, { id: BigInt(id), name: "Fern" }),
      "replayed",
      `${id}`
    );
    assert.equal(
      await once(journal, id, { id: BigInt(id), name: "Moss" }),
      "conflict",
      `${id}`
    );
  }
  assert.equal(journal.stats.records, 100);
});

test("a record is remembered while its line begins within the window, also after a restart", async () => {
  const limits = { keysBytesMax: 1024 };
  for (const restarts of [false, true]) {
    // The next line ends where the first begins just within the window; then one byte beyond.
    for (const [more, outcome] of [
      [0, "replayed"],
      [1, "stored"]
    ] as const) {
      const path = freshPath();
      let journal = await open(path, limits);
      await journal.append(fern);
      const { size: start } = statSync(path);
      await once(journal, "k");
      const room = start + 1024 + more - statSync(path).size;
      await journal.append(plantOf(room - record(3, start, "").length));
      assert.equal(statSync(path).size, start + 1024 + more);
      if (restarts) {
        await journal.close();
        journal = await open(path, limits);
      }
      assert.equal(await once(journal, "k"), outcome);
      await journal.close();
    }
  }
});

test("without memory for the window the journal does not open: 74", async (t) => {
  const alloc = t.mock.method(Buffer, "alloc", () => {
    throw new RangeError("Array buffer allocation failed");
  });
  await assert.rejects(open(freshPath()), {
    exitCode: 74,
    message: /plants\.ndjson: Array buffer allocation failed/
  });
  alloc.mock.restore();
});

test("with a window of 0 there is none, and no method", async () => {
  await using journal = await open(freshPath(), { keysBytesMax: 0 });
  assert.equal(journal.appendOnce, undefined);
});

test("a rotation keeps the window, and a restart after it knows the keys of the new file alone", async () => {
  const path = freshPath();
  const journal = await open(path);
  await once(journal, "old");
  renameSync(path, `${path}.1`);
  assert.equal(await journal.rotate(), true);
  assert.equal(await once(journal, "new"), "stored");
  assert.equal(await once(journal, "old"), "replayed");
  await journal.close();
  await using again = await open(path);
  assert.equal(await once(again, "new"), "replayed");
  assert.equal(await once(again, "old"), "stored");
});

test("a rotation onto a journal remembers its keys, also for an append that waits meanwhile", async () => {
  const { path, disk, journal } = await simulated();
  await once(journal, "k");
  await once(journal, "other");
  disk.rename(path, `${path}.1`);
  await journal.rotate();
  await journal.close();
  const again = await openJournal(path, { disk });
  const begun = disk.stall();
  const first = again.append(fern);
  await begun;
  // They wait until the older journal is open, which has their keys.
  const waiting = [
    once(again, "k"),
    once(again, "k"),
    once(again, "other", plantOf(30)),
    once(again, "new")
  ];
  disk.rename(path, `${path}.2`);
  disk.rename(`${path}.1`, path);
  const rotated = again.rotate();
  disk.resume();
  assert.equal(await rotated, true);
  await first;
  assert.deepEqual(await Promise.all(waiting), [
    "replayed",
    "replayed",
    "conflict",
    "stored"
  ]);
  assert.equal(again.stats.records, 3);
  assert.deepEqual(again.stats.queue, { records: 0, bytes: 0 });
  await again.close();
});

test("an append that fails frees its key, for the calls that waited for it, too", async () => {
  const { journal, disk } = await simulated();
  disk.fail("append", { errno: ENOSPC });
  assert.deepEqual(
    await Promise.all([once(journal, "k"), once(journal, "k")]),
    ["full", "full"]
  );
  assert.deepEqual(
    await Promise.all([once(journal, "k"), once(journal, "k")]),
    ["stored", "replayed"]
  );
});

test("after an unknown outcome the file decides: a retry on the reopened journal stores once", async () => {
  for (const [bytes, outcome] of [
    [0, "stored"],
    [1_000, "replayed"]
  ] as const) {
    const { journal, disk } = await simulated();
    await once(journal, "old");
    disk.fail("append", { errno: EIO, bytes });
    disk.fail("truncate", { errno: EIO });
    assert.equal(await once(journal, "new"), "unknown");
    assert.equal(
      await once(journal, "old"),
      "unknown",
      "a journal that has failed acknowledges nothing"
    );
    await journal.close();
    await using again = await openJournal("/plants.ndjson", { disk });
    const outcomes = await Promise.all(
      ["old", "new", "new"].map((key) => once(again, key))
    );
    assert.deepEqual(outcomes, ["replayed", outcome, "replayed"]);
    assert.equal(again.stats.records, 2);
  }
});

test("a replay and a conflict need no room", async () => {
  await using journal = await open(freshPath(), { queueRecordsMax: 1 });
  await once(journal, "old");
  const outcomes = ["k", "old", "new"].map((key) => once(journal, key));
  outcomes.push(
    once(journal, "k", plantOf(30)),
    once(journal, "old", plantOf(30))
  );
  assert.equal(journal.stats.queue.records, 1);
  assert.deepEqual(await Promise.all(outcomes), [
    "stored",
    "replayed",
    "busy",
    "conflict",
    "conflict"
  ]);
  assert.deepEqual(journal.stats.queue, { records: 0, bytes: 0 });
});

test("a call waits for an equal one also while the journal closes", async () => {
  await using journal = await open(freshPath());
  const first = once(journal, "k");
  const closed = journal.close();
  const later = ["k", "new"].map((key) => once(journal, key));
  assert.equal(await first, "stored");
  assert.deepEqual(await Promise.all(later), ["replayed", "closed"]);
  await closed;
});

for (const [name, damage] of [
  ["deleted", (path: string) => rmSync(path)],
  ["truncated", (path: string) => truncateSync(path, 133)]
] as const) {
  test(`no replay of a record whose file was ${name}`, async () => {
    const path = freshPath();
    await using journal = await open(path);
    await once(journal, "k");
    assert.equal(await once(journal, "k"), "replayed");
    damage(path);
    assert.equal(await once(journal, "k"), "unknown");
  });
}

test("a key that is not 16 bytes in base64url is invalid", async () => {
  await using journal = await open(freshPath());
  for (const key of [
    "",
    "k",
    keyOf("k").slice(1),
    `${keyOf("k")}A`,
    `${"A".repeat(21)}B`,
    `${"A".repeat(20)}+A`
  ]) {
    assert.equal(
      await outcomeOf(journal.appendOnce?.(fern, key) ?? Promise.resolve()),
      "invalid",
      key
    );
  }
});

test("a replay is unknown while the file cannot be looked at", async () => {
  const { disk, journal } = await simulated();
  assert.equal(await once(journal, 1), "stored");
  disk.fail("look", { errno: EIO });
  assert.equal(await once(journal, 1), "unknown");
  assert.equal(disk.faultsFired, 1);
  assert.equal(await once(journal, 1), "replayed", "the control");
  await journal.close();
});

test("a closed journal does not look at its file for a replay, which is unknown then", async () => {
  let looks = 0;
  const disk = diskWith(({ look }) => ({ look: () => (looks++, look()) }));
  const journal = await openJournal(freshPath(), { disk });
  await journal.appendOnce?.(fern, keyOf("k"));
  const before = looks;
  assert.equal(await journal.appendOnce?.(fern, keyOf("k")), "replayed");
  assert.equal(looks, before + 1, "the control: a replay looks at the file");
  await journal.close();

  // The descriptor may be another file's by now.
  const after = looks;
  assert.equal(
    await outcomeOf(
      journal.appendOnce?.(fern, keyOf("k")) ?? Promise.resolve()
    ),
    "unknown"
  );
  assert.equal(await outcomeOf(journal.append(fern)), "closed");
  assert.equal(looks, after);
});

test("the window says for how long a key is remembered at least", (t) => {
  let now = 0;
  t.mock.method(performance, "now", () => now);
  const window = new KeyWindow(64_000);
  const secondsAfter = (seconds: number, records: number): number => {
    now += seconds * 1e3;
    for (let id = 0; id < records; id++)
      window.add(keyOf(`${now}-${id}`), "x", 200);
    return window.seconds;
  };
  assert.equal(secondsAfter(100, 10), 100, "since opening");
  assert.equal(secondsAfter(10, 100), 110);
  const busy = [...Array(20)].map(() => secondsAfter(1, 100));
  assert.equal(Math.min(...busy.slice(10)), 3);
  assert.equal(Math.max(...busy.slice(10)), 3);
  assert.deepEqual(
    window.find(keyOf(`${now - 3e3}-99`), "x"),
    replayed,
    "so long, it is remembered"
  );
  assert.equal(secondsAfter(1000, 0), 1003, "nothing pushes a key out");
});

test("a tenth of the default window, which has 48,000 keys, takes at most 3 MB, and none is on the heap", async () => {
  setFlagsFromString("--expose-gc");
  const collect: () => void = runInNewContext("gc");
  // The memory of collected buffers is counted until a later turn.
  const settled = async (): Promise<NodeJS.MemoryUsage> => {
    for (let round = 0; round < 5; round++) {
      collect();
      await setImmediate();
    }
    return process.memoryUsage();
  };
  const before = await settled();
  const window = new KeyWindow(limitTable.keysBytesMax.defaultValue / 10);
  for (let id = 0; id < 60_000; id++) window.add(keyOf(id), "x", 140);
  for (let id = 12_080; id < 60_000; id += 10)
    assert.deepEqual(window.find(keyOf(id), "x"), replayed);
  const other = window.find(keyOf(59_999), "y");
  assert.ok(other instanceof StoreError && other.code === "conflict");
  for (const id of [0, 12_000, "absent"])
    assert.equal(window.find(keyOf(id), "x"), undefined);
  const after = await settled();
  const slots = after.arrayBuffers - before.arrayBuffers;
  assert.ok(slots > 1.6e6 && slots < 3e6, `${slots}`);

  // As texts, the keys would take more than 2 MB.
  const heap = after.heapUsed - before.heapUsed;
  assert.ok(heap < 1e6, `${heap}`);
});
