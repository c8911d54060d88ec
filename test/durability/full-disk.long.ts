/**
 * A real ext4 whose disk is full behind it: writes and flushes fail after the page cache took them.
 * Each scenario ends with a power cut, and has a broken program as its control. Needs root.
 */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import {
  copyFileSync,
  mkdirSync,
  readdirSync,
  renameSync,
  unlinkSync
} from "node:fs";
import { basename, dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { journalWith, read } from "../support/journals.ts";
import { launch } from "../support/launch.ts";
import { makeFullDisk, ownMounts } from "../support/full-disk.ts";
import { program, temporaryFolder } from "../support/support.ts";
import { missing, patched } from "../support/tools.ts";
import { seconds } from "../support/until.ts";

type Disk = ReturnType<typeof makeFullDisk>;
const scenario = process.env["FULL_DISK_SCENARIO"];

/** What an operator does between the kill and the next start. */
const operators: Readonly<Record<string, (path: string) => string>> = {
  "does nothing": (path) => path,
  "moves the file to another folder": (path) => {
    const folder = join(dirname(path), "moved");
    mkdirSync(folder);
    renameSync(path, join(folder, basename(path)));
    return join(folder, basename(path));
  }
};

/** A program that dies once a write has failed, before it truncates what that has left. */
const dying = () =>
  patched("journal.js", [
    ["file.truncate(end);", 'process.kill(process.pid, "SIGKILL");']
  ]);

/** A program that takes every file for a closed one. */
const trusting = () =>
  patched("open.js", [["closed && !disk.look(closed.path)", "true"]]);

/** Returns what was acknowledged, what a power cut has left of it, and whether the fault came. */
async function thin(disk: Disk, operator: string, server: string) {
  const store = join(disk.folder, "plants.ndjson");
  const acknowledged: number[] = [];
  const post = async (
    running: Awaited<ReturnType<typeof launch>>,
    from: number,
    to: number
  ) => {
    for (let id = from; id <= to; id++)
      if ((await running.post(id)).status === 200) acknowledged.push(id);
  };
  const first = await launch({ store, server });
  await post(first, 1, 5);
  await first.end();

  const second = await launch({ store, server: dying() });
  disk.fill();
  const { status } = await second.post(6, "x".repeat(9_000));
  const died = await second.ended;
  disk.empty();

  const path = operators[operator]?.(store) ?? assert.fail(operator);
  const third = await launch({ store: path, server });
  await post(third, 11, 20);
  const code = await third.end();
  const name = path.slice(disk.folder.length + 1);
  const { ids, fault } = read(disk.afterPowerCut(name));
  const lost = acknowledged.filter((id) => !ids.includes(id));
  return { status, died, code, acknowledged: acknowledged.length, lost, fault };
}

/** Copies a backup onto the full disk, and starts a server twice; `between` them, something. */
async function restore(disk: Disk, between: (path: string) => void) {
  const backup = join(temporaryFolder(), "backup.ndjson");
  const plants = Array.from({ length: 150 }, (_, index) => ({
    id: BigInt(index + 1),
    name: "x".repeat(400)
  }));
  await journalWith(backup, ...plants);
  const store = join(disk.folder, "plants.ndjson");
  disk.fill();
  copyFileSync(backup, store);
  const started = () =>
    launch({ store }).then(
      async (server) => {
        const { status } = await server.post(999);
        return `${status} ${await server.end()}`;
      },
      ({ message }: Error) => message
    );
  const first = await started();
  disk.empty();
  between(store);
  const second = await started();
  const { ids } = read(disk.afterPowerCut("plants.ndjson"));
  return { first, second, restored: ids.length };
}

const removeNotes = (path: string) => {
  for (const name of readdirSync(dirname(path)))
    if (name.includes(".unflushed-")) unlinkSync(join(dirname(path), name));
};

const scenarios: Readonly<Record<string, (disk: Disk) => Promise<unknown>>> = {
  ...Object.fromEntries(
    Object.keys(operators).flatMap((operator) => [
      [operator, (disk: Disk) => thin(disk, operator, program)],
      [`${operator}, no mark`, (disk: Disk) => thin(disk, operator, trusting())]
    ])
  ),
  restore: (disk) => restore(disk, () => {}),
  "restore, no note": (disk) => restore(disk, removeNotes)
};

async function play(name: string) {
  const disk = makeFullDisk(temporaryFolder());
  try {
    const result = await (scenarios[name] ?? assert.fail(name))(disk);
    console.log(`RESULT ${JSON.stringify(result)}`);
  } finally {
    disk.end();
  }
}

/**
 * Plays a scenario in a mount namespace of its own, and again if the kernel makes another one of it.
 * On a busy machine it may write back so late that the fault does not occur, and the scenario waits
 * for it. Or it writes back ext4's own blocks while they have no space, and ext4 becomes read-only.
 */
function resultOf(name: string) {
  const [command, ...args] = ownMounts;
  const self = fileURLToPath(import.meta.url);
  for (let attempt = 1; ; attempt++) {
    const { stdout, stderr, signal } = spawnSync(
      command,
      [...args, process.execPath, ...process.execArgv, self],
      {
        encoding: "utf8",
        env: { ...process.env, FULL_DISK_SCENARIO: name },
        timeout: seconds(120),
        killSignal: "SIGKILL"
      }
    );
    const isReadOnly = `${stdout}${stderr}`.includes("EROFS");
    const [, result] = /^(?:# )?RESULT (.*)$/m.exec(stdout) ?? [];
    if (result !== undefined && !isReadOnly) return JSON.parse(result);
    if ((signal === null && !isReadOnly) || attempt === 4)
      assert.fail(`ended by ${signal}: ${stdout}${stderr}`);
  }
}

if (scenario !== undefined) await play(scenario);
else {
  const [command, ...args] = ownMounts;
  const skip = missing(
    [command, ...args, "mount", "-t", "tmpfs", "tmpfs", "/mnt"],
    ["mkfs.ext4", "-V"],
    ["losetup", "-f"],
    ["fallocate", "-V"],
    ["findmnt", "-V"]
  );

  for (const operator of Object.keys(operators)) {
    test(
      `a write fails behind the page cache, kill -9, the operator ${operator}: no acknowledged plant is lost`,
      { skip },
      () => {
        const found = resultOf(operator);
        assert.deepEqual(found, {
          status: 0,
          died: "SIGKILL",
          code: 0,
          acknowledged: 15,
          lost: [],
          fault: ""
        });
        const without = resultOf(`${operator}, no mark`);
        assert.ok(
          without.lost.length > 0,
          `the control: ${JSON.stringify(without)}`
        );
      }
    );
  }

  test(
    "a backup that was copied onto a disk that is full behind it is refused at the second start, too",
    { skip },
    () => {
      const { first, second, restored } = resultOf("restore");
      assert.match(first, /^74 /);
      assert.match(second, /^65 .*a flush of it failed.*copy the file there/s);
      assert.notEqual(restored, 150, "the control: it is not on the disk");
      const without = resultOf("restore, no note");
      assert.match(without.second, /^200 0/, "the control: without the note");
      assert.notEqual(without.restored, 151);
    }
  );
}
