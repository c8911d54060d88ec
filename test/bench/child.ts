/** Child processes: pinned to cores, bounded in time, ended by their pid, and all ended at exit. */
import { spawn, spawnSync, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { availableParallelism } from "node:os";

/** Cores, as `taskset --cpu-list` takes them. */
export type Cores = "0" | "1" | "0,1";

/** The cores of a comparison's servers, and those of its load. */
export interface Setting {
  readonly key: "one" | "both";
  readonly title: string;
  readonly servers: Cores;
  readonly load: Cores;
}

export const settings: readonly [Setting, Setting] = [
  {
    key: "one",
    title: "server on one core, load on the other",
    servers: "0",
    load: "1"
  },
  {
    key: "both",
    title: "server and load on both cores",
    servers: "0,1",
    load: "0,1"
  }
];

/** The most time that a command may take: one that hangs must not hang the benchmark. */
const commandMillisMax = 300_000;
const startMillisMax = 60_000;
const endMillisMax = 15_000;

const live = new Set<ChildProcess>();

export const livePids = (): readonly number[] =>
  [...live].flatMap(({ pid }) => (pid === undefined ? [] : [pid]));

export const isPinned =
  availableParallelism() > 1 &&
  spawnSync("taskset", ["--version"]).error === undefined;

/** Keeps this process, all its threads, off the core of a server that has one to itself. */
export function pinSelf(): void {
  if (isPinned)
    spawnSync("taskset", ["--all-tasks", "-pc", "1", String(process.pid)]);
}

/** Kills all children, when the program ends for any reason. */
export function killAll(): void {
  for (const child of live) child.kill("SIGKILL");
}

function launch(
  cores: Cores,
  command: readonly string[],
  env: Readonly<Record<string, string>>,
  cwd: string
) {
  const [name = "", ...args] = isPinned
    ? ["taskset", "-c", cores, ...command]
    : command;
  const { PATH = "", HOME = "" } = process.env;
  const child = spawn(name, args, {
    cwd,
    env: { PATH, HOME, NODE_ENV: "production", ...env },
    stdio: ["ignore", "pipe", "pipe"]
  });
  live.add(child);
  child.once("exit", () => live.delete(child));

  const texts = { stdout: "", stderr: "" };
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    texts.stdout += text;
  });
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    texts.stderr += text;
  });
  return { child, texts };
}

/** Runs a command to its end.
 * @returns what it wrote to stdout
 * @throws Error where it fails, or takes too long */
export async function run(
  cores: Cores,
  command: readonly string[],
  env: Readonly<Record<string, string>> = {},
  cwd = "."
): Promise<string> {
  const { child, texts } = launch(cores, command, env, cwd);
  const deadline = setTimeout(() => child.kill("SIGKILL"), commandMillisMax);
  // "error", where it can't even be spawned, rejects.
  await once(child, "close").finally(() => clearTimeout(deadline));
  if (child.exitCode === 0) return texts.stdout;
  throw new Error(
    `${command.join(" ")}: ${child.exitCode ?? child.signalCode} ${texts.stderr}`
  );
}

export interface Server {
  readonly pid: number;
  readonly port: number;
  /** When it was spawned (performance.now). */
  readonly spawnedAt: number;
  /** Sends SIGTERM, and SIGKILL to a process that does not end. */
  end(): Promise<void>;
}

/** Starts a server, and waits for the line that has its port. */
export async function startServer(
  cores: Cores,
  command: readonly string[],
  env: Readonly<Record<string, string>>,
  cwd: string
): Promise<Server> {
  const spawnedAt = performance.now();
  const { child, texts } = launch(cores, command, env, cwd);
  const exited = once(child, "exit");
  const deadline = setTimeout(() => child.kill("SIGKILL"), startMillisMax);
  const port = await new Promise<number>((resolve, reject) => {
    child.stdout.on("data", () => {
      const found = /(?:listening|started) on .*?(\d+)\/?\s*\n/.exec(
        texts.stdout
      )?.[1];
      if (found !== undefined) resolve(Number(found));
    });
    exited.then(
      () => reject(new Error(`${command.join(" ")} ended: ${texts.stderr}`)),
      reject
    );
  }).finally(() => clearTimeout(deadline));
  return {
    pid: child.pid ?? 0,
    port,
    spawnedAt,
    async end() {
      child.kill("SIGTERM");
      const hurry = setTimeout(() => child.kill("SIGKILL"), endMillisMax);
      await exited;
      clearTimeout(hurry);
    }
  };
}
