/**
 * FILE.rewrite: `verify` reports what the next opening does with it, and that opening does it.
 * crash.test.ts has the openings that leave one; its lines here are made by hand.
 */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import {
  existsSync,
  linkSync,
  readFileSync,
  renameSync,
  symlinkSync,
  truncateSync,
  unlinkSync,
  writeFileSync
} from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { JournalError, openJournal } from "../../src/index.ts";
import { windowBytesMax } from "../../src/journal/recover.ts";
import { copyBytesMax } from "../../src/journal/rewrite.ts";
import { run } from "../support/in-process.ts";
import {
  crcOf,
  diskWith,
  headerStart,
  lineOf,
  marksIn,
  record,
  uuid
} from "../support/journals.ts";
import { placeIn, temporaryFolder } from "../support/support.ts";

const ours = uuid;
const another = "0".repeat(36);
const headerOf = (file: string): string => lineOf(headerStart(file));
const copyOf = (
  file: string,
  offset: number,
  size: number,
  lines: string
): string => {
  const copy = `{"rewrite":"${file}","offset":${offset},"size":${size}}\n${lines}`;
  return `${crcOf(copy)} ${copy}`;
};

/** A certified record, and from C on a write of two. */
const header = headerOf(ours);
const first = header + record(1, 133);
const C = first.length;
const lastWrite = record(2, C) + record(3, C);
const whole = first + lastWrite;
const copy = copyOf(ours, C, whole.length, lastWrite);
const nuls = (count: number): string => "\0".repeat(count);
const pending = `rewrites it from offset ${C} as in .rewrite, then uses it as it is`;
const stale = "removes .rewrite, then uses it as it is";

const cases: readonly (readonly [
  says: string,
  file: string,
  copy: string,
  opening: string,
  ids: number
])[] = [
  ["truncated, nothing is written yet", first, copy, pending, 3],
  [
    "truncated, a part is written",
    whole.slice(0, -30),
    copyOf(ours, C, Number.MAX_SAFE_INTEGER, lastWrite),
    pending,
    3
  ],
  ["truncated, NULs in what is written", first + nuls(50), copy, pending, 3],
  ["whole: the copy stands by", whole, copy, pending, 3],
  [
    "whole and grown: the copy came back after a crash",
    whole + record(4, whole.length),
    copy,
    stale,
    4
  ],
  ["whole, a copy that is not", whole, copy.slice(0, -1), stale, 3],
  ["whole, an empty copy", whole, "", stale, 3],
  ["whole, a copy of NULs", whole, nuls(999), stale, 3],
  [
    "torn, a copy that is not whole",
    whole.slice(0, -9),
    copy.slice(0, -1),
    `removes .rewrite, then repairs it from offset ${C + record(2, C).length}`,
    2
  ],
  [
    "truncation undone: the old size, NULs in place of the end",
    first + nuls(lastWrite.length + 9),
    copyOf(ours, C, whole.length + 9, lastWrite),
    pending,
    3
  ],
  [
    "a part of a header, the copy has it whole",
    header.slice(0, 50),
    copyOf(ours, 0, 132, header),
    pending.replace(`${C}`, "0"),
    0
  ],
  [
    "a part of an earlier header, the copy has this one whole",
    headerOf(another).slice(0, 60),
    copyOf(ours, 0, 132, header),
    pending.replace(`${C}`, "0"),
    0
  ],
  [
    "truncated, a certified line is written again",
    `${first}{`,
    copyOf(ours, 133, whole.length, whole.slice(133)),
    pending.replace(`${C}`, "133"),
    3
  ],
  [
    "truncated, and the copy's own end is torn",
    first,
    copyOf(ours, C, whole.length + 4, `${lastWrite}torn`),
    pending.replace(
      "uses it as it is",
      `repairs it from offset ${whole.length}`
    ),
    3
  ],
  [
    "of a copy of another journal",
    first,
    copyOf(another, C, whole.length, lastWrite),
    "refuses it at offset 0",
    1
  ],
  [
    "of a copy that begins after its end",
    header,
    copy,
    "refuses it at offset 0",
    0
  ],
  [
    "of a copy, the journal itself is lost",
    "",
    copy,
    "refuses it at offset 0",
    0
  ],
  [
    "without its header, of its own copy",
    first.replace("journal", "Journal"),
    copy,
    "refuses it at offset 0",
    1
  ],
  [
    "no journal, of a copy that begins at 0",
    "a text\n",
    copyOf(ours, 0, 132, header),
    "refuses it at offset 0",
    0
  ],
  // The other's had a torn end, and by chance this file's size: nothing of this one may go.
  [
    "of another's copy with a header, and of the size that it had",
    first,
    copyOf(another, 0, first.length, headerOf(another)),
    "refuses it at offset 0",
    1
  ],
  [
    "of another's copy with a header, and no longer",
    header,
    copyOf(another, 0, 132, headerOf(another)),
    "refuses it at offset 0",
    0
  ],
  [
    "other than its copy, and of another size",
    `${whole}${record(4, whole.length)}`,
    copyOf(ours, C, 1, lastWrite.replace("Fern", "Farn")),
    `refuses it at offset ${C}`,
    4
  ],
  [
    "NULs in place of its end, and grown to another size: what follows may be acknowledged",
    `${first}${nuls(lastWrite.length)}${record(4, whole.length)}`,
    copy,
    `refuses it at offset ${C}`,
    1
  ],
  [
    "damaged before its end, which the copy has",
    first.replace("Fern", "Farn"),
    copy,
    "refuses it at offset 133",
    2
  ]
];

const folders = cases.map(([, file, copy]) => {
  const folder = temporaryFolder();
  writeFileSync(join(folder, "plants.ndjson"), file);
  writeFileSync(join(folder, "plants.ndjson.rewrite"), copy);
  return folder;
});

/** Verifies the journals in folders, all by one program. */
async function reportsOn(those: readonly string[], expectedCode: number) {
  const paths = those.map((folder) => join(folder, "plants.ndjson"));
  const { code, stdout } = await run(["verify", "--json", ...paths]);
  assert.equal(code, expectedCode, stdout);
  return stdout
    .trimEnd()
    .split("\n")
    .map((line) => {
      const { opening, damage, records, verdict } = JSON.parse(line);
      return [opening, damage?.offset, records, verdict] as const;
    });
}
const reports = await reportsOn(folders, 65);
const opened = new Map<string, number>();

for (const [index, [says, file, copy, opening, ids]] of cases.entries()) {
  test(`verify reports what opening does with a .rewrite, and it does that: ${says}`, async () => {
    const { [index]: folder = "" } = folders;
    const path = join(folder, "plants.ndjson");
    const refused = /^refuses it at offset (\d+)$/.exec(opening);
    const damage = refused ? Number(refused[1]) : undefined;
    const verdict = refused
      ? "damaged"
      : /rewrites|repairs/.test(opening)
        ? "torn"
        : "whole";
    assert.deepEqual(reports[index], [opening, damage, ids, verdict]);
    assert.equal(readFileSync(path, "latin1"), file);
    assert.equal(readFileSync(`${path}.rewrite`, "latin1"), copy);

    const truncated: number[] = [];
    const disk = diskWith(({ truncate }) => ({
      truncate: (to) => void (truncated.push(to), truncate(to))
    }));
    const found = await openJournal(path, {
      disk,
      limits: { keysBytesMax: 1 }
    }).then(
      (journal) => journal.close(),
      (e: unknown) => e
    );
    if (refused) {
      assert.ok(found instanceof JournalError);
      assert.equal(found.code, "damaged");
      assert.equal(found.offset, damage);
      assert.equal(
        readFileSync(path, "latin1"),
        file,
        "a refusal touches nothing"
      );
      assert.equal(readFileSync(`${path}.rewrite`, "latin1"), copy);
      return;
    }
    assert.equal(found, undefined);
    const [, from] = /^rewrites it from offset (\d+) /.exec(opening) ?? [];
    if (from !== undefined) assert.deepEqual(truncated, [Number(from)]);
    assert.ok(!existsSync(`${path}.rewrite`));
    opened.set(folder, ids);
  });
}

test("verify finds no fault in any of them after the opening", async () => {
  assert.ok(opened.size > 10);
  assert.deepEqual(
    await reportsOn([...opened.keys()], 0),
    [...opened.values()].map((ids) => [
      "uses it as it is",
      undefined,
      ids,
      "whole"
    ])
  );
});

test("verify of a symbolic link looks for the .rewrite beside its target", async () => {
  const folder = temporaryFolder();
  const other = temporaryFolder();
  const path = join(folder, "plants.ndjson");
  writeFileSync(path, first);
  writeFileSync(`${path}.rewrite`, copy);
  symlinkSync(path, join(other, "link"));
  const { code, stdout } = await run(["verify", "--json", "link"], {}, other);
  const { opening, records } = JSON.parse(stdout);
  assert.equal(code, 1);
  assert.equal(opening, pending);
  assert.equal(records, 3);
});

test("a .rewrite that is not a copy of a journal's end is not read: 65, and it stays", async () => {
  const { folder, path } = placeIn();
  writeFileSync(path, whole);
  for (const make of [
    () => execFileSync("mkfifo", [`${path}.rewrite`]),
    () => execFileSync("mkdir", [`${path}.rewrite`]),
    () => {
      writeFileSync(`${path}.rewrite`, copy);
      truncateSync(`${path}.rewrite`, copyBytesMax + 1);
    }
  ] as const) {
    make();
    await assert.rejects(openJournal(path), {
      code: "unreadable",
      message: /not a copy/
    });
    const { code, stderr } = await run(["verify", "plants.ndjson"], {}, folder);
    assert.equal(code, 65);
    assert.match(
      stderr,
      /plants\.ndjson\.rewrite: is not a copy of a journal's end/
    );
    assert.ok(existsSync(`${path}.rewrite`));
    execFileSync("rm", ["-r", `${path}.rewrite`]);
  }
  assert.equal(readFileSync(path, "latin1"), whole);
  assert.ok(
    copyOf(ours, 2 ** 53 - 1, 2 ** 53 - 1, "").length + windowBytesMax <=
      copyBytesMax,
    "the longest is read"
  );
});

test("a symbolic link in the place of .rewrite is not followed: 65, and it stays", async () => {
  const { folder, path } = placeIn();
  const target = join(folder, "elsewhere");
  writeFileSync(path, first);
  writeFileSync(target, copy);
  symlinkSync(target, `${path}.rewrite`);
  await assert.rejects(openJournal(path), {
    code: "unreadable",
    message: /\.rewrite: ELOOP/
  });
  assert.equal(readFileSync(path, "latin1"), first);
  assert.equal(readFileSync(target, "latin1"), copy);

  unlinkSync(`${path}.rewrite`);
  renameSync(target, `${path}.rewrite`);
  await (await openJournal(path)).close();
  assert.equal(readFileSync(path, "latin1"), whole, "the control: it is one");
});

test("a file with several names is not opened: 74, and neither name loses a plant", async () => {
  const { folder, path } = placeIn();
  const other = join(folder, "elsewhere.ndjson");
  const journal = await openJournal(path);
  await journal.append({ id: 1n, name: "Fern" });
  await Promise.all(
    [2n, 3n, 4n].map((id) => journal.append({ id, name: "x".repeat(200) }))
  );
  await journal.close();
  const before = readFileSync(path);
  for (const mark of marksIn(folder)) unlinkSync(mark);

  // An opening that ends between its truncation and its write.
  const killed = diskWith(() => ({
    append: () => Promise.reject(new Error("killed"))
  }));
  await assert.rejects(openJournal(path, { disk: killed }), /killed/);
  const truncated = readFileSync(path);
  assert.ok(truncated.length < before.length, "the control: it is truncated");

  linkSync(path, other);
  const severalNames = { exitCode: 74, message: /has 2 names: remove the oth/ };
  for (const name of [other, path]) {
    await assert.rejects(openJournal(name), severalNames);
    assert.deepEqual(readFileSync(path), truncated);
  }

  // A start by the other name would take the truncated file for whole.
  unlinkSync(other);
  await (await openJournal(path)).close();
  assert.deepEqual(readFileSync(path), before);

  linkSync(path, other);
  await assert.rejects(openJournal(path), severalNames);
  assert.deepEqual(readFileSync(path), before, "also where it was closed");
});
