/** What the tests share: temporary folders, and the program as a child process. */
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import {
  mkdtempSync,
  readdirSync,
  realpathSync,
  rmSync,
  statSync
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import { until } from "./until.ts";

/** The checkout: this file is in it, or what `npm test` has made of it, in test/.built. */
export const root = dirname(
  dirname(dirname(fileURLToPath(import.meta.url).replace("test/.built/", "")))
);
/** The built program: `npm test` builds it first. */
export const program = join(root, "dist", "server.js");

/** The URL of the library, for an import. */
export const library = pathToFileURL(join(root, "dist", "index.js")).href;
refuseOldBuild(join(root, "src"), program);

/** Throws where a file of the source is newer than the program that was built of it. */
export function refuseOldBuild(source: string, built: string): void {
  const builtAt = statSync(built, { throwIfNoEntry: false })?.mtimeMs ?? 0;
  const newer = readdirSync(source, { recursive: true, encoding: "utf8" }).find(
    (name) =>
      name.endsWith(".ts") && statSync(join(source, name)).mtimeMs > builtAt
  );
  if (newer !== undefined)
    throw new Error(`dist is older than src/${newer}: run npx tsc first`);
}

export const token = "test-token";

/** A fresh folder, removed after the file's tests. The program shows real paths, and so does this. */
export function temporaryFolder(parent = tmpdir()): string {
  const folder = mkdtempSync(join(realpathSync(parent), "plant-store-"));
  after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** A fresh folder, or another one, and the path of a journal in it. */
export const placeIn = (folder = temporaryFolder()) => ({
  folder,
  path: join(folder, "plants.ndjson")
});

/** One for a Unix socket, whose address has at most 107 bytes, also where TMPDIR is long. */
export const socketFolder = (): string =>
  temporaryFolder(Buffer.byteLength(tmpdir()) < 70 ? tmpdir() : "/tmp");

/** An event of the program's log. */
export interface LogEvent {
  readonly level: number;
  readonly time: number;
  readonly pid: number;
  readonly hostname: string;
  readonly msg: string;
  readonly reqId?: string;
  readonly req?: {
    readonly method?: string;
    readonly url?: string;
    readonly remoteAddress?: string;
  };
  readonly res?: { readonly statusCode: number };
  readonly responseTime?: number;
  readonly token?: string;
  readonly err?: {
    readonly type: string;
    readonly code: number;
    readonly message: string;
  };
  readonly [other: string]: unknown;
}

/** Returns the events of the log: each is a line of stderr, whose end may still be on its way. */
export const eventsOf = (stderr: string): LogEvent[] =>
  (stderr.match(/^\{.*\}(?=\n)/gm) ?? []).map(
    (line) => JSON.parse(line) as LogEvent
  );

/** Returns warnings, errors and rotations as lines of text, without requests and usual events. */
export const complaintsOf = (stderr: string): string =>
  stderr.replace(/^\{.*\}\n/gm, (line) => {
    const { msg, res, leftOut } = JSON.parse(line) as LogEvent;
    const isUsual = /^(?:serving|reloaded|draining|ended,)/.test(msg);
    return isUsual || res !== undefined || leftOut !== undefined
      ? ""
      : `plant-store: ${msg}\n`;
  });

/** A run of the program, in a process of its own or in the test's: its output, and its end. */
export class Running {
  readonly signal: (name: NodeJS.Signals) => unknown;
  /** Resolves with the exit code, or null after a deadly signal, when all its output is there. */
  readonly ended: Promise<number | null>;
  /** The same; undefined while it runs. */
  exitCode: number | null | undefined;
  readonly #output = { stdout: "", stderr: "" };
  #finish: (code: number | null) => void = () => undefined;

  constructor(signal: (name: NodeJS.Signals) => unknown) {
    this.signal = signal;
    this.ended = new Promise((resolve) => {
      this.#finish = resolve;
    });
  }

  add(stream: "stdout" | "stderr", text: string): void {
    this.#output[stream] += text;
  }

  finish(code: number | null): void {
    this.exitCode = code;
    this.#finish(code);
  }

  /** Waits until its output is as expected. Fails if it ends before. */
  async until(isSo: () => boolean, what: string): Promise<void> {
    await until(what, () => {
      if (isSo()) return true;
      const end = `it ended before ${what}: ${this.stderr()}`;
      assert.equal(this.exitCode, undefined, end);
      return false;
    });
  }

  stdout(): string {
    return this.#output.stdout;
  }

  /** Warnings and errors, as lines of text. */
  stderr(): string {
    return complaintsOf(this.#output.stderr);
  }

  /** The whole log. */
  events(): LogEvent[] {
    return eventsOf(this.#output.stderr);
  }

  /** That of the first line of its stdout. */
  get port(): number {
    return Number(/:(\d+)\n/.exec(this.stdout())?.[1] ?? 0);
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  /** Resolves when it listens. Its first line on stdout may come before or after that of the log. */
  listening(): Promise<void> {
    return this.until(
      () =>
        this.stdout().includes("\n") &&
        this.events().some(({ msg }) => msg.startsWith("serving")),
      "it listens"
    );
  }

  /** Sends the signal, unless it has ended; the exit code. */
  end(signal: NodeJS.Signals = "SIGTERM"): Promise<number | null> {
    if (this.exitCode === undefined) this.signal(signal);
    return this.ended;
  }
}

export interface ProcessOptions {
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  /** Another Node. Default: this one. */
  readonly node?: string;
  readonly nodeArgs?: readonly string[];
  /** Another build. Default: the one in `dist`. */
  readonly program?: string;
}

/** Returns a child's environment, without variables that would configure the program. */
export function cleanEnvironment(
  env: Readonly<Record<string, string>> = {}
): NodeJS.ProcessEnv {
  const { PATH = "", HOME = "" } = process.env;
  return { PATH, HOME, ...env };
}

export type RunningProcess = Running & { readonly process: ChildProcess };

/** Starts the program on a free port in a fresh folder, with `token` as its token. */
export async function startProcess(
  options: ProcessOptions = {}
): Promise<RunningProcess> {
  const {
    args = [],
    env = {},
    cwd = temporaryFolder(),
    node = process.execPath
  } = options;
  const { nodeArgs = [], program: built = program } = options;
  const running = runningOf(
    spawn(node, [...nodeArgs, built, "--port", "0", ...args], {
      cwd,
      env: cleanEnvironment({ PLANTS_TOKEN: token, ...env }),
      stdio: ["ignore", "pipe", "pipe"]
    })
  );
  await running.listening();
  return running;
}

/** Returns a child as `Running`. It does not outlive the tests. */
export function runningOf(child: ChildProcess): RunningProcess {
  after(() => child.kill("SIGKILL"));
  const running = new Running((name) => child.kill(name));
  for (const name of ["stdout", "stderr"] as const)
    child[name]
      ?.setEncoding("utf8")
      .on("data", (text: string) => running.add(name, text));
  // Its last output may arrive after its exit.
  child.once("close", (code) => running.finish(code));
  return Object.assign(running, { process: child });
}

/** Returns a POST /plants with a valid token. `fields` are whole lines with CRLF. */
export function post(body: string | Buffer, fields = ""): Buffer {
  const bytes = Buffer.from(body);
  return Buffer.concat([
    Buffer.from(
      `POST /plants HTTP/1.1\r\nHost: localhost\r\n` +
        `Authorization: Bearer ${token}\r\nContent-Type: application/json\r\n${fields}` +
        `Content-Length: ${bytes.length}\r\n\r\n`
    ),
    bytes
  ]);
}

/** Returns a seeded generator (mulberry32) of whole numbers below a bound. */
export function seeded(seed: number): (bound: number) => number {
  let state = seed;
  return (bound) => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * bound);
  };
}
