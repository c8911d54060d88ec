/** Puts load on a running server. */
import assert from "node:assert/strict";
import { connect } from "node:net";
import { post, type Running } from "./support.ts";

/** Sends requests over one connection, each after the response to the one before it, until there is
 * none, or the connection closes. */
export async function sendInTurn(
  port: number,
  next: () => Buffer | undefined,
  onAnswer: (answer: string) => Promise<void> | void
): Promise<void> {
  const socket = connect(port, "127.0.0.1").setEncoding("latin1");
  const send = (): void => {
    const bytes = next();
    if (bytes) socket.write(bytes);
    else socket.end();
  };
  let text = "";
  socket
    .on("connect", send)
    .on("error", () => undefined)
    .on("data", (chunk: string) => {
      text += chunk;
      const end = text.indexOf("\r\n\r\n") + 4;
      const length = Number(/content-length: (\d+)/i.exec(text)?.[1]);
      if (end < 4 || text.length < end + length) return;
      const answer = text;
      text = "";
      void Promise.resolve(onAnswer(answer)).then(send);
    });
  // Whether it was reset or closed: what counts is what was answered.
  await new Promise((resolve) => socket.on("close", resolve));
}

/** Clients that send each plant until they get a 200, with a key or without one. */
export class RetryingClients {
  readonly acknowledged: number[] = [];
  replays = 0;
  unavailable = 0;
  sent = 0;
  readonly #isKeyed: boolean;
  /** Plants that were sent and have no 200. */
  readonly #pending: number[] = [];
  #nextId = 1;

  constructor(isKeyed: boolean) {
    this.#isKeyed = isKeyed;
  }

  /** Posts over so many connections; kills the server when so many more are acknowledged. */
  async killAfter(
    server: Running,
    more: number,
    connections = 32
  ): Promise<void> {
    const killAt = this.acknowledged.length + more;
    const next = (): number => this.#pending.shift() ?? this.#nextId++;
    await Promise.all(
      Array.from({ length: connections }, () =>
        this.#connect(server, next, () => {
          if (this.acknowledged.length === killAt) server.signal("SIGKILL");
        })
      )
    );
    assert.equal(await server.end("SIGKILL"), null);
  }

  /** Sends what has no 200 yet. */
  async finish(server: Running): Promise<void> {
    while (this.#pending.length > 0) {
      await this.#connect(
        server,
        () => this.#pending.shift(),
        () => undefined
      );
    }
  }

  /** Sends one plant after another until there is none, or the connection closes. */
  async #connect(
    server: Running,
    next: () => number | undefined,
    onAcknowledged: () => void
  ) {
    let id: number | undefined;
    await sendInTurn(
      server.port,
      () => {
        id ??= next();
        if (id === undefined) return undefined;
        this.sent++;
        const key = this.#isKeyed ? `Idempotency-Key: "${id}"\r\n` : "";
        return post(
          JSON.stringify({ id, name: "Fern ".repeat(id % 300) }),
          key
        );
      },
      (answer) => {
        if (answer.startsWith("HTTP/1.1 503 ")) return void this.unavailable++;
        assert.match(answer, /^HTTP\/1\.1 200 /);
        if (answer.includes("Idempotency-Replayed: true")) this.replays++;
        this.acknowledged.push(id ?? assert.fail(answer));
        id = undefined;
        onAcknowledged();
      }
    );
    if (id !== undefined) this.#pending.push(id);
  }
}
