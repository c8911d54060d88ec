/** The one request of every run, and a small HTTP client on a raw keep-alive connection. */
import { connect, type Socket } from "node:net";

export const token = "bench-token";
export const body = '{"id":9007199254740993,"name":"Fern","tag":"shade"}';
export const request = Buffer.from(
  "POST /plants HTTP/1.1\r\nHost: 127.0.0.1\r\n" +
    `Authorization: Bearer ${token}\r\nContent-Type: application/json\r\n` +
    `Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`
);

export interface Answer {
  /** 0: the connection ended without one. */
  readonly status: number;
  readonly body: string;
}

/** Sends one request at a time; `onResponse` is called with each response. */
export class Client {
  readonly socket: Socket;
  #text = "";
  #onResponse: ((answer: Answer) => void) | undefined;

  constructor(port: number) {
    this.socket = connect({ port, host: "127.0.0.1", noDelay: true });
    this.socket
      .setEncoding("latin1")
      .on("data", (text: string) => this.#take(text));
    this.socket.on("error", () => undefined);
    this.socket.on("close", () => this.#settle({ status: 0, body: "" }));
  }

  send(onResponse: (answer: Answer) => void): void {
    if (this.socket.destroyed) return onResponse({ status: 0, body: "" });
    this.#onResponse = onResponse;
    this.socket.write(request);
  }

  #take(text: string): void {
    this.#text += text;
    const end = this.#text.indexOf("\r\n\r\n");
    if (end < 0) return;
    const length = Number(
      /\r\ncontent-length: *(\d+)/i.exec(this.#text)?.[1] ?? 0
    );
    if (this.#text.length < end + 4 + length) return;
    const [whole, status] = [this.#text, Number(this.#text.slice(9, 12))];
    this.#text = "";
    this.#settle({ status, body: whole.slice(end + 4) });
  }

  #settle(answer: Answer): void {
    const onResponse = this.#onResponse;
    this.#onResponse = undefined;
    onResponse?.(answer);
  }
}

export function askOnce(port: number): Promise<Answer> {
  const client = new Client(port);
  return new Promise((resolve) =>
    client.send((answer) => {
      client.socket.destroy();
      resolve(answer);
    })
  );
}
