/**
 * The idle timeout: a connection is closed on which no byte comes or goes. A client that waits for
 * our response, and one that reads slowly, are left alone.
 */
import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { join } from "node:path";
import { describe, test } from "node:test";
import { connect as connectTls } from "node:tls";
import { plant } from "../support/requests.ts";
import {
  closed,
  connected,
  type Ends,
  listen,
  never,
  open,
  refused,
  send,
  serve,
  temporaryTls,
  timeout
} from "../support/serving.ts";
import { readAnswers } from "../support/exchange.ts";
import { post, socketFolder } from "../support/support.ts";
import { seconds, until } from "../support/until.ts";

const limits = {
  idleMillis: seconds(1),
  checkMillis: 20,
  discardMillis: never,
  headMillis: never,
  requestMillis: never
};
const certified = temporaryTls();
const connectRequest = "CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n";

type Client = Ends["client"];

/** Writes a piece every 20 ms of an idle machine, until the socket closes or the pieces end. */
async function trickle(
  client: Client,
  pieces: readonly string[]
): Promise<void> {
  for (const piece of pieces) {
    if (client.destroyed) return;
    client.write(piece);
    await new Promise((resolve) => setTimeout(resolve, seconds(0.02)));
  }
}

/** Twice as long as the idle timeout allows. */
const long = (piece: string): readonly string[] =>
  Array<string>(100).fill(piece);

describe("the idle timeout", { concurrency: true }, () => {
  test("a silent connection is closed", { timeout }, async () => {
    const { port } = await serve({ limits });
    const client = connect(port, "127.0.0.1").on("error", () => undefined);
    client.write(refused);
    assert.deepEqual(
      (await readAnswers(client, 1)).map((each) => each.status),
      [401]
    );
    await closed(client.resume());
  });

  /** Sends plants until a response waits for the client to read. */
  async function leaveUnread(ends: Ends, nameBytes: number): Promise<void> {
    const request = post(`{"id":1,"name":"${"x".repeat(nameBytes)}"}`);
    await until("a response waits", async () => {
      await send(ends, request);
      assert.ok(!ends.ours.destroyed, "the server has closed");
      return ends.ours.writableLength > 0;
    });
  }

  // Node stops reading after large responses, not after small ones. The system keeps far less of a
  // Unix socket's bytes than of a TCP connection's.
  for (const [nameBytes, what, after] of [
    [8_000, "nothing", ""],
    [1_000_000, "nothing", ""],
    [8_000, "garbage", "garbage\r\n\r\n"],
    [1_000_000, "a CONNECT", connectRequest],
    [8_000, "half a head", `${plant}`.replace(/\r\n\r\n[^]*/, "\r\nX: ")],
    [1_000_000, "a request to close", post("{}", "Connection: close\r\n")]
  ] as const) {
    test(
      `a client that does not read ${nameBytes} bytes is idle, with ${what} after its requests`,
      { timeout },
      async () => {
        const path = join(socketFolder(), "socket");
        const { ends } = await connected({ limits, path });
        await leaveUnread(ends, nameBytes);
        ends.client.write(after);
        await closed(ends.ours);
        ends.client.destroy();
      }
    );
  }

  for (const [what, pieces] of [
    ["a header section", [...plant]],
    ["a header section after CRLFs", ["\r\n\r\n", ...plant]],
    [
      "a body",
      [
        plant.slice(0, -9),
        ...plant
          .toString()
          .slice(-9)
          .split("")
          .flatMap((byte) => [byte, "", "", "", "", "", "", ""])
      ]
    ]
  ] as const) {
    test(
      `${what} that takes longer than the idle timeout to arrive is in progress`,
      { timeout },
      async () => {
        const { ends } = await connected({ limits });
        const answers = readAnswers(ends.client.resume(), 2);
        await send(ends, refused);
        await trickle(ends.client, pieces);
        assert.deepEqual(
          (await answers).map(({ status }) => status),
          [401, 200]
        );
      }
    );
  }

  for (const [what, after, statuses] of [
    ["nothing", "", [200]],
    ["CRLFs", "\r\n", [200]],
    ["a request", refused, [200, 401]],
    ["a CONNECT", connectRequest, [200, 401]],
    ["garbage", "garbage\r\n\r\n", [200, 400]]
  ] as const) {
    test(
      `a client that waits for our response is not idle, with ${what} after its request`,
      { timeout },
      async () => {
        const { server, port, store } = await serve({ limits });
        store.hold();
        const ends = await open(server, port);
        const answers = readAnswers(ends.client.resume(), statuses.length);
        await send(ends, plant);
        ends.client.write(after);
        await trickle(ends.client, long(after === "\r\n" ? after : ""));
        store.release();
        assert.deepEqual(
          (await answers).map(({ status }) => status),
          statuses
        );
      }
    );
  }

  const half = `${plant}`.slice(0, 40);
  const connectTo = (port: number, isTls: boolean): Socket =>
    (isTls
      ? connectTls({ port, rejectUnauthorized: false, maxVersion: "TLSv1.2" })
      : connect(port, "127.0.0.1")
    ).on("error", () => undefined);

  for (const [what, tls, parts] of [
    ["a response, and half a head", {}, [refused, half]],
    ["the same at once, over TLS", { tls: certified }, [refused + half]],
    ["half a head", {}, [half]]
  ] as const) {
    test(
      `what ends within a head outlasts the idle timeout: ${what}`,
      { timeout },
      async () => {
        const { port } = await serve({ limits, ...tls });
        const client = connectTo(port, "tls" in tls);
        const answers = readAnswers(client, parts[0] === half ? 1 : 2);
        for (const part of parts) {
          client.write(part);
          if (part === refused) await once(client, "data");
        }

        // Its idle timeout begins later.
        const silent = connectTo(port, "tls" in tls);
        silent.write(refused);
        await closed(silent.resume());
        client.write(`${plant}`.slice(half.length));
        assert.equal((await answers).at(-1)?.status, 200);
        client.destroy();
      }
    );
  }

  for (const [what, tls, bytes, statuses] of [
    ["no byte", {}, "", []],
    ["no byte over TLS", { tls: certified }, "", []],
    ["half a head over TLS", { tls: certified }, half, [408]]
  ] as const) {
    test(
      `a connection with ${what} is closed at the head timeout, with ${statuses.length} responses`,
      { timeout },
      async () => {
        const reported: number[] = [];
        const { port } = await serve({
          limits: { ...limits, idleMillis: never, headMillis: seconds(1) },
          onResponse: ({ status }) => void reported.push(status),
          ...tls
        });
        const client = connectTo(port, "tls" in tls);
        const answers = readAnswers(client, Infinity);
        client.write(bytes);
        assert.deepEqual(
          (await answers).map(({ status }) => status),
          statuses
        );
        assert.deepEqual(reported, statuses);
      }
    );
  }

  test(
    "a silent connection over TLS is closed with close_notify",
    { timeout },
    async () => {
      const { port } = await serve({ limits, tls: certified });
      let bytes = Buffer.alloc(0);
      const relay = createServer((near) => {
        const far = connect(port, "127.0.0.1");
        far.on("data", (more: Buffer) => {
          bytes = Buffer.concat([bytes, more]);
        });
        near.pipe(far).pipe(near);
      });
      const client = connectTls({
        port: await listen(relay),
        rejectUnauthorized: false,
        maxVersion: "TLSv1.2"
      });
      client.write(refused);
      const [answer] = await readAnswers(client, 1);
      assert.equal(
        answer?.headers["keep-alive"],
        `timeout=${Math.floor(limits.idleMillis / 1_000)}`
      );
      const { length } = bytes;
      await closed(client.resume());
      assert.equal(bytes[length], 21, "an alert");
    }
  );

  test(
    "a connection with a request now and then is not idle, and is closed after the last one",
    { timeout },
    async () => {
      const { server, port } = await serve({
        limits: { ...limits, idleMillis: seconds(2) }
      });
      const silent = await open(server, port);
      const ends = await open(server, port);
      const answers = readAnswers(ends.client.resume(), 10);
      for (let count = 0; count < 10; count++) {
        ends.client.write(refused);
        await trickle(ends.client, Array<string>(20).fill(""));
      }
      assert.equal((await answers).length, 10);
      assert.equal(
        silent.ours.writableEnded,
        true,
        "another one, which is idle, is closed meanwhile"
      );
      await until("the idle timeout", () => ends.ours.writableEnded);
      ends.client.end();
      await closed(ends.ours);
    }
  );

  test(
    "a client that reads a large response slowly is not idle",
    { timeout },
    async () => {
      const bytes = 4_000_000;
      const path = join(socketFolder(), "socket");
      const slow = {
        ...limits,
        idleMillis: seconds(2),
        bodyBytesMax: bytes + 100
      };
      const { server } = await serve({ limits: slow, path });
      const { client, ours } = await open(server, path);
      client.write(post(`{"id":1,"name":"${"x".repeat(bytes)}"}`));
      let readBytes = 0;
      await until("it responds", () => ours.bytesWritten > 0);
      const checked = performance.now();
      while (ours.writableLength > 0 && !ours.destroyed) {
        readBytes += (client.read(8_000) ?? "").length;
        await new Promise((resolve) => setTimeout(resolve, seconds(0.005)));
      }
      assert.ok(
        performance.now() - checked > slow.idleMillis,
        "it was slow enough to be a test"
      );
      client.on("data", (chunk) => {
        readBytes += chunk.length;
      });
      await once(client.resume(), "end");
      assert.ok(readBytes > bytes, `${readBytes}`);
    }
  );
});
