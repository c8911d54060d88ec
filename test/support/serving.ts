/**
 * A server in the test's own process, with both ends of its connections.
 */
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { connect, type Server, type Socket } from "node:net";
import { after } from "node:test";
import { createPlantServer } from "../../src/index.ts";
import type {
  DrainableServer,
  NewPlant,
  PlantOptions,
  PlantStore
} from "../../src/index.ts";
import { temporaryFolder, token } from "./support.ts";
import { certify } from "./tools.ts";
import { seconds, until } from "./until.ts";

/** The time of a test, and longer than that. */
export const timeout = seconds(50);
export const never = 60_000;

/** The fields of a good request, and a request that is refused. */
export const hosted = `Host: a\r\nAuthorization: Bearer ${token}\r\nContent-Type: application/json\r\n`;
export const refused = "GET /x HTTP/1.1\r\nHost: a\r\n\r\n";

/** A store that keeps names. After `hold`, every append waits for `release`. */
export class HeldStore implements PlantStore {
  readonly names: string[] = [];
  waiting = 0;
  #wait: Promise<void> = Promise.resolve();
  release: () => void = () => undefined;

  hold(): void {
    this.#wait = new Promise((resolve) => {
      this.release = resolve;
    });
  }

  async append({ name }: NewPlant): Promise<void> {
    this.waiting++;
    await this.#wait;
    this.waiting--;
    this.names.push(name);
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}

/** Listens on a free port, or on a Unix socket; closed after the tests. Returns the port. */
export async function listen(server: Server, path?: string): Promise<number> {
  await once(
    path === undefined ? server.listen(0, "127.0.0.1") : server.listen(path),
    "listening"
  );
  const sockets = new Set<Socket>();
  server.on("connection", (socket: Socket) => void sockets.add(socket));
  after(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  const address = server.address();
  return typeof address === "object" && address !== null ? address.port : 0;
}

export interface Serving {
  readonly server: DrainableServer;
  readonly port: number;
  readonly store: HeldStore;
}

/** Starts a server with the options, whose store keeps names by default. */
export async function serve({
  create = createPlantServer,
  path,
  ...options
}: Partial<PlantOptions> & {
  readonly create?: typeof createPlantServer;
  readonly tls?: { key: Buffer; cert: Buffer };
  readonly path?: string;
} = {}): Promise<Serving> {
  const store = new HeldStore();
  const server = create({ store, tokens: [token], ...options });
  return { server, port: await listen(server, path), store };
}

/** A key and a certificate for localhost. */
export function temporaryTls(): {
  readonly key: Buffer;
  readonly cert: Buffer;
} {
  const { cert, key } = certify(temporaryFolder(), "localhost");
  return { key: readFileSync(key), cert: readFileSync(cert) };
}

/** Both ends of a connection. The client reads nothing until it is resumed. */
export interface Ends {
  readonly client: Socket;
  readonly ours: Socket;
}

/** Connects to a port or a Unix socket. A client that gets the server's end does not end itself. */
export async function open(
  server: Server,
  address: number | string
): Promise<Ends> {
  const accepted = once(server, "connection");
  const to =
    typeof address === "string"
      ? { path: address }
      : { port: address, host: "127.0.0.1" };
  const client = connect({ ...to, allowHalfOpen: true }).pause();
  client.on("error", () => undefined);
  const [[ours]] = await Promise.all([accepted, once(client, "connect")]);
  client.setNoDelay(true);
  return { client, ours };
}

/** A server, and both ends of a connection to it. */
export async function connected(options: Parameters<typeof serve>[0] = {}) {
  const serving = await serve(options);
  return {
    ...serving,
    ends: await open(serving.server, options.path ?? serving.port)
  };
}

/** Writes, and waits until the server has read it or has closed. */
export async function send(
  { client, ours }: Ends,
  bytes: string | Buffer
): Promise<void> {
  const end = client.bytesWritten + Buffer.byteLength(bytes);
  client.write(bytes);
  await until(
    "the server has read it",
    () => ours.bytesRead >= end || ours.destroyed || client.destroyed
  );
}

/** Reads until the connection closes. Returns all that arrived, as Latin-1. */
export async function readAll({ client }: Ends): Promise<string> {
  let text = "";
  client.setEncoding("latin1").on("data", (more: string) => {
    text += more;
  });
  // The server waits for the client to close.
  client.once("end", () => client.end()).resume();
  if (!client.destroyed)
    await new Promise((resolve) => client.once("close", resolve));
  return text;
}

/** Waits until a socket has closed. */
export async function closed(socket: Socket): Promise<void> {
  if (!socket.closed)
    await new Promise((resolve) => socket.once("close", resolve));
}

export const statusesOf = (text: string): readonly number[] =>
  [...text.matchAll(/HTTP\/1\.1 (\d+) /g)].map(([, status]) => Number(status));

/**
 * What a client reads that reads nothing before it has written all, as one that blocks: up to so
 * many responses.
 */
export async function writeFirst(
  port: number,
  bytes: string,
  answers = 1
): Promise<string> {
  const socket = connect({
    port,
    host: "127.0.0.1",
    allowHalfOpen: true
  }).pause();
  let text = "";
  socket.on("data", (data: Buffer) => {
    text += data.toString("latin1");
  });
  socket.write(bytes, "latin1", () => socket.resume());
  await until("it has responses", () => statusesOf(text).length >= answers);
  socket.destroy();
  return text;
}
