/** The store on a real cluster: what it keeps, what it refuses to start with, what stops it. */
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { describe, test } from "node:test";
import { answerTo, exchange } from "../support/exchange.ts";
import { post } from "../support/support.ts";
import {
  Cluster,
  rightStream,
  withCluster,
  type OpenOptions
} from "./cluster.ts";
import { append, refused, resumes, stores } from "./fake.ts";
import { serve } from "./load.ts";
import { proxied, publishedTo } from "./proxy.ts";
import { seconds, until } from "../support/until.ts";

const timeout = seconds(120);

const cluster = await Cluster.start();

describe("on a cluster of three", { ...withCluster, timeout }, () => {
  /** Returns the message with which a store is refused, and the JSON in it. */
  async function refusalOf(
    stream: string,
    pattern: RegExp,
    options: OpenOptions = {}
  ) {
    let message = "";
    const opened = cluster.open(stream, options);
    opened.catch((error: Error) => ({ message } = error));
    await refused(opened, "config", pattern);
    return JSON.parse(message.slice(message.indexOf("\n{") + 1));
  }

  test("a missing stream is refused with the JSON that makes a right one", async () => {
    await cluster.create(
      "plants",
      await refusalOf("plants", /stream not found/)
    );
    const store = await cluster.open("plants");
    const plants = [
      { id: 9223372036854775807n, name: "Fern" },
      { id: -9223372036854775808n, name: "" },
      { id: 9007199254740993n, name: 'F\u0000\u001f"\\ ä€😀\u2028', tag: "" },
      { id: 0n, name: "x".repeat(900_000), tag: "\r\n" }
    ];
    for (const plant of plants) await store.append(plant);
    const found = await cluster.read("plants");
    const texts = found.map(
      (text) =>
        /^\{"at":"[^"]{24}","plant":(.*),"crc":"[\da-f]{8}"\}$/s.exec(text)?.[1]
    );
    assert.deepEqual(
      texts,
      plants.map(
        ({ id, name, tag }) =>
          `{"id":${id},"name":` +
          `${JSON.stringify(name)}${tag === undefined ? "" : `,"tag":${JSON.stringify(tag)}`}}`
      )
    );
    await store.close();
  });

  // What the server itself makes of each of these settings is what the check sees.
  const wrong: readonly (readonly [
    Readonly<Record<string, unknown>>,
    RegExp
  ])[] = [
    [{ storage: "memory" }, /storage: expected "file"/],
    [{ num_replicas: 1 }, /num_replicas: expected 3, found 1/],
    [{ retention: "workqueue" }, /retention: expected "limits"/],
    [{ max_age: 3_600_000_000_000 }, /max_age: expected none/],
    [{ max_msgs_per_subject: 5 }, /max_msgs_per_subject: expected -1/],
    [{ discard: "old", max_bytes: 1_000_000 }, /discard: expected "new"/],
    [{ persist_mode: "async", num_replicas: 1 }, /persist_mode: expected none/],
    [
      { duplicate_window: 10_000_000_000 },
      /duplicate_window: expected 120000000000/
    ],
    [{ subjects: ["wrong", "more.*"] }, /subjects: expected \["wrong"\]/],
    [{ no_ack: true }, /no_ack: expected none/],
    [
      { allow_rollup_hdrs: true, deny_purge: false },
      /allow_rollup_hdrs: expected none/
    ],
    [
      { allow_msg_counter: true, discard: "old" },
      /allow_msg_counter: expected none/
    ]
  ];
  for (const [changes, pattern] of wrong) {
    test(`a stream with ${JSON.stringify(changes)} is refused`, async () => {
      await cluster.create("wrong", changes);
      const right = await refusalOf("wrong", pattern, { user: "admin" });
      await cluster.admin("STREAM.DELETE.wrong");
      await cluster.create("wrong", right);
      await (await cluster.open("wrong", { user: "admin" })).close();
      await cluster.admin("STREAM.DELETE.wrong");
    });
  }

  for (const [what, options, code, pattern] of [
    [
      "a wrong password",
      { credentials: "user writer\npassword wrong-pw" },
      "refused",
      /Authorization Violation'$/
    ],
    [
      "a user without credentials",
      { credentials: () => undefined },
      "refused",
      /Authorization Violation'$/
    ],
    [
      "a user that may not ask for the stream",
      { user: "half" },
      "config",
      /Permissions Violation/
    ]
  ] as const) {
    test(`${what} is refused`, () =>
      refused(cluster.open("plants", options), code, pattern));
  }
  test("a server that is down stops nothing, and within two checks of its return without sync_interval, plants are refused", async () => {
    const { proxies, ports } = await proxied(cluster);
    const checks = publishedTo("servers", proxies);
    const warnings: string[] = [];
    const store = await cluster.open("plants", {
      query: "?servers=servers",
      ports,
      warn: (line) => warnings.push(line),
      limits: { checkMillis: 500 }
    });
    assert.ok(await stores(store));
    assert.deepEqual(warnings, []);
    const leader = await cluster.leader("plants");
    const other =
      cluster.servers.find((server) => server !== leader) ?? assert.fail();
    await cluster.kill(other);
    await resumes(store);
    const config = readFileSync(other.config, "utf8");
    writeFileSync(other.config, config.replace("always", "2m"));
    cluster.restart(other);
    await cluster.ready(other);
    const before = checks();
    const lax = RegExp(`: ${other.name}: expected sync_interval: always;`);
    await until("it is refused", () => warnings.some((line) => lax.test(line)));
    assert.ok(checks() <= before + 2, `${checks() - before} checks`);
    assert.equal(await append(store), "unreachable");
    await cluster.kill(other);
    writeFileSync(other.config, config);
    cluster.restart(other);
    await cluster.ready(other);
    await resumes(store);
    await store.close();
  });
  test("a full stream is 503, nothing is evicted, and new room is used", async () => {
    await cluster.create("small", { max_msgs: 10 });
    const store = await cluster.open("small", { user: "admin" });
    const port = await serve(store);
    for (let id = 1; id <= 12; id++) {
      const answer = await answerTo(port, post(`{"id":${id},"name":"Fern"}`));
      assert.equal(answer.status, id <= 10 ? 200 : 503);
      if (id > 10)
        assert.match(answer.body, /no space left; nothing was stored/);
    }
    assert.equal((await cluster.read("small")).length, 10);
    await cluster.admin("STREAM.UPDATE.small", {
      ...rightStream("small"),
      max_msgs: 20
    });
    await until("there is room", async () => {
      const answer = await answerTo(port, post('{"id":13,"name":"Fern"}'));
      return answer.status === 200;
    });
    await store.close();
  });
  test("a plant over max_payload is 413, and the connection stays open", async () => {
    const store = await cluster.open("plants");
    const port = await serve(store);
    const large = `{"id":1,"name":"${"x".repeat(1_048_500)}"}`;
    const [refusal, next] = await exchange(
      port,
      [post(large), post('{"id":2,"name":"Fern"}')],
      { answers: 2 }
    );
    assert.match(
      `${refusal?.status} ${refusal?.body}`,
      /^413 \{"error":41304,/
    );
    assert.equal(next?.status, 200);
    await store.close();
  });
  test("a user that may read but not store plants is refused", async () => {
    await cluster.create("denied");
    const denied = /Permissions Violation for Publish to "denied"/;
    await refused(cluster.open("denied", { user: "half" }), "config", denied);
  });
  test("the check of a user's permissions stores nothing", async () => {
    await cluster.create("asked");
    for (let turn = 0; turn < 3; turn++)
      await (await cluster.open("asked", { user: "admin" })).close();
    assert.deepEqual(await cluster.read("asked"), []);
  });
});

describe("where the servers do not sync", { ...withCluster, timeout }, () => {
  test("the store is refused, by a message that names the setting, if it may ask", async () => {
    const lax = await Cluster.start({ servers: 1, sync: "2m" });
    await lax.create("plants", { num_replicas: 1 });
    const query = "?replicas=1&servers=servers";
    await refused(
      lax.open("plants", { query }),
      "config",
      /sync_interval: always/
    );
    await (await lax.open("plants", { query: "?replicas=1" })).close();
  });
});
