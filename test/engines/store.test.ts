/** What an append becomes, against a server that says what the test wants. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { inspect } from "node:util";
import { natsLimits } from "../../src/config.ts";
import { EngineError } from "../../src/engines/nats.ts";
import type { NatsLimits, NatsStore } from "../../src/engines/nats.ts";
import { StoreError } from "../../src/store.ts";
import { until } from "./cluster.ts";
import { ack, fails, Fake, nobody, openFake } from "./fake.ts";
import type { Published, Script } from "./fake.ts";

const timeout = 30_000;
const fern = { id: 9223372036854775807n, name: "Fern ä€", tag: "shade" };

/** "stored", or the code of the StoreError. */
const outcomeOf = (append: Promise<unknown>): Promise<string> => append.then(() => "stored",
  (error: unknown) => (error instanceof StoreError ? error.code : `fault: ${String(error)}`));

const append = (store: NatsStore): Promise<string> => outcomeOf(store.append(fern));

async function open(script: Script, limits: Partial<NatsLimits> = {}) {
  const fake = await Fake.start(script);
  const told: string[] = [];
  const store = await openFake([fake], { limits, warn: (line) => told.push(line) });
  return { fake, store, told };
}

describe("an append", { timeout }, () => {
  test("is published once: an id, the expected stream, and the plant as a journal has it", async () => {
    const { fake, store } = await open({});
    assert.equal(await append(store), "stored");
    assert.equal(await append(store), "stored");
    const [first, second] = fake.plants;
    assert.match(first?.payload ?? "", /^\{"at":"[^"]+","plant":\{"id":9223372036854775807,"name":"Fern ä€","tag":"shade"\},"crc":"[\da-f]{8}"\}$/);
    assert.match(first?.headers ?? "",
      /^NATS\/1\.0\r\nNats-Msg-Id: [\da-f]{24}\.1\r\nNats-Expected-Stream: plants\r\n\r\n$/);
    assert.match(first?.reply ?? "", /^_INBOX\.[\da-f]{24}\.1$/);
    assert.notEqual(second?.reply, first?.reply);
    assert.notEqual(second?.headers, first?.headers);
    assert.equal(fake.plants.length, 2);
  });
  test("is acknowledged by a server that sends every byte alone", async () => {
    const { fake, store } = await open({ drip: true });
    const outcomes = await Promise.all(Array.from({ length: 50 }, () => append(store)));
    assert.deepEqual(new Set(outcomes), new Set(["stored"]));
    assert.equal(fake.plants.length, 50);
  });

  // What a server may answer, and what becomes of the plant; "again": it is sent again, unchanged.
  const answers: readonly (readonly [what: string, answer: string, outcome: string])[] = [
    ["a PubAck", ack(1), "stored"],
    ["a PubAck with spaces", '{ "stream": "plants", "seq": 7 }', "stored"],
    ["a PubAck of a message that another process sent", ack(3, ', "duplicate": true'), "unknown"],
    ["number 0", ack(0), "again"],
    ["number 0 as another process's duplicate", ack(0, ', "duplicate": true'), "unknown"],
    ["10158, another process's in process", fails(10158, "duplicate message id", 409), "unknown"],
    ["10008, away", fails(10008, "JetStream system temporarily unavailable"), "again"],
    ["10167, too many requests", fails(10167, "too many requests", 429), "again"],
    ["10077, full", fails(10077, "maximum messages exceeded"), "full"],
    ["10023, full", fails(10023, "insufficient resources"), "full"],
    ["10077, full of bytes", fails(10077, "maximum bytes exceeded"), "full"],
    ["10077, an I/O error of the leader, which may come after the commit",
      fails(10077, "write /x/1.blk: file too large"), "unknown"],
    ["10077, a full disk", fails(10077, "write /x/1.blk: no space left on device"), "unknown"],
    ["10002, a limit of the account", fails(10002, "maximum bytes exceeded"), "unknown"],
    ["10047, no storage", fails(10047), "unknown"],
    ["10054, too large", fails(10054, "message size exceeds maximum allowed", 400), "tooLarge"],
    ["10097, too large", fails(10097), "tooLarge"],
    ["10060, another stream", fails(10060, "expected stream does not match", 400), "unknown"],
    ["an error of no known number", fails(19999), "unknown"],
    ["a PubAck of another stream", '{"stream":"others","seq":1}', "unknown"],
    ["a number that is none", '{"stream":"plants","seq":"1"}', "unknown"],
    ["a number below 0", ack(-1), "unknown"],
    ["no number", '{"stream":"plants"}', "unknown"],
    ["null", "null", "unknown"],
  ];
  for (const [what, answer, outcome] of answers) {
    test(`is ${outcome} after ${what}`, async () => {
      const onPlant = (_: Published, count: number) => (count === 1 ? answer : ack(9));
      const { fake, store } = await open({ onPlant });
      assert.equal(await append(store), outcome === "again" ? "stored" : outcome);
      assert.equal(fake.plants.length, outcome === "again" ? 2 : 1);
      assert.equal(fake.plants.at(-1)?.message, fake.plants[0]?.message);
    });
  }
  test("is sent again, unchanged, where nobody leads the stream", async () => {
    const { fake, store } = await open({
      onPlant: ({ reply }, count) => (count < 4 ? nobody(reply) : ack(1)),
    });
    assert.equal(await append(store), "stored");
    assert.deepEqual(fake.plants.map(({ message }) => message),
      Array.from({ length: 4 }, () => fake.plants[0]?.message));
  });
  for (const [what, answer] of [
    ["number 0 as a duplicate (2.10 without a quorum)", ack(0, ', "duplicate": true')],
    ["10158, in process", fails(10158, "duplicate message id is in process", 409)],
  ] as const) {
    test(`whose earlier attempt was cut off is sent again after ${what}`, async () => {
      const { fake, store } = await open({
        onPlant: (_, count, server) => {
          if (count === 1) server.cut();
          return count === 1 ? undefined : count < 4 ? answer : ack(1, ', "duplicate": true');
        },
      });
      assert.equal(await append(store), "stored");
      assert.equal(fake.plants.length, 4);
    });
  }
  test("is sent again after silence, and for a refusal then it is unknown what became of it",
    async () => {
      const { fake, store } = await open({
        onPlant: (_, count) => (count === 1 ? undefined : fails(10077, "maximum messages exceeded")),
      });
      assert.equal(await append(store), "unknown");
      assert.equal(fake.plants.length, 2);
    });
  test("that nobody was there to take is not stored at its deadline", async () => {
    const { store } = await open({ onPlant: ({ reply }) => nobody(reply) }, { appendMillis: 300 });
    assert.equal(await append(store), "unreachable");
  });
  test("without an answer is unknown at its deadline", async () => {
    const { fake, store } = await open({ onPlant: () => undefined },
      { appendMillis: 900, noProgressMillis: 300 });
    assert.equal(await append(store), "unknown");
    assert.ok(fake.plants.length >= 2, "it was sent again");
    assert.deepEqual(new Set(fake.plants.map(({ message }) => message)).size, 1);
  });
  test("on a lost connection is sent again on the next one, all in order", async () => {
    const { fake, store } = await open({
      onPlant: (_, count, server) => {
        if (count === 20) server.cut();
        return count <= 20 ? undefined : ack(count);
      },
    });
    const outcomes = await Promise.all(Array.from({ length: 20 }, () => append(store)));
    assert.deepEqual(new Set(outcomes), new Set(["stored"]));
    assert.equal(fake.connections, 2);
    const sent = fake.plants.map(({ message }) => message);
    assert.deepEqual(sent.slice(20), sent.slice(0, 20));
    assert.equal(new Set(sent).size, 20);
  });
  test("with half an answer before the cut is answered once", async () => {
    const { fake, store } = await open({
      onPlant: ({ reply }, count, server) => {
        if (count > 1) return ack(1, ',"duplicate":true');
        setImmediate(() => server.cut());
        return { raw: `MSG ${reply} 1 27\r\n{"stream":"pl` };
      },
    });
    assert.equal(await append(store), "stored");
    assert.equal(fake.plants.length, 2);
  });
  const good = ack(1);
  for (const [what, rawOf] of [
    ["for another subject", () => `MSG XXXX.1 1 ${good.length}\r\n${good}\r\n`],
    ["behind a status", (subject: string) =>
      `HMSG ${subject} 1 16 ${16 + good.length}\r\nNATS/1.0 200\r\n\r\n${good}\r\n`],
    ["of a status that does not say that nobody was there", (subject: string) =>
      `HMSG ${subject} 1 16 16\r\nNATS/1.0 408\r\n\r\n\r\n`],
    ["whose reason is no text", (subject: string) => {
      const odd = '{"error":{"err_code":1,"description":{"toString":1,"valueOf":1}}}';
      return `MSG ${subject} 1 ${odd.length}\r\n${odd}\r\n`;
    }],
  ] as const) {
    test(`is unknown after an answer ${what}`, async () => {
      const { store } = await open({ onPlant: ({ reply }) => ({ raw: rawOf(reply) }) },
        { appendMillis: 500, noProgressMillis: 5_000 });
      assert.equal(await append(store), "unknown");
    });
  }
  test("is unknown where one attempt has no answer, and another was told twice that nobody is there",
    async () => {
      const onPlant = ({ reply }: Published, count: number) =>
        (count === 1 ? undefined : { raw: nobody(reply).raw.repeat(2) });
      const { fake, store } = await open({ onPlant }, { appendMillis: 600, noProgressMillis: 200 });
      assert.equal(await append(store), "unknown");
      assert.ok(fake.plants.length > 1, "the fault fired");
    });
  test("takes no plant that a journal would not take", async () => {
    const { store } = await open({});
    assert.equal(await outcomeOf(store.append({ id: 2n ** 63n, name: "Fern" })), "invalid");
    assert.equal(await outcomeOf(store.append({ id: 1n, name: "\ud800" })), "invalid");
  });
});

describe("the limits", { timeout }, () => {
  test("are 1,024 appends and 16 MiB in flight, and a deadline of 10 s", () => {
    const { inFlightRecordsMax, inFlightBytesMax, appendMillis, unreachableMillis } = natsLimits;
    assert.deepEqual([inFlightRecordsMax, inFlightBytesMax, appendMillis, unreachableMillis],
      [1_024, 16_777_216, 10_000, 2_000]);
  });
  for (const limits of [{ appendMillis: NaN }, { retryMillis: 0 }, { pingMillis: 2 ** 31 }]) {
    test(`can't be ${JSON.stringify(limits)}`, async () => {
      const fake = await Fake.start();
      await assert.rejects(openFake([fake], { limits }), RangeError);
      assert.equal(fake.connections, 0);
    });
  }
  test("so many in flight are taken, and one more is refused at once", async () => {
    const { fake, store } = await open({ onPlant: () => undefined }, { inFlightRecordsMax: 3 });
    const three = Array.from({ length: 3 }, () => append(store));
    assert.equal(await append(store), "busy");
    await until("three are sent", () => fake.plants.length >= 3);
    fake.script = {};
    assert.deepEqual(await Promise.all(three), ["stored", "stored", "stored"]);
    assert.equal(await append(store), "stored", "there is room again");
  });
  test("do not count while no server is reachable: all are refused as not stored", async () => {
    const fake = await Fake.start({ greeting: "" });
    const store = await openFake([fake], { limits: { handshakeMillis: 100, inFlightRecordsMax: 3 } });
    const outcomes = await Promise.all(Array.from({ length: 9 }, () => append(store)));
    assert.deepEqual(new Set(outcomes), new Set(["unreachable"]));
  });
  test("so many bytes in flight are taken, and one more byte is refused", async () => {
    const { fake, store } = await open({});
    assert.equal(await append(store), "stored");
    const bytes = fake.plants[0]?.message.length ?? 0;
    for (const [inFlightBytesMax, outcome] of [[bytes, "stored"], [bytes - 1, "busy"]] as const) {
      const again = await openFake([fake], { limits: { inFlightBytesMax } });
      assert.equal(await append(again), outcome);
    }
  });
  test("a message of max_payload, its headers included, is sent, one of a byte more is too large", async () => {
    const { fake, store } = await open({});
    assert.equal(await append(store), "stored");
    const { message: { length } = "" } = fake.plants[0] ?? {};
    for (const [max_payload, outcome] of [[length, "stored"], [length - 1, "tooLarge"]] as const) {
      fake.script = { info: { max_payload } };
      assert.equal(await append(await openFake([fake])), outcome);
    }
  });
});

describe("a connection", { timeout }, () => {
  test("that is away for long: not stored, at once; and it comes back by itself", async () => {
    const { fake, store, told } = await open({});
    assert.equal(await append(store), "stored");
    fake.script = { greeting: "HTTP/1.1 400 Bad Request\r\n\r\n" };
    fake.cut();
    await until("it is noticed", () => told.length > 1);
    assert.equal(await append(store), "unreachable");
    const begun = performance.now();
    assert.equal(await append(store), "unreachable");
    assert.ok(performance.now() - begun < 100, "it did not wait");
    fake.script = {};
    await until("it is back", async () => await append(store) === "stored");
    assert.ok(told.some((line) => /found an unknown operation/.test(line)), told.join("\n"));
    assert.match(told.at(-1) ?? "", /^plants are acknowledged again$/);
  });
  test("without acknowledgements is left for the next host, though it answers PING", async () => {
    const [stuck, good] = [await Fake.start({ onPlant: () => undefined }), await Fake.start()];
    const store = await openFake([stuck, good]);
    assert.equal(await append(store), "stored");
    assert.deepEqual(new Set(stuck.plants.map(({ message }) => message)),
      new Set(good.plants.map(({ message }) => message)));
  });
  test("that does not answer PING is left", async () => {
    const [mute, good] = [await Fake.start(), await Fake.start()];
    const store = await openFake([mute, good]);
    mute.script = { onPing: "" };
    await until("it is on the other", () => good.connections === 1);
    assert.equal(await append(store), "stored");
    assert.equal(good.plants.length, 1);
  });
  test("to a server that is about to leave is left at once", async () => {
    const [leaving, good] = [await Fake.start(), await Fake.start()];
    const store = await openFake([leaving, good]);
    leaving.say('INFO {"version":"2.15.1","headers":true,"max_payload":1024,"ldm":true}\r\n');
    await until("it is on the other", () => good.connections === 1);
    assert.equal(await append(store), "stored");
  });
  test("is never made to an address that is not in the list", async () => {
    const other = await Fake.start();
    const { fake, store } = await open({ info: { connect_urls: [other.host] } });
    fake.cut();
    await until("it is back", () => fake.connections === 2);
    assert.equal(await append(store), "stored");
    assert.equal(other.connections, 0);
  });
  test("answers the server's PING", async () => {
    const { fake } = await open({});
    fake.say("PING\r\n");
    await until("PONG is said", () => fake.said[0]?.includes("PONG\r\n") ?? false);
  });
  for (const junk of ["\0\0\0\0\r\n", "MSG x\r\n", "x".repeat(70_000), "INFO {\r\n",
    `INFO {"a":${"[".repeat(20_000)}${"]".repeat(20_000)}}\r\n`,
    "MSG a 1 99999999999\r\n", "MSG _INBOX.error 1 0\r\n\r\n", "-ERR 'Unknown Protocol Operation'\r\n"]) {
    test(`is made anew after junk: ${JSON.stringify(junk.slice(0, 40))}`, async () => {
      const { fake, store } = await open({});
      assert.equal(await append(store), "stored");
      fake.say(junk);
      await until("it is answered", async () => await append(store) === "stored");
      const isHarmless = junk.startsWith("MSG _INBOX");
      await until("it is another", () => isHarmless || fake.connections === 2);
    });
  }
  test("shows no secret where the store is logged or inspected", async () => {
    const { store } = await open({});
    const shown = inspect(store, { showHidden: true, depth: 20, getters: true });
    assert.doesNotMatch(shown, /s3cret|writer/);
    assert.match(shown, /NatsStore/);
  });
  test("has an inbox of its own: no other connection or process gets its responses", async () => {
    const { fake, store } = await open({});
    assert.equal(await append(store), "stored");
    fake.cut();
    await until("it is back", () => fake.connections === 2);
    assert.equal(await append(store), "stored");
    const inboxes = fake.said.map((text) => /^SUB (_INBOX\.[\da-f]{24})\.\* 1\r$/m.exec(text)?.[1]);
    assert.equal(new Set(inboxes).size, 2);
    assert.ok(!inboxes.includes(undefined));
  });
  test("a message to an inbox with a name like an event's does no harm", async () => {
    const { fake, store } = await open({});
    assert.equal(await append(store), "stored");
    const { reply = "" } = fake.plants[0] ?? {};
    for (const token of ["error", "1", "INFO", "newListener", "__proto__"]) {
      fake.say(`MSG ${reply.replace(/\d+$/, token)} 1 0\r\n\r\n`);
    }
    assert.equal(await append(store), "stored");
    assert.equal(fake.connections, 1);
  });
});

describe("a permission that is lost", { timeout }, () => {
  test("fails all that was sent as unknown, at once, and tells why", async () => {
    const { fake, store, told } = await open({
      onPlant: (_, count) => (count < 3 ? undefined
        : { raw: "-ERR 'Permissions Violation for Publish to \"plants\"'\r\n" }),
    });
    const outcomes = await Promise.all([append(store), append(store), append(store)]);
    assert.deepEqual(outcomes, ["unknown", "unknown", "unknown"]);
    assert.match(told.at(-1) ?? "", /Permissions Violation for Publish/);
    fake.script = {};
    await until("the permission is back", async () => await append(store) === "stored");
    assert.equal(fake.plants.length, 4, "what was given up is not sent again");
  });
  test("is told once, and tried again at intervals, whoever goes on sending", async () => {
    const denied = "-ERR 'Permissions Violation for Publish to \"plants\"'\r\n";
    const { fake, store, told } = await open({ onPlant: () => ({ raw: denied }) },
      { noProgressMillis: 60_000, reconnectMillisMax: 1_000 });
    const begunAt = performance.now();
    await until("it has tried again", async () => {
      await append(store);
      return fake.connections === 5;
    });
    assert.ok(performance.now() - begunAt > 75, "10, 20, 40 and 80 ms, half of each by chance");
    assert.equal(told.filter((line) => /Permissions Violation/.test(line)).length, 1);
    assert.ok(!told.includes("plants are acknowledged again"));
    fake.script = {};
    await until("the permission is back", async () => await append(store) === "stored");
    assert.equal(told.at(-1), "plants are acknowledged again");
  });
});

describe("a stream that takes some plants, and not others", { timeout }, () => {
  test("is told of by its answers, not by a line for each", async () => {
    const { store, told } = await open({
      onPlant: (_, count) => (count % 2 === 1 ? ack(count) : fails(10077, "maximum bytes exceeded")),
    });
    const before = told.length;
    for (let turn = 0; turn < 20; turn++) {
      assert.equal(await append(store), turn % 2 === 0 ? "stored" : "full");
    }
    assert.deepEqual(told.slice(before), []);
  });
});

describe("a stream without a leader", { timeout }, () => {
  test("is waited for as long as an election may take, and then refuses at once", async () => {
    const { fake, store } = await open({}, { appendMillis: 1_500, noProgressMillis: 400 });
    assert.equal(await append(store), "stored");
    fake.script = { stream: { error: { code: 503, err_code: 10008, description: "no leader" } } };
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
    await until("it is led again", async () => await append(store) === "stored");
  });
});

describe("a stream that is gone", { timeout }, () => {
  test("refuses plants at once, until it is there again", async () => {
    const { fake, store } = await open({}, { unreachableMillis: 60_000, appendMillis: 20_000 });
    assert.equal(await append(store), "stored");
    fake.script = { stream: { error: { code: 404, err_code: 10059, description: "not found" } } };
    fake.cut();
    await until("it is known", () => !store.stats.isReachable);
    for (let turn = 0; turn < 20; turn++) {
      assert.equal(await append(store), "unreachable");
      assert.equal(store.stats.isReachable, false);
    }
    fake.script = {};
    await until("it is there again", async () => await append(store) === "stored");
    assert.equal(fake.plants.length, 2);
  });
});

describe("closing", { timeout }, () => {
  test("waits for what is in flight, and takes no more", async () => {
    const { fake, store } = await open({ onPlant: () => undefined });
    const pending = append(store);
    await until("it is sent", () => fake.plants.length === 1);
    const closed = store.close();
    assert.equal(await append(store), "closed");
    assert.equal(fake.open, 1);
    fake.say(`MSG ${fake.plants[0]?.reply} 1 ${ack(1).length}\r\n${ack(1)}\r\n`);
    assert.equal(await pending, "stored");
    await closed;
    await until("the connection is closed", () => fake.open === 0);
  });
  test("gives up at the deadline: unknown", async () => {
    const { store } = await open({ onPlant: () => undefined }, { appendMillis: 300 });
    const pending = append(store);
    await store.close();
    assert.equal(await pending, "unknown");
  });
});

describe("at start", { timeout }, () => {
  const refusedWith = (pattern: RegExp, code: string) => (error: unknown): boolean => {
    assert.ok(error instanceof EngineError, String(error));
    assert.equal(error.code, code);
    assert.match(error.message, pattern);
    assert.doesNotMatch(error.message, /s3cret/);
    return true;
  };
  const violation = "-ERR 'Permissions Violation for Publish to \"$JS.API.STREAM.INFO.plants\"'\r\n";
  const scripts: readonly (readonly [what: string, Script, RegExp, string])[] = [
    ["bad credentials", { onConnect: "-ERR 'Authorization Violation'\r\n" }, /Authorization/, "refused"],
    ["an old server", { info: { version: "2.10.27" } }, /version 2\.14 or later/, "refused"],
    ["an older one", { info: { version: "1.4.0" } }, /version 2\.14 or later/, "refused"],
    ["no version", { info: { version: 3 } }, /version 2\.14 or later/, "refused"],
    ["a version that is no text", { info: { version: { toString: 1 } } }, /version 2\.14/, "refused"],
    ["no headers", { info: { headers: false } }, /headers/, "refused"],
    ["no permission for the inbox",
      { onConnect: "-ERR 'Permissions Violation for Subscription to \"_INBOX\"'\r\n" },
      /Permissions Violation/, "config"],
    ["no permission to ask for the stream", { onPing: `PONG\r\n${violation}` },
      /Permissions Violation/, "config"],
    ["no stream", { stream: { error: { code: 404, err_code: 10059, description: "stream not found" } } },
      /stream not found"\n.*CREATE\.plants.*\n\{"name":"plants"/, "config"],
  ];
  for (const [what, script, pattern, code] of scripts) {
    test(`${what}: refused`, async () => {
      const fake = await Fake.start(script);
      await assert.rejects(openFake([fake]), refusedWith(pattern, code));
      assert.deepEqual(fake.plants, []);
    });
  }
  const { discard: _, ...noDiscard } = { discard: "old", max_msgs: 5 };
  const configs: readonly (readonly [Readonly<Record<string, unknown>>, RegExp | undefined])[] = [
    [{}, undefined],
    [{ storage: "memory" }, /storage: expected "file", found "memory"/],
    [{ num_replicas: 1 }, /num_replicas: expected 3, found 1/],
    [{ num_replicas: 5 }, undefined],
    [{ retention: "workqueue" }, /retention: expected "limits", found "workqueue"/],
    [{ max_age: 1_000_000_000 }, /max_age: expected 0, found 1000000000/],
    [{ max_msgs_per_subject: 1 }, /max_msgs_per_subject: expected -1, found 1/],
    [{ discard: "old", max_msgs: 5 }, /discard: expected "new", found "old"/],
    [{ discard: "old", max_bytes: 5 }, /discard: expected "new", found "old"/],
    [{ discard: "new", ...noDiscard }, undefined],
    [{ discard: "old" }, undefined],
    [{ persist_mode: "async" }, /persist_mode: expected none, found "async"/],
    [{ persist_mode: "default" }, undefined],
    [{ duplicate_window: 4 * 3_000 * 1e6 - 1 }, /duplicate_window: expected 12000000000 \(four times the deadline of an append\), found 11999/],
    [{ duplicate_window: 4 * 3_000 * 1e6 }, undefined],
    [{ subjects: ["plants", "others"] }, /subjects: expected \["plants"\]/],
    [{ subjects: [">"] }, /subjects: expected \["plants"\]/],
    [{ no_ack: true }, /no_ack: expected none, found true/],
    [{ storage: "memory", max_age: 1 }, /storage: .*; max_age: /],
  ];
  for (const [config, pattern] of configs) {
    test(`a stream with ${JSON.stringify(config)} is ${pattern ? "refused" : "taken"}`, async () => {
      const fake = await Fake.start({ config: { max_msgs_per_subject: -1, ...config } });
      const opened = openFake([fake]);
      if (!pattern) return assert.equal(await append(await opened), "stored");
      await assert.rejects(opened, refusedWith(pattern, "config"));
      assert.deepEqual(fake.plants, []);
    });
  }
  test("an old server is taken where the address says so", async () => {
    const fake = await Fake.start({ info: { version: "2.10.27" } });
    assert.equal(await append(await openFake([fake], {}, "?old-server=allow")), "stored");
  });
  test("a stream of one replica is taken where the address says so", async () => {
    const fake = await Fake.start({ config: { num_replicas: 1, max_msgs_per_subject: -1 } });
    assert.equal(await append(await openFake([fake], {}, "?replicas=1")), "stored");
  });
  test("no host is there: plants are refused, until one is there and has passed the check",
    async () => {
      const fake = await Fake.start({ greeting: "" });
      const store = await openFake([fake], { limits: { handshakeMillis: 100 } });
      assert.equal(await append(store), "unreachable");
      fake.script = { config: { storage: "memory" } };
      await until("the stream was looked at", () => fake.said.at(-1)?.includes("STREAM.INFO") ?? false);
      assert.equal(await append(store), "unreachable");
      assert.deepEqual(fake.plants, []);
      fake.script = { config: { max_msgs_per_subject: -1 } };
      await until("it takes plants", async () => await append(store) === "stored");
    });
  test("one host refuses the credentials and another is not there: it goes on trying", async () => {
    const bad = await Fake.start({ onConnect: "-ERR 'Authorization Violation'\r\n" });
    const absent = await Fake.start({ greeting: "" });
    const store = await openFake([bad, absent], { limits: { handshakeMillis: 100 } });
    assert.equal(await append(store), "unreachable");
    bad.script = {};
    await until("it takes plants", async () => await append(store) === "stored");
  });
  const passing: readonly (readonly [what: string, Script])[] = [
    ["closes at once", { greeting: "", hangsUp: true }],
    ["closes within its INFO", { greeting: 'INFO {"version":"2.1', hangsUp: true }],
    ["is full", { greeting: "-ERR 'maximum connections exceeded'\r\n", hangsUp: true }],
    ["begins with PING", { greeting: "PING\r\n" }],
    ["was too slow to ask for credentials", { onConnect: "-ERR 'Authentication Timeout'\r\n" }],
  ];
  for (const [what, script] of passing) {
    test(`a host that ${what} is tried again: that is no mistake in the settings`, async () => {
      const fake = await Fake.start(script);
      const store = await openFake([fake], { limits: { handshakeMillis: 200 } });
      assert.equal(await append(store), "unreachable");
      fake.script = {};
      await until("it takes plants", async () => await append(store) === "stored");
    });
  }
  test("a server that says nothing, or no NATS, is no server", async () => {
    for (const greeting of ["", "HTTP/1.1 200 OK\r\n\r\n", "SSH-2.0-x\r\n", "INFO {}x\r\n"]) {
      const bad = await Fake.start({ greeting });
      const good = await Fake.start();
      const store = await openFake([bad, good], { limits: { handshakeMillis: 100 } });
      assert.equal(await append(store), "stored");
      assert.equal(good.plants.length, 1);
    }
  });
  test("tls:// is not served by a server without TLS: nothing is said in the clear", async () => {
    const fake = await Fake.start();
    const { openNats } = await import("../../src/engines/nats.ts");
    await assert.rejects(openNats(`tls://${fake.host}/plants`, { credentials: "writer\ns3cret" }),
      refusedWith(/expected a server with TLS/, "refused"));
    assert.deepEqual(fake.said, [""]);
  });
  test("what cannot be verified is told once", async () => {
    const { told } = await open({});
    assert.equal(told.length, 1);
    assert.match(told[0] ?? "", /^not verified: .*monitor=PORT/);
  });
  test("a monitor that is not there: nothing is taken", async () => {
    const fake = await Fake.start();
    const store = await openFake([fake], {}, "?monitor=1");
    assert.equal(await append(store), "unreachable");
    assert.deepEqual(fake.plants, []);
  });
});
