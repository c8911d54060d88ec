/** What was acknowledged over HTTP is in the stream, whatever happens to its servers.
 * PLANT_TEST_CLUSTER_ROUNDS=10 kills ten leaders. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { setTimeout } from "node:timers/promises";
import { Cluster, withCluster } from "./cluster.ts";
import { underLoad } from "./load.ts";
import { proxied } from "./proxy.ts";
import { seconds, until } from "../support/until.ts";

const outageMillis = 20_000;
const rounds = Number(process.env["PLANT_TEST_CLUSTER_ROUNDS"] ?? 1);
const timeout = seconds(180 + rounds * 60);
const cluster = await Cluster.start();

describe(
  "what was acknowledged is there",
  { ...withCluster, timeout, concurrency: 1 },
  () => {
    test(`the leader killed, ${rounds} times`, async (t) => {
      await underLoad(t, cluster, async ({ stream, load }) => {
        for (let round = 1; round <= rounds; round++) {
          const leader = await cluster.leader(stream);
          await cluster.kill(leader);
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

    test("the leader stopped (SIGSTOP), and continued as one that knows of nothing", async (t) => {
      await underLoad(t, cluster, async ({ stream, load }) => {
        const leader = await cluster.leader(stream);
        leader.process.kill("SIGSTOP");
        await load.more(500);
        leader.process.kill("SIGCONT");
        assert.ok(load.gapMillisMax > 500, "the fault was felt");
      });
    });

    test(`two of three down for ${outageMillis / 1000} s: nothing is acknowledged`, async (t) => {
      await underLoad(t, cluster, async ({ stream, load }) => {
        const leader = await cluster.leader(stream);
        const down = cluster.servers.filter((server) => server !== leader);
        await Promise.all(down.map((server) => cluster.kill(server)));
        const before = load.acknowledged.length;
        await setTimeout(outageMillis);
        // What had a quorum just before the second one died may be acknowledged just after.
        assert.ok(
          load.acknowledged.length - before <= 64,
          "without a quorum nothing gets a 200"
        );
        const atRest = load.acknowledged.length;
        await setTimeout(outageMillis / 4);
        assert.equal(
          load.acknowledged.length,
          atRest,
          "no response has status 200"
        );
        assert.ok(load.refused.size > 0, "the deadline passed meanwhile");
        for (const server of down) cluster.restart(server);
        for (const server of down) await cluster.ready(server);
      });
    });

    for (const isControl of [false, true]) {
      test(
        "acknowledgements are lost, and the connection, " +
          (isControl
            ? "the control: without ids, plants are there twice"
            : "nothing is there twice"),
        async (t) => {
          const { proxies, ports } = await proxied(cluster);
          if (isControl)
            for (const proxy of proxies)
              proxy.ids = (line) => line.replace("Nats", "None");
          const lost = (): number =>
            proxies.reduce((sum, proxy) => sum + proxy.lost, 0);
          const { twice } = await underLoad(
            t,
            cluster,
            async ({ load }) => {
              for (let round = 0; round < 1 + rounds; round++) {
                await load.more(200);
                const before = lost();
                for (const proxy of proxies) proxy.isMute = true;
                await until(
                  "acknowledgements are lost",
                  () => lost() > before + 500
                );
                for (const proxy of proxies) {
                  proxy.isMute = false;
                  proxy.cut();
                }
              }
            },
            { ports, isControl }
          );
          assert.equal(twice > 0, isControl);
        }
      );
    }
  }
);
