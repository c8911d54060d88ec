/** The session with servers: credentials, checks and hosts, on servers that send what a test wants. */
import assert from "node:assert/strict";
import { after, describe, mock, test } from "node:test";
import { openNats, type NatsLimits } from "../../src/nats/nats.ts";
import { fern } from "../support/journals.ts";
import {
  ack,
  Fake,
  fails,
  open as openScript,
  openFake,
  patient,
  refused,
  respond,
  resumes,
  stores,
  varzOf,
  type Script
} from "./fake.ts";
import { seconds, until } from "../support/until.ts";

// Hosts are tried in the order of the address.
const { random } = Math;
mock.method(Math, "random", () => 0.5);

const open = (
  script: Script = {},
  limits: Partial<NatsLimits> = { checkMillis: 50 }
) => openScript(script, limits);

test("a server of version 2.14 or later is accepted, and no other", async () => {
  for (const version of ["2.14.0", "3.0.0"])
    await openFake([await Fake.start({ info: { version } })]);
  for (const version of ["2.13.9", "1.99.0", "2", "", { toString: 1 }])
    await refused(
      openFake([await Fake.start({ info: { version } })]),
      "refused",
      /version 2\.14 or later$/
    );
});

describe("the servers", () => {
  const replica = (name: string, changes = {}) => ({
    name,
    current: true,
    active: 1e8,
    ...changes
  });
  const cluster = { leader: "n1", replicas: [replica("n2"), replica("n3")] };
  const varzs = ["n1", "n2", "n3"].map((name) => varzOf(name));
  const lax = { jetstream: { config: { sync_interval: 120e9 } } };

  /** A store that asks the servers; they all respond unless the script says otherwise. */
  async function begin(script: Script = {}, limits: Partial<NatsLimits> = {}) {
    const all = { cluster, varzs, ...script };
    const fake = await Fake.start(all);
    const warnings: string[] = [];
    const opened = openFake(
      [fake],
      { limits, warn: (line) => warnings.push(line) },
      "?servers=servers"
    );
    const change = (changes: Script) => {
      fake.script = { ...all, ...changes };
    };
    return { fake, opened, warnings, change };
  }

  /** Waits until the servers have been asked again, twice. */
  async function isAsked(fake: Fake) {
    const { asked } = fake;
    await until("they are asked again", () => fake.asked > asked + 1);
  }

  for (const [what, script, name] of [
    ["a replica", { varzs: varzs.slice(0, 2) }, "n3"],
    ["the leader", { varzs: varzs.slice(1) }, "n1"],
    ["all, as without the import", { varzs: undefined }, "n1"]
  ] as const) {
    test(`must all respond that are up: without ${what} plants are refused, and one line says what to add`, async () => {
      const { fake, opened, warnings, change } = await begin(script as Script, {
        noProgressMillis: 200
      });
      const store = await opened;
      assert.equal(await stores(store), false);
      assert.deepEqual(warnings, [
        `${fake.host}: not verified: that ${name} syncs each write: it does not respond to ` +
          "servers, which must be $SYS.REQ.SERVER.PING.VARZ, imported from the system account"
      ]);
      assert.deepEqual(fake.plants, []);
      change({ varzs });
      await resumes(store);
    });
  }
  for (const changes of [{ active: 10e9 }, { active: 0 }, { offline: true }]) {
    test(`that are down (${JSON.stringify(changes)}) stop nothing, and are refused if they come back without the setting`, async () => {
      const { fake, opened, warnings, change } = await begin(
        {
          cluster: {
            leader: "n1",
            replicas: [replica("n2", changes), replica("n3")]
          },
          varzs: [varzOf("n1"), varzOf("n3")]
        },
        { checkMillis: 20 }
      );
      const store = await opened;
      await isAsked(fake);
      assert.equal(await stores(store), true);
      assert.deepEqual(warnings, []);
      change({
        cluster,
        varzs: [varzOf("n1"), varzOf("n2", lax), varzOf("n3")]
      });
      await until("it is refused", () => !store.stats.isReachable);
      assert.match(
        warnings.join("\n"),
        /: n2: expected sync_interval: always; without it/
      );
      change({ cluster, varzs });
      await resumes(store);
    });
  }
  test("that miss a check of many stop nothing, and a check that has no response for three intervals does", async () => {
    const { fake, opened, warnings, change } = await begin(
      {},
      {
        checkMillis: seconds(0.5),
        noProgressMillis: 200,
        unreachableMillis: 100
      }
    );
    const store = await opened;
    assert.equal(await stores(store), true);
    change({ varzs: varzs.slice(0, 2) });
    await isAsked(fake);
    assert.equal(await stores(store), true);
    change({});
    await isAsked(fake);
    assert.equal(fake.connections, 1);
    for (const script of [
      { varzs: varzs.slice(0, 2) },
      { stream: "nobody" },
      { stream: {} }
    ] as const) {
      const { connections } = fake;
      change(script);
      await until("it is left", () => fake.connections > connections + 1);
      change({});
      await resumes(store);
    }
    assert.match(warnings.join("\n"), /not verified: that n3 /);
    assert.match(
      warnings.join("\n"),
      /nobody leads .* permits \$JS\.API\.STREAM\.INFO\.plants$/m
    );
  });
  for (const [what, changes] of [
    ["of an old version", { version: "2.12.3" }],
    ["of a version that is no text", { version: { toString: 1 } }]
  ] as const) {
    test(`that hold the stream, one ${what}: refused`, async () => {
      const { opened } = await begin({
        varzs: [varzOf("n1"), varzOf("n2", changes), varzOf("n3")]
      });
      await refused(opened, "config", /: n2: expected/);
    });
  }
  test("that do not hold the stream need not sync", async () => {
    const { opened } = await begin({ varzs: [...varzs, varzOf("n4", lax)] });
    assert.equal(await stores(await opened), true);
  });
});

test("a census counts a response that is late: one of a leaf node may be far away", async () => {
  const { fake, store, warnings } = await open({}, {});
  const [, inbox] = /^SUB (\S+)\.\* 1\r$/m.exec(fake.said[0] ?? "") ?? [];
  fake.say(respond(`${inbox}.census1`, fails(10060, "", 400)));
  assert.equal(await stores(store), false);
  assert.match(
    warnings.join("\n"),
    /two streams named plants take the subject plants: one may be a/
  );
});

describe("the stream of a connection that is used", () => {
  const gone = {
    error: { code: 404, err_code: 10059, description: "stream not found" }
  };
  for (const [script, pattern] of [
    [{ config: { retention: "interest" } }, /retention: expected/],
    [{ stream: gone }, /stream not found/]
  ] as const) {
    test(`is checked at intervals: with ${JSON.stringify(script)} plants are refused`, async () => {
      const { fake, store, warnings } = await open(
        {},
        { checkMillis: 50, appendMillis: 20_000, unreachableMillis: 60_000 }
      );
      assert.equal(await stores(store), true);
      fake.script = script;
      await until("it is known", () => !store.stats.isReachable);
      assert.match(warnings.join("\n"), pattern);
      for (let turn = 0; turn < 20; turn++) {
        await assert.rejects(store.append(fern), { code: "unreachable" });
        assert.equal(store.stats.isReachable, false);
      }
      fake.script = {};
      await resumes(store);
    });
  }
  test("is checked at once, on a new connection, after an acknowledgement whose number was passed before", async () => {
    let seq = 10;
    const { fake, store, warnings } = await open(
      { onPlant: () => ack(seq) },
      { checkMillis: 3_600_000 }
    );
    for (; seq < 12; seq++) assert.equal(await stores(store), true);
    assert.equal(
      fake.connections,
      1,
      "the control: a higher number is no reason"
    );
    seq = 3;
    assert.equal(await stores(store), true);
    for (seq = 4; seq < 100; seq++) assert.equal(await stores(store), true);
    assert.equal(fake.connections, 2, "one check for one reason");
    assert.match(warnings.join("\n"), /a number that was passed before/);
    fake.script = { config: { storage: "memory" }, onPlant: () => ack(1) };
    await stores(store);
    await until("it is known", () => !store.stats.isReachable);
  });
  test("is the same one when acknowledgements of messages in flight arrive in another order", async () => {
    const replies: string[] = [];
    const { fake, store, warnings } = await open(
      {
        onPlant: ({ reply }) => {
          if (replies.push(reply) < 3) return undefined;
          const messages = replies.map((to, index) =>
            respond(to, ack(index + 1))
          );
          return { raw: messages.reverse().join("") };
        }
      },
      { checkMillis: 3_600_000 }
    );
    const before = warnings.length;
    const plants = [fern, fern, fern].map((plant) => store.append(plant));
    assert.deepEqual(
      (await Promise.all(plants)).map(({ seq }) => seq),
      [1, 2, 3]
    );
    fake.script = { onPlant: () => ack(4) };
    assert.equal(await stores(store), true);
    assert.equal(fake.connections, 1);
    assert.deepEqual(warnings.slice(before), []);

    fake.script = { onPlant: () => ack(2) };
    assert.equal(await stores(store), true);
    await until(
      "the control: a number from before closes",
      () => fake.connections > 1
    );
  });
  test("is checked once when it becomes another while many messages are in flight", async () => {
    let seq = 1_000;
    const { fake, store, warnings } = await open(
      { onPlant: () => ack(seq++) },
      { checkMillis: 3_600_000 }
    );
    assert.equal(await stores(store), true);
    seq = 1;
    const plants = Array.from({ length: 100 }, () => stores(store));
    assert.ok((await Promise.all(plants)).every(Boolean));
    assert.equal(await stores(store), true);
    assert.equal(fake.connections, 2);
    assert.equal(warnings.join("\n").match(/passed before/g)?.length, 1);
  });
  test("without a leader is waited for, as one that is not wrong", async () => {
    const { fake, store } = await open(
      {},
      { checkMillis: seconds(0.5), noProgressMillis: 1_000 }
    );
    assert.equal(await stores(store), true);
    const away = [10008, 10118, 10194].map((code) => ({
      error: { err_code: code, description: "stream is offline" }
    }));
    for (const stream of [...away, {}, "nobody"] as const) {
      const asked = fake.said[0]?.length ?? 0;
      fake.script = { stream };
      await until(
        "it is asked",
        () => fake.said[0]?.slice(asked).includes("STREAM.INFO") ?? false
      );
      assert.equal(store.stats.isReachable, true);
      fake.script = {};
      assert.equal(await stores(store), true);
    }
    assert.equal(fake.connections, 1);
  });
});

describe("hosts", () => {
  test("are tried in a random order", async (t) => {
    t.mock.method(Math, "random", random);
    const fakes = [await Fake.start(), await Fake.start(), await Fake.start()];
    for (let turn = 0; turn < 40; turn++) await (await openFake(fakes)).close();
    assert.ok(fakes.every(({ connections }) => connections > 0));
  });
  test("that were used last are tried last", async (t) => {
    t.mock.method(Math, "random", random);
    const fakes = [await Fake.start(), await Fake.start()] as const;
    await openFake(fakes);
    const counts = () => fakes.map(({ connections }) => connections);
    let used = -1;
    for (let turn = 0; turn < 20; turn++) {
      const before = counts();
      fakes.forEach((fake) => fake.cut());
      await until("one is used", () => counts().join() !== before.join());
      const next = counts().findIndex(
        (count, index) => count !== before[index]
      );
      assert.notEqual(next, used, "it is the other one");
      used = next;
    }
  });
  test("that cannot be resolved are reported, and the next host is tried", async () => {
    const good = await Fake.start();
    const warnings: string[] = [];
    const store = await openNats(
      `nats://no-such-host.invalid:1,${good.host}/plants`,
      { limits: patient, warn: (line) => warnings.push(line) }
    );
    after(() => store.close());
    assert.equal(await stores(store), true);
    assert.match(
      warnings.join("\n"),
      /^no-such-host\.invalid:1: .*no-such-host\.invalid/m
    );
  });
});
