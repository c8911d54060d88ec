/** What was acknowledged over HTTP is in the stream, whatever the cluster goes through: by default
 * one round of each fault; PLANT_TEST_CLUSTER_ROUNDS=10 makes it ten, and the outages 20 s. */
import assert from "node:assert/strict";
import { after, describe, test } from "node:test";
import type { TestContext } from "node:test";
import { setTimeout } from "node:timers/promises";
import type { NatsOptions } from "../../src/engines/nats.ts";
import { exchange, post } from "../support/support.ts";
import { Cluster, until, withCluster } from "./cluster.ts";
import { compare, Load, Proxy, serve } from "./load.ts";

const rounds = Number(process.env["PLANT_TEST_CLUSTER_ROUNDS"] ?? 1);
const outageMillis = rounds > 1 ? 20_000 : 3_000;
const timeout = 60_000 + rounds * 60_000;

/** An election takes 4 to 9 s, and the machine may be busy: what is measured is told. */
const backMillisMax = 30_000;

/** Who was refused, where an election outlasted the deadline, was told what is so: that nothing
 * was stored, or that it is not known. */
function assertHonest({ refused }: Load): void {
  const others = [...refused.keys()].filter((error) => ![50302, 50306].includes(error));
  assert.deepEqual(others, []);
}

const cluster = await Cluster.start();
let streams = 0;

/** A stream of its own, with a server before it; `writer` needs permission for each. */
async function begin(t: TestContext, on = cluster, ports = [0], options: NatsOptions = {}) {
  const stream = `plants${++streams}`;
  await on.create(stream);
  const told: string[] = [];
  const store = await on.open(stream,
    { user: "admin", ports, warn: (line) => told.push(line), ...options });
  const port = await serve(store);
  after(() => store.close());
  const finish = async (load: Load) => {
    await load.end();
    const compared = await compare(on, load.acknowledged, stream);
    t.diagnostic(`${load.acknowledged.length} acknowledged, ${compared.stored} stored, `
      + `${compared.missing} missing, ${compared.twice} twice, longest time without a 200 `
      + `${Math.round(load.gapMillisMax)} ms, refused ${JSON.stringify([...load.refused])}`);
    assert.equal(compared.missing, 0, "acknowledged, and not there");
    return compared;
  };
  return { stream, store, port, told, finish };
}

describe("what was acknowledged is there", { ...withCluster, timeout, concurrency: 1 }, () => {
  test(`the leader killed ${rounds} times under 64 appends in flight`, async (t) => {
    const { stream, port, finish } = await begin(t);
    const load = new Load(port, 64);
    for (let round = 1; round <= rounds; round++) {
      await load.more(500);
      const leader = await cluster.leader(stream);
      await cluster.kill(leader);
      const begun = performance.now();
      await load.more(500);
      const back = performance.now() - begun;
      t.diagnostic(`round ${round}: 500 more after ${Math.round(back)} ms`);
      assert.ok(back < backMillisMax, `appends succeed again by themselves, after ${back} ms`);
      assert.notEqual((await cluster.leader(stream)).name, leader.name, "the fault fired");
      cluster.restart(leader);
      await cluster.ready(leader);
    }
    const { twice } = await finish(load);
    assert.equal(twice, 0);
    assertHonest(load);
  });

  test("the leader stopped (SIGSTOP), and going on as one that knows of nothing", async (t) => {
    const { stream, port, finish } = await begin(t);
    const load = new Load(port, 64);
    await load.more(500);
    const leader = await cluster.leader(stream);
    leader.process.kill("SIGSTOP");
    await load.more(500);
    leader.process.kill("SIGCONT");
    await load.more(500);
    const { twice } = await finish(load);
    assert.equal(twice, 0);
    assert.ok(load.gapMillisMax > 500, "the fault was felt");
  });

  test("the leader ended (SIGTERM), which says so before it leaves", async (t) => {
    const { stream, port, finish } = await begin(t);
    const load = new Load(port, 64);
    await load.more(500);
    const leader = await cluster.leader(stream);
    await cluster.kill(leader, "SIGTERM");
    await load.more(500);
    cluster.restart(leader);
    await cluster.ready(leader);
    const { twice } = await finish(load);
    assert.equal(twice, 0);
    assertHonest(load);
  });

  test(`two of three down for ${outageMillis / 1000} s: nothing is acknowledged`, async (t) => {
    const { stream, port, finish } = await begin(t);
    const load = new Load(port, 64);
    await load.more(500);
    const leader = await cluster.leader(stream);
    const down = cluster.servers.filter((server) => server !== leader);
    await Promise.all(down.map((server) => cluster.kill(server)));
    const before = load.acknowledged.length;
    await setTimeout(outageMillis);
    // What had a quorum just before the second one died may be acknowledged just after.
    assert.ok(load.acknowledged.length - before <= 64, "without a quorum nothing gets a 200");
    const atRest = load.acknowledged.length;
    await setTimeout(outageMillis / 4);
    assert.equal(load.acknowledged.length, atRest, "0 answers 200");
    for (const server of down) cluster.restart(server);
    await load.more(500);
    await finish(load);
    const unknown = load.refused.get(50302) ?? 0;
    if (rounds > 1) assert.ok(unknown > 0, "the deadline passed meanwhile");
    for (const server of down) await cluster.ready(server);
  });

  test("acknowledgements lost, and the connection cut: nothing twice, as its control has", async (t) => {
    for (const hasIds of [true, false]) {
      const proxies = await Promise.all(cluster.servers.map(({ port }) => Proxy.before(port)));
      if (!hasIds) {
        for (const proxy of proxies) {
          proxy.rewrite = (bytes) =>
            Buffer.from(bytes.toString("latin1").replaceAll("Nats-Msg-Id", "None-Msg-Id"), "latin1");
        }
      }
      const { port, finish } = await begin(t, cluster, proxies.map((proxy) => proxy.port));
      const load = new Load(port, 64);
      for (let round = 0; round < 2 + 2 * rounds; round++) {
        await load.more(200);
        for (const proxy of proxies) proxy.isMute = true;
        const lostBefore = proxies.reduce((sum, { lost }) => sum + lost, 0);
        await until("acknowledgements are lost", () =>
          proxies.reduce((sum, { lost }) => sum + lost, 0) > lostBefore + 500);
        for (const proxy of proxies) {
          proxy.isMute = false;
          proxy.cut();
        }
      }
      await load.more(200);
      const { twice } = await finish(load);
      if (hasIds) assert.equal(twice, 0);
      else assert.ok(twice > 0, "the control: without ids, what was sent again is there twice");
    }
  });

  test("two stores with the same message ids, as clones of a machine have", async (t) => {
    const stream = `plants${++streams}`;
    await cluster.create(stream);
    const proxies = await Promise.all(cluster.servers.map(({ port }) => Proxy.before(port)));
    for (const proxy of proxies) {
      proxy.rewrite = (bytes) => Buffer.from(bytes.toString("latin1")
        .replace(/(Nats-Msg-Id: )[\da-f]{24}/g, `$1${"0".repeat(24)}`), "latin1");
    }
    const ports = proxies.map(({ port }) => port);
    const acknowledged: number[] = [];
    let unknown = 0;
    for (let round = 0; round < 10; round++) {
      const stores = await Promise.all([1, 2].map(() => cluster.open(stream, { user: "admin", ports })));
      await Promise.all(stores.flatMap((store, index) => Array.from({ length: 5 }, async (_, n) => {
        const id = 100 * round + 10 * index + n;
        await store.append({ id: BigInt(id), name: "Fern" })
          .then(() => acknowledged.push(id), () => unknown++);
      })));
      await Promise.all(stores.map((store) => store.close()));
    }
    const { missing, stored } = await compare(cluster, acknowledged, stream);
    t.diagnostic(`${acknowledged.length} acknowledged, ${unknown} unknown, ${stored} stored`);
    assert.equal(missing, 0, "acknowledged, and not there");
    assert.ok(unknown > 0 && acknowledged.length > 0, "the fault fired");
  });

  test("a server that answers nothing any more (a black hole)", async (t) => {
    const proxies = await Promise.all(cluster.servers.map(({ port }) => Proxy.before(port)));
    const { port, finish } = await begin(t, cluster, proxies.map((proxy) => proxy.port));
    const load = new Load(port, 64);
    await load.more(500);
    const [first = assert.fail("no proxy")] = proxies;
    first.isMute = true;
    await load.more(500);
    first.isMute = false;
    assert.ok(first.lost > 0, "the fault fired");
    const { twice } = await finish(load);
    assert.equal(twice, 0);
    assert.ok(load.gapMillisMax < backMillisMax, `${load.gapMillisMax} ms`);
    assertHonest(load);
  });

  test("all hosts away for long: 503 that says not stored, and back by itself", async (t) => {
    const proxies = await Promise.all(cluster.servers.map(({ port }) => Proxy.before(port)));
    const { port, finish, told } = await begin(t, cluster, proxies.map((proxy) => proxy.port),
      { limits: { appendMillis: 3_000 } });
    const load = new Load(port, 8);
    await load.more(100);
    for (const proxy of proxies) {
      proxy.isCut = true;
      proxy.cut();
    }
    await until("it is refused as not stored", async () => {
      const [answer] = await exchange(port, post('{"id":0,"name":"Fern"}'), { answers: 1 });
      return answer?.status === 503 && answer.body.includes('"error":50306');
    });
    for (const proxy of proxies) proxy.isCut = false;
    await load.more(100);
    await finish(load);
    assert.match(told.join("\n"), /plants are acknowledged again/);
  });
});

describe("a client of a server that is cut off from the others", { ...withCluster, timeout }, () => {
  test("is on another one within seconds, though that one answers PING", async (t) => {
    const routes = new Map<string, Proxy>();
    const isolable = await Cluster.start({
      routeOf: async (from, to, port) => {
        const proxy = await Proxy.before(port);
        routes.set(`${from}-${to}`, proxy);
        return proxy.port;
      },
    });
    const { port, finish, told } = await begin(t, isolable);
    const load = new Load(port, 64);
    await load.more(500);
    const connected = await isolable.connected();
    const cutOff = [...routes].filter(([name]) => name.includes(`${connected}`))
      .map(([, proxy]) => proxy);
    assert.equal(cutOff.length, 4);
    for (const proxy of cutOff) {
      proxy.isCut = true;
      proxy.cut();
    }
    await load.more(1_000);
    for (const proxy of cutOff) proxy.isCut = false;
    const { twice } = await finish(load);
    assert.equal(twice, 0);
    assert.match(told.join("\n"), /it acknowledges nothing/, "the rule fired");
    assert.ok(load.gapMillisMax < backMillisMax, `${load.gapMillisMax} ms`);
    assertHonest(load);
  });
});
