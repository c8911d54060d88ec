/** Who listens to answers is told of each once, before it leaves: the parser's own, too. */
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { test } from "node:test";
import { createPlantHandler, type ResponseListener } from "../../src/index.ts";
import { HeldStore, listen, serve } from "../support/serving.ts";
import { exchange, post, token } from "../support/support.ts";

const timeout = 20_000;
const plant = post('{"id":1,"name":"Fern"}').toString();
const line = "POST /plants HTTP/1.1\r\nHost: a\r\n";

/** What is sent, and what is told of it: status, error, and the method where there is a request. */
const cases: readonly (readonly [says: string, bytes: string, told: readonly string[]])[] = [
  ["a plant", plant, ["200 - POST"]],
  ["two plants at once", plant + plant, ["200 - POST", "200 - POST"]],
  ["no token", `${line}\r\n`, ["401 40101 POST"]],
  ["an early answer", `${line}Content-Length: 9\r\n\r\n`, ["401 40101 POST"]],
  ["a bad body", plant.replace('"Fern"', "1     "), ["400 40014 POST"]],
  ["HEAD", plant.replace("POST", "HEAD"), ["405 40501 HEAD"]],
  ["no HTTP", "x\r\n\r\n", ["400 40001 -"]],
  ["no HTTP behind a plant", `${plant}x\r\n\r\n`, ["200 - POST", "400 40001 -"]],
  ["a chunk that is none", `${line}Transfer-Encoding: chunked\r\n\r\nx\r\n`, ["401 40101 POST"]],
  ["CONNECT", "CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n", ["401 40101 -"]],
  ["what stands behind a last answer",
    plant.replace("Host", "Connection: close\r\nHost") + plant, ["200 - POST"]],
];
for (const [says, bytes, wanted] of cases) {
  test(`each answer is told once, and each that is told comes: ${says}`, { timeout }, async () => {
    const told: string[] = [];
    const onResponse: ResponseListener = ({ status, error = "-" }, socket, response) => {
      assert.ok(socket.remotePort);
      assert.equal(response?.headersSent ?? false, false, "it has not left");
      told.push(`${status} ${error} ${response?.req.method ?? "-"}`);
    };
    const { port } = await serve({ onResponse });
    const answers = await exchange(port, bytes, { answers: wanted.length, halfClose: true,
      head: says === "HEAD" });
    assert.deepEqual(told, wanted);
    const numberOf = (body: string): string => /"error":(\d+)/.exec(body)?.[1] ?? "-";
    if (says !== "HEAD") {
      assert.deepEqual(answers.map(({ status, body }) => `${status} ${numberOf(body)}`),
        wanted.map((each) => each.replace(/ \S+$/, "")));
    }
  });
}

test("what is told of an Error is what its client reads", { timeout }, async () => {
  const told: (string | undefined)[] = [];
  const { port } = await serve({ onResponse: ({ message }) => void told.push(message) });
  const bytes = plant.replace("/plants", "/x") + plant;
  const [first] = await exchange(port, bytes, { answers: 2 });
  assert.deepEqual(told, [JSON.parse(first?.body ?? "").message, undefined]);
});

for (const [says, bytes] of [["a plant", plant], ["an early answer", `${line}\r\n`]] as const) {
  test(`a listener may set fields of its own: ${says}`, { timeout }, async () => {
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
