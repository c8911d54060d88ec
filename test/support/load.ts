/** Puts load on a running server, and checks that a journal has what was acknowledged. */
import assert from "node:assert/strict";
import { connect } from "node:net";
import { crc32 } from "node:zlib";
import { post, type Running } from "./support.ts";

/** Returns what is wrong with a journal's bytes. It must have the plants with these ids. */
export function faultsOf(bytes: Buffer, acknowledged: readonly number[]): string[] {
  const lines = bytes.toString().split("\n");
  const faults = lines.pop() === "" ? [] : ["it does not end in LF"];
  const found = new Set<number>();
  for (const [n, line] of lines.entries()) {
    const [, start = "", crc = ""] = /^(.*),"crc":"([\da-f]{8})"\}$/.exec(line) ?? [];
    if (crc32(start).toString(16).padStart(8, "0") !== crc) {
      faults.push(`line ${n + 1} is not whole`);
    } else if (n > 0) {
      const { seq, plant } = JSON.parse(line) as { seq: number; plant: { id: number } };
      if (seq !== n) faults.push(`line ${n + 1} has seq ${seq}`);
      found.add(plant.id);
    }
  }
  const lost = acknowledged.filter((id) => !found.has(id));
  return lost.length === 0 ? faults : [...faults, `lost: ${lost.join()}`];
}

/**
 * Posts plants over 32 connections, each after the response to the one before, and kills the server
 * when `killAt` are acknowledged. Returns the acknowledged ids and the number without a response.
 */
export async function load(
  server: Running, firstId: number, killAt: number,
  nameOf = (id: number): string => "Fern ".repeat(id % 300), aim = (): void => undefined,
) {
  const acknowledged: number[] = [];
  let nextId = firstId;
  let unanswered = 0;
  const refusals: string[] = [];
  const connection = async (): Promise<void> => {
    const socket = connect(server.port, "127.0.0.1");
    let id = 0;
    const send = (): void => {
      id = nextId++;
      socket.write(post(JSON.stringify({ id, name: nameOf(id) })));
    };
    let text = "";
    socket.on("connect", send).on("error", () => undefined).on("data", (chunk) => {
      text += chunk.toString("latin1");
      const end = text.indexOf("\r\n\r\n") + 4;
      const length = Number(/content-length: (\d+)/i.exec(text)?.[1]);
      if (end < 4 || text.length < end + length) return;
      if (text.startsWith("HTTP/1.1 200 ")) acknowledged.push(id);
      else refusals.push(text);
      text = "";
      if (acknowledged.length === killAt) {
        aim();
        server.process.kill("SIGKILL");
      }
      send();
    });
    await new Promise((resolve) => socket.on("close", resolve));
    unanswered++;
  };
  await Promise.all(Array.from({ length: 32 }, connection));
  assert.deepEqual(refusals, []);
  assert.equal(await server.end("SIGKILL"), null);
  assert.equal(server.process.signalCode, "SIGKILL");
  return { acknowledged, nextId, unanswered };
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

  /** Posts over 32 connections; kills the server when so many more are acknowledged. */
  async killAfter(server: Running, more: number): Promise<void> {
    const killAt = this.acknowledged.length + more;
    const next = (): number => this.#pending.shift() ?? this.#nextId++;
    await Promise.all(Array.from({ length: 32 }, () => this.#connect(server, next, () => {
      if (this.acknowledged.length === killAt) server.process.kill("SIGKILL");
    })));
    assert.equal(await server.end("SIGKILL"), null);
  }

  /** Sends what has no 200 yet. */
  async finish(server: Running): Promise<void> {
    while (this.#pending.length > 0) {
      await this.#connect(server, () => this.#pending.shift(), () => undefined);
    }
  }

  /** Sends one plant after another until there is none, or the connection closes. */
  async #connect(server: Running, next: () => number | undefined, onAcknowledged: () => void) {
    const socket = connect(server.port, "127.0.0.1");
    let id: number | undefined;
    const send = (again?: number): void => {
      id = again ?? next();
      if (id === undefined) return void socket.end();
      this.sent++;
      const key = this.#isKeyed ? `Idempotency-Key: "${id}"\r\n` : "";
      socket.write(post(JSON.stringify({ id, name: "Fern ".repeat(id % 300) }), key));
    };
    let text = "";
    socket.on("connect", () => send()).on("error", () => undefined).on("data", (chunk) => {
      text += chunk.toString("latin1");
      const end = text.indexOf("\r\n\r\n") + 4;
      const length = Number(/content-length: (\d+)/i.exec(text)?.[1]);
      if (end < 4 || text.length < end + length || id === undefined) return;
      const [, status] = /^HTTP\/1\.1 (\d+) /.exec(text) ?? [];
      if (status === "503") this.unavailable++;
      else {
        assert.equal(status, "200", text);
        if (text.includes("Idempotency-Replayed: true")) this.replays++;
        this.acknowledged.push(id);
        id = undefined;
        onAcknowledged();
      }
      text = "";
      send(id);
    });
    await new Promise((resolve) => socket.on("close", resolve));
    if (id !== undefined) this.#pending.push(id);
  }
}
