/** Rotation beyond the plain rename: one that failed, and what is watched after it. */
import assert from "node:assert/strict";
import { once } from "node:events";
import {
  copyFileSync, linkSync, mkdirSync, readFileSync, renameSync, rmdirSync, rmSync, symlinkSync,
} from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { openJournal, type Journal } from "../src/journal/journal.ts";
import { JournalError } from "../src/journal/open.ts";
import { StoreError } from "../src/plant.ts";
import { temporaryFolder } from "./support.ts";

const limits = { rotationMillis: 10 };

/** Appends a plant: "stored", or the StoreError's code. */
const append = (journal: Journal, id: bigint): Promise<string> =>
  journal.append({ id, name: "Fern" }).then(() => "stored", (error: unknown) =>
    error instanceof StoreError ? error.code : String(error));

const idsIn = (path: string): number[] =>
  readFileSync(path, "utf8").trimEnd().split("\n").slice(1)
    .map((line) => (JSON.parse(line) as { plant: { id: number } }).plant.id);

/** A journal whose rotation has failed, for a folder was in the way; that is gone again. */
async function afterFailedRotation() {
  const path = join(temporaryFolder(), "plants.ndjson");
  const journal = await openJournal(path, { limits });
  renameSync(path, `${path}.1`);
  mkdirSync(path);
  await assert.rejects(journal.rotate(), JournalError);
  assert.equal(await append(journal, 1n), "stored", "the old file stays in use");
  rmdirSync(path);
  return { path, journal };
}

test("after a failed rotation the file is watched again once it is put back", async () => {
  const { path, journal } = await afterFailedRotation();
  assert.equal(await append(journal, 2n), "stored", "the control: without a path, not watched");
  renameSync(`${path}.1`, path);
  assert.equal(await append(journal, 3n), "stored");
  // Replaced by its own copy; another name keeps it from being a deleted one.
  linkSync(path, `${path}.2`);
  copyFileSync(path, `${path}.copy`);
  renameSync(`${path}.copy`, path);
  const failed = once(journal, "failed");
  assert.equal(await append(journal, 4n), "unknown");
  await failed;
  assert.deepEqual(idsIn(path), [1, 2, 3]);
  await journal.close();
});

test("after a failed rotation a path that can't even be looked at fails nothing", async () => {
  const path = join(temporaryFolder(), "plants.ndjson");
  const journal = await openJournal(path, { limits });
  renameSync(path, `${path}.1`);
  symlinkSync(path, path);
  await assert.rejects(journal.rotate());
  assert.equal(await append(journal, 1n), "stored", "the old file stays in use");
  rmSync(path);
  assert.equal(await journal.rotate(), true);
  assert.equal(await append(journal, 2n), "stored");
  await journal.close();
  assert.deepEqual([idsIn(`${path}.1`), idsIn(path)], [[1], [2]]);
});
