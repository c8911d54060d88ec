/** Is it one unambiguous HTTP request? Checks the head where node:http is lenient. */
import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import type { Limits } from "../config.ts";
import { ApiError, must, type Cause } from "./errors.ts";

/**
 * Checks that a request is one unambiguous HTTP request.
 *
 * @param keepsKeys whether Idempotency-Key must not be repeated
 * @returns the target's path as sent, without the query
 * @throws ApiError 400, 431, 501 or 505
 */
export function readHead(
  request: IncomingMessage,
  limits: Limits,
  keepsKeys: boolean
) {
  const { rawHeaders, headers, httpVersion, method = "", url = "" } = request;

  // The parser also accepts "HTTP/2.0" and an HTTP/0.9 request line (RFC 9110, 2.5).
  must(httpVersion === "1.1" || httpVersion === "1.0", "version");

  checkCount(rawHeaders, limits);

  // The parser of a host application has a limit of its own. Ours applies there, too.
  const bytes =
    method.length +
    url.length +
    lineFrameBytes +
    checkFields(rawHeaders, keepsKeys);
  must(bytes <= limits.headBytesMax, "headBytes", limits.headBytesMax);

  // HTTP/1.0 does not require Host. If it is present, it must be valid (RFC 9112, 3.2).
  const host = headers.host ?? (httpVersion === "1.0" ? "-" : "");
  must(hostForm.test(host), "host");

  checkFraming(headers, httpVersion);
  return pathOf(url, method);
}

/**
 * Checks how many fields a head or a trailer has.
 *
 * @param fields names and values in turn
 * @throws ApiError 431
 */
export function checkCount(
  fields: readonly string[],
  { headFieldsMax }: Limits
) {
  must(fields.length <= 2 * headFieldsMax, "headFields", headFieldsMax);
}

/** The bytes of a head besides method, target and fields. */
const lineFrameBytes = "  HTTP/1.1\r\n\r\n".length;

/** The bytes of a field besides its name and value. */
const fieldFrameBytes = ": \r\n".length;

/** Fields that must be single: `headers` has the first, another server may read the second. */
const singletons: ReadonlyMap<string, Cause> = new Map([
  ["host", "host"],
  ["authorization", "manyCredentials"],
  ["content-type", "repeated"],
  ["content-length", "repeated"],

  // Node joins the fields `"a` and `b"` to the key `"a, b"`.
  ["idempotency-key", "repeated"]
]);

/** Checks that no singleton is repeated. Returns the bytes of all fields. */
function checkFields(rawHeaders: readonly string[], keepsKeys: boolean) {
  let bytes = 0;
  // Not a Set: a list is cheaper for a few names.
  const seen: string[] = [];

  // Names have even indexes, each followed by its value.
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = (rawHeaders[index] ?? "").toLowerCase();
    const value = rawHeaders[index + 1] ?? "";
    bytes += name.length + value.length + fieldFrameBytes;

    const cause = singletons.get(name);
    if (cause === undefined) continue;
    if (name === "idempotency-key" && !keepsKeys) continue;
    if (seen.includes(name))
      throw new ApiError(cause, cause === "repeated" ? name : undefined);
    seen.push(name);
  }
  return bytes;
}

/** reg-name, or an IPv4 address (RFC 3986, 3.2.2) */
const hostName = String.raw`(?:[\w.~!$&'()*+,;=-]|%[\da-fA-F]{2})+`;

/** IP-literal: an IPv6 address, or one of a later version (RFC 3986, 3.2.2) */
const ipv6 = String.raw`[\da-fA-F]*:[\da-fA-F:.]+`;
const ipvFuture = String.raw`v[\da-fA-F]+\.[\w.~!$&'()*+,;=:-]+`;
const ipLiteral = String.raw`\[(?:${ipv6}|${ipvFuture})\]`;

/** uri-host = IP-literal / IPv4address / reg-name (RFC 9110, 4.1) */
const authority = `(?:${hostName}|${ipLiteral})`;

/** Host = uri-host [ ":" port ] (RFC 9110, 7.2) */
const hostForm = new RegExp(`^${authority}(?::\\d*)?$`);

/** Checks that the body's length is given in one way that the version allows (RFC 9112, 6.1). */
function checkFraming(headers: IncomingHttpHeaders, version: string) {
  const { "transfer-encoding": coding, "content-length": length } = headers;
  must(
    length === undefined || (/^\d+$/.test(length) && coding === undefined),
    "framing"
  );

  if (coding === undefined) return;
  must(version !== "1.0", "framing", "HTTP/1.0 has no Transfer-Encoding");

  // The parser accepts "gzip, chunked" and passes on a body that is still encoded.
  must(coding.toLowerCase() === "chunked", "transferCoding");
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

/** Returns the target's path. "*" and CONNECT's authority give "*", which no route has. */
function pathOf(url: string, method: string) {
  if (method === "CONNECT") {
    must(authorityForm.test(url), "target");
    return "*";
  }
  if (method === "OPTIONS" && url === "*") return "*";

  const form = originForm.exec(url) ?? absoluteForm.exec(url);
  must(form !== null, "target");
  return form[1] ?? "/";
}
