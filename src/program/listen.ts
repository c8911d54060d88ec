/** Where the server listens, and what is said of it once it does. */
import { once } from "node:events";
import type { Server } from "node:http";
import { removeAbandoned } from "../journal/disk.ts";
import type { Config } from "./settings.ts";

/** A Unix socket; where that is empty, host and port. */
export type Place = Pick<Config, "socket" | "host" | "port">;

/** Listens on the socket, or else on host and port. A socket that kill -9 has left is taken over;
 * one that is served is not, nor is a file that is no socket. */
export async function listen(server: Server, { socket, host, port }: Place): Promise<void> {
  if (socket !== "") await removeAbandoned(socket);
  server.listen(socket === "" ? { port, host } : { path: socket });
  await once(server, "listening");
}

/** The first line is what scripts rely on; behind it stands a token that was made. */
export function announcement(server: Server, config: Config, made: string): string {
  const { socket, basePath } = config;
  const base = baseOf(server, config);
  const first = `plant-store listening on ${base}`;
  if (made === "") return first;

  // A line that can be pasted into a shell, whatever the paths are.
  const option = socket === "" ? "" : `--unix-socket ${quoted(socket)} `;
  const url = quoted(`${socket === "" ? base : "http://localhost"}${basePath}/plants`);
  return `${first}
No token is configured: this one is made for now, and gone when this process ends.

  curl ${option}${url} -H 'Authorization: Bearer ${made}' \\
    -H 'Content-Type: application/json' -d '{"id":1,"name":"Fern","tag":"shade"}'
`;
}

/** The address as it is: port 0 has become any free one. */
export function baseOf(server: Server, { host, socket }: Place): string {
  const address = server.address();
  if (typeof address !== "object" || address === null) return `unix:${socket}`;
  return `http://${host.includes(":") ? `[${host}]` : host}:${address.port}`;
}

/** A shell's word. */
const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;
