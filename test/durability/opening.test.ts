/**
 * Opening: what each state of a file's end means. The table of ends has the verdicts, and
 * histories.test.ts fails each step.
 */
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import {
  chmodSync,
  chownSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync
} from "node:fs";
import { constants } from "node:os";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";
import { isDeepStrictEqual } from "node:util";
import { JournalError } from "../../src/journal/error.ts";
import {
  cleanEnvironment,
  placeIn,
  temporaryFolder
} from "../support/support.ts";
import {
  bytesOf,
  changed,
  completedOf,
  end,
  ends,
  nuls,
  refused,
  six,
  type End,
  type Verdict
} from "../support/ends.ts";
import {
  at,
  diskWith,
  EIO,
  header,
  headerBytes,
  lineOf,
  marksIn,
  openJournal,
  record,
  recordStart
} from "../support/journals.ts";
import { SimulatedDisk } from "../support/simdisk.ts";
import { readableByAll } from "../support/tools.ts";

const path = "/plants.ndjson";

/** A disk with a file, and with a FILE.rewrite. */
function diskOf(file?: Buffer, copy?: string): SimulatedDisk {
  const disk = new SimulatedDisk();
  if (file) disk.put(path, file);
  if (copy !== undefined) disk.put(`${path}.rewrite`, Buffer.from(copy));
  return disk;
}

/** What an opening does: the error's essence, what it says, and what it leaves. */
interface Opening {
  readonly error: string;
  readonly warnings: readonly string[];
  readonly files: Readonly<Record<string, Buffer | undefined>>;
}

/** What the verdict says that an opening does, which has `left` the file. */
function expectedOf(before: Buffer, verdict: Verdict, left: Buffer): Opening {
  const opening = { error: "none", warnings: [], files: { [path]: before } };
  switch (verdict.kind) {
    case "new":
      return headerForm.test(left.toString("latin1"))
        ? { ...opening, files: { [path]: left } }
        : assert.fail("expected a new header");
    case "clean":
      return opening;
    case "unterminated":
      return { ...opening, files: { [path]: bytesOf(before, "\n") } };
    case "torn": {
      const { at } = verdict;
      const copy = `${path}.torn-${at}`;
      const torn = before.subarray(at);
      const warning = `${path}: at offset ${at}, a torn end of ${torn.length} bytes was moved to ${copy}`;
      return {
        ...opening,
        warnings: [warning],
        files: { [path]: before.subarray(0, at), [copy]: torn }
      };
    }
    case "refused": {
      const { at } = verdict;
      return { ...opening, error: `damaged 65 ${at} ${path}, names all` };
    }
  }
}

/** Returns an error's essence; a refusal names the file, the offset and the command that helps. */
function essenceOf(error: unknown): string {
  if (!(error instanceof JournalError)) return String(error);
  const { code, exitCode, offset, message } = error;
  const names = [path, `offset ${offset}`, "verify"];
  const isWhole = names.every((text) => message.includes(text));
  return `${code} ${exitCode} ${offset} ${error.path}, ${isWhole ? "names all" : message}`;
}

const headerForm =
  /^\{"journal":"plant-store","version":1,.*"crc":"\w{8}"\}\n$/;

/** Opens the file, and closes it again. */
async function open(disk: SimulatedDisk): Promise<Opening> {
  const warnings: string[] = [];
  const warn = (text: string) => void warnings.push(text);
  const error = await openJournal(path, { disk, warn }).then(
    (journal) => journal.close().then(() => "none"),
    essenceOf
  );
  const files = Object.fromEntries(
    disk.files().map((name) => [name, disk.bytes(name)])
  );
  return { error, warnings, files };
}

/** Opens a file, and fails unless everything that the verdict says is so. */
async function check(
  disk: SimulatedDisk,
  verdict: Verdict,
  completed?: Buffer
): Promise<void> {
  const there = Buffer.from(disk.bytes(path) ?? nuls(0));
  const copyPath = `${path}.rewrite`;
  const copy = disk.bytes(copyPath);
  const isRefused = verdict.kind === "refused";
  const before = isRefused ? there : (completed ?? there);
  const found = await open(disk);
  const opened = Buffer.from(disk.bytes(path) ?? nuls(0));
  const expected = expectedOf(before, verdict, opened);
  if (isRefused && copy) Object.assign(expected.files, { [copyPath]: copy });
  assertAlike(found, expected);

  // A refusal leaves no lock. After another end, the next opening finds nothing to repair or to
  // refuse, whether this one is closed or killed.
  for (const mark of disk.marks()) if (!isRefused) disk.remove(mark);
  assertAlike(
    await open(disk),
    isRefused ? expected : { ...expected, warnings: [] }
  );
  if (isRefused) return;
  const journal = await openJournal(path, { disk });
  await journal.append({ id: 8n, name: "Moss" });
  await journal.close();
  assertAppended(disk.bytes(path) ?? nuls(0), opened);
}

/** Fails in one short line, unless two openings are equal. */
function assertAlike(found: Opening, expected: Opening): void {
  const shown = ({ error, warnings, files }: Opening): string =>
    [
      error,
      ...warnings,
      ...Object.entries(files).map(
        ([name, bytes]) => `${name} ${bytes?.length}`
      )
    ].join("; ");
  assert.ok(
    isDeepStrictEqual(found, expected),
    `expected ${shown(expected)}, found ${shown(found)}`
  );
}

const messageOf = (error: unknown): string =>
  error instanceof Error ? error.message : String(error);

/** Asserts that a record follows what was opened, with the next number. */
function assertAppended(file: Buffer, opened: Buffer): void {
  const line = file.toString("utf8", opened.length);
  const when = /"at":"([^"]*)"/.exec(line)?.[1] ?? "";
  const numbers = opened.toString("latin1").match(/(?<=\{"seq":)\d+/g) ?? [];
  const seq = 1 + Number(numbers.at(-1) ?? 0);
  const plant = '{"id":8,"name":"Moss"}';
  const start = recordStart(seq, opened.length, plant);
  assert.equal(line, lineOf(start.replace(at, when)));
}

/** Checks an end, also with the mark of a closed journal: that refuses what is not clean. */
async function checkAll(state: End) {
  const { file, verdict, copy } = state;
  await check(diskOf(file, copy), verdict, completedOf(state));
  if (copy !== undefined) return;

  const closed = diskOf(file);
  closed.markClosed(path);
  if (!file || /^(?:clean|refused)$/.test(verdict.kind))
    return check(closed, verdict);
  const at = { new: 0, unterminated: file.length };
  await check(
    closed,
    refused("at" in verdict ? verdict.at : (at[verdict.kind as "new"] ?? 0))
  );
}

// One test for all rows: a fault in the source changes many verdicts, and each takes one line.
test("each end of a file opens as the table says", async () => {
  const differences: string[] = [];
  for (const [says, state] of Object.entries(ends)) {
    try {
      await checkAll(state);
    } catch (error) {
      differences.push(`${says}: ${messageOf(error)}`);
    }
  }
  assert.deepEqual(differences, []);
});

test("a lock decides before what can be read, and that before what the file has", async () => {
  const file = changed(six, 20, "x");
  for (const isLocked of [true, false]) {
    const disk = diskOf(file);
    if (isLocked) await disk.lock(path, disk.look(path)?.identity ?? "", []);
    disk.fail("read", { errno: EIO });
    const code = isLocked ? "locked" : "unreadable";
    await assert.rejects(openJournal(path, { disk }), { code });
    assert.deepEqual(disk.bytes(path), file, "a refusal touches nothing");
  }
});

test("a torn end goes to its own file, and no earlier one is overwritten", async () => {
  const disk = diskOf(bytesOf(six, "torn"));
  const earlier = `${path}.torn-${end}`;
  disk.put(earlier, nuls(0));
  const { files, warnings } = await open(disk);
  const [, , copy = ""] = Object.keys(files);
  assert.match(copy.slice(earlier.length), /^-[\da-f-]{36}$/);
  assert.equal(`${files[copy]}`, "torn");
  assert.equal(files[earlier]?.length, 0);
  assert.ok(warnings[0]?.endsWith(copy));
});

test("a start that finds no space, whichever write needs it, has copied a torn end once", async () => {
  for (let written = 0; written < 3; written++) {
    const disk = diskOf(bytesOf(six, "torn"));
    disk.fail("append", { errno: constants.errno.ENOSPC }, written);
    await assert.rejects(openJournal(path, { disk }), { exitCode: 74 });
    assert.equal(disk.faultsFired, 1);
    const parts = disk.names().filter((name) => name.endsWith(".part"));
    assert.deepEqual(parts, [], "its blocks are free again");
    await (await openJournal(path, { disk })).close();
    assert.deepEqual(
      disk.files().filter((name) => name.includes(".torn-")),
      [`${path}.torn-${end}`]
    );
  }
});

test("a symbolic link is followed: file and copy are its target's", async () => {
  const { folder, path } = placeIn();
  writeFileSync(path, bytesOf(six, "torn"));
  const link = join(temporaryFolder(), "link");
  symlinkSync(path, link);
  await (await openJournal(link)).close();
  assert.ok(lstatSync(link).isSymbolicLink());
  assert.deepEqual(readFileSync(path), six);
  assert.equal(readFileSync(`${path}.torn-${end}`, "utf8"), "torn");
  assert.equal(marksIn(folder).length, 1);
});

/** What a user without privileges cannot open: the exit code, and a part of the message. */
const refusals: readonly (readonly [
  says: string,
  code: number,
  message: RegExp,
  make: (path: string) => unknown
])[] = [
  [
    "a FIFO",
    65,
    /not a regular file/,
    (path) => execFileSync("mkfifo", [path])
  ],
  [
    "a file that may not be read",
    74,
    /EACCES.*: owner \d+, mode 200, this process is user \d+/,
    (path) => writeFileSync(path, six, { mode: 0o200 })
  ],
  [
    "a file that may not be written",
    74,
    /EACCES.*: owner \d+, mode 400, this process is user \d+/,
    (path) => writeFileSync(path, six, { mode: 0o400 })
  ],
  [
    "a link into a missing directory",
    74,
    /ENOENT: .*realpath/,
    (path) => symlinkSync("/nowhere/at/all", path)
  ],
  ["links that form a cycle", 74, /ELOOP/, (path) => symlinkSync(path, path)],
  [
    "no file, in a directory that may not be written",
    74,
    /EACCES/,
    () => undefined
  ],
  [
    "an empty file in such a directory",
    74,
    /EACCES.*plants\.ndjson\.rewrite\.part/,
    (path) => writeFileSync(path, "")
  ]
];

test("what a user without privileges cannot open ends with the code of the table, and stays as it was", () => {
  const nobody = 65534;
  const isRoot = process.getuid?.() === 0;
  const place = temporaryFolder();
  chmodSync(place, 0o755);
  const paths = refusals.map(([, , , make], index) => {
    const path = join(place, `${index}`, "plants.ndjson");
    mkdirSync(dirname(path));
    make(path);
    if (isRoot && lstatSync(path, { throwIfNoEntry: false })?.isFile())
      chownSync(path, nobody, nobody);
    chmodSync(dirname(path), 0o555);
    return path;
  });

  // Change times show that nothing was written, made or removed.
  const listed = () =>
    execFileSync("ls", [
      "-lR",
      "--time-style=full-iso",
      "-c",
      place
    ]).toString();
  const before = listed();
  const script = `
    import { openJournal } from ${JSON.stringify(pathToFileURL(join(dirname(readableByAll()), "index.js")))};
    const found = [];
    for (const path of ${JSON.stringify(paths)})
      found.push(await openJournal(path).then(
        () => [], ({ exitCode, message }) => [exitCode, message]));
    console.log(JSON.stringify(found));`;
  const { stdout, stderr } = spawnSync(
    process.execPath,
    ["--input-type=module", "-e", script],
    {
      cwd: place,
      encoding: "utf8",
      env: cleanEnvironment(),
      ...(isRoot && { uid: nobody, gid: nobody })
    }
  );
  assert.equal(listed(), before);
  for (const path of paths) chmodSync(dirname(path), 0o755);
  const found = JSON.parse(stdout || assert.fail(stderr));
  for (const [index, [says, code, message]] of refusals.entries()) {
    assert.equal(found[index][0], code, `${says}: ${found[index]}`);
    assert.match(found[index][1], message, says);
  }
});

test("opening reads the end only: as much of 20,000 records as of 2,000", async () => {
  const readOf = async (records: number): Promise<number> => {
    const lines = [header];
    for (let seq = 1, end = headerBytes, synced = end; seq <= records; seq++) {
      if (seq % 100 === 0) synced = end;
      end += lines[lines.push(record(seq, synced)) - 1]?.length ?? 0;
    }
    const { path } = placeIn();
    writeFileSync(path, lines.join(""));
    let bytes = 0;
    const disk = diskWith(({ read }) => ({
      read(offset, length) {
        bytes += length;
        return read(offset, length);
      }
    }));
    const limits = { keysBytesMax: 4096 };
    await (await openJournal(path, { disk, limits })).close();
    return bytes;
  };
  const tiny = await readOf(200);
  const small = await readOf(2_000);
  const big = await readOf(20_000);
  assert.ok(
    tiny > 10_000 && tiny < small,
    `the control: ${tiny} bytes read of a small one`
  );
  assert.ok(
    big < small + 4096 && big < 2 ** 18,
    `${small} and ${big} bytes read`
  );
});
