/** Connections: what a store starts with, what it refuses, and which server it uses. */
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { connect } from "node:net";
import { after, describe, mock, test } from "node:test";
import { setImmediate } from "node:timers/promises";
import { createServer as createTlsServer } from "node:tls";
import { openNats } from "../../src/nats/nats.ts";
import { listen } from "../support/serving.ts";
import { temporaryFolder } from "../support/support.ts";
import { certify } from "../support/tools.ts";
import {
  ack,
  append,
  Fake,
  open,
  openFake,
  patient,
  refused,
  resumes
} from "./fake.ts";
import { Proxy } from "./proxy.ts";
import { until } from "../support/until.ts";

// Hosts are tried in the order of the address.
mock.method(Math, "random", () => 0.5);

describe("a connection", { concurrency: 8 }, () => {
  test("that is away for long refuses plants at once, as not stored, until it comes back by itself", async () => {
    const { fake, store, warnings } = await open(
      {},
      { unreachableMillis: 300 }
    );
    assert.equal(await append(store), "stored");
    fake.script = { greeting: "HTTP/1.1 400 Bad Request\r\n\r\n" };
    fake.cut();
    await until("it is noticed", () =>
      warnings.some((line) => /found an unknown operation/.test(line))
    );
    assert.equal(await append(store), "unreachable");
    assert.equal(
      await Promise.race([append(store), setImmediate("it waits")]),
      "unreachable"
    );
    fake.script = {};
    await resumes(store);
    assert.match(warnings.at(-1) ?? "", /^plants are acknowledged again$/);
    await append(store);
    assert.equal(
      warnings.filter((line) => line === "plants are acknowledged again")
        .length,
      1
    );
    const reported = warnings.length;
    fake.script = { greeting: "HTTP/1.1 400 Bad Request\r\n\r\n" };
    fake.cut();
    await until("the same problem is reported again", () =>
      warnings.slice(reported).join().includes("unknown operation")
    );
  });
  test("without acknowledgements is left for the next host, though it responds to PING", async () => {
    const stuck = await Fake.start({ onPlant: () => undefined });
    const good = await Fake.start();
    const store = await openFake([stuck, good], {
      limits: { noProgressMillis: 1_000 }
    });
    assert.equal(await append(store), "stored");
    assert.deepEqual(
      new Set(stuck.plants.map(({ message }) => message)),
      new Set(good.plants.map(({ message }) => message))
    );
  });
  for (const [what, leave] of [
    [
      "that does not respond to PING",
      (fake: Fake) => {
        fake.script = { onPing: "" };
      }
    ],
    [
      "to a server that is about to leave",
      (fake: Fake) =>
        fake.say(
          'INFO {"version":"2.15.1","headers":true,"max_payload":1024,"ldm":true}\r\n'
        )
    ]
  ] as const) {
    test(`${what} is left for the next host`, async () => {
      const bad = await Fake.start();
      const good = await Fake.start();
      const store = await openFake([bad, good], {
        limits: { pingMillis: 100 }
      });
      leave(bad);
      await until("it is on the other", () => good.connections === 1);
      await resumes(store);
      assert.equal(good.plants.length, 1);
    });
  }
  test("responds to the server's PING", async () => {
    const { fake } = await open({});
    fake.say("PING\r\n");
    await until(
      "PONG is said",
      () => fake.said[0]?.includes("PONG\r\n") ?? false
    );
  });
  for (const junk of [
    "MSG x\r\n",
    `INFO {"a":${"[".repeat(20_000)}${"]".repeat(20_000)}}\r\n`,
    "MSG _INBOX.error 1 0\r\n\r\n",
    "-ERR 'Unknown Protocol Operation'\r\n"
  ]) {
    test(`is replaced after junk: ${JSON.stringify(junk.slice(0, 40))}`, async () => {
      const { fake, store } = await open({});
      assert.equal(await append(store), "stored");
      fake.say(junk);
      await resumes(store);
      const isHarmless = junk.startsWith("MSG _INBOX");
      await until("it is another", () => isHarmless || fake.connections === 2);
    });
  }
  test("has an inbox of its own: no other connection or process gets its responses", async () => {
    const { fake, store } = await open({});
    assert.equal(await append(store), "stored");
    fake.cut();
    await until("it is back", () => fake.connections === 2);
    assert.equal(await append(store), "stored");
    const inboxes = fake.said.map(
      (text) => /^SUB (_INBOX\.[\da-f]{27})\.\* 1\r$/m.exec(text)?.[1]
    );
    assert.equal(new Set(inboxes).size, 2);
    assert.ok(!inboxes.includes(undefined));
  });
});

// Linux alone shows what a kernel has yet to send.
const withProc = existsSync("/proc/net/tcp")
  ? {}
  : { skip: "SKIPPED: there is no /proc/net/tcp" };

describe("a connection that is left", withProc, () => {
  /** The bytes that kernels have yet to send to a port, of connections that have ended, too. */
  const unsentTo = (port: number) =>
    readFileSync("/proc/net/tcp", "utf8")
      .split("\n")
      .map((line) => line.trim().split(/[ :]+/))
      .filter((words) => parseInt(words[4] ?? "", 16) === port)
      .reduce((sum, words) => sum + parseInt(words[6] ?? "", 16), 0);

  const { cert, key } = certify(temporaryFolder(), "stalling", {
    names: "IP:127.0.0.1"
  });

  /** A server that begins with TLS, before another one. */
  const startTls = (target: number) =>
    listen(
      createTlsServer(
        { cert: readFileSync(cert), key: readFileSync(key) },
        (client) => {
          const upstream = connect(target, "127.0.0.1");
          client.on("error", () => undefined).pipe(upstream);
          upstream.on("error", () => undefined).pipe(client);
        }
      )
    );

  test("sends nothing more, over TLS, too", async () => {
    const fakes = [
      await Fake.start(),
      await Fake.start({ onPlant: (_, count) => ack(100 + count) })
    ] as const;
    const proxy = await Proxy.before(await startTls(fakes[0].port));
    const store = await openNats(
      `nats://127.0.0.1:${proxy.port},127.0.0.1:${await startTls(fakes[1].port)}/plants?tls-first`,
      { limits: patient, tls: { ca: readFileSync(cert) } }
    );
    after(() => store.close());
    assert.equal(await append(store), "stored");
    proxy.stall();
    const name = "x".repeat(200_000);
    const outcomes = Array.from({ length: 14 }, () => append(store, name));
    await until("bytes wait", () => unsentTo(proxy.port) > 100_000);
    fakes[0].say('INFO {"ldm":true}\r\n');
    assert.deepEqual(new Set(await Promise.all(outcomes)), new Set(["stored"]));
    assert.equal(fakes[1].plants.length, 14, "the connection was left");
    assert.equal(unsentTo(proxy.port), 0);
    assert.ok(
      proxy.clients.some((client) => !client.closed),
      "the proxy has not read on"
    );
  });
  test("the control: a kernel goes on to send for a socket that has ended, unless it is reset", async () => {
    for (const isReset of [false, true]) {
      const proxy = await Proxy.before((await Fake.start()).port);
      const socket = connect(proxy.port, "127.0.0.1");
      await until("it is connected", () => proxy.clients.length === 1);
      proxy.stall();
      socket.write("x".repeat(3_000_000));
      await until("bytes wait", () => unsentTo(proxy.port) > 100_000);
      if (isReset) socket.resetAndDestroy();
      else socket.destroy();
      await until("it has ended", () => socket.closed);
      assert.equal(unsentTo(proxy.port) === 0, isReset);
    }
  });
});

describe("a permission that is lost", () => {
  test("fails all that was sent as unknown, at once, and reports why", async () => {
    const { fake, store, warnings } = await open({
      onPlant: (_, count) =>
        count < 3
          ? undefined
          : {
              raw: "-ERR 'Permissions Violation for Publish to \"plants\"'\r\n"
            }
    });
    const outcomes = await Promise.all([
      append(store),
      append(store),
      append(store)
    ]);
    assert.deepEqual(outcomes, ["unknown", "unknown", "unknown"]);
    assert.match(warnings.at(-1) ?? "", /Permissions Violation for Publish/);
    fake.script = {};
    await resumes(store);
    assert.equal(fake.plants.length, 4, "what was given up is not sent again");
  });
  test("is reported once, and tried again at intervals, however many are sent", async () => {
    const denied = "-ERR 'Permissions Violation for Publish to \"plants\"'\r\n";
    const { fake, store, warnings } = await open(
      { onPlant: () => ({ raw: denied }) },
      { noProgressMillis: 60_000, reconnectMillisMax: 1_000 }
    );
    const begunAt = performance.now();
    await until("it has tried again", async () => {
      await append(store);
      return fake.connections === 5;
    });
    assert.ok(
      performance.now() - begunAt > 75,
      "10, 20, 40 and 80 ms, half of each by chance"
    );
    assert.equal(
      warnings.filter((line) => /Permissions Violation/.test(line)).length,
      1
    );
    assert.ok(!warnings.includes("plants are acknowledged again"));
    fake.script = {};
    await resumes(store);
    assert.equal(warnings.at(-1), "plants are acknowledged again");
  });
});

describe("a problem of which each connection has another text", () => {
  test("is reported once: an inbox that may not be subscribed to has a random name", async () => {
    const { fake, warnings } = await open();
    const subjects = new Set<string | undefined>();
    fake.script = {
      onConnect: (said) => {
        const [, subject] = /^SUB (\S+) /m.exec(said) ?? [];
        subjects.add(subject);
        return `-ERR 'Permissions Violation for Subscription to "${subject}"'\r\n`;
      }
    };
    fake.cut();
    await until("it has tried again", () => subjects.size > 5);
    assert.deepEqual(
      warnings.filter((line) => line.includes("Subscription")),
      [`${fake.host}: 'Permissions Violation for Subscription to "_INBOX.*"'`]
    );
  });
  test("is not reported or remembered without end", async () => {
    const { fake, warnings } = await open({}, { problemsMax: 3 });
    const reported = warnings.length;
    fake.script = {
      onConnect: () => `-ERR 'odd ${Math.floor(performance.now() * 1e6)}'\r\n`
    };
    fake.cut();
    await until("it has tried again", () => fake.connections > 10);
    assert.equal(warnings.length, reported + 3);
  });
});

describe("a stream without a leader", () => {
  test("that is offline is reported as such, and waited for", async () => {
    const error = { err_code: 10194, description: "it needs a later version" };
    const { fake, store, warnings } = await open(
      { stream: { error } },
      { noProgressMillis: 100 }
    );
    assert.equal(await append(store), "unreachable");
    assert.match(
      warnings.at(-1) ?? "",
      /the stream is away: it needs a later version/
    );
    fake.script = {};
    await resumes(store);
  });
  test("is waited for as well while the next host is connected to", async () => {
    const { fake, store } = await open(
      {},
      { unreachableMillis: 100, noProgressMillis: 100, reconnectMillisMin: 100 }
    );
    assert.equal(await append(store), "stored");
    fake.script = { stream: "nobody" };
    fake.cut();
    await until(
      "the next one is asked for the stream",
      () => fake.said[1]?.includes("STREAM.INFO") ?? false
    );
    let isReachable = true;
    await until("others are tried", () => {
      isReachable &&= store.stats.isReachable;
      return fake.connections === 4;
    });
    assert.ok(isReachable);
    fake.script = {};
    assert.equal(await append(store), "stored");
  });
  test("is waited for as long as an election may take, and then refuses at once", async () => {
    const { fake, store } = await open(
      {},
      { appendMillis: 1_500, noProgressMillis: 400 }
    );
    assert.equal(await append(store), "stored");
    fake.script = {
      stream: {
        error: { code: 503, err_code: 10008, description: "no leader" }
      }
    };
    fake.cut();
    await until("it is tried again", () => fake.connections === 2);
    assert.equal(await append(store), "unreachable");
    let waitedFor = 0;
    await until("three checks were not waited for", () => {
      if (store.stats.isReachable) waitedFor = fake.connections;
      return fake.connections > waitedFor + 3;
    });
    assert.equal(await append(store), "unreachable");
    fake.script = {};
    await resumes(store);
  });
});

describe("at start", { concurrency: 8 }, () => {
  test("a server without headers is refused", async () => {
    const fake = await Fake.start({ info: { headers: false } });
    await refused(openFake([fake]), "refused", /headers/);
  });
  // cluster.test.ts has what a real server makes of wrong ones.
  for (const [config, pattern, limits = {}] of [
    [{ num_replicas: 5 }, undefined],
    [{ discard: "old" }, undefined],
    [{ persist_mode: "default" }, undefined],
    [
      { duplicate_window: 4 * patient.appendMillis * 1e6 - 1 },
      /duplicate_window: expected 240000000000, found 239999/
    ],
    [{ duplicate_window: 4 * patient.appendMillis * 1e6 }, undefined],
    [
      { duplicate_window: 120e9 - 1 },
      /duplicate_window: expected 120000000000, found 119999/,
      { appendMillis: 1_000 }
    ],
    [{ duplicate_window: 120e9 }, undefined, { appendMillis: 1_000 }]
  ] as const) {
    const outcome = pattern ? "refused" : "taken";
    test(`a stream with ${JSON.stringify(config)} is ${outcome} with ${JSON.stringify(limits)}`, async () => {
      const fake = await Fake.start({ config });
      const opened = openFake([fake], { limits });
      if (!pattern) return assert.equal(await append(await opened), "stored");
      await refused(opened, "config", pattern);
      assert.deepEqual(fake.plants, []);
    });
  }
  test("no host is there: plants are refused, until one is there and has passed the check", async () => {
    const { fake, store } = await open(
      { greeting: "" },
      { handshakeMillis: 400 }
    );
    assert.equal(await append(store), "unreachable");
    fake.script = { config: { storage: "memory" } };
    await until(
      "the stream was looked at",
      () => fake.said.at(-1)?.includes("STREAM.INFO") ?? false
    );
    assert.equal(await append(store), "unreachable");
    assert.deepEqual(fake.plants, []);
    fake.script = {};
    await resumes(store);
  });
  test("one host refuses the credentials and another is not there: it goes on trying", async () => {
    const bad = await Fake.start({
      onConnect: "-ERR 'Authorization Violation'\r\n"
    });
    const absent = await Fake.start({ greeting: "" });
    const store = await openFake([bad, absent], {
      limits: { handshakeMillis: 400 }
    });
    assert.equal(await append(store), "unreachable");
    bad.script = {};
    await resumes(store);
  });
  for (const [what, script] of [
    ["closes at once", { greeting: "", hangsUp: true }],
    [
      "is full",
      { greeting: "-ERR 'maximum connections exceeded'\r\n", hangsUp: true }
    ],
    [
      "was too slow to ask for credentials",
      { onConnect: "-ERR 'Authentication Timeout'\r\n" }
    ]
  ] as const) {
    test(`a host that ${what} is tried again: that is no mistake in the settings`, async () => {
      const { fake, store } = await open(script, { handshakeMillis: 400 });
      assert.equal(await append(store), "unreachable");
      fake.script = {};
      await resumes(store);
    });
  }
  test("tls:// is not served by a server without TLS: nothing is said in the clear", async () => {
    const fake = await Fake.start();
    await refused(
      openNats(`tls://${fake.host}/plants`, {
        credentials: "user writer\npassword s3cret"
      }),
      "refused",
      /expected a server with TLS/
    );
    assert.deepEqual(fake.said, [""]);
  });
  test("what cannot be verified is reported once", async () => {
    const { warnings } = await open({});
    assert.equal(warnings.length, 1);
    assert.match(warnings[0] ?? "", /^not verified: .*servers=SUBJECT/);
  });
});
