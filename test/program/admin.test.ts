/** The admin listener: its pages, its figures, when it is ready, and what it keeps to itself. */
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import {
  cpSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync,
} from "node:fs";
import { request, type RequestOptions } from "node:http";
import { connect, createServer, type Socket } from "node:net";
import { networkInterfaces } from "node:os";
import { dirname, join } from "node:path";
import { text } from "node:stream/consumers";
import { after, test } from "node:test";
import { catalogue } from "../../src/http/errors.ts";
import { version } from "../../src/program/help.ts";
import { metricTable } from "../../src/program/metrics.ts";
import {
  cleanEnvironment, exchange, post, program, readAnswers, run, start as startProgram, temporaryFolder, token,
  type Running, type StartOptions,
} from "../support/support.ts";
import { Fake } from "../engines/fake.ts";
import { environmentFor, until } from "../engines/cluster.ts";
import { missing } from "../support/tools.ts";

const timeout = 60_000;
const servers: Running[] = [];
after(() => servers.map((server) => server.process.kill("SIGKILL")));

/** Starts the program with an admin listener on any free port; it does not outlive the tests. */
async function start({ args = [], ...options }: StartOptions = {}): Promise<Running> {
  const all = args.includes("--admin") ? args : [...args, "--admin", "0"];
  const server = await startProgram({ ...options, args: all });
  servers.push(server);
  return server;
}

/** Where the log says that it listens. */
function placeOf(server: Running): RequestOptions {
  const serving = server.events().find(({ msg }) => msg.startsWith("serving"));
  const admin = String(serving?.["admin"]);
  const [, host, port] = /^http:\/\/\[?(.*?)\]?:(\d+)$/.exec(admin) ?? [];
  if (port === undefined) return { socketPath: admin.replace("unix:", "") };
  return { host, port };
}

async function ask(place: RequestOptions, path: string, method = "GET") {
  const asked = request({ ...place, path, method, agent: false }).end();
  const [answer] = await once(asked, "response");
  const { statusCode, headers } = answer;
  return { status: Number(statusCode), headers, body: await text(answer) };
}

/** The samples of /metrics: their values by name and labels. */
async function figuresOf(server: Running): Promise<ReadonlyMap<string, number>> {
  const { body } = await ask(placeOf(server), "/metrics");
  return new Map(body.split("\n").filter((line) => /^[^#]/.test(line)).map((line) => {
    const [sample = "", value] = line.split(/ (?=\S+$)/);
    return [sample, Number(value)];
  }));
}

const readyOf = async (server: Running): Promise<string> => {
  const { status, body } = await ask(placeOf(server), "/readyz");
  return `${status} ${body.trimEnd()}`;
};

const plant = post('{"id":1,"name":"Fern"}').toString();
const stranger = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const store = (server: Running, bytes = plant) => exchange(server.port, bytes, { answers: 1 });

test("there are three pages, for GET and HEAD, without a token", { timeout }, async () => {
  const server = await start();
  const place = placeOf(server);
  const pages = [
    ["/livez", 200, /^alive\n$/], ["/readyz", 200, /^ready\n$/], ["/readyz?x=y", 200, /^ready\n$/],
    ["/metrics", 200, /^# HELP [\s\S]*\n$/], ["/", 404, /expected/], ["/plants", 404, /expected/],
    ["/metrics/", 404, /expected/], ["/Metrics", 404, /expected/], ["//metrics", 404, /expected/],
  ] as const;
  for (const [path, status, body] of pages) {
    const got = await ask(place, path);
    assert.equal(got.status, status, path);
    assert.match(got.body, body);
    assert.equal(got.headers["content-type"], "text/plain; version=0.0.4; charset=utf-8");
    assert.equal(got.headers["content-length"], `${Buffer.byteLength(got.body)}`);
    assert.equal(got.headers["cache-control"], "no-store");
    const head = await ask(place, path, "HEAD");
    assert.deepEqual([head.status, head.body], [status, ""]);
  }
  for (const method of ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"]) {
    const { status, headers } = await ask(place, "/livez", method);
    assert.deepEqual([status, headers.allow], [405, "GET, HEAD"], method);
  }
  assert.equal(await server.end(), 0);
});

test("the public port has none of its pages, nor has it the public one's", { timeout }, async () => {
  const server = await start();
  for (const path of ["/livez", "/readyz", "/metrics"]) {
    const [bare, known] = [stranger, plant].map((bytes) =>
      bytes.replace(/ \/\S* /, ` ${path} `));
    assert.equal((await store(server, bare))[0]?.status, 401);
    assert.equal((await store(server, known))[0]?.status, 404);
  }
  const { port } = placeOf(server);
  const [refused] = await exchange(Number(port), plant);
  assert.equal(refused?.status, 405);
  assert.equal((await figuresOf(server)).get("plant_store_journal_records"), 0);
  assert.equal(await server.end(), 0);
});

test("what nobody asks for is not even loaded", { timeout }, async () => {
  const dist = join(temporaryFolder(), "dist");
  cpSync(dirname(program), dist, { recursive: true });
  writeFileSync(join(dist, "package.json"), '{"type":"module"}');
  for (const name of ["admin.js", "metrics.js"]) rmSync(join(dist, "program", name));
  const built = join(dist, "server.js");
  const server = await startProgram({ program: built });
  servers.push(server);
  assert.equal((await store(server))[0]?.status, 200);
  assert.equal(await server.end(), 0);
  await assert.rejects(startProgram({ program: built, args: ["--admin", "0"] }), /admin\.js/,
    "the control: with --admin it is");
});

const hasIpv6 = Object.values(networkInterfaces()).flat().some((each) => each?.address === "::1");
const noIpv6 = hasIpv6 ? false : "this machine has no ::1";
for (const [setting, pattern, skip] of [
  ["0", /^http:\/\/127\.0\.0\.1:[1-9]\d*$/, false],
  ["127.0.0.2:0", /^http:\/\/127\.0\.0\.2:[1-9]\d*$/, false],
  ["localhost:0", /^http:\/\/localhost:[1-9]\d*$/, false],
  ["[::1]:0", /^http:\/\/\[::1\]:[1-9]\d*$/, noIpv6],
  ["./admin socket", /^unix:\.\/admin socket$/, false],
] as const) {
  test(`--admin ${setting} listens there, and on loopback where no host is given`,
    { skip, timeout }, async () => {
      const cwd = temporaryFolder();
      const server = await start({ cwd, args: ["--admin", setting] });
      assert.match(String(server.events()[0]?.["admin"]), pattern);
      const place = placeOf(server);
      const { socketPath } = place;
      const found = socketPath ? { socketPath: join(cwd, socketPath) } : place;
      assert.equal((await ask(found, "/livez")).status, 200);
      assert.equal(await server.end(), 0);
      if (socketPath) assert.ok(!existsSync(join(cwd, socketPath)));
    });
}

test("where the admin listener cannot listen, nobody is served: 69", { timeout }, async () => {
  const other = createServer().listen(0, "127.0.0.1");
  await once(other, "listening");
  const address = other.address();
  assert.ok(typeof address === "object" && address !== null);
  const args = ["--port", "0", "--admin", `${address.port}`];
  const { code, stdout, stderr } = await run(args, {}, temporaryFolder());
  other.close();
  assert.deepEqual([code, stdout], [69, ""]);
  assert.match(stderr, /cannot listen: .*EADDRINUSE/);
});

test("where the public port can't be had, the admin listener does not keep the process",
  { timeout }, async () => {
    const first = await start();
    const args = ["--port", "0", "--admin", "0", "--socket", join(temporaryFolder(), "no", "socket")];
    const { code, stderr } = await run(args, {}, temporaryFolder());
    assert.equal(code, 69, stderr);
    assert.equal(await first.end(), 0);
  });

test("where the public port is taken, a client of the admin listener does not hold up the end",
  { timeout }, async () => {
    const other = createServer().listen(0, "127.0.0.1");
    await once(other, "listening");
    const address = other.address();
    assert.ok(typeof address === "object" && address !== null);
    // The second server to listen is the public one: before, a request to the first is begun.
    const script = `import { Server } from "node:http";
      import { connect, Server as NetServer } from "node:net";
      const servers = [];
      Server.prototype.listen = function (...args) {
        servers.push(this);
        const listen = () => NetServer.prototype.listen.apply(this, args);
        if (servers.length === 1) return listen();
        servers[0].once("connection", () => setImmediate(listen));
        connect(servers[0].address().port).on("error", () => undefined).unref().write("GET /li");
        return this;
      };
      // What ends it otherwise, within a second, whatever is open.
      process.exit = () => undefined;`;
    const child = spawn(process.execPath, [...preload(script), program, "--port",
      `${address.port}`, "--admin", "0", "--head-timeout", "20000"],
    { cwd: temporaryFolder(), env: cleanEnvironment(), stdio: ["ignore", "ignore", "pipe"] });
    const begun = performance.now();
    const told = text(child.stderr);
    const [code] = await once(child, "exit");
    other.close();
    assert.equal(code, 69);
    assert.match(await told, /cannot listen: .*EADDRINUSE/);
    assert.ok(performance.now() - begun < 10_000, "it ended by itself");
  });

/** The parts of the figures that count answers. */
const requests = (status: number, error: number | ""): string =>
  `plant_store_http_requests_total{status="${status}",error="${error}"}`;

test("the figures add up with what has happened", { timeout }, async () => {
  const cwd = temporaryFolder();
  const server = await start({ cwd, args: ["--max-connections", "3"] });
  const none = await figuresOf(server);
  for (const { error } of Object.values(catalogue)) {
    assert.equal(none.get(requests(Math.floor(error / 100), error)), 0, "each cause begins at 0");
  }
  for (const [sample, value] of none) {
    if (!/^(?:process|plant_store_(?:build|ready|journal_bytes))/.test(sample)) {
      assert.equal(value, 0, sample);
    }
  }
  assert.equal(none.get("plant_store_journal_bytes"), 133);

  // Three are open, one more is refused.
  const sockets: Socket[] = [];
  let [sent, received] = [0, 0];
  for (let count = 0; count < 3; count++) {
    const socket = connect(server.port, "127.0.0.1");
    await once(socket, "connect");
    sockets.push(socket);
    const answers = readAnswers(socket, 6);
    socket.write(plant.repeat(4) + stranger.repeat(2));
    assert.equal((await answers).length, 6);
  }
  assert.equal((await figuresOf(server)).get("plant_store_connections"), 3);
  const refused = connect(server.port, "127.0.0.1").on("error", () => undefined);
  await once(refused, "close");
  for (const socket of sockets) {
    socket.end();
    await once(socket, "close");
    sent += socket.bytesWritten;
    received += socket.bytesRead;
  }
  for (const bytes of ["x\r\n\r\n", "CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n"]) {
    const socket = connect(server.port, "127.0.0.1");
    const closed = once(socket, "close");
    socket.resume().end(bytes);
    await closed;
    sent += socket.bytesWritten;
    received += socket.bytesRead;
  }
  renameSync(join(cwd, "plants.ndjson"), join(cwd, "old.ndjson"));
  const { stderr } = server.process;
  assert.ok(stderr);
  server.process.kill("SIGHUP");
  while (!server.stderr().includes("now writing to")) await once(stderr, "data");
  assert.equal((await store(server))[0]?.status, 200);

  const figures = await figuresOf(server);
  const counted = [...figures].filter(([sample, count]) =>
    sample.startsWith("plant_store_http_requests") && count > 0);
  assert.deepEqual(Object.fromEntries(counted), {
    [requests(200, "")]: 13, [requests(401, 40101)]: 7, [requests(400, 40001)]: 1,
  });
  assert.equal(figures.get("plant_store_connections_refused_total"), 1);
  assert.equal(figures.get("plant_store_journal_rotations_total"), 1);
  assert.equal(figures.get("plant_store_journal_records"), 1);
  assert.equal(figures.get("plant_store_journal_bytes"), statSync(join(cwd, "plants.ndjson")).size);
  assert.equal(figures.get("plant_store_queue_records"), 0);
  assert.equal(figures.get("plant_store_queue_bytes"), 0);
  assert.equal(figures.get("plant_store_batch_records_sum"), 13);
  const batches = figures.get("plant_store_batch_records_count") ?? 0;
  assert.ok(batches >= 4 && batches <= 13, `${batches}`);
  assert.equal(figures.get("plant_store_append_seconds_count"), batches);
  const seconds = figures.get("plant_store_append_seconds_sum") ?? 0;
  assert.ok(seconds > 0 && seconds < timeout);

  // The last client's connection may be closed by now, or not.
  const last = { sent: Buffer.byteLength(plant), received: 400 };
  const read = figures.get("plant_store_http_received_bytes_total") ?? 0;
  const written = figures.get("plant_store_http_sent_bytes_total") ?? 0;
  assert.ok([sent, sent + last.sent].includes(read), `${read} of ${sent}`);
  assert.ok(written >= received && written < received + last.received, `${written}, ${received}`);
  assert.equal(await server.end(), 0);
});

test("each bucket counts what is within its bound, and the last counts all", { timeout },
  async () => {
    const server = await start();
    const batch = plant.repeat(9);
    await exchange(server.port, batch, { answers: 9 });
    const figures = await figuresOf(server);
    for (const name of ["plant_store_batch_records", "plant_store_append_seconds"]) {
      const buckets = [...figures].filter(([sample]) => sample.startsWith(`${name}_bucket`));
      const counts = buckets.map(([, count]) => count);
      assert.deepEqual(counts, [...counts].sort((a, b) => a - b), "cumulative");
      assert.equal(counts.at(-1), figures.get(`${name}_count`));
      assert.match(buckets.at(-1)?.[0] ?? "", /le="\+Inf"/);
    }
    assert.equal(await server.end(), 0);
  });

test("no client makes labels: they are the catalogue's", { timeout }, async () => {
  const server = await start();
  for (const method of ["GET", "PURGE", "HEAD", "TRACE"]) {
    for (const path of ["/", "/x", '/"}', "/plants"]) {
      const bytes = plant.replace("POST", method).replace("/plants", path);
      await exchange(server.port, bytes, { answers: 1, head: method === "HEAD" });
    }
  }
  const known = Object.values(catalogue).map(({ error }) =>
    requests(Math.floor(error / 100), error));
  for (const sample of (await figuresOf(server)).keys()) {
    if (!sample.startsWith("plant_store_http_requests")) continue;
    assert.ok(sample === requests(200, "") || known.includes(sample), sample);
  }
  assert.equal(await server.end(), 0);
});

test("the process's figures, and the versions, are true", { timeout }, async () => {
  const before = Date.now() / 1_000;
  const server = await start();
  const figures = await figuresOf(server);
  const started = figures.get("process_start_time_seconds") ?? 0;
  assert.ok(Math.abs(started - before) < 60, `${started} is near to ${before}`);
  const { pid } = server.process;
  const resident = Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]);
  const shown = (figures.get("process_resident_memory_bytes") ?? 0) / 1024;
  assert.ok(shown > resident / 2 && shown < resident * 2, `${shown} and ${resident} KiB`);
  const cpu = figures.get("process_cpu_seconds_total") ?? 0;
  assert.ok(cpu > 0.01 && cpu < 60, `${cpu}`);
  assert.equal(figures.get(
    `plant_store_build_info{version="${version}",node="${process.version}"}`), 1);
  assert.equal(await server.end(), 0);
});

test("a metric that cannot be read is left out, and the scrape is no end of the process",
  { timeout }, async () => {
    // As without /proc, or without a descriptor for /proc/self/stat.
    const server = await start({ nodeArgs: preload(`process.memoryUsage.rss = () => {
      throw new Error("ENOENT: process.memoryUsage.rss");
    };`) });
    const figures = await figuresOf(server);
    assert.equal(figures.has("process_resident_memory_bytes"), false);
    assert.ok((figures.get("process_cpu_seconds_total") ?? 0) > 0, "the others are there");
    assert.equal(await server.end(), 0);
  });

test("silent connections that take all descriptors leave a server that can still be scraped",
  { timeout }, async () => {
    const launcher = join(temporaryFolder(), "node");
    writeFileSync(launcher, `#!/bin/sh\nulimit -n 60\nexec "${process.execPath}" "$@"\n`, { mode: 0o755 });
    const server = await start({ node: launcher });
    assert.match(server.events()[0]?.msg ?? "", /^the hard limit on open files, 60, is too low for --max-connections 1024/);
    const sockets: Socket[] = [];
    let last = 0;
    for (let open = 0; open < 60; open++) {
      const socket = connect(server.port, "127.0.0.1").on("error", () => undefined);
      await once(socket, "connect");
      sockets.push(socket);
      // Once no descriptor is left for the scrape itself, its connection is reset.
      last = await ask(placeOf(server), "/metrics").then(({ status }) => status, () => 0);
      assert.ok([0, 200].includes(last), `${last}`);
    }
    assert.equal(last, 0, "the control: all descriptors were taken");
    for (const socket of sockets) socket.destroy();
    await until("it is scraped again", async () =>
      await ask(placeOf(server), "/metrics").then(({ status }) => status === 200, () => false));
    assert.equal(await server.end(), 0);
  });

test("whatever the admin listener throws is logged and answered with 500", { timeout }, async () => {
  const server = await start({ nodeArgs: preload(`const { entries } = Object;
    Object.entries = (of) => {
      if ("plant_store_build_info" in of) throw new Error("boom");
      return entries(of);
    };`) });
  const { status, body } = await ask(placeOf(server), "/metrics");
  assert.deepEqual([status, body], [500, "internal error\n"]);
  assert.equal((await ask(placeOf(server), "/livez")).status, 200);
  assert.equal(await server.end(), 0);
  const faults = server.events().filter(({ level }) => level === 50);
  assert.deepEqual(faults.map(({ msg }) => msg), ["internal error: boom"]);
});

test("an error of the admin listener itself is logged, and ends nothing", { timeout }, async () => {
  const server = await start({ nodeArgs: preload(`import { Server } from "node:http";
    import { Server as NetServer } from "node:net";
    let isAdmin = true;
    Server.prototype.listen = function (...args) {
      const server = this;
      if (isAdmin) process.once("SIGUSR2", () => server.emit("error", new Error("accept ENOBUFS")));
      isAdmin = false;
      return NetServer.prototype.listen.apply(this, args);
    };`) });
  server.process.kill("SIGUSR2");
  await until("it is logged", () => Promise.resolve(server.stderr().includes("accept ENOBUFS")));
  assert.equal((await ask(placeOf(server), "/livez")).status, 200);
  assert.equal(await server.end(), 0);
});

test("what waits is in the figures while it waits", { timeout }, async () => {
  const cwd = temporaryFolder();
  const server = await start({ cwd, args: ["--rotation-timeout", "60000"] });
  const path = join(cwd, "plants.ndjson");
  // A renamed journal waits for its rotation: so does what it has written, and what comes behind.
  renameSync(path, `${path}.1`);
  const [first, second] = [store(server), store(server)];
  let figures = await figuresOf(server);
  while (figures.get("plant_store_queue_records") !== 2) figures = await figuresOf(server);
  assert.equal(figures.get("plant_store_queue_bytes"), 2 * '{"id":1,"name":"Fern"}'.length);
  server.process.kill("SIGHUP");
  assert.deepEqual([(await first)[0]?.status, (await second)[0]?.status], [200, 200]);
  assert.equal((await figuresOf(server)).get("plant_store_queue_records"), 0);
  assert.equal(await server.end(), 0);
});

test("each figure has its HELP and TYPE, once, and is in the table", { timeout }, async () => {
  const server = await start();
  await store(server, stranger);
  const { body } = await ask(placeOf(server), "/metrics");
  const described = [...body.matchAll(/^# HELP (\w+) .+\n# TYPE (\w+) (\w+)$/gm)];
  assert.deepEqual(described.map(([, name, same, type]) => [name, same, type]),
    Object.entries(metricTable).filter(([name]) => !/_(?:engine|tls)_/.test(name))
      .map(([name, { type }]) => [name, name, type]), "without a stream and TLS, all but theirs");
  assert.equal(await server.end(), 0);
});

const noPromtool = missing(["promtool", "--version"]);
test("promtool finds nothing to say of the figures", { skip: noPromtool, timeout }, async () => {
  const server = await start();
  const check = (input: string) =>
    spawnSync("promtool", ["check", "metrics"], { input, encoding: "utf8", timeout });
  const { body } = await ask(placeOf(server), "/metrics");
  await store(server);
  await store(server, stranger);
  for (const each of [body, (await ask(placeOf(server), "/metrics")).body]) {
    const { status, stdout, stderr } = check(each);
    assert.deepEqual([status, stdout, stderr], [0, "", ""]);
  }
  assert.notEqual(check("# TYPE a_total gauge\na_total 1\n").status, 0, "the control");
  assert.equal(await server.end(), 0);
});

/** A request whose head is read, which 100 Continue shows: it holds up a drain. */
async function underWay(server: Running): Promise<Socket> {
  const socket = connect(server.port, "127.0.0.1").on("error", () => undefined);
  const ready = readAnswers(socket, 1);
  socket.write(plant.replace("Host", "Expect: 100-continue\r\nHost").replace(/\{.*/, ""));
  assert.equal((await ready)[0]?.status, 100);
  return socket;
}

/** Asks until it is not what it was. */
async function readyAfter(server: Running, before: string): Promise<string> {
  for (;;) {
    const now = await readyOf(server);
    if (now !== before) return now;
  }
}

test("while it drains it is not ready, and the admin listener is there to the end",
  { timeout }, async () => {
    const server = await start();
    const socket = await underWay(server);
    assert.equal(await readyOf(server), "200 ready");
    assert.equal((await figuresOf(server)).get("plant_store_ready"), 1);
    server.process.kill("SIGTERM");
    assert.equal(await readyAfter(server, "200 ready"), "503 draining");
    assert.equal((await figuresOf(server)).get("plant_store_ready"), 0);
    assert.equal((await ask(placeOf(server), "/livez")).status, 200);
    assert.equal((await ask(placeOf(server), "/metrics")).status, 200);
    const answers = readAnswers(socket, 1);
    socket.write('{"id":1,"name":"Fern"}');
    assert.equal((await answers)[0]?.status, 200);
    assert.equal(await server.end(), 0);
  });

test("with a failed journal it is not ready, and says that rather than that it drains",
  { timeout }, async () => {
    const cwd = temporaryFolder();
    const server = await start({ cwd, args: ["--rotation-timeout", "10"] });
    const socket = await underWay(server);
    renameSync(join(cwd, "plants.ndjson"), join(cwd, "old.ndjson"));
    assert.equal((await store(server))[0]?.status, 503);
    assert.equal(await readyAfter(server, "200 ready"), "503 failed");
    assert.equal((await ask(placeOf(server), "/livez")).status, 200);
    socket.destroy();

    // It ends by itself: a signal could meet it when nobody listens to signals any more.
    if (server.process.exitCode === null) await once(server.process, "exit");
    assert.equal(server.process.exitCode, 74);
  });

const preload = (script: string): readonly string[] =>
  ["--import", `data:text/javascript,${encodeURIComponent(script)}`];

const noLimits = missing(["prlimit", "--version"]);
test("with a full disk it is not ready, until there is space or it is time to try again",
  { skip: noLimits, timeout }, async () => {
    // The program's clock stands still until it is set.
    const nodeArgs = preload(`let now = 0;
      performance.now = () => now;
      process.on("SIGUSR2", () => { now += 9_999; });
      process.on("SIGWINCH", () => { now += 1; });`);
    const server = await start({ nodeArgs });
    const limit = (bytes: string): void => {
      const args = [`--fsize=${bytes}`, "--pid", `${server.process.pid}`];
      assert.equal(spawnSync("prlimit", args).status, 0);
    };
    const statusOf = async (): Promise<number | undefined> => (await store(server))[0]?.status;
    limit("200:unlimited");
    assert.deepEqual([await statusOf(), await readyOf(server)], [503, "503 full"]);
    limit("unlimited");
    assert.deepEqual([await statusOf(), await readyOf(server)], [200, "200 ready"]);

    limit("300:unlimited");
    assert.equal(await statusOf(), 503);
    server.process.kill("SIGUSR2");
    for (let asked = 0; asked < 20; asked++) assert.equal(await readyOf(server), "503 full");
    server.process.kill("SIGWINCH");
    assert.equal(await readyAfter(server, "503 full"), "200 ready");
    assert.deepEqual([await statusOf(), await readyOf(server)], [503, "503 full"]);
    limit("unlimited");
    assert.deepEqual([await statusOf(), await readyOf(server)], [200, "200 ready"]);
    assert.equal(await server.end(), 0);
  });

test("before the public port is open it is not ready", { timeout }, async () => {
  // The second server to listen is the public one: it asks the first, and then listens.
  const script = `import { get, Server } from "node:http";
    import { Server as NetServer } from "node:net";
    const servers = [];
    Server.prototype.listen = function (...args) {
      servers.push(this);
      if (servers.length === 1) return NetServer.prototype.listen.apply(this, args);
      get({ port: servers[0].address().port, path: "/readyz" }, (answer) => {
        answer.setEncoding("utf8").on("data", (text) => {
          process.stderr.write(JSON.stringify({ msg: answer.statusCode + " " + text }) + "\\n");
          NetServer.prototype.listen.apply(this, args);
        });
      });
      return this;
    };`;
  const server = await start({ nodeArgs: preload(script) });
  assert.equal(server.events()[0]?.msg, "503 starting\n");
  assert.equal(await readyOf(server), "200 ready");
  assert.equal(await server.end(), 0);
});

test("who asks, and never ends asking, does not hold up the end", { timeout }, async () => {
  const server = await start({
    args: ["--head-timeout", "600000", "--request-timeout", "600000", "--idle-timeout", "600000"],
  });
  const { port } = placeOf(server);
  const sockets = ["", "GET /metr", stranger.slice(0, -2)].map((bytes) => {
    const socket = connect(Number(port), "127.0.0.1").on("error", () => undefined);
    socket.write(bytes);
    return socket;
  });
  await Promise.all(sockets.map((socket) => once(socket, "connect")));
  assert.equal((await ask(placeOf(server), "/livez")).status, 200);
  const ended = Promise.all(sockets.map((socket) => once(socket.resume(), "close")));
  assert.equal(await server.end(), 0);
  await ended;
});

test("the admin listener has 16 connections, and no more", { timeout }, async () => {
  const server = await start();
  const { port } = placeOf(server);
  const open = async (): Promise<Socket> => {
    const socket = connect(Number(port), "127.0.0.1").on("error", () => undefined);
    await once(socket, "connect");
    return socket;
  };
  const sockets: Socket[] = [];
  for (let count = 0; count < 16; count++) sockets.push(await open());
  assert.deepEqual(await readAnswers(await open(), 1), [], "the seventeenth");
  const [last] = sockets.slice(-1);
  assert.ok(last);
  const answered = readAnswers(last, 1);
  last.write("GET /livez HTTP/1.1\r\nHost: a\r\n\r\n");
  assert.equal((await answered)[0]?.status, 200, "the sixteenth");
  for (const socket of sockets) socket.destroy();
  assert.equal(await server.end(), 0);
});

test("a head for the admin listener has the public one's limits", { timeout }, async () => {
  const server = await start({ args: ["--max-head", "1024", "--head-timeout", "100"] });
  const { port } = placeOf(server);
  const statusOf = async (bytes: number): Promise<number | undefined> => {
    const line = "GET /livez HTTP/1.1\r\nHost: a\r\n";
    const field = `X: ${"x".repeat(bytes)}\r\n\r\n`;
    return (await exchange(Number(port), line + field))[0]?.status;
  };
  // Node counts names, values and the target: /livez, Host, a and X have 12 bytes.
  assert.deepEqual([await statusOf(1_011), await statusOf(1_012)], [200, 431]);
  for (const bytes of ["GET /li", ""]) assert.equal((await exchange(Number(port), bytes))[0]?.status, 408);
  assert.equal(await server.end(), 0);
});

test("a token that stands in a request to the admin listener is nowhere shown", { timeout },
  async () => {
    const server = await start({ args: ["--log-requests"] });
    const { port } = placeOf(server);
    const [answer] = await exchange(Number(port), plant.replace("POST", "GET"));
    assert.ok(answer && !answer.body.includes(token));
    assert.equal(await server.end(), 0);
    assert.ok(!JSON.stringify(server.events()).includes(token));
  });

test("an admin socket that kill -9 has left is taken over", { timeout }, async () => {
  const cwd = temporaryFolder();
  mkdirSync(join(cwd, "run"));
  const args = ["--admin", "run/admin"];
  const first = await start({ cwd, args });
  assert.equal(await first.end("SIGKILL"), null);
  assert.ok(existsSync(join(cwd, "run", "admin")));
  const second = await start({ cwd, args });
  assert.equal((await ask({ socketPath: join(cwd, "run", "admin") }, "/livez")).status, 200);
  assert.equal(await second.end(), 0);
});

test("of a stream, it tells whether a server is there, what is in flight, and no journal's figures",
  { timeout },
  async () => {
    const fake = await Fake.start({ greeting: "" });
    const env = environmentFor(`nats://${fake.host}/plants`, "u\ns3cret\n");
    const place = fake.host;
    const server = await start({ env });
    assert.equal(await readyOf(server), "503 unreachable");
    assert.equal((await figuresOf(server)).get("plant_store_engine_reachable"), 0);

    // It is there.
    fake.script = {};
    await until("it is ready", async () => await readyOf(server) === "200 ready");
    assert.equal((await store(server))[0]?.status, 200);
    const figures = await figuresOf(server);
    assert.equal(figures.get("plant_store_engine_reachable"), 1);
    assert.equal(figures.get("plant_store_append_seconds_count"), 1);
    assert.equal(figures.get("plant_store_batch_records_sum"), 1);
    assert.equal(figures.get("plant_store_queue_records"), 0);
    assert.deepEqual([...figures.keys()].filter((name) => /journal_(?:bytes|records)/.test(name)), []);

    // What is not answered is in flight.
    fake.script = { onPlant: () => undefined };
    const waiting = store(server);
    await until("it is in flight", async () =>
      (await figuresOf(server)).get("plant_store_queue_records") === 1);
    assert.ok(((await figuresOf(server)).get("plant_store_queue_bytes") ?? 0) > 40);
    fake.script = {};
    assert.equal((await waiting)[0]?.status, 200);

    // There is no space, and there is again.
    const full = { error: { code: 503, err_code: 10077, description: "maximum bytes exceeded" } };
    fake.script = { onPlant: () => JSON.stringify(full) };
    assert.match((await store(server))[0]?.body ?? "", /"error":50301/);
    assert.equal(await readyOf(server), "503 full");
    fake.script = {};
    assert.equal((await store(server))[0]?.status, 200);
    assert.equal(await readyOf(server), "200 ready");

    // It is gone.
    await fake.stop();
    await until("none is there", async () => await readyOf(server) === "503 unreachable");
    assert.equal(await server.end(), 0);
    const told = server.events().map(({ level, msg }) => `${level} ${msg}`).join("\n");
    assert.match(told, /^50 the store has no space: plants are refused until it has$/m);
    assert.match(told, /^30 the store has space again$/m);
    assert.match(told, new RegExp("^40 plants are acknowledged again$", "m"));
    const serving = server.events().find(({ msg }) => msg.startsWith("serving"));
    assert.equal(serving?.["stream"], `nats://${place}/plants`);
    assert.equal(serving?.["journal"], undefined);
    assert.doesNotMatch(server.stdout() + server.stderr(), /s3cret/);
  });
