/** What an append becomes, when it is sent again, and what is never taken for stored. */
import assert from "node:assert/strict";
import crypto from "node:crypto";
import { syncBuiltinESMExports } from "node:module";
import { describe, test } from "node:test";
import { natsLimits } from "../../src/nats/limits.ts";
import { decodeMessage, encodeMessage } from "../../src/nats/message.ts";
import { settingTable } from "../../src/program/settings.ts";
import { plantText } from "../../src/plant.ts";
import {
  ack,
  append,
  fails,
  Fake,
  fern,
  found,
  nobody,
  open,
  openFake,
  outcomeOf,
  patient,
  respond,
  storing,
  type Answer,
  type Published
} from "./fake.ts";
import { seconds, until } from "../support/until.ts";

const duplicate = ', "duplicate": true';

/** A response, or what gives one; undefined: none. */
type Response =
  string | undefined | ((published: Published, fake: Fake) => Answer);

/** Responds to the n-th message with the n-th response; the last one stays. */
const inTurn =
  (responses: readonly Response[]) =>
  (published: Published, count: number, fake: Fake): Answer => {
    const response = responses[Math.min(count, responses.length) - 1];
    return typeof response === "function"
      ? response(published, fake)
      : response;
  };

const noLeader: Response = ({ reply }) => nobody(reply);
const twiceNoLeader: Response = ({ reply }) => ({
  raw: nobody(reply).raw.repeat(2)
});
const cut: Response = (_, fake) => void setImmediate(() => fake.cut());
const half: Response = ({ reply }, fake) => {
  setImmediate(() => fake.cut());
  return { raw: `MSG ${reply} 1 27\r\n{"stream":"pl` };
};
const raw =
  (text: (reply: string) => string): Response =>
  ({ reply }) => ({ raw: text(reply) });
const good = ack(1);
const inProcess = fails(10158, "duplicate message id is in process", 409);
const noText =
  '{"stream":"plants","error":{"err_code":1,"description":{"toString":1,"valueOf":1}}}';

describe("an append", { concurrency: 8 }, () => {
  test("is published once: an id, the expected stream, and the plant as a journal has it", async () => {
    const { fake, store } = await open();
    assert.equal(await append(store), "stored");
    assert.deepEqual(await store.append(fern), { seq: 2 }, "the receipt");
    const [first, second] = fake.plants;
    assert.match(
      first?.payload ?? "",
      /^\{"at":"[^"]+","plant":\{"id":9223372036854775807,"name":"Fern ä€","tag":"shade"\},"crc":"[\da-f]{8}"\}$/
    );
    assert.match(
      first?.headers ?? "",
      /^NATS\/1\.0\r\nNats-Msg-Id: [\da-f]{27}\.1\.[\da-f]{8}\r\nNats-Expected-Stream: plants\r\n\r\n$/
    );
    assert.match(first?.reply ?? "", /^_INBOX\.[\da-f]{27}\.\d+$/);
    assert.notEqual(second?.reply, first?.reply);
    assert.notEqual(second?.headers, first?.headers);
    assert.equal(fake.plants.length, 2);
  });

  // Each response in turn. Each is sent once more, unchanged, as long as another response is listed.
  for (const [what, outcome, ...responses] of [
    ["a PubAck", "stored", good],
    ["number 0", "stored", ack(0), good],
    [
      "10008, away",
      "stored",
      fails(10008, "JetStream system temporarily unavailable"),
      good
    ],
    ["no leader three times", "stored", noLeader, noLeader, noLeader, good],
    ["half a PubAck and a lost connection", "stored", half, ack(1, duplicate)],
    ["no response, and its duplicate", "stored", undefined, ack(1, duplicate)],
    [
      "a lost connection, number 0 as a duplicate (2.10 without a quorum)",
      "stored",
      cut,
      ack(0, duplicate),
      ack(1, duplicate)
    ],
    [
      "a lost connection, 10158, in process",
      "stored",
      cut,
      inProcess,
      inProcess,
      ack(1, duplicate)
    ],
    ["another process's duplicate", "unknown", ack(3, duplicate)],
    ["another process's message in process", "unknown", inProcess],
    [
      "another process's duplicate, after attempts that nobody took",
      "unknown",
      noLeader,
      noLeader,
      ack(3, duplicate)
    ],
    ["10077, full", "full", fails(10077, "maximum messages exceeded")],
    ["10077, full of bytes", "full", fails(10077, "maximum bytes exceeded")],
    [
      "10002, an account's quota",
      "full",
      fails(10002, "resource limits exceeded for account", 400)
    ],
    ["10023, a full server", "full", fails(10023, "insufficient resources")],
    [
      "10077, the leader's I/O error, which may come after the commit",
      "unknown",
      fails(10077, "write /x/1.blk: file too large")
    ],
    [
      "no response, and full",
      "unknown",
      undefined,
      fails(10077, "maximum messages exceeded")
    ],
    [
      "10054, too large",
      "tooLarge",
      fails(10054, "message size exceeds maximum allowed", 400)
    ],
    ["10097, too large", "tooLarge", fails(10097)],
    ["an error of an unknown number", "unknown", fails(19999)],
    ["an error whose reason is not a text", "unknown", noText],
    ["a number below 0", "unknown", ack(-1)]
  ] as const) {
    test(`is ${outcome} after ${what}`, async () => {
      const { fake, store } = await open(
        { onPlant: inTurn(responses) },
        { noProgressMillis: 2_000 }
      );
      assert.equal(await append(store), outcome);
      assert.deepEqual(
        fake.plants.map(({ message }) => message),
        responses.map(() => fake.plants[0]?.message)
      );
    });
  }
  for (const [what, ...responses] of [
    ["no response", undefined],
    ["null", "null"],
    ["a PubAck of another stream", '{"stream":"others","seq":1}'],
    ["a refusal of another stream", fails(10077, "x", 503, "others")],
    [
      "no response to one attempt, and to the others twice that there is no leader",
      undefined,
      twiceNoLeader
    ],
    ["a PubAck for another subject", raw(() => respond("XXXX.1", good))],
    [
      "a PubAck with a status",
      raw(
        (reply) =>
          `HMSG ${reply} 1 16 ${16 + good.length}\r\nNATS/1.0 200\r\n\r\n${good}\r\n`
      )
    ],
    [
      "a status other than 503",
      raw((reply) => `HMSG ${reply} 1 16 16\r\nNATS/1.0 408\r\n\r\n\r\n`)
    ]
  ] as const) {
    test(`is unknown at its deadline after ${what}`, async () => {
      const { fake, store } = await open(
        { onPlant: inTurn(responses) },
        { appendMillis: seconds(1.5), noProgressMillis: seconds(0.2) }
      );
      const count = responses.length === 1 ? 20 : 1;
      const outcomes = await Promise.all(
        Array.from({ length: count }, () => append(store))
      );
      assert.deepEqual(new Set(outcomes), new Set(["unknown"]));
      assert.ok(fake.connections > 1, "the connection was left");
    });
  }
  test("emits batch when it is stored, and full when the stream is, without a line for each in the log", async () => {
    const full = fails(10077, "maximum bytes exceeded");
    const { store, warnings } = await open({
      onPlant: inTurn([good, full, ack(2), full])
    });
    const reported = warnings.length;
    const events: string[] = [];
    store
      .on("batch", (records) => events.push(`batch ${records}`))
      .on("full", () => events.push("full"));
    for (let turn = 0; turn < 4; turn++) await append(store);
    assert.deepEqual(events, ["batch 1", "full", "batch 1", "full"]);
    assert.deepEqual(warnings.slice(reported), []);
  });
  test("on a lost connection is sent again on the next one, all in order", async () => {
    const { fake, store } = await open({
      onPlant: (_, count, server) => {
        if (count === 20) server.cut();
        return count <= 20 ? undefined : ack(count);
      }
    });
    const outcomes = await Promise.all(
      Array.from({ length: 20 }, () => append(store))
    );
    assert.deepEqual(new Set(outcomes), new Set(["stored"]));
    const sent = fake.plants.map(({ message }) => message);
    assert.deepEqual(sent.slice(20), sent.slice(0, 20));
    assert.equal(new Set(sent).size, 20);
  });
  test("is not sent again on the same connection: a copy would only wait for the original", async () => {
    const connections: number[] = [];
    const { store } = await open(
      {
        onPlant: (_, count, fake) => {
          connections.push(fake.connections);
          return count === 1 ? undefined : ack(1, duplicate);
        }
      },
      { ackTimeoutMillis: 50, noProgressMillis: 1_000 }
    );
    assert.equal(await append(store), "stored");
    assert.deepEqual(connections, [1, 2]);
  });
  test("is sent again on the same connection once a later one has a response", async () => {
    const { fake, store } = await open({
      onPlant: inTurn([undefined, good, ack(1, duplicate)])
    });
    const first = append(store);
    assert.equal(await append(store), "stored");
    assert.equal(await first, "stored");
    assert.equal(fake.connections, 1);
    assert.equal(fake.plants.length, 3);
  });
  test("takes no plant that a journal would not take", async () => {
    const { store } = await open();
    for (const plant of [
      { id: 2n ** 63n, name: "Fern" },
      { id: 1n, name: "\ud800" }
    ])
      assert.equal(await outcomeOf(store.append(plant)), "invalid");
  });
});

// By itself: it replaces clocks.
describe("a plant of which nobody has taken any attempt", () => {
  test("is reported as not stored at its deadline", async (t) => {
    const { store } = await open(
      { onPlant: inTurn([...Array<Response>(20).fill(noLeader), good]) },
      { appendMillis: 30_000 }
    );

    // The store's own timer is called by this test alone, once it has read each response.
    t.mock.timers.enable({ apis: ["setInterval"] });
    const outcomes = Array.from({ length: 20 }, () => append(store));
    assert.equal(await append(store), "stored");
    const later = performance.now() + 30_000;
    t.mock.method(performance, "now", () => later);
    t.mock.timers.tick(patient.retryMillis);
    assert.deepEqual(
      new Set(await Promise.all(outcomes)),
      new Set(["unreachable"])
    );
  });
});

describe("a plant after an idle time", () => {
  test("gets the time of every other one before its connection counts as stuck", async (t) => {
    const { fake, store } = await open({
      onPlant: inTurn([good, undefined, ack(2)])
    });
    t.mock.timers.enable({ apis: ["setInterval"] });
    assert.equal(await append(store), "stored");
    t.mock.timers.tick(patient.retryMillis);
    const later = performance.now() + 2 * patient.noProgressMillis;
    t.mock.method(performance, "now", () => later);
    const outcome = append(store);
    await until("it is sent", () => fake.plants.length === 2);
    t.mock.timers.tick(patient.retryMillis);
    fake.say(respond(fake.plants[1]?.reply, ack(2)));
    assert.equal(await outcome, "stored");
    assert.equal(fake.connections, 1);
  });
});

describe("a message of a stream", () => {
  const at = "2026-11-21T10:47:01.578Z";
  const plant = '{"id":9007199254740993,"name":"Fern"}';
  test("is not a record with a byte that differs, or another member", () => {
    const message = encodeMessage(at, plant).toString();
    for (const changed of [
      message.replace(/[\da-f]{8}"}$/, '00000000"}'),
      message.replace("Fern", "Moss"),
      `${message} `,
      message.replace('"plant"', '"x":1,"plant"'),
      "{}"
    ])
      assert.equal(decodeMessage(Buffer.from(changed)), undefined, changed);
  });
});

describe("a slow link", () => {
  test("delivers a message that takes longer than every time limit, and nothing is asked for twice", async () => {
    const key = "A".repeat(22);
    const fake = await Fake.start({
      onPlant: ({ reply, subject }, _, server) => {
        if (!subject.includes("MSG.GET")) return ack(1, duplicate);

        // A PONG can't come within a message.
        server.script = { ...server.script, onPing: "" };
        const message = encodeMessage(
          "2026-11-21T10:47:01.578Z",
          plantText(fern, Infinity) ?? "",
          key
        );
        const pieces =
          respond(reply, found(1, message)).match(/[^]{1,10}/g) ?? [];
        const timer = setInterval(() => {
          server.say(pieces.shift() ?? "");
          if (pieces.length === 0) clearInterval(timer);
        }, 60);
        return undefined;
      }
    });
    const store = await openFake([fake], {
      limits: {
        ackTimeoutMillis: 100,
        noProgressMillis: 1_000,
        pingMillis: 300,
        pingsMissedMax: 3
      }
    });
    assert.equal(await store.appendOnce?.(fern, key), "replayed");
    assert.equal(fake.plants.length, 2);
    assert.equal(fake.connections, 1);
  });
  test("gets the time to carry what is in flight before its connection counts as stuck", async () => {
    const { fake, store } = await open(
      { onPlant: () => undefined },
      { noProgressMillis: 100, bytesPerMilliMin: 1, appendMillis: 900 }
    );
    assert.equal(await append(store, "x".repeat(5_000)), "unknown");
    assert.equal(fake.connections, 1);
  });
});

describe("a process that was cloned", () => {
  test("sends again what its dead connection lost: no plant of the original's is taken for its own", async (t) => {
    t.mock.method(Date, "now", () => 1_795_612_345_678);
    const drawn = t.mock.method(crypto, "randomBytes", () =>
      Buffer.alloc(8, 1)
    );
    syncBuiltinESMExports();
    const fake = await Fake.start({ onPlant: () => undefined });
    const original = await openFake([fake]);
    const copy = await openFake([fake]);
    drawn.mock.restore();
    syncBuiltinESMExports();
    const sent = append(copy, "Moss");
    await until("it is sent", () => fake.plants.length === 1);
    const kept: Published[] = [];
    fake.script = { onPlant: storing(kept) };
    assert.equal(await append(original, "Fern"), "stored");
    fake.cut();
    assert.equal(await sent, "stored");
    assert.deepEqual(
      kept.map(({ payload }) => /Fern|Moss/.exec(payload)?.[0]),
      ["Fern", "Moss"]
    );
    const starts = kept.map(
      ({ headers }) => /^Nats-Msg-Id: \S+\.1\./m.exec(headers)?.[0]
    );
    assert.equal(
      starts[0],
      starts[1],
      "the control: they draw and count the same"
    );
  });
});

describe("a stream of the JetStream domain hub", () => {
  const from = (domain: string, seq: number) =>
    ack(seq, `,"domain":"${domain}"`);
  for (const [what, ...responses] of [
    ["another domain's", from("edge", 7), from("hub", 1)],
    ["one without a domain", ack(7), from("hub", 1)]
  ] as const) {
    test(`ignores an acknowledgement: ${what}`, async () => {
      const { fake, store } = await open({
        domain: "hub",
        onPlant: ({ reply }) => ({
          raw: responses.map((text) => respond(reply, text)).join("")
        })
      });
      assert.deepEqual(await store.append(fern), { seq: 1 });
      assert.equal(fake.plants.length, 1);
    });
  }
  test("leaves a server over which only another domain acknowledges", async () => {
    const { fake, store, warnings } = await open(
      { domain: "hub", onPlant: () => from("edge", 1) },
      { noProgressMillis: 100 }
    );
    const outcome = append(store);
    await until("it is on another connection", () => fake.connections > 1);
    assert.equal(warnings.at(-1), `${fake.host}: it acknowledges nothing`);
    fake.script = { domain: "hub", onPlant: () => from("hub", 1) };
    assert.equal(await outcome, "stored");
  });
});

describe("a server's text", () => {
  test("is reported up to a limit, exactly", async () => {
    for (const problemCharsMax of [300, 301]) {
      const { fake, warnings } = await open({}, { problemCharsMax });
      fake.script = { config: { subjects: ["x".repeat(2_000), "y"] } };
      fake.cut();
      await until("it is reported", () =>
        warnings.some(({ length }) => length === problemCharsMax)
      );
    }
  });
});

describe("a machine that was suspended", () => {
  for (const [what, millis, outcome, copies] of [
    [
      "longer than the stream recognises a copy",
      4 * patient.appendMillis,
      "unknown",
      1
    ],
    ["for less", 2 * patient.appendMillis, "stored", 2]
  ] as const) {
    test(`${what}: ${outcome}`, async (t) => {
      const { fake, store } = await open({
        onPlant: (_, count, server) => {
          if (count > 1) return ack(count, duplicate);
          const { now } = Date;
          t.mock.method(Date, "now", () => now() + millis);
          server.cut();
          return undefined;
        }
      });
      assert.equal(await append(store), outcome);
      assert.equal(fake.plants.length, copies);
    });
  }
});

describe("the limits", () => {
  test("are 1,024 appends and 16 MiB in flight, and the program's defaults: a deadline of 10 s, a handshake of 2 s", () => {
    const { storeAppendMillis, storeHandshakeMillis } = settingTable;
    assert.deepEqual(natsLimits, {
      ...natsLimits,
      inFlightRecordsMax: 1_024,
      inFlightBytesMax: 16_777_216,
      unreachableMillis: 2_000,
      appendMillis: 10_000,
      handshakeMillis: 2_000
    });
    assert.equal(storeAppendMillis.defaultValue, 10_000);
    assert.equal(storeHandshakeMillis.defaultValue, 2_000);
  });
  test("are numbers from 1 to 2^31 - 1", async () => {
    const fake = await Fake.start();
    for (const retryMillis of [NaN, 0, 2 ** 31])
      await assert.rejects(
        openFake([fake], { limits: { retryMillis } }),
        RangeError
      );
    assert.equal(fake.connections, 0);
  });
  test("so many in flight are taken, and one more is refused at once", async () => {
    const { fake, store } = await open(
      { onPlant: () => undefined },
      { inFlightRecordsMax: 3 }
    );
    const three = Array.from({ length: 3 }, () => append(store));
    assert.equal(await append(store), "busy");
    await until("three are sent", () => fake.plants.length >= 3);
    fake.script = {};
    fake.cut();
    assert.deepEqual(await Promise.all(three), ["stored", "stored", "stored"]);
    assert.equal(await append(store), "stored", "there is room again");
  });
  test("do not count while no server is reachable: all are refused as not stored", async () => {
    const { store } = await open(
      { greeting: "" },
      { handshakeMillis: 100, inFlightRecordsMax: 3 }
    );
    const outcomes = await Promise.all(
      Array.from({ length: 9 }, () => append(store))
    );
    assert.deepEqual(new Set(outcomes), new Set(["unreachable"]));
  });
  test("of bytes in flight, and of a message (its headers included), are exact", async () => {
    const { fake, store } = await open();
    assert.equal(await append(store), "stored");
    const { length } = fake.plants[0]?.message ?? "";
    for (const [max, inFlight, payload] of [
      [length, "stored", "stored"],
      [length - 1, "busy", "tooLarge"]
    ] as const) {
      assert.equal(
        await append(
          await openFake([fake], { limits: { inFlightBytesMax: max } })
        ),
        inFlight
      );
      fake.script = { info: { max_payload: max } };
      assert.equal(await append(await openFake([fake])), payload);
      fake.script = {};
    }
  });
  test("let no message in that is too large to be read back: what is acknowledged can be replayed", async () => {
    const fake = await Fake.start({ onPlant: storing([]) });
    const messageBytesMax = 16_384;
    const { appendOnce = assert.fail("no keys") } = await openFake([fake], {
      limits: { messageBytesMax }
    });
    const isStored = async (length: number) => {
      const key = `${length}`.padEnd(21, "_");
      const once = () =>
        outcomeOf(appendOnce({ ...fern, name: "x".repeat(length) }, `${key}A`));
      const outcome = await once();
      if (outcome === "stored") assert.equal(await once(), "replayed");
      else assert.equal(outcome, "tooLarge");
      return outcome === "stored";
    };
    let [stored, refused] = [0, 2 * messageBytesMax];
    while (refused - stored > 1) {
      const middle = Math.floor((stored + refused) / 2);
      if (await isStored(middle)) stored = middle;
      else refused = middle;
    }
    assert.ok(
      stored > 0.6 * messageBytesMax && stored < 0.75 * messageBytesMax,
      `${stored}`
    );
  });
});

describe("closing", () => {
  test("waits for what is in flight, takes no more, and does not connect again", async () => {
    const { fake, store, warnings } = await open({ onPlant: () => undefined });
    const reported = warnings.length;
    const pending = append(store);
    await until("it is sent", () => fake.plants.length === 1);
    const closed = store.close();
    assert.equal(await append(store), "closed");
    assert.equal(fake.open, 1);
    fake.say(respond(fake.plants[0]?.reply, good));
    assert.equal(await pending, "stored");
    await closed;
    await until("the connection is closed", () => fake.open === 0);
    await openFake([fake]);
    assert.equal(fake.connections, 2, "that of the other store");
    assert.deepEqual(warnings.slice(reported), []);
  });
});
