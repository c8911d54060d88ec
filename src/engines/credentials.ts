/**
 * The credentials of a NATS user, as a text in one of four forms.
 *
 *   credentials = creds / seed EOL / "token " token EOL / user EOL password EOL
 *   creds       = a file of two blocks: the user's JWT and the seed of its nkey
 *   EOL         = [CR] LF                                        ; the last one may be missing
 *   seed        = "SU" 56( A-Z / 2-7 )
 *
 * A seed is base32 of two bytes of prefix, the 32 bytes of an ed25519 key, and a CRC-16 in
 * little-endian order. A line alone without "token " can only be a seed: a damaged seed is never
 * sent to a server as a token.
 *
 * https://docs.nats.io/running-a-nats-service/configuration/securing_nats/auth_intro/nkey_auth
 */
import { createPrivateKey, createPublicKey, sign } from "node:crypto";
import { EngineError } from "../store.ts";

/** A text, or a function that returns it: called for every connection. */
export type Credentials = string | (() => string);

/** Returns the members of CONNECT that log in, for the nonce of a server's INFO. */
export type Login = (nonce: string) => Readonly<Record<string, string>>;

/**
 * Reads the text; without one there is nothing to log in with.
 *
 * @throws EngineError `refused`: the text is not quoted, the message of a function's error is
 */
export function readCredentials(credentials?: Credentials): Login {
  if (credentials === undefined) return () => ({});
  const text =
    typeof credentials === "string" ? credentials : call(credentials);
  const { groups } = passwordForm.exec(text) ?? tokenForm.exec(text) ?? {};
  if (groups) return () => groups;
  const [, jwt, seed = text.trim()] = credsForm.exec(text) ?? [];
  const { nkey, signed } = keyOf(seed);
  const identity = jwt === undefined ? { nkey } : { jwt };
  return (nonce) => ({ ...identity, sig: signed(nonce) });
}

/** The names of the groups are those of CONNECT. */
const passwordForm = /^(?<user>[^\r\n]+)\r?\n(?<pass>[^\r\n]+)(?:\r?\n)*$/;
const tokenForm = /^token (?<auth_token>[^\r\n]+)(?:\r?\n)*$/;
const credsForm =
  /^-+BEGIN NATS USER JWT-+\s+([\w.-]+)\s+-+END[^]*-+BEGIN USER NKEY SEED-+\s+(\w+)\s+-+END/m;
const seedForm = /^SU[A-Z2-7]{56}$/;
const base32 = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/** The prefix of a public key of a user: it makes the first character a U. */
const userPrefix = 20 << 3;

/** The bytes of an ed25519 key before the 32 that matter (RFC 8410, section 7). */
const pkcs8 = Buffer.from("302e020100300506032b657004220420", "hex");

/** @throws EngineError for a text that is not a seed of a user, as a whole */
function keyOf(seed: string) {
  if (!seedForm.test(seed)) throw wrongForm();

  // 58 characters of 5 bits are 36 bytes and 2 bits.
  const bits = [...seed].reduce(
    (sum, char) => (sum << 5n) | BigInt(base32.indexOf(char)),
    0n
  );
  const bytes = Buffer.from((bits >> 2n).toString(16), "hex");
  const isWhole = crc16(bytes.subarray(0, 34)) === bytes.readUInt16LE(34);
  if (!isWhole || bytes.readUInt8(1) !== 0) throw wrongForm();
  const der = Buffer.concat([pkcs8, bytes.subarray(2, 34)]);
  const key = createPrivateKey({ key: der, format: "der", type: "pkcs8" });
  const { x = "" } = createPublicKey(key).export({ format: "jwk" });
  return {
    nkey: encodeKey(Buffer.from(x, "base64url")),
    signed: (nonce: string): string =>
      sign(null, Buffer.from(nonce), key).toString("base64url")
  };
}

/** Returns the text of a user's public key. */
function encodeKey(key: Buffer) {
  const bytes = Buffer.from([userPrefix, ...key, 0, 0]);
  bytes.writeUInt16LE(crc16(bytes.subarray(0, 33)), 33);
  const digits = BigInt(`0x${bytes.toString("hex")}`).toString(32);
  return digits.replace(/./g, (digit) => base32.charAt(parseInt(digit, 32)));
}

/** CRC-16/XMODEM: polynomial 0x1021, initial value 0. */
function crc16(bytes: Buffer) {
  let crc = 0;
  for (const byte of bytes) {
    crc ^= byte << 8;
    for (let bit = 0; bit < 8; bit++)
      crc = (crc << 1) ^ ((crc & 0x8000) === 0 ? 0 : 0x1021);
  }
  return crc & 0xffff;
}

function call(credentials: () => string): string {
  try {
    return credentials();
  } catch (error) {
    throw refused(error instanceof Error ? error.message : "cannot be read");
  }
}

const wrongForm = () =>
  refused(
    "expected a .creds file, an nkey seed of a user, two lines (user, password), or token TOKEN"
  );

const refused = (reason: string) =>
  new EngineError("refused", `the store's credentials: ${reason}`);
