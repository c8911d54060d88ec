/** The parser of the protocol, and the address. */
import assert from "node:assert/strict";
import { Readable } from "node:stream";
import { describe, test } from "node:test";
import { natsLimits } from "../../src/nats/limits.ts";
import { framesOf } from "../../src/nats/protocol.ts";
import { settingsOf } from "../../src/nats/address.ts";
import { ExitError } from "../../src/failure.ts";

async function read(chunks: readonly (Buffer | string)[], limits = natsLimits) {
  const found: (readonly (string | number)[])[] = [];
  const bytes = Readable.from(
    chunks.map((chunk) => Buffer.from(chunk)),
    { objectMode: true }
  );
  for await (const { words, status, payload } of framesOf(bytes, limits)) {
    found.push([words.join(" "), status || "", payload.toString()]);
  }
  return found;
}

const stream = Buffer.from(
  [
    'INFO {"version":"2.15.1"}\r\n',
    "PING\r\n",
    "PONG\r\n",
    "+OK\r\n",
    'MSG _INBOX.a.1 1 28\r\n{"stream":"plants", "seq":1}\r\n',
    "MSG _INBOX.a.2 1  5\r\nab\r\nc\r\n",
    "MSG _INBOX.a.3 1 reply 0\r\n\r\n",
    "HMSG _INBOX.a.4 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\n",
    "HMSG _INBOX.a.5 1 reply 30 34\r\nNATS/1.0\r\nNats-Sequence: 7\r\n\r\nFern\r\n",
    "-ERR 'Authorization Violation'\r\n"
  ].join("")
);
const expected = [
  ['INFO {"version":"2.15.1"}', "", ""],
  ["PING", "", ""],
  ["PONG", "", ""],
  ["+OK", "", ""],
  ["MSG _INBOX.a.1 1 28", "", '{"stream":"plants", "seq":1}'],
  ["MSG _INBOX.a.2 1 5", "", "ab\r\nc"],
  ["MSG _INBOX.a.3 1 reply 0", "", ""],
  ["HMSG _INBOX.a.4 1 16 16", 503, ""],
  ["HMSG _INBOX.a.5 1 reply 30 34", "", "Fern"],
  ["-ERR 'Authorization Violation'", "", ""]
];

describe("the bytes of a server", () => {
  test("are parsed byte by byte", async () => {
    assert.deepEqual(
      await read([...stream].map((byte) => Buffer.of(byte))),
      expected
    );
  });
  test("are parsed the same, split anywhere", async () => {
    for (let cut = 1; cut < stream.length; cut++) {
      assert.deepEqual(
        await read([stream.subarray(0, cut), stream.subarray(cut)]),
        expected,
        `cut at ${cut}`
      );
    }
  });

  test("are copied a few times, not at each of a message's segments", async (t) => {
    const concat = t.mock.method(Buffer, "concat");
    const bytes = Buffer.from(
      `MSG a 1 1000000\r\n${"x".repeat(1_000_000)}\r\nPING\r\n`
    );
    const segments = Array.from({ length: 1_001 }, (_, n) =>
      bytes.subarray(n * 1_000, (n + 1) * 1_000)
    );
    assert.equal((await read(segments)).length, 2);
    const copied = concat.mock.calls.reduce(
      (sum, { result }) => sum + (result?.length ?? 0),
      0
    );
    assert.ok(copied >= 1e6 && copied < 3e6, `${copied}`);
  });

  const line = natsLimits.lineBytesMax;
  const message = natsLimits.messageBytesMax;
  for (const [name, bytes, isGood] of [
    ["a line of the limit", `INFO ${"x".repeat(line - 5)}\r\n`, true],
    ["a line of one byte more", `INFO ${"x".repeat(line - 4)}\r\n`, false],
    [
      "a line without an end, of one byte and what may be its CR",
      "x".repeat(line + 2),
      false
    ],
    ["a message of the limit", `MSG a 1 ${message}\r\n`, true],
    ["a message of one byte more", `MSG a 1 ${message + 1}\r\n`, false],
    ["a length below zero", "MSG a 1 -1\r\n", false],
    ["no length", "MSG\r\n", false],
    ["headers of a length below zero", "HMSG a 1 -1 2\r\n", false],
    ["headers longer than the message", "HMSG a 1 3 2\r\n", false]
  ] as const) {
    test(`${isGood ? "takes" : "refuses"} ${name}`, async () => {
      if (isGood) await assert.doesNotReject(read([bytes]));
      else await assert.rejects(read([bytes]), ExitError);
    });
  }
});

describe("the address", () => {
  const read = (address: string) => {
    const { limits, login, keys, warn, tlsOptions, ...target } = settingsOf(
      address,
      {}
    );
    return target;
  };
  test("has hosts, a stream and options", () => {
    const { hosts, ...rest } = read(
      "tls://h1,[::1]:4223,10.0.0.1:1/PLANTS-2?replicas=5&servers=asked.of&tls-first&domain=hub&inbox=_INBOX_plants.x&subject=plants.new"
    );
    assert.deepEqual(
      hosts.map(({ host, port, shown, servername }) => [
        host,
        port,
        shown,
        servername
      ]),
      [
        ["h1", 4222, "h1", "h1"],
        ["::1", 4223, "[::1]:4223", ""],
        ["10.0.0.1", 1, "10.0.0.1:1", ""]
      ]
    );
    assert.deepEqual(rest, {
      stream: "PLANTS-2",
      subject: "plants.new",
      needsTls: true,
      replicas: 5,
      servers: "asked.of",
      isTlsFirst: true,
      api: "$JS.hub.API",
      inbox: "_INBOX_plants.x"
    });
  });
  test("has defaults", () => {
    const { hosts, ...rest } = read("nats://h1/plants");
    assert.deepEqual(rest, {
      stream: "plants",
      subject: "plants",
      needsTls: false,
      replicas: 3,
      servers: null,
      isTlsFirst: false,
      api: "$JS.API",
      inbox: "_INBOX"
    });
  });

  for (const address of [
    "nats://h1",
    "nats:///plants",
    "http://h1/plants",
    "nats://h1:0x1/plants",
    "nats://h1:65536/plants",
    "nats://h1,/plants",
    "nats://h1/pla.nts",
    "nats://h1/plants>",
    "nats://h1/plants?",
    "nats://h1/plants?replicas=0",
    "nats://h1/plants?replicas=6",
    "nats://h1/plants?servers=a.*",
    "nats://h1/plants?s3cret=1",
    "nats://h1/plants?domain=a.b",
    "nats://h1/plants?inbox=a.>",
    "nats://h1/plants?subject=a.*",
    "nats://h1/plants?replicas=3&",
    "nats://h1/plants#s3cret",
    "nats://u:s3cret@h1/plants",
    "nats://h1,u@h2/plants",
    "nats://h1 /plants",
    "nats://h1/plants\r\nPING",
    `nats://h1/${"p".repeat(65)}`
  ]) {
    test(`${JSON.stringify(address.slice(0, 60))} is refused, and not quoted`, () => {
      assert.throws(
        () => settingsOf(address, {}),
        (error) =>
          error instanceof ExitError &&
          error.code === "config" &&
          !/s3|@|u:/.test(error.message)
      );
    });
  }
});
