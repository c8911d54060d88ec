/**
 * The program's whole life on each system that runs it: start, plants, a second start, kill -9, a
 * torn end, a replay, verify, cat and TLS, at a path that needs care. It needs no tool of a system,
 * so that continuous integration runs it on macOS and Windows, too. PLANT_TEST_NODES,
 * PLANT_TEST_RUNTIMES and PLANT_TEST_WINDOWS_NODES add others.
 */
import assert from "node:assert/strict";
import {
  appendFileSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  writeFileSync
} from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { connect } from "node:tls";
import { postPlant, ways, type Way } from "../support/life.ts";
import { plant } from "../support/requests.ts";
import { temporaryTls } from "../support/serving.ts";
import { readAnswers } from "../support/exchange.ts";
import { temporaryFolder } from "../support/support.ts";
import { seconds } from "../support/until.ts";

const timeout = seconds(240);

/** An id that a double cannot hold, and the least one. */
const id = "9007199254740993";
const leastId = "-9223372036854775808";
const keyField = 'Idempotency-Key: "once"\r\n';
const torn = '{"seq":2,"at":"20';

function oddPath(): string {
  const folder = join(
    temporaryFolder(),
    `${"Grüne Pflanzen (für alle) ".repeat(3)}!`
  );
  mkdirSync(folder);
  return join(folder, "plants.ndjson");
}

/** Without the end of a connection, a drain waits for its deadline. */
const noTls = (way: Way): string | false =>
  way.name.startsWith("deno") &&
  "Deno does not report the end of a TLS connection";

for (const way of ways) {
  test(
    `${way.name}: plants survive kill -9 and a torn end, with exact ids`,
    { timeout, skip: way.skip },
    () => live(way)
  );

  test(
    `${way.name}: plants are taken over TLS`,
    { timeout, skip: way.skip || noTls(way) },
    () => serveTls(way)
  );
}

async function live(way: Way): Promise<void> {
  const path = oddPath();
  const store = way.pathOf(path);
  const server = await way.start(["--store", store]);
  assert.deepEqual(await postPlant(server, id, keyField), [200, undefined]);

  const second = await way.run(["--port", "0", "--store", store]);
  assert.equal(second.code, 75, second.stderr);
  assert.match(second.stderr, /has it open/);
  const beside = await way.run(["verify", store]);
  assert.equal(beside.code, 0, beside.stdout);
  const printed = await way.run(["cat", store]);
  assert.equal(printed.stdout, `{"id":${id},"name":"Fern"}\n`);
  await server.kill();

  const bytes = readFileSync(path);
  appendFileSync(path, torn);
  const again = await way.start(["--store", store]);
  assert.match(again.stderr(), /torn/);
  assert.equal(readFileSync(`${path}.torn-${bytes.length}`, "utf8"), torn);
  assert.deepEqual(await postPlant(again, id, keyField), [200, "true"]);
  assert.deepEqual(await postPlant(again, leastId), [200, undefined]);
  assert.equal(await again.stop(), 0, again.stderr());

  const verified = await way.run(["verify", "--json", store]);
  assert.equal(verified.code, 0, verified.stdout + verified.stderr);
  const { records } = JSON.parse(verified.stdout) as { records: number };
  assert.equal(records, 2);
  const all = await way.run(["cat", store]);
  assert.equal(
    all.stdout,
    `{"id":${id},"name":"Fern"}\n{"id":${leastId},"name":"Fern"}\n`
  );

  // Nothing else is left but the mark of a closed journal, and the lock where a file is the lock.
  const others = readdirSync(join(path, "..")).filter(
    (name) => !/^plants\.ndjson(?:|\.lock|\.closed-.*|\.torn-\d+)$/.test(name)
  );
  assert.deepEqual(others, []);
}

async function serveTls(way: Way): Promise<void> {
  const path = oddPath();
  const { key, cert } = temporaryTls();
  const keyPath = `${path}.key`;
  const certPath = `${path}.crt`;
  writeFileSync(keyPath, key, { mode: 0o600 });
  writeFileSync(certPath, cert);
  const server = await way.start([
    "--store",
    way.pathOf(path),
    "--tls-key",
    way.pathOf(keyPath),
    "--tls-cert",
    way.pathOf(certPath)
  ]);
  const client = connect({
    port: server.port,
    host: "127.0.0.1",
    ca: cert,
    servername: "localhost"
  });
  client.write(plant);
  assert.equal((await readAnswers(client, 1))[0]?.status, 200);
  client.destroy();
  assert.equal(await server.stop(), 0, server.stderr());
}
