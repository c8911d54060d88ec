/** How connections end that do not end well: who is waited for, for how long, and for how much. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { test } from "node:test";
import { open, send, serve, type Ends } from "../support/serving.ts";
import { exchange, post, readAnswers, token } from "../support/support.ts";

const timeout = 20_000;
/** Far beyond the test's own time: what waits so long waits for ever. */
const never = 60_000;
const good = `Host: a\r\nAuthorization: Bearer ${token}\r\nContent-Type: application/json\r\n`;
const plant = post('{"id":1,"name":"Fern"}');
const refused = "GET /x HTTP/1.1\r\nHost: a\r\n\r\n";
const connectRequest = `CONNECT a:1 HTTP/1.1\r\n${good}\r\n`;

const gone = async ({ ours }: Ends): Promise<void> => {
  if (!ours.closed) await new Promise((resolve) => ours.once("close", resolve));
};

for (const [says, bytes] of [
  ["a closing answer", post('{"id":1,"name":"Fern"}', "Connection: close\r\n")],
  ["what is no HTTP", "garbage\r\n\r\n"], ["a CONNECT", connectRequest],
] as const) {
  test(`who never closes behind ${says} is gone in time`, { timeout }, async () => {
    const { server, port } = await serve({ limits: { discardMillis: 100 } });
    const ends = await open(server, port);
    ends.client.resume().write(bytes);
    await gone(ends);
    assert.equal(ends.client.readableEnded, true);
    assert.equal(ends.client.writableEnded, false);
  });
}

const timers = (): number =>
  process.getActiveResourcesInfo().filter((kind) => kind === "Timeout").length;

test("nothing waits behind an early answer once the body has ended", { timeout }, async () => {
  const { server, port } = await serve({ limits: { discardMillis: never } });
  const before = timers();
  const ends = await open(server, port);
  const answers = readAnswers(ends.client.resume(), 2);
  await send(ends, "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n01234");
  assert.equal(timers(), before + 1, "the control: the rest of the body is waited for");
  ends.client.write(Buffer.concat([Buffer.from("56789"), plant]));
  assert.deepEqual((await answers).map(({ status }) => status), [401, 200]);
  assert.equal(timers(), before);
  ends.client.destroy();
  await gone(ends);
});

test("nothing waits for a client that has closed behind its closing answer", { timeout },
  async () => {
    const { server, port } = await serve({ limits: { discardMillis: never } });
    const before = timers();
    const ends = await open(server, port);
    ends.client.resume().write(post('{"id":1,"name":"Fern"}', "Connection: close\r\n"));
    await once(ends.client, "end");
    assert.equal(timers(), before + 1, "the control: its own end is waited for");
    ends.client.end();
    await gone(ends);
    assert.equal(timers(), before);
  });

test("nothing waits for a client that has gone within a body behind its answer", { timeout },
  async () => {
    const { server, port } = await serve({ limits: { discardMillis: never } });
    const before = timers();
    const ends = await open(server, port);
    const answers = readAnswers(ends.client.resume(), 1);
    await send(ends, "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n01234");
    assert.equal((await answers)[0]?.status, 401);
    assert.equal(timers(), before + 1, "the control: the rest of the body is waited for");
    ends.client.resetAndDestroy();
    await gone(ends);
    assert.equal(timers(), before);
  });

test("nothing waits for a client that has gone before its closing answer", { timeout },
  async () => {
    const { server, port, store } = await serve({ limits: { discardMillis: never } });
    const before = timers();
    store.hold();
    const ends = await open(server, port);
    await send(ends, post('{"id":1,"name":"Fern"}', "Connection: close\r\n"));
    ends.client.resetAndDestroy();
    await gone(ends);
    store.release();
    assert.equal((await exchange(port, plant, { answers: 1 }))[0]?.status, 200);
    assert.deepEqual([store.names.length, timers()], [2, before]);
  });

const large = post(`{"id":1,"name":"${"x".repeat(1_000_000)}"}`);
const behinds = [
  ["nothing behind", ""], ["a CONNECT behind", connectRequest],
  ["garbage behind", "garbage\r\n\r\n"],
] as const;
test("who takes no answers is idle", { timeout, concurrency: true }, async (t) => {
  await Promise.all(behinds.map(([says, behind]) => t.test(says, async () => {
    const limits = { idleMillis: 1_000, discardMillis: never };
    const { server, port } = await serve({ limits });
    const ends = await open(server, port);
    for (let times = 0; times < 30 && ends.ours.writableLength === 0; times++) {
      await send(ends, large);
    }
    assert.ok(ends.ours.writableLength > 0, "its answers wait");
    ends.client.write(behind);
    await gone(ends);
  })));
});

for (const [says, bytes] of [
  ["what is no HTTP", "garbage\r\n\r\n"],
  ["an ambiguous request", `GET / HTTP/1.1\r\nHost: b\r\n${good}\r\n${refused}`],
] as const) {
  test(`who sends on behind ${says} is read within the limit, and no further`, { timeout },
    async () => {
      const limits = { discardBytesMax: 1_000_000, discardMillis: never };
      const { server, port } = await serve({ limits });
      for (const [sentMax, isGone] of [[900_000, false], [1_100_000, true]] as const) {
        const ends = await open(server, port);
        await send(ends, bytes);
        for (let sent = 0; sent < sentMax; sent += 50_000) await send(ends, "x".repeat(50_000));
        assert.equal(ends.ours.destroyed, isGone, `${sentMax}`);
        ends.client.destroy();
        await gone(ends);
      }
    });
}

test("a long body that was read whole leaves the connection in use", { timeout }, async () => {
  const { server, port } = await serve({ limits: { discardBytesMax: 5 } });
  const { client } = await open(server, port);
  const answers = readAnswers(client.resume(), 2);
  client.write(Buffer.concat([post("no JSON"), plant]));
  const found = await answers;
  assert.deepEqual(found.map(({ status }) => status), [400, 200]);
  client.destroy();
});
