/** Child processes: pinned to a core, ended by their pid, none left behind. */
import { spawn, spawnSync, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { availableParallelism } from "node:os";

/** Core 0 is the servers', core 1 the load generator's and ours. */
export type Core = "0" | "1";

const live = new Set<ChildProcess>();

export const livePids = (): readonly number[] =>
  [...live].flatMap(({ pid }) => (pid === undefined ? [] : [pid]));

export const isPinned = availableParallelism() > 1
  && spawnSync("taskset", ["--version"]).error === undefined;

/** Keeps this process, all its threads, off the servers' core. */
export function pinSelf(): void {
  if (isPinned) spawnSync("taskset", ["--all-tasks", "-pc", "1", String(process.pid)]);
}

/** For the end of the program, whatever its reason. */
export function killAll(): void {
  for (const child of live) child.kill("SIGKILL");
}

function launch(
  core: Core, command: readonly string[], env: Readonly<Record<string, string>>, cwd: string,
) {
  const [name = "", ...args] = isPinned ? ["taskset", "-c", core, ...command] : command;
  const { PATH = "", HOME = "" } = process.env;
  const child = spawn(name, args, {
    cwd, env: { PATH, HOME, NODE_ENV: "production", ...env }, stdio: ["ignore", "pipe", "pipe"],
  });
  live.add(child);
  child.once("exit", () => live.delete(child));
  const texts = { stdout: "", stderr: "" };
  child.stdout.setEncoding("utf8").on("data", (text: string) => { texts.stdout += text; });
  child.stderr.setEncoding("utf8").on("data", (text: string) => { texts.stderr += text; });
  return { child, texts };
}

/** Runs a command to its end; what it wrote to stdout. */
export async function run(
  core: Core, command: readonly string[], env: Readonly<Record<string, string>> = {}, cwd = ".",
): Promise<string> {
  const { child, texts } = launch(core, command, env, cwd);
  await Promise.race([once(child, "close"), once(child, "error").then(([error]) => {
    throw error;
  })]);
  if (child.exitCode === 0) return texts.stdout;
  throw new Error(`${command.join(" ")}: ${child.exitCode ?? child.signalCode} ${texts.stderr}`);
}

export interface Server {
  readonly pid: number;
  readonly port: number;
  /** When it was spawned, and when its line said that it listens (performance.now). */
  readonly spawnedAt: number;
  readonly listeningAt: number;
  /** SIGTERM, and SIGKILL for who does not hear it. */
  end(): Promise<void>;
}

/** Starts a server on core 0, and waits for the line that has its port. */
export async function startServer(
  command: readonly string[], env: Readonly<Record<string, string>>, cwd: string,
): Promise<Server> {
  const spawnedAt = performance.now();
  const { child, texts } = launch("0", command, env, cwd);
  const exited = once(child, "exit");
  const port = await new Promise<number>((resolve, reject) => {
    child.stdout.on("data", () => {
      const found = /(?:listening|started) on .*?(\d+)\/?\s*\n/.exec(texts.stdout)?.[1];
      if (found !== undefined) resolve(Number(found));
    });
    child.once("error", reject);
    exited.then(() => reject(new Error(`${command.join(" ")} ended: ${texts.stderr}`)), reject);
  });
  const listeningAt = performance.now();
  return {
    pid: child.pid ?? 0, port, spawnedAt, listeningAt,
    async end() {
      child.kill("SIGTERM");
      const hurry = setTimeout(() => child.kill("SIGKILL"), 15_000);
      await exited;
      clearTimeout(hurry);
    },
  };
}
