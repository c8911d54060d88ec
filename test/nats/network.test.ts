/** A stream in another JetStream domain, through leaf nodes, and an inbox prefix of a user's own. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { fern } from "../support/journals.ts";
import { Cluster, freePorts, storeOne, withCluster } from "./cluster.ts";
import { outcomeOf, refused, resumes } from "./fake.ts";
import { seconds, until } from "../support/until.ts";

const timeout = seconds(60);
const [leafPort = 0, plainPort = 0] = await freePorts(2);
const toHub = `leafnodes { remotes: [
  { url: "nats-leaf://admin:adminpw@127.0.0.1:${leafPort}", account: PLANTS } ] }`;
const hub = await Cluster.start({
  servers: 1,
  domain: "hub",
  users: `{ user: boxed, password: boxedpw, permissions: {
    publish: [ "plants", "$JS.API.STREAM.INFO.plants", "$JS.API.STREAM.MSG.GET.plants" ],
    subscribe: [ "_INBOX_plants.>" ] } }`,
  more: `leafnodes { listen: "127.0.0.1:${leafPort}" }`
});
const leaf = await Cluster.start({
  servers: 1,
  domain: "none",
  more: toHub,
  accounts: `accounts {
    $SYS { users: [ { user: sys, password: syspw } ] }
    PLANTS { users: [ { user: admin, password: adminpw } ] }
  }`
});
const edge = await Cluster.start({
  servers: 1,
  domain: "edge",
  more: toHub,
  users: `{ user: far, password: farpw, permissions: { subscribe: [ "_INBOX.>" ],
    publish: [ "plants", "$JS.hub.API.STREAM.INFO.plants", "$JS.hub.API.STREAM.MSG.GET.plants" ] } }`
});
const plain = await Cluster.start({
  servers: 1,
  more: `leafnodes { listen: "127.0.0.1:${plainPort}" }`
});
const plainLeaf = await Cluster.start({
  servers: 1,
  more: toHub.replace(`${leafPort}`, `${plainPort}`)
});
let twinsCount = 0;
const importing = await Cluster.start({
  servers: 1,
  accounts: `accounts {
    $SYS { users: [ { user: sys, password: syspw } ] }
    PLANTS { jetstream: enabled, users: [ { user: admin, password: adminpw } ]
      exports: [ { service: "$JS.API.>" }, { service: "plants.new" } ] }
    OTHERS { users: [ { user: other, password: otherpw } ], imports: [
      { service: { account: PLANTS, subject: "$JS.API.>" }, to: "$JS.GARDEN.API.>" }
      { service: { account: PLANTS, subject: "plants.new" } } ] }
  }`
});
const query = "?replicas=1";
const user = "admin";

describe("a stream of the hub's domain", { ...withCluster, timeout }, () => {
  test("is served through a leaf node, with JetStream or without, when the address has the domain", async () => {
    await hub.create("plants", { num_replicas: 1 });
    const lines: string[] = [];
    for (const [index, server] of [leaf, edge].entries()) {
      const store = await server.open("plants", {
        user,
        query: `${query}&domain=hub&servers=servers`,
        warn: (line) => void lines.push(line)
      });
      await resumes(store);
      await store.close();
      assert.equal((await hub.read("plants")).length, index + 1);
    }
  });
  test("needs permission for the subjects of its domain only", async () => {
    await storeOne(
      edge.open("plants", { user: "far", query: `${query}&domain=hub` })
    );
    await assert.rejects(edge.open("plants", { user: "far", query }), {
      code: "config"
    });
  });
  test("is not acknowledged by a stream of the same name in the leaf's domain between two checks", async () => {
    await hub.create("both", { num_replicas: 1 });
    const store = await edge.open("both", {
      user,
      query: `${query}&domain=hub`,
      limits: { appendMillis: 2_000, checkMillis: 60_000 }
    });
    await resumes(store);
    await edge.create("both", { num_replicas: 1 });
    const [server] = hub.servers;
    const before = (await edge.read("both")).length;
    server?.process.kill("SIGSTOP");
    const outcomes = await Promise.all(
      ["a", "b", "c"].map((name) => outcomeOf(store.append({ ...fern, name })))
    );
    assert.ok(
      (await edge.read("both")).length > before,
      "the leaf's own stream has taken some"
    );
    server?.process.kill("SIGCONT");
    await store.close();
    assert.deepEqual(outcomes, ["unknown", "unknown", "unknown"]);
  });
  test("is not served without the domain: the message says how, and no second stream is made", async () => {
    await refused(
      edge.open("plants", { user, query }),
      "config",
      /stream not found"\n.*\(domain=NAME\)/
    );
  });
});

describe(
  "a stream of the hub and one of a leaf node",
  {
    ...withCluster,
    timeout
  },
  () => {
    const twins =
      /two streams named \w+ take the subject \w+: one may be a leaf/;
    const one = { num_replicas: 1 };
    for (const [what, top, below] of [
      ["neither has a domain", plain, plainLeaf],
      ["each has its domain", hub, edge]
    ] as const)
      test(`of one name are refused from both sides, at a start or by the next check: ${what}`, async () => {
        const stream = `twin${++twinsCount}`;
        await top.create(stream, one);
        const warnings: string[] = [];
        const store = await top.open(stream, {
          user,
          query,
          limits: { checkMillis: 200 },
          warn: (line) => void warnings.push(line)
        });
        await store.append(fern);

        // Full: a refusal of this one must settle nothing.
        await below.create(stream, { ...one, max_msgs: 1 });
        await until("it is refused", () => !store.stats.isReachable);
        assert.match(warnings.join("\n"), twins);
        assert.equal(await outcomeOf(store.append(fern)), "unreachable");
        await store.close();

        // A busy leaf node may respond a moment late: the next check sees it then.
        for (const side of [top, below]) {
          const again = await side
            .open(stream, { user, query, limits: { checkMillis: 200 } })
            .catch((error: Error) => assert.match(error.message, twins));
          await until("it is refused", () => !again?.stats.isReachable);
          await again?.close();
        }
        await below.admin(`STREAM.DELETE.${stream}`);
        await storeOne(top.open(stream, { user, query }));
      });
    test("of another name serve: what the copy refuses settles nothing", async () => {
      await plain.create("copied", one);
      await plainLeaf.create("copy", { ...one, subjects: ["copied"] });
      const store = await plain.open("copied", { user, query });
      for (let turn = 0; turn < 20; turn++)
        assert.equal(await outcomeOf(store.append(fern)), "stored");
      await store.close();
      assert.equal((await plain.read("copied")).length, 20);
    });
    test("tell that the hub's is full, though it has a domain", async () => {
      await hub.create("full", { ...one, max_msgs: 1 });
      const store = await hub.open("full", { user, query });
      assert.equal(await outcomeOf(store.append(fern)), "stored");
      assert.equal(await outcomeOf(store.append(fern)), "full");
      await store.close();
    });
  }
);

describe("a stream of another account", { ...withCluster, timeout }, () => {
  test("is served by the name of the import, and by its subject", async () => {
    await importing.create("PLANTS", {
      num_replicas: 1,
      subjects: ["plants.new"]
    });
    const store = await importing.open("PLANTS", {
      user: "other",
      query: `${query}&domain=GARDEN&subject=plants.new`
    });
    await store.append(fern);
    assert.equal(await store.appendOnce?.(fern, "A".repeat(22)), "stored");
    assert.equal(await store.appendOnce?.(fern, "A".repeat(22)), "replayed");
    await store.close();
    assert.equal((await importing.read("PLANTS")).length, 2);
    await refused(
      importing.open("PLANTS", { user, query }),
      "config",
      /subjects: expected \["PLANTS"\], found \["plants\.new"\]/
    );
  });
});

describe(
  "a user that may subscribe to an inbox of its own only",
  { ...withCluster, timeout },
  () => {
    test("is served when the address has the prefix, and refused otherwise", async () => {
      await storeOne(
        hub.open("plants", {
          user: "boxed",
          query: `${query}&inbox=_INBOX_plants`
        })
      );
      await refused(
        hub.open("plants", { user: "boxed", query }),
        "config",
        /Permissions Violation for Subscription/
      );
    });
  }
);
