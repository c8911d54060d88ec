/** Raw requests, good ones and ones with a single fault. */
import { post, token } from "./support.ts";

/** A good plant, and the whole request that posts it. */
export const fern = '{"id":1,"name":"Fern"}';
export const plant = post(fern).toString();
export const line = "POST /plants HTTP/1.1\r\n";
export const host = "Host: localhost\r\n";
export const good = `Authorization: Bearer ${token}\r\nContent-Type: application/json\r\n`;
export const coding = "Transfer-Encoding: chunked\r\n";

/** A good plant whose body has this many bytes. */
export const plantOf = (bytes: number): string => fern.padEnd(bytes);

/** A good plant with arrays that are nested this deep, the plant itself included. */
export const nested = (levels: number): string =>
  `{"id":1,"name":"Fern","x":${"[".repeat(levels - 1)}${"]".repeat(levels - 1)}}`;

export const chunk = (text: string): string =>
  `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`;

/** A good chunked request; the trailer is whole lines. */
export const chunked = (body: string, trailer = ""): string =>
  `${line}${host}${good}${coding}\r\n${chunk(body)}0\r\n${trailer}\r\n`;

/** A good request with a head of this many bytes, from the request line to the empty line. */
export function withHeadBytes(bytes: number): string {
  const head = `${line}${host}${good}Content-Length: ${fern.length}\r\nX: \r\n\r\n`;
  return head.replace("X: ", `X: ${"x".repeat(bytes - head.length)}`) + fern;
}

/** A good request with this many fields. */
export const withFields = (fields: number): Buffer =>
  post(fern, "a: b\r\n".repeat(fields - 4));

/** Requests that end too early. */
export const halfBody = `${line}${host}${good}Content-Length: 30\r\n\r\n${fern}`;
export const halfHead = `${line}${host}Authorization: `;

const challenge = 'Bearer realm="plant-store"';

/** The headers of an error by its number; no other response has these fields. */
export const headersOf = (error: number): Readonly<Record<string, string>> => ({
  ...((error === 40006 || error === 40007) && {
    "www-authenticate": `${challenge}, error="invalid_request"`
  }),
  ...(error === 40101 && { "www-authenticate": challenge }),
  ...(error === 40102 && {
    "www-authenticate": `${challenge}, error="invalid_token"`
  }),
  ...(Math.floor(error / 100) === 405 && { allow: "POST" }),
  ...(error === 41503 && { "accept-encoding": "identity" }),
  ...(Math.floor(error / 100) === 503 && { "retry-after": "1" })
});
export const optional = [
  "www-authenticate",
  "allow",
  "accept-encoding",
  "retry-after"
];
