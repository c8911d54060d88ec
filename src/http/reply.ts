/** The only writer of status, headers and body. */
import { STATUS_CODES, type ServerResponse } from "node:http";
import type { ApiError } from "./errors.ts";

/** Its headers are names and values in turn, besides those of every answer. */
export type Answer = Pick<ApiError, "status" | "headers" | "body">;

/** Whether the connection goes on behind an answer, or that is its last (RFC 9112, 9.3). */
export type Persistence = "close" | "persist";

const mediaType = "application/json";

/** Answers a request that was read whole; the connection persists. */
export function reply(response: ServerResponse, answer: Answer): void {
  const bodyBytes = writeHead(response, answer, "persist");

  // Head and body leave as one string: where it is ASCII in Latin-1, for 5 to 12 % more answers.
  const coding = bodyBytes === answer.body.length ? "latin1" : "utf8";
  if (response.req.method !== "HEAD") response.write(answer.body, coding);

  // Given to `end`, node would send the body and an empty end as two pieces, by writev.
  if (written.push(response) === 1) setImmediate(endReplies);
}

/** Answers of this turn of the event loop, whose end is still to be told. */
let written: ServerResponse[] = [];

/** Ends what `reply` has written: it does so by itself when the turn of the event loop ends. */
export function endReplies(): void {
  const ended = written;
  written = [];
  for (const response of ended) {
    try {
      response.end();
    } catch (error) {
      // A host's own `end` is no fault of the others in this turn.
      queueMicrotask(() => {
        throw error;
      });
    }
  }
}

/**
 * Answers while the body may still arrive: the answer leaves at once, but stays unended.
 *
 * At its end node would cut the connection, and the client's unread bytes would reset it before
 * the answer is seen (RFC 9112, 9.6). Resolves when it is this answer's turn, and it has left or
 * leaves before a close: answers before it, a host's too, stay whole.
 */
export function replyUnended(
  response: ServerResponse,
  answer: Answer,
  persistence: Persistence,
): Promise<void> {
  writeHead(response, answer, persistence);
  return new Promise((resolve) => {
    if (response.req.method !== "HEAD") return response.write(answer.body, () => resolve());

    // Node writes no body here, and tells nobody when the head has left.
    response.flushHeaders();

    // Its turn has come with the socket.
    if (response.socket !== null) return resolve();
    return response.once("socket", () => resolve());
  });
}

/** Whether an answer has left: the kernel has all of it, for it was written as a whole. */
export const hasLeft = (response: ServerResponse): boolean =>
  response.headersSent && response.writableLength === 0;

/** The whole answer as text, for what node's parser refuses: there is no ServerResponse then. */
export function rawReply({ status, body, headers }: Answer): string {
  const own = headers.map((text, index) => (index % 2 === 0 ? `${text}: ` : `${text}\r\n`));
  return `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ""}\r\n`
    + `Date: ${new Date().toUTCString()}\r\n`
    + `Content-Type: ${mediaType}\r\n`
    + `Content-Length: ${Buffer.byteLength(body)}\r\n`
    + own.join("")
    + "Connection: close\r\n"
    + `\r\n${body}`;
}

/** The body's length in bytes. */
function writeHead(
  response: ServerResponse,
  answer: Answer,
  persistence: Persistence,
): number {
  const bodyBytes = Buffer.byteLength(answer.body);
  const fields = ["Content-Type", mediaType, "Content-Length", `${bodyBytes}`, ...answer.headers];
  if (persistence === "close") fields.push("Connection", "close");
  response.writeHead(answer.status, fields);
  return bodyBytes;
}
