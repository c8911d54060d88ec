/**
 * FILE.rewrite: where it is looked for, what is not read as one, and files with several names. The
 * table of ends has what an opening does with each copy.
 */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import {
  linkSync,
  mkdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  truncateSync,
  unlinkSync,
  writeFileSync
} from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { windowBytesMax } from "../../src/journal/recover.ts";
import { copyBytesMax } from "../../src/journal/rewrite.ts";
import { run } from "../support/in-process.ts";
import { C, copyOf, four, six } from "../support/ends.ts";
import { openJournal } from "../support/journals.ts";
import { placeIn, temporaryFolder } from "../support/support.ts";

const copy = copyOf();
const pending = `rewrites it from offset ${C} as in .rewrite`;

test("verify of a symbolic link looks for the .rewrite beside its target", async () => {
  const folder = temporaryFolder();
  const other = temporaryFolder();
  const path = join(folder, "plants.ndjson");
  writeFileSync(path, four);
  writeFileSync(`${path}.rewrite`, copy);
  symlinkSync(path, join(other, "link"));
  const { code, stdout } = await run(["verify", "--json", "link"], {}, other);
  const { opening, records } = JSON.parse(stdout);
  assert.equal(code, 1);
  assert.equal(opening, pending);
  assert.equal(records, 6);
});

test("a .rewrite that is not a copy of a journal's end is not read: 65, and it stays", async () => {
  const { folder, path } = placeIn();
  const rewrite = `${path}.rewrite`;
  writeFileSync(path, four);
  writeFileSync(join(folder, "elsewhere"), copy);
  for (const [make, message] of [
    [
      () => execFileSync("mkfifo", [rewrite]),
      /: is not a copy of a journal's end/
    ],
    [() => mkdirSync(rewrite), /: is not a copy of a journal's end/],
    [
      () => {
        writeFileSync(rewrite, copy);
        truncateSync(rewrite, copyBytesMax + 1);
      },
      /: is not a copy of a journal's end/
    ],
    [() => symlinkSync("elsewhere", rewrite), /: ELOOP/]
  ] as const) {
    make();
    await assert.rejects(openJournal(path), { code: "unreadable", message });
    const { code, stderr } = await run(["verify", "plants.ndjson"], {}, folder);
    assert.equal(code, 65);
    assert.match(stderr, message);
    rmSync(rewrite, { recursive: true });
  }
  assert.deepEqual(readFileSync(path), four);
  assert.equal(readFileSync(join(folder, "elsewhere"), "latin1"), copy);
  const offset = Number.MAX_SAFE_INTEGER;
  const longest = copyOf({ offset, size: offset, lines: "" });
  assert.ok(
    longest.length + windowBytesMax <= copyBytesMax,
    "the longest is read"
  );
});

test("a file with several names is not opened: 74, and neither name loses a plant", async () => {
  const { folder, path } = placeIn();
  const other = join(folder, "elsewhere.ndjson");
  const severalNames = { exitCode: 74, message: /has 2 names: remove the oth/ };

  // A start by the other name would take the truncated file for whole, and then the closed one, too.
  writeFileSync(path, four);
  writeFileSync(`${path}.rewrite`, copy);
  for (const before of [four, six]) {
    linkSync(path, other);
    for (const name of [other, path]) {
      await assert.rejects(openJournal(name), severalNames);
      assert.deepEqual(readFileSync(path), before);
    }
    unlinkSync(other);
    await (await openJournal(path)).close();
    assert.deepEqual(readFileSync(path), six);
  }
});
