/**
 * Hostile keys: one key in very many requests, keys that collide, a window that is far too small.
 *
 * PLANT_TEST_ROUNDS, whatever its value, makes it 100,000 requests instead of 3,000, and 1,000
 * connections instead of 300.
 */
import assert from "node:assert/strict";
import { readFileSync, statSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { test } from "node:test";
import { openJournal } from "../../src/index.ts";
import { KeyWindow } from "../../src/journal/keys.ts";
import { fern, idsIn, outcomeOf, plantOf, read } from "../support/journals.ts";
import { post, seeded, start, temporaryFolder, type Running } from "../support/support.ts";
import { memoryOf } from "../support/tools.ts";

const [requests, connections] = process.env["PLANT_TEST_ROUNDS"] === undefined ? [3_000, 300] : [100_000, 1_000];

/** Sends so many requests over one connection, `depth` at a time; counts statuses and replays. */
async function flood(server: Running, request: Buffer, count: number, depth: number) {
  const socket = connect(server.port, "127.0.0.1").setNoDelay(true);
  const found = { 200: 0, 422: 0, replayed: 0 };
  let [sent, text] = [0, ""];
  const send = (): void => {
    const more = Math.min(depth, count - sent);
    sent += more;
    if (more > 0) socket.write(Buffer.concat(Array<Buffer>(more).fill(request)));
    else socket.end();
  };
  await new Promise<void>((resolve, reject) => {
    socket.on("connect", send).on("error", reject).on("close", () => resolve());
    socket.on("data", (chunk) => {
      text += chunk.toString("latin1");
      // A body ends in LF, and no field does.
      for (let end = text.indexOf("}\n"); end >= 0; end = text.indexOf("}\n")) {
        const response = text.slice(0, end);
        text = text.slice(end + 2);
        const status = /^HTTP\/1\.1 (200|422) /.exec(response)?.[1];
        if (status === undefined) return void socket.destroy(new Error(response));
        found[status as "200" | "422"]++;
        if (response.includes("Idempotency-Replayed: true")) found.replayed++;
        if (found[200] + found[422] === sent) send();
      }
    });
  });
  return found;
}

const fernJson = '{"id":1,"name":"Fern"}';
const withKey = (key: string, plant = fernJson): Buffer => post(plant, `Idempotency-Key: ${key}\r\n`);

test(`${requests} requests with one key store one record, in bounded memory`, async (t) => {
  const path = join(temporaryFolder(), "plants.ndjson");
  const server = await start({ args: ["--store", path] });
  await flood(server, post(fernJson), 500, 20);
  const { size } = statSync(path);
  const before = memoryOf(server);
  const each = requests / 20;
  const found = await Promise.all(Array.from({ length: 20 }, (_, index) =>
    flood(server, index === 0 ? withKey("k", '{"id":2,"name":"Fern"}') : withKey("k"), each, 50)));
  const sum = (name: "200" | "422" | "replayed") =>
    found.reduce((total, one) => total + one[name], 0);
  // Whichever plant came first, the key is that plant's.
  assert.equal(sum("200") + sum("422"), requests);
  assert.equal(sum("replayed"), sum("200") - 1, "one request stored it");
  assert.ok(sum("422") === each || sum("422") === requests - each, `${sum("422")} conflicts`);
  const added = readFileSync(path).subarray(size);
  assert.equal(added.toString().split("\n").length - 1, 1, "one record");
  const grown = (memoryOf(server) - before) / 1024;
  t.diagnostic(`${JSON.stringify(found[1])}, ${grown.toFixed(1)} MiB more`);
  assert.ok(grown < 100, `${grown} MiB`);
  await server.end();
});

test(`${connections} connections with one key at once: one record`, async () => {
  const path = join(temporaryFolder(), "plants.ndjson");
  const count = connections;
  const server = await start({ args: ["--store", path] });
  const found = await Promise.all(Array.from({ length: count }, () => flood(server, withKey('"k"'), 1, 1)));
  assert.equal(found.filter((one) => one[200] === 1).length, count);
  assert.equal(found.filter(({ replayed }) => replayed === 1).length, count - 1);
  await server.end();
  assert.deepEqual(idsIn(path), [1]);
});

const keyOf = (id: number, start = "A".repeat(16)): string =>
  `${start}${id.toString(36).padStart(21 - start.length, "A")}A`;

test("30,000 keys that share their first 96 bits do not share a chain", { timeout: 60_000 }, () => {
  const window = new KeyWindow(2 ** 30);
  for (let id = 0; id < 30_000; id++) window.add(keyOf(id), fernJson, 140);
  for (let id = 0; id < 30_000; id++) {
    assert.equal(window.find(keyOf(id), fernJson), "replayed");
    assert.equal(window.find(keyOf(id, "B".repeat(16)), fernJson), undefined);
  }
});

test("keys that differ in one bit, wherever it is, are different keys", async () => {
  const path = join(temporaryFolder(), "plants.ndjson");
  await using journal = await openJournal(path);
  const base = Buffer.alloc(16);
  const keys = [base, ...Array.from({ length: 128 }, (_, bit) => {
    const other = Buffer.from(base);
    other[bit >> 3] = 1 << (bit & 7);
    return other;
  })].map((bytes) => bytes.toString("base64url"));
  for (const expected of ["stored", "replayed"]) {
    const outcomes = await Promise.all(keys.map((key) => journal.appendOnce?.(fern, key)));
    assert.deepEqual(new Set(outcomes), new Set([expected]));
  }
  assert.equal(journal.stats.records, 129);
});

test("a window of 1 KiB under load: no key is in the file twice within it, none is lost", async () => {
  const path = join(temporaryFolder(), "plants.ndjson");
  const keysBytesMax = 1024;
  let journal = await openJournal(path, { limits: { keysBytesMax } });
  const next = seeded(1024);
  const stored = new Map<string, number>();
  const counts = new Map<string, number>();
  for (let round = 0; round < 200; round++) {
    await Promise.all(Array.from({ length: 1 + next(40) }, async () => {
      const number = next(60);
      const key = keyOf(number);
      const plant = next(10) === 0 ? plantOf(40) : plantOf(30 + number);
      let outcome = "";
      const result = await outcomeOf(
        journal.appendOnce?.(plant, key).then((value) => { outcome = value; }) ?? Promise.reject());
      if (result !== "stored") outcome = result;
      counts.set(outcome, (counts.get(outcome) ?? 0) + 1);
      if (outcome === "stored") stored.set(key, (stored.get(key) ?? 0) + 1);
    }));
    if (round % 50 !== 0) continue;
    await journal.close();
    journal = await openJournal(path, { limits: { keysBytesMax } });
  }
  await journal.close();
  assert.deepEqual([...counts.keys()].sort(), ["conflict", "replayed", "stored"]);
  const { records, fault } = read(readFileSync(path));
  assert.equal(fault, "");
  const found = new Map<string, number>();
  const last = new Map<string, number>();
  for (const { key = "", offset } of records) {
    assert.ok(offset - (last.get(key) ?? -Infinity) > keysBytesMax, `${key} at ${offset}`);
    last.set(key, offset);
    found.set(key, (found.get(key) ?? 0) + 1);
  }
  assert.deepEqual(found, stored);
});
