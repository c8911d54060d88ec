/** Clients that repeat each request with its key until they get a 200: the stream has every plant
 * exactly once, whatever dies. PLANT_TEST_CLUSTER_ROUNDS=10 kills ten leaders. PLANT_TEST_NATS_FROM
 * is an earlier nats-server, 2.14 or later, from which a cluster is upgraded under the same load. */
import assert from "node:assert/strict";
import { describe, test, type TestContext } from "node:test";
import { RetryingClients } from "../support/load.ts";
import { startProcess } from "../support/support.ts";
import { Cluster, withCluster } from "./cluster.ts";
import { compare } from "./load.ts";
import { seconds, until } from "../support/until.ts";

const rounds = Number(process.env["PLANT_TEST_CLUSTER_ROUNDS"] ?? 1);
const timeout = seconds(300 + rounds * 60);
const more = 'lame_duck_duration: "30s"\nlame_duck_grace_period: "1s"';
const cluster = await Cluster.start();
const upgraded = await Cluster.start({
  binary: process.env["PLANT_TEST_NATS_FROM"],
  more
});

type Fault = (
  stream: string,
  more: (count: number) => Promise<void>
) => Promise<void>;

const killLeaders: Fault = async (stream, more) => {
  for (let round = 1; round <= rounds; round++) {
    await more(500);
    const leader = await cluster.leader(stream);
    await cluster.kill(leader);
    await more(500);
    cluster.restart(leader);
    await cluster.ready(leader);
  }
};

/** Each server leaves in lame-duck mode, and comes back in the new version. It must become current
 * under the load. */
const upgrade: Fault = async (_, more) => {
  for (const server of upgraded.servers) {
    const left = upgraded.kill(server, "SIGUSR2");
    await more(2_000);
    await left;
    upgraded.restart(server);
    await more(2_000);
    await upgraded.ready(server);
  }
};

/** Causes a fault under the load of two processes, then kills each process; a third one finishes. */
async function retryThrough(
  t: TestContext,
  on: Cluster,
  fault: Fault,
  stream: string,
  isKeyed: boolean,
  connections = 32
) {
  await on.create(stream);
  const env = on.env(stream, "admin");
  const clients = new RetryingClients(isKeyed);
  const servers = [await startProcess({ env }), await startProcess({ env })];
  const killed = Promise.all(
    servers.map((server) => clients.killAfter(server, Infinity, connections))
  );
  const more = async (count: number) => {
    const wanted = clients.acknowledged.length + count;
    await until(
      "plants are acknowledged",
      () => clients.acknowledged.length >= wanted
    );
  };
  await fault(stream, more);
  for (const server of servers) {
    server.process.kill("SIGKILL");
    if (server === servers[0]) await more(500);
  }
  await killed;
  const last = await startProcess({ env });
  await clients.finish(last);
  assert.equal(await last.end(), 0);
  const {
    acknowledged: { length: plants },
    replays,
    unavailable,
    sent
  } = clients;
  const compared = await compare(on, clients.acknowledged, stream);
  t.diagnostic(
    JSON.stringify({ rounds, plants, sent, replays, unavailable, ...compared })
  );
  assert.equal(compared.missing, 0);
  if (isKeyed) assert.deepEqual([compared.stored, compared.twice], [plants, 0]);
  return { ...compared, replays };
}

describe(
  "retries on a stream",
  { ...withCluster, timeout, concurrency: 1 },
  () => {
    test(`${rounds} leaders and two processes killed: each plant is there exactly once`, async (t) => {
      // A few kills may meet no plant between its write and its response: then there are more.
      for (let attempt = 1, replays = 0; replays === 0; attempt++) {
        ({ replays } = await retryThrough(
          t,
          cluster,
          killLeaders,
          `retries${attempt}`,
          true
        ));
        assert.ok(replays > 0 || attempt < 5, "a retry has met a stored plant");
      }
    });
    test("without keys, plants are there twice: the control", async (t) => {
      for (let attempt = 1, twice = 0; twice === 0; attempt++) {
        ({ twice } = await retryThrough(
          t,
          cluster,
          killLeaders,
          `keyless${attempt}`,
          false
        ));
        assert.ok(twice > 0 || attempt < 5, "a plant is there twice");
      }
    });
    test("three servers replaced one by one: each plant is there exactly once", async (t) => {
      await retryThrough(t, upgraded, upgrade, "upgraded", true, 2);
    });
  }
);
