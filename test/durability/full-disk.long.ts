/**
 * A real ext4 whose disk is full behind it: writes and flushes fail after the page cache took them.
 * Then comes a power cut. The control is a broken program. Needs root.
 */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { read } from "../support/journals.ts";
import { launch } from "../support/launch.ts";
import { makeFullDisk, ownMounts } from "../support/full-disk.ts";
import { program, temporaryFolder } from "../support/support.ts";
import { missing, patched } from "../support/tools.ts";
import { seconds } from "../support/until.ts";

type Disk = ReturnType<typeof makeFullDisk>;
const scenario = process.env["FULL_DISK_SCENARIO"];

/** A program that dies once a write has failed, before it truncates what that has left. */
const dying = () =>
  patched("journal.js", [
    ["file.truncate(end);", 'process.kill(process.pid, "SIGKILL");']
  ]);

/** A program that takes every file for a closed one. */
const trusting = () =>
  patched("open.js", [["closed && !disk.look(closed.path)", "true"]]);

/** Returns what was acknowledged, what a power cut has left of it, and whether the fault came. */
async function thin(disk: Disk, server: string) {
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

  const third = await launch({ store, server });
  await post(third, 11, 20);
  const code = await third.end();
  const { ids, fault } = read(disk.afterPowerCut("plants.ndjson"));
  const lost = acknowledged.filter((id) => !ids.includes(id));
  return { status, died, code, acknowledged: acknowledged.length, lost, fault };
}

const scenarios: Readonly<Record<string, () => string>> = {
  "the program": () => program,
  trusting
};

async function play(name: string) {
  const disk = makeFullDisk(temporaryFolder());
  try {
    const server = scenarios[name]?.() ?? assert.fail(name);
    const result = await thin(disk, server);
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

  test(
    "a write fails behind the page cache, kill -9, a power cut after the next start: no acknowledged plant is lost",
    { skip },
    () => {
      assert.deepEqual(resultOf("the program"), {
        status: 0,
        died: "SIGKILL",
        code: 0,
        acknowledged: 15,
        lost: [],
        fault: ""
      });
      const { lost } = resultOf("trusting");
      assert.ok(lost.length > 0, "the control");
    }
  );
}
