/** What stands behind a request on its connection: executed and answered, or neither. Each of
 * these the fuzzer (fuzz.test.ts) has found. */
import assert from "node:assert/strict";
import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import { connect } from "node:net";
import { after, test } from "node:test";
import { createPlantServer } from "../../src/index.ts";
import type { NewPlant, PlantStore } from "../../src/index.ts";
import { exchange, post, readAnswers, token } from "../support/support.ts";

const timeout = 20_000;
const good = `Host: a\r\nAuthorization: Bearer ${token}\r\nContent-Type: application/json\r\n`;
const plant = (name: string, fields = ""): Buffer => post(`{"id":1,"name":"${name}"}`, fields);
const behind = plant("behind");

/** A server whose store is a list of names; `ready` holds every append back. */
async function serve(ready: Promise<unknown> = Promise.resolve()) {
  const names: string[] = [];
  const store: PlantStore = {
    async append({ name }: NewPlant) {
      await ready;
      names.push(name);
    },
    close: () => Promise.resolve(),
  };
  const server = createPlantServer({ store, tokens: [token], limits: { idleMillis: 1_000 } });
  await once(server.listen(0, "127.0.0.1"), "listening");
  after(() => {
    server.close();
    server.closeAllConnections();
  });
  const address = server.address();
  return { server, names, port: typeof address === "object" && address ? address.port : 0 };
}

const expect = "Expect: 100-continue\r\n";
for (const [says, bytes] of [
  ["without a body", `POST /x HTTP/1.1\r\n${good}${expect}\r\n`],
  ["with an empty body", `POST /x HTTP/1.1\r\n${good}${expect}Content-Length: 0\r\n\r\n`],
  ["with its body", `POST /x HTTP/1.1\r\n${good}${expect}Content-Length: 2\r\n\r\nab`],
  ["of another method", `GET /plants HTTP/1.1\r\n${good}${expect}\r\n`],
] as const) {
  test(`nothing is executed behind a refused Expect ${says}, whose answer closes`, { timeout },
    async () => {
      const { port, names } = await serve();
      const answers = await exchange(port, Buffer.concat([Buffer.from(bytes), behind]));
      assert.equal(answers[0]?.headers["connection"], "close");
      assert.equal(answers.length, 1);
      assert.deepEqual(names, []);
    });
}

const upgrade = "Connection: upgrade\r\nUpgrade: h2c\r\n";
for (const [says, first] of [
  ["a plant", plant("first", upgrade)],
  ["a refusal", Buffer.from(`GET /x HTTP/1.1\r\n${good}${upgrade}\r\n`)],
] as const) {
  test(`what stands behind an Upgrade is answered, or ${says} is the last answer`, { timeout },
    async () => {
      const { port, names } = await serve();
      const answers = await exchange(port, Buffer.concat([first, behind]), { answers: 2 });
      const isLast = answers[0]?.headers["connection"] === "close";
      assert.equal(answers.length, isLast ? 1 : 2);
      assert.equal(names.includes("behind"), !isLast);
    });
}

test("nothing is executed behind an ambiguous request of who has gone", { timeout }, async () => {
  const { server, port, names } = await serve();
  // As when the write of an answer before it has failed.
  server.prependOnceListener("request", (request: IncomingMessage) => request.socket.destroy());
  const ambiguous = `GET / HTTP/1.1\r\nHost: b\r\n${good}\r\n`;
  await exchange(port, Buffer.concat([Buffer.from(ambiguous), behind]));
  assert.equal((await exchange(port, plant("honest"), { answers: 1 }))[0]?.status, 200);
  assert.deepEqual(names, ["honest"]);
});

test("garbage and a half-close behind a plant are answered 400, behind its 200", { timeout },
  async () => {
    let release = (): void => undefined;
    const { server, port, names } = await serve(new Promise<void>((resolve) => {
      release = resolve;
    }));
    server.once("request", (request) => request.socket.once("end", () => setImmediate(release)));
    const bytes = Buffer.concat([plant("first"), Buffer.from("garbage\r\n\r\n")]);
    const answers = await exchange(port, bytes, { halfClose: true });
    assert.deepEqual(answers.map(({ status }) => status), [200, 400]);
    assert.deepEqual(names, ["first"]);
  });

test("a request behind one that closes is not even begun, in whatever segment it comes",
  { timeout }, async () => {
    const { port, names } = await serve();
    const socket = connect(port, "127.0.0.1").resume();
    socket.write(plant("first", "Connection: close\r\n"));
    socket.write(behind);
    await new Promise((resolve) => socket.on("error", () => undefined).once("close", resolve));
    assert.deepEqual(names, ["first"]);
  });

for (const [says, type, status] of [
  ["a refusal", "text/plain", 415], ["a plant", "application/json", 200],
] as const) {
  test(`who asks to close and sends on sees the answer to ${says}`, { timeout }, async () => {
    const { port, names } = await serve();
    const socket = connect(port, "127.0.0.1").pause();
    const answers = readAnswers(socket, 1);
    const first = `${plant("first", "Connection: close\r\n")}`.replace("application/json", type);
    // It reads nothing before all is written: an answer that a reset has taken is not seen.
    for (const part of [first, ...Array<string>(30).fill(`${behind}`.repeat(200))]) {
      await new Promise<void>((resolve) => socket.write(part, () => setImmediate(resolve)));
    }
    socket.resume();
    assert.deepEqual((await answers).map((answer) => answer.status), [status]);
    assert.deepEqual(names, status === 200 ? ["first"] : []);
    socket.destroy();
  });
}

test("what comes while the server drains is 400 where it is bad, and 503 where good", { timeout },
  async () => {
    for (const [body, status] of [['{"name":"x"}', 400], ['{"id":1,"name":"x"}', 503]] as const) {
      let release = (): void => undefined;
      const { server, port, names } = await serve(new Promise<void>((resolve) => {
        release = resolve;
      }));
      const socket = connect(port, "127.0.0.1");
      const answers = readAnswers(socket, 2);
      socket.write(plant("first"));
      await once(server, "request");
      const drained = server.drain();
      socket.write(post(body));
      await once(server, "request");
      release();
      assert.deepEqual((await answers).map((answer) => answer.status), [200, status]);
      socket.destroy();
      assert.deepEqual([await drained, names], [true, ["first"]]);
    }
  });
