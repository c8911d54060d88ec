/** node:http, set up strictly: its limits, and our answer wherever its own has no body. */
import { createServer as createHttpServer } from "node:http";
import type { Server, ServerOptions } from "node:http";
import { createServer as createHttpsServer } from "node:https";
import type { ServerOptions as TlsOptions } from "node:https";
import { connect } from "node:net";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import type { Limits } from "../config.ts";
import type { PlantService } from "../service.ts";
import { ApiError } from "./errors.ts";
import type { Cause } from "./errors.ts";
import { rawReply } from "./reply.ts";

export interface DrainableServer extends Server {
  /**
   * Ends in order: no new connection, an answer to every request under way, then closed.
   * Resolves to false when `drainMillis` passed before that, and the rest was cut off.
   */
  drain(): Promise<boolean>;
}

/** A server that hands every request to the service, and answers what node would not. */
export function createStrictServer(
  service: PlantService, limits: Limits, tls: TlsOptions | undefined,
): DrainableServer {
  const options: ServerOptions = {
    // Also against an inherited NODE_OPTIONS=--insecure-http-parser.
    insecureHTTPParser: false,
    // Ours is checked in head.ts: node's own 400 has no body.
    requireHostHeader: false,
    maxHeaderSize: limits.headBytesMax,
    headersTimeout: limits.headMillis,
    requestTimeout: limits.requestMillis,
    keepAliveTimeout: limits.idleMillis,
    connectionsCheckingInterval: limits.checkMillis,
    noDelay: true,
  };
  const server = tls ? createHttpsServer({ ...tls, ...options }) : createHttpServer(options);
  // 0: every field is shown. Fields past a number would vanish, and the parser obey them still.
  server.maxHeadersCount = 0;
  server.maxConnections = limits.connectionsMax;
  server.timeout = limits.idleMillis;
  // A client that half-closes after its request gets its answer. Node has had this switch
  // since 0.6, but does not document it; a test on every version holds it.
  Object.assign(server, { httpAllowHalfOpen: true });

  const sockets = new Set<Duplex>();
  const remember = (socket: Duplex): void => {
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
  };
  server.on(tls ? "secureConnection" : "connection", remember);
  server.on("request", (request, response) => service.handle(request, response, false));
  server.on("checkContinue", (request, response) => service.handle(request, response, true));
  server.on("checkExpectation", (request, response) => service.handle(request, response, false));
  server.on("connect", (request, socket) => {
    let error = new ApiError("connect", "CONNECT is not supported: this is no proxy.");
    try {
      service.admit(request);
    } catch (thrown) {
      // A path or a method is what CONNECT cannot have right.
      if (thrown instanceof ApiError && ![404, 405].includes(thrown.status)) error = thrown;
    }
    answerRaw(service, socket, error, limits);
  });
  server.on("clientError", (error: NodeJS.ErrnoException, socket) => {
    onParserError(service, socket, parserError(error.code), limits);
  });
  server.on("timeout", (socket: Socket) => {
    const { last } = service.connections.of(socket);
    // Waiting for our answer is no idleness of theirs; not taking it is.
    if (last && !last.headersSent) socket.setTimeout(limits.idleMillis);
    else socket.destroy();
  });
  return Object.assign(server, { drain: () => drain(server, service, sockets, limits) });
}

/** Frees the path of a Unix socket that no process listens on any more, as after kill -9. */
export function isSocketAbandoned(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = connect(path, () => {
      probe.destroy();
      resolve(false);
    });
    probe.once("error", (error: NodeJS.ErrnoException) => resolve(error.code === "ECONNREFUSED"));
  });
}

function drain(
  server: Server, service: PlantService, sockets: ReadonlySet<Duplex>, limits: Limits,
): Promise<boolean> {
  service.draining = true;
  return new Promise((resolve) => {
    const deadline = setTimeout(() => {
      resolve(false);
      server.closeAllConnections();
      for (const socket of sockets) socket.destroy();
    }, limits.drainMillis);
    server.close(() => {
      clearTimeout(deadline);
      resolve(true);
    });
    server.closeIdleConnections();
    // Node 20 leaves those open that never sent a byte.
    for (const socket of sockets) {
      if ("bytesRead" in socket && socket.bytesRead === 0) socket.destroy();
    }
  });
}

/** Answers what is no HTTP request; every request before it keeps its own answer. */
function onParserError(
  service: PlantService, socket: Duplex, error: ApiError | undefined, limits: Limits,
): void {
  const { last, closing } = service.connections.of(socket);
  if (!error || !socket.writable) {
    socket.destroy();
  } else if (last && !last.req.complete && !socket.destroyed) {
    // The error is in the body of this request: it is its answer, unless it has one.
    if (last.headersSent) socket.destroy();
    else service.refuse(last, error);
  } else if (!closing) {
    answerRaw(service, socket, error, limits);
  }
}

/** Writes an answer behind all others, then closes as gently as after an early answer. */
function answerRaw(
  service: PlantService, socket: Duplex, error: ApiError, limits: Limits,
): void {
  const connection = service.connections.of(socket);
  connection.closing = true;
  const write = (): void => {
    if (!socket.writable) return;
    socket.end(rawReply(error));
    socket.resume();
    setTimeout(() => socket.destroy(), limits.discardMillis).unref();
  };
  const { last } = connection;
  if (last && !last.writableFinished) last.once("finish", write);
  else write();
}

/** What an error of node's parser means; undefined where nobody is left to be answered. */
function parserError(code: string | undefined): ApiError | undefined {
  const [cause, message] = parserErrors.get(code ?? "") ?? parserErrors.get("") ?? [];
  return cause && message ? new ApiError(cause, message) : undefined;
}

const parserErrors: ReadonlyMap<string, readonly [Cause, string] | readonly []> = new Map([
  ["ECONNRESET", []],
  ["EPIPE", []],
  ["ERR_HTTP_REQUEST_TIMEOUT", ["timeout", "The request did not arrive in time."]],
  ["HPE_HEADER_OVERFLOW", ["headBytes", "The header section is over its limit."]],
  ["HPE_CHUNK_EXTENSIONS_OVERFLOW", ["chunkExtensions", "The chunk extensions are too long."]],
  ["HPE_INVALID_VERSION", ["version", "The HTTP version must be 1.0 or 1.1."]],
  ["HPE_INVALID_EOF_STATE", ["truncated", "The connection was half-closed within a request."]],
  ["HPE_INVALID_TRANSFER_ENCODING", ["transferCoding", "Transfer-Encoding must be one chunked."]],
  ["", ["malformed", "This is no HTTP message as RFC 9112 defines it."]],
]);
