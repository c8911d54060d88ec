/** Sets node:http up strictly: its limits, and our responses where its own have no body. */
import {
  createServer as createHttp,
  IncomingMessage,
  type Server,
  type ServerResponse
} from "node:http";
import {
  createServer as createHttps,
  type ServerOptions as TlsOptions
} from "node:https";
import type { Socket } from "node:net";
import type { Server as TlsServer } from "node:tls";
import type { Limits } from "../config.ts";
import { hasLastResponse, type Connections } from "./connection.ts";
import { codeOf } from "../failure.ts";
import { trackSockets } from "./sockets.ts";

/** The application, as far as the server needs it. */
export interface Application {
  /** The server's connections. Their limits are the server's. */
  readonly connections: Connections;

  /**
   * Responds to a request through its connection.
   *
   * @param next `continue` if the client waits for `100 Continue` before it sends the body
   */
  readonly handle: (
    request: IncomingMessage,
    response: ServerResponse,
    next?: "continue"
  ) => void;

  /** Responds to a CONNECT through its connection. Node makes no ServerResponse for it. */
  readonly refuseConnect: (request: IncomingMessage) => void;
}

/**
 * A node:http or node:https server. Its `close` and `closeIdleConnections` close connections
 * gently, also those on which a head has begun to arrive: node's own leave these open.
 */
export type DrainableServer = Server & {
  /**
   * Responds to every request in progress, and closes all connections gently. A later call returns
   * the first drain's promise, and a later `listen` throws.
   *
   * @returns false if requests were cut off without a response after `drainMillis`
   */
  drain(): Promise<boolean>;

  /** With TLS: replaces what handshakes use from now on. Connections stay. */
  setSecureContext?: TlsServer["setSecureContext"];
};

/** Returns a server that passes every request to the application. */
export function createStrictServer(
  { connections, handle, refuseConnect }: Application,
  tls?: TlsOptions
): DrainableServer {
  const { limits } = connections;
  const options = optionsOf(limits);
  const server = tls ? createSecure(tls, options) : createHttp(options);
  server.maxConnections = limits.connectionsMax;
  server.timeout = limits.idleMillis;
  const event = tls ? "secureConnection" : "connection";
  const sockets = trackSockets(server, connections, event);

  server.on("request", handle);

  // Without these, node sends 100 before our checks, and a 417 without a body.
  server.on("checkContinue", (request, response) =>
    handle(request, response, "continue")
  );
  server.on("checkExpectation", handle);

  // Without this, node closes the connection without a response.
  server.on("connect", (request, stream) => {
    // Node has removed its own listener, and without one a reset would be an uncaught exception.
    // From Node 26 on, this stream is not the socket while the request's body is incomplete.
    stream.on("error", () => undefined);
    refuseConnect(request);
  });

  let drained: Promise<boolean> | undefined;
  const drain = () =>
    (drained ??= new Promise((resolve) => {
      connections.isDraining = true;
      server.listen = () => {
        throw new Error("a server that was drained cannot listen again");
      };

      // Node does not report that a last response has left.
      const check = setInterval(sockets.closeIdle, limits.checkMillis);

      // A client that is merely slow to close has already received its response.
      const deadline = setTimeout(
        () => resolve(sockets.destroyAll()),
        limits.drainMillis
      );
      server.close(() => {
        clearInterval(check);
        clearTimeout(deadline);
        resolve(true);
      });
    }));

  return Object.assign(server, {
    // Responds to clients that half-close. Node does not document this switch: a test on each Node
    // pins it.
    httpAllowHalfOpen: true,

    // Replaces node's own, which `close` calls. Node's destroys the sockets: clients would lose
    // bytes that the kernel has not sent yet.
    closeIdleConnections: sockets.closeIdle,

    drain
  });
}

/** @throws TypeError that names `tls`: OpenSSL's own messages do not */
function createSecure(tls: TlsOptions, options: TlsOptions) {
  try {
    return withoutSecrets(createHttps({ ...withVersions(tls), ...options }));
  } catch (error) {
    throw tlsRefusal(error);
  }
}

/** Returns an error without OpenSSL's text and without a cause that shows it. */
function tlsRefusal(error: unknown) {
  const code = String(codeOf(error) ?? "without a code");
  return new TypeError(`tls has options that node refuses: ${code}`);
}

/** Refuses TLS before 1.2, unless the embedder chooses: an inherited NODE_OPTIONS may allow it. */
const withVersions = (tls: TlsOptions): TlsOptions =>
  tls.secureProtocol === undefined
    ? { ...tls, minVersion: tls.minVersion ?? "TLSv1.2" }
    : tls;

/**
 * A request whose head has arrived. After a last response it looks to node like a CONNECT.
 *
 * Node parses up to 64 KiB in one go. For each request in it, which may have 18 bytes, it would keep
 * a request and a response object until the socket closes. For a CONNECT it makes no response
 * object, and up to Node 24 it stops parsing. From Node 26 on it goes on, but keeps none of them. A
 * test on each Node pins that.
 */
class StrictMessage extends IncomingMessage {
  // Bun passes other arguments, and more of them, than node's types name.
  constructor(...given: [Socket]) {
    super(...given);
    if (hasLastResponse(this.socket)) Object.defineProperties(this, asConnect);
  }
}

/** Node assigns to both what its parser has found. */
const asConnect: PropertyDescriptorMap = {
  method: { get: () => "CONNECT", set: () => undefined },
  upgrade: { get: () => true, set: () => undefined }
};

/** Returns the options of the server and of the admin listener. node:http ignores the last one. */
export const optionsOf = (limits: Limits): TlsOptions => ({
  IncomingMessage: StrictMessage,

  // Also overrules an inherited NODE_OPTIONS.
  insecureHTTPParser: false,

  // Node's own 400 has no body. head.ts checks Host.
  requireHostHeader: false,

  maxHeaderSize: limits.headBytesMax,

  // Node refuses one above the next.
  headersTimeout: Math.min(limits.headMillis, limits.requestMillis),
  requestTimeout: limits.requestMillis,
  keepAliveTimeout: limits.idleMillis,
  connectionsCheckingInterval: limits.checkMillis,

  // Node's default is two minutes.
  handshakeTimeout: limits.headMillis
});

/**
 * Deletes the secrets that node leaves on a server, now and after setSecureContext: logging the
 * server would show them. Node does not read them again.
 */
function withoutSecrets<Secured extends TlsServer>(server: Secured) {
  const { setSecureContext } = server;
  const deleteSecrets = () => {
    for (const name of ["key", "passphrase", "pfx", "ticketKeys"])
      Reflect.deleteProperty(server, name);
  };
  server.setSecureContext = (options) => {
    setSecureContext.call(server, withVersions(options));
    deleteSecrets();
  };
  deleteSecrets();
  return server;
}
