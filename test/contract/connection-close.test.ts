/** How connections close: what the server waits for, for how long, and for how many bytes. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { test } from "node:test";
import { plant } from "../support/requests.ts";
import {
  closed,
  connected,
  type Ends,
  hosted,
  never,
  open,
  readAll,
  refused,
  send,
  serve,
  statusesOf,
  timeout
} from "../support/serving.ts";
import {
  answerTo,
  exchange,
  opened,
  readAnswers
} from "../support/exchange.ts";
import { post, startProcess } from "../support/support.ts";
import { until } from "../support/until.ts";

const last = post('{"id":1,"name":"Fern"}', "Connection: close\r\n");
const early = "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n01234";

for (const [what, bytes] of [
  ["a last response", last],
  ["garbage", "garbage\r\n\r\n"],
  ["a CONNECT", `CONNECT a:1 HTTP/1.1\r\n${hosted}\r\n`],
  ["a part of a refused body", early]
] as const) {
  test(
    `a client that does not close after ${what} is closed in time`,
    { timeout },
    async () => {
      const { ends } = await connected({ limits: { discardMillis: 100 } });
      ends.client.resume().write(bytes);
      await closed(ends.ours);
      assert.equal(ends.client.readableEnded, true);
      assert.equal(ends.client.writableEnded, false);
    }
  );
}

const timers = (): number =>
  process.getActiveResourcesInfo().filter((kind) => kind === "Timeout").length;

for (const [what, bytes, statuses, then] of [
  [
    "the body after an early response has ended",
    early,
    [401],
    (client: Ends["client"]) => client.write("56789")
  ],
  [
    "the client has reset the connection within that body",
    early,
    [401],
    (client: Ends["client"]) => client.resetAndDestroy()
  ],
  [
    "the client has closed after its last response",
    last,
    [200],
    (client: Ends["client"]) => client.end()
  ]
] as const) {
  test(`no timer is left once ${what}`, { timeout }, async () => {
    const { server, port } = await serve({ limits: { discardMillis: never } });
    const before = timers();
    const ends = await open(server, port);
    const answers = readAnswers(ends.client.resume(), 1);
    await send(ends, bytes);
    assert.deepEqual(
      (await answers).map(({ status }) => status),
      statuses
    );
    assert.equal(timers(), before + 1, "the control: the server waits");
    then(ends.client);
    await until("the server waits no more", () => timers() === before);
    ends.client.destroy();
    await closed(ends.ours);
  });
}

test("no timer is left after a drain", { timeout }, async () => {
  const { server } = await serve();
  const before = timers();
  await server.drain();
  assert.equal(timers(), before);
});

test(
  "no timer is left for a client that has gone before its last response",
  { timeout },
  async () => {
    const { server, port, store } = await serve({
      limits: { discardMillis: never }
    });
    const before = timers();
    store.hold();
    const ends = await open(server, port);
    await send(ends, last);
    ends.client.resetAndDestroy();
    await closed(ends.ours);
    store.release();
    assert.equal((await answerTo(port, plant)).status, 200);
    assert.equal(store.names.length, 2);
    assert.equal(timers(), before);
  }
);

const upgrade = "Connection: upgrade\r\nUpgrade: h2c\r\n";
const lastPlants = [
  ["a plant with Upgrade", post('{"id":1,"name":"Fern"}', upgrade)],
  ["a last plant", last]
] as const;
for (const [what, bytes, rest] of [
  ["garbage", "garbage\r\n\r\n", "\r\n"],
  [
    "an ambiguous request",
    `GET / HTTP/1.1\r\nHost: b\r\n${hosted}\r\n${refused}`,
    refused
  ],
  ["a CONNECT", `CONNECT a:1 HTTP/1.1\r\n${hosted}\r\n`, "x"],
  ["a refused Upgrade", `GET /x HTTP/1.1\r\n${hosted}${upgrade}\r\n`, "\r\n"],
  [...lastPlants[0], refused],
  [...lastPlants[1], "x"]
] as const) {
  test(
    `what follows ${what} is discarded up to the limit: ${JSON.stringify(rest)}`,
    { timeout },
    async () => {
      const limits = { discardBytesMax: 500_000, discardMillis: never };
      const { server, port } = await serve({ limits });
      for (const [sentMax, isGone] of [
        [400_000, false],
        [600_000, true]
      ] as const) {
        const ends = await open(server, port);
        await send(ends, bytes);
        const piece = rest.repeat(50_000 / rest.length);
        for (let sent = 0; sent < sentMax; sent += piece.length)
          await send(ends, piece);
        assert.equal(ends.ours.destroyed, isGone, `${sentMax}`);
        ends.client.destroy();
        await closed(ends.ours);
      }
    }
  );
}

for (const [what, bytes] of lastPlants)
  test(
    `${what} gets its response, whatever follows it beyond the limit meanwhile`,
    { timeout },
    async () => {
      const limits = { discardBytesMax: 1_000_000, discardMillis: never };
      const { store, ends } = await connected({ limits });
      store.hold();
      await send(ends, bytes);
      await until("it waits", () => store.waiting === 1);
      ends.client.write("x".repeat(10_000_000));
      await until(
        "the limit is reached",
        () => ends.ours.bytesRead > 1_000_000 || ends.ours.destroyed
      );
      const answers = readAnswers(ends.client.resume(), 1);
      store.release();
      assert.deepEqual(
        (await answers).map(({ status }) => status),
        [200]
      );
      assert.ok(ends.ours.bytesRead < 5_000_000, "little more is read");
      ends.client.destroy();
      ends.ours.destroy();
    }
  );

test(
  "a long body that was read whole leaves the connection open",
  { timeout },
  async () => {
    const { server, port } = await serve({ limits: { discardBytesMax: 5 } });
    const { client } = await open(server, port);
    const answers = readAnswers(client.resume(), 2);
    client.write(Buffer.concat([post("no JSON"), Buffer.from(plant)]));
    assert.deepEqual(
      (await answers).map(({ status }) => status),
      [400, 200]
    );
    client.destroy();
  }
);

test(
  "a CONNECT that is reset ends nothing, whenever the reset comes",
  { timeout },
  async () => {
    const server = await startProcess();
    for (const [before, waits] of [
      ["", false],
      ["", true],
      [plant, false]
    ] as const) {
      for (let round = 0; round < 2; round++) {
        const socket = await opened(server.port, before);
        socket.write("CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n");
        if (waits) await once(socket, "data");
        else await exchange(server.port, plant, { answers: 1 });
        socket.resetAndDestroy();
        assert.equal((await answerTo(server.port, plant)).status, 200);
      }
    }
    assert.equal(await server.end(), 0);
    assert.equal(server.stderr(), "");
  }
);

test("a body that ends after its 408 is not stored", { timeout }, async () => {
  const limits = { requestMillis: 200, headMillis: 200, checkMillis: 20 };
  const { store, ends } = await connected({ limits });
  await send(ends, plant.slice(0, -9));
  const text = readAll(ends);
  await once(ends.client, "data");
  ends.client.write(plant.slice(-9));
  assert.deepEqual(statusesOf(await text), [408]);
  assert.deepEqual(store.names, []);
});
