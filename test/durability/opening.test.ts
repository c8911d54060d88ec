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
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync
} from "node:fs";
import { constants } from "node:os";
import { basename, dirname, join } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";
import { isDeepStrictEqual } from "node:util";
import { realDisk, type Disk } from "../../src/journal/files.ts";
import { JournalError } from "../../src/journal/error.ts";
import {
  cleanEnvironment,
  placeIn,
  temporaryFolder
} from "../support/support.ts";
import {
  bytesOf,
  changed,
  clean,
  completedOf,
  end,
  ends,
  nuls,
  refused,
  six,
  torn,
  unterminated,
  type End,
  type Verdict
} from "../support/ends.ts";
import {
  at,
  diskWith,
  header,
  headerBytes,
  lineOf,
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

const first = bytesOf(header, record(1, 133));
const X = first.length;
/**
 * What stands at X, with its LF, and the verdicts if nothing, NULs or a claim follow; then the same
 * without the LF. A plus: at the end of the line, not at X. A claim certifies the line before it,
 * whose seq its own must follow; only verify compares the synced of the two.
 */
const linesAtX = [
  ["no line", "", "clean torn clean"],
  ["a good line", record(2, X), "clean torn+ clean, unterminated torn refused"],
  [
    "a wrong seq",
    record(5, X),
    "refused refused refused+, refused torn refused"
  ],
  [
    "a wrong synced",
    record(2, 99),
    "refused refused clean, refused torn refused"
  ],
  [
    "no record",
    lineOf('{"seq":2'),
    "refused refused refused, refused torn refused"
  ],
  [
    "a bad line",
    record(2, X).replace("Fern", "Moss"),
    "refused torn refused, torn torn refused"
  ],
  [
    "a bad line with a NUL",
    record(2, X).replace("F", "\0"),
    "torn torn refused, torn torn torn"
  ],
  ["NULs", `${"\0".repeat(20)}\n`, "torn torn refused, torn torn torn"],
  ["a blank line", "\n", "refused refused refused"]
] as const;

/** What follows the line at X; a claim is a line that certifies what is before it. */
const followers: readonly (readonly [
  says: string,
  bytesAfter: (line: string, offset: number) => Buffer
])[] = [
  ["nothing", () => nuls(0)],
  ["NULs", () => nuls(30)],
  ["a claim", (line, offset) => bytesOf(record(line === "" ? 2 : 3, offset))]
];

/** The verdict that a word of the table means, for a line that begins at X. */
function verdictOf(word: string, lineEnd: number): Verdict {
  const offset = word.endsWith("+") ? lineEnd : X;
  switch (word.replace("+", "")) {
    case "clean":
      return clean;
    case "unterminated":
      return unterminated;
    case "torn":
      return torn(offset);
    case "refused":
      return refused(offset);
    default:
      return assert.fail(`no verdict is called ${word}`);
  }
}

test("a copy is written from its offset on, and no byte before it is truncated", async () => {
  for (const [says, { file, copy, rewritten, verdict }] of Object.entries(
    ends
  )) {
    if (verdict.kind === "refused" || rewritten === undefined) continue;
    const disk = diskOf(file, copy);
    const opened = disk.open.bind(disk);
    const truncated: number[] = [];
    disk.open = (name) => {
      const { truncate, ...others } = opened(name);
      return {
        ...others,
        truncate: (to) => void (truncated.push(to), truncate(to))
      };
    };
    await (await openJournal(path, { disk })).close();
    assert.deepEqual(truncated, [rewritten], says);
  }
});

test("a line at X, with its LF or without, and what follows it, opens as the table says", async () => {
  const differences: string[] = [];
  for (const [says, line, verdicts] of linesAtX) {
    for (const [index, word] of verdicts.split(/,? /).entries()) {
      const hasLf = index < followers.length;
      const start = bytesOf(first, hasLf ? line : line.slice(0, -1));
      const follower = followers[index % followers.length] ?? assert.fail();
      const [following, bytesAfter] = follower;
      const file = bytesOf(start, bytesAfter(line, start.length));
      try {
        await check(diskOf(file), verdictOf(word, start.length));
      } catch (error) {
        const row = `${says} ${hasLf ? "with" : "without"} its LF, then ${following}`;
        differences.push(`${row}: ${messageOf(error)}`);
      }
    }
  }
  assert.deepEqual(differences, []);
});

test("a lock decides before what can be read, and that before what the file has", async () => {
  const faults: readonly (readonly [
    code: string,
    arrange: (disk: SimulatedDisk) => unknown
  ])[] = [
    ["locked", (disk) => disk.lock(path, disk.look(path)?.identity ?? "", [])],
    ["unreadable", (disk) => disk.fail("read", { errno: 5 })]
  ];
  for (const file of [
    bytesOf(""),
    six,
    bytesOf(six, "torn"),
    changed(six, 20, "x")
  ]) {
    for (const [index, [code]] of faults.entries()) {
      const disk = diskOf(file);
      for (const [, arrange] of faults.slice(index)) await arrange(disk);
      await assert.rejects(openJournal(path, { disk }), { code });
      assert.deepEqual(disk.bytes(path), file, "a refusal touches nothing");
    }
  }
});

/** What takes the name of the copy of a torn end, before `six` with such an end is opened. */
for (const [says, take] of [
  ["nothing there", undefined],
  ["other bytes there", (name: string) => writeFileSync(name, "born")],
  ["an empty file there", (name: string) => writeFileSync(name, "")],
  ["a directory there", (name: string) => mkdirSync(name)],
  ["a FIFO there", (name: string) => execFileSync("mkfifo", [name])]
] as const) {
  test(`a torn end goes to its own file, and nothing is overwritten: ${says}`, async () => {
    const { folder, path } = placeIn();
    writeFileSync(path, bytesOf(six, "torn"));
    const taken = `${path}.torn-${end}`;
    take?.(taken);
    const before = take && lstatSync(taken);
    const warnings: string[] = [];
    await (
      await openJournal(path, { warn: (text) => warnings.push(text) })
    ).close();
    const copies = readdirSync(folder)
      .map((name) => join(folder, name))
      .filter((name) => name.startsWith(taken) && (!take || name !== taken));
    const [copy = ""] = copies;
    assert.match(copy.slice(taken.length), take ? /^-[\da-f-]{36}$/ : /^$/);
    assert.equal(copies.length, 1);
    assert.deepEqual(readFileSync(path), six);
    assert.equal(readFileSync(copy, "utf8"), "torn");
    if (before) {
      const { ino, mtimeMs } = lstatSync(taken);
      assert.deepEqual([ino, mtimeMs], [before.ino, before.mtimeMs]);
    }
    assert.equal(warnings.length, 1);
    assert.ok(warnings[0]?.endsWith(copy));
  });
}

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

for (const [says, file, after] of [
  [
    "is followed: file and copy are its target's",
    bytesOf(six, "torn"),
    [end, 4]
  ],
  ["that dangles is a new journal at its target", undefined, [133]]
] as const) {
  test(`a symbolic link ${says}`, async () => {
    const { folder, path } = placeIn();
    if (file) writeFileSync(path, file);
    const link = join(temporaryFolder(), "link");
    symlinkSync(path, link);
    await (await openJournal(link)).close();
    assert.ok(lstatSync(link).isSymbolicLink());
    assert.deepEqual(
      readdirSync(folder)
        .filter((name) => !name.includes(".closed-"))
        .map((name) => readFileSync(join(folder, name)).length),
      after
    );
  });
}

/** What a user without privileges cannot open: the exit code, and a part of the message. */
const refusals: readonly (readonly [
  says: string,
  code: number,
  message: RegExp,
  make: (path: string) => unknown
])[] = [
  ["a directory", 65, /not a regular file/, (path) => mkdirSync(path)],
  [
    "a FIFO",
    65,
    /not a regular file/,
    (path) => execFileSync("mkfifo", [path])
  ],
  [
    "a character device",
    65,
    /not a regular file/,
    (path) => symlinkSync("/dev/null", path)
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
    "a torn file in such a directory",
    74,
    /EACCES.*\.part/,
    (path) => writeFileSync(path, bytesOf(six, "torn"))
  ],
  [
    "an empty file in such a directory",
    74,
    /EACCES.*plants\.ndjson\.rewrite\.part/,
    (path) => writeFileSync(path, "")
  ],
  [
    "a damaged file",
    65,
    /at offset \d+, .*verify/,
    (path) => writeFileSync(path, bytesOf(six, "\n"))
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

test("a first start leaves a file that another process writes to its path meanwhile", async () => {
  const { path } = placeIn();
  const disk: Disk = {
    ...realDisk,
    openBeside(name) {
      // As `cp BACKUP plants.ndjson`, which writes to the file that the start has created.
      writeFileSync(path, "backup");
      return realDisk.openBeside(name);
    }
  };
  await assert.rejects(
    openJournal(path, { disk }),
    /another process writes to it/
  );
  assert.equal(readFileSync(path, "utf8"), "backup");
});

test("a clock in the year 10000 makes no journal until it is set", async (t) => {
  const clock = t.mock.method(
    Date.prototype,
    "toISOString",
    () => "+010000-01-01T00:00:00.000Z"
  );
  const { path } = placeIn();
  await assert.rejects(openJournal(path), {
    code: "failed",
    exitCode: 74,
    message: /clock says/
  });
  assert.deepEqual(readdirSync(dirname(path)), [basename(path)], "no lock");
  assert.equal(readFileSync(path).length, 0);
  clock.mock.restore();
  await (await openJournal(path)).close();
  assert.equal(readFileSync(path).length, 133);
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
    const limits = { keysBytesMax: 0 };
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
