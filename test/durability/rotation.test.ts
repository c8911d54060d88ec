/**
 * Rotation: plants that wait for one, requests at once, journals that are symbolic links.
 * histories.test.ts has a rotation with each fault.
 */
import assert from "node:assert/strict";
import { once } from "node:events";
import {
  appendFileSync,
  copyFileSync,
  linkSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync
} from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import type { Journal } from "../../src/journal/journal.ts";
import {
  idsIn,
  openJournal,
  outcomeOf,
  simulated
} from "../support/journals.ts";
import { temporaryFolder } from "../support/support.ts";
import { until } from "../support/until.ts";

const limits = { rotationMillis: 10, keysBytesMax: 65_536 };

const append = (journal: Journal, id: bigint): Promise<string> =>
  outcomeOf(journal.append({ id, name: "Fern" }));

test("a journal fails once, whether a batch or a rotation finds the fault", async () => {
  const { path, disk, journal, failures, bytes } = await simulated();
  disk.put(path, Buffer.concat([bytes(), Buffer.from("x")]));
  const outcome = append(journal, 1n);
  assert.equal(await journal.rotate().catch(() => false), false);
  assert.equal(await outcome, "unknown");
  assert.deepEqual(failures, ["failed 74"]);
});

/** A journal whose file is renamed to `moved`, before any rotation. */
async function renamed(rotationMillis = 10) {
  const path = join(temporaryFolder(), "plants.ndjson");
  const journal = await openJournal(path, { limits: { rotationMillis } });
  const moved = `${path}.1`;
  renameSync(path, moved);
  return { path, moved, journal };
}

/** A journal whose rotation has failed, because of an obstacle that is removed again. */
async function afterFailedRotation() {
  const { path, journal } = await renamed();
  symlinkSync(path, path);
  await assert.rejects(journal.rotate(), { code: "ELOOP" });
  assert.equal(
    await append(journal, 1n),
    "stored",
    "still writing to the old file"
  );
  rmSync(path);
  return { path, journal };
}

test("after a failed rotation the file is watched again once it is put back", async () => {
  const { path, journal } = await afterFailedRotation();
  assert.equal(
    await append(journal, 2n),
    "stored",
    "the control: without a path, not watched"
  );
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

test("after a failed rotation the old file stays current until one succeeds", async () => {
  const { path, journal } = await afterFailedRotation();
  assert.equal(await journal.rotate(), true);
  assert.equal(await append(journal, 2n), "stored");
  await journal.close();
  assert.deepEqual(idsIn(`${path}.1`), [1]);
  assert.deepEqual(idsIn(path), [2]);
});

/** Changes to a renamed file while a plant that is in it waits for the rotation. */
for (const [says, expected, change] of [
  ["deleted", "unknown", (moved: string) => rmSync(moved)],
  ["truncate", "unknown", (moved: string) => truncateSync(moved, 200)],
  [
    "written by another",
    "unknown",
    (moved: string) => appendFileSync(moved, "x")
  ],
  ["let be", "stored", () => undefined]
] as const) {
  test(`a plant that waits for its rotation, its file ${says}, is ${expected}`, async () => {
    const { journal, moved } = await renamed(60_000);
    journal.on("failed", () => undefined);
    const appended = append(journal, 1n);
    await until("it is written", () =>
      readFileSync(moved, "utf8").includes("Fern")
    );
    // The write is in the file. That it returns, and the path is looked at, takes a few turns.
    for (let turns = 0; turns < 20; turns++) await turn();
    change(moved);
    await journal.rotate().catch(() => undefined);
    assert.equal(await appended, expected);
    await journal.close();
  });
}

test("a plant that waits for its rotation is stored where its file is put back", async () => {
  const { path, journal, moved } = await renamed(300);
  const appended = append(journal, 1n);
  await until("it is written", () =>
    readFileSync(moved, "utf8").includes("Fern")
  );
  renameSync(moved, path);
  assert.equal(await appended, "stored");
  assert.equal(await append(journal, 2n), "stored");
  await journal.close();
});

test("a rotation that finds the file back at its path watches it again", async () => {
  const { path, journal } = await afterFailedRotation();
  renameSync(`${path}.1`, path);
  assert.equal(await journal.rotate(), false);
  renameSync(path, `${path}.1`);
  assert.equal(await append(journal, 2n), "unknown");
  await journal.close();
});

test("a rotation requested while the journal closes is done: no plant is refused", async () => {
  const path = join(temporaryFolder(), "plants.ndjson");
  const journal = await openJournal(path, {
    limits: { ...limits, batchBytesMax: 1024 }
  });
  const ids = Array.from({ length: 99 }, (_, index) => index + 1);
  renameSync(path, `${path}.1`);
  const taken = ids.map((id) => append(journal, BigInt(id)));
  const closed = journal.close();
  assert.equal(await journal.rotate(), true);
  assert.deepEqual(await Promise.all(taken), Array(99).fill("stored"));
  await closed;
  assert.deepEqual([...idsIn(`${path}.1`), ...idsIn(path)], ids);
  assert.equal(await journal.rotate(), false, "a closed one rotates no more");
});

test("of several rotations at once one is done, and the others find it done", async () => {
  const { journal } = await renamed();
  const stored = append(journal, 1n);
  const rotations = [journal.rotate(), journal.rotate(), journal.rotate()];
  assert.deepEqual(await Promise.all(rotations), [true, false, false]);
  assert.equal(await stored, "stored");
  await journal.close();
});

/** A journal at a path that is a symbolic link to a file in another folder. */
async function linked() {
  const folder = temporaryFolder();
  const elsewhere = temporaryFolder();
  const path = join(folder, "plants.ndjson");
  const target = join(elsewhere, "target.ndjson");
  symlinkSync(target, path);
  const journal = await openJournal(path, { limits });
  assert.equal(await append(journal, 1n), "stored");
  return { path, target, journal, other: join(elsewhere, "other.ndjson") };
}

/** What an operator may do to a link before SIGHUP: the old file is then `old`, the new one `next`. */
for (const [says, act] of [
  [
    "the link is moved",
    (path: string, target: string) => {
      renameSync(path, `${path}.1`);
      return { old: target, next: path };
    }
  ],
  [
    "its target is moved",
    (_: string, target: string) => {
      renameSync(target, `${target}.1`);
      return { old: `${target}.1`, next: target };
    }
  ]
] as const) {
  test(`a journal that is a symbolic link rotates: ${says}`, async () => {
    const { path, target, journal } = await linked();
    assert.equal(
      await journal.rotate(),
      false,
      "the control: a link in its place stays"
    );
    const { old, next } = act(path, target);
    const during = append(journal, 2n);
    assert.equal(await journal.rotate(), true);
    assert.equal(await during, "stored");
    assert.equal(await append(journal, 3n), "stored");
    await assert.rejects(
      openJournal(path),
      { code: "locked" },
      "the new file is locked"
    );
    await (await openJournal(old)).close();
    await journal.close();
    assert.deepEqual([...idsIn(old), ...idsIn(next)], [1, 2, 3]);
    assert.equal(idsIn(next).at(-1), 3);
  });
}

test("a link that leads to another journal: rotation continues after its records", async () => {
  const { path, target, other, journal } = await linked();
  const another = await openJournal(other);
  assert.equal(await append(another, 7n), "stored");
  rmSync(path);
  symlinkSync(other, path);
  await assert.rejects(
    journal.rotate(),
    { code: "locked" },
    "not while another has it"
  );
  assert.equal(
    await append(journal, 2n),
    "stored",
    "still writing to the old file"
  );
  await another.close();
  assert.equal(await journal.rotate(), true);
  assert.equal(await append(journal, 3n), "stored");
  await journal.close();
  assert.deepEqual(idsIn(target), [1, 2]);
  assert.deepEqual(idsIn(other), [7, 3]);
});
