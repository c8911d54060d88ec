/** The program on Windows: by the platform's name alone. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { test } from "node:test";
import { cleanEnvironment, program, temporaryFolder } from "../support/support.ts";

const timeout = 60_000;

/** Runs before the program: gives the platform its name, and sets what names a child's own number. */
const preload = (text: string): string => `data:text/javascript,${encodeURIComponent(text)}`;
const named = preload('Object.defineProperty(process, "platform", { value: "win32" });');

test("sockets are refused on Windows, by path and inherited", { timeout }, () => {
  const inherited = preload("process.env.LISTEN_PID = process.pid; process.env.LISTEN_FDS = 1;");
  const runs = (...args: readonly string[]) => {
    const { status, stderr } = spawnSync(process.execPath, ["--import", named, ...args],
      { cwd: temporaryFolder(), env: cleanEnvironment(), encoding: "utf8" });
    return [status, stderr.trim().split("\n")];
  };
  assert.deepEqual(runs(program, "--socket", "plants.sock", "--admin", "./admin.sock"), [64, [
    'plant-store: --socket must be left out on Windows, found "plants.sock"',
    'plant-store: --admin must be a port or HOST:PORT, found "./admin.sock"',
  ]]);
  assert.deepEqual(runs("--import", inherited, program), [78, [
    'plant-store: LISTEN_FDS must be left out on Windows, found "1"',
  ]]);
});
