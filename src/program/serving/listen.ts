/** Listens, and prints the first line and a generated token. */
import { once } from "node:events";
import { existsSync, lstatSync, statSync, unlinkSync } from "node:fs";
import { createServer, type ListenOptions, type Server } from "node:net";
import { dirname } from "node:path";
import { messageOf } from "../../failure.ts";
import { probe } from "../../journal/sockets.ts";
import { isWindows } from "../../system.ts";
import { ExitError } from "../exit.ts";
import type { Log } from "../host.ts";
import { isStream, type Config } from "../settings.ts";

/** The options of `listen`, with the descriptor that node's types leave out. */
type Address = ListenOptions & { readonly fd?: number };

/**
 * Returns the public address: the inherited socket, which is the first descriptor after stderr
 * (sd_listen_fds(3)); without one the path of a socket, or else host and port.
 */
export const addressOf = ({
  isInherited,
  socket,
  host,
  port
}: Config): Address =>
  isInherited ? { fd: 3 } : socket === "" ? { port, host } : { path: socket };

/**
 * Listens, and returns where: `base` is the URL with the actual port, or `unix:` and the path or
 * descriptor. `isExposed`: whether other machines may connect, which needs TLS (RFC 6750, 5.3).
 *
 * A socket that kill -9 has left at the path is replaced. A socket on which a process listens is
 * not, nor is a file that is not a socket.
 *
 * @throws Error if the address cannot be had, ExitError if the inherited socket cannot
 */
export async function listen(server: Server, at: Address, log: Log) {
  const { path } = at;
  if (path !== undefined) await removeAbandoned(path);
  try {
    server.listen(at);
    await once(server, "listening");
  } catch (error) {
    if (at.fd === undefined) throw error;
    throw new ExitError(
      "config",
      `LISTEN_FDS: descriptor ${at.fd} must be a stream socket that listens, ` +
        `as a systemd socket unit with Accept=no has: ${messageOf(error)}`
    );
  }

  // A connection that could not be accepted, on systems that report it.
  server.on("error", (error) => log("warn", messageOf(error)));
  const bound = server.address();
  if (typeof bound !== "object" || !bound)
    return { base: `unix:${bound ?? "fd 3"}`, isExposed: false };
  const { address, port } = bound;
  const name = at.host ?? address;
  const host = name.includes(":") ? `[${name}]` : name;
  const scheme = "setSecureContext" in server ? "https" : "http";
  return {
    base: `${scheme}://${host}:${port}`,
    isExposed: !loopbackForm.test(address)
  };
}

/**
 * Listens for a moment if the journal is yet to be created: a start that cannot listen would leave
 * an empty one behind.
 *
 * @throws as `listen` does
 */
export async function tryToListen(config: Config, log: Log) {
  const { isInherited, store } = config;
  if (isInherited || isStream(store) || existsSync(store)) return;
  const server = createServer();
  await listen(server, addressOf(config), log);
  await once(server.close(), "close");
}

/** Removes a Unix socket on which nobody listens any more, and nothing else. */
async function removeAbandoned(path: string) {
  // Names a missing directory, which the message of `listen` does not.
  statSync(dirname(path));
  if (!lstatSync(path, { throwIfNoEntry: false })?.isSocket()) return;
  const listener = await probe(path);
  if (listener !== undefined)
    throw new Error(`something else is at ${path}: ${listener}`);
  unlinkSync(path);
}

const loopbackForm = new RegExp(String.raw`^(?:127\.|::1$|::ffff:127\.)`);

/** Returns the text for stdout: the line that scripts rely on, then a generated token. */
export function announcement(
  base: string,
  { isInherited, socket, basePath, tlsCert }: Config,
  generatedToken: string
) {
  const first = `plant-store listening on ${base}`;
  if (generatedToken === "") return first;

  // Nothing tells the path of an inherited socket.
  const path = isInherited ? "PATH" : socket;

  // A line that can be pasted into a shell, whatever the paths are.
  const isUnix = base.startsWith("unix:");
  const option = isUnix ? `--unix-socket ${asWord(path)} ` : "";
  const trust = tlsCert && `--cacert ${asWord(tlsCert)} `;
  const scheme = tlsCert === "" ? "http" : "https";
  const origin = isUnix ? `${scheme}://localhost` : base;
  const url = asWord(`${origin}${basePath}/plants`);
  const authorization = asWord(`Authorization: Bearer ${generatedToken}`);
  const type = asWord("Content-Type: application/json");
  const plant = asWord('{"id":1,"name":"Fern","tag":"shade"}');
  return `${first}
No token is configured: this one was generated, and ends with this process.

  curl ${option}${trust}${url} -H ${authorization} -H ${type} -d ${plant}
`;
}

/** Quotation mark of a shell or of cmd.exe, and what stands for it within a word. */
const [mark, escaped] = isWindows ? ['"', '\\"'] : ["'", "'\\''"];

/** Quotes a text as one word. */
const asWord = (text: string) => mark + text.replaceAll(mark, escaped) + mark;
