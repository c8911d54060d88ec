/** Shutdown: no response is lost, and the drain waits for requests in progress alone. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { connect } from "node:net";
import { test } from "node:test";
import { createPlantServer } from "../../src/index.ts";
import { fern } from "../support/requests.ts";
import {
  closed,
  connected,
  type Ends,
  HeldStore,
  never,
  open,
  readAll,
  send,
  serve,
  statusesOf,
  timeout
} from "../support/serving.ts";
import { exchange, readAnswers } from "../support/exchange.ts";
import {
  cleanEnvironment,
  post,
  program,
  temporaryFolder,
  token
} from "../support/support.ts";
import { seconds, until } from "../support/until.ts";

const { PLANT_TEST_NODE: node = process.execPath } = process.env;
const large = `{"id":1,"name":"${"x".repeat(500_000)}"}`;

/** Waits until a response of at least so many bytes is in the kernel. */
const sent = ({ ours }: Ends, bytes = 1): Promise<void> =>
  until(
    "the response is sent",
    () => ours.bytesWritten >= bytes && ours.writableLength === 0
  );

/** Waits until a large response that the client has not read is in the kernel. */
async function answered(ends: Ends): Promise<void> {
  await send(ends, post(large));
  await sent(ends, 500_000);
}

const ways = ["drain", "close", "closeIdleConnections"] as const;
for (const way of ways) {
  for (const [says, next] of [
    ["sends its next request then", ""],
    ["has begun its next request", "POST /plants HT"]
  ] as const) {
    test(
      `${way}() loses no response of a client that ${says}`,
      { timeout },
      async () => {
        const { server, store, ends } = await connected();
        await answered(ends);
        await send(ends, next);
        void server[way]();
        // A byte that arrives at a closed socket makes the kernel drop what it has not sent yet.
        await until(
          "the server has ended",
          () => ends.ours.destroyed || ends.ours.writableFinished
        );
        await send(ends, post(fern).subarray(next.length));
        const text = await readAll(ends);
        assert.deepEqual(statusesOf(text), [200]);
        assert.equal(text.slice(-500_003), `${"x".repeat(500_000)}"}\n`);
        assert.equal(
          store.names.length,
          1,
          "a request that arrives then is not executed"
        );
      }
    );
  }
}

test(
  "the control: a socket that is destroyed truncates its response",
  { timeout },
  async () => {
    const { ends } = await connected();
    await answered(ends);
    ends.ours.destroy();
    await send(ends, post(fern));
    assert.ok((await readAll(ends)).length < 500_000);
  }
);

for (const [says, bytes, status] of [
  ["garbage", "garbage\r\n\r\n", 400],
  ["a CONNECT", "CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n", 401]
] as const) {
  test(
    `a drain waits until the client has read the Error to ${says}`,
    { timeout },
    async () => {
      const { server, ends } = await connected();
      await send(ends, bytes);
      await until("the server has ended", () => ends.ours.writableFinished);
      const drained = server.drain();
      await send(ends, "x".repeat(1_000_000));
      assert.deepEqual(statusesOf(await readAll(ends)), [status]);
      assert.equal(await drained, true);
    }
  );
}

/** What is open at the drain's deadline, and whether the drain reports a request cut off. */
const slow: readonly (readonly [
  says: string,
  isDrained: boolean,
  begin: (ends: Ends) => Promise<void>
])[] = [
  [
    "a client that does not close after its last response",
    true,
    async (ends) => {
      await send(ends, post(fern, "Connection: close\r\n"));
      await until("the server ends", () => ends.ours.writableEnded);
    }
  ],
  [
    "a client that does not close an idle connection",
    true,
    async (ends) => {
      await send(ends, post(fern));
      await sent(ends);
    }
  ],
  [
    "a body that is discarded after its early response",
    true,
    async (ends) => {
      await send(ends, `${post(fern)}`.replace("/plants", "/x").slice(0, -5));
      await sent(ends);
    }
  ],
  ["half a head", true, (ends) => send(ends, post(fern).subarray(0, 20))],
  ["half a body", false, (ends) => send(ends, post(fern).subarray(0, -5))],
  [
    "responses that the client does not read",
    false,
    async (ends) => {
      for (
        let times = 0;
        times < 30 && ends.ours.writableLength === 0;
        times++
      ) {
        await send(ends, post(large));
      }
      assert.ok(ends.ours.writableLength > 0, "its responses wait");
    }
  ]
];
for (const [says, isDrained, begin] of slow) {
  test(
    `at the drain's deadline ${says} is ${isDrained ? "no" : "a"} request cut off`,
    { timeout },
    async () => {
      const { server, port } = await serve({
        limits: { drainMillis: 200, discardMillis: never, idleMillis: never }
      });
      const gone = await open(server, port);
      const answered = await open(server, port);
      const ends = await open(server, port);
      await send(gone, post(fern).subarray(0, -5));
      gone.client.destroy();
      await closed(gone.ours);
      await slow[0]?.[2](answered);
      await begin(ends);
      assert.equal(
        await server.drain(),
        isDrained,
        "one that has gone, or has its response, is none"
      );
      await until("it is closed", () => ends.ours.closed);
    }
  );
}

for (const [what, rest, statuses] of [
  ["an invalid body", "x".repeat(fern.length), [400]],
  ["a plant and another request", fern + `${post(fern)}`, [200]]
] as const) {
  test(
    `a request in progress gets its true response during a drain: ${what}`,
    { timeout },
    async () => {
      const { server, port, ends } = await connected();
      await send(ends, post(fern).subarray(0, -fern.length));
      const drained = server.drain();
      const refused = connect(port, "127.0.0.1");
      assert.deepEqual(
        await readAnswers(refused, 1),
        [],
        "no new connection is accepted"
      );
      await send(ends, rest);
      const text = await readAll(ends);
      assert.deepEqual(statusesOf(text), statuses);
      assert.match(text, /\r\nConnection: close\r\n/);
      assert.equal(await drained, true);
    }
  );
}

/** Sent after a plant that waits for the store. */
for (const [says, bytes] of [
  ["garbage", "garbage\r\n\r\n"],
  ["a CONNECT", "CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n"]
] as const) {
  test(
    `nothing follows the last response of a drain, though ${says} arrived before it`,
    { timeout },
    async () => {
      const { server, store, ends } = await connected();
      store.hold();
      await send(ends, post(fern));
      await until("the store has the plant", () => store.waiting > 0);
      await send(ends, bytes);
      const drained = server.drain();
      store.release();
      assert.deepEqual(statusesOf(await readAll(ends)), [200]);
      assert.equal(await drained, true);
    }
  );
}

test(
  "at the drain's deadline a plant that waits for the store is a request cut off",
  { timeout },
  async () => {
    const { server, store, ends } = await connected({
      limits: { drainMillis: 100 }
    });
    store.hold();
    await send(ends, post(fern));
    // A later call returns the first drain's promise.
    assert.deepEqual(await Promise.all([server.drain(), server.drain()]), [
      false,
      false
    ]);
    assert.equal(await server.drain(), false);
    store.release();
  }
);

test(
  "a drain ends at once if no request is in progress, whatever the clients have sent",
  { timeout },
  async () => {
    const { server, port } = await serve({
      limits: { drainMillis: never, discardMillis: never }
    });
    for (const bytes of [
      "",
      "\r\n",
      "POST /pl",
      "GET /x HTTP/1.1\r\nHost: a\r\n\r\n"
    ]) {
      const { client, ours } = await open(server, port);
      client.once("end", () => client.end()).write(bytes);
      await until(
        "it is read, and a request has its response",
        () =>
          ours.bytesRead >= bytes.length &&
          (!bytes.startsWith("GET") || ours.bytesWritten > 0)
      );
      client.resume();
    }
    assert.equal(await server.drain(), true);
    assert.throws(() => server.listen(0), /cannot listen again/);
    assert.equal(
      await createPlantServer({
        store: {
          append: () => Promise.resolve(),
          close: () => Promise.resolve()
        },
        tokens: ["t"]
      }).drain(),
      true
    );
  }
);

test(
  "a drain closes a connection whose early response's body ends meanwhile",
  { timeout },
  async () => {
    const { server, ends } = await connected({
      limits: { drainMillis: never, discardMillis: never }
    });
    const text = readAll(ends);
    await send(
      ends,
      "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n01234"
    );
    await sent(ends);
    const drained = server.drain();
    await send(ends, "56789");
    assert.deepEqual(statusesOf(await text), [401]);
    assert.equal(await drained, true);
  }
);

test(
  "a reader that does not read stderr does not delay the exit",
  { timeout: seconds(60) },
  async () => {
    const child = spawn(
      node,
      [program, "--port", "0", "--log-requests", "--max-pipelined", "4000"],
      {
        cwd: temporaryFolder(),
        env: cleanEnvironment({ PLANTS_TOKEN: token }),
        stdio: ["ignore", "pipe", "pipe"]
      }
    );
    const ended = once(child, "exit");
    const [line] = await once(child.stdout, "data");
    const port = Number(/:(\d+)\n/.exec(`${line}`)?.[1]);

    // The pipe and the stream's own buffer are full after some thousand lines.
    const requests = "GET /x HTTP/1.1\r\nHost: a\r\n\r\n".repeat(4_000);
    assert.equal(
      (await exchange(port, requests, { answers: 4_000 })).length,
      4_000
    );
    child.kill("SIGTERM");
    assert.deepEqual(await ended, [0, null]);
    child.stderr.destroy();
  }
);

test(
  "a request with a key that a drain refuses says that it is unknown whether its plant was stored",
  { timeout },
  async () => {
    let release = (): void => undefined;
    const hold = new Promise<"stored">((resolve) => {
      release = () => resolve("stored");
    });
    const store = Object.assign(new HeldStore(), { appendOnce: () => hold });
    const { server, ends } = await connected({ store });
    const keyed = post(fern, "Idempotency-Key: k\r\n");
    await send(ends, keyed);
    void server.drain();
    const answers = readAnswers(ends.client.resume(), 2);
    await send(ends, keyed);
    release();
    const [first, second] = await answers;
    assert.equal(first?.status, 200);
    assert.match(
      `${second?.status} ${second?.body}`,
      /^503 .*"error":503.* unknown whether the plant was stored: .* error 50305\./
    );
  }
);
