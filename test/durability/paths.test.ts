/** Paths that a journal cannot have: refused at the first opening, before anything is created. */
import assert from "node:assert/strict";
import {
  chmodSync, chownSync, existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync,
  symlinkSync, writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { spawnSync } from "node:child_process";
import { test } from "node:test";
import { realDisk } from "../../src/journal/files.ts";
import { openJournal } from "../../src/journal/journal.ts";
import { cleanEnvironment, program, run, temporaryFolder, token } from "../support/support.ts";

/** The longest name beside a journal, and what a name and a path may have on Linux, in bytes. */
const longest = ".torn-9007199254740991-9007199254740991.part";
const nameBytes = 255 - longest.length;
const pathBytes = 4095 - longest.length;

/** A name of so many bytes; of two to a character where that is asked for. */
function nameOf(bytes: number, character = "x"): string {
  const each = Buffer.byteLength(character);
  return character.repeat(bytes / each) + "y".repeat(bytes % each);
}

/** Opens a journal, appends, leaves a torn end beside copies of others, and opens it again. */
async function lives(path: string): Promise<void> {
  const journal = await openJournal(path);
  await journal.append({ id: 1n, name: "Fern" });
  await journal.close();
  const whole = readFileSync(path);
  for (const [end, name] of [["born", ""], ["corn", "-2"], ["torn", "-3"]] as const) {
    writeFileSync(path, Buffer.concat([whole, Buffer.from(end)]));
    await (await openJournal(path)).close();
    assert.deepEqual(readFileSync(path), whole);
    assert.equal(readFileSync(`${path}.torn-${whole.length}${name}`, "utf8"), end);
  }
}

const tooLong = (name: number): object => ({
  code: "failed", exitCode: 74,
  message: new RegExp(`name has ${name} bytes: expected at most ${nameBytes} `),
});

for (const [says, character] of [["ASCII", "x"], ["two bytes to a character", "ü"]] as const) {
  test(`a name of ${nameBytes} bytes works, a longer one is refused: ${says}`, async () => {
    const folder = temporaryFolder();
    await lives(join(folder, nameOf(nameBytes, character)));
    for (const bytes of [nameBytes + 1, 245, 246, 250, 251, 255, 256, 300]) {
      const folder = temporaryFolder();
      const path = join(folder, nameOf(bytes, character));
      await assert.rejects(openJournal(path), tooLong(bytes), `${bytes}`);
      assert.deepEqual(readdirSync(folder), [], "nothing is created");
    }
  });
}

test("a journal that was renamed to a name that is too long is refused, and verified", async () => {
  const folder = temporaryFolder();
  const [path, moved] = [join(folder, "plants.ndjson"), join(folder, nameOf(255))];
  await (await openJournal(path)).close();
  const before = readFileSync(path);
  renameSync(path, moved);
  await assert.rejects(openJournal(moved), tooLong(255));
  assert.deepEqual([readFileSync(moved), readdirSync(folder).length], [before, 1]);
  const { code, stdout } = await run(["verify", moved]);
  assert.deepEqual([code, /opening uses it as it is/.test(stdout)], [0, true], stdout);
});

test("a symbolic link's own name may be long, its target's may not, also at a rotation", async () => {
  const folder = temporaryFolder();
  const [link, target, long] = [nameOf(255), "plants.ndjson", nameOf(nameBytes + 1)]
    .map((name) => join(folder, name));
  assert.ok(link && target && long);
  symlinkSync(target, link);
  const journal = await openJournal(link);
  rmSync(link);
  symlinkSync(long, link);
  await assert.rejects(journal.rotate(), tooLong(nameBytes + 1));
  assert.equal(existsSync(long), false);
  await journal.append({ id: 1n, name: "Fern" });
  await journal.close();
  await assert.rejects(openJournal(link), tooLong(nameBytes + 1));
});

test("a directory whose path leaves no room for any name beside a journal is refused", async () => {
  const root = temporaryFolder();
  let folder = root;
  while (pathBytes - folder.length > 300) folder = join(folder, "d".repeat(200));
  folder = join(folder, "d".repeat(pathBytes - folder.length - 3));
  mkdirSync(folder, { recursive: true });
  assert.equal(folder.length, pathBytes - 2);
  await lives(join(folder, "x"));
  await assert.rejects(openJournal(join(folder, "yy")), { code: "failed", message: /at most 1 / });
  const deeper = join(dirname(folder), `${"d".repeat(folder.length - dirname(folder).length)}`);
  mkdirSync(deeper);
  await assert.rejects(openJournal(join(deeper, "x")), { code: "failed", message: /at most 0 / });
  assert.deepEqual(readdirSync(deeper), []);
});

test("a path that is not valid UTF-8 is refused: another file would be created", {
  skip: process.platform === "linux" ? false : "only Linux has such names" }, async () => {
  const folder = temporaryFolder();
  const link = join(folder, "link");
  symlinkSync(Buffer.from(`${folder}/plants-\xff.ndjson`, "latin1"), link);
  for (const path of [link, join(folder, "plants-\ufffd.ndjson"), join(folder, "plants-\ud800")]) {
    await assert.rejects(openJournal(path), { code: "failed", exitCode: 74, message: /UTF-8/ });
  }
  assert.deepEqual(readdirSync(folder), ["link"], "nothing is created");
  const { status, stderr } = spawnSync("sh", ["-c",
    `exec "$0" "$1" --port 0 --store "$(printf 'plants-\\377')"`, process.execPath, program],
  { cwd: folder, encoding: "utf8", env: cleanEnvironment({ PLANTS_TOKEN: token }) });
  assert.deepEqual([status, /UTF-8/.test(stderr)], [74, true], stderr);
});

test("an empty file in a directory that may not be written is refused at the first opening", () => {
  const folder = temporaryFolder();
  const path = join(folder, "plants.ndjson");
  writeFileSync(path, "");
  const nobody = 65534;
  const isRoot = process.getuid?.() === 0;
  if (isRoot) chownSync(path, nobody, nobody);
  chmodSync(folder, 0o555);
  const { status, stderr } = spawnSync(process.execPath, [program, "--port", "0"], {
    cwd: folder, env: cleanEnvironment({ PLANTS_TOKEN: token }), encoding: "utf8", timeout: 10e3,
    ...(isRoot && { uid: nobody, gid: nobody }),
  });
  chmodSync(folder, 0o755);
  assert.equal(status, 74, stderr);
  assert.match(stderr, /EACCES.*plants\.ndjson\.rewrite\.part/);
  assert.equal(readFileSync(path, "utf8"), "", "it has taken nothing");
  assert.equal(realDisk.look(path)?.bytes, 0);
});
