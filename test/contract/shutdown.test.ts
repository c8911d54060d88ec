/** The end of a server: nothing that was answered is taken back, nobody is waited for in vain. */
import assert from "node:assert/strict";
import { connect, type Socket } from "node:net";
import { test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { createPlantServer } from "../../src/index.ts";
import { open, readAll, send, serve, statusesOf, variant, type Ends } from "../support/serving.ts";
import { post, readAnswers, start } from "../support/support.ts";

const { PLANT_TEST_NODE: node = process.execPath } = process.env;
const timeout = 20_000;
/** Far beyond the test's own time: what waits so long waits for ever. */
const never = 60_000;
const fern = '{"id":1,"name":"Fern"}';
const large = `{"id":1,"name":"${"x".repeat(500_000)}"}`;

/** A client that has read nothing yet of a large answer, all of which is in the kernel. */
async function answered(ends: Ends): Promise<void> {
  await send(ends, post(large));
  while (ends.ours.bytesWritten < 500_000 || ends.ours.writableLength > 0) await turn();
}

const ways = ["drain", "close", "closeIdleConnections"] as const;
for (const way of ways) {
  for (const [says, next] of [
    ["begins its next request then", ""], ["has begun its next request", "POST /plants HT"],
  ] as const) {
    test(`${way}() takes no answer back from who ${says}`, { timeout }, async () => {
      const { server, port, store } = await serve();
      const ends = await open(server, port);
      await answered(ends);
      await send(ends, next);
      void server[way]();
      // What comes at a socket that was closed makes the kernel forget what it has not sent yet.
      while (!ends.ours.destroyed && !ends.ours.writableFinished) await turn();
      await send(ends, post(fern).subarray(next.length));
      const text = await readAll(ends);
      assert.deepEqual(statusesOf(text), [200]);
      assert.equal(text.slice(-500_003), `${"x".repeat(500_000)}"}\n`);
      assert.equal(store.names.length, 1, "what comes then is not executed");
    });
  }
}

test("the control: without the gentle end the answer is cut off", { timeout }, async () => {
  const program = await variant("http/connection.js", "socket.end();\n", "socket.destroy();\n");
  const { server, port } = await serve({ create: program.createPlantServer });
  const ends = await open(server, port);
  await answered(ends);
  void server.drain();
  while (!ends.ours.destroyed) await turn();
  await send(ends, post(fern));
  assert.ok((await readAll(ends)).length < 500_000);
});

for (const [says, bytes, status] of [
  ["no HTTP", "garbage\r\n\r\n", 400],
  ["a CONNECT", "CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n", 401],
] as const) {
  test(`what our Error to ${says} needs to arrive, a drain waits for`, { timeout }, async () => {
    const { server, port } = await serve();
    const ends = await open(server, port);
    await send(ends, bytes);
    while (!ends.ours.writableFinished) await turn();
    const drained = server.drain();
    await send(ends, "x".repeat(1_000_000));
    assert.deepEqual(statusesOf(await readAll(ends)), [status]);
    assert.equal(await drained, true);
  });
}

/** What is still open at the drain's deadline, and whether a request was then cut off. */
const slow: readonly (readonly [
  says: string, isDrained: boolean, begin: (ends: Ends) => Promise<void>,
])[] = [
  ["a client that does not close behind a closing answer", true, async (ends) => {
    await send(ends, post(fern, "Connection: close\r\n"));
    while (!ends.ours.writableEnded) await turn();
  }],
  ["a client that does not close behind a kept connection's end", true, async (ends) => {
    await send(ends, post(fern));
    while (ends.ours.bytesWritten === 0 || ends.ours.writableLength > 0) await turn();
  }],
  ["a body that is discarded behind its early answer", true, async (ends) => {
    await send(ends, `${post(fern)}`.replace("/plants", "/x").slice(0, -5));
    while (ends.ours.bytesWritten === 0 || ends.ours.writableLength > 0) await turn();
  }],
  ["what is no HTTP", true, (ends) => send(ends, "garbage\r\n\r\n")],
  ["half a head", true, (ends) => send(ends, post(fern).subarray(0, 20))],
  ["half a body", false, (ends) => send(ends, post(fern).subarray(0, -5))],
  ["half a body behind an answer", false, (ends) =>
    send(ends, Buffer.concat([post(fern), post(fern).subarray(0, -5)]))],
  ["answers that the client does not take", false, async (ends) => {
    for (let times = 0; times < 30 && ends.ours.writableLength === 0; times++) {
      await send(ends, post(large));
    }
    assert.ok(ends.ours.writableLength > 0, "its answers wait");
  }],
];
for (const [says, isDrained, begin] of slow) {
  test(`at the drain's deadline ${says} is ${isDrained ? "no" : "a"} request cut off`, { timeout },
    async () => {
      const { server, port } = await serve({
        limits: { drainMillis: 200, discardMillis: never, idleMillis: never },
      });
      const ends = await open(server, port);
      await begin(ends);
      assert.equal(await server.drain(), isDrained);
      while (!ends.ours.closed) await turn();
    });
}

/** A plant waits for the store, something that is answered without a request stands behind it. */
const behind = [
  ["garbage", "garbage\r\n\r\n"],
  ["a CONNECT", "CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n"],
] as const;
for (const [says, bytes] of behind) {
  test(`nothing follows the last answer of a drain, though ${says} came before it`, { timeout },
    async () => {
      const { server, port, store } = await serve();
      const ends = await open(server, port);
      store.hold();
      await send(ends, post(fern));
      while (store.waiting === 0) await turn();
      await send(ends, bytes);
      const drained = server.drain();
      store.release();
      assert.deepEqual(statusesOf(await readAll(ends)), [200]);
      assert.equal(await drained, true);
    });
}

test("a store that has not answered at the drain's deadline is a request cut off", { timeout },
  async () => {
    const { server, port, store } = await serve({ limits: { drainMillis: 100 } });
    const ends = await open(server, port);
    store.hold();
    await send(ends, post(fern));
    // Asked for twice, it is one end, and says the same to both, and afterwards.
    assert.deepEqual(await Promise.all([server.drain(), server.drain()]), [false, false]);
    assert.equal(await server.drain(), false);
    store.release();
  });

test("a client that is slow to close does not make the program's end 69", { timeout }, async () => {
  const args = ["--drain-timeout", "300", "--discard-timeout", `${never}`];
  const server = await start({ node, args });
  const client: Socket = connect({ port: server.port, host: "127.0.0.1", allowHalfOpen: true });
  const found = readAnswers(client, 1);
  client.write(post(fern, "Connection: close\r\n"));
  assert.deepEqual((await found).map(({ status }) => status), [200]);
  assert.equal(await server.end(), 0);
  assert.equal(server.stderr(), "");
  client.destroy();
});

test("a drain ends at once where nothing is under way, whoever is connected", { timeout },
  async () => {
    const { server, port } = await serve({ limits: { drainMillis: never, discardMillis: never } });
    for (const bytes of ["", "\r\n", "POST /pl"]) await send(await open(server, port), bytes);
    assert.equal(await server.drain(), true);
    assert.equal(await createPlantServer({ store: { append: () => Promise.resolve(),
      close: () => Promise.resolve() }, tokens: ["t"] }).drain(), true);
  });
