/**
 * FILE.rewrite: where it is looked for, what is not read as one, and files with several names. The
 * table of ends has what an opening does with each copy.
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
import { windowBytesMax } from "../../src/journal/recover.ts";
import { copyBytesMax } from "../../src/journal/rewrite.ts";
import { run } from "../support/in-process.ts";
import { C, copyOf, four, six } from "../support/ends.ts";
import { diskWith, marksIn, openJournal } from "../support/journals.ts";
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
  writeFileSync(path, six);
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
  assert.deepEqual(readFileSync(path), six);
  const offset = Number.MAX_SAFE_INTEGER;
  const longest = copyOf({ offset, size: offset, lines: "" });
  assert.ok(
    longest.length + windowBytesMax <= copyBytesMax,
    "the longest is read"
  );
});

test("a symbolic link in the place of .rewrite is not followed: 65, and it stays", async () => {
  const { folder, path } = placeIn();
  const target = join(folder, "elsewhere");
  writeFileSync(path, four);
  writeFileSync(target, copy);
  symlinkSync(target, `${path}.rewrite`);
  await assert.rejects(openJournal(path), {
    code: "unreadable",
    message: /\.rewrite: ELOOP/
  });
  assert.deepEqual(readFileSync(path), four);
  assert.equal(readFileSync(target, "latin1"), copy);

  unlinkSync(`${path}.rewrite`);
  renameSync(target, `${path}.rewrite`);
  await (await openJournal(path)).close();
  assert.deepEqual(readFileSync(path), six, "the control: it is one");
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
