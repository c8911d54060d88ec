/** A proxy before a server, or on the route between two servers: what a network does to bytes. */
import { connect, createServer, type Socket } from "node:net";
import { after } from "node:test";
import { listen } from "../support/serving.ts";

/** Proxies before all servers, and the option that connects through them. */
export async function proxied({
  servers
}: {
  readonly servers: readonly { readonly port: number; readonly host: string }[];
}) {
  const proxies = await Promise.all(
    servers.map(({ port, host }) => Proxy.before(port, host))
  );
  return { proxies, ports: proxies.map(({ port }) => port) };
}

/** Counts what clients publish to a subject through proxies. */
export function publishedTo(subject: string, proxies: readonly Proxy[]) {
  let count = 0;
  for (const proxy of proxies)
    proxy.rewrite = (bytes) => {
      count += bytes.toString("latin1").split(`HPUB ${subject} `).length - 1;
      return bytes;
    };
  return () => count;
}

/** A proxy before a port, whose ways can be closed one by one. */
export class Proxy {
  port = 0;

  /** Bytes from the server are lost. */
  isMute = false;

  /** Bytes of both sides are lost. */
  isBlocked = false;

  /** The time that bytes take in each direction. */
  delayMillis = 0;

  /** How many bytes from the server were lost. */
  lost = 0;

  /** Changes what the client says. */
  rewrite: (bytes: Buffer) => Buffer = (bytes) => bytes;

  /** Those that have connected. */
  readonly clients: Socket[] = [];
  readonly #sockets = new Set<Socket>();
  #isStalled = false;

  static async before(target: number, host = "127.0.0.1"): Promise<Proxy> {
    const proxy = new Proxy();
    proxy.port = await listen(
      createServer((client) => proxy.#join(client, connect(target, host)))
    );
    after(() => proxy.cut());
    return proxy;
  }

  /** Changes every message id of the client. */
  set ids(change: (line: string) => string) {
    this.rewrite = (bytes) =>
      Buffer.from(
        bytes.toString("latin1").replace(/Nats-Msg-Id: [\da-f]{27}/g, change),
        "latin1"
      );
  }

  /** Ends all connections. */
  cut(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  /** Reads from no client any more, as behind a cut in one direction. */
  stall(): void {
    this.#isStalled = true;
    for (const client of this.clients) client.pause();
  }

  #join(client: Socket, server: Socket): void {
    for (const [socket, other] of [
      [client, server],
      [server, client]
    ] as const) {
      this.#sockets.add(socket);
      socket.setNoDelay(true).on("error", () => undefined);
      socket.on("close", () => {
        this.#sockets.delete(socket);
        other.destroy();
      });
    }
    const send = (socket: Socket, bytes: Buffer): unknown =>
      this.delayMillis === 0
        ? socket.write(bytes)
        : setTimeout(() => socket.write(bytes), this.delayMillis);
    client.on("data", (bytes) => {
      if (!this.isBlocked) send(server, this.rewrite(bytes));
    });
    server.on("data", (bytes) => {
      if (this.isMute || this.isBlocked) this.lost += bytes.length;
      else send(client, bytes);
    });
    this.clients.push(client);
    if (this.#isStalled) client.pause();
  }
}
