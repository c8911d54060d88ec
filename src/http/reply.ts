/** The only writer of status, headers and body. */
import { STATUS_CODES, type ServerResponse } from "node:http";
import type { ApiError } from "./errors.ts";

const mediaType = "application/json";

/** Answers a request whose body has been read. */
export function reply(
  response: ServerResponse, status: number, body: string, close: boolean,
  headers: readonly string[] = [],
): void {
  writeHead(response, status, body, close, headers);
  response.end(body);
}

/**
 * Answers while the body may still arrive: the answer leaves at once, but stays unended. At its
 * end node would cut the connection, and the client's unread bytes would reset it before the
 * answer is seen (RFC 9112, 9.6).
 * @param written called when the answer has left
 */
export function replyUnended(
  response: ServerResponse, error: ApiError, close: boolean, written: () => void,
): void {
  const { status, body, headers } = error;
  writeHead(response, status, body, close, headers);
  if (response.req.method !== "HEAD") {
    response.write(body, written);
    return;
  }
  response.flushHeaders();
  written();
}

/** The whole answer as text, for what node's parser refuses: there is no ServerResponse then. */
export function rawReply({ status, body, headers }: ApiError): string {
  const fields = headers.map((text, index) => (index % 2 === 0 ? `${text}: ` : `${text}\r\n`));
  return `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ""}\r\nDate: ${new Date().toUTCString()}\r\n`
    + `Content-Type: ${mediaType}\r\nContent-Length: ${Buffer.byteLength(body)}\r\n`
    + `${fields.join("")}Connection: close\r\n\r\n${body}`;
}

function writeHead(
  response: ServerResponse, status: number, body: string, close: boolean,
  headers: readonly string[],
): void {
  const length = String(Buffer.byteLength(body));
  const fields = ["Content-Type", mediaType, "Content-Length", length, ...headers];
  if (close) fields.push("Connection", "close");
  response.writeHead(status, fields);
}
