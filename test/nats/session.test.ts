/** The session with servers: credentials, checks and hosts, on servers that send what a test wants. */
import assert from "node:assert/strict";
import dns from "node:dns/promises";
import { once } from "node:events";
import { createServer } from "node:http";
import { syncBuiltinESMExports } from "node:module";
import type { AddressInfo } from "node:net";
import { after, describe, mock, test } from "node:test";
import { natsLimits } from "../../src/nats/limits.ts";
import { openNats, type NatsLimits } from "../../src/nats/nats.ts";
import { fern } from "../support/journals.ts";
import {
  ack,
  Fake,
  open as openScript,
  openFake,
  patient,
  refused,
  startMonitors,
  varzOf,
  type Script,
  type Varz
} from "./fake.ts";
import { until } from "../support/until.ts";

// Hosts are tried in the order of the address.
const { random } = Math;
mock.method(Math, "random", () => 0.5);

const open = (
  script: Script = {},
  limits: Partial<NatsLimits> = { checkMillis: 50 }
) => openScript(script, limits);

describe("a server of version", () => {
  for (const [version, isNew] of [
    ["2.13.9", false],
    ["2.12.15", false],
    ["2.10.27", false],
    ["1.99.0", false],
    ["2", false],
    ["", false],
    ["2.14.0", true],
    ["3.0.0", true]
  ] as const) {
    test(`${JSON.stringify(version)} is ${isNew ? "accepted" : "refused"}`, async () => {
      const fake = await Fake.start({ info: { version } });
      if (isNew) await (await openFake([fake])).append(fern);
      else
        await refused(openFake([fake]), "refused", /version 2\.14 or later$/);
    });
  }
});

/** Whether a plant is stored; false where it was refused as not stored. */
const stores = (store: {
  append(plant: typeof fern): Promise<unknown>;
}): Promise<boolean> =>
  store.append(fern).then(
    () => true,
    () => false
  );

describe("the monitors", () => {
  /** A fake server with a monitor, which holds the stream with others, and leads it. */
  async function begin(
    cluster: object,
    others: (Varz | undefined)[] = [],
    limits: Partial<NatsLimits> = patient
  ) {
    const fake = await Fake.start({ cluster: { leader: "n1", ...cluster } });
    const monitors = await startMonitors(
      varzOf("n1", fake.serverId),
      ...others
    );
    const warnings: string[] = [];
    const hosts = [
      fake.host,
      ...others.map((_, index) => `127.0.0.${index + 2}:1`)
    ];
    const opened = openNats(
      `nats://${hosts.join()}/plants?monitor=${monitors.port}`,
      { limits, warn: (line) => warnings.push(line) }
    );
    opened.then(
      (store) => after(() => store.close()),
      () => undefined
    );
    return { fake, monitors, opened, warnings };
  }
  const replica = (name: string, changes = {}) => ({
    name,
    current: true,
    active: 1e8,
    ...changes
  });
  const up = { replicas: [replica("n2")] };

  test("of all servers that hold the stream verify it: plants are stored, nothing is reported", async () => {
    const { opened, warnings } = await begin(up, [varzOf("n2", "ID2")]);
    assert.equal(await stores(await opened), true);
    assert.deepEqual(warnings, []);
  });
  test("that redirect are not followed, and verify nothing, nor does one with another server's id", async () => {
    const { fake, monitors, opened, warnings } = await begin({}, [], {
      ...patient,
      noProgressMillis: 800
    });
    const [right] = monitors.varzs;
    const target = await startMonitors(right);
    monitors.varzs[0] = { redirect: `http://127.0.0.1:${target.port}/varz` };
    const store = await opened;
    assert.equal(await stores(store), false);
    assert.match(
      warnings.join("\n"),
      /not verified: that .* syncs every write/
    );
    assert.deepEqual(target.asked, [[]]);
    monitors.varzs[0] = varzOf("n1", "another");
    const { length } = monitors.asked[0] ?? [];
    await until(
      "it is asked again",
      () => (monitors.asked[0]?.length ?? 0) > length + 1
    );
    assert.equal(await stores(store), false);
    assert.deepEqual(fake.plants, []);
    monitors.varzs[0] = right;
    await until("it is verified", () => stores(store));
  });
  test("whose response does not end verifies nothing, and is not read on", async () => {
    const fake = await Fake.start();
    /** Of the longest response: on a busy machine it is asked several times. */
    let most = 0;
    const server = createServer((_, response) => {
      let sent = 0;
      const write = () => {
        do sent += 65_536;
        while (response.write(" ".repeat(65_536)));
        most = Math.max(most, sent);
      };
      response.on("drain", write);
      write();
    });
    await once(server.listen(0, "127.0.0.1"), "listening");
    after(() => server.close().closeAllConnections());
    const { port } = server.address() as AddressInfo;
    const store = await openFake(
      [fake],
      { limits: { noProgressMillis: 200, handshakeMillis: 2_000 } },
      `?monitor=${port}`
    );
    assert.equal(await stores(store), false);
    assert.ok(most > 0 && most < 32e6, `${most} bytes are sent`);
  });
  for (const cluster of [
    { replicas: [replica("n2"), replica("n3")] },
    { leader: "n3", replicas: [replica("n1")] }
  ]) {
    test(`must include each server that holds the stream and is up: ${JSON.stringify(cluster)}`, async () => {
      const { fake, opened, warnings } = await begin(
        cluster,
        [varzOf("n2", "ID2")],
        { ...patient, noProgressMillis: 800 }
      );
      assert.equal(await stores(await opened), false);
      assert.match(
        warnings.join("\n"),
        /not verified: that n3 syncs every write: no listed host has its monitor at the given port; plants are refused/
      );
      assert.deepEqual(fake.plants, []);
    });
  }
  for (const changes of [{ current: false }, { active: 10e9 }]) {
    test(`of a server that is down (${JSON.stringify(changes)}) are asked once it is back, before the next check`, async () => {
      const { fake, monitors, opened, warnings } = await begin(
        { replicas: [replica("n2", changes)] },
        [undefined]
      );
      const store = await opened;
      assert.equal(
        await stores(store),
        true,
        "one that is down does not stop the others"
      );
      assert.match(
        warnings.join("\n"),
        /^n2 is down: not verified .*asked when it is back$/
      );
      const asked = monitors.asked[1]?.length ?? 0;
      await until(
        "it is asked again",
        () => (monitors.asked[1]?.length ?? 0) > asked + 1
      );
      assert.equal(
        warnings.length,
        1,
        `one warning for all checks: ${warnings.join("\n")}`
      );
      fake.script = { cluster: { leader: "n2", replicas: [replica("n1")] } };
      monitors.varzs[1] = varzOf("n2", "ID2", { jetstream: { config: {} } });
      await until("it is refused", () => !store.stats.isReachable);
      assert.match(
        warnings.join("\n"),
        /127\.0\.0\.2:\d+\/varz: expected sync_interval: always/
      );
      monitors.varzs[1] = varzOf("n2", "ID2");
      await until("it is verified", () => stores(store));
    });
  }
  test("of a server that is going down does not stop the others", async () => {
    const { fake, monitors, opened, warnings } = await begin(
      up,
      [varzOf("n2", "ID2")],
      { ...patient, checkMillis: 50 }
    );
    const store = await opened;
    monitors.varzs[1] = undefined;
    const asked = monitors.asked[1]?.length ?? 0;
    await until(
      "it is asked in vain",
      () => (monitors.asked[1]?.length ?? 0) > asked + 1
    );
    fake.script = {
      cluster: { leader: "n1", replicas: [replica("n2", { current: false })] }
    };
    await until("it is reported", () =>
      warnings.some((line) => line.startsWith("n2 is down"))
    );
    assert.equal(await stores(store), true);
    assert.equal(fake.connections, 1, "the connection was kept");
  });
  test("of a server that was verified need not respond while the stream's leader calls it current: one warning names it", async () => {
    const { fake, monitors, opened, warnings } = await begin(
      up,
      [varzOf("n2", "ID2")],
      { ...patient, checkMillis: 50, noProgressMillis: 200 }
    );
    const store = await opened;
    assert.equal(await stores(store), true);
    monitors.varzs.fill(undefined);
    const asked = monitors.asked[1]?.length ?? 0;
    await until(
      "each is asked in vain",
      () => (monitors.asked[1]?.length ?? 0) > asked + 10
    );
    assert.equal(await stores(store), true);
    assert.equal(fake.connections, 1, "the connection was kept");
    assert.deepEqual(
      warnings.map((line) => line.split(":")[0]),
      [fake.serverId, "n1", "n2"].map(
        (name) => `${name} does not respond at its monitor's port`
      )
    );
    fake.cut();
    await until("it is back", () => fake.connections === 2);
    assert.equal(await stores(store), true, "on another connection, too");
  });
  test("of a server that was verified must respond again after an hour", async () => {
    assert.equal(natsLimits.verifiedMillis, 3_600_000);
    const { monitors, opened, warnings } = await begin(
      up,
      [varzOf("n2", "ID2")],
      {
        ...patient,
        checkMillis: 50,
        noProgressMillis: 200,
        verifiedMillis: 1_000
      }
    );
    const store = await opened;
    monitors.varzs[1] = undefined;
    await until("it is refused", () =>
      warnings.some((line) =>
        line.includes("not verified: that n2 syncs every write")
      )
    );
    assert.match(warnings.join("\n"), /^n2 does not respond/m);
    monitors.varzs[1] = varzOf("n2", "ID2");
    await until("it is verified", () => stores(store));
  });
  test("of a server that was not current meanwhile must respond again: it may have been restarted", async () => {
    const { fake, monitors, opened, warnings } = await begin(
      up,
      [varzOf("n2", "ID2")],
      { ...patient, checkMillis: 50, noProgressMillis: 200 }
    );
    const store = await opened;
    const { script } = fake;
    monitors.varzs[1] = undefined;
    fake.script = {
      cluster: { leader: "n1", replicas: [replica("n2", { current: false })] }
    };
    await until("it is down", () =>
      warnings.some((line) => line.startsWith("n2 is down"))
    );
    assert.equal(await stores(store), true);
    fake.script = script;
    await until("it is refused", () =>
      warnings.some((line) =>
        line.includes("not verified: that n2 syncs every write")
      )
    );
  });
  test("are not asked about a leader that there is not: the message says so", async () => {
    const { opened, warnings } = await begin({ leader: undefined }, [], {
      ...patient,
      noProgressMillis: 200
    });
    assert.equal(await stores(await opened), false);
    assert.match(warnings.join("\n"), /: nobody leads the stream now/);
    assert.doesNotMatch(warnings.join("\n"), /undefined/);
  });
  for (const [what, changes] of [
    ["that does not sync", { jetstream: { config: { sync_interval: 120e9 } } }],
    ["of an old version", { version: "2.12.3" }],
    [
      "of a version that is no text",
      JSON.parse('{"version":{"toString":1}}') as Varz
    ]
  ] as const) {
    test(`of any listed server ${what}: refused`, async () => {
      const { opened } = await begin(up, [varzOf("n2", "ID2", changes)]);
      await refused(opened, "config", /127\.0\.0\.2:\d+\/varz: expected/);
    });
  }
  test("are asked again on each connection", async () => {
    const { fake, monitors, opened } = await begin({});
    const store = await opened;
    assert.equal(await stores(store), true);
    const [right] = monitors.varzs;
    monitors.varzs[0] = { ...right, jetstream: { config: {} } };
    fake.cut();
    await until("it is known", () => !store.stats.isReachable);
    assert.equal(await stores(store), false);
    monitors.varzs[0] = right;
    await until("it stores", () => stores(store));
  });
});

describe("the stream of a connection that is used", () => {
  const gone = {
    error: { code: 404, err_code: 10059, description: "stream not found" }
  };
  for (const [script, pattern] of [
    [{ config: { retention: "interest" } }, /retention: expected/],
    [{ config: { storage: "memory" } }, /storage: expected/],
    [{ config: { num_replicas: 1 } }, /num_replicas: expected/],
    [{ stream: gone }, /stream not found/],
    [
      { config: { allow_rollup_hdrs: true } },
      /allow_rollup_hdrs: expected none, found true/
    ],
    [{ config: { sealed: true } }, /sealed: expected/],
    [
      { config: { allow_msg_counter: true } },
      /allow_msg_counter: expected none/
    ]
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
      await until("it is right again", () => stores(store));
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
          const messages = replies.map((to, index) => {
            const text = ack(index + 1);
            return `MSG ${to} 1 ${text.length}\r\n${text}\r\n`;
          });
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
      { checkMillis: 50, noProgressMillis: 2_000 }
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

describe("a name with several addresses", () => {
  test("leads to each of them in turn", async (t) => {
    const stuck = await Fake.start({ onPlant: () => undefined });
    const good = await Fake.start({}, "127.0.0.2", stuck.port);
    const lookup = t.mock.method(dns, "lookup", (name: string) =>
      Promise.resolve(
        name === "cluster.test"
          ? [{ address: "127.0.0.1" }, { address: "127.0.0.2" }]
          : []
      )
    );
    syncBuiltinESMExports();
    t.after(() => {
      lookup.mock.restore();
      syncBuiltinESMExports();
    });
    const warnings: string[] = [];
    const store = await openNats(`nats://cluster.test:${stuck.port}/plants`, {
      limits: { ...patient, noProgressMillis: 1_000 },
      warn: (line) => warnings.push(line)
    });
    t.after(() => store.close());
    assert.equal(await stores(store), true);
    assert.ok(stuck.plants.length > 0, "the fault fired");
    assert.equal(good.plants.length, 1);
    assert.match(
      warnings.join("\n"),
      /^cluster\.test:\d+ \(127\.0\.0\.1\): it acknowledges nothing$/m
    );
  });
  test("and others are tried in a random order", async (t) => {
    t.mock.method(Math, "random", random);
    const fakes = [await Fake.start(), await Fake.start(), await Fake.start()];
    for (let turn = 0; turn < 40; turn++) await (await openFake(fakes)).close();
    assert.ok(fakes.every(({ connections }) => connections > 0));
  });
  test("that cannot be resolved is reported, and the next host is tried", async () => {
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
