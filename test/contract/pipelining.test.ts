/** Several requests on one connection: each is executed and gets its response in order, or neither;
 * and each response leaves in one piece. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import type { IncomingMessage } from "node:http";
import { connect } from "node:net";
import { join } from "node:path";
import { test } from "node:test";
import { fetchPlant } from "../support/operator.ts";
import {
  connected,
  hosted,
  readAll,
  send,
  serve,
  statusesOf,
  timeout
} from "../support/serving.ts";
import { answerTo, exchange, readAnswers } from "../support/exchange.ts";
import { post, startProcess, temporaryFolder } from "../support/support.ts";
import { missing } from "../support/tools.ts";
import { until } from "../support/until.ts";

const plant = (name: string, fields = ""): string =>
  `${post(`{"id":1,"name":"${name}"}`, fields)}`;
const next = plant("next");

test(
  "no request after an ambiguous one is executed, although its client has gone",
  { timeout },
  async () => {
    const { server, port, store } = await serve();
    // As after a failed write of an earlier response.
    server.prependOnceListener("request", (request: IncomingMessage) =>
      request.socket.destroy()
    );
    await exchange(port, `GET / HTTP/1.1\r\nHost: b\r\n${hosted}\r\n${next}`);
    assert.equal((await answerTo(port, plant("honest"))).status, 200);
    assert.deepEqual(store.names, ["honest"]);
  }
);

test(
  "garbage and a half-close after a plant get 400, after the plant's 200",
  { timeout },
  async () => {
    const { server, port, store } = await serve();
    store.hold();
    server.once("request", (request) =>
      request.socket.once("end", () => setImmediate(store.release))
    );
    const bytes = `${plant("first")}garbage\r\n\r\n`;
    const answers = await exchange(port, bytes, { halfClose: true });
    assert.deepEqual(
      answers.map(({ status }) => status),
      [200, 400]
    );
    assert.deepEqual(store.names, ["first"]);
  }
);

test(
  "a request that arrives during a drain gets 400 if it is invalid, and 503 if it is valid",
  { timeout },
  async () => {
    for (const [body, status] of [
      ['{"name":"x"}', 400],
      ['{"id":1,"name":"x"}', 503]
    ] as const) {
      const { server, port, store } = await serve();
      store.hold();
      const socket = connect(port, "127.0.0.1");
      const answers = readAnswers(socket, 2);
      socket.write(plant("first"));
      await once(server, "request");
      const drained = server.drain();
      socket.write(post(body));
      await once(server, "request");
      store.release();
      assert.deepEqual(
        (await answers).map((answer) => answer.status),
        [200, status]
      );
      socket.destroy();
      assert.equal(await drained, true);
      assert.deepEqual(store.names, ["first"]);
    }
  }
);

test(
  "a plant that has arrived gets 408 if the server does not read it in time, while responses wait",
  { timeout },
  async () => {
    let isLate = false;
    const { ends, store } = await connected({
      limits: { headMillis: 1_000, requestMillis: 1_000, checkMillis: 20 },
      onResponse: ({ status }) => {
        isLate ||= status === 408;
      }
    });
    store.hold();
    const text = readAll(ends);
    await send(ends, plant("first"));
    await until("it waits", () => store.waiting === 1);
    const { release } = store;
    store.hold();
    store.release();

    // Node reads 64 KiB at once, and stops while so much of responses waits.
    const [large, late] = ["x".repeat(100_000), "y".repeat(80_000)];
    ends.client.write(plant(large) + plant(late));
    await until("its time is over", () => isLate);
    assert.equal(ends.client.writableLength, 0, "the kernel has all of it");
    assert.ok(ends.ours.bytesRead < ends.client.bytesWritten);
    release();
    assert.deepEqual(statusesOf(await text), [200, 200, 408]);
    assert.deepEqual(store.names, [large, "first"]);
  }
);

// A whole response is passed to the kernel in one piece, on every Node. By themselves, Nodes before
// 24 make two pieces, the second one empty, which costs a tenth of a request.

const { PLANT_TEST_NODES = "" } = process.env;
const nodes = [
  process.execPath,
  ...PLANT_TEST_NODES.split(":").filter(Boolean)
];
const noStrace = missing(["strace", "-f", "-o", "/dev/null", "true"]);

/** Returns the system calls that sent responses, in order, each with the response's status. */
async function callsOf(node: string): Promise<readonly string[]> {
  const trace = join(temporaryFolder(), "trace");
  const server = await startProcess({
    node: "strace",
    nodeArgs: [
      "-D",
      "-f",
      "-q",
      "-s",
      "99",
      "-o",
      trace,
      "-e",
      "trace=write,writev,sendto,sendmsg",
      node
    ]
  });
  for (const body of [
    '{"id":1,"name":"Fern"}',
    '{"id":2,"name":"\u00e9"}',
    "no JSON"
  ]) {
    await (await fetchPlant(server.url, body)).text();
  }
  assert.equal(await server.end(), 0);

  // The program has ended, but strace may still have to write the last lines: not the answers'.
  const lines = readFileSync(trace, "utf8").split("\n");
  const answers = lines.filter((line) => line.includes("HTTP/1.1 "));
  return answers.map((line) => {
    const { call = "", status = "" } =
      /(?<call>\w+)\(.*HTTP\/1\.1 (?<status>\d+)/.exec(line)?.groups ?? {};
    return `${call} ${status}`;
  });
}

for (const node of nodes) {
  test(`a response is one write: ${node}`, { skip: noStrace }, async () => {
    assert.deepEqual(await callsOf(node), [
      "write 200",
      "write 200",
      "write 400"
    ]);
  });
}
