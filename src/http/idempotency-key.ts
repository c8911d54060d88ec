/** Which Idempotency-Key a request carries (draft-ietf-httpapi-idempotency-key-header). */
import { must } from "./errors.ts";

/** The most characters of a key: more than any UUID or digest, and no memory to speak of. */
const charactersMax = 255;

/** unescaped / "\" ( DQUOTE / "\" ) (RFC 9651, 4.1.6) */
const quoted = String.raw`(?:[ !#-[\]-~]|\\["\\])`;

/** Visible ASCII but `"`, `\` and `,`. */
const unquoted = String.raw`[!#-+\--[\]-~]`;

/** sf-string, or the same text without quotes, as most clients send it. */
export const keyForm = new RegExp(
  `^(?:"(${quoted}{1,${charactersMax}})"|${unquoted}{1,${charactersMax}})$`
);

const expected =
  `expected 1 to ${charactersMax} ASCII characters, as a quoted String, ` +
  "or without quotes, spaces, commas and backslashes";

/**
 * Returns the key that a field's value spells, with or without quotes.
 *
 * @throws ApiError 400 unless it is a String of RFC 9651, or such a text, of 1 to 255 characters
 */
export function readIdempotencyKey(value: string) {
  const match = keyForm.exec(value);
  must(match !== null, "idempotencyKey", expected);
  return match[1]?.replace(/\\(.)/g, "$1") ?? value;
}
