/** Raw HTTP over sockets: sends bytes as they are, reads responses as strictly as a proxy may, and checks an Error. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, type Server, type Socket } from "node:net";
import { setImmediate } from "node:timers/promises";
import { headersOf, optional } from "./requests.ts";

export interface RawAnswer {
  readonly status: number;
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

export interface ExchangeOptions {
  readonly answers?: number;
  readonly halfClose?: boolean;
  readonly head?: boolean;
  readonly read?:
    ((bytes: number, client: Socket) => Promise<void>) | undefined;
}

/**
 * Sends bytes, and reads until the server closes or `answers` responses have arrived.
 * @param parts written one after another, each in a segment of its own if `read` is given
 * @param read waits until the server has read so many bytes
 */
export async function exchange(
  port: number,
  parts: string | Buffer | readonly (string | Buffer)[],
  {
    answers = Infinity,
    halfClose = false,
    head = false,
    read
  }: ExchangeOptions = {}
): Promise<RawAnswer[]> {
  const socket = connect(port, "127.0.0.1");
  const found = readAnswers(socket, answers, head);
  const list =
    typeof parts === "string" || Buffer.isBuffer(parts) ? [parts] : parts;
  await once(socket, "connect");
  socket.setNoDelay(true);
  for (const part of list) {
    if (!socket.writable) break;
    await new Promise<void>((resolve) =>
      socket.write(part, "latin1", () => resolve())
    );
    await read?.(socket.bytesWritten, socket);
  }
  if (halfClose) socket.end();
  const result = await found;
  socket.destroy();
  return result;
}

/** A connection, with these bytes sent. It may be reset. */
export async function opened(
  port: number,
  bytes: string | Buffer = ""
): Promise<Socket> {
  const socket = connect(port, "127.0.0.1").on("error", () => undefined);
  await once(socket, "connect");
  socket.write(bytes);
  return socket;
}

/** Sends bytes; the first response to them. */
export async function answerTo(
  port: number,
  bytes: string | Buffer,
  head = false
): Promise<RawAnswer> {
  const [answer] = await exchange(port, bytes, { answers: 1, head });
  return answer ?? assert.fail("no response arrived");
}

/** Reads responses from a socket, 1xx included. With `head` they have no body. */
export function readAnswers(
  socket: Socket,
  answers: number,
  head = false
): Promise<RawAnswer[]> {
  return new Promise((resolve) => {
    let bytes = Buffer.alloc(0);
    const found: RawAnswer[] = [];
    const finish = (): void => resolve(found);
    socket.on("data", (chunk: Buffer) => {
      bytes = Buffer.concat([bytes, chunk]);
      for (;;) {
        const end = bytes.indexOf("\r\n\r\n");
        if (end < 0) break;
        const [line = "", ...fields] = bytes
          .toString("latin1", 0, end)
          .split("\r\n");
        assert.match(line, /^HTTP\/1\.1 \d{3} [ -~]+$/);
        const headers = Object.fromEntries(
          fields.map((field) => {
            const [, name = "", value = ""] =
              /^([\w-]+): ([ -~]+)$/.exec(field) ?? assert.fail(field);
            return [name.toLowerCase(), value];
          })
        );
        assert.equal(Object.keys(headers).length, fields.length, "each once");
        const length = head ? 0 : Number(headers["content-length"] ?? 0);
        if (bytes.length < end + 4 + length) break;
        const body = bytes.toString("utf8", end + 4, end + 4 + length);
        found.push({ status: Number(line.split(" ")[1]), headers, body });
        bytes = bytes.subarray(end + 4 + length);
        if (found.length >= answers) finish();
      }
    });
    socket.on("close", finish);
    socket.on("error", finish);
  });
}

/** Returns a `read` for `exchange` with a server in this process. Call it before connecting. */
export function reader(server: Server): NonNullable<ExchangeOptions["read"]> {
  const sockets: Socket[] = [];
  server.on("connection", (socket: Socket) => void sockets.push(socket));
  return async (bytes, client) => {
    const ours = (): Socket | undefined =>
      sockets.find(({ remotePort }) => remotePort === client.localPort);
    // A socket that is paused or closed reads no more.
    for (let turns = 0; turns < 500; turns++) {
      if ((ours()?.bytesRead ?? 0) >= bytes) return;
      await setImmediate();
    }
  };
}

/** Checks what every response of 400 or more has in common. Returns its number and message. */
export function assertError(
  answer: RawAnswer | undefined,
  statuses: readonly number[]
): { readonly error: number; readonly message: string } {
  assert.ok(answer, "no response arrived");
  const { status, headers, body } = answer;
  assert.ok(
    statuses.includes(status),
    `${status} instead of ${statuses.join(" or ")}: ${body}`
  );
  assert.equal(headers["content-type"], "application/json");
  assert.equal(headers["content-length"], String(Buffer.byteLength(body)));
  assert.match(
    headers["date"] ?? "",
    /^\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT$/
  );
  assert.match(body, /^\{[^\n]*\}\n$/, "one line, and its LF");
  const answered = JSON.parse(body) as {
    readonly error: number;
    readonly message: string;
  };
  assert.deepEqual(Object.keys(answered).sort(), ["error", "message"]);
  assert.equal(Math.floor(answered.error / 100), status);
  assert.match(answered.message, /^[A-Z][^\0-\x1f\x7f]{1,498}[.…]$/);
  const expected = headersOf(answered.error);
  for (const name of optional)
    assert.equal(headers[name], expected[name], `${name}, ${answered.error}`);
  return answered;
}
