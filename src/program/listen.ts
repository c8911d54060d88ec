/** Where the server listens, and what it prints once it does. */
import { once } from "node:events";
import type { Server } from "node:http";
import { dirname } from "node:path";
import { realDisk } from "../journal/files.ts";
import { removeAbandoned } from "../journal/lock.ts";
import type { Config } from "./settings.ts";

/**
 * Listens on the inherited socket, which is the first descriptor after stderr (sd_listen_fds(3)); or
 * else at the path of a socket; or else on host and port.
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
    const folder = dirname(socket);

    // The system's own message is that of a folder without permission.
    if (!realDisk.look(folder))
      throw new Error(`${socket}: there is no folder ${folder}`);
    await removeAbandoned(socket);
  }
  server.listen(
    isInherited ? { fd: 3 } : socket === "" ? { port, host } : { path: socket }
  );
  await once(server, "listening");
}

/** Returns the text for stdout: the line that scripts rely on, then a generated token. */
export function announcement(
  base: string,
  { basePath, tlsCert }: Config,
  generatedToken: string
): string {
  const first = `plant-store listening on ${base}`;
  if (generatedToken === "") return first;

  // A line that can be pasted into a shell, whatever the paths are.
  const [isUnix, path] = /^unix:(.*)$/s.exec(base) ?? [];
  const option = isUnix ? `--unix-socket ${shellQuoted(path ?? "")} ` : "";
  const trust = tlsCert === "" ? "" : `--cacert ${shellQuoted(tlsCert)} `;
  const origin = isUnix ? `${schemeOf(tlsCert)}://localhost` : base;
  const url = shellQuoted(`${origin}${basePath}/plants`);
  return `${first}
No token is configured: this one was generated, and ends with this process.

  curl ${option}${trust}${url} -H 'Authorization: Bearer ${generatedToken}' \\
    -H 'Content-Type: application/json' -d '{"id":1,"name":"Fern","tag":"shade"}'
`;
}

/** Returns the base URL with the actual port, or `unix:` and the path or descriptor. */
export function baseOf(server: Server, config: Config): string {
  const address = server.address();
  if (typeof address !== "object" || !address)
    return `unix:${address ?? "fd 3"}`;
  const { isInherited, tlsCert } = config;
  const host = isInherited ? address.address : config.host;
  return `${schemeOf(tlsCert)}://${host.includes(":") ? `[${host}]` : host}:${address.port}`;
}

const schemeOf = (tlsCert: string): string =>
  tlsCert === "" ? "http" : "https";

/** Returns whether other machines may connect: tokens need TLS then (RFC 6750, 5.3). */
export function isExposed(server: Server): boolean {
  const address = server.address();
  if (typeof address !== "object" || address === null) return false;
  return !/^(?:127\.|::1$|::ffff:127\.)/.test(address.address);
}

/** Quotes a text as one word of a shell. */
const shellQuoted = (text: string): string =>
  `'${text.replaceAll("'", "'\\''")}'`;
