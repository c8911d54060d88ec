/** Checks what a head says about the body: Expect, media type, charset, content coding, length. */
import type { IncomingHttpHeaders } from "node:http";
import { must } from "./errors.ts";

/** @throws ApiError 417 unless Expect is absent, empty, or 100-continue */
export function checkExpect({ expect = "" }: IncomingHttpHeaders) {
  must(/^(?:100-continue)?$/i.test(expect), "expectation");
}

/**
 * Checks that the body can be one JSON text within the limit.
 *
 * @throws ApiError 415, 413 or 400, in this order
 */
export function checkContent(
  headers: IncomingHttpHeaders,
  bodyBytesMax: number
) {
  const {
    "content-type": contentType,
    "content-encoding": contentCoding = "identity",
    "content-length": length,
    "transfer-encoding": transferCoding
  } = headers;

  // Nearly every client writes it this way: there is nothing to parse then.
  if (contentType !== "application/json") checkMediaType(contentType);

  must(contentCoding.toLowerCase() === "identity", "contentCoding");
  must(!(Number(length) > bodyBytesMax), "declaredSize", bodyBytesMax);
  must(Number(length) > 0 || transferCoding !== undefined, "empty");
}

const token = String.raw`[\w!#$%&'*+.^\`|~-]+`;
const quotedString = String.raw`"(?:[^"\\\0-\x08\n-\x1f\x7f]|\\[\t -~\x80-\xff])*"`;

/** OWS ";" OWS [ token "=" ( token / quoted-string ) ] (RFC 9110, 5.6.6) */
const parameterForm = new RegExp(
  `[ \t]*;[ \t]*(?:(${token})=(${token}|${quotedString}))?`,
  "y"
);

/** media-type = type "/" subtype parameters (RFC 9110, 8.3.1), names in any case */
function checkMediaType(contentType = "") {
  const essence = contentType.replace(/[ \t;].*/, "");
  must(essence.toLowerCase() === "application/json", "mediaType");

  // JSON is UTF-8 (RFC 8259, 8.1). A client that declares another charset, or two, may have sent
  // other bytes.
  let isCharsetKnown = false;
  parameterForm.lastIndex = essence.length;
  while (parameterForm.lastIndex < contentType.length) {
    const parameter = parameterForm.exec(contentType);
    must(
      parameter !== null,
      "mediaType",
      "expected its parameters as name=value"
    );
    if (parameter[1]?.toLowerCase() !== "charset") continue;

    // The value of a token or a quoted-string (RFC 9110, 5.6.4).
    const charset = (parameter[2] ?? "")
      .replace(/^"|"$/g, "")
      .replace(/\\(.)/g, "$1");
    must(!isCharsetKnown && charset.toLowerCase() === "utf-8", "charset");
    isCharsetKnown = true;
  }
}
