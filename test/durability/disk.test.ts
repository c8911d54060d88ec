/** The real disk does what the journal, and the simulated disk in its place, take for granted; and
 * descriptors are closed. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { once } from "node:events";
import {
  appendFileSync, constants, existsSync, mkdirSync, readdirSync, readFileSync, readlinkSync,
  realpathSync, renameSync, rmdirSync, symlinkSync, writeFileSync,
} from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { test } from "node:test";
import { openToRead, realDisk } from "../../src/journal/files.ts";
import { openJournal } from "../../src/journal/journal.ts";
import { abstractOf } from "../../src/journal/lock.ts";
import { cleanEnvironment, root, start, temporaryFolder } from "../support/support.ts";
import { leavesNoDescriptor, noDescriptors } from "../support/tools.ts";

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

// What an opening, a rotation or a refusal has opened is closed again: a library's host opens many
// journals in its life, and a server rotates for years.

/** A journal with a plant, closed. */
async function journalIn(folder: string): Promise<string> {
  const path = join(folder, "plants.ndjson");
  const journal = await openJournal(path);
  await journal.append({ id: 1n, name: "Fern" });
  await journal.close();
  return path;
}

const acts: readonly (readonly [says: string, act: (path: string) => Promise<unknown>])[] = [
  ["a journal that is opened and closed", async (path) => (await openJournal(path)).close()],
  ["a torn end that is moved to a copy", async (path) => {
    appendFileSync(path, "torn");
    await (await openJournal(path)).close();
  }],
  ["a torn end beside the copies of others", async (path) => {
    const { bytes = 0 } = realDisk.look(path) ?? {};
    writeFileSync(`${path}.torn-${bytes}`, "born");
    appendFileSync(path, "torn");
    await (await openJournal(path)).close();
  }],
  ["a damaged journal that is refused", async (path) => {
    writeFileSync(path, "x\n".repeat(100));
    await assert.rejects(openJournal(path), { code: "damaged" });
  }],
  ["a locked journal that is refused", async (path) => {
    const journal = await openJournal(path);
    await assert.rejects(openJournal(path), { code: "locked" });
    await journal.close();
  }],
  ["a .rewrite that is not whole", async (path) => {
    writeFileSync(`${path}.rewrite`, "x");
    await (await openJournal(path)).close();
  }],
  ["a rotation", async (path) => {
    const journal = await openJournal(path);
    renameSync(path, `${path}.1`);
    assert.equal(await journal.rotate(), true);
    await journal.close();
  }],
  ["a rotation that fails", async (path) => {
    const journal = await openJournal(path);
    renameSync(path, `${path}.1`);
    mkdirSync(path);
    await assert.rejects(journal.rotate());
    await journal.close();
    rmdirSync(path);
    renameSync(`${path}.1`, path);
  }],
];

for (const [says, act] of acts) {
  test(`no descriptor is left of ${says}`, { skip: noDescriptors }, async () => {
    const folder = temporaryFolder();
    const path = await journalIn(folder);
    await leavesNoDescriptor(() => act(path));
  });
}

test("the control: a file that stays open is noticed", { skip: noDescriptors }, async () => {
  const path = await journalIn(temporaryFolder());
  const files: ReturnType<typeof openToRead>[] = [];
  const leak = async (): Promise<unknown> => files.push(openToRead(path));
  await assert.rejects(leavesNoDescriptor(leak), /descriptors are open/);
  for (const file of files) file.close();
});

test("a client of a lock's socket is disconnected at once: no descriptor stays open",
  { timeout: 20_000 }, async (t) => {
    const cwd = temporaryFolder();
    const server = await start({ cwd });
    t.after(() => server.process.kill("SIGKILL"));
    const { identity = "" } = realDisk.look(join(cwd, "plants.ndjson")) ?? {};
    const beside = readdirSync(cwd).filter((name) => name.includes(".lock-"));
    assert.equal(beside.length, 1);
    const abstract = abstractOf(identity);
    for (const name of [...beside.map((each) => join(cwd, each)), ...abstract]) {
      const client = connect(name).resume();
      t.after(() => client.destroy());
      await once(client, "close");
    }
  });
