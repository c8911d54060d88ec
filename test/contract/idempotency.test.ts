/** Idempotency-Key over HTTP: which keys are accepted, what a replay is, and what a key reveals. */
import assert from "node:assert/strict";
import { hash } from "node:crypto";
import { readFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { test } from "node:test";
import { setImmediate } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import {
  createPlantServer,
  type NewPlant,
  openJournal,
  type PlantOptions,
  StoreError
} from "../../src/index.ts";
import { ENOSPC, simulated } from "../support/journals.ts";
import { listen } from "../support/serving.ts";
import { answerTo, readAnswers } from "../support/exchange.ts";
import { post, temporaryFolder, token } from "../support/support.ts";

interface Sent {
  readonly key?: string;
  readonly token?: string;
  readonly plant?: string;
  readonly type?: string;
  readonly path?: string;
}

/** A server on a journal; the journal's lines; and a function that posts one plant. */
async function serving(
  options: Partial<PlantOptions> = {},
  keysBytesMax = 2 ** 24
) {
  const file = join(temporaryFolder(), "plants.ndjson");
  const journal = await openJournal(file, { limits: { keysBytesMax } });
  const summaries: unknown[] = [];
  const server = createPlantServer({
    store: journal,
    tokens: ["a", "b"],
    limits: { keysBytesMax },
    onResponse: ({ status, error, replayed }) =>
      summaries.push([status, error, replayed]),
    ...options
  });
  const port = await listen(server);
  const post = async ({
    key,
    token = "a",
    plant = '{"id":1,"name":"Fern"}',
    type = "application/json",
    path = "/plants"
  }: Sent = {}) => {
    const headers = {
      "Authorization": `Bearer ${token}`,
      "Content-Type": type,
      ...(key !== undefined && { "Idempotency-Key": key })
    };
    const response = await fetch(`http://127.0.0.1:${port}${path}`, {
      method: "POST",
      headers,
      body: plant
    });
    const body = (await response.json()) as {
      readonly error?: number;
      readonly name?: string;
      readonly message?: string;
    };
    return {
      status: response.status,
      replayed: response.headers.get("idempotency-replayed"),
      ...body
    };
  };
  const lines = () => readFileSync(file, "utf8").trimEnd().split("\n").slice(1);
  return { journal, port, post, lines, summaries };
}

const stored = { status: 200, replayed: null, name: "Fern" };
const again = { status: 200, replayed: "true", name: "Fern" };

test("a key stores its plant once, with or without quotes, however the JSON is spelled", async () => {
  const { post, lines, summaries } = await serving();
  assert.deepEqual(await post({ key: '"8e03978e-40d5"' }), stored);
  assert.deepEqual(await post({ key: "8e03978e-40d5" }), again);
  assert.deepEqual(
    await post({
      key: '"8e03978e-40d5"',
      plant: ' {"name":"F\\u0065rn", "id":1e0}'
    }),
    again
  );
  assert.equal(lines().length, 1);
  assert.deepEqual(summaries, [
    [200, undefined, undefined],
    [200, undefined, true],
    [200, undefined, true]
  ]);
});

test("the same key with another plant is a 422, and stores nothing", async () => {
  const { post, lines } = await serving();
  assert.deepEqual(await post({ key: "k" }), stored);
  for (const plant of [
    '{"id":2,"name":"Fern"}',
    '{"id":1,"name":"Moss"}',
    '{"id":1,"name":"Fern","tag":"x"}'
  ]) {
    const { status, error } = await post({ key: "k", plant });
    assert.equal(status, 422, plant);
    assert.equal(error, 42201, plant);
  }
  assert.equal(lines().length, 1);
  assert.deepEqual(await post({ key: "k" }), again);
});

for (const [says, errno, outcome, next] of [
  ["which is stored then", undefined, stored.status, 422],
  ["which fails then and frees the key", ENOSPC, 503, 200]
] as const) {
  test(`the same key with another plant is a 422 while the first is in progress, ${says}`, async () => {
    const { journal, disk, records } = await simulated();
    const { post } = await serving({ store: journal });
    const moss = { key: "k", plant: '{"id":2,"name":"Moss"}' };
    if (errno !== undefined) disk.fail("append", { errno });
    const isWriting = disk.stall();
    const first = post({ key: "k" });
    await isWriting;

    // Nothing is written before `resume`: the conflict did not wait for the first.
    assert.equal((await post(moss)).error, 42201);
    assert.equal(records().length, 0);

    disk.resume();
    assert.equal((await first).status, outcome);
    assert.equal((await post(moss)).status, next);
    assert.equal(records().length, 1);
  });
}

test("requests that wait for an equal one keep no copy of its plant", async () => {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  const heapBytes = (): number => {
    collect();
    return process.memoryUsage().heapUsed;
  };
  const plantBytes = 1_000_000;
  const count = 24;
  const request = post(
    `{"id":1,"name":"${"x".repeat(plantBytes)}"}`,
    'Idempotency-Key: "k"\r\n'
  );
  const { journal, disk, records } = await simulated({
    queueBytesMax: 2 ** 30
  });
  const server = createPlantServer({
    store: journal,
    tokens: [token],
    limits: { bodyBytesMax: 2 * plantBytes }
  });
  let arrived = 0;
  const allArrived = new Promise<void>((resolve) =>
    server.on("request", (arriving) =>
      arriving.on("end", () => {
        if (++arrived === count) resolve();
      })
    )
  );
  void disk.stall();
  const port = await listen(server);
  const before = heapBytes();
  const client = connect(port, "127.0.0.1");
  const answers = readAnswers(client, count);
  for (let sent = 0; sent < count; sent++) client.write(request);
  await allArrived;
  await setImmediate();
  const grown = heapBytes() - before;
  assert.ok(grown < (count / 4) * plantBytes, `${grown} bytes`);
  disk.resume();
  for (const { status } of await answers) assert.equal(status, 200);
  assert.equal(records().length, 1);
});

test("keys are scoped to the token: another holder's key neither replays nor conflicts", async () => {
  const { post, lines } = await serving();
  assert.deepEqual(await post({ key: "k" }), stored);
  assert.deepEqual(
    await post({ key: "k", token: "b", plant: '{"id":2,"name":"Fern"}' }),
    stored
  );
  assert.equal(lines().length, 2);
  const digests = ["a", "b"].map((token) =>
    hash(
      "sha256",
      Buffer.concat([hash("sha256", token, "buffer"), Buffer.from("k")]),
      "buffer"
    ).toString("base64url", 0, 16)
  );
  assert.deepEqual(
    lines().map((line) => (JSON.parse(line) as { key: string }).key),
    digests,
    "the record has a digest"
  );
});

const valid: readonly (readonly [key: string, same: string])[] = [
  ["a", '"a"'],
  ["x".repeat(255), `"${"x".repeat(255)}"`],
  ["a;x=1", '"a;x=1"'],
  ["!#$%&()*+-./<=>?@[]^_`{|}~", '"!#$%&()*+-./<=>?@[]^_`{|}~"'],
  ['"a b"', '"a b"'],
  [String.raw`"\"\\"`, String.raw`"\"\\"`],
  [`"${String.raw`\"`.repeat(255)}"`, `"${String.raw`\"`.repeat(255)}"`]
];
test("a key is a quoted String of RFC 9651, or the same text without quotes", async (t) => {
  const { post } = await serving();
  for (const [key, same] of valid)
    await t.test(key.slice(0, 40), async () => {
      assert.deepEqual(await post({ key }), stored);
      assert.deepEqual(await post({ key: same }), again);
    });
});

const requestWith = (fields: string, token = "a"): string =>
  `POST /plants HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${token}\r\nContent-Type: application/json\r\n${fields}` +
  'Content-Length: 22\r\n\r\n{"id":1,"name":"Fern"}';

test("a store that keeps no keys: the field is not looked at, whatever its value", async () => {
  const own: NewPlant[] = [];
  const store = {
    append: (plant: NewPlant) => Promise.resolve(void own.push(plant)),
    close: () => Promise.resolve()
  };
  for (const { post, port, lines } of [
    await serving({}, 0),
    await serving({ store })
  ]) {
    for (const key of ["a", "a", '"', "a,a"])
      assert.deepEqual(await post({ key }), stored);
    const { status } = await answerTo(
      port,
      requestWith("Idempotency-Key: a\r\nIdempotency-Key: b\r\n")
    );
    assert.equal(status, 200, "nor a repeated one");
    assert.doesNotMatch(lines().join(), /"key"/);
  }
  assert.equal(own.length, 5);
});

test("a host's own store with appendOnce gets the digest of the key and decides the response", async () => {
  const calls: (readonly [bigint, string])[] = [];
  const outcomes = [
    () => "stored" as const,
    () => "replayed" as const,
    () => {
      throw new StoreError("conflict", "x");
    }
  ];
  const store = {
    append: () => Promise.reject(new Error("not called")),
    appendOnce: async ({ id }: NewPlant, key: string) => {
      calls.push([id, key]);
      return outcomes[calls.length - 1]?.() ?? "stored";
    },
    close: () => Promise.resolve()
  };
  const { post } = await serving({ store });
  assert.deepEqual(await post({ key: "k" }), stored);
  assert.deepEqual(await post({ key: '"k"' }), again);
  assert.equal((await post({ key: "k" })).error, 42201);
  assert.equal(new Set(calls.map(([, key]) => key)).size, 1);
  assert.match(calls[0]?.[1] ?? "", /^[\w-]{21}[AQgw]$/);
});

test("after a refusal the key is free, for another plant, too", async () => {
  const { post, lines } = await serving();
  assert.equal((await post({ key: "k", type: "text/plain" })).status, 415);
  assert.equal((await post({ key: "k", plant: "{}" })).status, 400);
  assert.deepEqual(await post({ key: "k" }), stored);
  assert.equal(lines().length, 1);
});
