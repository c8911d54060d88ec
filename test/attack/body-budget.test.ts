/** All bodies together stay within their limit: the largest one is refused, not the newest. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { limitTable } from "../../src/config.ts";
import { BodyBudget } from "../../src/http/body.ts";
import type { DrainableServer } from "../../src/index.ts";
import { fern } from "../support/requests.ts";
import {
  type Ends,
  open,
  readAll,
  send,
  serve,
  statusesOf
} from "../support/serving.ts";
import { answerTo, readAnswers } from "../support/exchange.ts";
import { post, token } from "../support/support.ts";
import { seconds } from "../support/until.ts";

const timeout = seconds(60);
const mib = 1_048_576;
const head =
  `POST /plants HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${token}\r\n` +
  "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
const lastChunk = "0\r\n\r\n";

/** A request with this many bytes of a body, without its end. */
const unended = (bytes: number): string =>
  `${head}${bytes.toString(16)}\r\n${fern.padEnd(bytes).slice(0, bytes)}\r\n`;
async function upload(
  server: DrainableServer,
  port: number,
  bytes: number
): Promise<Ends> {
  const ends = await open(server, port);
  await send(ends, unended(bytes));
  return ends;
}

/** Ends the body, and returns the status of the response. */
async function finish(ends: Ends): Promise<number | undefined> {
  const answered = readAnswers(ends.client.resume(), 1);
  ends.client.write(lastChunk);
  const [answer] = await answered;
  ends.client.destroy();
  return answer?.status;
}

const small = [22, 100, 1_000, 30_000, 65_536];

/**
 * 16 uploads send 1 MiB less a byte each, again before each of 40 small bodies. Returns the statuses
 * of the small bodies, and how many uploads got a response.
 */
async function besideTheGreedy() {
  const { server, port } = await serve({
    limits: { bodiesBytesMax: 16 * mib }
  });
  const uploads: Ends[] = [];
  for (let begun = 0; begun < 15; begun++)
    uploads.push(await upload(server, port, mib - 1));
  const statuses: unknown[] = [];
  for (let round = 0; round < 40; round++) {
    // It takes the last room, or is refused itself if there is none.
    uploads.push(await upload(server, port, mib - 1));
    const body = fern.padEnd(small[round % small.length] ?? 0);
    statuses.push((await answerTo(port, post(body))).status);
  }
  const refused = uploads.filter(({ ours }) => ours.bytesWritten > 0).length;
  server.closeAllConnections();
  return { statuses, refused };
}

const limits = { bodiesBytesMax: 300, bodyBytesMax: 290 };
const { server, port } = await serve({ limits });

test(
  "16 unfinished uploads of 1 MiB never refuse a small body",
  { timeout },
  async () => {
    const { statuses, refused } = await besideTheGreedy();
    assert.deepEqual(statuses, Array(40).fill(200));
    assert.ok(refused > 20, `the control: the room was full: ${refused}`);
  }
);

test("a share of the limit is room enough for a connection, however many there are", () => {
  const share =
    limitTable.bodiesBytesMax.defaultValue /
    limitTable.connectionsMax.defaultValue;
  assert.equal(share, Math.max(...small));
});

/** Begins bodies of these sizes, then ends all; their statuses in order. */
async function statusesOfBodies(
  ...sizes: readonly number[]
): Promise<readonly unknown[]> {
  const uploads: Ends[] = [];
  for (const bytes of sizes) uploads.push(await upload(server, port, bytes));
  const statuses: unknown[] = [];
  for (const ends of uploads) statuses.push(await finish(ends));
  return statuses;
}

test(
  "a byte over the limit the largest body is refused, on a tie the one that asks for more",
  { timeout },
  async () => {
    assert.deepEqual(await statusesOfBodies(100, 150, 50), [200, 200, 200]);
    assert.deepEqual(await statusesOfBodies(100, 150, 51), [200, 503, 200]);
    assert.deepEqual(await statusesOfBodies(149, 149, 149), [200, 200, 503]);
  }
);

test("bytes that are counted twice are an internal error, not an endless search", () => {
  const budget = new BodyBudget(10);
  const body = {
    bytes: 0,
    refuse: () => {
      body.bytes = 0;
      budget.release(body);
    }
  };
  assert.throws(() => budget.add(body, 11), /a body was counted twice/);
});

test(
  "a body in one piece is limited, too: at the limit, and a byte over it",
  { timeout },
  async () => {
    for (const [bytes, status] of [
      [278, 200],
      [279, 503]
    ] as const) {
      const unfinished = await upload(server, port, bytes);
      assert.equal((await answerTo(port, post(fern))).status, 200);
      assert.equal(await finish(unfinished), status);
    }
    const most = await upload(server, port, 200);
    for (const [bytes, status] of [
      [100, 200],
      [290, 503]
    ] as const) {
      assert.equal(
        (await answerTo(port, post(fern.padEnd(bytes)))).status,
        status
      );
    }
    assert.equal(await finish(most), 200);
  }
);

test(
  "the bytes of a connection are released once, however it ends",
  { timeout },
  async (t) => {
    const begun = unended(200);
    for (const [says, use] of [
      [
        "after bodies in two pieces",
        async (ends: Ends) => {
          const answers = readAnswers(ends.client.resume(), 20);
          for (let body = 0; body < 20; body++) {
            await send(ends, begun);
            await send(ends, lastChunk);
          }
          assert.equal((await answers).length, 20);
          assert.ok(
            ends.ours.listenerCount("close") < 10,
            "a listener stays after a body"
          );
        }
      ],
      ["within a body", (ends: Ends) => send(ends, begun)],
      [
        "within a body, after another",
        async (ends: Ends) => {
          await send(ends, begun);
          await send(ends, lastChunk + begun);
        }
      ],
      [
        "within a body that is too large",
        (ends: Ends) => send(ends, unended(291))
      ],
      [
        "within a body that was refused",
        async (ends: Ends) => {
          const before = await upload(server, port, 140);
          await send(ends, begun);
          assert.equal(await finish(before), 200);
        }
      ]
    ] as const) {
      await t.test(says, async () => {
        const ends = await open(server, port);
        await use(ends);
        ends.client.destroy();
        if (!ends.ours.closed)
          await new Promise((resolve) => ends.ours.once("close", resolve));
        assert.deepEqual(await statusesOfBodies(200, 100), [200, 200]);
        assert.deepEqual(await statusesOfBodies(200, 100, 1), [503, 200, 400]);
      });
    }
  }
);

test(
  "the largest body gets a 503, and its connection closes",
  { timeout },
  async () => {
    const most = await upload(server, port, 290);
    const answered = readAll(most);
    assert.equal((await answerTo(port, post(fern))).status, 200);
    const text = await answered;
    assert.deepEqual(statusesOf(text), [503]);
    assert.match(text, /^Retry-After: 1\r$/m);
    assert.match(text, /^Connection: close\r$/m);
    assert.match(text, /\{"error":50304,/);
  }
);
