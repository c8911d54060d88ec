/**
 * Is it one unambiguous HTTP request? The checks on the head that node:http leaves out.
 *
 * `rawHeaders` alone shows every field: in `headers` the first of two wins, or they are joined.
 */
import type { IncomingMessage } from "node:http";
import type { Limits } from "../config.ts";
import { ApiError } from "./errors.ts";

/** What the service needs of a head; a field that is not there is undefined. */
export interface Head {
  /** As sent, without the query. */
  readonly path: string;
  readonly authorization: string | undefined;
  readonly contentType: string | undefined;
  readonly contentLength: number | undefined;
  readonly contentCoding: string | undefined;
  readonly expectation: string | undefined;
}

/** @throws ApiError 400, 431, 501 or 505: no plant is stored by such a request */
export function readHead(request: IncomingMessage, limits: Limits): Head {
  const { rawHeaders, httpVersion, method = "", url = "" } = request;
  if (httpVersion !== "1.1" && httpVersion !== "1.0") {
    throw new ApiError("version", "The HTTP version must be 1.0 or 1.1.");
  }
  if (rawHeaders.length > 2 * limits.headFieldsMax) {
    throw new ApiError("headFields", `The request has over ${limits.headFieldsMax} header fields.`);
  }
  // The line's two spaces and CRLF, "HTTP/1.1", and the empty line at the end.
  let bytes = method.length + url.length + 14;
  let host: string | undefined;
  let authorization: string | undefined;
  let contentType: string | undefined;
  let contentLength: string | undefined;
  let contentCoding: string | undefined;
  let transferCoding: string | undefined;
  let expectation: string | undefined;
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index] ?? "";
    const value = rawHeaders[index + 1] ?? "";
    bytes += name.length + value.length + 4;
    switch (name.toLowerCase()) {
      case "host": host = once("host", "Host", host, value); break;
      case "authorization":
        authorization = once("manyCredentials", "Authorization", authorization, value); break;
      case "content-type":
        contentType = once("repeated", "Content-Type", contentType, value); break;
      case "content-length":
        contentLength = once("repeated", "Content-Length", contentLength, value); break;
      case "content-encoding": contentCoding = joined(contentCoding, value); break;
      case "transfer-encoding": transferCoding = joined(transferCoding, value); break;
      case "expect": expectation = joined(expectation, value); break;
    }
  }
  if (bytes > limits.headBytesMax) {
    throw new ApiError("headBytes", `The header section is over ${limits.headBytesMax} bytes.`);
  }
  checkHost(host, httpVersion);
  checkFraming(transferCoding, contentLength, httpVersion);
  return {
    path: pathOf(url, method),
    authorization,
    contentType,
    contentLength: contentLength === undefined ? undefined : Number(contentLength),
    contentCoding,
    expectation,
  };
}

function once(
  cause: "host" | "repeated" | "manyCredentials", name: string, known: string | undefined,
  value: string,
): string {
  if (known !== undefined) throw new ApiError(cause, `${name} must stand once, but stands twice.`);
  return value;
}

const joined = (known: string | undefined, value: string): string =>
  known === undefined ? value : `${known}, ${value}`;

/** Host = uri-host [ ":" port ] (RFC 9110, 7.2); one in HTTP/1.1, one at most in 1.0 (9112, 3.2) */
const hostForm = /^(?:[\w.~!$&'()*+,;=%-]+|\[[\da-fA-Fv:.]+\])(?::\d*)?$/;

function checkHost(host: string | undefined, httpVersion: string): void {
  if (host === undefined && httpVersion === "1.0") return;
  if (host === undefined) throw new ApiError("host", "Host must be present in HTTP/1.1.");
  if (!hostForm.test(host)) {
    throw new ApiError("host", "Host must be a name or an address, with a port or without.");
  }
}

/** RFC 9112, 6.1: a length given in two ways, or in a way that HTTP/1.0 does not know. */
function checkFraming(
  transferCoding: string | undefined, contentLength: string | undefined, httpVersion: string,
): void {
  if (transferCoding !== undefined) {
    if (httpVersion === "1.0") {
      throw new ApiError("framing", "Transfer-Encoding must not stand in an HTTP/1.0 request.");
    }
    if (contentLength !== undefined) {
      throw new ApiError("framing", "Content-Length must not stand beside Transfer-Encoding.");
    }
    if (transferCoding.toLowerCase() !== "chunked") {
      throw new ApiError("transferCoding", "Transfer-Encoding must be one chunked.");
    }
  } else if (contentLength !== undefined && !/^\d{1,15}$/.test(contentLength)) {
    throw new ApiError("framing", "Content-Length must be one number of at most 15 digits.");
  }
}

/** origin-form = absolute-path [ "?" query ] (RFC 9112, 3.2.1) */
const originForm = /^(\/[!"$->@-~]*)(?:\?[!"$-~]*)?$/;
/** absolute-form = absolute-URI (RFC 9112, 3.2.2); its path may be empty: that is "/" */
const absoluteForm = /^https?:\/\/(?:[\w.~!$&'()*+,;=%-]+|\[[\da-fA-Fv:.]+\])(?::\d*)?(\/[!"$->@-~]*)?(?:\?[!"$-~]*)?$/i;
/** authority-form = uri-host ":" port, of CONNECT alone (RFC 9112, 3.2.3) */
const authorityForm = /^(?:[\w.~!$&'()*+,;=%-]+|\[[\da-fA-Fv:.]+\]):\d+$/;

/** The path in one of the four forms; "*" and CONNECT's authority are a path that nothing has. */
function pathOf(url: string, method: string): string {
  const isOther = method === "CONNECT" ? authorityForm.test(url)
    : method === "OPTIONS" && url === "*";
  if (isOther) return "*";
  const origin = originForm.exec(url);
  if (method !== "CONNECT") {
    if (origin) return origin[1] ?? "/";
    const absolute = absoluteForm.exec(url);
    if (absolute) return absolute[1] ?? "/";
  }
  throw new ApiError("target", "The request target must be a path or an http URI, no fragment.");
}
