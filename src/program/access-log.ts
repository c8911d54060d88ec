/** What is logged of requests, and under which id. */
import { randomUUID } from "node:crypto";
import { subscribe } from "node:diagnostics_channel";
import type { IncomingMessage } from "node:http";
import type { ResponseListener } from "../index.ts";
import type { Log } from "./log.ts";
import type { Config } from "./settings.ts";
import type { Tokens } from "./tokens.ts";

/** A listener that logs all answers, or the failed ones at a bounded rate: a flood of them must not
 * fill a disk. What a second has beyond that is told at its end, or when it is asked for. */
export function makeRequestLog(
  log: Log,
  tokens: Tokens,
  { logRequests, failedLinesMax }: Config
) {
  let failed = 0;

  const tellLeftOut = (): void => {
    const leftOut = failed - failedLinesMax;
    failed = 0;
    if (leftOut > 0)
      log("warn", `${leftOut} more failed requests are not shown`, { leftOut });
  };

  // Unheard, a request costs nothing: so what is logged of the failed alone has no duration.
  const begun = new WeakMap<IncomingMessage, number>();
  if (logRequests)
    subscribe("http.server.request.start", (message) => {
      begun.set(
        (message as { readonly request: IncomingMessage }).request,
        performance.now()
      );
    });

  const onResponse: ResponseListener = (
    { status, error, message },
    socket,
    response
  ) => {
    const request = response?.req;
    const isCounted = status >= 400 && !logRequests;
    if (isCounted && failed++ === 0) setTimeout(tellLeftOut, 1_000).unref();
    const isLogged = isCounted ? failed <= failedLinesMax : logRequests;
    const reqId =
      request && (givenId(request) ?? (isLogged ? randomUUID() : undefined));
    if (reqId !== undefined) response?.setHeader("X-Request-Id", reqId);
    if (!isLogged) return;

    // What a stranger sends as a path may be anything, a token too; so may origin and query.
    const token = tokens.nameOf(request?.headers.authorization);
    const url =
      token &&
      request?.url?.replace(besidesPath, "").slice(0, urlCharactersMax);
    const { remoteAddress, remotePort } = socket;
    const start = request && begun.get(request);

    const words = [
      request?.method,
      url,
      status,
      token && `by ${token}`,
      message
    ];
    log(
      status < 400 ? "info" : status < 500 ? "warn" : "error",
      words.filter(Boolean).join(" "),
      {
        reqId,
        req: { method: request?.method, url, remoteAddress, remotePort },
        res: { statusCode: status },
        responseTime: start && performance.now() - start,
        token,
        err: error && { type: "ApiError", code: error, message }
      }
    );
  };
  return { onResponse, tellLeftOut };
}

const besidesPath = /^[^/?#]*:\/\/[^/?#]*|[?#].*$/gs;
const urlCharactersMax = 256;

/** Visible ASCII: it is sent back, and logged. */
const idForm = /^[!-~]{1,128}$/;

/** Any version but ff; 00 has nothing behind its flags (W3C Trace Context, 3.2). */
const traceForm =
  /^(?!ff|00.{54})[\da-f]{2}-(?!0{32})([\da-f]{32})-(?!0{16})[\da-f]{16}-[\da-f]{2}(?:-|$)/;

/** The id that a client or a proxy has given its request; what is not well-formed is none. */
function givenId({ headers }: IncomingMessage): string | undefined {
  const { "x-request-id": id, traceparent } = headers;
  if (typeof id === "string" && idForm.test(id)) return id;
  return typeof traceparent === "string"
    ? traceForm.exec(traceparent)?.[1]
    : undefined;
}
