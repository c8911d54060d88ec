/** An https server: who never shakes hands is nobody, who has is served as over http. */
import assert from "node:assert/strict";
import { once } from "node:events";
import type { Socket } from "node:net";
import { join } from "node:path";
import { test } from "node:test";
import { connect as connectTls, type TLSSocket } from "node:tls";
import { inspect } from "node:util";
import {
  BearerTokens, createPlantHandler, createPlantServer, tokenDigest, type ResponseListener,
} from "../../src/index.ts";
import {
  HeldStore, listen, open, send, serve, temporaryTls, type Ends,
} from "../support/serving.ts";
import { post, readAnswers, temporaryFolder, token } from "../support/support.ts";

const timeout = 20_000;
/** Far beyond the test's own time: what waits so long waits for ever. */
const never = 60_000;
const tls = temporaryTls();
const folder = temporaryFolder();
let sockets = 0;
const plant = post('{"id":1,"name":"Fern"}');

/** A handshake's first record, without its end: a ClientHello that says it has 512 bytes. */
const hello = Buffer.from("160301020001", "hex");
const strangers: readonly (readonly [says: string, bytes: Buffer])[] = [
  ["nothing", Buffer.alloc(0)], ["a byte of a ClientHello", hello.subarray(0, 1)],
  ["a part of a ClientHello", hello],
];

/** Waits until the server has closed it. */
async function closed(client: Socket): Promise<void> {
  client.once("end", () => client.end()).resume();
  if (!client.closed) await new Promise((resolve) => client.once("close", resolve));
}

for (const [says, bytes] of strangers) {
  test(`who sends ${says} to an https server is gone with the head's time-out`, { timeout },
    async () => {
      const { server, port } = await serve({ tls, limits: { headMillis: 200 } });
      const ends = await open(server, port);
      await send(ends, bytes);
      await closed(ends.client);
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
        await closed(ends.client);
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

test("at the drain's deadline a request over TLS is cut off, and told", { timeout }, async () => {
  const { server, port, store } = await serve({ tls, limits: { drainMillis: 100 } });
  store.hold();
  const { answers } = await underWay(port, tls.cert);
  const ended = once(server, "close");
  while (store.waiting === 0) await new Promise(setImmediate);
  assert.equal(await server.drain(), false);
  assert.deepEqual(await answers, []);
  await ended;
  store.release();
});

test("who speaks no TLS is closed at once", { timeout }, async () => {
  const { server, port } = await serve({ tls, limits: { discardMillis: never } });
  for (const bytes of [plant, Buffer.from("garbage\r\n\r\n")]) {
    const ends: Ends = await open(server, port);
    await send(ends, bytes);
    await closed(ends.client);
  }
});

test("an idle connection over TLS is closed by a drain", { timeout }, async () => {
  const { server, port } = await serve({ tls, limits: { drainMillis: never } });
  const { client, answers } = await underWay(port, tls.cert);
  assert.deepEqual((await answers).map(({ status }) => status), [200]);
  const ended: Promise<TLSSocket> = once(client, "end").then(() => client.end());
  assert.equal(await server.drain(), true);
  await ended;
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
