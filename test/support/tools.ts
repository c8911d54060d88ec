/** What the tests of faults share: tools that may be missing, and broken copies of the program. */
import assert from "node:assert/strict";
import { spawnSync, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { cpSync, existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { complaintsOf, eventsOf, program, temporaryFolder, type Running } from "./support.ts";

/** Why a test can't run here, if so; the commands are tried once. */
export function missing(...commands: readonly (readonly [string, ...string[]])[]): string | false {
  for (const [command, ...args] of commands) {
    const { status, error } = spawnSync(command, args, { stdio: "ignore" });
    if (status === 0) continue;
    const reason = `\`${[command, ...args].join(" ")}\` fails here: ${error?.message ?? status}`;
    console.error(`skipped: ${reason}`);
    return reason;
  }
  return false;
}

const descriptors = "/proc/self/fd";
/** Why descriptors can't be counted here, if so. */
export const noDescriptors = existsSync(descriptors) ? false : `there is no ${descriptors}`;
if (noDescriptors) console.error(`skipped: ${noDescriptors}`);

/** Fails where an act leaves a descriptor open. The first time may open what stays for good; a
 * socket's other end needs some turns to be closed. */
export async function leavesNoDescriptor(act: () => Promise<unknown>): Promise<void> {
  const count = (): number => readdirSync(descriptors).length;
  await act();
  let before = count();
  for (let turns = 0; turns < 50; turns++) {
    await setImmediate();
    before = Math.min(before, count());
  }
  await act();
  for (let turns = 0; count() > before && turns < 1_000; turns++) await setImmediate();
  assert.ok(count() <= before, "descriptors are open");
}

/** A copy of the program in which some text is another. */
export function patched(
  file: string, changes: readonly (readonly [from: string, to: string])[], room = "journal",
): string {
  const folder = join(temporaryFolder(), "dist");
  cpSync(dirname(program), folder, { recursive: true });
  writeFileSync(join(folder, "package.json"), '{"type":"module"}');
  const path = join(folder, room, file);
  let text = readFileSync(path, "utf8");
  for (const [from, to] of changes) {
    assert.equal(text.split(from).length, 2, `${file} must have once: ${from}`);
    text = text.replace(from, () => to);
  }
  writeFileSync(path, text);
  return join(folder, "server.js");
}

/** What becomes of a program that was started: it listens; or exit code and stderr, if it ends. */
export async function outcomeOf(child: ChildProcess): Promise<Running | string> {
  let [stdout, stderr] = ["", ""];
  child.stderr?.setEncoding("utf8").on("data", (text: string) => { stderr += text; });
  const closed = once(child, "close").then(([code]) => `${code} ${complaintsOf(stderr)}`);
  const listening = new Promise<void>((resolve) => {
    child.stdout?.setEncoding("utf8").on("data", (text: string) => {
      stdout += text;
      if (stdout.includes("\n")) resolve();
    });
  });
  const outcome = await Promise.race([listening, closed]);
  if (outcome !== undefined) return outcome;
  const port = Number(/:(\d+)\n/.exec(stdout)?.[1] ?? 0);
  return {
    process: child, port, url: `http://127.0.0.1:${port}`,
    stdout: () => stdout, stderr: () => complaintsOf(stderr), events: () => eventsOf(stderr),
    async end(signal = "SIGTERM") {
      if (child.exitCode === null && child.signalCode === null) child.kill(signal);
      await closed;
      return child.exitCode;
    },
  };
}
