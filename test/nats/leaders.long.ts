/** What was acknowledged over HTTP is in the stream, whatever happens to its servers.
 * PLANT_TEST_CLUSTER_ROUNDS=10 kills ten leaders; faults.long.ts has the long outages. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { Cluster, withCluster } from "./cluster.ts";
import { underLoad } from "./load.ts";
import { seconds } from "../support/until.ts";

const rounds = Number(process.env["PLANT_TEST_CLUSTER_ROUNDS"] ?? 1);
const timeout = seconds(60 + rounds * 60);
const cluster = await Cluster.start();

describe(
  "what was acknowledged is there",
  { ...withCluster, timeout, concurrency: 1 },
  () => {
    for (const [signal, count] of [
      ["SIGKILL", rounds],
      ["SIGTERM", 1]
    ] as const) {
      test(`the leader ended by ${signal}, ${count} times`, async (t) => {
        await underLoad(t, cluster, async ({ stream, load }) => {
          for (let round = 1; round <= count; round++) {
            const leader = await cluster.leader(stream);
            await cluster.kill(leader, signal);
            await load.more(500);
            assert.notEqual(
              (await cluster.leader(stream)).name,
              leader.name,
              "the fault fired"
            );
            cluster.restart(leader);
            await cluster.ready(leader);
          }
        });
      });
    }
  }
);
