/** What was acknowledged over HTTP is in the stream, whatever happens on the way to its servers. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { Cluster, until, withCluster } from "./cluster.ts";
import { compare, proxied, underLoad } from "./load.ts";

const rounds = 1 + Number(process.env["PLANT_TEST_CLUSTER_ROUNDS"] ?? 1);
const cluster = await Cluster.start();

describe("what was acknowledged is there", { ...withCluster, timeout: 120_000, concurrency: 1 }, () => {
  for (const isControl of [false, true]) {
    test("acknowledgements are lost, and the connection, "
      + (isControl ? "the control: without ids, plants are there twice" : "nothing is there twice"), async (t) => {
      const { proxies, ports } = await proxied(cluster);
      if (isControl) for (const proxy of proxies) proxy.ids = (line) => line.replace("Nats", "None");
      const lost = (): number => proxies.reduce((sum, proxy) => sum + proxy.lost, 0);
      const { twice } = await underLoad(t, cluster, async ({ load }) => {
        for (let round = 0; round < rounds; round++) {
          await load.more(200);
          const before = lost();
          for (const proxy of proxies) proxy.isMute = true;
          await until("acknowledgements are lost", () => lost() > before + 500);
          for (const proxy of proxies) {
            proxy.isMute = false;
            proxy.cut();
          }
        }
      }, { ports, isControl });
      assert.equal(twice > 0, isControl);
    });
  }

  test("two stores have the same message ids, as clones of a machine have", async (t) => {
    await cluster.create("clones");
    const { proxies, ports } = await proxied(cluster);
    for (const proxy of proxies) proxy.ids = (line) => line.replace(/[\da-f]{24}/, "0".repeat(24));
    const acknowledged: number[] = [];
    let unknown = 0;
    for (let round = 0; round < 10; round++) {
      const stores = await Promise.all([1, 2].map(() => cluster.open("clones", { user: "admin", ports })));
      await Promise.all(stores.flatMap((store, index) => Array.from({ length: 5 }, async (_, n) => {
        const id = 100 * round + 10 * index + n;
        await store.append({ id: BigInt(id), name: "Fern" })
          .then(() => acknowledged.push(id), () => unknown++);
      })));
      await Promise.all(stores.map((store) => store.close()));
    }
    const { missing, stored } = await compare(cluster, acknowledged, "clones");
    t.diagnostic(`${acknowledged.length} acknowledged, ${unknown} unknown, ${stored} stored`);
    assert.equal(missing, 0, "acknowledged, and not there");
    assert.ok(unknown > 0 && acknowledged.length > 0, "the fault fired");
  });
});
