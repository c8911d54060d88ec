/** The open sockets of one server: which carry HTTP, which are idle, which a drain closes. */
import { Server } from "node:http";
import type { Socket } from "node:net";
import type { Connections } from "./connection.ts";

/** The sockets of one server, from the time they are accepted until they close. */
export class Sockets {
  readonly #server: Server;
  readonly #connections: Connections;

  /** Sockets that carry HTTP. */
  readonly #http = new Set<Socket>();

  /** TCP or Unix sockets as accepted: without TLS, the same ones. */
  readonly #accepted: Set<Socket>;

  constructor(
    server: Server,
    connections: Connections,
    transport: "plain" | "tls"
  ) {
    this.#server = server;
    this.#connections = connections;
    this.#accepted = transport === "tls" ? new Set() : this.#http;
    server.on("connection", (socket) => track(this.#accepted, socket));
    server.on("secureConnection", (socket) => track(this.#http, socket));

    server.on("listening", () => {
      const timer = setInterval(
        () => this.#check(),
        connections.limits.checkMillis
      );
      timer.unref();
      server.once("close", () => clearInterval(timer));
    });
  }

  /** Returns whether a socket carries HTTP: one whose TLS handshake failed does not. */
  carriesHttp(socket: Socket): boolean {
    return this.#http.has(socket);
  }

  /** Closes gently every connection on which no request has arrived with its whole head. */
  closeIdle(): void {
    for (const socket of this.#http) this.#connections.of(socket).closeIfIdle();
    for (const socket of this.#handshaking()) socket.destroy();
  }

  /**
   * Closes every connection at once.
   *
   * @returns whether each request had its whole response
   */
  destroyAll(): boolean {
    const isAnswered = [...this.#http].every((socket) =>
      this.#connections.of(socket).isAnswered()
    );
    for (const socket of this.#accepted) socket.destroy();
    return isAnswered;
  }

  /** Does what no event announces: a last response has left, an idle connection has had its time. */
  #check(): void {
    if (this.#connections.isDraining) this.closeIdle();

    const nowMillis = performance.now();
    const kept: Socket[] = [];
    for (const socket of this.#http) {
      const connection = this.#connections.of(socket);
      if (!connection.isOverdue(nowMillis)) kept.push(socket);
      else if (!connection.isParsed) socket.destroy();
    }
    if (kept.length < this.#http.size) this.#destroyIdle(kept);
  }

  /**
   * Destroys the connections on which no request has begun, except the ones to keep.
   *
   * Only node's parser knows whether bytes have begun a request: CRLF before a request line begins
   * none. Node's closeIdleConnections asks the parser, and destroys each idle socket.
   */
  #destroyIdle(kept: readonly Socket[]): void {
    const methods = kept.map(({ destroy }) => destroy);
    for (const socket of kept) socket.destroy = () => socket;
    Server.prototype.closeIdleConnections.call(this.#server);
    for (const [index, socket] of kept.entries())
      socket.destroy = methods[index] ?? socket.destroy;
  }

  /**
   * Returns the accepted sockets whose TLS handshake is not complete.
   *
   * Node does not document how a TLS socket refers to the socket below it: a test on each Node
   * pins it. Without that reference no socket is returned, and `handshakeTimeout` closes them.
   */
  #handshaking(): Socket[] {
    if (this.#accepted === this.#http) return [];
    const below = new Set(
      [...this.#http].map(
        (socket: Socket & { _parent?: Socket }) => socket._parent
      )
    );
    return below.has(undefined)
      ? []
      : [...this.#accepted].filter((socket) => !below.has(socket));
  }
}

function track(sockets: Set<Socket>, socket: Socket): void {
  sockets.add(socket);
  socket.once("close", () => sockets.delete(socket));
}
