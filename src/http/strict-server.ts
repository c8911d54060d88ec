/** node:http, set up strictly: its limits, and our answer wherever its own has no body. */
import { createServer as createHttp, type Server } from "node:http";
import type { IncomingMessage, ServerResponse } from "node:http";
import {
  createServer as createHttps,
  type ServerOptions as TlsOptions
} from "node:https";
import type { Socket } from "node:net";
import type { Server as TlsServer } from "node:tls";
import type { Limits } from "../config.ts";
import type { Connections } from "./connection.ts";
import { ApiError } from "./errors.ts";
import { Sockets } from "./sockets.ts";

/** What is served: all that the server knows of what becomes of a request. */
export interface Application {
  /** Of the server's connections; their limits are the server's. */
  readonly connections: Connections;

  /**
   * Takes a request, and answers it through its connection.
   *
   * @param next what the client waits for: a 100 that nobody has sent yet, or to send its body
   */
  handle(
    request: IncomingMessage,
    response: ServerResponse,
    next: "continue" | "body"
  ): void;

  /**
   * Lets the head of a request through that is to be answered as asked.
   *
   * @throws ApiError what it is answered instead
   */
  admit(request: IncomingMessage): void;
}

/**
 * Its `close` and `closeIdleConnections` end connections gently, also those whose next request
 * has not come with its whole head: node's own leave a head that has begun.
 */
export type DrainableServer = Server & {
  /**
   * Answers what is under way, and closes all connections gently.
   *
   * @returns false where, after `drainMillis`, requests were cut off without their answer
   */
  drain(): Promise<boolean>;

  /** Of an https server: what handshakes from now on use. Connections stay. */
  setSecureContext?: TlsServer["setSecureContext"];
};

/** A server that hands every request to the application, and answers what node would not. */
export function createStrictServer(
  application: Application,
  tls?: TlsOptions
): DrainableServer {
  const { connections } = application;
  const { limits } = connections;
  const options = optionsOf(limits);
  const server = tls
    ? createHttps({ ...tls, ...options })
    : createHttp(options);
  server.maxConnections = limits.connectionsMax;

  // Node's timer for bytes in either direction. Sockets closes connections that bytes alone keep.
  server.timeout = limits.idleMillis;

  const sockets = new Sockets(server, connections, tls ? "tls" : "plain");
  listenTo(server, application, sockets);

  const drain = (): Promise<boolean> =>
    new Promise((resolve) => {
      connections.isDraining = true;

      // A client that is merely slow to close has already received its response.
      const deadline = setTimeout(
        () => resolve(sockets.destroyAll()),
        limits.drainMillis
      );
      server.close(() => {
        clearTimeout(deadline);
        resolve(true);
      });
    });

  let drained: Promise<boolean> | undefined;
  return Object.assign(server, {
    // Responds to clients that half-close. Node does not document this switch: a test on each Node
    // pins it.
    httpAllowHalfOpen: true,

    // Replaces node's own, which `close` calls: it destroys, and bytes that the kernel has not sent
    // yet would be lost.
    closeIdleConnections: () => sockets.closeIdle(),

    // A later call returns the first drain's promise.
    drain: () => (drained ??= drain())
  });
}

/** Of either server, and of the admin listener: node:http has no use for the last two. */
export const optionsOf = (limits: Limits): TlsOptions => ({
  // Also against an inherited NODE_OPTIONS.
  insecureHTTPParser: false,

  // head.ts looks at it: node's own 400 has no body.
  requireHostHeader: false,

  maxHeaderSize: limits.headBytesMax,
  headersTimeout: limits.headMillis,
  requestTimeout: limits.requestMillis,
  keepAliveTimeout: limits.idleMillis,
  connectionsCheckingInterval: limits.checkMillis,

  // Who half-closes gets the answer: node:https would end the connection then.
  allowHalfOpen: true,

  // A connection counts from its first byte: node's own limit is two minutes.
  handshakeTimeout: limits.headMillis
});

function listenTo(
  server: Server,
  application: Application,
  sockets: Sockets
): void {
  const { connections } = application;

  server.on("request", (request, response) =>
    application.handle(request, response, "body")
  );

  // Unheard, node would answer these two by itself: 100 before our checks, a 417 without a body.
  server.on("checkContinue", (request, response) =>
    application.handle(request, response, "continue")
  );
  server.on("checkExpectation", (request, response) =>
    application.handle(request, response, "body")
  );

  // Unheard, node would close the connection without a word.
  server.on("connect", (request) =>
    connections
      .of(request.socket)
      .refuseConnect(connectError(application, request))
  );

  server.on("clientError", (error: NodeJS.ErrnoException, socket: Socket) => {
    if (sockets.carriesHttp(socket))
      connections.of(socket).onParserError(error.code ?? "");
    // It was never secured: there is nobody to answer.
    else socket.destroy();
  });

  // Unheard, node would destroy it, whoever is waited for.
  server.on("timeout", (socket: Socket) => connections.of(socket).onTimeout());
}

/** CONNECT is refused like every request, but a good path is what it cannot have. */
function connectError(
  application: Application,
  request: IncomingMessage
): ApiError {
  try {
    application.admit(request);
  } catch (thrown) {
    if (thrown instanceof ApiError && thrown.status !== 404) return thrown;
  }
  return new ApiError("connect", "CONNECT is not supported: this is no proxy.");
}
