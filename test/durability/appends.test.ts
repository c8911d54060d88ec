/**
 * Appending: one durable write for the plants that arrive together, limits to the record and the
 * byte, and for each plant an outcome that is true, whatever a host appends.
 */
import assert from "node:assert/strict";
import { once } from "node:events";
import { readdirSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { test, type TestContext } from "node:test";
import { setImmediate } from "node:timers/promises";
import { inspect } from "node:util";
import type { Limits } from "../../src/config.ts";
import type { Journal } from "../../src/journal/journal.ts";
import { frameBytesMax } from "../../src/journal/record.ts";
import type { NewPlant } from "../../src/plant.ts";
import { appendJsonOf } from "../../src/append.ts";
import {
  append,
  EIO,
  ENOSPC,
  fern,
  headerBytes,
  openJournal,
  outcomeOf,
  plantOf,
  simulated
} from "../support/journals.ts";
import { temporaryFolder } from "../support/support.ts";

const many = (count: number): NewPlant[] => Array<NewPlant>(count).fill(fern);
const stored = (count: number): string[] => Array<string>(count).fill("stored");

test("plants appended in one turn share one write, in their order", async () => {
  const { journal, bytes, writes, records } = await simulated();
  const ids = [3n, 1n, 2n];
  const receipts = await Promise.all(
    ids.map((id) => journal.append({ id, name: "" }))
  );
  assert.deepEqual(
    receipts.map(({ seq }) => seq),
    [1, 2, 3]
  );
  assert.equal(writes(), 1);
  const third = bytes().length;
  await journal.append(fern);
  const fourth = bytes().length;
  await journal.append(fern);
  assert.equal(writes(), 3, "the control: those of three turns do not share");
  assert.deepEqual(
    records().map(({ seq, synced, plant }) => [seq, synced, plant.id]),
    [
      [1, headerBytes, 3],
      [2, headerBytes, 1],
      [3, headerBytes, 2],
      [4, third, 1],
      [5, fourth, 1]
    ]
  );
  await journal.close();
});

test("plants that arrive while a write is in flight join the next one", async () => {
  const { during, writes, records } = await simulated();
  assert.deepEqual(await during(() => undefined, fern, fern), stored(3));
  assert.equal(writes(), 2);
  const [one, ...others] = records().map(({ synced }) => synced);
  assert.equal(one, headerBytes);
  assert.equal(new Set(others).size, 1);
});

test("plants that the event loop still delivers join the write, while there are a tenth more", async () => {
  const { journal, writes } = await simulated();
  const outcomes: Promise<string[]>[] = [];
  for (const count of [1, 2, 4, 8, 1]) {
    outcomes.push(append(journal, ...many(count)));
    await setImmediate();
  }
  assert.deepEqual(
    new Set((await Promise.all(outcomes)).flat()),
    new Set(["stored"])
  );
  assert.equal(writes(), 1);
  await append(journal, fern);
  assert.equal(writes(), 2, "the control");
  await journal.close();
});

test("plants that come with every turn of the event loop do not fill the queue", async () => {
  const { journal, writes } = await simulated();
  const outcomes: Promise<string[]>[] = [];
  // As a client that pipelines: 300 with each turn, twice as many as the queue accepts.
  for (let turns = 0; turns < 28; turns++) {
    outcomes.push(append(journal, ...many(300)));
    await setImmediate();
  }
  assert.deepEqual(
    new Set((await Promise.all(outcomes)).flat()),
    new Set(["stored"])
  );
  assert.ok(writes() > 1 && writes() < 28, `${writes()} writes`);
});

const limits: readonly (readonly [
  says: string,
  limits: Partial<Limits>,
  plants: NewPlant[],
  outcomes: string[]
])[] = [
  [
    "three records at a limit of three",
    { queueRecordsMax: 3 },
    many(3),
    stored(3)
  ],
  [
    "four records at a limit of three",
    { queueRecordsMax: 3 },
    many(4),
    [...stored(3), "busy"]
  ],
  [
    "plants of 1024 bytes at a limit of 1024",
    { queueBytesMax: 1024 },
    [plantOf(1000), plantOf(24)],
    stored(2)
  ],
  [
    "plants of 1025 bytes at a limit of 1024",
    { queueBytesMax: 1024 },
    [plantOf(1000), plantOf(25)],
    ["stored", "busy"]
  ],
  [
    "one plant over the limit alone",
    { queueBytesMax: 1024 },
    [plantOf(5000)],
    ["stored"]
  ],
  [
    "one plant over the limit after another",
    { queueBytesMax: 1024 },
    [fern, plantOf(5000), fern],
    ["stored", "busy", "stored"]
  ]
];

for (const [says, limit, plants, expected] of limits) {
  test(`the queue accepts what its limits allow, again and again: ${says}`, async () => {
    const { journal, records } = await simulated(limit);
    for (let times = 0; times < 3; times++) {
      assert.deepEqual(await append(journal, ...plants), expected);
    }
    const count = expected.filter((outcome) => outcome === "stored").length;
    assert.equal(
      records().length,
      3 * count,
      "a plant that is busy is not stored"
    );
  });
}

test("the queue's limit counts the write in flight, too", async () => {
  const { during } = await simulated({ queueRecordsMax: 2 });
  assert.deepEqual(await during(() => undefined, fern, fern), [
    "stored",
    "stored",
    "busy"
  ]);
});

for (const [says, bytes, expected] of [
  ["1024 bytes", [400, 1024 - 400 - 2 * frameBytesMax], 1],
  ["1025 bytes", [400, 1025 - 400 - 2 * frameBytesMax], 2],
  ["one record of 5000 bytes and another", [5000, 100], 2],
  ["one record alone of 5000 bytes", [5000], 1]
] as const) {
  test(`a batch has at most batchBytesMax bytes: ${says} at 1024`, async () => {
    const { journal, writes, records } = await simulated({
      batchBytesMax: 1024
    });
    assert.deepEqual(
      await append(journal, ...bytes.map(plantOf)),
      stored(bytes.length)
    );
    assert.equal(writes(), expected);
    assert.equal(new Set(records().map(({ synced }) => synced)).size, expected);
  });
}

/** A plant whose member is one value when it is first read, and another ever after. */
function fickle(
  member: keyof NewPlant,
  first: unknown,
  later: unknown
): NewPlant {
  let reads = 0;
  const get = (): unknown => (reads++ === 0 ? first : later);
  return Object.defineProperty({ id: 1n, name: "Fern", tag: "shade" }, member, {
    get
  }) as NewPlant;
}
const revoked = Proxy.revocable({}, {});
revoked.revoke();
const thrown = new Error("thrown");
const throwing = {
  id: 1n,
  get name(): string {
    throw thrown;
  }
};

test("a host that has replaced appendOnce of a journal alone is called with each key", async () => {
  const { journal } = await simulated();
  const { append } = journal;
  const appendOnce = async () => "replayed" as const;
  const host = { append, appendOnce, close: () => journal.close() };
  const outcome = await appendJsonOf(host)(`{"id":1,"name":"Fern"}`, "k");
  assert.equal(outcome.isReplay, true);
  await host.close();
});

test("a plant that a host appends is checked", async () => {
  const { journal, records } = await simulated();
  for (const plant of [
    { id: 2n ** 63n, name: "" },
    { id: -(2n ** 63n) - 1n, name: "" },
    { id: 7, name: "" },
    { id: "7", name: "" },
    { name: "" },
    { id: 7n },
    { id: 7n, name: null },
    { id: 7n, name: "\ud800" },
    { id: 7n, name: Object("Fern") as unknown },
    { id: 7n, name: "", tag: "a\udc00" },
    { id: 7n, name: "", tag: null },
    null,
    undefined,
    7,
    "Fern",
    [],
    revoked.proxy
  ])
    assert.equal(
      await outcomeOf(journal.append(plant as NewPlant)),
      "invalid",
      inspect(plant)
    );
  await assert.rejects(journal.append(throwing), {
    name: "StoreError",
    code: "invalid",
    cause: thrown
  });
  assert.deepEqual(await append(journal, fern), ["stored"]);
  assert.equal(records().length, 1);
  await journal.close();
});

test("a plant that changes while it is read is written as it was checked", async () => {
  const { journal, records } = await simulated();
  for (const [member, first, later, written] of [
    ["id", 7n, '7,"name":"","x":', { id: 7, name: "Fern", tag: "shade" }],
    ["id", 7n, 2n ** 64n, { id: 7, name: "Fern", tag: "shade" }],
    ["name", "Moss", "\ud800", { id: 1, name: "Moss", tag: "shade" }],
    ["name", "Moss", undefined, { id: 1, name: "Moss", tag: "shade" }],
    ["tag", "sun", { toJSON: () => 1 }, { id: 1, name: "Fern", tag: "sun" }],
    ["tag", undefined, 7, { id: 1, name: "Fern" }]
  ] as const) {
    assert.deepEqual(await append(journal, fickle(member, first, later)), [
      "stored"
    ]);
    assert.deepEqual(records().at(-1)?.plant, written);
  }
  await journal.close();
});

test("a clock in the year 10000: every append of the batch settles, and the journal has failed", async (t) => {
  const { journal, failures, records } = await simulated();
  t.mock.timers.enable({ apis: ["Date"], now: Date.UTC(10_000, 0) });
  assert.deepEqual(
    await append(journal, fern, fern, fern),
    Array(3).fill("unknown")
  );
  t.mock.timers.reset();
  assert.deepEqual(await append(journal, fern), ["unknown"]);
  assert.equal(failures.length, 1);
  assert.deepEqual(records(), []);
  await journal.close();
});

/** Catches what is thrown outside of any promise; returns its messages. */
function uncaught(t: TestContext): readonly string[] {
  const messages: string[] = [];
  process.setUncaughtExceptionCaptureCallback(({ message }) =>
    messages.push(message)
  );
  t.after(() => process.setUncaughtExceptionCaptureCallback(null));
  return messages;
}

test('a listener to "failed" that throws does not prevent closing', async (t) => {
  const messages = uncaught(t);
  const path = join(temporaryFolder(), "plants.ndjson");
  const journal = await openJournal(path);
  journal.once("failed", () => {
    throw new Error("thrown");
  });
  rmSync(path);
  assert.deepEqual(await append(journal, fern), ["unknown"]);
  await journal.close();
  assert.deepEqual(messages, ["thrown"]);
  assert.deepEqual(
    readdirSync(dirname(path)),
    [],
    "neither its lock stays, nor a mark that it was closed"
  );
});

test("close settles all that was accepted, accepts no more, and may be called again", async () => {
  const { path, disk, journal, records } = await simulated({
    batchBytesMax: 1024
  });
  const accepted = append(journal, ...many(99));
  const closed = Promise.all([journal.close(), journal[Symbol.asyncDispose]()]);
  const late = append(journal, fern);
  await closed;
  assert.deepEqual(await accepted, stored(99));
  assert.deepEqual(await late, ["closed"]);
  assert.deepEqual(await append(journal, fern), ["closed"]);
  assert.equal(records().length, 99);
  await (await openJournal(path, { disk })).close();
});

test("stats has the records and bytes of the file, and of the queue", async () => {
  const { path, disk, journal, bytes } = await simulated();
  const plantBytes = '{"id":1,"name":"Fern"}'.length;
  const check = (of: Journal, records: number, waiting: number) => {
    const { keysSeconds = 0, ...stats } = of.stats;
    assert.ok(keysSeconds > 0, "keys.test.ts has its values");
    const queue = { records: waiting, bytes: waiting * plantBytes };
    assert.deepEqual(stats, { records, bytes: bytes().length, queue });
  };
  check(journal, 0, 0);
  const begun = disk.stall();
  const first = journal.append(fern);
  await begun;
  const second = journal.append(fern);
  check(journal, 0, 2);
  disk.resume();
  await Promise.all([first, second]);
  check(journal, 2, 0);
  await journal.close();
  const again = await openJournal(path, { disk });
  check(again, 2, 0);
  await again.close();
});

test("the duration of a batch is that of its write, without its callers' work", async (t) => {
  const { disk, journal } = await simulated();
  let now = 0;
  t.mock.method(performance, "now", () => now);
  const measured = once(journal, "batch");
  const begun = disk.stall();
  const stored = appendJsonOf(journal)('{"id":1,"name":"Fern"}').then(() => {
    now = 1_000;
  });
  await begun;
  now = 7;
  disk.resume();
  await stored;
  assert.equal((await measured)[1], 7);
  await journal.close();
});

test("events: a durable batch, a batch that found no space, and the failure", async () => {
  const { disk, journal } = await simulated();
  const events: string[] = [];
  journal.on("batch", (records, millis) => {
    assert.ok(millis >= 0 && Number.isFinite(millis), `${millis}`);
    assert.equal(journal.stats.queue.records, 0);
    events.push(`batch of ${records}`);
  });
  journal.on("full", () => void events.push("full"));
  journal.on("failed", () => void events.push("failed"));
  assert.deepEqual(await append(journal, fern, fern, fern), stored(3));
  disk.fail("append", { errno: ENOSPC });
  assert.deepEqual(await append(journal, fern), ["full"]);
  assert.deepEqual(await append(journal, fern), ["stored"]);
  disk.fail("append", { errno: EIO });
  assert.deepEqual(await append(journal, fern), ["unknown"]);
  await setImmediate();
  assert.deepEqual(events, ["batch of 3", "full", "batch of 1", "failed"]);
  assert.equal(disk.faultsFired, 2);
  await journal.close();
});

test("an inspected journal shows no plant, neither waiting nor written", async () => {
  const { disk, journal } = await simulated();
  const shown = (): string =>
    inspect(journal, { depth: Infinity, showHidden: true }) +
    JSON.stringify(journal) +
    String(journal);
  const begun = disk.stall();
  const appends = append(
    journal,
    { id: 1n, name: "s3cret" },
    { id: 2n, name: "s3cret" }
  );
  await begun;
  assert.equal(journal.stats.queue.records, 2, "the control: it has them");
  assert.doesNotMatch(shown(), /s3cret/);
  disk.resume();
  assert.deepEqual(await appends, stored(2));
  assert.doesNotMatch(shown(), /s3cret/);
  await journal.close();
});
