/** A plant with a key: what the stream stores once, and what a client's retry becomes; retries.long.ts
 * has clients that retry while leaders are killed. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { NatsStore } from "../../src/nats/nats.ts";
import type { NewPlant } from "../../src/plant.ts";
import { fern } from "../support/journals.ts";
import { Cluster, withCluster } from "./cluster.ts";
import {
  ack,
  Fake,
  fails,
  found,
  open as openScript,
  openFake,
  outcomeOf,
  respond,
  storing,
  type Published,
  type Script
} from "./fake.ts";
import { seconds, until } from "../support/until.ts";

const timeout = seconds(120);
const moss = { id: 1n, name: "Moss" };
const duplicate = ',"duplicate":true';
let keys = 0;
const newKey = (): string => String(++keys).padStart(21, "-") + "A";

const once = (
  store: NatsStore,
  plant: NewPlant,
  key: string
): Promise<string> =>
  outcomeOf((store.appendOnce ?? assert.fail("no keys"))(plant, key));

const open = (onPlant: NonNullable<Script["onPlant"]>) =>
  openScript({ onPlant });

const isRead = ({ subject }: { readonly subject: string }): boolean =>
  subject.includes("MSG.GET");
const cluster = await Cluster.start();

describe("a plant with a key", { timeout }, () => {
  test("is published with the key as its id, and with the key in the record", async () => {
    const { fake, store } = await open(() => ack(1));
    const key = newKey();
    assert.equal(await once(store, fern, key), "stored");
    const [{ headers, payload } = assert.fail("nothing")] = fake.plants;
    assert.match(
      headers,
      new RegExp(
        `^NATS/1\\.0\r\nNats-Msg-Id: ${key}\r\nNats-Expected-Stream: plants\r\n` +
          "Plant-Message-Id: [\\da-f]{27}\\.1\\.[\\da-f]{8}\\r\\n\\r\\n$"
      )
    );
    assert.match(
      payload,
      new RegExp(
        `^\\{"at":"[^"]{24}","key":"${key}","plant":\\{"id":1,"name":"Fern"\\},"crc":"[\\da-f]{8}"\\}$`
      )
    );
  });

  const key = newKey();
  const messageOf = (plant: string, ofKey: string): string =>
    `{"at":"2026-11-21T10:47:01.578Z","key":"${ofKey}","plant":${plant},"crc":"00000000"}`;
  for (const [what, kind, outcome] of [
    ["the same plant", "same", "replayed"],
    ["another plant", "other", "conflict"],
    ["a message of another key", "key", "unknown"],
    [
      "a message that is not a record",
      messageOf('{"id":1,"name":"Fern"}', key),
      "unknown"
    ],
    ["no message", undefined, "unknown"]
  ] as const) {
    test(`is ${outcome} if its duplicate is ${what}`, async () => {
      const earlier = await open(() => ack(1));
      await once(
        earlier.store,
        kind === "other" ? moss : fern,
        kind === "key" ? newKey() : key
      );
      const text = ["same", "other", "key"].includes(String(kind))
        ? earlier.fake.plants[0]?.payload
        : kind;
      const { fake, store } = await open((published) => {
        if (!isRead(published)) return ack(7, duplicate);
        return text === undefined
          ? fails(10037, "no message found", 404)
          : found(7, text);
      });
      assert.equal(await once(store, fern, key), outcome);
      assert.deepEqual(fake.plants.map(isRead), [false, true]);
      assert.equal(fake.plants[1]?.payload, '{"seq":7}');
    });
  }
  test("that the store itself sent twice is stored, not replayed", async () => {
    let stored = "";
    const { fake, store } = await open((published, count, server) => {
      if (isRead(published)) return stored;
      stored = found(1, published.payload, published.headers);
      if (count > 1) return ack(1, duplicate);
      server.cut();
      return undefined;
    });
    assert.equal(await once(store, fern, newKey()), "stored");
    assert.equal(fake.plants.length, 3);
  });
  test("that two processes send in one millisecond, while acknowledgements are lost: one stores it, the other replays", async (t) => {
    const { toISOString } = Date.prototype;
    t.mock.method(Date.prototype, "toISOString", () =>
      toISOString.call(new Date(0))
    );
    const kept: Published[] = [];
    const onPlant = storing(kept);
    const fake = await Fake.start({
      onPlant: (published) => void onPlant(published)
    });
    const stores = [await openFake([fake]), await openFake([fake])];
    const key = newKey();
    const outcomes = stores.map((store) => once(store, fern, key));
    await until("both are sent", () => fake.plants.length === 2);
    fake.script = { onPlant };
    fake.cut();
    assert.equal(
      (await Promise.all(outcomes)).toSorted().join(),
      "replayed,stored"
    );
    assert.equal(kept.length, 1);
  });
  test("waits while another process's message with the key is in process, and asks again", async () => {
    let payload = "";
    const { fake, store } = await open((published, count) => {
      if (isRead(published)) return found(1, payload);
      payload = published.payload.replace(
        /"at":"[^"]*"/,
        '"at":"2026-11-21T10:47:01.578Z"'
      );
      if (count === 1)
        return fails(10158, "duplicate message id is in process", 409);
      return count === 2 ? ack(0, duplicate) : ack(1);
    });
    assert.equal(await once(store, fern, newKey()), "stored");
    assert.equal(fake.plants.length, 3);
  });
  test("is unknown if another process's message with the key is in process until the deadline: that may be stored", async () => {
    const { store } = await openScript(
      { onPlant: () => fails(10158) },
      { appendMillis: 1_000 }
    );
    assert.equal(await once(store, fern, newKey()), "unknown");
  });
  test("a replay and a request that shares an outcome have room while the queue is full, up to twice the limit", async () => {
    const waiting: string[] = [];
    let payload = "";
    const { fake, store } = await openScript(
      {
        onPlant: (published) => {
          if (isRead(published)) return found(1, payload);
          if (published.headers.includes(sharedKey))
            return void waiting.push(published.reply);
          if (!published.headers.includes(replayedKey)) return undefined;
          ({ payload } = published);
          return ack(1, duplicate);
        }
      },
      { inFlightRecordsMax: 2 }
    );
    const sharedKey = newKey();
    const replayedKey = newKey();
    const plants = [store.append(fern), store.append(fern)];
    assert.equal(await outcomeOf(store.append(fern)), "busy");
    assert.equal(await once(store, fern, replayedKey), "replayed");

    const shared = [once(store, fern, sharedKey), once(store, fern, sharedKey)];
    await until("it is sent", () => waiting.length === 1);
    const last = once(store, fern, newKey());
    assert.equal(await once(store, fern, sharedKey), "unknown");
    assert.equal(store.stats.queue.records, 4);
    assert.equal(
      await once(store, fern, newKey()),
      "busy",
      "the room for replays is bounded, too"
    );
    fake.say(respond(waiting[0], ack(2)));
    assert.deepEqual(await Promise.all(shared), ["stored", "replayed"]);
    assert.equal(store.stats.queue.records, 3);

    await until("the last is sent", () => fake.plants.length === 6);
    for (const [index, sent] of [0, 1, 5].entries())
      fake.say(respond(fake.plants[sent]?.reply, ack(index + 3)));
    assert.deepEqual(await Promise.all([...plants, last]), [
      { seq: 3 },
      { seq: 4 },
      "stored"
    ]);
    assert.deepEqual(store.stats.queue, { records: 0, bytes: 0 });
  });
});

describe(
  "a plant with a key, on a cluster",
  { ...withCluster, timeout },
  () => {
    test("two processes race: one stores it and the other replays it, or has a conflict", async () => {
      await cluster.create("keys");
      const stores = await Promise.all(
        [1, 2].map(() => cluster.open("keys", { user: "admin" }))
      );
      const [one = assert.fail(), two = assert.fail()] = stores;
      for (let round = 0; round < 40; round++) {
        const key = newKey();
        const outcomes = await Promise.all([
          once(one, fern, key),
          once(two, round % 2 ? fern : moss, key)
        ]);
        assert.equal(
          outcomes.toSorted().join(),
          round % 2 ? "replayed,stored" : "conflict,stored"
        );
        assert.equal(
          (await once(two, fern, key)) === "conflict",
          outcomes[1] === "stored" && round % 2 === 0
        );
      }
      assert.equal((await cluster.read("keys")).length, 40);
      for (const store of stores) await store.close();
    });
    test("a user that must not read the stream is refused at the start, unless keys are off", async () => {
      await cluster.create("unread");
      await assert.rejects(cluster.open("unread", { user: "keyless" }), {
        code: "config",
        message:
          /Permissions Violation for Publish to "\$JS\.API\.STREAM\.MSG\.GET\.unread"/
      });
      const store = await cluster.open("unread", {
        user: "keyless",
        keys: false
      });
      await store.append(fern);
      assert.equal(store.appendOnce, undefined);
      await store.close();
    });
    test("a full stream still replays what it has, and a refusal leaves the key free", async () => {
      await cluster.create("fullkeys", { max_msgs: 1 });
      const store = await cluster.open("fullkeys", { user: "admin" });
      const [key, other] = [newKey(), newKey()];
      assert.equal(await once(store, fern, key), "stored");
      assert.equal(await once(store, fern, other), "full");
      assert.equal(await once(store, fern, key), "replayed");
      assert.equal(await once(store, moss, key), "conflict");
      await store.close();
    });
  }
);
