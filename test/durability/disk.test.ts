/** The real disk does what the journal, and the simulated disk in its place, take for granted. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import {
  constants, existsSync, readdirSync, readFileSync, readlinkSync, realpathSync, symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { openToRead, realDisk } from "../../src/journal/files.ts";
import { openJournal } from "../../src/journal/journal.ts";
import { cleanEnvironment, root, temporaryFolder } from "../support/support.ts";
import { noDescriptors } from "../support/tools.ts";

/** The flags with which this process has a file open. */
function flagsOf(path: string): number {
  const descriptor = readdirSync("/proc/self/fd").find((name) => {
    const link = join("/proc/self/fd", name);
    return existsSync(link) && readlinkSync(link) === path;
  });
  assert.ok(descriptor, `${path} is open`);
  const [, octal = ""] =
    /^flags:\s*(\d+)$/m.exec(readFileSync(`/proc/self/fdinfo/${descriptor}`, "utf8")) ?? [];
  return Number.parseInt(octal, 8);
}

test("on Linux all that is written is flushed by the write itself", { skip: noDescriptors },
  async () => {
    const folder = realpathSync(temporaryFolder());
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
    assert.equal(flagsOf(path) & O_DSYNC, 0, "the control: what is only read has not the flag");
    reader.close();
  });

test("a read has the bytes that are there, and ends where the file ends", () => {
  const path = join(temporaryFolder(), "file");
  writeFileSync(path, "0123456789");
  const file = openToRead(path);
  const cases = [[0, 10, "0123456789"], [7, 3, "789"], [7, 4, "789"], [0, 99, "0123456789"],
    [10, 1, ""], [99, 9, ""]] as const;
  for (const [offset, length, text] of cases) {
    assert.equal(file.read(offset, length).toString(), text);
  }
  file.close();
});

test("symbolic links that form a cycle are refused", async () => {
  const folder = temporaryFolder();
  const [path, other] = [join(folder, "plants.ndjson"), join(folder, "other")];
  symlinkSync(path, other);
  symlinkSync(other, path);
  await assert.rejects(openJournal(path), { exitCode: 74, message: /: too many symbolic links$/ });
});

test("a journal that is left open, and its locks, keep no process alive", () => {
  const { status, stdout, stderr } = spawnSync(process.execPath, ["--input-type=module", "-e", `
    import { openJournal } from ${JSON.stringify(join(root, "dist", "index.js"))};
    const journal = await openJournal("plants.ndjson");
    await journal.append({ id: 1n, name: "" });
    console.log("stored");`],
  { cwd: temporaryFolder(), env: cleanEnvironment(), encoding: "utf8", timeout: 30_000 });
  assert.deepEqual([status, stdout], [0, "stored\n"], stderr);
});
