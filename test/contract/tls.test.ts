/** An https server: unfinished handshakes, requests, drains, and what it shows when it is logged. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { test } from "node:test";
import { connect as connectTls, type TLSSocket } from "node:tls";
import { inspect } from "node:util";
import {
  BearerTokens, createPlantHandler, createPlantServer, tokenDigest, type ResponseListener,
} from "../../src/index.ts";
import {
  closed, HeldStore, listen, open, send, serve, temporaryTls, type Ends,
} from "../support/serving.ts";
import { post, readAnswers, temporaryFolder, token } from "../support/support.ts";

const timeout = 20_000;
/** Longer than the test's own time. */
const never = 60_000;
const tls = temporaryTls();
const folder = temporaryFolder();
let sockets = 0;
const plant = post('{"id":1,"name":"Fern"}');

/** The beginning of a ClientHello that declares 512 bytes. */
const hello = Buffer.from("160301020001", "hex");
const strangers: readonly (readonly [says: string, bytes: Buffer])[] = [
  ["nothing", Buffer.alloc(0)], ["a byte of a ClientHello", hello.subarray(0, 1)],
  ["a part of a ClientHello", hello],
];

/** Waits until the server has closed the connection. */
function ended(client: Socket): Promise<void> {
  client.once("end", () => client.end()).resume();
  return closed(client);
}

for (const [says, bytes] of strangers) {
  test(`a client that sends ${says} to an https server is closed by the head timeout`, { timeout },
    async () => {
      const { server, port } = await serve({ tls, limits: { headMillis: 200 } });
      const ends = await open(server, port);
      await send(ends, bytes);
      await ended(ends.client);
      assert.equal(ends.ours.destroyed, true);
    });

  for (const kind of ["a port", "a Unix socket"] as const) {
    test(`a drain on ${kind} closes at once a client that sends ${says}, not one with a request`,
      { timeout }, async () => {
        const limits = { drainMillis: never, headMillis: 50_000, requestMillis: never };
        const path = join(folder, `${sockets++}`);
        const on = kind === "a port" ? {} : { path };
        const { server, port, store } = await serve({ tls, limits, ...on });
        const ends = await open(server, kind === "a port" ? port : path);
        await send(ends, bytes);
        store.hold();
        const { client, answers } = await underWay(kind === "a port" ? port : path, tls.cert);
        while (store.waiting === 0) await new Promise(setImmediate);
        const drained = server.drain();
        await ended(ends.client);
        assert.equal(client.destroyed, false);
        store.release();
        assert.deepEqual((await answers).map(({ status }) => status), [200]);
        assert.equal(await drained, true);
      });
  }
}

/** A plant over TLS, sent. */
async function underWay(address: number | string, ca: Buffer) {
  const to = typeof address === "string" ? { path: address } : { port: address, host: "127.0.0.1" };
  const client = connectTls({ ...to, ca, checkServerIdentity: () => undefined });
  await once(client, "secureConnect");
  const answers = readAnswers(client, 1);
  client.write(plant);
  return { client, answers };
}

test("at the drain's deadline a request over TLS is cut off, and reported", { timeout }, async () => {
  const { server, port, store } = await serve({ tls, limits: { drainMillis: 100 } });
  store.hold();
  const { answers } = await underWay(port, tls.cert);
  const closing = once(server, "close");
  while (store.waiting === 0) await new Promise(setImmediate);
  assert.equal(await server.drain(), false);
  assert.deepEqual(await answers, []);
  await closing;
  store.release();
});

test("a client that does not speak TLS is closed at once", { timeout }, async () => {
  const { server, port } = await serve({ tls, limits: { discardMillis: never } });
  for (const bytes of [plant, Buffer.from("garbage\r\n\r\n")]) {
    const ends: Ends = await open(server, port);
    await send(ends, bytes);
    await ended(ends.client);
  }
});

test("over TLS, a client that half-closes after a request gets its response", { timeout },
  async () => {
    const { server, port, store } = await serve({ tls });
    store.hold();
    const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
    const client = connectTls({ socket, ca: tls.cert, checkServerIdentity: () => undefined });
    const answers = readAnswers(client, 1);
    await once(client, "secureConnect");
    server.once("request", (request) => request.socket.once("end", store.release));
    client.end(plant);
    assert.deepEqual((await answers).map(({ status }) => status), [200]);
  });

test("an idle connection over TLS is closed by a drain", { timeout }, async () => {
  const { server, port } = await serve({ tls, limits: { drainMillis: never } });
  const { client, answers } = await underWay(port, tls.cert);
  assert.deepEqual((await answers).map(({ status }) => status), [200]);
  const end: Promise<TLSSocket> = once(client, "end").then(() => client.end());
  assert.equal(await server.drain(), true);
  await end;
});

test("inspecting or logging a server, its sockets or its tokens shows no secret", { timeout },
  async () => {
    const passphrase = "a passphrase";
    const secret = { ...tls, key: String(tls.key), passphrase };
    const tokens = new BearerTokens([token]);
    const seen: unknown[] = [tokens];
    const onResponse: ResponseListener = (...shown) => { seen.push(...shown); };
    const store = new HeldStore();
    const server = createPlantServer({ store, tokens, tls: secret, onResponse });
    seen.push(server, createPlantHandler({ store, tokens: [token] }));
    const show = (): string => seen.map((each) => inspect(each, {
      showHidden: true, depth: 9, maxStringLength: Infinity, maxArrayLength: Infinity,
    })).join();
    const names = [passphrase, "BEGIN PRIVATE KEY", tokenDigest(token).slice(7),
      Buffer.from(tokenDigest(token)).toString("hex").match(/../g)?.join(" ") ?? ""];
    const assertHidden = (): void => {
      for (const name of names) assert.ok(!show().includes(name), name);
    };
    assertHidden();
    server.setSecureContext?.(secret);
    const { client, answers } = await underWay(await listen(server), tls.cert);
    assert.deepEqual((await answers).map(({ status }) => status), [200]);
    assert.ok(seen.length > 3, "a listener was called");
    assertHidden();
    assert.ok(inspect({ secret }).includes(passphrase), "the control: inspecting shows it");
    client.destroy();
  });
