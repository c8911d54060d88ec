/** Bearer credentials (RFC 6750) against the SHA-256 of the tokens; no token itself is kept. */
import { hash, randomBytes, timingSafeEqual } from "node:crypto";
import { must } from "./errors.ts";

/** The tokens that are accepted; they can be replaced while a server uses them. */
export class BearerTokens {
  #digests: readonly Buffer[] = [];

  /** Of the token that was presented last: to write here is faster than to make a Buffer. */
  readonly #presented = Buffer.alloc(tokenDigest("").length);

  /**
   * @param tokens each a b64token, or `sha256:` and the 64 hexadecimal digits of its digest
   * @throws TypeError for none, or a bad one
   */
  constructor(tokens: readonly string[]) {
    this.replace(tokens);
  }

  /** Accepts these tokens from now on, and no other; where it throws, the old ones stay. */
  replace(tokens: readonly string[]): void {
    if (tokens.length === 0)
      throw new TypeError("tokens must hold at least one: never run open");
    this.#digests = tokens.map(digestOf);
  }

  /** @throws ApiError 400 or 401 when the value of Authorization does not hold an accepted token */
  check(authorization: string | undefined): void {
    const presented = this.#presented;
    presented.write(tokenDigest(tokenOf(authorization)), "latin1");

    // All are compared, and each in constant time: timing tells nothing of any token.
    let isKnown = false;
    for (const known of this.#digests)
      isKnown = timingSafeEqual(known, presented) || isKnown;
    must(isKnown, "token", "The bearer token is not one that is known here.");
  }
}

/** b64token = 1*( ALPHA / DIGIT / "-" / "." / "_" / "~" / "+" / "/" ) *"=" (RFC 6750, 2.1) */
export const isToken = (text: string): boolean =>
  /^[A-Za-z0-9._~+/-]+=*$/.test(text);

/** A new token of 256 random bits. */
export const makeToken = (): string => randomBytes(32).toString("base64url");

/**
 * `sha256:` and the hexadecimal digest of a token's bytes: what may be stored in its place.
 *
 * Hexadecimal is what `hash` makes fastest, in half of the time of a Buffer.
 */
export const tokenDigest = (token: string): string =>
  `sha256:${hash("sha256", token, "hex")}`;

/** A token's digest, as it may be given in the place of the token. */
export const digestForm = /^sha256:[0-9a-f]{64}$/;

/** What is compared, of a token or of its digest as it stands in a tokens file. */
function digestOf(token: string): Buffer {
  if (digestForm.test(token)) return Buffer.from(token);
  if (!isToken(token))
    throw new TypeError("a token must be a b64token or sha256: and 64 digits");
  return Buffer.from(tokenDigest(token));
}

/** credentials = "Bearer" 1*SP b64token (RFC 6750, 2.1); the scheme in any case (RFC 9110, 11.1) */
function tokenOf(authorization = ""): string {
  const [, token] =
    /^bearer +([A-Za-z0-9._~+/-]+=*)$/i.exec(authorization) ?? [];

  // Another scheme is as good as none (401); what begins with Bearer was meant to be it (400).
  must(
    token !== undefined || /^bearer(?![^\s,])/i.test(authorization),
    "anonymous",
    "Authorization must be present, with the scheme Bearer."
  );
  must(
    token !== undefined,
    "credentials",
    "Authorization must be Bearer, a space and a b64token."
  );
  return token;
}
