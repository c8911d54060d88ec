/** Writes that fail or are short, and other processes that change the file: true outcomes. */
import assert from "node:assert/strict";
import {
  appendFileSync,
  copyFileSync,
  mkdirSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync
} from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import {
  append,
  diskWith,
  EDQUOT,
  EFBIG,
  EIO,
  ENOSPC,
  fern,
  headerBytes,
  journalWith,
  openJournal,
  simulated
} from "../support/journals.ts";
import type { SimulatedDisk } from "../support/simdisk.ts";
import { temporaryFolder } from "../support/support.ts";
import { missing } from "../support/tools.ts";
import { until } from "../support/until.ts";

// The errors are as many as the ways in which a disk is full; histories.test.ts tries ENOSPC with
// each part of a write.
for (const [name, errno] of Object.entries({ ENOSPC, EDQUOT, EFBIG })) {
  test(`${name}: none of a batch is stored, and the next plant is`, async () => {
    const { disk, journal, failures, records } = await simulated();
    disk.fail("append", { errno, bytes: 100 });
    assert.deepEqual(await append(journal, fern, fern), ["full", "full"]);
    assert.equal(disk.faultsFired, 1);
    assert.deepEqual(await append(journal, fern), ["stored"]);
    assert.deepEqual(failures, []);
    assert.equal(records().length, 1);
  });
}

test("no space after a part of a batch was written: none of it is stored", async () => {
  const { disk, journal, bytes } = await simulated();
  disk.fail("append", { bytes: 150 });
  disk.fail("append", { errno: ENOSPC, bytes: 20 }, 1);
  assert.deepEqual(await append(journal, fern, fern), ["full", "full"]);
  assert.equal(disk.faultsFired, 2);
  assert.equal(bytes().length, headerBytes);
});

test("no space for one batch: the next one, which waited, is tried as usual", async () => {
  const { disk, during } = await simulated();
  const outcomes = during(() => disk.fail("append", { errno: ENOSPC }), fern);
  assert.deepEqual(await outcomes, ["full", "stored"]);
});

/** Faults after which nothing can be trusted; `isTruncated`: the file then ends where it did. */
for (const [says, isTruncated, fail] of [
  [
    "EIO",
    true,
    (disk: SimulatedDisk) => disk.fail("append", { errno: EIO, bytes: 100 })
  ],
  [
    "a write that takes no byte",
    true,
    (disk: SimulatedDisk) => disk.fail("append", { bytes: 0 })
  ],
  [
    "no space, and the truncation fails",
    false,
    (disk: SimulatedDisk) => {
      disk.fail("append", { errno: ENOSPC, bytes: 100 });
      disk.fail("truncate", { errno: EIO });
    }
  ],
  [
    "no space, and its size can't be read",
    false,
    (disk: SimulatedDisk) => {
      disk.fail("append", { errno: ENOSPC, bytes: 100 });
      disk.fail("size", { errno: EIO });
    }
  ]
] as const) {
  test(`${says}: all plants are unknown, waiting and later ones too, and "failed" comes once`, async () => {
    const { disk, journal, failures, bytes, during } = await simulated();
    await journal.append(fern);
    const before = bytes();
    assert.deepEqual(
      await during(() => fail(disk), fern, fern),
      Array(3).fill("unknown")
    );
    assert.ok(disk.faultsFired > 0);
    assert.deepEqual(await append(journal, fern), ["unknown"]);
    assert.deepEqual(failures, ["failed 74"]);
    if (isTruncated) assert.deepEqual(bytes(), before);
    await Promise.all([journal.close(), journal.close()]);
    assert.deepEqual(
      await append(journal, fern),
      ["unknown"],
      "the reason does not change"
    );
    assert.equal(await journal.rotate(), false);
  });
}

/** Changes by another process; each is real, and so is the file. */
for (const [says, act] of [
  ["grows", (name: string) => appendFileSync(name, "x\n")],
  ["is truncated", (name: string) => truncateSync(name, headerBytes)],
  ["is emptied", (name: string) => truncateSync(name, 0)],
  ["is deleted", (name: string) => rmSync(name)],
  [
    "is renamed, and no rotation follows",
    (name: string) => renameSync(name, `${name}.1`)
  ],
  [
    "is replaced by its own copy",
    (name: string) => {
      copyFileSync(name, `${name}.1`);
      renameSync(`${name}.1`, name);
    }
  ],
  [
    "is renamed, and a directory takes its place",
    (name: string) => {
      renameSync(name, `${name}.1`);
      mkdirSync(name);
    }
  ]
] as const) {
  for (const when of ["before", "during"] as const) {
    test(`the file ${says} ${when} a write: no plant is acknowledged, and the journal fails`, async () => {
      const path = join(temporaryFolder(), "plants.ndjson");
      const failures: string[] = [];
      let isNext = false;
      let writes = 0;
      const disk = diskWith((file) => ({
        append(bytes) {
          writes++;
          if (isNext) act(path);
          return file.append(bytes);
        }
      }));
      const journal = await openJournal(path, {
        disk,
        limits: { rotationMillis: 10 }
      });
      journal.on("failed", ({ code }) => failures.push(code));
      assert.deepEqual(
        await append(journal, fern, fern),
        ["stored", "stored"],
        "the control"
      );
      if (when === "before") act(path);
      else isNext = true;
      const before = writes;
      assert.deepEqual(await append(journal, fern, fern), [
        "unknown",
        "unknown"
      ]);
      assert.deepEqual(await append(journal, fern), ["unknown"]);
      assert.deepEqual(failures, ["failed"]);

      // A batch names its offset: it is not written elsewhere. The path is looked at after a write.
      const isSeen = when === "before" && !says.startsWith("is renamed");
      assert.equal(writes - before, isSeen ? 0 : 1);
      await Promise.all([journal.close(), journal.close()]);
    });
  }
}

for (const [says, errno] of [
  ["EIO", EIO],
  ["no space", ENOSPC]
] as const) {
  test(`${says}, and another process has appended: its bytes are not truncated away`, async () => {
    const { path, disk, journal, bytes, failures } = await simulated();
    void disk.stall();
    const other = disk.open(path).append(Buffer.from("another's".repeat(99)));
    disk.fail("append", { errno }, 1);
    const outcomes = append(journal, fern, fern);
    // The journal has looked at the file, and its write waits after the other process's.
    await until("the journal looks", () => disk.calls.includes("look"));
    disk.resume();
    await other;
    assert.deepEqual(await outcomes, ["unknown", "unknown"]);
    assert.equal(disk.faultsFired, 1);
    assert.equal(bytes().length, headerBytes + 9 * 99);
    assert.deepEqual(await append(journal, fern), ["unknown"]);
    assert.deepEqual(failures, ["failed 74"]);
    await journal.close();
  });
}

test("a file that another process has truncated is not extended after a failed write", async () => {
  const path = join(temporaryFolder(), "plants.ndjson");
  let isFull = false;
  const disk = diskWith((file) => ({
    append(bytes) {
      if (!isFull) return file.append(bytes);
      truncateSync(path, headerBytes);
      return Promise.reject(
        Object.assign(new Error("ENOSPC"), { errno: -ENOSPC })
      );
    }
  }));
  const journal = await openJournal(path, { disk });
  assert.deepEqual(await append(journal, fern), ["stored"]);
  isFull = true;
  assert.deepEqual(
    await append(journal, fern),
    ["unknown"],
    "its end is not what it was"
  );
  assert.equal(statSync(path).size, headerBytes);
  await journal.close();
});

test("a torn end that cannot be truncated, because the file is append-only, ends with 74", async (t) => {
  const path = await journalWith(join(temporaryFolder(), "plants.ndjson"));
  appendFileSync(path, '{"seq":1');
  const reason = missing(["chattr", "+a", path]);
  if (reason) return t.skip(reason);
  await assert.rejects(openJournal(path), {
    exitCode: 74,
    message: /EPERM: .*ftruncate/
  });
  assert.ok(!missing(["chattr", "-a", path]));
  await (await openJournal(path)).close();
});
