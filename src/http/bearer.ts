/** Bearer credentials (RFC 6750), compared with the SHA-256 of each accepted token. */
import { hash, randomBytes, timingSafeEqual } from "node:crypto";
import { codeOf } from "../config.ts";
import { must } from "./errors.ts";

/** The accepted tokens, as digests. They can be replaced while a server uses them. */
export class BearerTokens {
  #digests: readonly Buffer[] = [];

  /**
   * Scratch space for the digest of the presented token: writing to it is faster than allocating.
   * Sharing it is safe, because `check` writes and compares within one synchronous call.
   */
  readonly #presented = Buffer.alloc(tokenDigest("").length);

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
    this.#digests = tokens.map(digestOf);
  }

  /**
   * Checks the value of an Authorization field.
   *
   * @returns the token's digest, to which keys are scoped
   * @throws ApiError 400 or 401 if it does not contain an accepted token
   */
  check(authorization: string | undefined) {
    const digest = tokenDigest(tokenOf(authorization));
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
 * @param scope the token's digest
 */
export function scopedDigest(scope: string, text: string) {
  const token = Buffer.from(scope.slice("sha256:".length), "hex");
  const scoped = Buffer.concat([token, Buffer.from(text)]);

  // By way of hexadecimal, because `hash` takes longer to make a Buffer.
  const digest = Buffer.from(hash("sha256", scoped, "hex"), "hex");
  return digest.toString("base64url", 0, 16);
}

/** b64token = 1*( ALPHA / DIGIT / "-" / "." / "_" / "~" / "+" / "/" ) *"=" (RFC 6750, 2.1) */
const b64token = "[A-Za-z0-9._~+/-]+=*";
export const tokenForm = new RegExp(`^${b64token}$`);

/**
 * Returns what a text must be, and the first character that does not fit, by its code and place:
 * the rest may be a token. Returns undefined for a b64token.
 */
export function describeMisfit(text: string) {
  if (tokenForm.test(text)) return undefined;
  const expected =
    "must be of letters, digits and -._~+/, with = at the end only";
  const index = text.search(/[^A-Za-z0-9._~+/=-]|=+[^=]|^=/);
  if (index < 0)
    return `${expected}, found an empty text: is PLANTS_TOKEN set?`;
  const before = Array.from(text.slice(0, index));
  const [character = ""] = text.slice(index);
  return `${expected}, found ${codeOf(character)} as character ${before.length + 1}`;
}

/** Returns a new token of 256 random bits. */
export const generateToken = () => randomBytes(32).toString("base64url");

/**
 * Returns `sha256:` and the digest of a token's bytes in hexadecimal: it can be given and stored in
 * place of the token.
 */
export const tokenDigest = (token: string) =>
  `sha256:${hash("sha256", token, "hex")}`;

/** The form of a token's digest. */
export const digestForm = /^sha256:[0-9a-f]{64}$/;

/** What a script makes of a variable that is not set. No request can have an empty token. */
export const emptyDigest = tokenDigest("");

/** Returns the bytes to compare for a configured token or digest. */
function digestOf(token: string) {
  if (token === emptyDigest)
    throw new TypeError(
      "a token's digest is that of an empty text: is PLANTS_TOKEN set?"
    );
  if (digestForm.test(token)) return Buffer.from(token);
  if (token.startsWith("sha256:"))
    throw new TypeError(
      "a token's digest must be sha256: and 64 lower-case hexadecimal digits"
    );
  const misfit = describeMisfit(token);
  if (misfit) throw new TypeError(`a token ${misfit}`);
  return Buffer.from(tokenDigest(token));
}

/** credentials = "Bearer" 1*SP b64token (RFC 6750, 2.1); the scheme in any case (RFC 9110, 11.1) */
const credentialsForm = new RegExp(`^bearer +(${b64token})$`, "i");

/** Returns the token of a valid Authorization field. */
function tokenOf(authorization = "") {
  const [, token] = credentialsForm.exec(authorization) ?? [];

  // Another scheme counts as no credentials (401). Bearer with another form is malformed (400).
  must(
    token !== undefined || /^bearer(?![^\s,])/i.test(authorization),
    "anonymous",
    describeScheme(authorization)
  );
  must(token !== undefined, "credentials");
  return token;
}

/** Schemes that clients send by mistake. A message repeats no other: it may be a token. */
const schemeForm = /^(?:basic|digest|negotiate|ntlm|token|apikey)(?=\s|$)/i;

/** Returns what is there instead of Bearer and a token, but nothing of the credentials. */
function describeScheme(authorization: string) {
  const value = authorization.trim();
  if (value === "") return "found none";
  if (/^bearer/i.test(value)) return "found no space after Bearer";
  const [known] = schemeForm.exec(value) ?? [];
  if (known !== undefined) return `found ${known}`;
  return /\s/.test(value)
    ? "found another scheme"
    : "found a value without a scheme";
}
