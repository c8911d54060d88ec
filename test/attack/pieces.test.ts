/**
 * A body that is split at any byte, into segments or chunks, gets the same response; fuzz.test.ts
 * splits whole requests. The largest body of every shape gets a 200 or 400, within the time of a
 * test and a small heap.
 * PLANT_TEST_ROUNDS, whatever its value: all bodies, split at every byte instead of every fifth, and
 * the bodies of all shapes instead of a sixth of them.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { NewPlant } from "../../src/index.ts";
import { chunk, request, utf8 } from "./hostile.ts";
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
  ["not UTF-8", '{"name":"\xe2\x82"}', 400],
  ["malformed JSON", '{"id":1,"name":"a",}', 400],
  ["half a pair", '{"id":1,"name":"\\ud83cx"}', 400],
  ["a name twice", '{"id":1,"name":"a","\\u0069d":2}', 400],
  ["not a plant", '{"id":1.5,"tag":2}', 400],
  ["two texts", '{"id":1,"name":"a"}{}', 400],
  ["an open number", '{"id":1e', 400]
];

for (const [what, body, status] of bodies.slice(0, isLong ? 8 : 2)) {
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

/** A body that takes 100 times its size in memory ends the process: its heap has 64 MiB. */
const nodeArgs = ["--max-old-space-size=64"];

/** A shape that costs the square of its size would take hours, and run into the time-out. */
const tried = shapes.filter((_, index) => isLong || index % 6 === 2);
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
