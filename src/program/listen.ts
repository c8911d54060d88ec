/** Where the server listens, and what is said of it once it does. */
import { once } from "node:events";
import type { DrainableServer } from "../http/server.ts";
import { removeAbandoned } from "../journal/disk.ts";
import type { Config } from "./settings.ts";

/** Listens on the socket, or else on host and port. A socket that kill -9 has left is taken over;
 * one that is served is not, nor is a file that is no socket. */
export async function listen(server: DrainableServer, config: Config): Promise<void> {
  const { socket, host, port } = config;
  if (socket !== "") await removeAbandoned(socket);
  server.listen(socket === "" ? { port, host } : { path: socket });
  await once(server, "listening");
}

/** The first line is what scripts rely on; behind it stands a token that was made. */
export function announcement(server: DrainableServer, config: Config, made: string): string {
  const { host, socket, basePath } = config;

  // The address as it is: port 0 has become any free one.
  const address = server.address();
  const isIp = typeof address === "object" && address !== null;
  const name = host.includes(":") ? `[${host}]` : host;
  const base = isIp ? `http://${name}:${address.port}` : `unix:${socket}`;
  const first = `plant-store listening on ${base}`;
  if (made === "") return first;

  // A line that can be pasted into a shell, whatever the paths are.
  const option = isIp ? "" : `--unix-socket ${quoted(socket)} `;
  const url = quoted(`${isIp ? base : "http://localhost"}${basePath}/plants`);
  return `${first}
No token is configured: this one is made for now, and gone when this process ends.

  curl ${option}${url} -H 'Authorization: Bearer ${made}' \\
    -H 'Content-Type: application/json' -d '{"id":1,"name":"Fern","tag":"shade"}'
`;
}

/** A shell's word. */
const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;
