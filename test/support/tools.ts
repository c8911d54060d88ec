/** Shared by the tests of faults: tools that may be missing, broken copies of the program. */
import assert from "node:assert/strict";
import { execFileSync, spawnSync, type ChildProcess } from "node:child_process";
import fs, {
  cpSync,
  existsSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  writeFileSync
} from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { dirname, join } from "node:path";
import type { TestContext } from "node:test";
import { setImmediate } from "node:timers/promises";
import {
  program,
  runningOf,
  temporaryFolder,
  type RunningProcess
} from "./support.ts";
import { until } from "./until.ts";

/** Returns why a test cannot run here, or false. Each command is tried once. */
export function missing(
  ...commands: readonly (readonly [string, ...string[]])[]
): string | false {
  for (const [command, ...args] of commands) {
    const { status, error } = spawnSync(command, args, { stdio: "ignore" });
    if (status === 0) continue;
    const reason = `\`${[command, ...args].join(" ")}\` fails here: ${error?.message ?? status}`;
    console.error(`skipped: ${reason}`);
    return reason;
  }
  return false;
}

/** Returns a reason to skip a test, which stderr shows, too; or false if a condition is met. */
export function unless(isMet: boolean, reason: string): string | false {
  if (!isMet) console.error(`skipped: ${reason}`);
  return !isMet && reason;
}

/** Why a test cannot change system calls by strace, or mount a file system of its own. */
export const noStrace = missing([
  ...(["strace", "-f", "-o", "/dev/null"] as const),
  ...["-e", "inject=write:retval=1:when=9", "-e", "trace=write", "true"]
]);
export const noMount = missing([
  ...(["unshare", "-m", "mount"] as const),
  ...["-t", "tmpfs", "none", "/mnt"]
]);

/** Arguments that run a program under strace, as our child, with options for these calls. */
export const strace = (
  calls: string,
  ...options: readonly string[]
): readonly string[] => [
  ...["strace", "-D", "-f", "-q", "-o", "/dev/null"],
  ...["-e", `trace=${calls}`, ...options]
];

const descriptors = "/proc/self/fd";
/** The reason why descriptors cannot be counted here, or false. */
export const noDescriptors = unless(
  existsSync(descriptors),
  `there is no ${descriptors}`
);

/**
 * Fails if a function leaves a descriptor open. It is called twice: the first call may open
 * descriptors that stay open. The other end of a socket is closed some turns later.
 */
export async function leavesNoDescriptor(
  act: () => Promise<unknown>
): Promise<void> {
  const count = (): number => readdirSync(descriptors).length;
  await act();
  let before = count();
  for (let turns = 0; turns < 50; turns++) {
    await setImmediate();
    before = Math.min(before, count());
  }
  await act();
  for (let turns = 0; count() > before && turns < 1_000; turns++)
    await setImmediate();
  assert.ok(count() <= before, "descriptors are open");
}

/**
 * Copies the program, replaces texts in one file, and returns the copy's path.
 *
 * @param folder the file's folder in `dist`; "" for `dist` itself
 */
export function patched(
  file: string,
  changes: readonly (readonly [from: string, to: string])[],
  room = "journal"
): string {
  const folder = join(temporaryFolder(), "dist");
  cpSync(dirname(program), folder, {
    recursive: true,
    filter: (each) => !each.endsWith(".d.ts")
  });
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

/** Copies the program to where every user can read it, whatever the checkout's mode; or breaks it, too. */
export function readableByAll(
  file = "lock.js",
  ...changes: Parameters<typeof patched>[1]
): string {
  const server = patched(file, changes);
  assert.equal(
    spawnSync("chmod", ["-R", "a+rX", dirname(dirname(server))]).status,
    0
  );
  return server;
}

/** Replaces a function of node:fs for a test, in all modules. */
export function mockFs(
  t: TestContext,
  name: "readSync" | "renameSync" | "statSync" | "symlinkSync",
  replace: (real: () => unknown, ...given: readonly unknown[]) => unknown
): void {
  const real: (...given: readonly never[]) => unknown = fs[name];
  const mock = t.mock.method(fs, name, (...given: readonly never[]) =>
    replace(() => real(...given), ...given)
  );
  syncBuiltinESMExports();
  t.after(() => {
    mock.mock.restore();
    syncBuiltinESMExports();
  });
}

/** Makes NAME.crt and NAME.key in a folder, a certificate that is its own authority; their paths. */
export function certify(
  folder: string,
  name: string,
  {
    days = 1,
    kind = ["ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"],
    names = "IP:127.0.0.1,DNS:localhost"
  } = {}
) {
  const cert = join(folder, `${name}.crt`);
  const key = join(folder, `${name}.key`);
  execFileSync(
    "openssl",
    [
      "req",
      "-x509",
      "-newkey",
      ...kind,
      "-nodes",
      "-keyout",
      key,
      "-out",
      cert,
      "-days",
      `${days}`,
      "-subj",
      `/CN=${name}`,
      "-addext",
      `subjectAltName=${names}`
    ],
    { stdio: "ignore" }
  );
  return { cert, key };
}

/** A program that responds before it writes; the wait makes sure that the response has left. */
export const eager = (): string =>
  patched("journal.js", [
    [
      "await appendAll(file, bytes);",
      `for (const each of this.#queue.batch) each.resolve({ json: each.json });
   await new Promise((wake) => setTimeout(wake, 300)); await appendAll(file, bytes);`
    ]
  ]);

/** Resolves when a started program listens, or with exit code and stderr when it ends. */
export async function outcomeOf(
  child: ChildProcess
): Promise<RunningProcess | string> {
  const running = runningOf(child);
  await until(
    "it listens or ends",
    () => running.stdout().includes("\n") || running.exitCode !== undefined
  );
  return running.exitCode === undefined
    ? running
    : `${running.exitCode} ${running.stderr()}`;
}

/** Returns a process's memory in KiB: what is resident, or its peak; 0 where there is no /proc. */
export function memoryOf(
  { process: { pid } }: RunningProcess,
  field: "VmRSS" | "VmHWM" = "VmRSS"
): number {
  const path = `/proc/${pid}/status`;
  return existsSync(path)
    ? Number(
        RegExp(`${field}:\\s+(\\d+)`).exec(readFileSync(path, "utf8"))?.[1]
      )
    : 0;
}

/** Returns the flags with which a process has a file open (proc(5)). */
export function flagsOf(path: string, pid: number | "self" = "self"): number {
  const descriptor = readdirSync(`/proc/${pid}/fd`).find((name) => {
    const link = `/proc/${pid}/fd/${name}`;
    return existsSync(link) && readlinkSync(link) === path;
  });
  assert.ok(descriptor, `${path} is open`);
  const info = readFileSync(`/proc/${pid}/fdinfo/${descriptor}`, "utf8");
  return Number.parseInt(/^flags:\s*(\d+)$/m.exec(info)?.[1] ?? "", 8);
}
