/** The metrics: that they add up, begin at 0, and cannot end the process. */
import assert from "node:assert/strict";
import { EventEmitter, once } from "node:events";
import { renameSync, statSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { test } from "node:test";
import { catalogue } from "../../src/http/errors.ts";
import { version } from "../../src/config.ts";
import type { Host } from "../../src/program/host.ts";
import {
  createMetrics,
  metricTable
} from "../../src/program/serving/metrics.ts";
import type { Store } from "../../src/program/open-store.ts";
import type { Secrets } from "../../src/program/serving/tokens.ts";
import { startWithAdmin } from "../support/in-process.ts";
import {
  adminOf,
  assertSamples,
  hangUp,
  metricsOf,
  pageOf,
  statusOf,
  stranger,
  timeout
} from "../support/operator.ts";
import { plant } from "../support/requests.ts";
import { exchange, opened, readAnswers } from "../support/exchange.ts";
import { startProcess, temporaryFolder } from "../support/support.ts";
import { memoryOf } from "../support/tools.ts";
import { until } from "../support/until.ts";

/** The parts of the metrics that count answers. */
const requests = (status: number, error: number | ""): string =>
  `plant_store_http_requests_total{status="${status}",error="${error}"}`;

test("the metrics add up to what has happened, and their labels are those of the catalogue", async () => {
  const cwd = temporaryFolder();
  const server = await startWithAdmin({
    cwd,
    args: ["--max-connections", "3"]
  });
  const none = await metricsOf(server);
  for (const [error] of Object.values(catalogue)) {
    assert.equal(
      none.get(requests(Math.floor(error / 100), error)),
      0,
      "each cause begins at 0"
    );
  }
  for (const [sample, value] of none) {
    if (
      !/^(?:process|plant_store_(?:build|ready|journal_bytes|journal_key_window|last_reload))/.test(
        sample
      )
    ) {
      assert.equal(value, 0, sample);
    }
  }
  assert.equal(none.get("plant_store_journal_bytes"), 133);
  const windowSeconds = none.get("plant_store_journal_key_window_seconds") ?? 0;
  assert.ok(
    windowSeconds > 0 && windowSeconds < timeout / 1e3,
    "since the start"
  );

  // Three are open, one more is refused.
  const sockets: Socket[] = [];
  let sent = 0;
  let received = 0;
  for (let count = 0; count < 3; count++) {
    const socket = await opened(server.port);
    sockets.push(socket);
    const answers = readAnswers(socket, 6);
    socket.write(plant.repeat(4) + stranger.repeat(2));
    assert.equal((await answers).length, 6);
  }
  assert.equal((await metricsOf(server)).get("plant_store_connections"), 3);
  const refused = connect(server.port, "127.0.0.1").on(
    "error",
    () => undefined
  );
  await once(refused, "close");
  for (const socket of sockets) {
    socket.end();
    await once(socket, "close");
    sent += socket.bytesWritten;
    received += socket.bytesRead;
  }
  for (const bytes of [
    "x\r\n\r\n",
    plant.replace("POST", "PURGE").replace("/plants", '/"}'),
    "CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n"
  ]) {
    const socket = connect(server.port, "127.0.0.1");
    const closed = once(socket, "close");
    socket.resume().end(bytes);
    await closed;
    sent += socket.bytesWritten;
    received += socket.bytesRead;
  }
  renameSync(join(cwd, "plants.ndjson"), join(cwd, "old.ndjson"));
  await hangUp(server, "now writing to");
  assert.equal(await statusOf(server), 200);

  const metrics = await metricsOf(server);
  assert.deepEqual(
    [...metrics.keys()],
    [...none.keys()],
    "no label is a client's"
  );
  const counted = [...metrics].filter(
    ([sample, count]) =>
      sample.startsWith("plant_store_http_requests") && count > 0
  );
  assert.deepEqual(Object.fromEntries(counted), {
    [requests(200, "")]: 13,
    [requests(401, catalogue.anonymous[0])]: 7,
    [requests(400, catalogue.malformed[0])]: 1,
    [requests(404, catalogue.path[0])]: 1
  });
  assertSamples(metrics, {
    connections_refused_total: 1,
    journal_rotations_total: 1,
    journal_records: 1,
    journal_bytes: statSync(join(cwd, "plants.ndjson")).size,
    queue_records: 0,
    queue_bytes: 0,
    batch_records_sum: 13
  });
  const batches = metrics.get("plant_store_batch_records_count") ?? 0;
  assert.ok(batches >= 4 && batches <= 13, `${batches}`);
  assert.equal(metrics.get("plant_store_append_seconds_count"), batches);
  const seconds = metrics.get("plant_store_append_seconds_sum") ?? 0;
  assert.ok(seconds > 0 && seconds < timeout);

  // The last client's connection may be closed by now, or not.
  assert.ok([0, 1].includes(metrics.get("plant_store_connections") ?? NaN));
  const last = { sent: Buffer.byteLength(plant), received: 400 };
  const read = metrics.get("plant_store_http_received_bytes_total") ?? 0;
  const written = metrics.get("plant_store_http_sent_bytes_total") ?? 0;
  assert.ok([sent, sent + last.sent].includes(read), `${read} of ${sent}`);
  assert.ok(
    written >= received && written < received + last.received,
    `${written}, ${received}`
  );
});

test("a replay is counted", async () => {
  const server = await startWithAdmin();
  const keyed = plant.replace("\r\n", "\r\nIdempotency-Key: k\r\n");
  const answers = await exchange(server.port, keyed.repeat(3), { answers: 3 });
  assert.deepEqual(
    answers.map(({ headers }) => headers["idempotency-replayed"]),
    [undefined, "true", "true"]
  );
  assert.equal((await metricsOf(server)).get("plant_store_replays_total"), 2);
});

/** Makes the metrics of a store and a process that have done nothing; `samples` reads them. */
function freshMetrics() {
  const store = Object.assign(new EventEmitter(), {
    stats: { queue: { records: 0, bytes: 0 } }
  });
  const health = { state: "ready", notReadyReason: () => undefined };
  const host = {
    version: "v1",
    cpuUsage: () => ({ user: 1e6, system: 5e5 }),
    memoryUsage: { rss: () => 1 }
  };
  const metrics = createMetrics({
    store: store as unknown as Store,
    host: host as unknown as Host,
    health,
    secrets: { tls: undefined, isLoaded: true, loadedAt: 0 } as Secrets
  });
  const samples = () =>
    new Map(
      metrics
        .text()
        .split("\n")
        .map((line) => line.split(" ") as [string, string])
    );
  return { store, samples };
}

test("the CPU time is the sum of the user's and the system's", () => {
  const { samples } = freshMetrics();
  assert.equal(samples().get("process_cpu_seconds_total"), "1.5");
});

test("each bucket counts what is within its bound, and the last one all", () => {
  const fresh = freshMetrics();
  fresh.store.emit("batch", 5, 30);
  fresh.store.emit("batch", 8, 6_000);
  const samples = fresh.samples();
  const countsOf = (name: string): readonly string[] =>
    [...samples].flatMap(([sample, count]) =>
      sample.startsWith(`${name}_bucket`) ? [count] : []
    );
  assert.deepEqual(countsOf("plant_store_batch_records"), [..."0002222222222"]);
  assert.deepEqual(countsOf("plant_store_append_seconds"), [..."00000111112"]);
  for (const [name, sum] of [
    ["batch_records", "13"],
    ["append_seconds", "6.03"]
  ] as const) {
    assert.equal(samples.get(`plant_store_${name}_sum`), sum);
    assert.equal(samples.get(`plant_store_${name}_count`), "2");
  }
});

test("the metrics of the process and of the versions are true, and each has its HELP and TYPE once", async () => {
  const before = Date.now() / 1_000;
  const server = await startProcess({ args: ["--admin", "0"] });
  const metrics = await metricsOf(server);
  const started = metrics.get("process_start_time_seconds") ?? 0;
  assert.ok(Math.abs(started - before) < 60, `${started} is near to ${before}`);
  const resident = memoryOf(server);
  const shown = (metrics.get("process_resident_memory_bytes") ?? 0) / 1024;
  assert.ok(
    shown > resident / 2 && shown < resident * 2,
    `${shown} and ${resident} KiB`
  );
  const cpu = metrics.get("process_cpu_seconds_total") ?? 0;
  assert.ok(cpu > 0.01 && cpu < 60, `${cpu}`);
  assert.equal(
    metrics.get(
      `plant_store_build_info{version="${version}",node="${process.version}"}`
    ),
    1
  );
  const { body } = await pageOf(adminOf(server), "/metrics");
  const described = [
    ...body.matchAll(/^# HELP (\w+) .+\n# TYPE (\w+) (\w+)$/gm)
  ];
  assert.deepEqual(
    described.map(([, name, same, type]) => [name, same, type]),
    Object.entries(metricTable)
      .filter(([name]) => !/_(?:engine|tls_not_after)_/.test(name))
      .map(([name, [type]]) => [name, name, type]),
    "without a stream and a certificate, all but theirs"
  );
});

test("a metric that cannot be read is left out, and the scrape is no end of the process", async () => {
  // As without /proc, or without a descriptor for /proc/self/stat.
  const memoryUsage = {
    rss: () => assert.fail("ENOENT: process.memoryUsage.rss")
  } as unknown as Host["memoryUsage"];
  const server = await startWithAdmin({ host: { memoryUsage } });
  const metrics = await metricsOf(server);
  assert.equal(metrics.has("process_resident_memory_bytes"), false);
  assert.ok(
    (metrics.get("process_cpu_seconds_total") ?? 0) > 0,
    "the others are there"
  );
});

test("whatever the admin listener throws is logged and answered with 500", async (t) => {
  const server = await startWithAdmin();
  const { entries } = Object;
  t.mock.method(Object, "entries", (of: object) => {
    if (of === metricTable) throw new Error("boom");
    return entries(of);
  });
  const { status, body } = await pageOf(adminOf(server), "/metrics");
  assert.equal(status, 500);
  assert.equal(body, "internal error\n");
  assert.equal((await pageOf(adminOf(server), "/livez")).status, 200);
  assert.equal(await server.end(), 0);
  const faults = server.events().filter(({ level }) => level === 50);
  assert.deepEqual(
    faults.map(({ msg }) => msg),
    ["internal error: boom"]
  );
});

test("waiting records are in the metrics while they wait", async () => {
  const cwd = temporaryFolder();
  const server = await startWithAdmin({
    cwd,
    args: ["--rotation-timeout", "60000"]
  });
  const path = join(cwd, "plants.ndjson");
  // A renamed journal waits for its rotation: so does what it has written, and what comes behind.
  renameSync(path, `${path}.1`);
  const first = statusOf(server);
  const second = statusOf(server);
  let metrics = await metricsOf(server);
  await until("both wait", async () => {
    metrics = await metricsOf(server);
    return metrics.get("plant_store_queue_records") === 2;
  });
  assert.equal(
    metrics.get("plant_store_queue_bytes"),
    2 * '{"id":1,"name":"Fern"}'.length
  );
  server.signal("SIGHUP");
  assert.deepEqual(await Promise.all([first, second]), [200, 200]);
  assert.equal((await metricsOf(server)).get("plant_store_queue_records"), 0);
});
