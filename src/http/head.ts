/** Is it one unambiguous HTTP request? The checks on the head that node:http leaves out. */
import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import type { Limits } from "../config.ts";
import { must, type Cause } from "./errors.ts";

/**
 * The path as sent, without the query, of what is one unambiguous request.
 *
 * @throws ApiError 400, 431, 501 or 505: no plant is stored by any other request
 */
export function readHead(request: IncomingMessage, limits: Limits): string {
  const { rawHeaders, headers, httpVersion, method = "", url = "" } = request;

  // The parser serves "HTTP/2.0" and an HTTP/0.9 request line, too (RFC 9110, 2.5).
  must(
    httpVersion === "1.1" || httpVersion === "1.0",
    "version",
    "The HTTP version must be 1.0 or 1.1."
  );

  must(
    rawHeaders.length <= 2 * limits.headFieldsMax,
    "headFields",
    "The head must not have over % fields.",
    limits.headFieldsMax
  );

  // Embedded, the parser is the host's, with a limit of its own: ours holds there, too.
  const bytes =
    method.length + url.length + lineFrameBytes + checkFields(rawHeaders);
  must(
    bytes <= limits.headBytesMax,
    "headBytes",
    "The head must not exceed % bytes.",
    limits.headBytesMax
  );

  // HTTP/1.0 knows no Host; where one is sent, it must be valid all the same (RFC 9112, 3.2).
  const host = headers.host ?? (httpVersion === "1.0" ? "-" : "");
  must(
    hostForm.test(host),
    "host",
    "Host must be one name or address, with a port or without."
  );

  checkFraming(headers, httpVersion);
  return pathOf(url, method);
}

/**
 * Lets a trailer through that has no more fields than a head may have; it is ignored otherwise.
 *
 * @throws ApiError 431
 */
export function checkTrailer(
  { rawTrailers }: IncomingMessage,
  limits: Limits
): void {
  must(
    rawTrailers.length <= 2 * limits.headFieldsMax,
    "headFields",
    "The trailer must not have over % fields.",
    limits.headFieldsMax
  );
}

/** What a head has besides method, target and fields: spaces, version, CRLF, the empty line. */
const lineFrameBytes = "  HTTP/1.1\r\n\r\n".length;

/** What a field has besides its name and its value. */
const fieldFrameBytes = ": \r\n".length;

/** What must not be repeated: of two, `headers` shows the first, and another server the second. */
const singletons: ReadonlyMap<string, Cause> = new Map([
  ["host", "host"],
  ["authorization", "manyCredentials"],
  ["content-type", "repeated"],
  ["content-length", "repeated"]
]);

/** The bytes of all fields, none of which stands twice that must stand once. */
function checkFields(rawHeaders: readonly string[]): number {
  let bytes = 0;
  // A text and no Set: nothing is made for a request that is as it should be.
  let seen = "";

  // Names stand at even places, each with its value behind it.
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = (rawHeaders[index] ?? "").toLowerCase();
    const value = rawHeaders[index + 1] ?? "";
    bytes += name.length + value.length + fieldFrameBytes;

    const cause = singletons.get(name);
    if (cause === undefined) continue;
    must(
      !seen.includes(name),
      cause,
      "The field % must not stand twice.",
      name
    );
    seen += name;
  }
  return bytes;
}

/** uri-host: a name, an IPv4 address, or an IP literal in brackets (RFC 3986, 3.2.2) */
const authority = String.raw`(?:[\w.~!$&'()*+,;=%-]+|\[[\da-fA-Fv:.]+\])`;

/** Host = uri-host [ ":" port ] (RFC 9110, 7.2) */
const hostForm = new RegExp(`^${authority}(?::\\d*)?$`);

/** Refuses a length given in two ways, or in one that HTTP/1.0 does not know (RFC 9112, 6.1). */
function checkFraming(headers: IncomingHttpHeaders, version: string): void {
  const { "transfer-encoding": coding, "content-length": length } = headers;
  const isLength =
    length === undefined || (/^\d+$/.test(length) && coding === undefined);
  must(
    isLength,
    "framing",
    "Content-Length must be one number, and not beside Transfer-Encoding."
  );

  if (coding === undefined) return;
  must(
    version !== "1.0",
    "framing",
    "Transfer-Encoding must not stand in an HTTP/1.0 request."
  );

  // The parser takes "gzip, chunked", and hands on a body that nobody has decoded.
  must(
    /^chunked$/i.test(coding),
    "transferCoding",
    "Transfer-Encoding must be one chunked."
  );
}

/** absolute-path, of visible ASCII without "#" and "?" (RFC 9110, 4.1) */
const path = String.raw`(\/[!"$->@-~]*)`;
const query = String.raw`(?:\?[!"$-~]*)?`;

/** origin-form = absolute-path [ "?" query ] (RFC 9112, 3.2.1) */
const originForm = new RegExp(`^${path}${query}$`);

/** absolute-form = absolute-URI (RFC 9112, 3.2.2); an empty path is "/" */
const absoluteForm = new RegExp(
  `^https?://${authority}(?::\\d*)?${path}?${query}$`,
  "i"
);

/** authority-form = uri-host ":" port, of CONNECT alone (RFC 9112, 3.2.3) */
const authorityForm = new RegExp(`^${authority}:\\d+$`);

/** The target's path; "*" and CONNECT's authority are a path that nothing has. */
function pathOf(url: string, method: string): string {
  const isConnect = method === "CONNECT";
  const isPathless = isConnect
    ? authorityForm.test(url)
    : method === "OPTIONS" && url === "*";
  if (isPathless) return "*";

  const form = isConnect
    ? null
    : (originForm.exec(url) ?? absoluteForm.exec(url));
  must(
    form !== null,
    "target",
    "The target must be a path or an http URI, without a fragment."
  );
  return form[1] ?? "/";
}
