/** The admin listener: its pages, where it listens, readiness, and what it never shows. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { Server } from "node:http";
import { type Socket } from "node:net";
import { networkInterfaces } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { environmentFor } from "../nats/cluster.ts";
import { fails, Fake } from "../nats/fake.ts";
import { startWithAdmin } from "../support/in-process.ts";
import {
  adminOf,
  assertSamples,
  finish,
  limitFiles,
  metricsOf,
  noLimits,
  pageOf,
  preload,
  readyOf,
  statusOf,
  stranger,
  underWay
} from "../support/operator.ts";
import { plant } from "../support/requests.ts";
import { exchange, opened, readAnswers } from "../support/exchange.ts";
import {
  type Running,
  socketFolder,
  startProcess,
  token
} from "../support/support.ts";
import { until } from "../support/until.ts";

test("there are three pages, without a token", async () => {
  const server = await startWithAdmin();
  const at = adminOf(server);
  const pages = [
    ["/livez", 200, /^alive\n$/],
    ["/readyz", 200, /^ready\n$/],
    ["/readyz?x=y", 200, /^ready\n$/],
    ["/metrics", 200, /^# HELP [\s\S]*\n$/],
    ["/", 404, /expected/],
    ["/plants", 404, /expected/],
    ["/metrics/", 404, /expected/],
    ["/Metrics", 404, /expected/],
    ["//metrics", 404, /expected/]
  ] as const;
  for (const [path, status, body] of pages) {
    const got = await pageOf(at, path);
    assert.equal(got.status, status, path);
    assert.match(got.body, body);
    assert.equal(
      got.headers["content-type"],
      "text/plain; version=0.0.4; charset=utf-8"
    );
    assert.equal(
      got.headers["content-length"],
      `${Buffer.byteLength(got.body)}`
    );
    assert.equal(got.headers["cache-control"], "no-store");
    const head = await pageOf(at, path, "HEAD");
    assert.equal(head.status, status);
    assert.equal(head.body, "");
  }
});

test("the public port has none of the admin pages", async () => {
  const server = await startWithAdmin();
  for (const path of ["/livez", "/readyz", "/metrics"]) {
    const [bare, known] = [stranger, plant].map((bytes) =>
      bytes.replace(/ \/\S* /, ` ${path} `)
    );
    assert.equal(await statusOf(server, bare), 401);
    assert.equal(await statusOf(server, known), 404);
  }
  assert.equal(await server.end(), 0);
});

test("the admin port takes no plants, and shows no token", async () => {
  const server = await startWithAdmin({ args: ["--log-requests"] });
  const { port } = adminOf(server);
  const [refused] = await exchange(Number(port), plant);
  assert.equal(refused?.status, 404);
  assert.equal((await metricsOf(server)).get("plant_store_journal_records"), 0);
  assert.equal(await server.end(), 0);
  assert.ok(
    !`${refused.body}${JSON.stringify(server.events())}`.includes(token)
  );
});

const hasIpv6 = Object.values(networkInterfaces())
  .flat()
  .some((each) => each?.address === "::1");

test("--admin listens on loopback, at a host and port, or on a Unix socket", async () => {
  for (const [setting, pattern] of [
    ["0", /^http:\/\/127\.0\.0\.1:[1-9]\d*$/],
    ["localhost:0", /^http:\/\/localhost:[1-9]\d*$/],
    ["[::1]:0", /^http:\/\/\[::1\]:[1-9]\d*$/],
    ["./admin socket", /^unix:\.\/admin socket$/]
  ] as const) {
    if (setting.startsWith("[") && !hasIpv6) continue;
    const cwd = socketFolder();
    const server = await startWithAdmin({ cwd, args: ["--admin", setting] });
    assert.match(String(server.events()[0]?.["admin"]), pattern);
    const at = adminOf(server);
    const { socketPath } = at;
    const found = socketPath ? { socketPath: join(cwd, socketPath) } : at;
    assert.equal((await pageOf(found, "/livez")).status, 200);
    assert.equal(await server.end(), 0);
  }
});

test("a connection that the public or the admin listener cannot accept is logged, and ends nothing", async (t) => {
  const { mock } = t.mock.method(Server.prototype, "listen");
  const server = await startWithAdmin();
  // As some systems report it; libuv keeps it to itself on Linux.
  for (const { this: listener } of mock.calls) {
    assert.ok(listener instanceof Server);
    listener.emit("error", new Error("accept ENOBUFS"));
  }
  assert.equal(server.stderr(), "plant-store: accept ENOBUFS\n".repeat(2));
  assert.equal(await statusOf(server), 200);
  assert.equal((await pageOf(adminOf(server), "/livez")).status, 200);
});

/** Asks until it is not what it was. */
async function readyAfter(server: Running, before: string): Promise<string> {
  let now = before;
  await until("it is another", async () => {
    now = await readyOf(server);
    return now !== before;
  });
  return now;
}

test("while the server drains /readyz is 503 and the admin listener stays open", async () => {
  const server = await startWithAdmin();
  const socket = await underWay(server);
  assert.equal(await readyOf(server), "200 ready");
  assert.equal((await metricsOf(server)).get("plant_store_ready"), 1);
  server.signal("SIGTERM");
  assert.equal(await readyAfter(server, "200 ready"), "503 draining: SIGTERM");
  assert.equal((await metricsOf(server)).get("plant_store_ready"), 0);
  assert.equal((await pageOf(adminOf(server), "/livez")).status, 200);
  assert.equal((await pageOf(adminOf(server), "/metrics")).status, 200);
  assert.deepEqual(await finish(socket), [200]);
});

test(
  "with a full disk /readyz is 503 until there is space, or 10 seconds have passed",
  { skip: noLimits },
  async () => {
    // The program's clock stands still until it is set.
    const nodeArgs = preload(`let now = 0;
    performance.now = () => now;
    process.on("SIGUSR2", () => { now += 9_999; });
    process.on("SIGWINCH", () => { now += 1; });`);
    const server = await startProcess({ nodeArgs, args: ["--admin", "0"] });
    const { pid } = server.process;
    const both = async () => [
      await statusOf(server),
      await readyOf(server),
      (await metricsOf(server)).get("plant_store_ready")
    ];
    limitFiles(pid, 200);
    assert.deepEqual(await both(), [503, "503 full", 0]);
    limitFiles(pid, "unlimited");
    assert.deepEqual(await both(), [200, "200 ready", 1]);

    limitFiles(pid, 300);
    assert.equal(await statusOf(server), 503);
    server.signal("SIGUSR2");
    for (let asked = 0; asked < 20; asked++)
      assert.equal(await readyOf(server), "503 full");
    server.signal("SIGWINCH");
    assert.equal(await readyAfter(server, "503 full"), "200 ready");
    assert.deepEqual(await both(), [503, "503 full", 0]);
    limitFiles(pid, "unlimited");
    assert.deepEqual(await both(), [200, "200 ready", 1]);
  }
);

test("/readyz is 503 before the public port is open", async (t) => {
  const { listen } = Server.prototype;
  const answers: string[] = [];
  t.mock.method(
    Server.prototype,
    "listen",
    function (this: Server, at: { readonly path?: string }) {
      if (at.path !== undefined) return listen.call(this, at);
      // The public server: it asks the admin listener before it listens.
      void pageOf({ socketPath: "a" }, "/readyz").then(({ status, body }) => {
        answers.push(`${status} ${body}`);
        listen.call(this, at);
      });
      return this;
    }
  );
  await startWithAdmin({ args: ["--admin", "./a"] });
  assert.deepEqual(answers, ["503 starting\n"]);
});

test("admin clients that never complete a request delay the end by a second at most", async () => {
  const server = await startProcess({
    args: [
      "--admin",
      "0",
      "--head-timeout",
      "600000",
      "--request-timeout",
      "600000",
      "--idle-timeout",
      "600000"
    ]
  });
  const { port } = adminOf(server);
  const sockets = await Promise.all(
    ["", "GET /metr", stranger.slice(0, -2)].map((bytes) =>
      opened(Number(port), bytes)
    )
  );
  assert.equal((await pageOf(adminOf(server), "/livez")).status, 200);
  const ended = Promise.all(
    sockets.map((socket) => once(socket.resume(), "close"))
  );
  assert.equal(await server.end(), 0);
  await ended;
});

test("the admin listener has 16 connections, and no more", async () => {
  const server = await startWithAdmin();
  const { port } = adminOf(server);
  const sockets: Socket[] = [];
  for (let count = 0; count < 16; count++)
    sockets.push(await opened(Number(port)));
  assert.deepEqual(
    await readAnswers(await opened(Number(port)), 1),
    [],
    "the seventeenth"
  );
  const [last] = sockets.slice(-1);
  assert.ok(last);
  const answered = readAnswers(last, 1);
  last.write("GET /livez HTTP/1.1\r\nHost: a\r\n\r\n");
  assert.equal((await answered)[0]?.status, 200, "the sixteenth");
  for (const socket of sockets) socket.destroy();
});

test("the admin listener has the public listener's limits for heads", async () => {
  const server = await startWithAdmin({
    args: ["--max-head", "1024", "--head-timeout", "100"]
  });
  const { port } = adminOf(server);
  const statusOf = async (bytes: number): Promise<number | undefined> => {
    const line = "GET /livez HTTP/1.1\r\nHost: a\r\n";
    const field = `X: ${"x".repeat(bytes)}\r\n\r\n`;
    return (await exchange(Number(port), line + field))[0]?.status;
  };
  // Node counts names, values and the target: /livez, Host, a and X have 12 bytes.
  assert.equal(await statusOf(1_011), 200);
  assert.equal(await statusOf(1_012), 431);
  for (const bytes of ["GET /li", ""])
    assert.equal((await exchange(Number(port), bytes))[0]?.status, 408);
});

test("with a stream, readiness and metrics follow its server, and the journal's metrics are missing", async () => {
  const fake = await Fake.start({ greeting: "" });
  const address = `nats://${fake.host}/plants`;
  const env = {
    ...environmentFor(address, "user u\npassword s3cret\n"),
    PLANTS_STORE_HANDSHAKE_TIMEOUT: "300"
  };
  const server = await startWithAdmin({ env });
  assert.equal(await readyOf(server), "503 unreachable");
  assert.equal(
    (await metricsOf(server)).get("plant_store_engine_reachable"),
    0
  );

  // It is there.
  fake.script = {};
  await until(
    "it is ready",
    async () => (await readyOf(server)) === "200 ready"
  );
  assert.equal(await statusOf(server), 200);
  const metrics = await metricsOf(server);
  assertSamples(metrics, {
    engine_reachable: 1,
    append_seconds_count: 1,
    batch_records_sum: 1,
    queue_records: 0
  });
  assert.deepEqual(
    [...metrics.keys()].filter((name) =>
      /journal_(?:bytes|records)/.test(name)
    ),
    []
  );

  // What is not answered is in flight.
  fake.script = { onPlant: () => undefined };
  const waiting = statusOf(server);
  await until(
    "it is in flight",
    async () => (await metricsOf(server)).get("plant_store_queue_records") === 1
  );
  assert.ok(
    ((await metricsOf(server)).get("plant_store_queue_bytes") ?? 0) > 40
  );
  fake.script = {};
  // On the next connection it is sent again.
  fake.cut();
  assert.equal(await waiting, 200);

  // There is no space, and there is again.
  const full = fails(10077, "maximum bytes exceeded");
  fake.script = { onPlant: () => full };
  assert.equal(await statusOf(server), 503);
  assert.equal(await readyOf(server), "503 full");
  fake.script = {};
  assert.equal(await statusOf(server), 200);
  assert.equal(await readyOf(server), "200 ready");

  // It is gone.
  await fake.stop();
  await until(
    "none is there",
    async () => (await readyOf(server)) === "503 unreachable"
  );
  assert.equal(await server.end(), 0);
  const told = server
    .events()
    .map(({ level, msg }) => `${level} ${msg}`)
    .join("\n");
  assert.match(
    told,
    /^50 nats:.*\/plants: no space, plants are refused until there is$/m
  );
  assert.match(told, /^30 nats:.*\/plants: there is space again$/m);
  assert.match(told, new RegExp("^40 plants are acknowledged again$", "m"));
  const serving = server.events().find(({ msg }) => msg.startsWith("serving"));
  assert.equal(serving?.["store"], address);
  assert.doesNotMatch(server.stdout() + server.stderr(), /s3cret/);
});
