/**
 * The client's side of the NATS protocol: what a server says, cut into frames within bounds, and
 * how a message is published.
 *
 *   frame = line CRLF / ("MSG" / "HMSG") ... [header bytes] total bytes CRLF headers payload CRLF
 *
 * https://docs.nats.io/reference/reference-protocols/nats-protocol
 */
import type { NatsLimits } from "../config.ts";
import { EngineError } from "../store.ts";

export type Frame = ReturnType<typeof cut>;

const crlf = Buffer.from("\r\n");
const none: Buffer = Buffer.alloc(0);

/**
 * Cuts bytes into frames, as they come.
 *
 * @throws EngineError `unreachable` for what is not NATS, or over a limit
 */
export async function* framesOf(
  chunks: AsyncIterable<Buffer>,
  limits: NatsLimits
) {
  let rest = none;
  for await (const chunk of chunks) {
    rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    for (
      let frame = cut(rest, limits);
      frame.end <= rest.length;
      frame = cut(rest, limits)
    ) {
      rest = rest.subarray(frame.end);
      yield frame;
    }
  }
}

/**
 * The first frame of bytes.
 *
 * @returns `status`: that of a message's headers: 503, where nobody takes what was published, or
 * ""; `end`: where the frame ends, beyond the bytes where it is not whole
 */
function cut(bytes: Buffer, limits: NatsLimits) {
  const found = bytes.indexOf(crlf);
  const lineEnd = found < 0 ? bytes.length : found;
  if (lineEnd > limits.lineBytesMax) throw foreign("a line over the limit");
  const line = bytes.toString("latin1", 0, Math.max(found, 0));

  // Some versions put two spaces between words.
  const words = line.split(/\s+/);
  const [name = ""] = words;
  const start = lineEnd + crlf.length;
  if (!/^H?MSG$/.test(name))
    return { line, words, status: "", payload: none, end: start };
  const payloadAt = start + (name === "HMSG" ? Number(words.at(-2)) : 0);
  const payloadEnd = start + Number(words.at(-1));
  const isSound =
    [payloadAt, payloadEnd].every(Number.isInteger) &&
    payloadAt >= start &&
    payloadEnd >= payloadAt &&
    payloadEnd - start <= limits.messageBytesMax;
  if (!isSound) throw foreign("a message without a good length");
  const headers = bytes.toString("latin1", start, payloadAt);
  const [, status = ""] = /^NATS\/1\.0 +(\d+)/.exec(headers) ?? [];
  const payload = bytes.subarray(payloadAt, payloadEnd);
  return { line, words, status, payload, end: payloadEnd + crlf.length };
}

/**
 * A message with an id, for which a stream keeps it once, and which is where the reply goes.
 *
 * @param headers lines with CRLF
 */
export function publication(
  subject: string,
  id: string,
  headers = "",
  payload = none
): Buffer {
  const block = `NATS/1.0\r\nNats-Msg-Id: ${id}\r\n${headers}\r\n`;
  const line = `HPUB ${subject} ${id} ${block.length} ${block.length + payload.length}\r\n`;
  return Buffer.concat([Buffer.from(line + block), payload, crlf]);
}

export type JsonObject = Readonly<Record<string, unknown>>;

/** The members of a value, if it has any. */
export const objectOf = (value: unknown): JsonObject => ({ ...(value ?? {}) });

/**
 * Without members that would keep it from being made into a text, or a number.
 *
 * @throws SyntaxError for what is no JSON
 */
export const readObject = (json: Buffer | string): JsonObject =>
  objectOf(
    JSON.parse(String(json), (name, value) =>
      name === "toString" || name === "valueOf" ? undefined : value
    )
  );

export const foreign = (found: string): EngineError =>
  new EngineError("unreachable", `expected the NATS protocol, found ${found}`);
