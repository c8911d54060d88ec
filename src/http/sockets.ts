/** The open sockets of one server: which carry HTTP, fail, or are idle, and what a drain closes. */
import type { Server } from "node:http";
import type { Socket } from "node:net";
import type { Connections } from "./connection.ts";

type ParserError = Error & {
  readonly code?: string;
  readonly rawPacket?: Buffer;
};

/** Tracks the sockets of a server that does not listen yet, and closes them when they are idle. */
export function trackSockets(
  server: Server,
  connections: Connections,
  event: "connection" | "secureConnection"
) {
  // Open sockets that carry HTTP. A socket whose TLS handshake is not complete does not.
  const http = new Set<Socket>();

  // Accepted TCP or Unix sockets. Over TLS, `http` has the TLS sockets instead.
  const raw = new Set<Socket>();

  // Closes gently every connection on which no request with its whole head is in progress. After
  // the last one, only handshakes are left.
  const closeIdle = () => {
    for (const socket of http) connections.of(socket).closeIfIdle();
    if (http.size === 0) for (const socket of raw) socket.destroy();
  };

  server.on("connection", (socket) => track(raw, socket));
  server.on(event, (socket) => {
    // Responds to clients that half-close: node:https would end the connection. Before the end of
    // its handshake, a TLS socket that a client closes must not stay.
    socket.allowHalfOpen = true;
    track(http, socket);
  });

  // Without this, node responds without a body.
  server.on("clientError", (error: ParserError, socket: Socket) => {
    const { code = "", rawPacket } = error;
    if (http.has(socket))
      connections.of(socket).onParserError(code, rawPacket?.toString("latin1"));
    // The TLS handshake failed: the client cannot read a response.
    else socket.destroy();
  });

  // Without this, node would close a connection whose client waits for our response.
  server.on("timeout", (socket) => connections.of(socket).onTimeout());

  return {
    closeIdle,

    /**
     * Closes every connection at once.
     *
     * @returns whether each request had its whole response
     */
    destroyAll() {
      const isAnswered = [...http].every((socket) =>
        connections.of(socket).isAnswered()
      );
      for (const socket of [...http, ...raw]) socket.destroy();
      return isAnswered;
    }
  };
}

function track(sockets: Set<Socket>, socket: Socket) {
  sockets.add(socket);
  socket.once("close", () => sockets.delete(socket));
}
