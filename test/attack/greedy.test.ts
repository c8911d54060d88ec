/**
 * Greedy clients: they take memory by not reading, and connections by sending slowly.
 * PLANT_TEST_ROUNDS, whatever its value: more clients, and floods of other requests.
 */
import assert from "node:assert/strict";
import type { Socket } from "node:net";
import { join } from "node:path";
import { test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import type { Limits } from "../../src/config.ts";
import { plant } from "../support/requests.ts";
import { opened, readAnswers } from "../support/exchange.ts";
import { closed, type Ends, hosted, open, serve } from "../support/serving.ts";
import { post, socketFolder } from "../support/support.ts";
import { seconds, until } from "../support/until.ts";

const timeout = seconds(60);
const isLong = process.env["PLANT_TEST_ROUNDS"] !== undefined;

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;

/**
 * What is in use after a collection: the heap, and buffers outside of it. Some versions of V8 free
 * these only when the collector runs again, a turn later.
 */
async function bytesInUse(): Promise<number> {
  collect();
  await turn();
  collect();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

const small = Buffer.from("GET /x HTTP/1.1\r\nHost: a\r\n\r\n");
const floods: readonly (readonly [
  says: string,
  bytes: Buffer,
  first?: string
])[] = [
  ["plants", Buffer.from(plant)],
  ["refused requests", small],
  [
    "requests after the last response",
    small,
    "GET /x HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"
  ],
  [
    "refused bodies",
    Buffer.from("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nabcde")
  ],
  ["plants of 100 KB", post(`{"id":1,"name":"${"x".repeat(100_000)}"}`)]
];
/** Waits until a server has read nothing more in some turns. */
const stopped = (sockets: readonly Socket[]): Promise<void> =>
  until("the server reads no more", async () => {
    const count = () => sockets.reduce((sum, each) => sum + each.bytesRead, 0);
    const before = count();
    for (let turns = 0; turns < 200; turns++) await turn();
    return count() === before;
  });

// The system keeps far less of a Unix socket's bytes than of a TCP connection's.

/** It keeps nothing. */
const store = { append: async () => undefined, close: async () => undefined };

for (const [says, bytes, first = ""] of floods.slice(0, isLong ? 5 : 1)) {
  test(
    `a client that pipelines ${says} and never reads takes bounded memory`,
    { timeout },
    async () => {
      const path = join(socketFolder(), "socket");
      const { server } = await serve({
        store,
        path,
        limits: { idleMillis: seconds(2), checkMillis: 100 }
      });
      const { client, ours } = await open(server, path);
      const before = await bytesInUse();
      const block = Buffer.concat(
        Array<Buffer>(Math.ceil(65_536 / bytes.length)).fill(bytes)
      );
      const write = (): void => {
        while (client.writable && client.write(block));
      };
      client.write(first);
      client.on("drain", write);
      write();
      await stopped([ours]);
      const grown = (await bytesInUse()) - before;
      assert.ok(ours.bytesRead < 64 * 2 ** 20, `${ours.bytesRead} are read`);
      assert.ok(grown < 16 * 2 ** 20, `${grown} bytes more`);
      await closed(ours);
      client.destroy();
      const next = (await open(server, path)).client.resume();
      next.end(plant);
      assert.equal((await readAnswers(next, 1))[0]?.status, 200);
    }
  );
}

const clients = isLong ? 40 : 4;
test(
  `${clients} clients that read no responses to large plants take at most five bodies each, after a collection`,
  { timeout },
  async (t) => {
    const bodyBytes = 2 ** 20;

    // One character beyond Latin-1 makes V8 take two bytes for each of the others.
    const start = '{"id":1,"name":"\u{1f33f}';
    const end = '"}';
    const filling = bodyBytes - Buffer.byteLength(start + end);
    const large = post(start + "x".repeat(filling) + end);

    const path = join(socketFolder(), "socket");
    const { server } = await serve({ store, path });
    const all: Ends[] = [];
    for (let count = 0; count < clients; count++)
      all.push(await open(server, path));
    const before = await bytesInUse();
    for (const { client } of all)
      for (let times = 0; times < 12; times++) client.write(large);
    await stopped(all.map(({ ours }) => ours));
    // What a socket has not sent yet is in use beside that.
    const unsent = all.reduce((sum, { ours }) => sum + ours.writableLength, 0);
    const kept = (await bytesInUse()) - before + unsent;
    const bodies = kept / (clients * bodyBytes);
    t.diagnostic(`${bodies.toFixed(1)} bodies for each client`);
    assert.ok(unsent > 0, "the control: responses are kept");
    assert.ok(bodies < 5, `${bodies} bodies`);
    const last = all.pop();
    for (const { client } of all) client.destroy();
    const answers = readAnswers(last?.client.resume() ?? assert.fail(), 12);
    assert.equal((await answers).at(-1)?.status, 200);
  }
);

const head = `POST /plants HTTP/1.1\r\n${hosted}`;
const body = `${head}Content-Length: 1000000\r\n\r\n`;
const chunks = `${head}Transfer-Encoding: chunked\r\n\r\n`;
const refusedBody = `POST /plants HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n`;

// Where one of the limits ends a connection, another one that is an hour has not ended it.
const hour = 3_600_000;
const slow: readonly (readonly [
  limit: string,
  limits: Partial<Limits>,
  drips: readonly (readonly [
    says: string,
    start: string,
    drip: string,
    status: number
  ])[]
])[] = [
  [
    "the head or a refused body",
    { headMillis: 300, requestMillis: hour },
    [
      ["a request line", "POST /", "x", 408],
      ["a field", `${head}X: `, "y", 408],
      ["fields", head, "x:\r\n", 408],
      ["empty lines", "\r\n", "\r\n", 408],
      ["a refused body", refusedBody, " ", 401]
    ]
  ],
  [
    "the request",
    { headMillis: 300, requestMillis: 600 },
    [
      ["a body", body, " ", 408],
      ["chunks", chunks, "1\r\n \r\n", 408],
      ["a chunk", `${chunks}fff\r\n`, " ", 408],
      ["a chunk's extension", `${chunks}1;`, "x", 408],
      ["a trailer", `${chunks}0\r\nX: `, "y", 408]
    ]
  ]
];
const common = {
  checkMillis: 20,
  discardMillis: 400,
  idleMillis: hour,
  headFieldsMax: 900
};

for (const [limit, limits, drips] of slow) {
  test(
    `a client that sends a byte now and then is closed at the limit of ${limit}`,
    { timeout, concurrency: true },
    async (t) => {
      const { port } = await serve({ limits: { ...limits, ...common } });
      await Promise.all(
        drips.map(([says, begin, drip, status]) =>
          t.test(says, async () => {
            const socket = await opened(port, begin);
            const answers = readAnswers(socket, Infinity);
            // The connection is not idle: the limit counts from the request's first byte.
            const dripping = setInterval(
              () => socket.writable && socket.write(drip),
              10
            );
            t.after(() => clearInterval(dripping));
            assert.deepEqual(
              (await answers).map((answer) => answer.status),
              [status]
            );
            clearInterval(dripping);
          })
        )
      );
    }
  );
}
