/** What an opening, a rotation or a refusal has opened is closed again: a library's host opens many
 * journals in its life, and a server rotates for years. */
import assert from "node:assert/strict";
import { once } from "node:events";
import {
  appendFileSync, mkdirSync, readdirSync, renameSync, rmdirSync, writeFileSync,
} from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { test } from "node:test";
import { openToRead, realDisk } from "../../src/journal/files.ts";
import { openJournal } from "../../src/journal/journal.ts";
import { abstractOf } from "../../src/journal/lock.ts";
import { start, temporaryFolder } from "../support/support.ts";
import { leavesNoDescriptor, noDescriptors } from "../support/tools.ts";

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
