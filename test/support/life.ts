/** The ways in which a system runs the program, for the test of its whole life. */
import { writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { spawnSync } from "node:child_process";
import { emulated } from "./arm.ts";
import { nodes } from "./recipes.ts";
import { macEnvironment, noShim, systemArgs } from "./mac.ts";
import { exchange } from "./exchange.ts";
import {
  cleanEnvironment,
  complaintsOf,
  post,
  program,
  startProcess,
  temporaryFolder
} from "./support.ts";
import {
  noWine,
  runWine,
  signalled,
  startWine,
  windowsNodes,
  windowsPath
} from "./wine.ts";

/** A program that was started. */
export interface Started {
  readonly port: number;

  /** Its complaints, as lines of text. */
  stderr(): string;

  /** Ends it gracefully, or at once. Returns its exit code. */
  stop(): Promise<number | string | null>;
  kill(): Promise<unknown>;
}

export interface Way {
  readonly name: string;

  /** Why it cannot be tested here, or false. */
  readonly skip: string | false;

  /** A path as the program has it. */
  pathOf(path: string): string;
  start(args: readonly string[]): Promise<Started>;
  run(
    args: readonly string[]
  ): Promise<{ code: number | string | null; stdout: string; stderr: string }>;
}

/** Node on this system: a binary, arguments before the program, and an environment. */
function native(
  name: string,
  node: string,
  nodeArgs: readonly string[] = [],
  env: Readonly<Record<string, string>> = {},
  skip: string | false = false
): Way {
  const isWindows = process.platform === "win32";
  return {
    name,
    skip,
    pathOf: (path) => path,
    async start(args) {
      const cwd = temporaryFolder();
      const server = await startProcess({
        node,
        nodeArgs: isWindows ? [...nodeArgs, ...signalled] : nodeArgs,
        args,
        cwd,
        env
      });
      return {
        port: server.port,
        stderr: () => server.stderr(),
        stop() {
          if (!isWindows) return server.end("SIGTERM");
          writeFileSync(join(cwd, "SIGBREAK"), "");
          return server.ended;
        },
        kill: () => server.end("SIGKILL")
      };
    },
    run(args) {
      const { status, stdout, stderr } = spawnSync(
        node,
        [...nodeArgs, program, ...args],
        {
          cwd: temporaryFolder(),
          encoding: "utf8",
          env: cleanEnvironment(env)
        }
      );
      return Promise.resolve({
        code: status,
        stdout,
        stderr: complaintsOf(stderr)
      });
    }
  };
}

/** Node's build for Windows under Wine. */
const underWine = (node: string): Way => ({
  name: `Windows, by ${node.split("/").at(-3) ?? node} under Wine`,
  skip: noWine,
  pathOf: windowsPath,
  async start(args) {
    const server = await startWine(node, { args });
    return {
      port: Number(new URL(server.url).port),
      stderr: () => complaintsOf(server.stderr()),
      stop: () => server.end("SIGBREAK"),
      kill: () => server.end("SIGKILL")
    };
  },
  run: (args) => runWine([node, windowsPath(program), ...args])
});

/** Deno and Bun: PLANT_TEST_RUNTIMES has their paths, with colons between. */
export const runtimes = (process.env["PLANT_TEST_RUNTIMES"] ?? "")
  .split(":")
  .filter(Boolean)
  .map((path) => {
    const { stdout } = spawnSync(path, ["--version"], { encoding: "utf8" });
    const name = basename(path);
    const nodeArgs = name === "deno" ? ["run", "--allow-all"] : [];
    return { path, nodeArgs, name: `${name} ${/\d+[.\d]+/.exec(stdout)?.[0]}` };
  });

/** All ways: Nodes, Deno and Bun, a simulated Mac, arm64 under qemu, and Windows under Wine. */
export const ways: readonly Way[] = [
  ...runtimes.map(({ name, path, nodeArgs }) => native(name, path, nodeArgs)),
  ...nodes.map(({ path, version }) => native(`Node ${version} here`, path)),
  native(
    "a simulated Mac",
    process.execPath,
    systemArgs("darwin"),
    macEnvironment,
    noShim
  ),
  ...emulated.map(({ path, nodeArgs, version }) =>
    native(`Node ${version} under qemu`, path, nodeArgs)
  ),
  ...windowsNodes.map(underWine)
];

/** Posts a plant. Returns the status, and whether the response is a replay. */
export async function postPlant(
  { port }: Started,
  id: string,
  fields?: string
): Promise<readonly unknown[]> {
  const request = post(`{"id":${id},"name":"Fern"}`, fields);
  const [answer] = await exchange(port, request, { answers: 1 });
  return [answer?.status, answer?.headers["idempotency-replayed"]];
}
