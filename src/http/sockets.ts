/** The open sockets of one server: which carry HTTP, which are idle, what a drain closes. */
import { Server } from "node:http";
import type { Socket } from "node:net";
import type { Connections } from "./connection.ts";

/** Tracks the sockets of a server that does not listen yet, and closes them when they are idle. */
export function trackSockets(
  server: Server,
  connections: Connections,
  transport: "tcp" | "tls"
) {
  // Open sockets that carry HTTP. A socket whose TLS handshake is not complete does not.
  const http = new Set<Socket>();

  // TCP or Unix sockets whose TLS handshake is not complete.
  const handshaking = new Set<Socket>();

  // Closes gently every connection on which no request with its whole head is in progress.
  const closeIdle = (): void => {
    for (const socket of http) connections.of(socket).closeIfIdle();
    for (const socket of handshaking) socket.destroy();
  };

  // Checks regularly, because node reports neither that a last response has left, nor that bytes
  // alone keep a connection open.
  const check = (): void => {
    if (connections.isDraining) closeIdle();
    const nowMillis = performance.now();
    const kept = [...http].filter(
      (socket) => !connections.of(socket).isIdle(nowMillis)
    );
    if (kept.length < http.size) destroyIdle(server, kept);
  };

  server.on("connection", (socket) =>
    track(transport === "tls" ? handshaking : http, socket)
  );
  server.on("secureConnection", (socket: Socket & { _parent?: Socket }) => {
    track(http, socket);

    // Node does not document how a TLS socket refers to the socket below it: a test on each Node
    // pins it. Without that reference no handshake is tracked any more: node closes those that
    // never complete.
    if (!socket._parent || !handshaking.delete(socket._parent))
      handshaking.clear();
  });
  server.on("listening", () => {
    const timer = setInterval(check, connections.limits.checkMillis);
    timer.unref();
    server.once("close", () => clearInterval(timer));
  });

  return {
    http,
    closeIdle,

    /**
     * Closes every connection at once.
     *
     * @returns whether each request had its whole response
     */
    destroyAll(): boolean {
      const isAnswered = [...http].every((socket) =>
        connections.of(socket).isAnswered()
      );
      for (const socket of [...http, ...handshaking]) socket.destroy();
      return isAnswered;
    }
  };
}

function track(sockets: Set<Socket>, socket: Socket): void {
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
function destroyIdle(server: Server, kept: readonly Socket[]): void {
  const methods = kept.map((socket) => socket.destroy);
  for (const socket of kept) socket.destroy = () => socket;
  Server.prototype.closeIdleConnections.call(server);
  for (const [index, socket] of kept.entries())
    socket.destroy = methods[index] ?? socket.destroy;
}
