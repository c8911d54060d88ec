/** A stream in another JetStream domain, through leaf nodes, and an inbox prefix of a user's own. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { Cluster, freePorts, until, withCluster } from "./cluster.ts";
import { refused } from "./fake.ts";

const timeout = 60_000;
const fern = { id: 1n, name: "Fern" };
const [leafPort = 0] = await freePorts(1);
const toHub = `leafnodes { remotes: [
  { url: "nats-leaf://admin:adminpw@127.0.0.1:${leafPort}", account: PLANTS } ] }`;
const hub = await Cluster.start({ servers: 1, domain: "hub",
  users: `{ user: boxed, password: boxedpw, permissions: {
    publish: [ "plants", "$JS.API.STREAM.INFO.plants", "$JS.API.STREAM.MSG.GET.plants" ],
    subscribe: [ "_INBOX_plants.>" ] } }`,
  more: `leafnodes { listen: "127.0.0.1:${leafPort}" }` });
const leaf = await Cluster.start({ servers: 1, domain: "none", more: toHub,
  accounts: `accounts {
    $SYS { users: [ { user: sys, password: syspw } ] }
    PLANTS { users: [ { user: admin, password: adminpw } ] }
  }` });
const edge = await Cluster.start({ servers: 1, domain: "edge", more: toHub,
  users: `{ user: far, password: farpw, permissions: { subscribe: [ "_INBOX.>" ],
    publish: [ "plants", "$JS.hub.API.STREAM.INFO.plants", "$JS.hub.API.STREAM.MSG.GET.plants" ] } }` });
const query = "?replicas=1";
const user = "admin";

describe("a stream of the hub's domain", { ...withCluster, timeout }, () => {
  test("is served through a leaf node, with JetStream or without, when the address has the domain",
    async () => {
      await hub.create("plants", { num_replicas: 1 });
      for (const [index, server] of [leaf, edge].entries()) {
        const store = await server.open("plants", { user, query: `${query}&domain=hub` });
        await until("it is connected to the hub", () =>
          store.append(fern).then(() => true, () => false));
        await store.close();
        assert.equal((await hub.read("plants")).length, index + 1);
      }
    });
  test("needs permission for the subjects of its domain only", async () => {
    const store = await edge.open("plants", { user: "far", query: `${query}&domain=hub` });
    await store.append(fern);
    await store.close();
    await assert.rejects(edge.open("plants", { user: "far", query }), { code: "config" });
  });
  test("is not served without the domain: the message says how, and no second stream is made", async () => {
    await refused(edge.open("plants", { user, query }), "config", /stream not found"\n.*\(domain=NAME\)/);
  });
});

describe("a user that may subscribe to an inbox of its own only", { ...withCluster, timeout }, () => {
  test("is served when the address has the prefix, and refused otherwise", async () => {
    const store = await hub.open("plants", { user: "boxed", query: `${query}&inbox=_INBOX_plants` });
    await store.append(fern);
    await store.close();
    await refused(hub.open("plants", { user: "boxed", query }), "config", /Permissions Violation for Subscription/);
  });
});
