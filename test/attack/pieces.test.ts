/**
 * A request that is split at any byte, into segments or chunks, gets the same response. The largest
 * body of every shape gets a 200 or 400, within the time of a test and a small heap.
 * PLANT_TEST_ROUNDS, whatever its value: split at every byte instead of every fifth, and the bodies
 * of all shapes instead of a third of them.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { NewPlant } from "../../src/index.ts";
import {
  chunk,
  chunked,
  chunks,
  evil,
  length,
  plant,
  request,
  utf8
} from "./hostile.ts";
import { nodes } from "../support/recipes.ts";
import { serve } from "../support/serving.ts";
import { shapes } from "../support/shapes.ts";
import {
  answerTo,
  exchange,
  reader,
  type RawAnswer
} from "../support/exchange.ts";
import { post, startProcess } from "../support/support.ts";
import { seconds } from "../support/until.ts";

const timeout = seconds(60);
const isLong = process.env["PLANT_TEST_ROUNDS"] !== undefined;
const stride = isLong ? 1 : 5;
const kept: NewPlant[] = [];
const store = {
  append: (given: NewPlant) => Promise.resolve(void kept.push(given)),
  close: () => Promise.resolve()
};
const { server, port } = await serve({ store });
const read = reader(server);

/** The responses, without the value of Date, and the stored plants, as text. */
async function outcome(parts: readonly string[]): Promise<string> {
  kept.length = 0;
  const found = await exchange(port, parts, { read });
  const shown = found.map(
    ({ headers: { date, ...headers }, ...response }: RawAnswer) => ({
      ...response,
      headers,
      isDated: date !== undefined
    })
  );
  const stored = kept.map(({ id, name, tag }) => [`${id}`, name, tag]);
  return JSON.stringify({ shown, stored });
}

const fields = "Connection: close\r\n";
const closing = (body: string): string => request({ fields, body });
const inChunks = (body: string): string =>
  request({ fields, coding: "chunked", body });
const fern = utf8(
  '{"id":-12e1,"name":"F\u00e4rn \u{1f33f}\\ud83c\\udf3f\\n","tag":"t","x":[true,null]}'
);

const bodies: readonly (readonly [
  what: string,
  body: string,
  status: number
])[] = [
  ["a plant of all kinds of characters", fern, 200],
  ["malformed JSON", '{"id":1,"name":"a",}', 400],
  ["half a pair", '{"id":1,"name":"\\ud83cx"}', 400],
  ["not UTF-8", '{"name":"\xe2\x82"}', 400],
  ["a name twice", '{"id":1,"name":"a","\\u0069d":2}', 400],
  ["not a plant", '{"id":1.5,"tag":2}', 400],
  ["two texts", '{"id":1,"name":"a"}{}', 400],
  ["an open number", '{"id":1e', 400]
];

for (const [what, body, status] of bodies) {
  test(
    `split anywhere, into segments and into chunks: ${what}`,
    { timeout },
    async () => {
      const whole = await outcome([closing(body)]);
      assert.match(whole, new RegExp(`^\\{"shown":\\[\\{"status":${status},`));
      const bytes = closing(body);
      for (
        let at = bytes.length - body.length - 4;
        at < bytes.length;
        at += stride
      ) {
        assert.equal(
          await outcome([bytes.slice(0, at), bytes.slice(at)]),
          whole,
          `segment ${at}`
        );
      }
      for (let at = 1; at < body.length; at += stride) {
        const parts = [body.slice(0, at), body.slice(at)];
        const text = inChunks(`${parts.map(chunk).join("")}0\r\n\r\n`);
        assert.equal(await outcome([text]), whole, `chunk ${at}`);
      }
      const single = inChunks(`${[...body].map(chunk).join("")}0\r\n\r\n`);
      assert.equal(await outcome([single]), whole);
      assert.equal(await outcome([...closing(body)]), whole, "byte by byte");
      assert.equal(
        await outcome([...single]),
        whole,
        "byte by byte, a chunk each"
      );
    }
  );
}

/** Whole messages, with all that a header section and a chunked body may have, valid or not. */
const messages: readonly (readonly [
  what: string,
  bytes: string,
  status: number
])[] = [
  [
    "extensions and a trailer",
    inChunks(
      `5;a=b;c="d"\r\n${evil.slice(0, 5)}\r\n` +
        `${chunks(evil.slice(5)).slice(0, -2)}X: y\r\n\r\n`
    ),
    200
  ],
  ["an empty line first", `\r\n${closing(evil)}`, 200],
  [
    "an Upgrade",
    request({ fields: "Connection: upgrade\r\nUpgrade: a\r\n" }),
    200
  ],
  ["two Hosts", request({ host: "Host: a\r\nHost: a\r\n" }), 400],
  ["a bare LF", request({ fields: "X: y\n" }), 400],
  ["obs-fold", request({ fields: "X: y\r\n z\r\n" }), 400],
  [
    "a coding and a length",
    request({ framing: chunked + length, body: chunks(evil) }),
    400
  ],
  ["two codings", request({ coding: "gzip, chunked" }), 501],
  ["HTTP/2.0", request({ version: "HTTP/2.0" }), 505],
  ["a chunk without a size", inChunks(`x\r\n${evil}\r\n0\r\n\r\n`), 400],
  ["a chunk too small", inChunks(`5\r\n${evil}\r\n0\r\n\r\n`), 400],
  ["garbage", "garbage garbage\r\n\r\n", 400],
  ["no token", request({ fields, authorization: "" }), 401]
];
for (const [what, bytes, status] of messages) {
  test(`split at any byte: ${what}`, { timeout }, async () => {
    const whole = await outcome([bytes]);
    assert.match(whole, new RegExp(`^\\{"shown":\\[\\{"status":${status},`));
    for (let at = 1; at < bytes.length; at += stride) {
      assert.equal(
        await outcome([bytes.slice(0, at), bytes.slice(at)]),
        whole,
        `at ${at}`
      );
    }
    assert.equal(await outcome([...bytes]), whole, "byte by byte");
  });
}

test(
  "two pipelined requests, split anywhere, get two responses",
  { timeout },
  async () => {
    const first = request({ body: plant(1) });
    const both = first + closing(plant(2));
    const whole = await outcome([both]);
    assert.equal(kept.length, 2);
    // Every byte around the end of the first request, and each fifth elsewhere.
    for (
      let at = 1;
      at < both.length;
      at += Math.abs(at - first.length) < 20 ? 1 : 5
    ) {
      assert.equal(
        await outcome([both.slice(0, at), both.slice(at)]),
        whole,
        `at ${at}`
      );
    }
  }
);

/** A body that takes 100 times its size in memory ends the process: its heap has 64 MiB. */
const nodeArgs = ["--max-old-space-size=64"];

/** A shape that costs the square of its size would take hours, and run into the time-out. */
const tried = shapes.filter((_, index) => isLong || index % 3 === 2);
for (const { path: node, version } of nodes) {
  const title = `${version} with a heap of 64 MiB responds to the largest body of ${tried.length} shapes`;
  test(title, { timeout }, async () => {
    const running = await startProcess({ node, nodeArgs });
    for (const [what, body] of tried) {
      const bytes = Buffer.from(body(1_048_576 - 100)).subarray(0, 1_048_576);
      const { status } = await answerTo(running.port, post(bytes));
      assert.ok(status === 200 || status === 400, `${what}: ${status}`);
    }
    assert.equal(await running.end(), 0);
    assert.equal(running.stderr(), "");
  });
}
