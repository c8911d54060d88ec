/** Listens, and prints the first line and a generated token. */
import { once } from "node:events";
import { accessSync, constants, lstatSync, unlinkSync } from "node:fs";
import type { ListenOptions, Server } from "node:net";
import { dirname } from "node:path";
import { ExitError, messageOf } from "../../failure.ts";
import { mayListenOn } from "../../journal/sockets.ts";
import { isWindows } from "../../system.ts";
import { reportEach } from "../exit.ts";
import type { Host, Log } from "../host.ts";
import { adminForm, type Config } from "../settings.ts";

/** The options of `listen`. */
export type Address = ListenOptions & {
  /** The descriptor, which node's types leave out. */
  readonly fd?: number;

  /** The settings that an error names. */
  readonly source: string;
};

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
  isInherited
    ? { fd: 3, source: "LISTEN_FDS" }
    : socket === ""
      ? { port, host, source: "--host, --port" }
      : { path: socket, source: "--socket" };

/** Returns the address of the admin listener: an empty path if there is none. */
export function adminAddressOf({ admin }: Config): Address {
  const source = "--admin";
  const [, name, ipv6, port] = adminForm.exec(admin) ?? [];
  return port === undefined
    ? { path: admin, source }
    : { host: name ?? ipv6 ?? "127.0.0.1", port: Number(port), source };
}

/**
 * Listens, and returns where: the URL with the actual port, or `unix:` and the path or descriptor.
 *
 * A socket that kill -9 has left at the path is replaced. A socket on which a process listens is
 * not, nor is a file that is not a socket.
 *
 * @throws ExitError `unavailable`, or `config` for an inherited socket
 */
export async function listen(server: Server, at: Address, log: Log) {
  try {
    if (at.path && isSocketAt(at.path)) {
      if (await mayListenOn(at.path))
        throw new Error(`another process may listen at ${at.path}`);
      unlinkSync(at.path);
    }
    server.listen(at);
    await once(server, "listening");
  } catch (error) {
    throw cannotListen(at, error);
  }

  // A connection that could not be accepted, on systems that report it.
  server.on("error", (error) => log("warn", messageOf(error)));
  const bound = server.address();
  if (typeof bound !== "object" || !bound) return `unix:${bound ?? inherited}`;
  const { address, port } = bound;
  const name = at.host ?? address;
  const host = name.includes(":") ? `[${name}]` : name;
  const scheme = "setSecureContext" in server ? "https" : "http";
  return `${scheme}://${host}:${port}`;
}

/** Reports the paths at which no Unix socket can be made, without listening. Resolves with the exit code. */
export const checkAddresses = (config: Config, host: Host) =>
  reportEach(
    [addressOf(config), adminAddressOf(config)],
    (at) => {
      try {
        if (at.path) isSocketAt(at.path);
      } catch (error) {
        throw cannotListen(at, error);
      }
    },
    host
  );

const cannotListen = ({ fd, source }: Address, error: unknown) =>
  new ExitError(
    fd === undefined ? "unavailable" : "config",
    `${source}: cannot listen: ${messageOf(error)}`
  );

/**
 * Whether a Unix socket is at a path.
 *
 * @throws Error if none can be made there: `listen` does not name a missing directory
 */
function isSocketAt(path: string) {
  accessSync(dirname(path), constants.W_OK);
  const stat = lstatSync(path, { throwIfNoEntry: false });
  if (stat && !stat.isSocket())
    throw new Error(`what is at ${path} is not a socket`);
  return stat !== undefined;
}

/** Whether other machines may reach a listener, which then needs TLS (RFC 6750, 5.3). */
export function isExposed(server: Server) {
  const bound = server.address();
  if (typeof bound !== "object" || !bound) return false;
  return !/^(?:127\.|::1$|::ffff:127\.)/.test(bound.address);
}

/** Returns the URL of the operation. On a Unix socket, its host stands for nothing. */
export function urlOf(base: string, { basePath, tlsCert }: Config) {
  const scheme = tlsCert === "" ? "http" : "https";
  const origin = base.startsWith("unix:") ? `${scheme}://localhost` : base;
  return `${origin}${basePath}/plants`;
}

/** What stands for the path of an inherited socket, which nothing tells. */
const inherited = "fd 3";

/** Returns the text for stdout: the line that scripts rely on, then a generated token. */
export function announcement(
  base: string,
  url: string,
  { tlsCert }: Config,
  generatedToken: string
) {
  const first = `plant-store listening on ${base}`;
  if (generatedToken === "") return first;

  // A line that can be pasted into a shell, whatever the paths are.
  const [, path] = /^unix:(.*)$/s.exec(base) ?? [];
  const socket = path === inherited ? "PATH" : path;
  const option = socket ? `--unix-socket ${asWord(socket)} ` : "";
  const trust = tlsCert && `--cacert ${asWord(tlsCert)} `;
  const authorization = asWord(`Authorization: Bearer ${generatedToken}`);
  const type = asWord("Content-Type: application/json");
  const plant = asWord('{"id":1,"name":"Fern","tag":"shade"}');
  return `${first}
No token is configured: this one was generated, and ends with this process.

  curl ${option}${trust}${asWord(url)} -H ${authorization} -H ${type} -d ${plant}
`;
}

/** Quotation mark of a shell or of cmd.exe, and what stands for it within a word. */
const [mark, escaped] = isWindows ? ['"', '\\"'] : ["'", "'\\''"];

/** Quotes a text as one word. */
const asWord = (text: string) => mark + text.replaceAll(mark, escaped) + mark;
