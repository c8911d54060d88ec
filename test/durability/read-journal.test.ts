/**
 * The library's `readJournal`: exact plants, and beside a live server. verify.test.ts has what it says
 * of each end.
 */
import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { readJournal, type JournalRecord } from "../../src/index.ts";
import { journalWith, openJournal } from "../support/journals.ts";
import { placeIn, temporaryFolder } from "../support/support.ts";
import { until } from "../support/until.ts";

const key = "GZvgPTXzRR2v5tOmMDnAFg";

async function all(path: string): Promise<readonly JournalRecord[]> {
  const records = [];
  for await (const found of readJournal(path)) records.push(found);
  return records;
}

test("readJournal yields each plant as it was appended, with number, time and key", async () => {
  const { path } = placeIn();
  const plants = [
    { id: -(2n ** 63n), name: "" },
    { id: 2n ** 63n - 1n, name: 'F\u00e4rn\u0000\u2028"', tag: "shade" },
    { id: 9007199254740993n, name: "__proto__", tag: "" }
  ];
  const journal = await openJournal(path);
  for (const plant of plants) await journal.append(plant);
  await journal.appendOnce?.({ id: 4n, name: "Moss" }, key);
  await journal.close();
  const records = await all(path);
  assert.deepEqual(
    records.map(({ seq, plant }) => [seq, plant]),
    [...plants, { id: 4n, name: "Moss" }].map((plant, index) => [
      index + 1,
      plant
    ])
  );
  assert.deepEqual(
    records.map((found) => found.key),
    [undefined, undefined, undefined, key]
  );
  for (const { at } of records)
    assert.ok(Math.abs(Date.parse(at) - Date.now()) < 600_000, at);
});

test("readJournal beside a journal that this process writes has every plant acknowledged before, and lets it write", async () => {
  const { path } = placeIn();
  const journal = await openJournal(path);
  const name = "x".repeat(10_000);
  let acknowledged = 0;
  let isWriting = true;
  const writing = (async () => {
    for (; isWriting && acknowledged < 1_000_000; acknowledged++)
      await journal.append({ id: BigInt(acknowledged + 1), name });
  })();
  await until("30 are acknowledged", () => acknowledged >= 30);
  for (let round = 0; round < 20; round++) {
    const before = acknowledged;
    let seq = 0;
    for await (const { plant, ...found } of readJournal(path)) {
      assert.equal(found.seq, ++seq);
      assert.equal(plant.id, BigInt(seq));
    }
    assert.ok(seq >= before, `${seq} of ${before}`);
    if (before > 200) assert.ok(acknowledged > before, "it has written on");
  }
  isWriting = false;
  await writing;
  await journal.close();
});

test("readJournal closes its file when its reader stops early", async () => {
  const { path } = placeIn();
  await journalWith(path, { id: 1n, name: "Fern" }, { id: 2n, name: "Moss" });
  const open = (): number => readdirSync("/proc/self/fd").length;
  const before = open();
  for (let round = 0; round < 20; round++)
    for await (const { seq } of readJournal(path)) if (seq === 1) break;
  assert.ok(open() < before + 20);
});

for (const [says, name, code, message] of [
  ["nothing at the path", "plants.ndjson", "failed", /: ENOENT: /],
  ["a directory", ".", "unreadable", /: is not a regular file$/]
] as const)
  test(`readJournal rejects with a JournalError for ${says}`, async () => {
    const path = join(temporaryFolder(), name);
    const expected = { name: "JournalError", code, path, message };
    await assert.rejects(all(path), expected);
  });
