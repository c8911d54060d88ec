/** All bodies together stay within their limit, and who holds most of it pays, not who comes. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { limitTable } from "../../src/config.ts";
import { createPlantServer, type DrainableServer } from "../../src/index.ts";
import { open, send, serve, statusesOf, readAll, variant, type Ends } from "../support/serving.ts";
import { exchange, post, readAnswers, token } from "../support/support.ts";

const timeout = 30_000;
const mib = 1_048_576;
const fern = '{"id":1,"name":"Fern"}';
const head = `POST /plants HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${token}\r\n`
  + "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
const lastChunk = "0\r\n\r\n";

/** So many bytes of a body, without its end. */
const unended = (bytes: number): string =>
  `${head}${bytes.toString(16)}\r\n${fern.padEnd(bytes).slice(0, bytes)}\r\n`;
async function hold(server: DrainableServer, port: number, bytes: number): Promise<Ends> {
  const ends = await open(server, port);
  await send(ends, unended(bytes));
  return ends;
}

/** Ends the body; the status of the answer, whichever it is. */
async function finish(ends: Ends): Promise<number | undefined> {
  const answered = readAnswers(ends.client.resume(), 1);
  ends.client.write(lastChunk);
  const [answer] = await answered;
  ends.client.destroy();
  return answer?.status;
}

const small = [22, 100, 1_000, 30_000, 65_536];

/** 64 uploads hold 1 MiB less a byte each, again before each of 40 small bodies: the answers. */
async function besideTheGreedy(create: typeof createPlantServer): Promise<readonly unknown[]> {
  const { server, port } = await serve({ create });
  for (let held = 0; held < 63; held++) await hold(server, port, mib - 1);
  const found: unknown[] = [];
  for (let round = 0; round < 40; round++) {
    // It takes the last room, and is refused itself where there is none.
    await hold(server, port, mib - 1);
    const body = fern.padEnd(small[round % small.length] ?? 0);
    const [answer] = await exchange(port, post(body), { answers: 1 });
    found.push(answer?.status);
  }
  server.closeAllConnections();
  return found;
}

test("64 uploads of a token's holder, held open, shut out no small body", { timeout }, async () => {
  assert.deepEqual(await besideTheGreedy(createPlantServer), Array(40).fill(200));
});

test("the control: where the newcomer pays, small bodies are shut out", { timeout }, async () => {
  const program = await variant("http/body.js", "each.bytes > most.bytes", "false");
  const found = await besideTheGreedy(program.createPlantServer);
  assert.ok(found.includes(503), "nobody was refused");
});

test("a share of the limit is room enough for a connection, however many there are", () => {
  const share = limitTable.bodiesBytesMax.defaultValue / limitTable.connectionsMax.defaultValue;
  assert.equal(share, Math.max(...small));
});

const limits = { bodiesBytesMax: 300, bodyBytesMax: 290 };
const { server, port } = await serve({ limits });

test("at the limit nobody is refused; a byte over it who holds most is", { timeout }, async () => {
  for (const [third, refused] of [[50, 0], [51, 1]] as const) {
    const held = [await hold(server, port, 100), await hold(server, port, 150),
      await hold(server, port, third)];
    const statuses: unknown[] = [];
    for (const ends of held) statuses.push(await finish(ends));
    assert.deepEqual(statuses, refused === 0 ? [200, 200, 200] : [200, 503, 200]);
  }
});

test("of equals who asks for more is refused", { timeout }, async () => {
  const held = [await hold(server, port, 149), await hold(server, port, 149),
    await hold(server, port, 149)];
  const statuses: unknown[] = [];
  for (const ends of held) statuses.push(await finish(ends));
  assert.deepEqual(statuses, [200, 200, 503]);
});

test("a body in one piece is bound as well: at the limit, and a byte over it", { timeout },
  async () => {
    for (const [bytes, status] of [[278, 200], [279, 503]] as const) {
      const held = await hold(server, port, bytes);
      const [answer] = await exchange(port, post(fern), { answers: 1 });
      assert.equal(answer?.status, 200);
      assert.equal(await finish(held), status);
    }
    const alone = await serve({ limits: { bodiesBytesMax: 100 } });
    for (const [bytes, status] of [[100, 200], [101, 503]] as const) {
      const [answer] = await exchange(alone.port, post(fern.padEnd(bytes)), { answers: 1 });
      assert.equal(answer?.status, status);
    }
  });

/** Fills the limit, then asks for so many bytes more; the bodies' statuses in order. */
async function fill(bytes: number): Promise<readonly unknown[]> {
  const held = [await hold(server, port, 200), await hold(server, port, 100)];
  if (bytes > 0) held.push(await hold(server, port, bytes));
  const statuses: unknown[] = [];
  for (const ends of held) statuses.push(await finish(ends));
  return statuses;
}

test("what a connection held is given back once, however it ends", { timeout }, async (t) => {
  const begun = unended(200);
  for (const [says, use] of [
    ["after bodies in two pieces", async (ends: Ends) => {
      const answers = readAnswers(ends.client.resume(), 20);
      for (let body = 0; body < 20; body++) {
        await send(ends, begun);
        await send(ends, lastChunk);
      }
      assert.equal((await answers).length, 20);
      assert.ok(ends.ours.listenerCount("close") < 10, "no listener stays behind a body");
    }],
    ["within a body", (ends: Ends) => send(ends, begun)],
    ["within a body, after another", async (ends: Ends) => {
      await send(ends, begun);
      await send(ends, lastChunk + begun);
    }],
    ["within a body that is too large", (ends: Ends) => send(ends, unended(291))],
    ["within a body that was refused", async (ends: Ends) => {
      const before = await hold(server, port, 140);
      await send(ends, begun);
      assert.equal(await finish(before), 200);
    }],
  ] as const) {
    await t.test(says, async () => {
      const ends = await open(server, port);
      await use(ends);
      ends.client.destroy();
      if (!ends.ours.closed) await new Promise((resolve) => ends.ours.once("close", resolve));
      assert.deepEqual([await fill(0), await fill(1)], [[200, 200], [503, 200, 400]]);
    });
  }
});

test("who holds most is told so, and the connection ends", { timeout }, async () => {
  const most = await hold(server, port, 290);
  const answered = readAll(most);
  assert.equal((await exchange(port, post(fern), { answers: 1 }))[0]?.status, 200);
  const text = await answered;
  assert.deepEqual(statusesOf(text), [503]);
  assert.match(text, /^Retry-After: 1\r$/m);
  assert.match(text, /^Connection: close\r$/m);
  assert.match(text, /\{"error":50304,/);
});
