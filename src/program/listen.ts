/** Listens, and prints the first line and a generated token. */
import { once } from "node:events";
import type { Server } from "node:http";
import { dirname } from "node:path";
import { realDisk } from "../journal/files.ts";
import { removeAbandoned } from "../journal/lock.ts";
import { ExitError } from "./exit.ts";
import type { Config } from "./settings.ts";

/**
 * Listens on the inherited socket, the first descriptor after stderr (sd_listen_fds(3)). Without
 * one, listens at the path of a socket, or else on host and port.
 *
 * A socket that kill -9 has left at the path is replaced. A socket on which a process listens is
 * not, nor is a file that is not a socket.
 *
 * @throws Error if the address cannot be had
 */
export async function listen(
  server: Server,
  { socket, host, port, isInherited }: Config
) {
  if (socket !== "") {
    assertFolder(socket);
    await removeAbandoned(socket);
  }
  server.listen(
    isInherited ? { fd: 3 } : socket === "" ? { port, host } : { path: socket }
  );
  await once(server, "listening");
}

/**
 * Refuses a path whose directory is missing: the system's own message does not say so.
 *
 * @throws ExitError `io` that names the directory
 */
export function assertFolder(path: string) {
  const directory = dirname(path);
  if (!realDisk.look(directory))
    throw new ExitError("io", `${path}: there is no directory ${directory}`);
}

/** Returns the text for stdout: the line that scripts rely on, then a generated token. */
export function announcement(
  base: string,
  { basePath, tlsCert }: Config,
  generatedToken: string
) {
  const first = `plant-store listening on ${base}`;
  if (generatedToken === "") return first;

  // A line that can be pasted into a shell, whatever the paths are.
  const [, path] = /^unix:(.*)$/s.exec(base) ?? [];
  const option = path ? `--unix-socket ${shellQuoted(path)} ` : "";
  const trust = tlsCert === "" ? "" : `--cacert ${shellQuoted(tlsCert)} `;
  const origin = path ? `${schemeOf(tlsCert)}://localhost` : base;
  const url = shellQuoted(`${origin}${basePath}/plants`);
  return `${first}
No token is configured: this one was generated, and ends with this process.

  curl ${option}${trust}${url} -H 'Authorization: Bearer ${generatedToken}' \\
    -H 'Content-Type: application/json' -d '{"id":1,"name":"Fern","tag":"shade"}'
`;
}

/**
 * Describes where a server listens. `base` is the URL with the actual port, or `unix:` and the path
 * or descriptor. `isExposed`: whether other machines may connect, which needs TLS (RFC 6750, 5.3).
 */
export function describeAddress(
  server: Server,
  { isInherited, tlsCert, host: configured }: Config
) {
  const found = server.address();
  if (typeof found !== "object" || !found)
    return { base: `unix:${found ?? "fd 3"}`, isExposed: false };
  const { address, port } = found;
  const name = isInherited ? address : configured;
  const host = name.includes(":") ? `[${name}]` : name;
  return {
    base: `${schemeOf(tlsCert)}://${host}:${port}`,
    isExposed: !loopbackForm.test(address)
  };
}

const loopbackForm = new RegExp(String.raw`^(?:127\.|::1$|::ffff:127\.)`);

const schemeOf = (tlsCert: string) => (tlsCert === "" ? "http" : "https");

/** Quotes a text as one word of a shell. */
const shellQuoted = (text: string) => `'${text.replaceAll("'", "'\\''")}'`;
