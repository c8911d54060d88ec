/** The real disk does what the journal, and the simulated disk in its place, take for granted; descriptors
 * are closed; paths that a journal cannot have are refused. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { once } from "node:events";
import {
  appendFileSync,
  constants,
  mkdirSync,
  readdirSync,
  renameSync,
  rmdirSync,
  symlinkSync,
  writeFileSync
} from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { test } from "node:test";
import { openToRead, realDisk } from "../../src/journal/files.ts";
import { abstractOf } from "../../src/journal/lock.ts";
import { fern, journalWith, openJournal } from "../support/journals.ts";
import {
  cleanEnvironment,
  library,
  placeIn,
  socketFolder,
  temporaryFolder
} from "../support/support.ts";
import {
  flagsOf,
  leavesNoDescriptor,
  noDescriptors
} from "../support/tools.ts";
import { seconds } from "../support/until.ts";

test(
  "on Linux all that is written is flushed by the write itself",
  { skip: noDescriptors },
  async () => {
    const folder = temporaryFolder();
    const { O_APPEND, O_DSYNC } = constants;
    const path = join(folder, "plants.ndjson");
    const journal = await openJournal(path);
    assert.equal(flagsOf(path) & O_DSYNC, O_DSYNC);
    assert.equal(flagsOf(path) & O_APPEND, O_APPEND);
    await journal.close();
    const copy = join(folder, "copy");
    const beside = realDisk.openBeside(copy);
    assert.equal(flagsOf(copy) & O_DSYNC, O_DSYNC);
    beside.close();
    const reader = openToRead(path);
    assert.equal(
      flagsOf(path) & O_DSYNC,
      0,
      "the control: what is only read has not the flag"
    );
    reader.close();
  }
);

test("a read has the bytes that are there, and ends where the file ends", () => {
  const path = join(temporaryFolder(), "file");
  writeFileSync(path, "0123456789");
  const file = openToRead(path);
  const cases = [
    [0, 10, "0123456789"],
    [7, 3, "789"],
    [7, 4, "789"],
    [0, 99, "0123456789"],
    [10, 1, ""],
    [99, 9, ""]
  ] as const;
  for (const [offset, length, text] of cases) {
    assert.equal(file.read(offset, length).toString(), text);
  }
  file.close();
});

test("a journal that is left open, and its locks, keep no process alive", () => {
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    [
      "--input-type=module",
      "-e",
      `
    import { openJournal } from ${JSON.stringify(library)};
    const journal = await openJournal("plants.ndjson");
    await journal.append({ id: 1n, name: "" });
    console.log("stored");`
    ],
    {
      cwd: temporaryFolder(),
      env: cleanEnvironment(),
      encoding: "utf8",
      timeout: seconds(60)
    }
  );
  assert.equal(status, 0, stderr);
  assert.equal(stdout, "stored\n", stderr);
});

test(
  "openings, refusals, rotations and syncs that fail leave no descriptor open",
  { skip: noDescriptors },
  async () => {
    const path = await journalWith(
      join(temporaryFolder(), "plants.ndjson"),
      fern
    );
    await leavesNoDescriptor(async () => {
      // This directory cannot be synced.
      await assert.rejects(realDisk.syncDirectory("/proc/self"), {
        code: "EINVAL"
      });
      writeFileSync(`${path}.rewrite`, "x");
      writeFileSync(`${path}.torn-${realDisk.look(path)?.bytes}`, "born");
      appendFileSync(path, "torn");
      const journal = await openJournal(path);
      await assert.rejects(openJournal(path), { code: "locked" });
      renameSync(path, `${path}.1`);
      mkdirSync(path);
      await assert.rejects(journal.rotate());
      rmdirSync(path);
      assert.equal(await journal.rotate(), true);
      await journal.close();
      writeFileSync(`${path}.1`, "x\n".repeat(100));
      await assert.rejects(openJournal(`${path}.1`), { code: "damaged" });
    });
  }
);

test(
  "a client of a lock's socket is disconnected at once: no descriptor stays open",
  { timeout: seconds(60) },
  async () => {
    const { folder, path } = placeIn(socketFolder());
    const journal = await openJournal(path);
    const { identity = "" } = realDisk.look(path) ?? {};
    const [beside = ""] = readdirSync(folder).filter((name) =>
      name.includes(".lock-")
    );
    for (const name of [join(folder, beside), abstractOf(identity)])
      await once(connect(name).resume(), "close");
    await journal.close();
  }
);

// Paths that a journal cannot have.

test("a name that is too long ends with the system's error", async () => {
  const folder = temporaryFolder();
  await assert.rejects(openJournal(join(folder, "x".repeat(256))), {
    exitCode: 74,
    message: /ENAMETOOLONG/
  });
  assert.deepEqual(readdirSync(folder), []);
});

test(
  "a path that is not valid UTF-8 is refused: another file would be created",
  {
    skip: process.platform === "linux" ? false : "only Linux has such names"
  },
  async () => {
    const folder = temporaryFolder();
    const link = join(folder, "link");
    symlinkSync(Buffer.from(`${folder}/plants-\xff.ndjson`, "latin1"), link);
    for (const path of [
      link,
      join(folder, "plants-\ufffd.ndjson"),
      join(folder, "plants-\ud800")
    ]) {
      await assert.rejects(openJournal(path), {
        code: "failed",
        exitCode: 74,
        message: /UTF-8/
      });
    }
    assert.deepEqual(readdirSync(folder), ["link"], "nothing is created");
  }
);
