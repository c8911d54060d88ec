/** The handler within another's server: behind its answers, behind its hands on the request, and
 * under its paths. The README's examples run in readme.test.ts. */
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { createServer, type RequestListener, type Server } from "node:http";
import { createRequire } from "node:module";
import { join } from "node:path";
import { test } from "node:test";
import { createPlantHandler } from "../src/index.ts";
import { HeldStore, listen, open, readAll, send, statusesOf } from "./serving.ts";
import { exchange, post, token } from "./support.ts";

const timeout = 20_000;
const good = `Host: a\r\nAuthorization: Bearer ${token}\r\nContent-Type: application/json\r\n`;
const plant = post('{"id":1,"name":"Fern"}');
const store = new HeldStore();
const never = 60_000;

const slow = "GET /slow HTTP/1.1\r\nHost: a\r\n\r\n";
for (const [says, bytes, status] of [
  ["HEAD with two Hosts", `HEAD /plants HTTP/1.1\r\nHost: b\r\n${good}\r\n`, 400],
  ["HEAD that asks to close", `HEAD /plants HTTP/1.1\r\n${good}Connection: close\r\n\r\n`, 405],
  ["HEAD whose body never comes", `HEAD /plants HTTP/1.1\r\n${good}Content-Length: 9\r\n\r\n`, 405],
  ["GET with two Hosts", `GET /plants HTTP/1.1\r\nHost: b\r\n${good}\r\n`, 400],
  ["a body that never comes", `POST /x HTTP/1.1\r\n${good}Content-Length: 9\r\n\r\n`, 404],
] as const) {
  test(`our closing answer cuts off no slow answer of the host's before it: ${says}`, { timeout },
    async () => {
      const plants = createPlantHandler({ store, tokens: [token], limits: { discardMillis: 10 } });
      const server = createServer((request, response) => {
        if (request.url !== "/slow") return plants(request, response);
        // Ours has had the time that it has, when the host answers at last.
        server.once("ours", () => response.end("the host's".repeat(10_000)));
      });
      const ends = await open(server, await listen(server));
      await send(ends, slow + bytes);
      const text = readAll(ends);
      setTimeout(() => server.emit("ours"), 200);
      assert.deepEqual(statusesOf(await text), [200, status]);
      assert.ok((await text).includes("the host's".repeat(10_000)), "whole, and in its place");
    });
}

/** A host that does something to each request, and then hands it on. */
async function hostThat(does: (...args: Parameters<RequestListener>) => void | Promise<void>) {
  const limits = { discardMillis: never };
  const plants = createPlantHandler({ store, tokens: [token], limits });
  const onRequest: RequestListener = (request, response) =>
    void Promise.resolve(does(request, response)).then(() => plants(request, response));
  return listen(createServer(onRequest).on("checkContinue", onRequest));
}

const large = post(`{"id":1,"name":"${"x".repeat(500_000)}"}`);
const paused = [
  ["a plant", [plant], [200]], ["a large plant", [large], [200]],
  ["a plant in two pieces", [plant.subarray(0, -9), plant.subarray(-9)], [200]],
  ["a body that is refused early", [large.toString().replace("/plants", "/x")], [404]],
  ["and in two pieces", [large.toString().replace("/plants", "/x").slice(0, -9), "x".repeat(9)],
    [404]],
] as const;
for (const [says, parts, statuses] of paused) {
  test(`a request that the host has paused gets its answer, and so the next: ${says}`, { timeout },
    async () => {
      const port = await hostThat((request) => void request.pause());
      const found = await exchange(port, [...parts, plant], { answers: 2 });
      assert.deepEqual(found.map(({ status }) => status), [...statuses, 200]);
    });
}

for (const [says, length] of [["a body", "Content-Length: 5\r\n"], ["none", ""]] as const) {
  test(`nothing is run behind a refused Expect that the host has paused, with ${says}`, { timeout },
    async () => {
      const port = await hostThat((request) => void request.pause());
      const kept = store.names.length;
      const bytes = `POST /x HTTP/1.1\r\n${good}Expect: 100-continue\r\n${length}\r\n`;
      const [answer, ...more] = await exchange(port, bytes + plant.toString());
      assert.deepEqual([answer?.status, answer?.headers["connection"]], [404, "close"]);
      assert.deepEqual([more.length, store.names.length], [0, kept]);
    });
}

test("a body that the host has read is 50002, an empty one too", { timeout }, async () => {
  const port = await hostThat((request) =>
    new Promise((resolve) => request.resume().once("end", resolve)));
  for (const bytes of [plant, post("")]) {
    const [answer] = await exchange(port, bytes, { answers: 1 });
    assert.match(answer?.body ?? "", /^\{"error":50002,/);
  }
});

const { PLANT_TEST_PEERS: peers = "" } = process.env;
const noExpress = peers === "" ? "PLANT_TEST_PEERS names no express" : false;
if (noExpress) console.error(`embedding.test.ts: skipped: ${noExpress}`);
test("under app.use(\"/v1\", handler) the handler's own base path is empty", { skip: noExpress },
  async () => {
    assert.ok(existsSync(join(peers, "node_modules", "express")));
    const express = createRequire(join(peers, "x.js"))("express");
    for (const [basePath, status] of [["", 200], ["/v1", 404]] as const) {
      const app = express().use("/v1", createPlantHandler({ store, tokens: [token], basePath }));
      const port = await listen(createServer(app) as Server);
      const bytes = plant.toString().replace("/plants", "/v1/plants");
      const answered = await exchange(port, bytes, { answers: 1 });
      assert.deepEqual(answered.map((answer) => answer.status), [status]);
    }
  });
