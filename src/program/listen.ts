/** Where the server listens, and what is said of it once it does. */
import { once } from "node:events";
import type { Server } from "node:http";
import { dirname } from "node:path";
import { realDisk } from "../journal/files.ts";
import { removeAbandoned } from "../journal/lock.ts";
import type { Config } from "./settings.ts";

/** A socket that was handed in; else a path's, where that is not empty; else host and port. */
export type Place = Pick<
  Config,
  "socket" | "host" | "port" | "isHandedIn" | "tlsCert"
>;

/**
 * Listens on the socket that was handed in, which is the first descriptor behind stderr
 * (sd_listen_fds(3)), or on the one at a path, or else on host and port.
 *
 * A path's socket that kill -9 has left is taken over; one that is served is not, nor is a file
 * that is no socket.
 */
export async function listen(
  server: Server,
  { socket, host, port, isHandedIn }: Place
) {
  if (socket !== "") {
    const folder = dirname(socket);
    // The system's own message is that of a folder without permission.
    if (!realDisk.look(folder))
      throw new Error(`${socket}: there is no folder ${folder}`);
    await removeAbandoned(socket);
  }
  server.listen(
    isHandedIn ? { fd: 3 } : socket === "" ? { port, host } : { path: socket }
  );
  await once(server, "listening");
}

/** The first line is what scripts rely on; behind it stands a token that was made. */
export function announcement(
  base: string,
  { basePath, tlsCert }: Config,
  made: string
): string {
  const first = `plant-store listening on ${base}`;
  if (made === "") return first;

  // A line that can be pasted into a shell, whatever the paths are.
  const [isUnix, path] = /^unix:(.*)$/s.exec(base) ?? [];
  const option = isUnix ? `--unix-socket ${quoted(path ?? "")} ` : "";
  const trust = tlsCert === "" ? "" : `--cacert ${quoted(tlsCert)} `;
  const url = quoted(
    `${isUnix ? `${schemeOf(tlsCert)}://localhost` : base}${basePath}/plants`
  );
  return `${first}
No token is configured: this one is made for now, and gone when this process ends.

  curl ${option}${trust}${url} -H 'Authorization: Bearer ${made}' \\
    -H 'Content-Type: application/json' -d '{"id":1,"name":"Fern","tag":"shade"}'
`;
}

/** The address as it is: port 0 has become any free one, and one that was handed in is its own. */
export function baseOf(server: Server, place: Place): string {
  const address = server.address();
  if (typeof address !== "object" || !address)
    return `unix:${address ?? "fd 3"}`;
  const host = place.isHandedIn ? address.address : place.host;
  return `${schemeOf(place.tlsCert)}://${host.includes(":") ? `[${host}]` : host}:${address.port}`;
}

const schemeOf = (tlsCert: string): string =>
  tlsCert === "" ? "http" : "https";

/** Whether others than this machine may connect: tokens need TLS then (RFC 6750, 5.3). */
export function isExposed(server: Server): boolean {
  const address = server.address();
  if (typeof address !== "object" || address === null) return false;
  return !/^(?:127\.|::1$|::ffff:127\.)/.test(address.address);
}

/** A shell's word. */
const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;
