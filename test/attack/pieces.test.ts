/** A request in pieces: cut at every byte, over segments and over chunks, it gets one answer.
 * And the largest bodies of every shape: 200 or 400, in the time that a row may take. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { after, test } from "node:test";
import { createPlantServer, type NewPlant } from "../../src/index.ts";
import {
  chunk, chunks, coding, evil, good, host, length, line, plant, sent, utf8,
} from "./hostile.ts";
import { shapes } from "../support/shapes.ts";
import { exchange, post, reader, seeded, start, token, type RawAnswer } from "../support/support.ts";
import { patched } from "../support/tools.ts";

const timeout = 60_000;
const kept: NewPlant[] = [];
const store = {
  append: (given: NewPlant) => Promise.resolve(void kept.push(given)),
  close: () => Promise.resolve(),
};
const server = createPlantServer({ store, tokens: [token] });
await once(server.listen(0, "127.0.0.1"), "listening");
after(() => server.close());
const { port } = server.address() as AddressInfo;
const read = reader(server);

/** The answers, but for their time, and what was stored, as text. */
async function outcome(parts: readonly string[], atPort = port): Promise<string> {
  kept.length = 0;
  const answers = await exchange(atPort, parts, { read });
  const shown = answers.map(({ headers: { date, ...headers }, ...answer }: RawAnswer) =>
    ({ ...answer, headers, isDated: date !== undefined }));
  const stored = kept.map(({ id, name, tag }) => [`${id}`, name, tag]);
  return JSON.stringify({ shown, stored });
}

const bye = `${host}${good}Connection: close\r\n`;
const sized = (body: string): string =>
  `${line}\r\n${bye}Content-Length: ${body.length}\r\n\r\n${body}`;
const chunked = (body: string): string => `${line}\r\n${bye}${coding}\r\n${body}`;
const fern = utf8(
  '{"id":-12e1,"name":"F\u00e4rn \u{1f33f}\\ud83c\\udf3f\\n","tag":"t","x":[true,null]}');

const bodies: readonly (readonly [what: string, body: string, status: number])[] = [
  ["a plant of all kinds of characters", fern, 200], ["no JSON", '{"id":1,"name":"a",}', 400],
  ["half a pair", '{"id":1,"name":"\\ud83cx"}', 400], ["no UTF-8", '{"name":"\xe2\x82"}', 400],
  ["a name twice", '{"id":1,"name":"a","\\u0069d":2}', 400],
  ["no plant", '{"id":1.5,"tag":2}', 400],
  ["two texts", '{"id":1,"name":"a"}{}', 400], ["an open number", '{"id":1e', 400],
];

for (const [what, body, status] of bodies) {
  test(`over segments and over chunks, cut anywhere: ${what}`, { timeout }, async () => {
    const whole = await outcome([sized(body)]);
    assert.match(whole, new RegExp(`^\\{"shown":\\[\\{"status":${status},`));
    const bytes = sized(body);
    for (let at = bytes.length - body.length - 4; at < bytes.length; at++) {
      assert.equal(await outcome([bytes.slice(0, at), bytes.slice(at)]), whole, `segment ${at}`);
    }
    for (let at = 1; at < body.length; at++) {
      const parts = [body.slice(0, at), body.slice(at)];
      const text = chunked(`${parts.map(chunk).join("")}0\r\n\r\n`);
      assert.equal(await outcome([text]), whole, `chunk ${at}`);
      assert.equal(await outcome([text.slice(0, -9), text.slice(-9)]), whole, `chunk ${at}, cut`);
    }
    const single = chunked(`${[...body].map(chunk).join("")}0\r\n\r\n`);
    assert.equal(await outcome([single]), whole);
    assert.equal(await outcome([...sized(body)]), whole, "byte by byte");
    assert.equal(await outcome([...single]), whole, "byte by byte, a chunk each");
  });
}

/** Whole messages, with all that a head and a chunked body may have, good and bad. */
const messages: readonly (readonly [what: string, bytes: string, status: number])[] = [
  ["extensions and a trailer", chunked(`5;a=b;c="d"\r\n${evil.slice(0, 5)}\r\n`
    + `${chunks(evil.slice(5)).slice(0, -2)}X: y\r\n\r\n`), 200],
  ["an empty line first", `\r\n${sized(evil)}`, 200],
  ["an Upgrade",
    sized(evil).replace("Connection: close", "Connection: upgrade\r\nUpgrade: a"), 200],
  ["two Hosts", sized(evil).replace(host, host + host), 400],
  ["a bare LF", sized(evil).replace(host, `${host}X: y\n`), 400],
  ["obs-fold", sized(evil).replace(host, `${host}X: y\r\n z\r\n`), 400],
  ["a coding and a length", chunked(chunks(evil)).replace(coding, coding + length), 400],
  ["two codings", chunked(chunks(evil)).replace(": chunked", ": gzip, chunked"), 501],
  ["HTTP/2.0", sized(evil).replace("HTTP/1.1", "HTTP/2.0"), 505],
  ["no chunk's size", chunked(`x\r\n${evil}\r\n0\r\n\r\n`), 400],
  ["a chunk too small", chunked(`5\r\n${evil}\r\n0\r\n\r\n`), 400],
  ["garbage", "garbage garbage\r\n\r\n", 400],
  ["no token", sized(evil).replace("Authorization", "Authorisation"), 401],
];
for (const [what, bytes, status] of messages) {
  test(`cut at every byte of head and body: ${what}`, { timeout }, async () => {
    const whole = await outcome([bytes]);
    assert.match(whole, new RegExp(`^\\{"shown":\\[\\{"status":${status},`));
    for (let at = 1; at < bytes.length; at++) {
      assert.equal(await outcome([bytes.slice(0, at), bytes.slice(at)]), whole, `at ${at}`);
    }
    assert.equal(await outcome([...bytes]), whole, "byte by byte");
  });
}

test("a second request is cut at every byte behind a first one, and each is answered", { timeout },
  async () => {
    const both = sent(plant(1)) + sized(plant(2));
    const whole = await outcome([both]);
    assert.equal(kept.length, 2);
    for (let at = 1; at < both.length; at++) {
      assert.equal(await outcome([both.slice(0, at), both.slice(at)]), whole, `at ${at}`);
    }
  });

test("whatever the body, the answer is 200 or 400", { timeout }, async () => {
  const below = seeded(7);
  const pieces = [...'{}[]",:\\/0123456789eE+-.untrfalsid \t\r\n\0\x7f\x80\xff', '"id"', '"name"',
    '"__proto__"', '"constructor"', "\\ud83c", "\\udf3f", "1e999999999", "[[[[", "null"];
  const texts = Array.from({ length: 3_000 }, () => {
    const text = [...fern];
    for (let times = below(6); times > 0; times--) {
      text.splice(below(text.length), below(4), pieces[below(pieces.length)] ?? "");
    }
    return text.join("");
  });
  const requests = texts.map((text) => sent(text)).join("") + sized(fern);
  const seen = new Map<number, number>();
  for (const { status } of await exchange(port, requests)) {
    seen.set(status, (seen.get(status) ?? 0) + 1);
  }
  assert.deepEqual([...seen.keys()].sort(), [200, 400]);
  assert.equal((seen.get(200) ?? 0) + (seen.get(400) ?? 0), texts.length + 1);
  assert.ok((seen.get(200) ?? 0) > 100 && (seen.get(400) ?? 0) > 1_000, JSON.stringify([...seen]));
});

const { PLANT_TEST_NODES: given = "" } = process.env;
if (given === "") console.error("pieces.test.ts: PLANT_TEST_NODES is not set: only this Node");
/** A body that takes 100 times its size in memory ends the process: its heap has 64 MiB. */
const nodeArgs = ["--max-old-space-size=64"];

/** A shape that costs the square of its size would take hours, and run into the time-out. */
for (const node of [process.execPath, ...given.split(":").filter(Boolean)]) {
  const version = execFileSync(node, ["-p", "process.version"], { encoding: "utf8" }).trim();
  const title = `${version} with a heap of 64 MiB responds to the largest body of every shape`;
  test(title, { timeout }, async (t) => {
    const running = await start({ node, nodeArgs });
    t.after(() => running.end("SIGKILL"));
    for (const [what, body] of shapes) {
      const bytes = Buffer.from(body(1_048_576 - 100)).subarray(0, 1_048_576);
      const [answer] = await exchange(running.port, post(bytes), { answers: 1 });
      assert.ok(answer?.status === 200 || answer?.status === 400, `${what}: ${answer?.status}`);
    }
    assert.equal(await running.end(), 0);
    assert.equal(running.stderr(), "");
  });
}

test("the control: a reader that keeps an object for each value ends the process", { timeout },
  async (t) => {
    const program = patched("parse.js",
      [["return start;", "(globalThis.kept ??= []).push([start]); return start;"]], "json");
    const running = await start({ program, nodeArgs });
    t.after(() => running.end("SIGKILL"));
    const [, body] = shapes.find(([what]) => what === "empty objects, not stored") ?? [];
    const bytes = Buffer.from(body?.(1_048_576 - 100) ?? "");
    let status: number | undefined = 200;
    for (let times = 0; times < 9 && status === 200; times++) {
      [{ status } = { status: undefined }] =
        await exchange(running.port, post(bytes), { answers: 1 });
    }
    assert.equal(status, undefined);
  });
