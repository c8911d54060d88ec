/** Rotation: a file after another, rotations that fail, and journals that are symbolic links. */
import assert from "node:assert/strict";
import { once } from "node:events";
import {
  appendFileSync,
  copyFileSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmdirSync,
  rmSync,
  symlinkSync,
  truncateSync
} from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import type { Journal } from "../../src/journal/journal.ts";
import { JournalError } from "../../src/journal/error.ts";
import {
  diskWith,
  EIO,
  ENOSPC,
  headerBytes,
  idsIn,
  openJournal,
  outcomeOf,
  read,
  simulated
} from "../support/journals.ts";
import { temporaryFolder } from "../support/support.ts";
import { until } from "../support/until.ts";

const limits = { rotationMillis: 10, keysBytesMax: 65_536 };

const append = (journal: Journal, id: bigint): Promise<string> =>
  outcomeOf(journal.append({ id, name: "Fern" }));

test("after a rename, rotate() continues in a new file, and no plant is lost", async () => {
  const path = join(temporaryFolder(), "plants.ndjson");
  const journal = await openJournal(path);
  assert.equal(
    await journal.rotate(),
    false,
    "the control: a file in its place stays"
  );
  await append(journal, 1n);
  renameSync(path, `${path}.1`);
  const during = append(journal, 2n);
  assert.equal(await journal.rotate(), true);
  assert.equal(await during, "stored");
  await append(journal, 3n);
  await journal.close();
  assert.deepEqual([...idsIn(`${path}.1`), ...idsIn(path)], [1, 2, 3]);
  const [first] = read(readFileSync(path)).records;
  assert.equal(first?.seq, 1);
  assert.equal(first?.synced, headerBytes);
  for (const name of [path, `${path}.1`])
    await (await openJournal(name)).close();
});

test("a batch in flight lands in the old file, a plant that waits in the new one", async () => {
  const { path, disk, journal, during } = await simulated();
  let rotated: Promise<boolean> | undefined;
  const outcomes = during(
    () => {
      disk.rename(path, `${path}.1`);
      rotated = journal.rotate();
    },
    { id: 2n, name: "" }
  );
  assert.deepEqual(await outcomes, ["stored", "stored"]);
  assert.equal(await rotated, true);
  assert.match(String(disk.bytes(`${path}.1`)), /"id":1,/);
  assert.match(String(disk.bytes(path)), /"seq":1,.*"id":2,/);
  await journal.close();
});

test("a file that can't be looked at any more is not rotated away: the journal fails", async () => {
  const { path, disk, journal, failures } = await simulated();
  disk.rename(path, `${path}.1`);
  disk.fail("look", { errno: EIO });
  assert.equal(await journal.rotate(), false);
  assert.equal(await append(journal, 1n), "unknown");
  assert.equal(disk.faultsFired, 1);
  assert.deepEqual(disk.names(), [`${path}.1`]);
  assert.deepEqual(failures, ["failed 74"]);
  await journal.close();
});

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

/** What is in the way of a rotation, its error, and how it is removed. */
const obstacles: readonly (readonly [
  says: string,
  error: object,
  put: (path: string) => void,
  remove: (path: string) => void
])[] = [
  [
    "a directory is at the path",
    JournalError,
    (path) => mkdirSync(path),
    rmdirSync
  ],
  [
    "the path cannot be looked at",
    { code: "ELOOP" },
    (path) => symlinkSync(path, path),
    (path) => rmSync(path)
  ]
];

/** A journal whose rotation has failed, because of an obstacle that is removed again. */
async function afterFailedRotation(
  [, error, put, remove] = obstacles[0] ?? assert.fail()
) {
  const { path, journal } = await renamed();
  put(path);
  await assert.rejects(journal.rotate(), error);
  assert.equal(
    await append(journal, 1n),
    "stored",
    "still writing to the old file"
  );
  remove(path);
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

for (const obstacle of obstacles) {
  test(`after a failed rotation the old file stays current until one succeeds: ${obstacle[0]}`, async () => {
    const { path, journal } = await afterFailedRotation(obstacle);
    assert.equal(await journal.rotate(), true);
    assert.equal(await append(journal, 2n), "stored");
    await journal.close();
    assert.deepEqual(idsIn(`${path}.1`), [1]);
    assert.deepEqual(idsIn(path), [2]);
  });
}

for (const bytes of [0, 20, headerBytes - 1, headerBytes]) {
  test(`a full disk ends a rotation at ${bytes} bytes, and the next one, or a start, completes it`, async () => {
    for (const next of ["rotation", "start", "start with an empty file"]) {
      const { path, disk, journal, failures } = await simulated();
      disk.rename(path, `${path}.1`);
      const isTheirs = next === "start with an empty file";
      if (isTheirs) disk.put(path, Buffer.alloc(0));
      disk.fail("append", { errno: ENOSPC, bytes });
      await assert.rejects(journal.rotate(), JournalError);
      assert.equal(disk.faultsFired, 1);

      assert.equal(await append(journal, 1n), "stored");
      if (next === "rotation") assert.equal(await journal.rotate(), true);
      else await journal.close();
      const current =
        next === "rotation" ? journal : await openJournal(path, { disk });
      assert.equal(await append(current, 2n), "stored");
      await current.close();
      const found = (name: string) => read(disk.bytes(name) ?? Buffer.alloc(0));
      assert.deepEqual(found(`${path}.1`).ids, [1]);
      assert.deepEqual(found(path).ids, [2]);
      assert.equal(found(path).fault, "");
      assert.deepEqual(disk.files(), [path, `${path}.1`]);
      assert.deepEqual(failures, []);
    }
  });
}

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

test("after a failed rotation the old file is still looked at with each write", async () => {
  for (const [says, act] of [
    ["it was deleted or replaced", (old: string) => rmSync(old)],
    [
      "another process changed it",
      (old: string) => appendFileSync(old, "another's")
    ]
  ] as const) {
    const { path, journal } = await afterFailedRotation();
    act(`${path}.1`);
    const failed = once(journal, "failed");
    assert.equal(await append(journal, 2n), "unknown");
    const [error] = await failed;
    assert.ok(error instanceof JournalError && error.message.includes(says));
    await journal.close();
  }
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

test("a file that cannot be closed prevents neither its unlocking nor the rotation", async () => {
  const path = join(temporaryFolder(), "plants.ndjson");
  let refused = 0;
  const disk = diskWith((file) => ({
    close() {
      file.close();
      refused++;
      throw new Error("EIO: close");
    }
  }));
  const journal = await openJournal(path, { limits, disk });
  renameSync(path, `${path}.1`);
  assert.equal(await journal.rotate(), true);
  await (await openJournal(`${path}.1`)).close();
  await journal.close();
  await (await openJournal(path)).close();
  assert.equal(refused, 2);
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

/** What an operator may do to a link before SIGHUP, and where the journal then goes on. */
for (const [says, act, old, next] of [
  [
    "the link is moved",
    (path: string) => renameSync(path, `${path}.1`),
    "path.1",
    "path"
  ],
  [
    "its target is moved",
    (_: string, target: string) => renameSync(target, `${target}.1`),
    "target.1",
    "target"
  ],
  [
    "the link leads elsewhere, where nothing is",
    (path: string, _: string, other: string) => {
      symlinkSync(other, `${path}.new`);
      renameSync(`${path}.new`, path);
    },
    "target",
    "other"
  ]
] as const) {
  test(`a journal that is a symbolic link rotates: ${says}`, async () => {
    const { path, target, other, journal } = await linked();
    const names = {
      path,
      target,
      other,
      "path.1": `${path}.1`,
      "target.1": `${target}.1`
    };
    assert.equal(
      await journal.rotate(),
      false,
      "the control: a link in its place stays"
    );
    act(path, target, other);
    const during = append(journal, 2n);
    assert.equal(await journal.rotate(), true);
    assert.equal(await during, "stored");
    assert.equal(await append(journal, 3n), "stored");
    const inUse = names[next];
    await assert.rejects(
      openJournal(path),
      { code: "locked" },
      "the new file is locked"
    );
    await (await openJournal(names[old])).close();
    await journal.close();
    assert.deepEqual([...idsIn(names[old]), ...idsIn(inUse)], [1, 2, 3]);
    assert.equal(idsIn(inUse).at(-1), 3);
    assert.equal(lstatSync(inUse).isSymbolicLink(), false);
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

test("a link that is moved, or leads elsewhere, without a rotation is a fault", async () => {
  for (const act of [
    (path: string) => renameSync(path, `${path}.1`),
    (path: string, other: string) => {
      rmSync(path);
      symlinkSync(other, path);
    }
  ]) {
    const { path, target, other, journal } = await linked();
    act(path, other);
    const failed = once(journal, "failed");
    assert.equal(await append(journal, 2n), "unknown");
    const [error] = await failed;
    assert.ok(error instanceof JournalError);
    assert.match(
      error.message,
      /, the journal \(or its .* link\) was renamed, and no SIGHUP, or rotate\(\) of the library, followed$/
    );
    await journal.close();
    assert.equal(existsSync(other), false);
    await (await openJournal(target)).close();
  }
});
