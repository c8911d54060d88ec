/**
 * The client's side of the NATS protocol: parses what a server sends into frames, within limits,
 * and makes the headers and ids of messages.
 *
 *   frame = line CRLF / ("MSG" / "HMSG") ... [header bytes] total bytes CRLF headers payload CRLF
 *
 * https://docs.nats.io/reference/reference-protocols/nats-protocol
 */
import { randomBytes } from "node:crypto";
import { ExitError } from "../failure.ts";
import type { NatsLimits } from "./limits.ts";

export interface Frame {
  readonly line: string;
  readonly words: readonly string[];

  /** The status in a message's headers, or NaN. */
  readonly status: number;
  readonly payload: Buffer;

  /** The offset after the frame; it lies beyond the bytes if the frame is incomplete. */
  readonly end: number;
}

/** As bytes, it is found faster than as a text. */
const crlf = Buffer.from("\r\n");

/**
 * Parses chunks of any size into frames.
 *
 * @throws ExitError `unreachable` for bytes that are not NATS, or exceed a limit
 */
export async function* framesOf(
  chunks: AsyncIterable<Buffer>,
  limits: NatsLimits
): AsyncGenerator<Frame, void> {
  let parts: Buffer[] = [];
  let missingBytes = 0;
  for await (const chunk of chunks) {
    parts.push(chunk);
    missingBytes -= chunk.length;

    // Joined once a message is whole: joining at each chunk would copy 8 MiB thousands of times.
    if (missingBytes > 0) continue;
    let unread = Buffer.concat(parts);
    for (;;) {
      const frame = parseFrame(unread, limits);
      missingBytes = frame.end - unread.length;
      if (missingBytes > 0) break;
      unread = unread.subarray(frame.end);
      yield frame;
    }
    parts = [unread];
  }
}

/** Parses the first frame. */
function parseFrame(bytes: Buffer, limits: NatsLimits): Frame {
  const crlfAt = bytes.indexOf(crlf);

  // The last byte of a line that is incomplete may be its CR.
  const lineEnd = crlfAt < 0 ? bytes.length - 1 : crlfAt;
  if (lineEnd > limits.lineBytesMax)
    throw protocolError("a line over the limit");
  const line = bytes.toString("latin1", 0, Math.max(crlfAt, 0));

  // Some server versions put two spaces between words.
  const words = line.split(/\s+/);
  const [name = ""] = words;

  // A frame that is not a message has no bytes between its line and the CRLF.
  const isMessage = name.endsWith("MSG");
  const start = isMessage ? lineEnd + 2 : lineEnd;
  const payloadAt = start + (name === "HMSG" ? Number(words.at(-2)) : 0);
  const payloadEnd = start + (isMessage ? Number(words.at(-1)) : 0);
  const isValid =
    [payloadAt, payloadEnd].every(Number.isInteger) &&
    payloadAt >= start &&
    payloadEnd >= payloadAt &&
    payloadEnd - start <= limits.messageBytesMax;
  if (!isValid) throw protocolError("a message without a valid length");

  // A status may follow on the version: NATS/1.0 503.
  const status = parseInt(bytes.toString("latin1", start + 8, payloadAt), 10);
  const payload = bytes.subarray(payloadAt, payloadEnd);
  return { line, words, status, payload, end: payloadEnd + 2 };
}

/** Returns the headers of a message, from lines in ASCII that end with CRLF. */
export const headersOf = (...lines: readonly string[]) =>
  `NATS/1.0\r\n${lines.join("")}\r\n`;

/**
 * Returns hex digits that no other process draws. They end with the time in milliseconds: a copy of
 * this process, made by a snapshot of its machine, draws the same random digits.
 */
export const randomId = () =>
  randomBytes(8).toString("hex") + Date.now().toString(16);

export type JsonObject = Readonly<Record<string, unknown>>;

/** Returns a value's members; a value that is not an object has none. */
export const objectOf = (value: unknown): JsonObject => ({ ...(value ?? {}) });

/** Returns the code and the text of a response's error. A server's text may be remembered: it is
 * cut. */
export function errorOf(response: JsonObject) {
  const { err_code: code, description } = objectOf(response["error"]);
  return { code, text: String(description).slice(0, 200) };
}

/**
 * Reads JSON without members named toString, which would break its conversion to a text.
 *
 * @throws ExitError `unreachable` for text that is not JSON, or is nested too deeply
 */
export function readObject(json: Buffer | string) {
  try {
    return objectOf(
      JSON.parse(String(json), (name, value) =>
        name === "toString" ? undefined : value
      )
    );
  } catch {
    throw protocolError("bad JSON");
  }
}

/** Returns what is expected of a server that acknowledges what it may lose, or refuses what it
 * stores (see README.md); "" for another. */
export function expectedOf(version: unknown) {
  const [major, minor] = String(version).split(".");
  const isNew = 1000 * Number(major) + Number(minor) >= 2014;
  return isNew ? "" : "version 2.14 or later";
}

export const protocolError = (found: string) =>
  new ExitError("unreachable", `expected the NATS protocol, found ${found}`);
