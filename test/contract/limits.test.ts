/** Every limit of HTTP at its edge, time-outs, the drain, and every row of the catalogue. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import type { Server } from "node:http";
import { connect } from "node:net";
import type { Socket } from "node:net";
import { test } from "node:test";
import { limitTable } from "../../src/config.ts";
import type { Limits } from "../../src/config.ts";
import { catalogue } from "../../src/http/errors.ts";
import type { Cause } from "../../src/http/errors.ts";
import { createPlantHandler, createPlantServer, StoreError } from "../../src/index.ts";
import type { PlantOptions, StoreErrorCode } from "../../src/index.ts";
import { exchange, post, readAnswers, start, token } from "../support/support.ts";
import type { RawAnswer, Running } from "../support/support.ts";

const { PLANT_TEST_NODE: node = process.execPath } = process.env;
const timeout = 20_000;
type Limit = keyof typeof limitTable;

/** What every answer of 400 or more keeps (src/http/README.md, "Every error"); returns its number. */
function assertError(answer: RawAnswer | undefined, status: number): number {
  assert.ok(answer, "no answer came");
  const { headers, body } = answer;
  assert.equal(answer.status, status, body);
  assert.equal(headers["content-type"], "application/json");
  assert.equal(headers["content-length"], String(Buffer.byteLength(body)));
  assert.match(headers["date"] ?? "", /^\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT$/);
  const { error, message, ...more } = JSON.parse(body) as { error: number; message: string };
  assert.deepEqual(more, {});
  assert.equal(Math.floor(error / 100), status);
  assert.match(message, /^[A-Z][^\0-\x1f\x7f]{1,498}[.…]$/);
  for (const [name, statuses] of [
    ["www-authenticate", [401]], ["allow", [405]], ["retry-after", [503]],
  ] as const) {
    if (statuses.some((one) => one === status)) assert.ok(headers[name], name);
  }
  if (status === 408 || status === 431) assert.equal(headers["connection"], "close");
  return error;
}

const fern = '{"id":1,"name":"Fern"}';
/** A good plant whose body has this many bytes. */
const sized = (bytes: number): string => fern.padEnd(bytes);
const good = `Authorization: Bearer ${token}\r\nContent-Type: application/json\r\n`;
const line = "POST /plants HTTP/1.1\r\nHost: localhost\r\n";
const chunked = (body: string): string => `${line}${good}Transfer-Encoding: chunked\r\n\r\n`
  + `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`;
const nested = (levels: number): string =>
  `{"id":1,"name":"Fern","x":${"[".repeat(levels - 1)}${"]".repeat(levels - 1)}}`;
/** A good request with a head of this many bytes, from the request line to the empty line. */
function headed(bytes: number): string {
  const head = `${line}${good}Content-Length: ${fern.length}\r\nX: \r\n\r\n`;
  return head.replace("X: ", `X: ${"x".repeat(bytes - head.length)}`) + fern;
}
/** A good request with this many fields. */
const fielded = (fields: number): Buffer => post(fern, "a: b\r\n".repeat(fields - 4));

const one = async (port: number, bytes: string | Buffer): Promise<RawAnswer | undefined> =>
  (await exchange(port, bytes, { answers: 1 }))[0];

async function opened(port: number): Promise<Socket> {
  const socket = connect(port, "127.0.0.1");
  await once(socket, "connect");
  return socket;
}

/** Writes, and waits until the kernel has it. */
const write = (socket: Socket, bytes: string | Buffer): Promise<void> =>
  new Promise((resolve) => { socket.write(bytes, () => resolve()); });

/** At the limit, and one beyond it. */
const edges = (
  at: string | Buffer, beyond: string | Buffer, status: number,
) => async ({ port }: Running): Promise<void> => {
  assert.equal((await one(port, at))?.status, 200);
  assertError(await one(port, beyond), status);
  assert.equal((await one(port, post(fern)))?.status, 200);
};

/** Half a request is answered 408, and closed. */
const late = (...sent: readonly string[]) => async ({ port }: Running): Promise<void> => {
  for (const bytes of sent) {
    const answers = await exchange(port, bytes);
    assert.equal(answers.length, 1);
    assertError(answers[0], 408);
  }
};
const halfBody = `${line}${good}Content-Length: 30\r\n\r\n${fern}`;
const halfHead = `${line}Authorization: `;

interface LimitCase {
  readonly args: readonly string[];
  readonly check: (running: Running) => Promise<void>;
}
/** Limits of the store: its own tests have them. */
const elsewhere: readonly string[] = [
  "queueRecordsMax", "queueBytesMax", "batchBytesMax", "keysBytesMax", "rotationMillis",
];
const short = ["--timeout-check", "10"];
const limitCases: { readonly [name in Limit]?: readonly LimitCase[] } = {
  bodyBytesMax: [
    { args: ["--max-body", "100"], check: edges(post(sized(100)), post(sized(101)), 413) },
    { args: ["--max-body", "100"], check: edges(chunked(sized(100)), chunked(sized(101)), 413) },
    { args: [], check: edges(post(sized(1_048_576)), post(sized(1_048_577)), 413) },
  ],
  headBytesMax: [
    { args: ["--max-head", "1000"], check: edges(headed(1_000), headed(1_001), 431) },
    { args: [], check: edges(headed(16_384), headed(16_385), 431) },
  ],
  headFieldsMax: [
    { args: ["--max-fields", "10"], check: edges(fielded(10), fielded(11), 431) },
    { args: [], check: edges(fielded(100), fielded(101), 431) },
  ],
  nestingMax: [
    { args: ["--max-nesting", "3"], check: edges(post(nested(3)), post(nested(4)), 400) },
    { args: [], check: edges(post(nested(64)), post(nested(65)), 400) },
  ],
  headMillis: [{ args: ["--head-timeout", "150", ...short], check: late(halfHead, "P") }],
  requestMillis: [{
    args: ["--head-timeout", "100", "--request-timeout", "150", ...short],
    check: late(halfBody, `${line}${good}Transfer-Encoding: chunked\r\n\r\n5\r\n`),
  }],
  checkMillis: [{
    args: ["--head-timeout", "100", "--request-timeout", "100", "--timeout-check", "1000"],
    check: late(halfHead, halfBody),
  }],
  idleMillis: [{
    args: ["--idle-timeout", "150"],
    async check({ port }) {
      const answers = await exchange(port, post(fern));
      assert.deepEqual(answers.map(({ status }) => status), [200]);
      assert.deepEqual(await exchange(port, []), []);
    },
  }],
  discardBytesMax: [
    {
      args: ["--max-discard", "5000"],
      async check({ port }) {
        const small = `POST /x HTTP/1.1\r\nHost: a\r\n${good}Content-Length: 5000\r\n\r\n`;
        const within = await exchange(port, [small, " ".repeat(5_000), post(fern)], { answers: 2 });
        assertError(within[0], 404);
        assert.equal(within[1]?.status, 200);
        const [declared, ...more] = await exchange(port, small.replace("5000", "5001"));
        assertError(declared, 404);
        assert.equal(declared?.headers["connection"], "close");
        assert.equal(more.length, 0);
      },
    },
    {
      args: ["--max-discard", "5000", "--discard-timeout", "60000"],
      async check({ port }) {
        const endless = await opened(port);
        const answers = readAnswers(endless, Infinity);
        const unended = chunked(" ".repeat(8_000)).replace("/plants", "/x").slice(0, -5);
        await write(endless, unended);
        assertError((await answers)[0], 404);
      },
    },
  ],
  discardMillis: [{
    args: ["--discard-timeout", "100"],
    async check({ port }) {
      const answers = await exchange(port, halfBody.replace("/plants", "/x"));
      assert.equal(answers.length, 1);
      assertError(answers[0], 404);
    },
  }],
  connectionsMax: [{
    args: ["--max-connections", "2"],
    async check({ port }) {
      const held = [await opened(port), await opened(port)] as const;
      for (const socket of held) {
        const answer = readAnswers(socket, 1);
        await write(socket, post(fern));
        assert.equal((await answer)[0]?.status, 200);
      }
      assert.deepEqual(await exchange(port, post(fern)), []);
      const again = readAnswers(held[0], 1);
      await write(held[0], post(fern));
      assert.equal((await again)[0]?.status, 200);
      for (const socket of held) socket.destroy();
    },
  }],
  bodiesBytesMax: [{
    args: ["--max-bodies", "300", "--max-body", "200"],
    async check({ port }) {
      const head = `${line}${good}Expect: 100-continue\r\nContent-Length: 150\r\n\r\n`;
      const held: Socket[] = [];
      for (let index = 0; index < 3; index++) {
        const socket = await opened(port);
        const ready = readAnswers(socket, 1);
        await write(socket, head);
        assert.equal((await ready)[0]?.status, 100);
        held.push(socket);
      }
      // Two of them fit, whichever are read first; the third is refused.
      const answers = held.map(async (socket) => ({ socket, found: await readAnswers(socket, 1) }));
      for (const socket of held) await write(socket, sized(149));
      const { socket: refused, found } = await Promise.race(answers);
      assert.equal(assertError(found[0], 503), catalogue.bodies.error);
      for (const socket of held) if (socket !== refused) await write(socket, " ");
      const whole = (await Promise.all(answers)).filter(({ socket }) => socket !== refused);
      assert.deepEqual(whole.map((answer) => answer.found[0]?.status), [200, 200]);
      assert.equal((await one(port, post(sized(200))))?.status, 200);
      for (const socket of held) socket.destroy();
    },
  }],
  drainMillis: [{
    args: ["--drain-timeout", "100"],
    async check(running) {
      const [ended] = await Promise.all([
        exchange(running.port, halfBody.replace("\r\n\r\n", "\r\nExpect: 100-continue\r\n\r\n"), {
          answers: Infinity,
        }),
        opened(running.port).then(async (idle) => {
          const ready = readAnswers(idle, 1);
          await write(idle, post(fern));
          await ready;
          assert.equal(await running.end(), 69);
        }),
      ]);
      assert.ok(ended.every(({ status }) => status === 100 || status >= 400));
    },
  }],
};

for (const [name, cases = []] of Object.entries(limitCases)) {
  for (const { args, check } of cases) {
    test(`${name} holds at its edge: ${args.join(" ") || "default"}`, { timeout }, async () => {
      const running = await start({ node, args });
      try {
        await check(running);
      } finally {
        await running.end("SIGKILL");
      }
    });
  }
}

test("every limit of the table has its test", () => {
  const tested = [...Object.keys(limitCases), ...elsewhere].sort();
  assert.deepEqual(tested, Object.keys(limitTable).sort());
});

/** A request whose head is read, which 100 Continue shows; its body is still to be sent. */
async function underWay(port: number): Promise<Socket> {
  const socket = await opened(port);
  const ready = readAnswers(socket, 1);
  const fields = `Expect: 100-continue\r\nContent-Length: ${fern.length}\r\n\r\n`;
  await write(socket, `${line}${good}${fields}`);
  assert.equal((await ready)[0]?.status, 100);
  return socket;
}

/** Sends SIGTERM, and waits until the drain has begun: it closes an idle connection. */
async function drained(running: Running): Promise<void> {
  const idle = await opened(running.port);
  const answer = readAnswers(idle, 1);
  await write(idle, post(fern));
  assert.equal((await answer)[0]?.status, 200);
  const closed = once(idle, "close");
  running.process.kill("SIGTERM");
  await closed;
}

test("a request under way at SIGTERM gets its true answer, and the exit status is 0", { timeout },
  async () => {
    const behind = Buffer.concat([Buffer.from(fern), post(fern)]);
    for (const [rest, status] of [[fern, 200], ["x".repeat(22), 400], [behind, 200]] as const) {
      const running = await start({ node });
      const socket = await underWay(running.port);
      await drained(running);
      const refused = connect(running.port, "127.0.0.1");
      refused.write(post(fern));
      assert.deepEqual(await readAnswers(refused, 1), []);
      const answers = readAnswers(socket, Infinity);
      await write(socket, rest);
      const found = await answers;
      assert.equal(found[0]?.status, status);
      assert.equal(found.at(-1)?.headers["connection"], "close");
      // A request that comes while shutting down is refused, or stands behind the last answer.
      if (rest === behind && found.length === 2) assertError(found[1], 503);
      else assert.equal(found.length, 1);
      if (running.process.exitCode === null) await once(running.process, "exit");
      assert.equal(running.process.exitCode, 0);
    }
  });

test("a second signal ends the program at once, its request unanswered", { timeout }, async () => {
  // Not by the deadline, which ends with 69, too.
  const running = await start({ node, args: ["--drain-timeout", "600000"] });
  const socket = await underWay(running.port);
  await drained(running);
  const answers = readAnswers(socket, Infinity);
  assert.equal(await running.end("SIGINT"), 69);
  assert.deepEqual(await answers, []);
});

interface CauseCase {
  readonly bytes: string | Buffer;
  readonly limits?: Partial<Limits>;
  readonly halfClose?: true;
  /** What the store, or the host application, does. */
  readonly fails?: Error;
  readonly host?: (options: PlantOptions) => Server;
}
const body = (bytes: string | Buffer): CauseCase => ({ bytes: post(bytes) });
const fields = (text: string): CauseCase => ({ bytes: post(fern, text) });
const replaced = (from: string, to: string): CauseCase =>
  ({ bytes: post(fern).toString().replace(from, to) });
const failing = (code: Exclude<StoreErrorCode, "invalid">): CauseCase =>
  ({ bytes: post(fern), fails: new StoreError(code, "secret") });
const taken = (options: PlantOptions): Server => {
  const handler = createPlantHandler(options);
  return createServer((request, response) => {
    request.resume().once("end", () => handler(request, response));
  });
};
const causes: Readonly<Record<Cause, CauseCase>> = {
  malformed: { bytes: "garbage\r\n\r\n" },
  target: replaced("/plants", "/plants#x"),
  host: replaced("localhost", ""),
  framing: { bytes: chunked(fern).replace("HTTP/1.1", "HTTP/1.0") },
  repeated: fields("Content-Type: application/json\r\n"),
  credentials: replaced("Bearer test-token", "Bearer"),
  manyCredentials: fields(`Authorization: Bearer ${token}\r\n`),
  empty: body(""),
  utf8: body(Buffer.from('{"id":1,"name":"\xff"}', "latin1")),
  json: body("{"),
  duplicate: body('{"id":1,"id":1,"name":"Fern"}'),
  surrogate: body('{"id":1,"name":"\\ud800"}'),
  nesting: body(nested(65)),
  schema: body("{}"),
  truncated: { bytes: halfBody, halfClose: true },
  anonymous: replaced(`Bearer ${token}`, "Basic x"),
  token: replaced(token, "another"),
  path: replaced("/plants", "/"),
  method: replaced("POST", "PUT"),
  connect: { bytes: `CONNECT localhost:80 HTTP/1.1\r\nHost: a\r\n${good}\r\n` },
  timeout: { bytes: halfHead, limits: { headMillis: 100, requestMillis: 100, checkMillis: 10 } },
  declaredSize: { bytes: post(sized(101)), limits: { bodyBytesMax: 100 } },
  size: { bytes: chunked(sized(101)), limits: { bodyBytesMax: 100 } },
  chunkExtensions: { bytes: chunked(fern).replace("16\r\n", `16;x=${"x".repeat(20_000)}\r\n`) },
  mediaType: replaced("application/json", "text/plain"),
  charset: replaced("application/json", "application/json; charset=latin1"),
  contentCoding: fields("Content-Encoding: gzip\r\n"),
  expectation: fields("Expect: 200-ok\r\n"),
  headBytes: { bytes: headed(1_001), limits: { headBytesMax: 1_000 } },
  headFields: { bytes: fielded(101) },
  fault: { bytes: post(fern), fails: new Error("secret") },
  bodyTaken: { bytes: post(fern), host: taken },
  transferCoding: { bytes: chunked(fern).replace(": chunked", ": gzip, chunked") },
  full: failing("full"),
  unknown: failing("unknown"),
  busy: failing("busy"),
  bodies: { bytes: post(sized(101)), limits: { bodiesBytesMax: 100 } },
  closed: failing("closed"),
  tooLarge: failing("tooLarge"),
  conflict: failing("conflict"),
  idempotencyKey: fields("Idempotency-Key: \"\r\n"),
  unreachable: failing("unreachable"),
  version: replaced("HTTP/1.1", "HTTP/2.0"),
};

/** Behind these, what comes is in doubt, or is not to be waited for: the answer closes. */
const closing: ReadonlySet<string> = new Set<Cause>([
  "malformed", "target", "host", "framing", "repeated", "manyCredentials", "truncated", "connect",
  "timeout", "size", "chunkExtensions", "headBytes", "headFields", "bodyTaken", "transferCoding",
  "bodies", "closed", "version",
]);

test("every row of the catalogue is reached, and its number seen", { timeout }, async (t) => {
  assert.deepEqual(Object.keys(causes).sort(), Object.keys(catalogue).sort());
  for (const [cause, { bytes, limits = {}, halfClose = false, fails, host = createPlantServer }]
    of Object.entries<CauseCase>(causes)) {
    await t.test(cause, async () => {
      const store = {
        append: () => (fails ? Promise.reject(fails) : Promise.resolve()),
        appendOnce: () => Promise.resolve("stored" as const),
        close: () => Promise.resolve(),
      };
      const faults: unknown[] = [];
      const onFault = (fault: unknown): void => { faults.push(fault); };
      const server = host({ store, tokens: [token], limits, onFault }).listen(0, "127.0.0.1");
      await once(server, "listening");
      const address = server.address();
      const port = typeof address === "object" && address ? address.port : 0;
      const [answer] = await exchange(port, bytes, { answers: 1, halfClose });
      server.close();
      server.closeAllConnections();
      const row = Object.entries(catalogue).find(([name]) => name === cause)?.[1];
      assert.equal(assertError(answer, Math.floor((row?.error ?? 0) / 100)), row?.error);
      const closes = answer?.headers["connection"] === "close";
      assert.equal(closes, closing.has(cause) || cause === "expectation");
      assert.ok(!answer?.body.includes("secret"), "the message tells of the inside");
      assert.deepEqual(faults, cause === "fault" ? [fails] : []);
    });
  }
});
