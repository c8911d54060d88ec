/** Keys and JWTs of NATS, made by the tests: no other tool is needed. */
import { generateKeyPairSync, randomUUID, sign } from "node:crypto";

const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const prefixes = { operator: 14, account: 0, user: 20 };

export type Role = keyof typeof prefixes;
export type Key = ReturnType<typeof createKey>;

const bitsOf = (bytes: Buffer): string =>
  [...bytes].map((byte) => byte.toString(2).padStart(8, "0")).join("");

/** Base32 of bytes and their CRC-16/XMODEM. */
function encode(bytes: Buffer): string {
  let crc = 0;
  for (const bit of bitsOf(bytes)) {
    const carry = (crc >> 15) ^ Number(bit);
    crc = ((crc << 1) & 0xffff) ^ (carry ? 0x1021 : 0);
  }
  const bits = bitsOf(
    Buffer.concat([bytes, Buffer.from([crc & 255, crc >> 8])])
  );
  return (bits.match(/.{1,5}/g) ?? [])
    .map((five) => alphabet[parseInt(five.padEnd(5, "0"), 2)])
    .join("");
}

export function createKey(role: Role) {
  const { privateKey, publicKey } = generateKeyPairSync("ed25519");
  const raw = (
    { jwk }: { readonly jwk: { readonly d?: string; readonly x?: string } },
    member: "d" | "x"
  ) => Buffer.from(jwk[member] ?? "", "base64url");
  const { [role]: prefix } = prefixes;
  const first = [(18 << 3) | (prefix >> 2), (prefix & 3) << 6];
  return {
    id: encode(
      Buffer.from([
        prefix << 3,
        ...raw({ jwk: publicKey.export({ format: "jwk" }) }, "x")
      ])
    ),
    seed: encode(
      Buffer.from([
        ...first,
        ...raw({ jwk: privateKey.export({ format: "jwk" }) }, "d")
      ])
    ),
    sign: (text: string): string =>
      sign(null, Buffer.from(text), privateKey).toString("base64url")
  };
}

/** A JWT about a key, signed by another. */
export function jwtOf(
  type: Role,
  subject: string,
  issuer: Key,
  claims: object,
  more = {}
): string {
  const part = (value: object): string =>
    Buffer.from(JSON.stringify(value)).toString("base64url");
  const iat = Math.floor(Date.now() / 1000);
  const text = `${part({ typ: "JWT", alg: "ed25519-nkey" })}.${part({
    jti: randomUUID(),
    iat,
    iss: issuer.id,
    sub: subject,
    name: type,
    ...more,
    nats: { type, version: 2, ...claims }
  })}`;
  return `${text}.${issuer.sign(text)}`;
}

export const credsOf = (
  jwt: string,
  seed: string
): string => `-----BEGIN NATS USER JWT-----
${jwt}
------END NATS USER JWT------

************************* IMPORTANT *************************
NKEY Seed printed below can be used to sign and prove identity.

-----BEGIN USER NKEY SEED-----
${seed}
------END USER NKEY SEED------

*************************************************************
`;
