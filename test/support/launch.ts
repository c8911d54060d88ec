/** The program on a Unix socket, which every user and network namespace can reach. */
import { spawn } from "node:child_process";
import { chmodSync } from "node:fs";
import { dirname, join } from "node:path";
import { postTo, type Answer } from "./http.ts";
import {
  cleanEnvironment,
  program,
  runningOf,
  socketFolder,
  temporaryFolder,
  token
} from "./support.ts";

let sockets = 0;

/** A folder for sockets, which every user may write to, in place of one whose path is too long. */
const shortFolder = socketFolder();
chmodSync(shortFolder, 0o1777);
const folderOfSockets = (folder: string): string =>
  Buffer.byteLength(folder) < 90 ? folder : shortFolder;

/** The path of the next program's socket. */
export const nextSocket = (folder: string): string =>
  join(folderOfSockets(folder), `${sockets + 1}.sock`);

/**
 * Starts the program; rejects if it ends first, with its exit code and what it complained of.
 * @param wrapper what the command line begins with; it must end by becoming the program
 * @param folder where it runs, and where its socket is
 */
export async function launch({
  wrapper = [] as readonly string[],
  args = [] as readonly string[],
  store = join(temporaryFolder(), "plants.ndjson"),
  folder = dirname(store),
  server = program,
  node = [process.execPath] as readonly string[],
  env = {}
} = {}) {
  const socketPath = nextSocket(folder);
  sockets++;
  const [command = "", ...rest] = [
    ...wrapper,
    ...node,
    server,
    "--socket",
    socketPath,
    "--store",
    store,
    ...args
  ];
  const child = spawn(command, rest, {
    cwd: folder,
    stdio: ["ignore", "pipe", "pipe"],
    env: cleanEnvironment({ PLANTS_TOKEN: token, ...env })
  });
  const running = runningOf(child);
  await running.listening().catch(() => {
    const code = running.exitCode ?? child.signalCode;
    throw Object.assign(new Error(`${code} ${running.stderr()}`), { code });
  });
  /** Status 0: there is no response. */
  const post = (id: number, name = `plant-${id}`): Promise<Answer> =>
    postTo({ socketPath }, { body: JSON.stringify({ id, name }) }).catch(
      () => ({ status: 0, error: undefined })
    );
  /** The exit code, or the deadly signal's name. */
  const ended = running.ended.then((code) => code ?? `${child.signalCode}`);
  const end = (signal?: NodeJS.Signals): Promise<number | string> =>
    running.end(signal).then(() => ended);
  const { pid = 0 } = child;
  return {
    process: child,
    pid,
    path: store,
    stderr: () => running.stderr(),
    post,
    ended,
    end
  };
}
