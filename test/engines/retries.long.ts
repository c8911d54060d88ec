/** Clients that repeat each request with its key until they get a 200: the stream has every plant
 * exactly once, whatever dies. PLANT_TEST_CLUSTER_ROUNDS=10 kills ten leaders. */
import assert from "node:assert/strict";
import { describe, test, type TestContext } from "node:test";
import { RetryingClients } from "../support/load.ts";
import { start } from "../support/support.ts";
import { Cluster, until, withCluster } from "./cluster.ts";
import { compare } from "./load.ts";

const rounds = Number(process.env["PLANT_TEST_CLUSTER_ROUNDS"] ?? 1);
const timeout = 300_000 + rounds * 60_000;
const cluster = await Cluster.start();

/** Kills leaders under the load of two processes, then each process; a third one finishes. */
async function retryThroughKills(t: TestContext, stream: string, isKeyed: boolean) {
  await cluster.create(stream);
  const env = cluster.env(stream, "admin");
  const clients = new RetryingClients(isKeyed);
  const servers = [await start({ env }), await start({ env })];
  const killed = Promise.all(servers.map((server) => clients.killAfter(server, Infinity)));
  const more = async (count: number) => {
    const wanted = clients.acknowledged.length + count;
    await until("plants are acknowledged", () => clients.acknowledged.length >= wanted);
  };
  for (let round = 1; round <= rounds; round++) {
    await more(500);
    const leader = await cluster.leader(stream);
    await cluster.kill(leader);
    await more(500);
    cluster.restart(leader);
    await cluster.ready(leader);
  }
  for (const server of servers) {
    server.process.kill("SIGKILL");
    if (server === servers[0]) await more(500);
  }
  await killed;
  const last = await start({ env });
  await clients.finish(last);
  assert.equal(await last.end(), 0);
  const { acknowledged, replays, unavailable, sent } = clients;
  const compared = await compare(cluster, acknowledged, stream);
  t.diagnostic(JSON.stringify({ rounds, plants: acknowledged.length, sent, replays, unavailable, ...compared }));
  assert.equal(compared.missing, 0);
  return { ...compared, plants: acknowledged.length, replays };
}

describe("retries on a stream", { ...withCluster, timeout, concurrency: 1 }, () => {
  test(`${rounds} leaders and two processes killed: each plant is there exactly once`, async (t) => {
    // A few kills may meet no plant between its write and its response: then there are more.
    for (let attempt = 1, replays = 0; replays === 0; attempt++) {
      const found = await retryThroughKills(t, `retries${attempt}`, true);
      assert.deepEqual([found.stored, found.twice], [found.plants, 0]);
      ({ replays } = found);
      assert.ok(replays > 0 || attempt < 5, "a retry has met a stored plant");
    }
  });
  test("without keys, plants are there twice: the control", async (t) => {
    for (let attempt = 1, twice = 0; twice === 0; attempt++) {
      ({ twice } = await retryThroughKills(t, `keyless${attempt}`, false));
      assert.ok(twice > 0 || attempt < 5, "a plant is there twice");
    }
  });
});
