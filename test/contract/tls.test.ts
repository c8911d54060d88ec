/** An https server: unfinished handshakes, requests, drains, and what it shows when it is logged. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { test } from "node:test";
import { connect as connectTls, type TLSSocket } from "node:tls";
import { inspect } from "node:util";
import type { Limits } from "../../src/config.ts";
import {
  BearerTokens,
  createPlantHandler,
  createPlantServer,
  tokenDigest,
  type ResponseListener
} from "../../src/index.ts";
import { plant } from "../support/requests.ts";
import {
  closed,
  type Ends,
  HeldStore,
  listen,
  never,
  open,
  send,
  serve,
  temporaryTls,
  timeout
} from "../support/serving.ts";
import { readAnswers } from "../support/exchange.ts";
import { socketFolder, token } from "../support/support.ts";
import { until } from "../support/until.ts";

const tls = temporaryTls();

/** The beginning of a ClientHello that declares 512 bytes. */
const hello = Buffer.from("160301020001", "hex");
const strangers: readonly (readonly [
  says: string,
  bytes: Buffer,
  path?: string
])[] = [
  ["a part of a ClientHello", hello],
  [
    "a byte of a ClientHello, on a Unix socket,",
    hello.subarray(0, 1),
    join(socketFolder(), "s")
  ]
];

/** Waits until the server has closed the connection. */
function ended(client: Socket): Promise<void> {
  client.once("end", () => client.end()).resume();
  return closed(client);
}

/** A plant over TLS, sent. */
async function underWay(address: number | string, ca: Buffer) {
  const to =
    typeof address === "string"
      ? { path: address }
      : { port: address, host: "127.0.0.1" };
  const client = connectTls({
    ...to,
    ca,
    checkServerIdentity: () => undefined
  });
  await once(client, "secureConnect");
  const answers = readAnswers(client, 1);
  client.write(plant);
  return { client, answers };
}

/** A server whose store holds a plant, and whose address may be a path. */
async function holding(limits: Partial<Limits>, path?: string) {
  const { server, port, store } = await serve({
    tls,
    limits,
    ...(path && { path })
  });
  store.hold();
  const to = path ?? port;
  const { client, answers } = await underWay(to, tls.cert);
  await until("the store has the plant", () => store.waiting > 0);
  return { server, store, to, client, answers };
}

for (const [says, bytes, path] of strangers) {
  test(
    `a client that sends ${says} to an https server is closed by the head timeout`,
    { timeout },
    async () => {
      const { server, port } = await serve({
        tls,
        limits: { headMillis: 200 },
        ...(path && { path })
      });
      const ends = await open(server, path ?? port);
      await send(ends, bytes);
      await ended(ends.client);
      assert.equal(ends.ours.destroyed, true);
    }
  );
  test(
    `a client that sends ${says} to an https server, and half-closes, is closed at once`,
    { timeout },
    async () => {
      const { server, port } = await serve({
        tls,
        limits: { headMillis: 50_000, requestMillis: never },
        ...(path && { path: `${path}1` })
      });
      const ends = await open(server, path ? `${path}1` : port);
      await send(ends, bytes);
      ends.client.end();
      await closed(ends.ours);
    }
  );
  test(
    `a drain closes a client that sends ${says} after the last response, which is not cut off`,
    { timeout },
    async () => {
      const limits = {
        drainMillis: never,
        headMillis: 50_000,
        requestMillis: never
      };
      const { server, store, to, client, answers } = await holding(
        limits,
        path && `${path}2`
      );
      const ends = await open(server, to);
      await send(ends, bytes);
      const drained = server.drain();
      store.release();
      assert.deepEqual(
        (await answers).map(({ status }) => status),
        [200]
      );
      client.end();
      await ended(ends.client);
      assert.equal(await drained, true);
    }
  );
}

test(
  "at the drain's deadline a request over TLS is cut off, and reported",
  { timeout },
  async () => {
    const { server, store, answers } = await holding({ drainMillis: 100 });
    const closing = once(server, "close");
    assert.equal(await server.drain(), false);
    assert.deepEqual(await answers, []);
    await closing;
    store.release();
  }
);

test(
  "a client that does not speak TLS is closed at once",
  { timeout },
  async () => {
    const { server, port } = await serve({
      tls,
      limits: { discardMillis: never }
    });
    for (const bytes of [plant, Buffer.from("garbage\r\n\r\n")]) {
      const ends: Ends = await open(server, port);
      await send(ends, bytes);
      await ended(ends.client);
    }
  }
);

test(
  "over TLS, a client that half-closes after a request gets its response",
  { timeout },
  async () => {
    const { server, port, store } = await serve({ tls });
    store.hold();
    const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
    const client = connectTls({
      socket,
      ca: tls.cert,
      checkServerIdentity: () => undefined
    });
    const answers = readAnswers(client, 1);
    await once(client, "secureConnect");
    server.once("request", (request) =>
      request.socket.once("end", store.release)
    );
    client.end(plant);
    assert.deepEqual(
      (await answers).map(({ status }) => status),
      [200]
    );
  }
);

test(
  "an idle connection over TLS is closed by a drain",
  { timeout },
  async () => {
    const { server, port } = await serve({
      tls,
      limits: { drainMillis: never }
    });
    const { client, answers } = await underWay(port, tls.cert);
    assert.deepEqual(
      (await answers).map(({ status }) => status),
      [200]
    );
    const end: Promise<TLSSocket> = once(client, "end").then(() =>
      client.end()
    );
    assert.equal(await server.drain(), true);
    await end;
  }
);

test(
  "inspecting or logging a server, its sockets or its tokens shows no secret",
  { timeout },
  async () => {
    const passphrase = "a passphrase";
    const ticketKeys = Buffer.alloc(48, "ticket");
    const secret = { ...tls, key: String(tls.key), passphrase, ticketKeys };
    const tokens = new BearerTokens([token]);
    const seen: unknown[] = [tokens];
    const onResponse: ResponseListener = (...shown) => {
      seen.push(...shown);
    };
    const store = new HeldStore();
    const server = createPlantServer({
      store,
      tokens,
      tls: secret,
      onResponse
    });
    seen.push(server, createPlantHandler({ store, tokens: [token] }));
    const show = (): string =>
      seen
        .map((each) =>
          inspect(each, {
            showHidden: true,
            depth: 9,
            maxStringLength: Infinity,
            maxArrayLength: Infinity
          })
        )
        .join();
    const names = [
      passphrase,
      "BEGIN PRIVATE KEY",
      tokenDigest(token).slice(7),
      ...[Buffer.from(tokenDigest(token)), ticketKeys].map(
        (each) => each.toString("hex").match(/../g)?.join(" ") ?? ""
      )
    ];
    const assertHidden = (): void => {
      for (const name of names) assert.ok(!show().includes(name), name);
    };
    assertHidden();
    server.setSecureContext?.(secret);
    const { client, answers } = await underWay(await listen(server), tls.cert);
    assert.deepEqual(
      (await answers).map(({ status }) => status),
      [200]
    );
    assert.ok(seen.length > 3, "a listener was called");
    assertHidden();
    assert.ok(
      inspect({ secret }).includes(passphrase),
      "the control: inspecting shows it"
    );
    client.destroy();
  }
);
