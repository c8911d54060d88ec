/** Routes between the servers that are slow or blocked, and an import that is taken away: what a
 * check of all servers makes of it. */
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { describe, test } from "node:test";
import { seconds, until } from "../support/until.ts";
import { Cluster, withCluster } from "./cluster.ts";
import { append, resumes, stores } from "./fake.ts";
import { compare, Load, serve, underLoad } from "./load.ts";
import { proxied, publishedTo } from "./proxy.ts";

const timeout = seconds(180);
const cluster = await Cluster.start({ hasProxies: true });

/** The servers that hold a stream: its leader, and the others. */
async function holdersOf(stream: string) {
  const leader = await cluster.leader(stream);
  const [one = assert.fail(), other = assert.fail()] = cluster.servers.filter(
    (server) => server !== leader
  );
  return { leader, one, other };
}

describe(
  "a check of all servers",
  { ...withCluster, timeout, concurrency: 1 },
  () => {
    test("stops nothing while a replica is behind: the leader calls it not current", async (t) => {
      const { proxies, ports } = await proxied(cluster);
      const checks = publishedTo("servers", proxies);
      await underLoad(
        t,
        cluster,
        async ({ stream, load, warnings }) => {
          const { leader, one } = await holdersOf(stream);
          const route = cluster.route(leader, one);
          route.delayMillis = 200;
          await until("it is behind", async () => {
            const { cluster: { replicas = [] } = {} } =
              await cluster.info(stream);
            return replicas.some(
              ({ name, current }) => name === one.name && !current
            );
          });
          const before = checks();
          await until("it is checked", () => checks() > before + 8);
          route.delayMillis = 0;
          assert.doesNotMatch(warnings.join("\n"), /not verified/);
          assert.deepEqual([...load.refused], []);
        },
        { ports, limits: { checkMillis: 1_000 } }
      );
    });
    test("over a server whose route to a replica is blocked is left for the next server: no plant is refused", async (t) => {
      // Hosts are tried in the order of the address.
      t.mock.method(Math, "random", () => 0.5);
      await cluster.create("blocked");
      const { leader, one, other } = await holdersOf("blocked");
      const warnings: string[] = [];
      const store = await cluster.open("blocked", {
        user: "admin",
        query: "?servers=servers",
        ports: [one.port, leader.port],
        limits: { checkMillis: 500 },
        warn: (line) => warnings.push(line)
      });
      const load = new Load(await serve(store), 8);
      await load.more(200);
      const route = cluster.route(one, other);
      route.isBlocked = true;
      // Others may come first: an election, which any busy machine may cause, has lines of its own.
      const silent = RegExp(`not verified: that ${other.name} syncs`);
      await until("the next server acknowledges", () => {
        const left = warnings.findIndex((line) => silent.test(line));
        return (
          left >= 0 && warnings.includes("plants are acknowledged again", left)
        );
      });
      await load.more(500);
      await load.end();
      await store.close();
      route.isBlocked = false;
      route.cut();
      assert.deepEqual([...load.refused], []);
      const { missing, twice } = await compare(
        cluster,
        load.acknowledged,
        "blocked"
      );
      assert.deepEqual([missing, twice], [0, 0]);
    });
    test("refuses plants once the import was taken away, by no line twice, until it is back", async () => {
      await cluster.create("imported");
      const warnings: string[] = [];
      const store = await cluster.open("imported", {
        user: "admin",
        query: "?servers=servers",
        limits: {
          checkMillis: 500,
          noProgressMillis: 500,
          unreachableMillis: 500,
          appendMillis: 2_000
        },
        warn: (line) => warnings.push(line)
      });
      assert.ok(await stores(store));
      const configs = cluster.servers.map(({ config }) =>
        readFileSync(config, "utf8")
      );
      const reload = (change: (text: string) => string) => {
        for (const [index, { config, process }] of cluster.servers.entries()) {
          writeFileSync(config, change(configs[index] ?? ""));
          process.kill("SIGHUP");
        }
      };
      reload((text) => text.replace(/imports: \[[^\]]*\],/, ""));
      await until("it is refused", () => !store.stats.isReachable);
      assert.equal(await append(store), "unreachable");
      // Only these: an election has lines of its own.
      const refusals = warnings.filter((line) =>
        /not verified: .*must be \$SYS/.test(line)
      );
      assert.notDeepEqual(refusals, []);
      assert.deepEqual(refusals, [...new Set(refusals)]);
      reload((text) => text);
      await resumes(store);
      await store.close();
    });
  }
);
