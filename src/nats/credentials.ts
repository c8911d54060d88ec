/**
 * The credentials of a NATS user, as a text in one of two forms. A .creds file is one of a key.
 *
 *   credentials = login / key
 *   login       = "user" 1*SP NAME EOL "password" 1*SP TEXT EOL
 *   key         = seed EOL [public-key EOL] [jwt EOL]     ; in any order, with comments
 *   comment     = a line that is not one word of letters, digits, "_", "-" and "."
 *   NAME, TEXT  = printable ASCII
 *   EOL         = CR / LF / CRLF                          ; the last one may be missing
 *   seed        = "SU" 56( A-Z / 2-7 )
 *
 * The text may begin with a byte order mark. Blank lines, and white space around a line, do not
 * count.
 *
 * A seed is base32 of two bytes of prefix, the 32 bytes of an ed25519 key, and a CRC-16 in
 * little-endian order. No text but a login is sent to a server.
 *
 * https://docs.nats.io/running-a-nats-service/configuration/securing_nats/auth_intro/nkey_auth
 */
import { createPrivateKey, createPublicKey, sign } from "node:crypto";

/**
 * Returns the members of CONNECT that log in; without a text there are none.
 *
 * @param nonce what a server's INFO asks to be signed
 * @throws TypeError for a text of no form: it is not quoted
 */
export function loginOf(text: string | undefined, nonce: string) {
  if (text === undefined) return {};
  // trim() removes a byte order mark, too.
  const lines = text
    .split(/[\r\n]/)
    .map((line) => line.trim())
    .filter(Boolean);
  const [, user, pass] = loginForm.exec(lines.join("\n")) ?? [];
  if (pass !== undefined) return { user, pass };
  const words = lines.filter((line) => /^\w[\w.-]*$/.test(line));
  const seed = words.find((word) => word.startsWith("S")) ?? "";
  const jwt = words.find((word) => word.startsWith("eyJ"));
  const { key, nkey } = keyOf(seed);
  if (!words.every((word) => [seed, jwt, nkey].includes(word)))
    throw notCredentials();
  const sig = sign(null, Buffer.from(nonce), key).toString("base64url");
  return { jwt, nkey, sig };
}

const loginForm = /^user +([ -~]+)\npassword +([ -~]+)$/;

const base32 = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/** The bytes before a user's seed and before its public key: the texts begin with SU and U. */
const seedPrefix = [0x95, 0];
const userPrefix = [0xa0];

/** The bytes of an ed25519 key before the 32 that matter (RFC 8410, section 7). */
const pkcs8 = Buffer.from("302e020100300506032b657004220420", "hex");

const notCredentials = () =>
  new TypeError(
    'expected "user NAME" and "password TEXT" on two lines, a .creds file, or the seed of a user\'s nkey'
  );

/** @throws TypeError for a text that is not a seed of a user, as a whole */
function keyOf(seed: string) {
  // 58 characters of 5 bits are 36 bytes and 2 bits. The bytes in the middle are the key.
  const bits = [...seed.slice(0, 58)].reduce(
    (sum, char) => (sum << 5n) | BigInt(base32.indexOf(char)),
    0n
  );
  const bytes = Buffer.from((bits >> 2n).toString(16), "hex").subarray(2, 34);
  if (encodeKey(seedPrefix, bytes) !== seed) throw notCredentials();
  const der = Buffer.concat([pkcs8, bytes]);
  const key = createPrivateKey({ key: der, format: "der", type: "pkcs8" });
  const { x = "" } = createPublicKey(key).export({ format: "jwk" });
  const nkey = encodeKey(userPrefix, Buffer.from(x, "base64url"));
  return { key, nkey };
}

/** Returns a key as text: base32 of the prefix, the key, a checksum, and zero bits at the end. */
function encodeKey(prefix: readonly number[], key: Buffer) {
  const data = [...prefix, ...key];
  const crc = crc16(data);
  const bytes = Buffer.from([...data, crc & 0xff, crc >> 8]);
  const bits = BigInt(`0x${bytes.toString("hex")}`);
  const padding = BigInt((2 * bytes.length) % 5);
  return (bits << padding)
    .toString(32)
    .replace(/./g, (digit) => base32.charAt(parseInt(digit, 32)));
}

/** CRC-16/XMODEM: polynomial 0x1021, initial value 0. */
function crc16(bytes: readonly number[]) {
  let crc = 0;
  for (const byte of bytes) {
    crc ^= byte << 8;
    for (let bit = 0; bit < 8; bit++)
      crc = (crc << 1) ^ ((crc & 0x8000) === 0 ? 0 : 0x1021);
  }
  return crc & 0xffff;
}
