/** The open sockets of one server: which carry HTTP, fail, or are idle, and what a drain closes. */
import { Server } from "node:http";
import type { Socket } from "node:net";
import type { Connections } from "./connection.ts";

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

  // Checks regularly, because node reports neither that a last response has left, nor that bytes
  // alone keep a connection open.
  const check = () => {
    if (connections.isDraining) closeIdle();
    const nowMillis = performance.now();
    const kept = [...http].filter(
      (socket) => !connections.of(socket).isIdle(nowMillis)
    );
    if (kept.length < http.size) destroyIdle(server, kept);
  };

  server.on("connection", (socket) => track(raw, socket));
  server.on(event, (socket) => track(http, socket));

  // Without this, node responds without a body.
  server.on("clientError", (error: NodeJS.ErrnoException, socket: Socket) => {
    if (http.has(socket))
      connections.of(socket).onParserError(error.code ?? "");
    // The TLS handshake failed: the client cannot read a response.
    else socket.destroy();
  });

  server.on("listening", () => {
    const timer = setInterval(check, connections.limits.checkMillis).unref();
    server.once("close", () => clearInterval(timer));
  });

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

/**
 * Destroys every connection on which no request has begun, except the ones to keep.
 *
 * Only node's parser knows whether bytes have begun a request: CRLF before a request line begins
 * none. Node's closeIdleConnections asks the parser, then calls `destroy` on each idle socket.
 * Replacing that method meanwhile is safe: nothing else runs, and destroying is all it is for.
 */
function destroyIdle(server: Server, kept: readonly Socket[]) {
  const restores = kept.map((socket) => {
    const { destroy } = socket;
    socket.destroy = () => socket;
    return () => {
      socket.destroy = destroy;
    };
  });
  Server.prototype.closeIdleConnections.call(server);
  for (const restore of restores) restore();
}
