/** The only writer of status, headers and body. */
import { STATUS_CODES, type ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import type { ApiError } from "./errors.ts";

/** Its headers are names and values in turn, besides those of every answer. */
type Answer = Pick<ApiError, "status" | "headers" | "body">;
const mediaType = "application/json";

export function reply(response: ServerResponse, answer: Answer, close: boolean): void {
  // A host application, or a time-out, may have answered before.
  if (response.headersSent) return;
  writeHead(response, answer, close);
  response.end(answer.body);
}

/** Answers while the body may still arrive: the answer leaves at once, but stays unended. At its
 * end node would cut the connection, and the client's unread bytes would reset it before the
 * answer is seen (RFC 9112, 9.6). Resolves when the answer has left. */
export function replyUnended(
  response: ServerResponse, answer: Answer, close: boolean,
): Promise<void> {
  writeHead(response, answer, close);
  return new Promise((resolve) => response.write(answer.body, () => resolve()));
}

/** The whole answer as text, for what node's parser refuses: there is no ServerResponse then. */
export function rawReply({ status, body, headers }: Answer): string {
  const fields = headers.map((text, index) => (index % 2 === 0 ? `${text}: ` : `${text}\r\n`));
  return `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ""}\r\nDate: ${new Date().toUTCString()}\r\n`
    + `Content-Type: ${mediaType}\r\nContent-Length: ${Buffer.byteLength(body)}\r\n`
    + `${fields.join("")}Connection: close\r\n\r\n${body}`;
}

/** Closes as who still sends expects: FIN now, and gone when the client closes, or in time. */
export function closeGently(socket: Duplex, millis: number): void {
  socket.end();
  const timer = setTimeout(() => socket.destroy(), millis);
  socket.once("close", () => clearTimeout(timer));
}

function writeHead(response: ServerResponse, answer: Answer, close: boolean): void {
  const length = String(Buffer.byteLength(answer.body));
  const fields = ["Content-Type", mediaType, "Content-Length", length, ...answer.headers];
  if (close) fields.push("Connection", "close");
  response.writeHead(answer.status, fields);
}
