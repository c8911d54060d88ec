/**
 * Hostile keys: one key in very many requests, and keys that collide.
 *
 * PLANT_TEST_ROUNDS, whatever its value, makes it 100,000 requests instead of 1,000, and 1,000
 * connections instead of 100.
 */
import assert from "node:assert/strict";
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { openJournal } from "../../src/index.ts";
import { KeyWindow } from "../../src/journal/keys.ts";
import { exchange } from "../support/exchange.ts";
import { fern } from "../support/journals.ts";
import {
  post,
  startProcess,
  temporaryFolder,
  type Running
} from "../support/support.ts";

const [requests, connections] =
  process.env["PLANT_TEST_ROUNDS"] === undefined
    ? [1_000, 100]
    : [100_000, 1_000];

/** Sends so many requests, 50 at a time; counts statuses and replays. */
async function flood({ port }: Running, request: Buffer, count: number) {
  const found = { 200: 0, 422: 0, replayed: 0 };
  for (let left = count; left > 0; left -= 50) {
    const answers = Math.min(left, 50);
    const bytes = Buffer.concat(Array<Buffer>(answers).fill(request));
    for (const { status, headers } of await exchange(port, bytes, {
      answers
    })) {
      assert.ok(status === 200 || status === 422, `${status}`);
      found[status]++;
      if (headers["idempotency-replayed"] === "true") found.replayed++;
    }
  }
  return found;
}

const fernJson = '{"id":1,"name":"Fern"}';
const withKey = (key: string, plant = fernJson): Buffer =>
  post(plant, `Idempotency-Key: ${key}\r\n`);

test(`${connections} connections at once, then ${requests} requests over 20, store a record for each key, in a heap of 64 MiB`, async () => {
  const path = join(temporaryFolder(), "plants.ndjson");
  // Where requests with one key kept much, this heap would be too small.
  const nodeArgs = ["--max-old-space-size=64"];
  const server = await startProcess({ nodeArgs, args: ["--store", path] });
  type Count = Awaited<ReturnType<typeof flood>>;
  const sum = (found: readonly Count[], name: keyof Count) =>
    found.reduce((total, one) => total + one[name], 0);
  const first = await Promise.all(
    Array.from({ length: connections }, () =>
      flood(server, withKey("first"), 1)
    )
  );
  assert.equal(sum(first, 200), connections);
  assert.equal(sum(first, "replayed"), connections - 1);

  const { size } = statSync(path);
  const each = requests / 20;
  const found = await Promise.all(
    Array.from({ length: 20 }, (_, index) =>
      flood(
        server,
        index === 0 ? withKey("k", '{"id":2,"name":"Fern"}') : withKey("k"),
        each
      )
    )
  );
  // Whichever plant came first, the key is that plant's.
  const conflicts = sum(found, 422);
  assert.equal(sum(found, 200) + conflicts, requests);
  assert.equal(
    sum(found, "replayed"),
    sum(found, 200) - 1,
    "one request stored it"
  );
  assert.ok(
    conflicts === each || conflicts === requests - each,
    `${conflicts} conflicts`
  );
  assert.equal(
    readFileSync(path, "utf8").slice(size).split("\n").length - 1,
    1,
    "one record"
  );
  assert.equal(await server.end(), 0);
});

const keyOf = (id: number, start = "A".repeat(16)): string =>
  `${start}${id.toString(36).padStart(21 - start.length, "A")}A`;

test("500 keys that share their first 96 bits do not share a chain", (t) => {
  const window = new KeyWindow(2 ** 26);
  for (let id = 0; id < 500; id++) window.add(keyOf(id), fernJson, 140);
  const { mock } = t.mock.method(Buffer.prototype, "compare");
  for (let id = 0; id < 500; id++) {
    const found = window.find(keyOf(id), fernJson);
    assert.ok(found && "isReplay" in found);
    assert.equal(window.find(keyOf(id, "B".repeat(16)), fernJson), undefined);
  }

  // Those that are found compare their key and their plant.
  const compared = mock.callCount();
  assert.ok(compared >= 1_000 && compared < 2_000, `${compared}`);
});

test("keys that differ in one bit, wherever it is, are different keys", async () => {
  const path = join(temporaryFolder(), "plants.ndjson");
  await using journal = await openJournal(path);
  const base = Buffer.alloc(16);
  const keys = [
    base,
    ...Array.from({ length: 128 }, (_, bit) => {
      const other = Buffer.from(base);
      other[bit >> 3] = 1 << (bit & 7);
      return other;
    })
  ].map((bytes) => bytes.toString("base64url"));
  for (const expected of ["stored", "replayed"]) {
    const outcomes = await Promise.all(
      keys.map(async (key) => journal.appendOnce?.(fern, key))
    );
    assert.deepEqual(new Set(outcomes), new Set([expected]));
  }
  assert.equal(journal.stats.records, 129);
});
