/** How requests and connections end: resets, late bodies, closing answers, half-closes, drains. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer as createHttpServer } from "node:http";
import { connect, type AddressInfo, type Server } from "node:net";
import { join } from "node:path";
import { after, test } from "node:test";
import { connect as connectTls } from "node:tls";
import { createPlantHandler, createPlantServer, StoreError } from "../../src/index.ts";
import type { NewPlant, PlantStore } from "../../src/index.ts";
import {
  exchange, post, readAnswers, start, temporaryFolder, token, type Running,
} from "../support/support.ts";

const plant = (id: number): Buffer => post(`{"id":${id},"name":"Fern"}`);
const head = `Host: a\r\nAuthorization: Bearer ${token}\r\nContent-Type: application/json\r\n`;
const statuses = (answers: readonly { readonly status: number }[]): readonly number[] =>
  answers.map(({ status }) => status);

/** A store that lets a test decide when a plant is kept, and how it fails. */
class SlowStore implements PlantStore {
  readonly kept: NewPlant[] = [];
  release: () => void = () => undefined;
  failure: unknown;
  async append(plantGiven: NewPlant): Promise<void> {
    if (this.failure !== undefined) throw this.failure;
    await new Promise<void>((resolve) => { this.release = resolve; });
    this.kept.push(plantGiven);
  }
  close(): Promise<void> {
    return Promise.resolve();
  }
}

async function listen(server: Server): Promise<number> {
  await once(server.listen(0, "127.0.0.1"), "listening");
  after(() => server.close());
  const address: AddressInfo | string | null = server.address();
  return typeof address === "object" && address ? address.port : 0;
}

/** Ends after the callback: whatever it did, the server serves on and says nothing. */
async function survives(server: Running, work: () => Promise<void>): Promise<void> {
  await work();
  assert.deepEqual(statuses(await exchange(server.port, plant(99), { answers: 1 })), [200]);
  assert.equal(await server.end(), 0, server.stderr());
  assert.equal(server.stderr(), "");
}

test("a CONNECT that is reset ends nothing, whenever the reset comes", async () => {
  const server = await start();
  await survives(server, async () => {
    for (const [before, waits] of [["", false], ["", true], [plant(1), false]] as const) {
      for (let round = 0; round < 5; round++) {
        const socket = connect(server.port, "127.0.0.1");
        socket.on("error", () => undefined);
        await once(socket, "connect");
        socket.write(before);
        socket.write("CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n");
        if (waits) await once(socket, "data");
        else await exchange(server.port, plant(2), { answers: 1 });
        socket.resetAndDestroy();
        await exchange(server.port, plant(3), { answers: 1 });
      }
    }
  });
});

test("a body that ends after its 408 stores nothing, and ends nothing", async () => {
  const cwd = temporaryFolder();
  const args = ["--request-timeout", "200", "--head-timeout", "200", "--timeout-check", "20"];
  const server = await start({ cwd, args });
  await survives(server, async () => {
    const bytes = post('{"id":408,"name":"a"}');
    const socket = connect({ port: server.port, host: "127.0.0.1", allowHalfOpen: true });
    const answered = readAnswers(socket, 1);
    socket.write(bytes.subarray(0, -9));
    assert.deepEqual(statuses(await answered), [408]);
    socket.end(bytes.subarray(-9));
    await once(socket, "close");
  });
  assert.doesNotMatch(readFileSync(join(cwd, "plants.ndjson"), "utf8"), /"id":408/);
});

test("a body in a million chunks weighs little more than its bytes", async () => {
  const server = await start();
  await survives(server, async () => {
    const socket = connect(server.port, "127.0.0.1");
    await once(socket, "connect");
    socket.write(`POST /plants HTTP/1.1\r\n${head}Transfer-Encoding: chunked\r\n\r\n`);
    const start = "1\r\n \r\n".repeat(1_000_000);
    await new Promise<void>((resolve) => socket.write(start, () => resolve()));
    // The last byte over the limit is answered when all before it have been read.
    const answered = readAnswers(socket, 1);
    socket.write("1\r\n \r\n".repeat(48_577));
    assert.deepEqual(statuses(await answered), [413]);
    const status = readFileSync(`/proc/${server.process.pid}/status`, "utf8");
    const peak = Number(/VmHWM:\s+(\d+) kB/.exec(status)?.[1]);
    assert.ok(peak > 0 && peak < 200_000, `${peak} kB`);
    socket.destroy();
  });
});

const closing: readonly (readonly [says: string, bytes: string, status: number])[] = [
  ["HEAD with Expect",
    `HEAD /plants HTTP/1.1\r\n${head}Content-Length: 5\r\nExpect: x\r\n\r\n`, 405],
  ["HEAD with two Hosts", `HEAD /plants HTTP/1.1\r\nHost: b\r\n${head}\r\n`, 400],
  ["two Hosts", `GET /x HTTP/1.1\r\nHost: b\r\n${head}\r\n`, 400],
  ["a length over all", `POST /x HTTP/1.1\r\n${head}Content-Length: 99999999\r\n\r\n`, 404],
  ["CONNECT", `CONNECT a:1 HTTP/1.1\r\n${head}\r\n`, 405],
  ["garbage", "garbage\r\n\r\n", 400],
];

test("a closing answer stands behind all before it, and swallows none", async (t) => {
  const server = await start();
  const refused = "GET /x HTTP/1.1\r\nHost: a\r\n\r\n";
  for (const [says, bytes, status] of closing) {
    await t.test(says, async () => {
      const socket = connect(server.port, "127.0.0.1").setEncoding("latin1");
      let text = "";
      socket.on("data", (more: string) => { text += more; });
      socket.write(Buffer.concat([plant(1), Buffer.from(refused + refused + bytes), plant(2)]));
      await once(socket, "close");
      const seen = [...text.matchAll(/HTTP\/1\.1 (\d+) /g)].map(([, code]) => Number(code));
      assert.deepEqual(seen, [200, 401, 401, status]);
    });
  }
  await server.end();
});

test("a closing answer to a whole request is seen by who goes on writing", async () => {
  const server = await start();
  for (let round = 0; round < 10; round++) {
    const flood = [`GET /x HTTP/1.1\r\nHost: b\r\n${head}\r\n`, "x".repeat(8 * 1024 * 1024)];
    assert.deepEqual(statuses(await exchange(server.port, flood)), [400]);
  }
  await server.end();
});

test("over TLS too, who half-closes after a request gets the answer", async () => {
  const cwd = temporaryFolder();
  execFileSync("openssl", ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "key",
    "-out", "cert", "-days", "1", "-subj", "/CN=localhost"], { cwd, stdio: "ignore" });
  const tls = { key: readFileSync(join(cwd, "key")), cert: readFileSync(join(cwd, "cert")) };
  const store = new SlowStore();
  const server = createPlantServer({ store, tokens: [token], tls });
  const port = await listen(server);
  const socket = connectTls({ socket: connect({ port, host: "127.0.0.1", allowHalfOpen: true }),
    ca: tls.cert, checkServerIdentity: () => undefined });
  const answers = readAnswers(socket, 1);
  await once(socket, "secureConnect");
  const ended = new Promise((resolve) => server.once("request", (request) =>
    request.socket.once("end", resolve)));
  socket.end(plant(1));
  await ended;
  store.release();
  assert.deepEqual(statuses(await answers), [200]);
  assert.equal(await server.drain(), true);
});

const idle: readonly (readonly [says: string, bytes: string])[] = [
  ["nothing sent", ""], ["half a head", "POST /plants HT"], ["a line break", "\r\n"],
  ["an answered request", "GET /x HTTP/1.1\r\nHost: a\r\n\r\n"],
];

test("a drain waits for no connection that has nothing under way", async (t) => {
  for (const [says, bytes] of idle) {
    await t.test(says, async () => {
      const server = await start({ args: ["--drain-timeout", "60000"] });
      const socket = connect(server.port, "127.0.0.1");
      await once(socket, "connect");
      socket.write(bytes);
      if (bytes.startsWith("GET")) await once(socket, "data");
      await exchange(server.port, plant(1), { answers: 1 });
      assert.equal(await server.end(), 0);
      socket.destroy();
    });
  }
});

test("a host that answers first, or a store with errors of its own, ends nothing", async (t) => {
  const store = new SlowStore();
  const faults: unknown[] = [];
  const handler = createPlantHandler({
    store, tokens: [token], onFault: (error) => void faults.push(error),
  });
  const server = createHttpServer((request, response) => {
    handler(request, response);
    if (request.url === "/plants?first") response.writeHead(504, { "Content-Length": 0 }).end();
  });
  const port = await listen(server);
  await t.test("the host answers first", async () => {
    const first = plant(1).toString().replace("/plants", "/plants?first");
    assert.deepEqual(statuses(await exchange(port, first, { answers: 1 })), [504]);
    store.release();
  });
  const failures: readonly (readonly [unknown, number, RegExp])[] = [
    [new Error("inside"), 500, /unknown whether the plant was stored/],
    [new StoreError("invalid", "inside"), 500, /nothing was stored/],
    [Object.assign(new StoreError("full", "inside"), { code: "toString" }), 500, /unknown whether/],
  ];
  for (const [failure, status, message] of failures) {
    await t.test(`${String(failure)} is ${status}`, async () => {
      store.failure = failure;
      const [answer] = await exchange(port, plant(2), { answers: 1 });
      assert.equal(answer?.status, status);
      assert.match(answer.body, message);
      assert.doesNotMatch(answer.body, /inside/);
    });
  }
  assert.equal(faults.length, 3);
});
