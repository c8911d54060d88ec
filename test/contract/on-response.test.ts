/** onResponse: called once with each response before it leaves, also after a parser error. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { test } from "node:test";
import { createPlantHandler, openJournal, type ResponseListener } from "../../src/index.ts";
import { HeldStore, listen, serve } from "../support/serving.ts";
import { exchange, post, temporaryFolder, token } from "../support/support.ts";

const timeout = 20_000;
const plant = post('{"id":1,"name":"Fern"}').toString();
const line = "POST /plants HTTP/1.1\r\nHost: a\r\n";

/** What is sent, and what is reported of each response: status, number, method of the request. */
const cases: readonly (readonly [what: string, bytes: string, reported: readonly string[]])[] = [
  ["a plant", plant, ["200 - POST"]],
  ["two plants at once", plant + plant, ["200 - POST", "200 - POST"]],
  ["no token", `${line}\r\n`, ["401 40101 POST"]],
  ["an early response", `${line}Content-Length: 9\r\n\r\n`, ["401 40101 POST"]],
  ["a bad body", plant.replace('"Fern"', "1     "), ["400 40014 POST"]],
  ["HEAD", plant.replace("POST", "HEAD"), ["405 40501 HEAD"]],
  ["garbage", "x\r\n\r\n", ["400 40001 -"]],
  ["garbage after a plant", `${plant}x\r\n\r\n`, ["200 - POST", "400 40001 -"]],
  ["an invalid chunk", `${line}Transfer-Encoding: chunked\r\n\r\nx\r\n`, ["401 40101 POST"]],
  ["CONNECT", "CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n", ["401 40101 -"]],
  ["a request after a last response",
    plant.replace("Host", "Connection: close\r\nHost") + plant, ["200 - POST"]],
];
for (const [what, bytes, wanted] of cases) {
  test(`onResponse is called once with each response that the client gets: ${what}`, { timeout }, async () => {
    const reported: string[] = [];
    const onResponse: ResponseListener = ({ status, error = "-" }, socket, response) => {
      assert.ok(socket.remotePort);
      assert.equal(response?.headersSent ?? false, false, "it has not left");
      reported.push(`${status} ${error} ${response?.req.method ?? "-"}`);
    };
    const { port } = await serve({ onResponse });
    const answers = await exchange(port, bytes, { answers: wanted.length, halfClose: true,
      head: what === "HEAD" });
    assert.deepEqual(reported, wanted);
    const numberOf = (body: string): string => /"error":(\d+)/.exec(body)?.[1] ?? "-";
    if (what !== "HEAD") {
      assert.deepEqual(answers.map(({ status, body }) => `${status} ${numberOf(body)}`),
        wanted.map((each) => each.replace(/ \S+$/, "")));
    }
  });
}

test("onResponse gets the message that the client reads", { timeout }, async () => {
  const reported: (string | undefined)[] = [];
  const { port } = await serve({ onResponse: ({ message }) => void reported.push(message) });
  const bytes = plant.replace("/plants", "/x") + plant;
  const [first] = await exchange(port, bytes, { answers: 2 });
  assert.deepEqual(reported, [JSON.parse(first?.body ?? "").message, undefined]);
});

test("onResponse gets the receipt of a stored plant, if the store gives one, and none of a replay", { timeout }, async () => {
  const receipts: unknown[] = [];
  const outcomes = [{ seq: 7, file: "f" }, { seq: 8 }, undefined, "stored"];
  const append = async () => outcomes.shift() as { seq: number };
  const store = { append, appendOnce: async () => "replayed" as const, close: async () => {} };
  const { port } = await serve({ store, onResponse: ({ receipt }) => void receipts.push(receipt) });
  const replay = plant.replace("Host", "Idempotency-Key: k\r\nHost");
  await exchange(port, plant.repeat(4) + replay + plant.replace("/plants", "/x"), { answers: 6 });
  assert.deepEqual(receipts, [{ seq: 7, file: "f" }, { seq: 8 }, undefined, undefined, undefined, undefined]);
});

test("the receipt of a journal is the record's number and its file's id, with a key, too, and for a library's caller", { timeout }, async () => {
  const path = join(temporaryFolder(), "plants.ndjson");
  const store = await openJournal(path);
  const receipts: unknown[] = [];
  const { port } = await serve({ store, onResponse: ({ receipt }) => void receipts.push(receipt) });
  const keyed = plant.replace("Host", "Idempotency-Key: k\r\nHost");
  await exchange(port, plant + keyed, { answers: 2 });
  await exchange(port, keyed, { answers: 1 });
  receipts.push(await store.append({ id: 2n, name: "Moss" }));
  await store.close();
  const [{ file }, ...records] = readFileSync(path, "utf8").trim().split("\n").map((each) => JSON.parse(each));
  const [first, second, third] = records.map(({ seq }) => ({ seq, file }));
  assert.deepEqual(receipts, [first, second, undefined, third]);
});

for (const [what, bytes] of [["a plant", plant], ["an early response", `${line}\r\n`]] as const) {
  test(`onResponse may set header fields: ${what}`, { timeout }, async () => {
    const onResponse: ResponseListener = (_answer, _socket, response) =>
      void response?.setHeader("X-Request-Id", "7");
    const handler = createPlantHandler({ store: new HeldStore(), tokens: [token], onResponse });
    for (const port of [(await serve({ onResponse })).port, await listen(createServer(handler))]) {
      const [answer] = await exchange(port, bytes, { answers: 1 });
      assert.equal(answer?.headers["x-request-id"], "7");
      assert.equal(answer.headers["content-type"], "application/json");
    }
  });
}
