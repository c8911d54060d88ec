/** Bearer credentials (RFC 6750) against the SHA-256 of the tokens; no token itself is kept. */
import { hash, randomBytes, timingSafeEqual } from "node:crypto";
import { ApiError } from "./errors.ts";

/** The tokens that are accepted. */
export class BearerTokens {
  #digests: readonly Buffer[] = [];

  /** @param tokens as for `replace` */
  constructor(tokens: readonly string[]) {
    this.replace(tokens);
  }

  /**
   * Accepts these tokens from now on, and no other.
   * @param tokens each a b64token, or `sha256:` and the 64 hexadecimal digits of its digest
   * @throws TypeError when there is none or one is neither
   */
  replace(tokens: readonly string[]): void {
    if (tokens.length === 0) throw new TypeError("tokens must hold at least one: never run open");
    this.#digests = tokens.map(digestOf);
  }

  /**
   * @param authorization the value of the request's Authorization field
   * @throws ApiError when it does not hold an accepted token
   */
  check(authorization: string | undefined): void {
    const token = tokenOf(authorization);
    const digest = hash("sha256", token, "buffer");
    let accepted = false;
    // All are compared, and each in constant time: timing tells nothing of any token.
    for (const known of this.#digests) accepted = timingSafeEqual(known, digest) || accepted;
    if (!accepted) throw new ApiError("token", "The bearer token is not one that is known here.");
  }
}

/** b64token = 1*( ALPHA / DIGIT / "-" / "." / "_" / "~" / "+" / "/" ) *"=" (RFC 6750, 2.1) */
export const isToken = (text: string): boolean => /^[A-Za-z0-9._~+/-]+=*$/.test(text);

/** A new token of 256 random bits. */
export const makeToken = (): string => randomBytes(32).toString("base64url");

/** `sha256:` and the hexadecimal digest of a token's bytes: what may be stored in its place. */
export const tokenDigest = (token: string): string => `sha256:${hash("sha256", token, "hex")}`;

/** One line of a tokens file for each token: `NAME sha256:HEX`; blank lines and # comments. */
export function parseTokensFile(text: string): readonly string[] {
  const digests: string[] = [];
  for (const [index, line] of text.split("\n").entries()) {
    if (/^\s*(?:#.*)?$/.test(line)) continue;
    const digest = /^[^\s#]\S* (sha256:[0-9a-f]{64})\r?$/.exec(line)?.[1];
    if (digest === undefined) {
      throw new TypeError(`line ${index + 1}: expected NAME sha256:HEX with 64 lower-case digits`);
    }
    digests.push(digest);
  }
  if (digests.length === 0) throw new TypeError("line 1: expected at least one token, found none");
  return digests;
}

function digestOf(token: string): Buffer {
  const hex = /^sha256:([0-9a-f]{64})$/.exec(token)?.[1];
  if (hex !== undefined) return Buffer.from(hex, "hex");
  if (!isToken(token)) throw new TypeError("a token must be a b64token or sha256: and 64 digits");
  return hash("sha256", token, "buffer");
}

/** credentials = "Bearer" 1*SP b64token (RFC 6750, 2.1); the scheme in any case (RFC 9110, 11.1) */
function tokenOf(authorization: string | undefined): string {
  const [scheme = ""] = /^[^\s,]*/.exec(authorization ?? "") ?? [];
  if (authorization === undefined || scheme.toLowerCase() !== "bearer") {
    throw new ApiError("anonymous", "Authorization must be present, with the scheme Bearer.");
  }
  const token = authorization.slice(scheme.length).replace(/^ +/, "");
  if (authorization[scheme.length] !== " " || !isToken(token)) {
    throw new ApiError("credentials", "Authorization must be Bearer, a space and one b64token.");
  }
  return token;
}
