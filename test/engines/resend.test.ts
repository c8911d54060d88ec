/** When a message is sent again, and what an append that is given up becomes. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { describe, test } from "node:test";
import { encodeMessage } from "../../src/engines/message.ts";
import type { NatsLimits, NatsStore } from "../../src/engines/nats.ts";
import { exportStream } from "../../src/program/transfer.ts";
import { StoreError } from "../../src/store.ts";
import { temporaryFolder } from "../support/support.ts";
import { rightStream, until } from "./cluster.ts";
import { ack, Fake, nobody, openFake } from "./fake.ts";
import type { Script } from "./fake.ts";

const timeout = 30_000;

/** "stored", or the code of the StoreError. */
const append = (store: NatsStore, name = "Fern"): Promise<string> =>
  store.append({ id: 1n, name }).then(() => "stored",
    (error: unknown) => (error instanceof StoreError ? error.code : `fault: ${String(error)}`));

async function open(script: Script, limits: Partial<NatsLimits> = {}) {
  const fake = await Fake.start(script);
  const warnings: string[] = [];
  const store = await openFake([fake], { limits, warn: (line) => warnings.push(line) });
  return { fake, store, warnings };
}

const duplicate = ',"duplicate":true';
const idOf = (headers = ""): string => /^Nats-Msg-Id: (\S+)\.\d+\r$/m.exec(headers)?.[1] ?? "";

/** The response to STREAM.MSG.GET, as a server writes it. */
const stored = (seq: number, headers: string, payload: string): string => JSON.stringify({
  type: "io.nats.jetstream.api.v1.stream_msg_get_response",
  message: { subject: "plants", seq, hdrs: Buffer.from(headers, "latin1").toString("base64"),
    data: Buffer.from(payload).toString("base64"), time: "2026-11-21T10:47:01.516123456Z" },
});

const holding = (count: number) =>
  ({ config: rightStream("plants"), state: { messages: count, last_seq: count } });

describe("a message without a response", { timeout }, () => {
  test("is not sent again on the same connection: a copy would only wait for the original", async () => {
    const connections: number[] = [];
    const { store } = await open({
      onPlant: (_, count, fake) => {
        connections.push(fake.connections);
        return count === 1 ? undefined : ack(1, duplicate);
      },
    }, { ackTimeoutMillis: 50, noProgressMillis: 400 });
    assert.equal(await append(store), "stored");
    assert.deepEqual(connections, [1, 2]);
  });
  test("is sent again on the same connection once a later message has a response", async () => {
    const { fake, store } = await open({
      onPlant: (_, count) => (count === 1 ? undefined : ack(count, count === 3 ? duplicate : "")),
    }, { noProgressMillis: 5_000 });
    const first = append(store);
    assert.equal(await append(store), "stored");
    assert.equal(await first, "stored");
    assert.equal(fake.connections, 1);
    assert.equal(fake.plants.length, 3);
  });
  test("that no server ever took is not stored, however long there is no leader", async () => {
    const { fake, store } = await open({ onPlant: ({ reply }) => nobody(reply) },
      { appendMillis: 900, noProgressMillis: 200 });
    const outcomes = await Promise.all(Array.from({ length: 200 }, () => append(store)));
    assert.deepEqual(new Set(outcomes), new Set(["unreachable"]));
    assert.ok(fake.connections > 1, "the connection was left");
  });
});

describe("a slow link", { timeout }, () => {
  test("delivers a message that takes longer than every time limit, and it is asked for once", async () => {
    const payload = encodeMessage("2026-11-21T10:47:01.578Z", '{"id":1,"name":"Fern"}').toString();
    let isDone = false;
    const fake = await Fake.start({
      stream: holding(1),
      onPlant: ({ reply }, _, server) => {
        // A PONG can't come within a message.
        server.script = { ...server.script, onPing: "" };
        const text = stored(1, "", payload);
        const pieces = `MSG ${reply} 1 ${text.length}\r\n${text}\r\n`.match(/[^]{1,20}/g) ?? [];
        const timer = setInterval(() => {
          server.say(pieces.shift() ?? "");
          if (pieces.length > 0) return;
          clearInterval(timer);
          server.script = { ...server.script, onPing: "PONG\r\n" };
          isDone = true;
        }, 100);
        return undefined;
      },
    });
    const store = await openFake([fake], { limits: { appendMillis: 500, ackTimeoutMillis: 200,
      noProgressMillis: 300, pingMillis: 100, pingsMissedMax: 3 } });
    const path = join(temporaryFolder(), "slow.ndjson");
    assert.equal(await exportStream(store, path, () => undefined), 1);
    assert.ok(isDone);
    assert.equal(fake.plants.length, 1);
    assert.equal(fake.connections, 1);
  });
  test("delivers what is read in any order, and nothing is asked for twice", async () => {
    const payload = encodeMessage("2026-11-21T10:47:01.578Z", '{"id":1,"name":"Fern"}').toString();
    const later: string[] = [];
    const fake = await Fake.start({
      stream: holding(10),
      onPlant: ({ reply, payload: request }, count, server) => {
        const { seq } = JSON.parse(request) as { seq: number };
        const text = stored(seq, "", payload);
        later.unshift(`MSG ${reply} 1 ${text.length}\r\n${text}\r\n`);
        const timer = count === 10 ? setInterval(() => {
          server.say(later.shift() ?? "");
          if (later.length === 0) clearInterval(timer);
        }, 60) : undefined;
        return undefined;
      },
    });
    const store = await openFake([fake], { limits: { ackTimeoutMillis: 100 } });
    const path = join(temporaryFolder(), "order.ndjson");
    assert.equal(await exportStream(store, path, () => undefined), 10);
    assert.equal(fake.plants.length, 10);
  });
});

describe("a message that is read back", { timeout }, () => {
  test("is never larger than this client can receive: what is acknowledged can be exported", async () => {
    const kept: { headers: string; payload: string }[] = [];
    const fake = await Fake.start({
      onPlant: ({ subject, headers, payload }) => {
        if (!subject.includes("MSG.GET")) return ack(kept.push({ headers, payload }));
        const { seq } = JSON.parse(payload) as { seq: number };
        const found = kept[seq - 1] ?? assert.fail(payload);
        return stored(seq, found.headers, found.payload);
      },
    });
    const messageBytesMax = 16_384;
    const store = await openFake([fake], { limits: { messageBytesMax } });
    const refused: number[] = [];
    for (let length = 0; length < 1.2 * messageBytesMax; length += 7) {
      const outcome = await append(store, "x".repeat(length));
      if (outcome === "tooLarge") refused.push(length);
      else assert.equal(outcome, "stored");
    }
    const [first = 0] = refused;
    assert.ok(first > 0.6 * messageBytesMax && first < 0.75 * messageBytesMax, `${first}`);
    assert.equal(refused.length, Math.ceil((1.2 * messageBytesMax - first) / 7));
    fake.script = { ...fake.script, stream: holding(kept.length) };
    const path = join(temporaryFolder(), "large.ndjson");
    assert.equal(await exportStream(store, path, () => undefined), kept.length);
  });
});

describe("a process that was cloned", { timeout }, () => {
  test("uses the ids of another one: a duplicate of what it sent once is unknown, and ids change", async () => {
    let isCloned = false;
    const { fake, store, warnings } = await open({
      onPlant: (_, count) => (isCloned ? ack(count, duplicate) : ack(count)),
    });
    assert.equal(await append(store), "stored");
    isCloned = true;
    assert.equal(await append(store), "unknown");
    isCloned = false;
    assert.equal(await append(store), "stored");
    const [first, second, third] = fake.plants.map(({ headers }) => idOf(headers));
    assert.match(first ?? "", /^[\da-f]{24}$/);
    assert.equal(second, first);
    assert.notEqual(third, first);
    assert.match(warnings.join("\n"), /another process has used the same message ids/);
  });
  test("does not trust a duplicate of these ids any more, however often a message was sent", async () => {
    const { fake, store } = await open({ onPlant: () => undefined });
    const sent = Array.from({ length: 3 }, () => append(store));
    await until("all are sent", () => fake.plants.length === 3);
    fake.script = { onPlant: (_, count) => ack(count, count <= 7 ? duplicate : "") };
    assert.equal(await append(store), "unknown");
    assert.deepEqual(await Promise.all(sent), ["unknown", "unknown", "unknown"]);
    assert.equal(fake.plants.length, 7);
    assert.equal(await append(store), "stored");
  });
  test("knows the other's message also after attempts that nobody took", async () => {
    const { store } = await open({
      onPlant: ({ reply }, count) => (count < 3 ? nobody(reply) : ack(count, duplicate)),
    });
    assert.equal(await append(store), "unknown");
  });
});

describe("a machine that was suspended", { timeout }, () => {
  for (const [what, millis, outcome, copies] of [
    ["longer than the stream recognises a copy", 13_000, "unknown", 1],
    ["for less", 10_000, "stored", 2],
  ] as const) {
    test(`${what}: ${outcome}`, async (t) => {
      const { fake, store } = await open({
        onPlant: (_, count, server) => {
          if (count > 1) return ack(count, count === copies ? duplicate : "");
          const { now } = Date;
          t.mock.method(Date, "now", () => now() + millis);
          server.cut();
          return undefined;
        },
      });
      assert.equal(await append(store), outcome);
      assert.equal(fake.plants.length, copies);
      t.mock.restoreAll();
      assert.equal(await append(store), "stored");
    });
  }
});

describe("an acknowledgement", { timeout }, () => {
  for (const [numbers, checks] of [[[1, 2, 3], 1], [[5, 5], 2], [[5, 4], 2]] as const) {
    test(`with the numbers ${numbers}: the stream is checked ${checks} times`, async () => {
      let index = 0;
      const { fake, store } = await open({ onPlant: () => ack(numbers[index++] ?? 9) });
      for (const _ of numbers) assert.equal(await append(store), "stored");
      const count = () => (fake.said.join("").match(/STREAM\.INFO/g) ?? []).length;
      await until("it is checked", () => count() >= checks);
      assert.equal(await append(store), "stored");
      assert.equal(count(), checks);
      assert.equal(fake.connections, 1);
    });
  }
});
