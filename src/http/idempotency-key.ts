/** Idempotency-Key: which key a request carries (draft-ietf-httpapi-idempotency-key-header). */
import { must } from "./errors.ts";

/** The most characters of a key: more than any UUID or digest, and no memory to speak of. */
const charactersMax = 255;

/** sf-string = DQUOTE *( unescaped / "\" ( DQUOTE / "\" ) ) DQUOTE (RFC 9651, 4.1.6) */
const quoted = /^"((?:[ !#-[\]-~]|\\["\\])*)"$/;

/** The same text without quotes, as most clients send it: visible ASCII but `"`, `\` and `,`. */
const bare = /^[!#-+\--[\]-~]*$/;

/**
 * Returns the key that a field's value spells, with or without quotes.
 *
 * @throws ApiError 400 unless it is a String of RFC 9651, or such a text, of 1 to 255 characters
 */
export function readIdempotencyKey(value: string): string {
  const [, escaped] = quoted.exec(value) ?? [];
  const key = escaped?.replace(/\\(.)/g, "$1") ?? value;
  const isKey =
    (escaped !== undefined || bare.test(value)) &&
    key.length > 0 &&
    key.length <= charactersMax;
  must(
    isKey,
    "idempotencyKey",
    "Idempotency-Key must be a quoted String of 1 to % ASCII characters.",
    charactersMax
  );
  return key;
}
