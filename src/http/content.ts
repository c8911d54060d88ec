/** What a head says of the body: expectation, media type, charset, content coding, length. */
import { ApiError } from "./errors.ts";
import type { Head } from "./head.ts";

/**
 * Lets only a body through that can be one JSON text within the limit.
 * @throws ApiError 417, 415 or 413
 */
export function checkContent(head: Head, bodyBytesMax: number): void {
  const { expectation, contentType, contentCoding, contentLength } = head;
  if (expectation !== undefined && expectation.toLowerCase() !== "100-continue") {
    throw new ApiError("expectation", "Expect must be 100-continue or absent.");
  }
  if (contentType !== "application/json") checkMediaType(contentType);
  if (contentCoding !== undefined && !/^identity$/i.test(contentCoding)) {
    throw new ApiError("contentCoding", "Content-Encoding must be identity or absent.");
  }
  if (contentLength !== undefined && contentLength > bodyBytesMax) {
    const message = `The body must not exceed ${bodyBytesMax} bytes, Content-Length is above.`;
    throw new ApiError("declaredSize", message);
  }
}

/** OWS ";" OWS [ token "=" ( token / quoted-string ) ] (RFC 9110, 5.6.6) */
const parameterForm =
  /[ \t]*;[ \t]*(?:([\w!#$%&'*+.^`|~-]+)=([\w!#$%&'*+.^`|~-]+|"(?:[^"\\\0-\x08\n-\x1f\x7f]|\\[\t -~\x80-\xff])*"))?/y;

/** media-type = type "/" subtype parameters (RFC 9110, 8.3.1), names in any case */
function checkMediaType(contentType: string | undefined): void {
  const [essence = ""] = /^[^ \t;]*/.exec(contentType ?? "") ?? [];
  if (contentType === undefined || essence.toLowerCase() !== "application/json") {
    throw new ApiError("mediaType", "Content-Type must be application/json.");
  }
  let charset: string | undefined;
  parameterForm.lastIndex = essence.length;
  while (parameterForm.lastIndex < contentType.length) {
    const parameter = parameterForm.exec(contentType);
    if (!parameter) throw new ApiError("mediaType", "Content-Type's parameters must be name=value.");
    const [, name, value = ""] = parameter;
    if (name?.toLowerCase() !== "charset") continue;
    const unquoted = value.replace(/^"|"$/g, "").replace(/\\(.)/g, "$1");
    if (charset !== undefined || unquoted.toLowerCase() !== "utf-8") {
      throw new ApiError("charset", "The charset of Content-Type must be utf-8, once, or absent.");
    }
    charset = unquoted;
  }
}
