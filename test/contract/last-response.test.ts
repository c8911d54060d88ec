/** Requests that follow a last response in its segment: node's parser has left the connection. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { connect } from "node:net";
import { join } from "node:path";
import { test } from "node:test";
import { connect as connectTls } from "node:tls";
import { plant } from "../support/requests.ts";
import {
  closed,
  connected,
  type Ends,
  never,
  open,
  readAll,
  send,
  serve,
  statusesOf,
  temporaryTls,
  timeout
} from "../support/serving.ts";
import { answerTo, readAnswers } from "../support/exchange.ts";
import { post, socketFolder } from "../support/support.ts";
import { until } from "../support/until.ts";

const last = `${post('{"id":1,"name":"last"}', "Connection: close\r\n")}`;

/** Requests that have a last response: only the first says so to node's parser. */
const lasts = [
  ["a last plant", last, 200],
  ["a refusal that closes", "GET / HTTP/1.1\r\n\r\n", 400]
] as const;

/** What may follow a last response in its segment. */
const rests: readonly (readonly [says: string, bytes: string])[] = [
  ["requests", `${plant}`.repeat(100)],
  ["half a head", `${plant}`.slice(0, 40)],
  ["a request and half a body", `${plant}`.repeat(2).slice(0, -5)],
  ["a CONNECT", "CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n"],
  ["an Upgrade", "GET / HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n"],
  ["a request and garbage", `${plant}garbage\r\n\r\n`]
];

const limits = { checkMillis: 20, drainMillis: never };
const tls = temporaryTls();

for (const [says, rest] of rests) {
  /** A plant before, a last one, and the rest, while the store holds. */
  const held = async () => {
    const serving = await connected({ limits });
    serving.store.hold();
    await send(serving.ends, `${plant}${last}${rest}`);
    await until("they wait", () => serving.store.waiting === 2);
    return serving;
  };
  const events: readonly (readonly [
    what: string,
    act: (serving: Awaited<ReturnType<typeof held>>) => unknown
  ])[] = [
    ["nothing", () => undefined],
    ["a half-close", ({ ends }) => ends.client.end()],
    ["a drain", ({ server }) => void server.drain()],
    ["more bytes", ({ ends }) => send(ends, `${plant}x`.repeat(1_000))]
  ];
  for (const [what, act] of events)
    test(
      `${says} after a last response, and ${what}, leave all responses`,
      { timeout },
      async () => {
        const serving = await held();
        const text = readAll(serving.ends);
        await act(serving);
        serving.store.release();
        assert.deepEqual(statusesOf(await text), [200, 200]);
        await closed(serving.ends.ours);
        assert.equal(serving.store.names.length, 2);
      }
    );

  for (const [what, bytes, status] of lasts)
    test(
      `${says} after ${what}, and a reset, end nothing`,
      { timeout },
      async () => {
        const { ends, port } = await connected({ limits });
        const first = once(ends.client, "data");
        ends.client.resume();
        await send(ends, `${bytes}${rest}`);
        assert.match(String(await first), RegExp(`^HTTP/1.1 ${status} `));
        ends.client.resetAndDestroy();
        await closed(ends.ours);
        assert.equal((await answerTo(port, plant)).status, 200);
      }
    );

  for (const [what, over] of [
    ["a Unix socket", { path: join(socketFolder(), "s") }],
    ["TLS", { tls }]
  ] as const)
    test(
      `${says} after a last response over ${what}, and a drain, leave all responses`,
      { timeout },
      async () => {
        const { server, port, store } = await serve({ ...over, limits });
        store.hold();
        const client =
          "tls" in over
            ? connectTls({ port, rejectUnauthorized: false })
            : connect(over.path);
        const answers = readAnswers(client, Infinity);
        client.write(`${plant}${last}${rest}`);
        await until("they wait", () => store.waiting === 2);
        void server.drain();
        store.release();
        assert.deepEqual(
          (await answers).map(({ status }) => status),
          [200, 200]
        );
      }
    );
}

test(
  "a host's listener to upgrade gets no request that follows a last response",
  { timeout },
  async () => {
    const { server, port, store } = await serve();
    let upgrades = 0;
    server.on("upgrade", (_, socket) => {
      upgrades++;
      socket.end("HTTP/1.1 101 Switching Protocols\r\n\r\n");
    });
    const ends: Ends = await open(server, port);
    const text = readAll(ends);
    await send(ends, last + rests.map(([, rest]) => rest).join(""));
    assert.deepEqual(statusesOf(await text), [200]);
    assert.equal(upgrades, 0);
    const other = await open(server, port);
    other.client.resume().write(rests.at(-2)?.[1] ?? "");
    await once(other.client, "end");
    assert.equal(upgrades, 1, "the control: it gets others");
    assert.equal(store.names.length, 1);
  }
);
