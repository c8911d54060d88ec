/** Servers of a version that acknowledges plants which no quorum has, and that are upgraded one by
 * one. PLANT_TEST_NATS_OLD is such a nats-server. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { unless } from "../support/tools.ts";
import { seconds } from "../support/until.ts";
import { Cluster, storeOne } from "./cluster.ts";
import { refused } from "./fake.ts";

const { PLANT_TEST_NATS_OLD: binary } = process.env;

test(
  "servers below 2.14 are refused, directly and behind a new one, until each is new",
  {
    skip: unless(
      Boolean(binary),
      "PLANT_TEST_NATS_OLD names no nats-server below 2.14"
    ),
    timeout: seconds(120)
  },
  async () => {
    const cluster = await Cluster.start({ binary });
    await cluster.create("plants");
    const query = "?servers=servers";
    const isExpected = /: expected (a server with )?version 2\.14 or later$/;
    await refused(cluster.open("plants", { query }), "refused", isExpected);
    for (const server of cluster.servers) {
      const ports = [server.port];
      await refused(
        cluster.open("plants", { query, ports }),
        "refused",
        isExpected
      );
      await cluster.kill(server, "SIGTERM");
      cluster.restart(server);
      await cluster.ready(server);
      await cluster.leader("plants");
      if (server === cluster.servers.at(-1)) break;
      await refused(
        cluster.open("plants", { query, ports }),
        "config",
        isExpected
      );
    }
    await storeOne(cluster.open("plants", { query }));
    assert.equal((await cluster.read("plants")).length, 1);
  }
);
