/**
 * Greedy clients: they take memory by not reading, and connections by sending slowly.
 * PLANT_TEST_ROUNDS, whatever its value: four clients instead of one, and floods of other requests.
 */
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { test } from "node:test";
import { plant } from "../support/requests.ts";
import {
  answerTo,
  exchange,
  opened,
  readAnswers
} from "../support/exchange.ts";
import { post, startProcess, token } from "../support/support.ts";
import { memoryOf, unless } from "../support/tools.ts";
import { seconds, until } from "../support/until.ts";

const { PLANT_TEST_NODE: node = process.execPath, PLANT_TEST_ROUNDS: rounds } =
  process.env;
const timeout = seconds(60);
const good = `Authorization: Bearer ${token}\r\nContent-Type: application/json\r\n`;

const noProc = unless(existsSync("/proc/self/status"), "there is no /proc");

const small = Buffer.from("GET /x HTTP/1.1\r\nHost: a\r\n\r\n");
const floods: readonly (readonly [
  says: string,
  bytes: Buffer,
  first?: string
])[] = [
  ["plants", Buffer.from(plant)],
  ["refused requests", small],
  [
    "requests after the last response",
    small,
    "GET /x HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"
  ],
  [
    "refused bodies",
    Buffer.from("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nabcde")
  ],
  ["plants of 100 KB", post(`{"id":1,"name":"${"x".repeat(100_000)}"}`)]
];
for (const [says, bytes, first = ""] of floods.slice(
  0,
  rounds === undefined ? 1 : undefined
)) {
  test(
    `a client that pipelines ${says} and never reads takes bounded memory`,
    { timeout, skip: noProc },
    async (t) => {
      const server = await startProcess({
        node,
        args: [
          "--idle-timeout",
          "1000",
          "--head-timeout",
          "1500",
          "--request-timeout",
          "1500"
        ]
      });
      try {
        await exchange(server.port, plant, { answers: 1 });
        const before = memoryOf(server, "VmHWM");
        // The client never reads: there is no data listener.
        const sockets = Array.from(
          { length: rounds === undefined ? 1 : 4 },
          () => connect(server.port, "127.0.0.1")
        );
        const block = Buffer.concat(
          Array<Buffer>(Math.ceil(65_536 / bytes.length)).fill(bytes)
        );
        const taken = await Promise.all(
          sockets.map((socket) => flood(socket, first, block))
        );
        const grown = memoryOf(server, "VmHWM") - before;
        t.diagnostic(
          `taken: ${taken.join(" + ")} bytes, memory: ${before} KiB and ${grown} more`
        );
        assert.ok(
          Math.max(...taken) < 64 * 1_048_576,
          "the server reads without end"
        );
        assert.ok(grown < 307_200, `${grown} KiB more`);
        assert.equal((await answerTo(server.port, plant)).status, 200);
      } finally {
        await server.end("SIGKILL");
      }
    }
  );
}

test(
  "forty clients that read no responses to large plants take at most twelve bodies each",
  { timeout, skip: noProc },
  async (t) => {
    const clients = 40;
    const bodyBytes = 2 ** 20;

    // One character beyond Latin-1 makes V8 take two bytes for each of the others.
    const start = '{"id":1,"name":"\u{1f33f}';
    const end = '"}';
    const filling = bodyBytes - Buffer.byteLength(start + end);
    const large = post(start + "x".repeat(filling) + end);

    const server = await startProcess({
      node,
      args: [
        "--idle-timeout",
        "2000",
        "--head-timeout",
        "2000",
        "--request-timeout",
        "2000"
      ]
    });
    try {
      await exchange(server.port, large, { answers: 1 });
      const before = memoryOf(server, "VmHWM");
      // The server closes a connection on which it waits for its client to read.
      const sockets = Array.from({ length: clients }, () =>
        connect(server.port, "127.0.0.1").on("error", () => undefined)
      );
      const sent = sockets.map(
        (socket) =>
          new Promise((resolve) => {
            for (let times = 1; times < 12; times++) socket.write(large);
            socket.write(large, resolve);
          })
      );
      await Promise.all(sent);
      const grown = memoryOf(server, "VmHWM") - before;
      const bodies = (grown * 1_024) / (clients * bodyBytes);
      t.diagnostic(`${bodies.toFixed(1)} bodies for each client`);
      assert.ok(bodies > 1, "the control: responses are kept");
      assert.ok(bodies < 12, `${bodies} bodies`);
      for (const socket of sockets) socket.destroy();

      await until(
        "the queue has room",
        async () => (await answerTo(server.port, plant)).status === 200
      );
    } finally {
      await server.end("SIGKILL");
    }
  }
);

/** Writes until the server closes the connection; returns the bytes that the kernel took. */
async function flood(
  socket: Socket,
  first: string,
  block: Buffer
): Promise<number> {
  const closed = new Promise((resolve) =>
    socket.on("error", () => undefined).on("close", resolve)
  );
  const write = (): void => {
    while (socket.writable && socket.write(block));
  };
  socket.write(first);
  socket.on("drain", write).once("connect", write);
  await closed;
  return socket.bytesWritten;
}

const head = `POST /plants HTTP/1.1\r\nHost: a\r\n${good}`;
const body = `${head}Content-Length: 1000000\r\n\r\n`;
const chunks = `${head}Transfer-Encoding: chunked\r\n\r\n`;
const refusedBody = `POST /plants HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n`;

// Where one of the limits ends a connection, another one that is an hour has not ended it.
const hour = "3600000";
const slow: readonly (readonly [
  limit: string,
  args: readonly string[],
  drips: readonly (readonly [
    says: string,
    start: string,
    drip: string,
    status: number,
    millisMin: number
  ])[]
])[] = [
  [
    "the head or a refused body",
    ["--head-timeout", "300", "--request-timeout", hour],
    [
      ["a request line", "POST /", "x", 408, 300],
      ["a field", `${head}X: `, "y", 408, 300],
      ["fields", head, "x:\r\n", 408, 300],
      ["empty lines", "\r\n", "\r\n", 408, 300],
      ["a refused body", refusedBody, " ", 401, 400]
    ]
  ],
  [
    "the request",
    ["--head-timeout", "300", "--request-timeout", "600"],
    [
      ["a body", body, " ", 408, 600],
      ["chunks", chunks, "1\r\n \r\n", 408, 600],
      ["a chunk", `${chunks}fff\r\n`, " ", 408, 600],
      ["a chunk's extension", `${chunks}1;`, "x", 408, 600],
      ["a trailer", `${chunks}0\r\nX: `, "y", 408, 600]
    ]
  ]
];
const common = [
  "--timeout-check",
  "20",
  "--discard-timeout",
  "400",
  "--idle-timeout",
  hour,
  "--max-fields",
  "900"
];

for (const [limit, args, drips] of slow) {
  test(
    `a client that sends a byte now and then is closed at the limit of ${limit}`,
    { timeout, concurrency: true },
    async (t) => {
      const server = await startProcess({ node, args: [...args, ...common] });
      try {
        await Promise.all(
          drips.map(([says, begin, drip, status, millisMin]) =>
            t.test(says, async () => {
              const from = performance.now();
              const socket = await opened(server.port);
              const answers = readAnswers(socket, Infinity);
              const closed = new Promise((resolve) =>
                socket.once("close", resolve)
              );
              socket.write(begin);
              // The connection is not idle: the limit counts from the request's first byte.
              const dripping = setInterval(
                () => socket.writable && socket.write(drip),
                10
              );
              t.after(() => clearInterval(dripping));
              await closed;
              clearInterval(dripping);
              const millis = performance.now() - from;
              assert.deepEqual(
                (await answers).map((answer) => answer.status),
                [status]
              );
              assert.ok(millis >= millisMin, `closed after ${millis} ms`);
            })
          )
        );
      } finally {
        await server.end("SIGKILL");
      }
    }
  );
}
