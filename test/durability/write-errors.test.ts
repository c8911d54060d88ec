/** Writes that fail or are short, and other processes that change the file: true outcomes. */
import assert from "node:assert/strict";
import {
  appendFileSync,
  copyFileSync,
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
  record,
  simulated
} from "../support/journals.ts";
import type { SimulatedDisk } from "../support/simdisk.ts";
import { temporaryFolder } from "../support/support.ts";
import { missing } from "../support/tools.ts";

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

const lineBytes = record(1, headerBytes, '{"id":1,"name":"Fern"}').length;

/** Changes by another process; each is real, and so is the file. */
for (const [says, act] of [
  ["grows", (name: string) => appendFileSync(name, "x\n")],
  ["is truncated", (name: string) => truncateSync(name, headerBytes)],
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

for (const [says, act, expectedBytes] of [
  [
    "appended",
    (path: string) => appendFileSync(path, "x".repeat(999)),
    headerBytes + lineBytes + 999
  ],
  [
    "truncated it",
    (path: string) => truncateSync(path, headerBytes),
    headerBytes
  ]
] as const)
  test(`no space, and another process has ${says}: the file stays as it is`, async () => {
    const path = join(temporaryFolder(), "plants.ndjson");
    let isFull = false;
    const disk = diskWith((file) => ({
      append(bytes) {
        if (!isFull) return file.append(bytes);
        act(path);
        return Promise.reject(
          Object.assign(new Error("ENOSPC"), { errno: -ENOSPC })
        );
      }
    }));
    const journal = await openJournal(path, { disk });
    assert.deepEqual(await append(journal, fern), ["stored"]);
    isFull = true;
    assert.deepEqual(await append(journal, fern), ["unknown"]);
    assert.equal(statSync(path).size, expectedBytes);
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
