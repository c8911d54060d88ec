/**
 * What others see of a journal while a server starts: after a stop nothing is truncated, and after
 * a crash `verify` and `cat` have every acknowledged plant, or fail.
 */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import {
  appendFileSync,
  copyFileSync,
  existsSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync
} from "node:fs";
import { dirname, join } from "node:path";
import { after, test } from "node:test";
import { JournalError } from "../../src/journal/error.ts";
import { realDisk, type JournalFile } from "../../src/journal/files.ts";
import { readJournal } from "../../src/journal/read.ts";
import { copyOf } from "../support/ends.ts";
import { run } from "../support/in-process.ts";
import {
  diskWith,
  EACCES,
  idsIn,
  journalWith,
  marksIn,
  openJournal,
  simulated
} from "../support/journals.ts";
import { temporaryFolder } from "../support/support.ts";
import { until } from "../support/until.ts";

const plants = Array.from({ length: 5 }, (_, index) => ({
  id: BigInt(index + 1),
  name: "Fern"
}));

/** A journal that was closed in order. */
const newJournal = (): Promise<string> =>
  journalWith(join(temporaryFolder(), "plants.ndjson"), ...plants);

/** A journal whose process died, or had none of its own. */
async function unmarked(): Promise<string> {
  const path = await newJournal();
  for (const mark of marksIn(dirname(path))) rmSync(mark);
  return path;
}

test("verify and cat beside a start that has truncated the end have every plant", async () => {
  const path = await unmarked();
  const { size } = statSync(path);
  let die = (_error: Error): void => undefined;
  const disk = diskWith(() => ({
    append: () =>
      new Promise((_, reject) => {
        die = reject;
      })
  }));
  const opening = openJournal(path, { disk });
  await until("it is truncated", () => statSync(path).size < size);

  const reports = async () => {
    const verified = await run(["verify", "--json", path]);
    const { records, isOpen } = JSON.parse(verified.stdout);
    const { stdout } = await run(["cat", path]);
    return [verified.code, isOpen, records, stdout.match(/"id":\d/g)?.length];
  };
  assert.deepEqual(await reports(), [0, true, 5, 5]);
  die(new Error("killed"));
  await assert.rejects(opening, /killed/);
  assert.deepEqual(
    await reports(),
    [1, false, 5, 5],
    "the next one repairs it"
  );
});

const timeOf = (path: string) => statSync(path, { bigint: true }).mtimeNs;

test("a journal that became shorter since a server closed it is refused until its mark is removed", async () => {
  const path = await newJournal();
  const marks = marksIn(dirname(path));
  const { size } = statSync(path);
  truncateSync(path, 235);
  await assert.rejects(openJournal(path), {
    exitCode: 65,
    offset: 235,
    message: RegExp(
      `a server closed it with ${size} bytes, found 235: ` +
        `to go on with what is left, remove ${marks[0]}; the file is untouched`
    )
  });
  assert.deepEqual(marksIn(dirname(path)), marks);
  for (const command of ["verify", "cat"]) {
    const { code, stdout, stderr } = await run([command, path]);
    assert.equal(code, 65);
    assert.match(stdout + stderr, /a server closed it with/);
  }
  for (const mark of marks) rmSync(mark);
  const journal = await openJournal(path);
  assert.equal(journal.stats.records, 1);
  await journal.close();
});

test("a reader that a server overtakes, which then closes the file, reports no loss", async (t) => {
  const path = await unmarked();
  const { listEmpty } = realDisk;
  const list = t.mock.method(
    realDisk,
    "listEmpty",
    (...given: Parameters<typeof listEmpty>) => {
      if (list.mock.callCount() === 2) {
        appendFileSync(path, "later");
        writeFileSync(`${path}.closed-${realDisk.look(path)?.state}`, "");
      }
      return listEmpty(...given);
    }
  );
  assert.equal(await recordsOf(path), 5);
  assert.equal(list.mock.callCount(), 3);
});

for (const [says, kind] of [
  ["was closed", "closed"],
  ["could not be flushed", "unflushed"]
] as const)
  test(`a new file with the inode of a deleted journal that ${says} is another file`, async () => {
    const path = await newJournal();
    const [made = ""] = marksIn(dirname(path));
    const mark = made.replace("closed", kind);
    renameSync(made, mark);
    rmSync(path);
    const inode = /-(\d+)-/.exec(mark)?.[1] ?? assert.fail(mark);
    const disk = diskWith(() => ({}));
    const open: typeof disk.open = (...given) => {
      const file = realDisk.open(...given);
      return { ...file, look: () => ({ ...file.look(), inode }) };
    };
    for (let start = 0; start < 2; start++)
      await (await openJournal(path, { disk: { ...disk, open } })).close();
    assert.deepEqual(idsIn(path), []);
    assert.ok(!existsSync(mark));
  });

test("a start with an empty file, as logrotate creates it, removes the marks of earlier files", async () => {
  const path = await newJournal();
  const earlier = marksIn(dirname(path));
  renameSync(path, `${path}.1`);
  writeFileSync(path, "");
  await (await openJournal(path)).close();
  assert.equal(earlier.length, 1);
  assert.deepEqual(earlier.filter(existsSync), []);
});

test("a start deletes no other journal's mark, no file whose name only begins as that of a mark, and none that is not empty", async () => {
  const path = await newJournal();
  await journalWith(join(dirname(path), "other.ndjson"));
  const others = marksIn(dirname(path)).filter((name) =>
    name.includes("other")
  );
  assert.equal(others.length, 1);
  const names = ["2026", "for-the-season", "1-2", "1-2-3-4x", "1-2-3"].map(
    (end) => `${path}.closed-${end}`
  );
  for (const name of names)
    writeFileSync(name, name.endsWith("-1-2-3") ? "notes" : "");
  await (await openJournal(path)).close();
  assert.deepEqual([...others, ...names].filter(existsSync), [
    ...others,
    ...names
  ]);
});

for (const [says, act] of [
  [
    "was replaced by its own copy",
    (path: string) => {
      copyFileSync(path, `${path}.copy`);
      renameSync(`${path}.copy`, path);
    }
  ],
  [
    "another process has written to",
    (path: string) => appendFileSync(path, "x")
  ]
] as const)
  test(`a journal that ${says} leaves no mark`, async () => {
    const path = await unmarked();
    const journal = await openJournal(path);
    act(path);
    await journal.close();
    assert.deepEqual(marksIn(dirname(path)), []);
  });

test("a mark that cannot be removed is not used: the end is rewritten", async () => {
  const { path, disk, journal } = await simulated();
  await journal.append({ id: 1n, name: "Fern" });
  await journal.close();
  for (const isRewritten of [true, false]) {
    disk.calls.length = 0;
    if (isRewritten) disk.fail("remove", { errno: EACCES });
    await (await openJournal(path, { disk })).close();
    assert.equal(disk.calls.includes("truncate"), isRewritten);
  }
});

test("a backup with the inode, the size and the time of a closed journal has no mark", async () => {
  const path = await newJournal();
  const backup = `${path}.backup`;
  execFileSync("cp", ["-p", path, backup]);
  execFileSync("cp", ["-p", backup, path]);
  const before = timeOf(path);
  assert.equal(before, timeOf(backup), "the control: the time is the same");
  await (await openJournal(path)).close();
  assert.notEqual(timeOf(path), before, "its end is rewritten");
});

/** A disk whose flush of the whole file fails. */
const unflushing = diskWith(() => ({
  sync: () => Promise.reject(new Error("EIO: i/o error, fsync"))
}));
const notesIn = (path: string) =>
  readdirSync(dirname(path)).filter((name) => name.includes(".unflushed-"));

test("a flush that fails leaves a closed journal's mark, and the next start tries again", async () => {
  const path = await newJournal();
  const marks = marksIn(dirname(path));
  const before = timeOf(path);
  await assert.rejects(openJournal(path, { disk: unflushing }), {
    exitCode: 74,
    message: /: EIO: i\/o error, fsync$/
  });
  assert.deepEqual(notesIn(path), []);
  assert.deepEqual(marksIn(dirname(path)), marks);
  await (await openJournal(path)).close();
  assert.equal(timeOf(path), before, "its end is not rewritten");
});

test("a flush that fails without a mark is noted, for each name of the file in its folder", async () => {
  const path = await unmarked();
  const other = await journalWith(join(dirname(path), "other.ndjson"));
  await assert.rejects(openJournal(path, { disk: unflushing }), {
    exitCode: 74,
    message:
      /fsync: some of it may be in memory only: copy the file there again, then remove .*\.unflushed-[\d-]+$/
  });
  assert.equal(notesIn(path).length, 1);
  for (const name of [path, `${path}.1`]) {
    if (name !== path) renameSync(path, name);
    await assert.rejects(openJournal(name), {
      exitCode: 65,
      message: /a flush of it failed: .* copy the file there again, then remove/
    });
    for (const command of ["verify", "cat"]) {
      const { code, stdout, stderr } = await run([command, name]);
      assert.deepEqual([code, stdout], [65, ""]);
      assert.match(stderr, /a flush of it failed/);
    }
  }
  assert.equal((await run(["verify", other])).code, 0, "it is not noted");
});

test("a flush that fails says so where no note of it can be left", async () => {
  const path = await unmarked();
  const disk = {
    ...unflushing,
    openBeside(): JournalFile {
      throw new Error("ENOSPC");
    }
  };
  await assert.rejects(openJournal(path, { disk }), {
    exitCode: 74,
    message: /copy the file there again; no note of it could be left$/
  });
});

async function recordsOf(
  path: string,
  onFirst = (): void => undefined
): Promise<number> {
  let records = 0;
  for await (const { seq } of readJournal(path)) {
    if (seq === 1) onFirst();
    records = seq;
  }
  return records;
}

const readAgain = (error: unknown): boolean =>
  error instanceof JournalError &&
  error.exitCode === 75 &&
  /changed while it was read: read it again$/.test(error.message);

test("a journal that is truncated while it is read is an error that says so", async () => {
  // More than a block.
  const path = await journalWith(
    join(temporaryFolder(), "plants.ndjson"),
    ...plants,
    { id: 6n, name: "x".repeat(100_000) }
  );
  assert.equal(await recordsOf(path), 6, "the control");
  await assert.rejects(
    recordsOf(path, () => truncateSync(path, 200)),
    readAgain
  );
});

// A start that truncates and writes again while a reader looks for the copy.
for (const [says, cut, restore] of [
  ["is over once the reader looks for its copy", "before", true],
  ["begins once the reader has found no copy", "after", false]
] as const) {
  test(`a reader does not take a truncated file for whole where a start ${says}`, async (t) => {
    const path = await newJournal();
    const whole = readFileSync(path);
    const file = realDisk.open(path);
    after(() => file.close());
    if (cut === "before") truncateSync(path, 300);
    t.mock.method(realDisk, "readBeside", () => {
      if (restore) void file.append(whole.subarray(300));
      while (restore && statSync(path).size < whole.length);
      if (!restore) truncateSync(path, 300);
      return undefined;
    });
    if (restore) assert.equal(await recordsOf(path), 5);
    else await assert.rejects(recordsOf(path), readAgain);
  });
}

test("a copy of the file that has taken a journal's place meanwhile is not taken for its own", async (t) => {
  const path = await newJournal();
  const other = await newJournal();
  t.mock.method(realDisk, "readBeside", () => {
    renameSync(other, path);
    return Buffer.from(copyOf());
  });
  await assert.rejects(recordsOf(path), readAgain);
});
