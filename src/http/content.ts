/** What a head says of the body: expectation, media type, charset, content coding, length. */
import type { IncomingHttpHeaders } from "node:http";
import { must } from "./errors.ts";

/** Lets a body through that can be one JSON text within the limit; throws ApiError. */
export function checkContent(headers: IncomingHttpHeaders, bodyBytesMax: number): void {
  const { expect, "content-type": type, "content-encoding": coding } = headers;
  must(expect === undefined || /^100-continue$/i.test(expect), "expectation",
    "Expect must be 100-continue.");
  if (type !== "application/json") checkMediaType(type);
  must(coding === undefined || /^identity$/i.test(coding), "contentCoding",
    "Content-Encoding must be identity or absent.");
  must(Number(headers["content-length"] ?? 0) <= bodyBytesMax, "declaredSize",
    () => `The body must not exceed ${bodyBytesMax} bytes, but Content-Length does.`);
}

/** OWS ";" OWS [ token "=" ( token / quoted-string ) ] (RFC 9110, 5.6.6) */
const token = String.raw`[\w!#$%&'*+.^\`|~-]+`;
const quotedString = String.raw`"(?:[^"\\\0-\x08\n-\x1f\x7f]|\\[\t -~\x80-\xff])*"`;
const parameterForm = new RegExp(`[ \t]*;[ \t]*(?:(${token})=(${token}|${quotedString}))?`, "y");
/** media-type = type "/" subtype parameters (RFC 9110, 8.3.1), names in any case */
function checkMediaType(contentType = ""): void {
  const [essence = ""] = /^[^ \t;]*/.exec(contentType) ?? [];
  must(/^application\/json$/i.test(essence), "mediaType", "Content-Type must be application/json.");
  let isCharsetKnown = false;
  parameterForm.lastIndex = essence.length;
  while (parameterForm.lastIndex < contentType.length) {
    const found = parameterForm.exec(contentType);
    must(found !== null, "mediaType", "Content-Type's parameters must be name=value.");
    if (found[1]?.toLowerCase() !== "charset") continue;
    const charset = (found[2] ?? "").replace(/^"|"$/g, "").replace(/\\(.)/g, "$1");
    must(!isCharsetKnown && /^utf-8$/i.test(charset), "charset",
      "The charset of Content-Type must be utf-8, once, or absent.");
    isCharsetKnown = true;
  }
}
