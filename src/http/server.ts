/** node:http, set up strictly: its limits, and our answer wherever its own has no body. */
import {
  createServer as createHttp, type Server, type ServerOptions, type ServerResponse,
} from "node:http";
import { createServer as createHttps, type ServerOptions as TlsOptions } from "node:https";
import { Socket } from "node:net";
import type { Duplex } from "node:stream";
import type { PlantService } from "../service.ts";
import { ApiError, type Cause } from "./errors.ts";
import { closeGently, hasLeft, rawReply } from "./reply.ts";

/** `drain` answers what is under way, and closes; false: after `drainMillis` requests were cut off
 * without their answer. It, `close` and `closeIdleConnections` end connections gently. */
export type DrainableServer = Server & { drain(): Promise<boolean> };
/** A server that hands every request to the service, and answers what node would not. */
export function createStrictServer(service: PlantService, tls?: TlsOptions): DrainableServer {
  const { limits } = service;
  const options: ServerOptions = {
    insecureHTTPParser: false, // also against an inherited NODE_OPTIONS
    requireHostHeader: false, // head.ts looks at it: node's own 400 has no body
    maxHeaderSize: limits.headBytesMax, connectionsCheckingInterval: limits.checkMillis,
    headersTimeout: limits.headMillis, requestTimeout: limits.requestMillis,
    keepAliveTimeout: limits.idleMillis,
  };
  const secure = { ...options, allowHalfOpen: true, handshakeTimeout: limits.headMillis };
  const server = tls ? createHttps({ ...tls, ...secure }) : createHttp(options);
  server.maxConnections = limits.connectionsMax;
  server.timeout = limits.idleMillis;
  // With TLS, a connection carries HTTP when it is secured, and then has two sockets.
  const sockets = new Set<Socket>();
  const carriers = tls ? new Set<Socket>() : sockets;
  const addTo = (set: Set<Socket>) => (socket: Socket): void =>
    void set.add(socket.once("close", () => set.delete(socket)));
  server.on("connection", addTo(carriers)).on("secureConnection", addTo(sockets));
  Object.assign(server, {
    // Who half-closes gets the answer. Node does not document this switch: a test on each holds it.
    httpAllowHalfOpen: true,
    // Node's own, which `close` calls, destroys: what the kernel has not sent yet would be lost.
    closeIdleConnections: () => {
      closeIdle(service, sockets);
      if (tls) destroyUnsecured(carriers, sockets);
    },
  });

  server.on("request", (request, response) => service.handle(request, response, false));
  server.on("checkContinue", (request, response) => service.handle(request, response, true));
  server.on("checkExpectation", (request, response) => service.handle(request, response, false));
  server.on("connect", (request, socket) => {
    // Node has taken its own listeners off: a reset, or a client that reads nothing, is ours now.
    request.socket.on("error", () => undefined);
    request.socket.on("timeout", () => onTimeout(service, request.socket));
    let error = new ApiError("connect", "CONNECT is not supported: this is no proxy.");
    try {
      service.admit(request);
    } catch (thrown) {
      // A good path is what CONNECT cannot have.
      if (thrown instanceof ApiError && thrown.status !== 404) error = thrown;
    }
    answerRaw(service, socket, error);
  });
  server.on("clientError", (error: NodeJS.ErrnoException, socket: Socket) => {
    if (sockets.has(socket)) onParserError(service, socket, error.code ?? "");
    else socket.destroy(); // it was never secured: there is nobody to answer
  });
  server.on("timeout", (socket: Socket) => onTimeout(service, socket));
  return Object.assign(server, { drain: () => drain(server, service, sockets, carriers) });
}

function drain(
  server: Server, service: PlantService, sockets: Set<Socket>, carriers: Set<Socket>,
): Promise<boolean> {
  service.draining = true;
  return new Promise((resolve) => {
    const deadline = setTimeout(() => {
      // Who is only slow to close has been answered.
      resolve([...sockets].every((socket) => isAnswered(service.connection(socket).last)));
      for (const carrier of carriers) carrier.destroy();
    }, service.limits.drainMillis);
    const again = setInterval(() => server.closeIdleConnections(), service.limits.checkMillis);
    server.close(() => {
      clearTimeout(deadline);
      clearInterval(again);
      resolve(true);
    });
  });
}

const isAnswered = (last: ServerResponse | undefined): boolean => !last || hasLeft(last);

/** Closes what has nothing under way: no whole head has come, or its answer is done with. */
function closeIdle(service: PlantService, sockets: Set<Socket>): void {
  for (const socket of sockets) {
    const connection = service.connection(socket);
    const { last, closing } = connection;
    if (closing) continue; // it closes by itself, behind its last answer
    if (!last) socket.destroy(); // nothing was ever written that could be lost
    else if (last.writableFinished) {
      connection.closing = true;
      closeGently(socket, service.limits.discardMillis);
    }
  }
}

/** Destroys who has not shaken hands yet. Nothing but its peer tells a carrier what it carries. */
function destroyUnsecured(carriers: Set<Socket>, secured: Set<Socket>): void {
  const peerOf = (socket: Socket): string => `${socket.remoteAddress} ${socket.remotePort}`;
  const peers = new Set([...secured].map(peerOf));
  for (const carrier of carriers) if (!peers.has(peerOf(carrier))) carrier.destroy();
}

/** Waiting for our answer is no idleness of theirs; not taking one is. */
function onTimeout(service: PlantService, socket: Socket): void {
  const isOurs = !isAnswered(service.connection(socket).last) && socket.writableLength === 0;
  if (isOurs) socket.setTimeout(service.limits.idleMillis);
  else socket.destroy();
}

/** Answers what is no HTTP request; every request before it keeps its own answer. */
function onParserError(service: PlantService, socket: Duplex, code: string): void {
  const connection = service.connection(socket);
  const { last, brokenAt } = connection;
  const bytesRead = socket instanceof Socket ? socket.bytesRead : 0;
  const error = new ApiError(...(parserErrors.get(code) ?? malformed));
  connection.brokenAt ??= bytesRead;
  if (code === "ECONNRESET" || code === "EPIPE") {
    socket.destroy();
  } else if (brokenAt !== undefined) {
    if (bytesRead - brokenAt > service.limits.discardBytesMax) socket.destroy();
  } else if (last && !last.req.complete) {
    // The error is in the body of this request: it is its answer, unless that has one.
    connection.closing = true;
    connection.broken = last;
    if (!last.headersSent) service.refuse(last, error);
    else if (hasLeft(last)) closeGently(socket, service.limits.discardMillis);
  } else answerRaw(service, socket, error);
}

/** Writes an answer behind all others; then closes as gently as after an early answer. */
function answerRaw(service: PlantService, socket: Duplex, error: ApiError): void {
  const connection = service.connection(socket);
  const { last, closing } = connection;
  connection.closing = true;
  const write = (): void => {
    if (closing || !socket.writable || last?.shouldKeepAlive === false) return;
    socket.write(rawReply(error));
    socket.resume();
    closeGently(socket, service.limits.discardMillis);
  };
  // Before node's own listener, which ends the connection of who has half-closed.
  if (last?.writableFinished === false) last.prependOnceListener("finish", write);
  else write();
}

type Parts = readonly [Cause, string];
const malformed: Parts = ["malformed", "This is no HTTP message as RFC 9112 defines it."];
const doubtful: Parts = ["framing", "Content-Length or Transfer-Encoding must give one length."];
const parserErrors: ReadonlyMap<string, Parts> = new Map<string, Parts>([
  ["ERR_HTTP_REQUEST_TIMEOUT", ["timeout", "The request did not arrive in time."]],
  ["HPE_HEADER_OVERFLOW", ["headBytes", "The head is over its limit."]],
  ["HPE_CHUNK_EXTENSIONS_OVERFLOW", ["chunkExtensions", "The chunk extensions are too long."]],
  ["HPE_INVALID_VERSION", ["version", "The HTTP version must be 1.0 or 1.1."]],
  ["HPE_INVALID_EOF_STATE", ["truncated", "The connection was half-closed within a request."]],
  ["HPE_INVALID_TRANSFER_ENCODING", doubtful],
  ["HPE_INVALID_CONTENT_LENGTH", doubtful], ["HPE_UNEXPECTED_CONTENT_LENGTH", doubtful],
]);
