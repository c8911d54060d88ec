/** Bearer credentials (RFC 6750), compared with the SHA-256 of each accepted token. */
import { hash, randomBytes, timingSafeEqual } from "node:crypto";
import { must } from "./errors.ts";

/** The accepted tokens, as digests. They can be replaced while a server uses them. */
export class BearerTokens {
  #digests: readonly Buffer[] = [];

  /**
   * Scratch space for the digest of the presented token: writing to it is faster than allocating.
   * Sharing it is safe, because `check` writes and compares within one synchronous call.
   */
  readonly #presented = Buffer.from(digestOf(""));

  /**
   * @param tokens each a b64token, or `sha256:` and the 64 hexadecimal digits of its digest
   * @throws TypeError for an empty list, for another value, or an invalid token
   */
  constructor(tokens: readonly string[]) {
    this.replace(tokens);
  }

  /**
   * Accepts these tokens and no others from now on.
   *
   * @throws TypeError as the constructor does; the old tokens stay then
   */
  replace(tokens: readonly string[]) {
    // JavaScript may give anything.
    const isList =
      Array.isArray(tokens) && tokens.every((each) => typeof each === "string");
    if (!isList || tokens.length === 0)
      throw new TypeError(
        "tokens must be a list of at least one string, or a BearerTokens"
      );
    this.#digests = tokens.map(acceptedDigest);
  }

  /**
   * Checks the value of an Authorization field.
   *
   * @returns the token's digest in hexadecimal, to which keys are scoped
   * @throws ApiError 400 or 401 if it does not contain an accepted token
   * @internal
   */
  check(authorization: string | undefined) {
    const digest = digestOf(tokenOf(authorization));
    this.#presented.write(digest, "latin1");

    // Compares all digests, each in constant time: the duration reveals nothing of any token.
    let isKnown = false;
    for (const known of this.#digests)
      isKnown = timingSafeEqual(known, this.#presented) || isKnown;
    must(isKnown, "token");
    return digest;
  }
}

/**
 * Returns a digest of an ASCII text within the scope of a token: 16 bytes in base64url. With
 * another token the same text has another digest.
 *
 * @param scope the token's digest in hexadecimal
 */
export function scopedDigest(scope: string, text: string) {
  const scoped = Buffer.concat([Buffer.from(scope, "hex"), Buffer.from(text)]);
  return Buffer.from(digestOf(scoped), "hex").toString("base64url", 0, 16);
}

/** Returns the SHA-256 in hexadecimal: `hash` takes longer to make a Buffer. */
const digestOf = (data: string | Buffer) => hash("sha256", data, "hex");

/** b64token = 1*( ALPHA / DIGIT / "-" / "." / "_" / "~" / "+" / "/" ) *"=" (RFC 6750, 2.1) */
const b64token = "[A-Za-z0-9._~+/-]+=*";
export const tokenForm = new RegExp(`^${b64token}$`);

export const tokenExpected =
  "a token of letters, digits and -._~+/, with = at the end only";

/** Returns a new token of 256 random bits. */
export const generateToken = () => randomBytes(32).toString("base64url");

/**
 * Returns `sha256:` and the digest of a token's bytes in hexadecimal: it can be given and stored in
 * place of the token.
 */
export const tokenDigest = (token: string) => `sha256:${digestOf(token)}`;

/** The form of a token's digest. */
export const digestForm = /^sha256:([0-9a-f]{64})$/;

/** What a script makes of a variable that is not set. No request can have an empty token. */
export const emptyDigest = tokenDigest("");

/** Returns the bytes to compare for a configured token or digest. */
function acceptedDigest(token: string) {
  const [, digest] = digestForm.exec(token) ?? [];
  if (digest === undefined && !tokenForm.test(token))
    throw new TypeError(
      `each of tokens must be ${tokenExpected}, or sha256: and 64 lower-case hexadecimal digits`
    );
  return Buffer.from(digest ?? digestOf(token));
}

/** credentials = "Bearer" 1*SP b64token (RFC 6750, 2.1); the scheme in any case (RFC 9110, 11.1) */
const credentialsForm = new RegExp(`^bearer +(${b64token})$`, "i");

/** Returns the token of a valid Authorization field. */
function tokenOf(authorization = "") {
  const [, token] = credentialsForm.exec(authorization) ?? [];

  // Another scheme counts as no credentials (401). Bearer with another form is malformed (400).
  must(
    token !== undefined || /^bearer(?![^\s,])/i.test(authorization),
    "anonymous"
  );
  must(token !== undefined, "credentials");
  return token;
}
