/** The access log: which responses are logged, and under which request id. */
import { randomUUID } from "node:crypto";
import { subscribe } from "node:diagnostics_channel";
import type { IncomingMessage, Server } from "node:http";
import type { Socket } from "node:net";
import type { ResponseListener } from "../../index.ts";
import type { Log } from "../host.ts";
import type { Config } from "../settings.ts";
import type { Tokens } from "./tokens.ts";

type Peer = Partial<Pick<Socket, "remoteAddress" | "remotePort">>;

/**
 * Creates a listener that logs failed requests at a bounded rate: a flood of them must not fill a
 * disk. With `logRequests` it logs every request that has a valid token, too. Failures beyond the
 * rate are counted, and their number is logged after a second, or by `reportSkipped`.
 */
export function createAccessLog(
  log: Log,
  tokens: Tokens,
  { logRequests, failedLinesMax }: Config
) {
  // Without a subscriber Node publishes no start, so that failures alone are logged without a time.
  const startTimes = logRequests ? watchStartTimes() : undefined;
  const { mayLog, reportSkipped } = boundFailures(log, failedLinesMax);

  const onResponse: ResponseListener = (summary, socket, response) => {
    const { status, error, message, replayed, receipt } = summary;
    const request = response?.req;

    // An id that a client or a proxy has given to its request; a malformed one is ignored.
    const [clientId] =
      idForm.exec(`${request?.headers["x-request-id"] ?? ""}`) ?? [];
    if (status < 400 && !logRequests && clientId === undefined) return;

    const token = tokens.nameOf(request?.headers.authorization);
    const isCounted = status >= 400 && !(logRequests && token);
    const isLogged = isCounted ? mayLog() : logRequests;

    // A client without a valid token may send anything as an id or a path, a token too.
    const reqId = (token && clientId) ?? (isLogged ? randomUUID() : undefined);
    if (reqId !== undefined) response?.setHeader("X-Request-Id", reqId);
    if (!isLogged) return;

    const method = request?.method;
    const url = token && pathOf(request);
    const { remoteAddress, remotePort } = socket;
    const startedAt = request && startTimes?.get(request);
    const level = status < 400 ? "info" : status < 500 ? "warn" : "error";
    log(level, message ?? "request completed", {
      reqId: request && reqId,
      req: { method, url, remoteAddress, remotePort },
      res: { statusCode: status },
      responseTime: startedAt && performance.now() - startedAt,
      token,
      replayed,
      ...receipt,
      err: error && { type: "ApiError", code: error }
    });
  };
  return {
    onResponse,

    /** Logs a server's connections that get no response. */
    watch: (server: Server) =>
      watchConnections(server, (message, { remoteAddress, remotePort }) => {
        if (mayLog())
          log("warn", message, { req: { remoteAddress, remotePort } });
      }),
    reportSkipped
  };
}

/**
 * Bounds the lines for failures: so many a second. Their number beyond that is logged after the
 * second, or by `reportSkipped`.
 */
function boundFailures(log: Log, failedLinesMax: number) {
  let failed = 0;
  const reportSkipped = () => {
    const leftOut = failed - failedLinesMax;
    failed = 0;
    if (leftOut > 0)
      log("warn", "more failed requests and connections are not shown", {
        leftOut
      });
  };
  return {
    reportSkipped,

    /** Counts a failure; returns whether its line is within the rate. */
    mayLog() {
      if (failed++ === 0) setTimeout(reportSkipped, 1_000).unref();
      return failed <= failedLinesMax;
    }
  };
}

/** Reports connections over the limit, and failed TLS handshakes. */
function watchConnections(
  server: Server,
  report: (message: string, from: Peer) => void
) {
  server.on("drop", (from = {}) =>
    report(`a connection is refused: ${server.maxConnections} are open`, from)
  );
  server.on("tlsClientError", (error: Error, socket: Socket) => {
    // Without a reason of OpenSSL's the client has gone away.
    if ("reason" in error)
      report(`the TLS handshake failed: ${error.reason}`, socket);
  });
}

/** Returns when each request started, from now on, in milliseconds. */
function watchStartTimes() {
  const startTimes = new WeakMap<IncomingMessage, number>();
  subscribe("http.server.request.start", (message) => {
    const { request } = message as { readonly request: IncomingMessage };
    startTimes.set(request, performance.now());
  });
  return startTimes;
}

/** Returns the start of the path, without origin and query: these may hold secrets. */
const pathOf = (request?: IncomingMessage) =>
  request?.url?.replace(besidesPath, "").slice(0, urlCharactersMax);

const besidesPath = /^[^/?#]*:\/\/[^/?#]*|[?#].*$/gs;

/** A collector may break a longer line in two, the second of which could be forged. */
const urlCharactersMax = 256;

/** Visible ASCII: it is sent back, and logged. */
const idForm = /^[!-~]{1,128}$/;
