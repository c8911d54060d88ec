/** Journals into a stream and back: the same plants, record for record, whatever happens between.
 * PLANT_TEST_CLUSTER_ROUNDS=10 makes it 100,000 records, and kills the leader. */
import assert from "node:assert/strict";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, describe, test } from "node:test";
import type { NatsStore } from "../../src/nats/nats.ts";
import {
  decodeMessage,
  encodeMessage,
  fromMessage,
  toMessage
} from "../../src/nats/message.ts";
import { openToRead } from "../../src/journal/files.ts";
import { openJournal } from "../../src/journal/journal.ts";
import { fillChecksums } from "../../src/journal/record.ts";
import { verifyJournal } from "../../src/journal/verify.ts";
import {
  exportStream,
  importJournals
} from "../../src/program/journals/transfer.ts";
import type { OnProgress } from "../../src/program/journals/verify.ts";
import { run } from "../support/in-process.ts";
import { temporaryFolder } from "../support/support.ts";
import { Cluster, until, withCluster, type OpenOptions } from "./cluster.ts";
import { ack, Fake, found, holding, openFake, refused } from "./fake.ts";
import { proxied } from "./load.ts";

const isLong = Number(process.env["PLANT_TEST_CLUSTER_ROUNDS"] ?? 1) > 1;
const records = isLong ? 100_000 : 5_000;
const timeout = 240_000;
const cluster = await Cluster.start();
const folder = temporaryFolder();
const ignore: OnProgress = () => undefined;
let streams = 0;

/** A store on a stream of its own, and what opens another one on it. */
async function begin(
  changes: Readonly<Record<string, unknown>> = {},
  options: OpenOptions = {}
) {
  const stream = `moved${++streams}`;
  await cluster.create(stream, changes);
  const reopen = async (): Promise<NatsStore> => {
    const store = await cluster.open(stream, { user: "admin", ...options });
    after(() => store.close());
    return store;
  };
  return { stream, reopen, store: await reopen() };
}

/** A journal of so many plants: long ones, escaped ones, ids at the ends of int64. */
async function journalOf(
  name: string,
  count: number,
  firstId = 1
): Promise<string> {
  const path = join(folder, name);
  const journal = await openJournal(path);
  for (let first = 0; first < count; first += 1_000) {
    await Promise.all(
      Array.from({ length: Math.min(1_000, count - first) }, (_, index) => {
        const n = firstId + first + index;
        const id = n % 1_000 === 7 ? 2n ** 63n - BigInt(n) : BigInt(n);
        const name =
          n % 100 === 3 ? 'Fern ä€😀\n\u0000"\\'.repeat(n % 50) : `Fern ${n}`;
        return journal.append(
          n % 3 === 0 ? { id, name } : { id, name, tag: "shade" }
        );
      })
    );
  }
  await journal.close();
  return path;
}

const plantsOf = (path: string): readonly string[] =>
  readFileSync(path, "utf8")
    .trimEnd()
    .split("\n")
    .slice(1)
    .map((line) =>
      /^\{"seq":\d+,("at":"[^"]+"),"synced":\d+,((?:"key":"[^"]+",)?"plant":.*),"crc"/.exec(
        line
      )
    )
    .map((match) => `${match?.[1]}${match?.[2]}`);

/** Puts clean journals into the stream; returns how many records were sent. */
const imported = (
  store: NatsStore,
  paths: readonly string[],
  onProgress = ignore
) => importJournals(store, paths, paths.flatMap(plantsOf).length, onProgress);

/** The exported journal, after `verify` found nothing in it. */
async function exported(
  store: NatsStore,
  name: string
): Promise<readonly string[]> {
  const path = join(folder, name);
  const count = await exportStream(store, path, ignore);
  const { spots, records: verified, opening } = verifyJournal(openToRead(path));
  assert.deepEqual(spots, []);
  assert.equal(verified, count);
  assert.equal(opening, "uses it as it is");
  return plantsOf(path);
}

describe("a message of a stream", () => {
  const at = "2026-11-21T10:47:01.578Z";
  const plant = '{"id":9007199254740993,"name":"Fern"}';
  const key = "AAAAAAAAAAAAAAAAAAAAAA";
  const message = encodeMessage(at, plant);
  const line =
    '{"seq":7,"at":"2026-11-21T10:47:01.578Z","synced":133,"plant":{"id":9007199254740993,"name":"Fern"}';

  test("becomes a line of a journal, and a line becomes a message", () => {
    const text = fromMessage(message, 7, 133) ?? "";
    assert.ok(text.startsWith(line));
    assert.deepEqual(toMessage(fillChecksums(text).subarray(0, -1)), message);
  });
  test("has its key between time and plant", () => {
    const keyed = encodeMessage(at, plant, key);
    assert.match(
      keyed.toString(),
      new RegExp(`^\\{"at":"${at}","key":"${key}","plant":`)
    );
    assert.deepEqual(decodeMessage(keyed), { at, key, plant });
    assert.deepEqual(decodeMessage(message), { at, key: undefined, plant });
    const text = fromMessage(keyed, 7, 133) ?? "";
    assert.match(text, new RegExp(`"synced":133,"key":"${key}","plant":`));
    assert.deepEqual(toMessage(fillChecksums(text).subarray(0, -1)), keyed);
    const odd = encodeMessage(at, plant, key.replace(/A$/, "B"));
    assert.equal(
      fromMessage(odd, 7, 133),
      undefined,
      "the last character carries four zero bits"
    );
  });
  for (const [what, change] of [
    [
      "a bad checksum",
      (text: string) => text.replace(/[\da-f]{8}"}$/, '00000000"}')
    ],
    [
      "another name under the old checksum",
      (text: string) => text.replace("Fern", "Moss")
    ],
    ["a byte more", (text: string) => `${text} `],
    [
      "another member",
      (text: string) => text.replace('"plant"', '"x":1,"plant"')
    ],
    ["no plant", () => "{}"]
  ] as const) {
    test(`with ${what} is not a record, nor is a line`, () => {
      assert.equal(
        fromMessage(Buffer.from(change(message.toString())), 1, 133),
        undefined
      );
      const whole = fillChecksums(`${fromMessage(message, 7, 133)}`)
        .toString()
        .trimEnd();
      assert.equal(toMessage(Buffer.from(change(whole))), undefined);
    });
  }
  for (const text of ["7", "[]", "{", "{7}", '{"id":1', '{"id":1,\n}']) {
    test(`with the plant ${JSON.stringify(text)} is not a record`, () => {
      const other = encodeMessage(at, text);
      assert.equal(fromMessage(other, 1, 133), undefined);
    });
  }
  test("with an object that is no plant by today's schema is a record", () => {
    const old = fromMessage(encodeMessage(at, '{"id":1}'), 1, 133) ?? "";
    assert.match(old, /"plant":\{"id":1\},/);
  });
});

describe("a resumed import", { timeout }, () => {
  test("compares hundreds of messages at once, and then sends the rest", async () => {
    const path = await journalOf("resumed.ndjson", 300);
    const messages = readFileSync(path, "utf8")
      .trimEnd()
      .split("\n")
      .slice(1)
      .map((line) => toMessage(Buffer.from(line)) ?? assert.fail(line));
    const waiting: string[] = [];
    let isReleased = false;
    const fake = await Fake.start({
      stream: holding(250),
      onPlant: ({ subject, reply, payload, headers }, _, server) => {
        if (!subject.includes("MSG.GET"))
          return ack(Number(/Sequence: (\d+)/.exec(headers)?.[1]) + 1);
        const { seq } = JSON.parse(payload) as { seq: number };
        const text = found(seq, messages[seq - 1] ?? "");
        waiting.push(`MSG ${reply} 1 ${text.length}\r\n${text}\r\n`);
        if (waiting.length === 250) isReleased = true;
        if (isReleased) server.say(waiting.splice(0).join(""));
        return undefined;
      }
    });
    const done: number[] = [];
    const count = await importJournals(
      await openFake([fake]),
      [path],
      300,
      (seq, all) => {
        assert.equal(all, 300);
        done.push(seq);
      }
    );
    assert.equal(count, 50);
    assert.ok(done.includes(250), "nothing is sent before all is compared");
    assert.equal(done.at(-1), 300);
  });
});

describe("moving journals", { ...withCluster, timeout }, () => {
  test(`${records} records${isLong ? ", the leader killed in the middle" : ""}, run twice: the same plants`, async () => {
    const { store, stream } = await begin();
    const paths = [
      await journalOf("a.ndjson", records * 0.9),
      await journalOf("b.ndjson", records * 0.1, records)
    ];
    let killed: Promise<void> | undefined;
    const onProgress = (done: number, all: number): void => {
      if (killed || !isLong || done < all / 2) return;
      killed = cluster.leader(stream).then(async (leader) => {
        await cluster.kill(leader);
        cluster.restart(leader);
        await cluster.ready(leader);
      });
    };
    assert.equal(await imported(store, paths, onProgress), records);
    assert.equal(killed !== undefined, isLong, "the fault fired");
    await killed;
    assert.equal(await imported(store, paths), 0);
    assert.deepEqual(
      await exported(store, "back.ndjson"),
      paths.flatMap(plantsOf)
    );
    await store.append({ id: 1n, name: "later" });
    await refused(
      imported(store, paths),
      "data",
      new RegExp(
        `the stream has messages after the ${records} records: import into an empty stream`
      )
    );
  });
  test("each record keeps its key, also where a journal has one key twice", async () => {
    const { store } = await begin();
    const path = join(folder, "keys.ndjson");
    const journal = await openJournal(path, { limits: { keysBytesMax: 1 } });
    for (const [id, letter] of [
      [1n, "A"],
      [2n, "Q"],
      [3n, "A"]
    ] as const)
      assert.equal(
        await journal.appendOnce?.({ id, name: "Fern" }, letter.repeat(22)),
        "stored"
      );
    await journal.close();
    assert.equal(await imported(store, [path]), 3);
    assert.equal(await imported(store, [path]), 0);
    assert.deepEqual(await exported(store, "keys2.ndjson"), plantsOf(path));
    assert.equal(
      plantsOf(path).filter((plant) =>
        plant.includes(`"key":"${"A".repeat(22)}"`)
      ).length,
      2
    );
  });
  test("stopped anywhere, it continues after the last record that is there", async () => {
    const { store } = await begin();
    assert.deepEqual(
      await exported(store, "empty.ndjson"),
      [],
      "an empty stream has no records"
    );
    const path = await journalOf("c.ndjson", 1_000);
    const lines = readFileSync(path, "utf8").split("\n");
    let there = 0;
    for (const end of [1, 2, 400, 401, 1_001]) {
      const part = join(folder, "part.ndjson");
      writeFileSync(part, `${lines.slice(0, end).join("\n")}\n`);
      assert.equal(await imported(store, [part]), end - 1 - there);
      there = end - 1;
    }
    assert.deepEqual(await exported(store, "c2.ndjson"), plantsOf(path));
  });
  test("acknowledgements lost and connections cut: each record once", async () => {
    const { proxies, ports } = await proxied(cluster);
    const { store } = await begin({}, { ports });
    const path = await journalOf("d.ndjson", 2_000);
    let next = 0;
    let cuts = 0;
    const onProgress = (done: number, all: number): void => {
      // One trouble after the other.
      if (done < next || proxies.some(({ isMute }) => isMute)) return;
      next += all / 5;
      for (const proxy of proxies) proxy.isMute = true;
      void until("something is lost", () =>
        proxies.some(({ lost }) => lost > 0)
      ).then(() => {
        cuts++;
        for (const proxy of proxies) {
          proxy.isMute = false;
          proxy.lost = 0;
          proxy.cut();
        }
      });
    };
    await imported(store, [path], onProgress);
    assert.ok(cuts > 1, "the fault fired");
    assert.deepEqual(await exported(store, "d2.ndjson"), plantsOf(path));
  });
  test("a stream that holds something else is refused, and left as it is", async () => {
    const { store, stream } = await begin();
    await store.append({ id: 1n, name: "another" });
    const path = await journalOf("e.ndjson", 10);
    await refused(
      imported(store, [path]),
      "data",
      /message 1 of the stream is not record 1 of the journals: import into an empty stream/
    );
    assert.equal((await cluster.read(stream)).length, 1);
  });
  test("another client's message among the records is never taken for one, however often it is begun", async () => {
    const { store, stream, reopen } = await begin(
      {},
      { limits: { appendMillis: 1_500 } }
    );
    const other = await reopen();
    const path = await journalOf("s.ndjson", 3_000);
    let stranger: Promise<unknown> | undefined;
    const onProgress: OnProgress = (done) => {
      if (done > 600) stranger ??= other.append({ id: 1n, name: "a stranger" });
    };
    await assert.rejects(imported(store, [path], onProgress));
    assert.ok(stranger, "the fault fired");
    await stranger;
    const texts = await cluster.read(stream);
    const seq = texts.findIndex((text) => text.includes("a stranger")) + 1;
    assert.ok(
      seq > 1 && seq < texts.length,
      `records stand after it: ${seq} of ${texts.length}`
    );
    const message = new RegExp(
      `message ${seq} of the stream is not record ${seq} `
    );
    for (let turn = 0; turn < 2; turn++)
      await refused(imported(await reopen(), [path]), "data", message);
  });
  test("a damaged journal is refused with its offset, and none of it is imported", async () => {
    const { stream } = await begin();
    const env = cluster.env(stream, "admin");
    const path = await journalOf("g.ndjson", 20);
    const text = readFileSync(path, "utf8");
    const offset = Buffer.byteLength(text.slice(0, text.indexOf('{"seq":11,')));
    const cases = [
      [
        text.replace('"name":"Fern 11"', '"name":"Fern 99"'),
        `at offset ${offset}: .*checksum`
      ],
      ['{"id":1}\n', "at offset 0: expected the header of a journal"],
      [
        `${text}{"seq":6,"at":"2026`,
        `at offset ${Buffer.byteLength(text)}: the last 19 bytes are not a whole line`
      ],
      [
        text.slice(0, -1),
        "at offset \\d+: the last \\d+ bytes are not a whole line"
      ],
      ["", "opening creates a new journal: serve it once before"],
      [
        text,
        "opening removes .rewrite, then uses it as it is: serve it once before"
      ]
    ] as const;
    const clean = await journalOf("clean.ndjson", 2);
    for (const [content, reason] of cases) {
      writeFileSync(path, content);
      if (content === text) writeFileSync(`${path}.rewrite`, "");
      const { code, stderr } = await run(["import", clean, path], env, folder);
      assert.equal(code, 65, stderr);
      assert.match(stderr, new RegExp(`g\\.ndjson: ${reason}`));
    }
    assert.equal((await cluster.read(stream)).length, 0);
  });
  test("journals that change while they are imported are refused", async () => {
    const path = await journalOf("k.ndjson", 5);
    for (const expected of [6, 4]) {
      const { store } = await begin();
      await refused(
        importJournals(store, [path], expected, ignore),
        "data",
        new RegExp(
          `a journal changed during the import: expected ${expected} records`
        )
      );
    }
  });
  test("a stream with holes is refused", async () => {
    const { store, stream } = await begin({ deny_delete: false });
    for (let id = 1; id <= 5; id++)
      await store.append({ id: BigInt(id), name: "Fern" });
    const { success } = await cluster.admin<{ success?: boolean }>(
      `STREAM.MSG.DELETE.${stream}`,
      { seq: 3, no_erase: true }
    );
    assert.equal(success, true);
    await refused(
      exportStream(store, join(folder, "holes.ndjson"), ignore),
      "data",
      /has 4 of the messages 1 to 5/
    );
  });
  test("what came to be at the path meanwhile is kept, and nothing is left beside it", async () => {
    const { store } = await begin();
    await imported(store, [await journalOf("t.ndjson", 100)]);
    const path = join(folder, "meanwhile.ndjson");
    const onProgress: OnProgress = () =>
      writeFileSync(path, "a journal in use");
    await assert.rejects(exportStream(store, path, onProgress), {
      code: "EEXIST"
    });
    assert.equal(readFileSync(path, "utf8"), "a journal in use");
    assert.deepEqual(
      readdirSync(folder).filter((name) => name.startsWith("meanwhile.")),
      ["meanwhile.ndjson"]
    );
  });
  test("of two exports to one path one is refused, and the other is whole", async () => {
    const { store } = await begin();
    const from = await journalOf("u.ndjson", 500);
    await imported(store, [from]);
    const path = join(folder, "both.ndjson");
    const ended = await Promise.allSettled(
      [1, 2].map(() => exportStream(store, path, ignore))
    );
    assert.deepEqual(ended.map(({ status }) => status).sort(), [
      "fulfilled",
      "rejected"
    ]);
    assert.deepEqual(plantsOf(path), plantsOf(from));
  });
  test("a message that is not a record is refused", async () => {
    const { store } = await begin();
    await store.publishAfter(0, Buffer.from('{"id":1}'));
    await refused(
      exportStream(store, join(folder, "bad.ndjson"), ignore),
      "data",
      /message 1 of the stream is missing, or not a record/
    );
  });
});
