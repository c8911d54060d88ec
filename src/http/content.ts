/** What a head says of the body: expectation, media type, charset, content coding, length. */
import type { IncomingHttpHeaders } from "node:http";
import { must } from "./errors.ts";

/**
 * Lets a body through that can be one JSON text within the limit.
 *
 * @throws ApiError 417, 415 or 413, in this order, and before `100 Continue` is sent
 */
export function checkContent(
  headers: IncomingHttpHeaders,
  bodyBytesMax: number
): void {
  const {
    expect,
    "content-type": contentType,
    "content-encoding": contentCoding
  } = headers;

  must(
    expect === undefined || /^100-continue$/i.test(expect),
    "expectation",
    "Expect must be 100-continue."
  );

  // Nearly every client writes it so: then there is nothing to parse.
  if (contentType !== "application/json") checkMediaType(contentType);

  must(
    contentCoding === undefined || /^identity$/i.test(contentCoding),
    "contentCoding",
    "Content-Encoding must be identity or absent, but is %.",
    shown(contentCoding)
  );

  must(
    Number(headers["content-length"] ?? 0) <= bodyBytesMax,
    "declaredSize",
    "The body must not exceed % bytes, but Content-Length does.",
    bodyBytesMax
  );
}

const token = String.raw`[\w!#$%&'*+.^\`|~-]+`;
const quotedString = String.raw`"(?:[^"\\\0-\x08\n-\x1f\x7f]|\\[\t -~\x80-\xff])*"`;

/** OWS ";" OWS [ token "=" ( token / quoted-string ) ] (RFC 9110, 5.6.6) */
const parameterForm = new RegExp(
  `[ \t]*;[ \t]*(?:(${token})=(${token}|${quotedString}))?`,
  "y"
);

/** media-type = type "/" subtype parameters (RFC 9110, 8.3.1), names in any case */
function checkMediaType(contentType = ""): void {
  const [essence = ""] = /^[^ \t;]*/.exec(contentType) ?? [];
  must(
    /^application\/json$/i.test(essence),
    "mediaType",
    "Content-Type must be application/json, but is %.",
    shown(essence)
  );

  // JSON is UTF-8 (RFC 8259, 8.1): who says otherwise, or says it twice, may mean other bytes.
  let isCharsetKnown = false;
  parameterForm.lastIndex = essence.length;
  while (parameterForm.lastIndex < contentType.length) {
    const parameter = parameterForm.exec(contentType);
    must(
      parameter !== null,
      "mediaType",
      "Content-Type's parameters must be name=value."
    );
    if (parameter[1]?.toLowerCase() !== "charset") continue;

    const charset = unquoted(parameter[2] ?? "");
    must(
      !isCharsetKnown && /^utf-8$/i.test(charset),
      "charset",
      "The charset of Content-Type must be utf-8, once, or absent, but is %.",
      isCharsetKnown ? "repeated" : shown(charset)
    );
    isCharsetKnown = true;
  }
}

/** What a token or a quoted-string stands for (RFC 9110, 5.6.4). */
const unquoted = (text: string): string =>
  text.replace(/^"|"$/g, "").replace(/\\(.)/g, "$1");

/** What clients send by mistake. Nothing else is repeated: it may be a token in a wrong place. */
const common = new RegExp(
  "^(?:(?:text|application)/(?:plain|html|csv|xml|octet-stream|" +
    "x-www-form-urlencoded)|multipart/form-data|gzip|br|zstd|utf-?16|iso-8859-1)$",
  "i"
);

const shown = (name = ""): string =>
  name === "" ? "empty or absent" : common.test(name) ? name : "another one";
