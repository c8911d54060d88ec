/** The program in the test's own process: `run` with a host made for it. */
import assert from "node:assert/strict";
import { EventEmitter } from "node:events";
import { Readable, Writable } from "node:stream";
import { after } from "node:test";
import type { Host } from "../../src/program/host.ts";
import { run as runProgram } from "../../src/program/run.ts";
import { root, Running, temporaryFolder, token } from "./support.ts";

interface Options {
  readonly args?: readonly string[];
  readonly env?: Host["environment"];
  readonly cwd?: string | undefined;
  /** What it reads on standard input. */
  readonly input?: string | Buffer | undefined;
  /** Parts of the host to replace. */
  readonly host?: Partial<Host>;
}

/** Standard input, in pieces as of a pipe. */
function* piecesOf(input: Buffer): Generator<Buffer> {
  for (let at = 0; at < input.length; at += 65_536)
    yield input.subarray(at, at + 65_536);
}

/**
 * Runs the program in a folder, which is that of the process until it ends. A signal calls its
 * listeners.
 * Nothing can end it at once: such a test needs a process.
 */
export function begin(
  args: readonly string[],
  environment: Host["environment"] = {},
  { cwd = root, input = "", host = {} }: Options = {}
): Running {
  const signals = new EventEmitter();
  const running = new Running((name) => {
    // Files are read again.
    if (name === "SIGHUP") process.chdir(cwd);
    assert.ok(signals.emit(name), `the program listens to ${name}`);
  });
  after(() => running.end());
  const stderr = new Writable({
    write(text, _, done) {
      running.add("stderr", `${text}`);
      done();
    }
  });
  process.chdir(cwd);
  void runProgram({
    args,
    environment,
    pid: process.pid,
    isHungUp: () => false,
    stdin: () => Readable.from(piecesOf(Buffer.from(input))),
    async print(line) {
      running.add("stdout", `${line}\n`);
      return "written";
    },
    printError: async (line) => running.add("stderr", `${line}\n`),
    log: (_, message) => void stderr.write(`plant-store: ${message}\n`),
    logged: new Set(),
    stderr: Object.assign(stderr, {
      isTTY: false
    }) as unknown as Host["stderr"],
    version: process.version,
    cpuUsage: process.cpuUsage,
    memoryUsage: process.memoryUsage,
    onSignal: (name, listener) => void signals.on(name, listener),
    exit: (code) => assert.fail(`the process would end at once, with ${code}`),
    ...host
  }).then((code) => {
    process.chdir(root);
    running.finish(code);
  });
  return running;
}

/** Starts the program on a free port in a fresh folder, with `token` as its token. */
export async function start({
  args = [],
  env,
  cwd = temporaryFolder(),
  ...options
}: Options = {}): Promise<Running> {
  const running = begin(
    ["--port", "0", ...args],
    { PLANTS_TOKEN: token, PLANTS_KEY_WINDOW: "65536", ...env },
    { cwd, ...options }
  );
  await running.listening();
  return running;
}

/** Starts it with an admin listener on any free port. */
export const startWithAdmin = ({
  args = [],
  ...options
}: Options = {}): Promise<Running> =>
  start({
    ...options,
    args: args.includes("--admin") ? args : [...args, "--admin", "0"]
  });

/** Runs the program to its end. */
export async function run(
  args: readonly string[],
  env: Host["environment"] = {},
  cwd?: string,
  input?: Options["input"]
) {
  const running = begin(args, env, { cwd, input });
  const code = await running.ended;
  return { code, stdout: running.stdout(), stderr: running.stderr() };
}
