/** The log: its events, requests' lines and ids, floods, stalled readers, forged lines. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, renameSync, statSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { hostname } from "node:os";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { test } from "node:test";
import { tokenDigest } from "../../src/index.ts";
import { version } from "../../src/config.ts";
import { catalogue } from "../../src/http/errors.ts";
import type { Host } from "../../src/program/host.ts";
import { createLog } from "../../src/program/serving/log.ts";
import { begin, start } from "../support/in-process.ts";
import {
  ask,
  hangUp,
  limitFiles,
  logged,
  noLimits,
  preload,
  statusOf,
  stranger,
  timeout
} from "../support/operator.ts";
import { plant } from "../support/requests.ts";
import { exchange, type RawAnswer, readAnswers } from "../support/exchange.ts";
import {
  cleanEnvironment,
  eventsOf,
  type LogEvent,
  post,
  program,
  runningOf,
  type Running,
  socketFolder,
  startProcess,
  temporaryFolder,
  token
} from "../support/support.ts";

/** Lets a client send many requests before it reads. */
const unbounded = ["--max-pipelined", "10000"];

/** Those that tell of a request. */
const answersOf = (server: Running): LogEvent[] =>
  server.events().filter(({ res }) => res !== undefined);

test("each event of a life is one JSON object, with pino's names", async () => {
  const cwd = temporaryFolder();
  const line = (name: string): string => `${name} ${tokenDigest(name)}\n`;
  writeFileSync(join(cwd, "tokens"), line("alice"), { mode: 0o600 });
  const server = await start({ cwd, args: ["--tokens", "tokens"] });
  await ask(server, plant);
  writeFileSync(join(cwd, "tokens"), line("alice") + line("bob"));
  renameSync(join(cwd, "plants.ndjson"), join(cwd, "old.ndjson"));
  await hangUp(server, "now writing to");
  assert.equal(await server.end(), 0);
  const events = server.events();
  for (const event of events) {
    assert.equal(event.level, 30);
    assert.equal(event.pid, process.pid);
    assert.equal(event.hostname, hostname());
    assert.ok(Math.abs(event.time - Date.now()) < 600_000, `${event.time}`);
  }
  const [serving, ...others] = events.map(
    ({ level, time, pid: id, hostname: on, ...own }) => own
  );
  const base = server.url;
  const tokens = ["PLANTS_TOKEN", "alice"];
  const path = join(cwd, "plants.ndjson");
  assert.deepEqual(serving, {
    version,
    url: `${base}/plants`,
    base,
    store: path,
    records: 0,
    tokens,
    msg: "serving"
  });
  assert.deepEqual(others, [
    { tokens: [...tokens, "bob"], msg: "tokens reloaded" },
    { msg: `rotated: now writing to ${path}` },
    { msg: "draining: SIGTERM" },
    { msg: "ended, with 0" }
  ]);
});

test("an error that ends the program is an event of the log, a mistake of the settings a line of text", async () => {
  const cwd = temporaryFolder();
  const first = await start({ cwd });
  const ends = async (...args: readonly string[]) => {
    const running = begin(["--port", "0", ...args], {}, { cwd });
    return [
      await running.ended,
      running.stderr(),
      running.events().map(({ level }) => level)
    ] as const;
  };
  const [locked, message, levels] = await ends();
  assert.equal(locked, 75);
  assert.deepEqual(levels, [50]);
  assert.match(message, /another process, or this one, has it open/);
  for (const [args, code] of [
    [["--shiny"], 64],
    [["--port", "x"], 64]
  ] as const) {
    const [status, text, events] = await ends(...args);
    assert.equal(status, code);
    assert.deepEqual(events, []);
    assert.match(text, /^plant-store: .*\n$/);
  }
  assert.equal(await first.end(), 0);
});

/** What is wrong, by an error's number. */
const whatOf = (code = 0): string =>
  Object.values(catalogue).find(([error]) => error === code)?.[1] ?? "none";

test("an unknown variable is an event of the log", async () => {
  const server = await start({ env: { PLANTS_TOKENS: "S3cret" } });
  assert.equal(await server.end(), 0);
  const [{ level, msg } = assert.fail("there is one")] = server.events();
  assert.deepEqual(
    [level, msg],
    [40, "PLANTS_TOKENS is ignored: there is no such setting"]
  );
});

test("only failed requests are logged unless all are asked for, with their time", async () => {
  const shown = async (...args: readonly string[]) => {
    const server = await start({ args });
    const elsewhere = plant.replace("/plants", "/x?token=y");
    for (const bytes of [plant, elsewhere, stranger, "no HTTP\r\n\r\n"])
      await ask(server, bytes);
    assert.equal(await server.end(), 0);
    return answersOf(server).map((event) => {
      const { level, msg, req, res, token: name, err, reqId } = event;
      assert.equal(req?.remoteAddress, "127.0.0.1");
      assert.equal(err?.type, err && "ApiError");
      const { responseTime: time = 1 } = event;
      assert.ok(time > 0 && time < timeout);
      return [
        ...[level, msg.replace(whatOf(err?.code), "WHAT"), req?.method],
        ...[req?.url, res?.statusCode, name, err?.code],
        ...[reqId && "id", event.responseTime && "time"]
      ].join(" | ");
    });
  };
  const { path, anonymous, malformed } = catalogue;
  const failed = (time: string) => [
    `40 | WHAT: expected /plants. | POST | /x | 404 | PLANTS_TOKEN | ${path[0]} | id | ${time}`,
    `40 | WHAT. | GET |  | 401 |  | ${anonymous[0]} | id | ${time}`,
    `40 | WHAT. |  |  | 400 |  | ${malformed[0]} |  | `
  ];
  assert.deepEqual(await shown(), failed(""));
  assert.deepEqual(await shown("--log-requests"), [
    "30 | request completed | POST | /plants | 200 | PLANTS_TOKEN |  | id | time",
    ...failed("time")
  ]);
});

test("neither origin nor query of a target is logged, and 256 characters of its path at most", async () => {
  const server = await start({});
  const targets = [
    "http://a?token=/secret",
    "http://a/x?secret",
    "/x?/secret",
    "http://a/x"
  ];
  const long = [256, 257, 10_000].map((length) => `/${"x".repeat(length - 1)}`);
  for (const target of [...targets, ...long]) {
    const head = `GET ${target} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${token}\r\n\r\n`;
    await ask(server, head);
  }
  assert.equal(await server.end(), 0);
  const cut = `/${"x".repeat(255)}`;
  assert.deepEqual(
    answersOf(server).map(({ req }) => req?.url),
    ["", "/x", "/x", "/x", cut, cut, cut]
  );
  assert.doesNotMatch(JSON.stringify(server.events()), /secret/);
});

for (const [failures, shown, leftOut] of [
  [3, 3, []],
  [4, 3, [1]],
  [9, 3, [6]],
  [2, 0, [2]]
] as const) {
  test(`${failures} failed requests in a second, at ${shown} lines: ${shown} lines`, async (t) => {
    const server = await start({
      args: ["--max-failed-lines", `${shown}`, ...unbounded]
    });
    const { setTimeout } = globalThis;
    let endSecond = (): void => undefined;
    t.mock.method(
      globalThis,
      "setTimeout",
      (listener: () => void, millis: number) => {
        if (millis !== 1_000) return setTimeout(listener, millis);
        endSecond = listener;
        return { unref: (): void => undefined };
      }
    );
    await ask(server, stranger.repeat(failures), failures);
    endSecond();
    // A new second has its own lines.
    const [answer] = await ask(server, stranger);
    assert.equal(answer?.headers["x-request-id"] !== undefined, shown > 0);
    assert.equal(await server.end(), 0);
    assert.equal(answersOf(server).length, shown && shown + 1);
    const counts = server.events().filter((event) => "leftOut" in event);
    assert.deepEqual(
      counts
        .slice(0, leftOut.length)
        .map((event) => [event.level, event["leftOut"], event.msg]),
      leftOut.map((count) => [
        40,
        count,
        "more failed requests and connections are not shown"
      ])
    );
  });
}

test("a stalled reader of the log delays no request, and the dropped lines are counted", async () => {
  const server = await startProcess({
    args: ["--log-requests", ...unbounded]
  });
  server.process.stderr?.pause();
  const requests = 1_600;
  // Their lines have 400 KB. The pipe and the streams at its two ends take half of that at most.
  for (let sent = 0; sent < requests; sent += 400) {
    const answers = await ask(server, plant.repeat(400), 400);
    assert.deepEqual(
      answers.filter(({ status }) => status !== 200),
      []
    );
  }
  server.process.stderr?.resume();
  const dropped = (): number =>
    server.events().reduce((sum, { dropped = 0 }) => sum + Number(dropped), 0);

  // Nothing is dropped any more: the lines of the end get through, too.
  const total = (): number => answersOf(server).length + dropped();
  await server.until(
    () => total() >= requests,
    "each line is written or counted"
  );
  assert.equal(await server.end(), 0);
  assert.equal(total(), requests);
  assert.ok(dropped() > requests / 4, `${dropped()}`);
  assert.ok(
    server.events().every(({ dropped, level }) => !dropped || level === 40)
  );
  assert.ok(
    server.events().some(({ msg }) => msg === "ended, with 0"),
    "it goes on behind"
  );
});

/** A log into a stream of this process. */
function logInto(
  stream: PassThrough,
  isTTY = false,
  format = ""
): ReturnType<typeof createLog> {
  const stderr = Object.assign(stream, { isTTY }) as unknown as Host["stderr"];
  return createLog({ stderr, pid: 1 } as Host, format);
}

for (const [lines, highWaterMark] of [
  [10_000, 16_384],
  [2, 10]
] as const) {
  test(`a log with a stalled reader buffers no more than its stream does, and counts the rest of ${lines} lines`, async () => {
    const stream = new PassThrough({ highWaterMark });
    const log = logInto(stream);
    let most = 0;
    for (let count = 0; count < lines; count++) {
      log("info", "x".repeat(100));
      most = Math.max(most, stream.writableLength + stream.readableLength);
    }
    // A PassThrough has two buffers.
    assert.ok(most < 2 * highWaterMark + 1_000, `${most} bytes wait`);
    let text = "";
    stream.setEncoding("utf8").on("data", (more: string) => {
      text += more;
    });
    await once(stream, "drain");
    log("info", "behind");
    stream.end();
    await once(stream, "end");
    const events = eventsOf(text);
    const dropped = Number(events.at(-2)?.["dropped"]);
    assert.equal(events.length - 2 + dropped, lines);
    const messages = events.slice(-2).map(({ msg }) => msg);
    assert.deepEqual(messages, [
      "lines were dropped: stderr is full, or stalled",
      "behind"
    ]);
    assert.ok(dropped > lines / 4, "the control: it stalled");
  });
}

for (const isTTY of [false, true]) {
  test(`no character forges a line, ${isTTY ? "on a terminal" : "nor is lost in JSON"}`, () => {
    const stream = new PassThrough();
    const log = logInto(stream, isTTY);
    const all = Array.from({ length: 0x1_0000 }, (_, code) =>
      String.fromCharCode(code)
    );
    let text = "";
    for (let at = 0; at < all.length; at += 256) {
      log("warn", all.slice(at, at + 256).join(""));
      text += stream.read();
    }
    const lines = text.split("\n");
    assert.equal(lines.pop(), "");
    assert.equal(lines.length, 256);
    for (const [index, line] of lines.entries()) {
      assert.doesNotMatch(
        line,
        /[\0-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]/
      );
      const wanted = all.slice(256 * index, 256 * index + 256).join("");
      // Half of a pair is no character: JSON escapes it.
      if (!isTTY) assert.equal((JSON.parse(line) as LogEvent).msg, wanted);
    }
  });
}

test("--log-format decides in place of the terminal", () => {
  for (const [isTTY, format, isText] of [
    [false, "text", true],
    [true, "json", false],
    [true, "", true],
    [false, "", false]
  ] as const) {
    const stream = new PassThrough();
    logInto(stream, isTTY, format)("info", "x");
    assert.equal(/^\d{4}-.*Z info: x\n$/.test(`${stream.read()}`), isText);
  }
});

test("a line of text ends with the fields of its event, if it has any", () => {
  for (const [fields, line] of [
    [
      { reqId: "a", req: { method: "POST" }, seq: 7 },
      'x {"reqId":"a","req":{"method":"POST"},"seq":7}'
    ],
    [undefined, "x"]
  ] as const) {
    const stream = new PassThrough();
    logInto(stream, false, "text")("info", "x", fields);
    assert.match(`${stream.read()}`, new RegExp(`Z info: ${line}\\n$`));
  }
});

test("neither a path nor a token's name forges a line", async () => {
  const cwd = temporaryFolder();
  const name = 'eve\x1b[2K\x9b\u202e","level":10';
  writeFileSync(join(cwd, "tokens"), `${name} ${tokenDigest("eves")}\n`, {
    mode: 0o600
  });
  const server = await start({
    cwd,
    args: ["--tokens", "tokens", "--log-requests"]
  });
  const evil = plant
    .replace(token, "eves")
    .replace("/plants", '/","level":10,"x":"');
  await ask(server, evil);
  assert.equal(await server.end(), 0);
  const [event, ...others] = answersOf(server);
  assert.equal(event?.level, 40);
  assert.equal(event?.token, name);
  assert.equal(others.length, 0);
  assert.equal(event?.req?.url, '/","level":10,"x":"');
});

const ids: readonly (readonly [fields: string, id: string | undefined])[] = [
  ["X-Request-Id: a", "a"],
  [`X-Request-Id: ${"!~".repeat(64)}`, "!~".repeat(64)],
  [`X-Request-Id: ${"a".repeat(129)}`, undefined],
  ["X-Request-Id: ", undefined],
  ["X-Request-Id: a b", undefined],
  ["X-Request-Id: a\tb", undefined],
  ["X-Request-Id: \xe9", undefined],
  ["X-Request-Id: a\r\nX-Request-Id: b", undefined]
];
test("a client's well-formed request id is returned, even if nothing is logged", async () => {
  const server = await start();
  for (const [fields, id] of ids) {
    const bytes = plant.replace("Host", `${fields}\r\nHost`);
    const [answer] = await exchange(server.port, Buffer.from(bytes, "latin1"), {
      answers: 1
    });
    assert.equal(answer?.status, 200, fields);
    assert.equal(answer.headers["x-request-id"], id, fields);
  }
  const [answer] = await ask(server, plant);
  assert.deepEqual(
    Object.keys(answer?.headers ?? {}),
    ["content-type", "content-length", "date", "connection", "keep-alive"],
    "without an id there is none"
  );
  assert.equal(await server.end(), 0);
});

test("a logged request has an id, which is returned: the client's or a generated one", async () => {
  const server = await start({ args: ["--log-requests"] });
  const given = plant.replace("Host", "X-Request-Id: mine\r\nHost");
  const answers: RawAnswer[] = [];
  for (const bytes of [plant, plant, stranger, given])
    answers.push(...(await ask(server, bytes)));
  assert.equal(await server.end(), 0);
  const sent = answers.map(({ headers }) => headers["x-request-id"]);
  assert.deepEqual(
    answersOf(server).map(({ reqId }) => reqId),
    sent
  );
  assert.equal(new Set(sent).size, 4);
  assert.equal(sent[3], "mine");
  assert.match(sent[0] ?? "", /^[\da-f-]{36}$/);
});

test("a stored plant's line says in which record of which file it is, also after a rotation", async () => {
  const cwd = temporaryFolder();
  const path = join(cwd, "plants.ndjson");
  const server = await start({ cwd, args: ["--log-requests"] });
  const keyed = plant.replace("\r\n", "\r\nIdempotency-Key: k\r\n");
  await ask(server, plant + keyed.repeat(2), 3);
  renameSync(path, join(cwd, "old"));
  await hangUp(server, "now writing to");
  await ask(server, plant);
  await server.end();
  const [old, file] = ["old", "plants.ndjson"].map(
    (name) => /"file":"(.*?)"/.exec(readFileSync(join(cwd, name), "utf8"))?.[1]
  );
  assert.notEqual(old, file);
  assert.deepEqual(
    answersOf(server).map((line) => [
      line["seq"],
      line["file"],
      line["replayed"]
    ]),
    [
      [1, old, undefined],
      [2, old, undefined],
      [undefined, undefined, true],
      [1, file, undefined]
    ]
  );
});

test("a request id without a valid token is neither logged nor returned", async () => {
  const server = await start();
  const fields = `X-Request-Id: ${token}`;
  for (const bearer of ["Bearer wrong", `Basic ${token}`, ""]) {
    const bytes = plant
      .replace("Host", `${fields}\r\nHost`)
      .replace(
        `Authorization: Bearer ${token}\r\n`,
        bearer && `Authorization: ${bearer}\r\n`
      );
    const [answer] = await ask(server, bytes);
    assert.equal(answer?.status, 401);
    assert.match(
      answer.headers["x-request-id"] ?? "",
      /^[\da-f]{8}-[\da-f-]{27}$/
    );
  }
  assert.equal(await server.end(), 0);
  assert.deepEqual(
    answersOf(server).map((event) => event.token),
    Array(3).fill(undefined)
  );
  assert.doesNotMatch(JSON.stringify(server.events()), RegExp(token));
});

test(
  "a log on a full disk continues when there is space, and counts the lost lines",
  { skip: noLimits },
  async () => {
    const path = join(temporaryFolder(), "log");
    const launcher = join(temporaryFolder(), "node");
    writeFileSync(
      launcher,
      `#!/bin/sh\nexec "${process.execPath}" "$@" 2> "${path}"\n`,
      { mode: 0o755 }
    );
    const cwd = socketFolder();
    const child = spawn(
      launcher,
      [program, "--socket", "s", "--max-failed-lines", "1000"],
      { cwd, env: cleanEnvironment(), stdio: ["ignore", "pipe", "inherit"] }
    );
    const server = runningOf(child);
    await server.until(() => server.stdout() !== "", "it listens");
    const asked = async (count: number): Promise<void> => {
      const socket = connect(join(cwd, "s"));
      const answers = readAnswers(socket, count);
      socket.write(stranger.repeat(count));
      assert.equal((await answers).length, count);
      socket.destroy();
    };
    await asked(1);
    limitFiles(child.pid, statSync(path).size);
    await asked(4);
    limitFiles(child.pid, "unlimited");
    await asked(1);
    await server.end();
    const events = eventsOf(readFileSync(path, "utf8"));
    assert.equal(events.filter(({ res }) => res).length, 2);
    const lost = events.find(({ dropped }) => dropped !== undefined);
    assert.equal(lost?.["dropped"], 4);
    assert.equal(lost.msg, "lines were dropped: stderr is full, or stalled");
  }
);

test(
  "near a full disk, plants that fit in turn with others make one pair of lines in 10 seconds",
  { skip: noLimits },
  async () => {
    // The program's clock stands still until it is set.
    const nodeArgs = preload(`let now = 0;
    performance.now = () => now;
    process.on("SIGUSR2", () => { now += 10_000; process.stderr.write('{"msg":"later"}\\n'); });`);
    const server = await startProcess({ nodeArgs });
    limitFiles(server.process.pid, 4_000);
    const large = post(`{"id":1,"name":"${"x".repeat(4_000)}"}`).toString();
    const inTurn = async (): Promise<void> => {
      for (let turn = 0; turn < 4; turn++) {
        assert.equal(await statusOf(server, large), 503);
        assert.equal(await statusOf(server), 200);
      }
      // A lasting lack of space is logged when its time has come, though nothing changes then.
      assert.equal(await statusOf(server, large), 503);
    };
    const later = async (times: number): Promise<void> => {
      server.process.kill("SIGUSR2");
      await logged(server, "later", times);
    };
    await inTurn();
    await later(1);
    await inTurn();
    await later(2);
    const statuses: unknown[] = [];
    for (const bytes of [large, large, plant, large])
      statuses.push(await statusOf(server, bytes));
    assert.deepEqual(statuses, [503, 503, 200, 503]);
    assert.equal(await server.end(), 0);
    const pair = [
      "50 no space, plants are refused until there is",
      "30 there is space again"
    ];
    const shown = server
      .events()
      .filter(({ res, msg }) => !res && msg.includes(" space"));
    assert.deepEqual(
      shown.map(
        ({ level, msg }) =>
          `${level} ${msg.replace(/^\/.*plants\.ndjson: /, "")}`
      ),
      [...pair, ...pair, ...pair]
    );
  }
);
