/**
 * The handler on a host's own server: what a host does to requests and responses, before or after
 * them, and to the store.
 */
import assert from "node:assert/strict";
import { EventEmitter } from "node:events";
import {
  createServer,
  type RequestListener,
  type ServerResponse
} from "node:http";
import { join } from "node:path";
import { test } from "node:test";
import { gunzipSync, gzip } from "node:zlib";
import {
  createPlantHandler,
  openJournal,
  StoreError
} from "../../src/index.ts";
import type { NewPlant, PlantOptions, PlantStore } from "../../src/index.ts";
import { fern, plant } from "../support/requests.ts";
import {
  HeldStore,
  hosted,
  listen,
  never,
  open,
  readAll,
  send,
  statusesOf,
  timeout,
  writeFirst
} from "../support/serving.ts";
import { answerTo, exchange, readAnswers } from "../support/exchange.ts";
import { library, post, temporaryFolder, token } from "../support/support.ts";
import { command } from "../support/package.ts";
import { seconds, until } from "../support/until.ts";

const folder = temporaryFolder();
const store = new HeldStore();
let journals = 0;
const openOne = () => openJournal(join(folder, `plants-${journals++}.ndjson`));

/** The port of a host that does something to each request, and then calls the handler. */
async function hostThat(
  does: (...args: Parameters<RequestListener>) => unknown,
  options: Partial<PlantOptions> = {}
): Promise<number> {
  const plants = createPlantHandler({
    store,
    tokens: [token],
    limits: { discardMillis: never },
    ...options
  });
  const onRequest: RequestListener = (request, response) =>
    void Promise.resolve(does(request, response)).then(() =>
      plants(request, response)
    );
  return listen(createServer(onRequest).on("checkContinue", onRequest));
}

const slow = "GET /slow HTTP/1.1\r\nHost: a\r\n\r\n";
for (const [what, bytes, status] of [
  [
    "HEAD with two Hosts",
    `HEAD /plants HTTP/1.1\r\nHost: b\r\n${hosted}\r\n`,
    400
  ],
  [
    "a body that never arrives",
    `POST /x HTTP/1.1\r\n${hosted}Content-Length: 9\r\n\r\n`,
    404
  ]
] as const) {
  test(
    `our last response waits for a slow response of the host before it: ${what}`,
    { timeout },
    async () => {
      const plants = createPlantHandler({
        store,
        tokens: [token],
        limits: { discardMillis: 10 }
      });
      const server = createServer((request, response) => {
        if (request.url !== "/slow") return plants(request, response);
        // The host responds later than our own time limits.
        setTimeout(() => response.end("the host's".repeat(10_000)), 200);
      });
      const ends = await open(server, await listen(server));
      await send(ends, slow + bytes);
      const found = await readAll(ends);
      assert.deepEqual(statusesOf(found), [200, status]);
      assert.ok(
        found.includes("the host's".repeat(10_000)),
        "whole, and in its place"
      );
    }
  );
}

const large = `${post(`{"id":1,"name":"${"x".repeat(500_000)}"}`)}`;
const elsewhere = large.replace("/plants", "/x");
for (const [what, parts, status] of [
  ["a large plant", [large], 200],
  ["a plant in two pieces", [plant.slice(0, -9), plant.slice(-9)], 200],
  ["a refused one", [elsewhere.slice(0, -9), "x".repeat(9)], 404]
] as const) {
  test(
    `a request that the host has paused gets its response, and so the next: ${what}`,
    { timeout },
    async () => {
      const port = await hostThat((request) => request.pause());
      const found = await exchange(port, [...parts, plant], { answers: 2 });
      assert.deepEqual(
        found.map((answer) => answer.status),
        [status, 200]
      );
    }
  );
}

test(
  "nothing after a refused Expect that the host has paused is executed",
  { timeout },
  async () => {
    const port = await hostThat((request) => request.pause());
    const stored = store.names.length;
    const bytes = `POST /x HTTP/1.1\r\n${hosted}Expect: 100-continue\r\n\r\n`;
    const [answer, ...more] = await exchange(port, bytes + plant);
    assert.equal(answer?.status, 404);
    assert.equal(answer?.headers["connection"], "close");
    assert.equal(more.length, 0);
    assert.equal(store.names.length, stored);
  }
);

test(
  "twelve handlers share a connection: none executes after a last response, and node writes no warning",
  { timeout },
  async (t) => {
    const warnings: string[] = [];
    const onWarning = ({ name }: Error) => void warnings.push(name);
    process.on("warning", onWarning);
    t.after(() => process.off("warning", onWarning));

    const paths = Array.from({ length: 12 }, (_, index) => `/${index}-`);
    const handlers = paths.map((basePath) =>
      createPlantHandler({ store, tokens: [token], basePath })
    );
    const server = createServer((request, response) =>
      handlers[Number.parseInt(request.url?.slice(1) ?? "")]?.(
        request,
        response
      )
    );
    const stored = store.names.length;
    const requests = paths.map((path) => `${plant}`.replace("/", `${path}/`));
    const last = requests[0]?.replace("Host", "Host: b\r\nHost") ?? "";
    const answers = await exchange(
      await listen(server),
      requests.join("") + last + requests.join("")
    );
    assert.deepEqual(
      answers.map(({ status }) => status),
      [...paths.map(() => 200), 400]
    );
    assert.equal(store.names.length, stored + paths.length);
    await new Promise(setImmediate);
    assert.deepEqual(warnings, []);

    const emitter = new EventEmitter();
    paths.forEach(() => emitter.once("close", () => undefined));
    await new Promise(setImmediate);
    assert.deepEqual(
      warnings,
      ["MaxListenersExceededWarning"],
      "the control: node warns of so many listeners"
    );
  }
);

test(
  "HEAD gets its response from a server that throws for a body",
  { timeout },
  async () => {
    const handler = createPlantHandler({ store, tokens: [token] });
    const port = await listen(
      createServer({ rejectNonStandardBodyWrites: true }, handler)
    );
    assert.equal(
      (await answerTo(port, `${plant}`.replace("POST", "HEAD"), true)).status,
      405
    );
  }
);

test("what the host throws, in end() or in onResponse, keeps no response from ending, and is thrown on", () => {
  // A process of its own: here, the test's runner listens for errors that nobody catches.
  const script = `
    import { once } from "node:events";
    import { createServer } from "node:http";
    import { connect } from "node:net";
    import { createPlantHandler } from "${library}";

    let release;
    const released = new Promise((resolve) => { release = resolve; });
    let waiting = 0;
    const store = {
      append() {
        if (++waiting === 3) release();
        return released;
      },
      close: async () => undefined
    };
    const thrown = [];
    process.on("uncaughtException", ({ message }) => thrown.push(message));

    const plants = createPlantHandler({ store, tokens: ["${token}"] });
    const onResponse = ({ status }) => { throw new Error("listener: " + status); };
    const heard = createPlantHandler({ store, tokens: ["${token}"], onResponse });
    const statusesOf = async (listener, requests) => {
      const server = createServer(listener).listen(0, "127.0.0.1");
      await once(server, "listening");
      const client = connect(server.address().port, "127.0.0.1");
      client.write(${JSON.stringify(`${plant}`)}.repeat(requests));
      let text = "";
      for await (const data of client) {
        text += data;
        if (text.split("HTTP/1.1 ").length > requests) break;
      }
      return text.match(/(?<=HTTP.1.1 )[0-9]+/g);
    };
    const found = await Promise.all([
      statusesOf((request, response) => {
        response.end = () => { throw new Error("boom"); };
        plants(request, response);
      }, 1),
      // A connection goes on once its response has ended.
      statusesOf(plants, 2),
      statusesOf(heard, 2)
    ]);
    console.log(JSON.stringify({ found, thrown: thrown.sort() }));
    process.exit();`;
  const { stdout, said } = command(
    folder,
    process.execPath,
    "--input-type=module",
    "--eval",
    script
  );
  assert.equal(
    stdout,
    '{"found":[["200"],["200","200"],["200","200"]],"thrown":["boom","listener: 200","listener: 200"]}\n',
    said
  );
});

test(
  "a plant is not stored if its host responds before the body arrives",
  { timeout },
  async () => {
    const own = new HeldStore();
    const handler = createPlantHandler({ store: own, tokens: [token] });
    const server = createServer((request, response) => {
      handler(request, response);
      if (request.url === "/plants")
        response.writeHead(504, { "Content-Length": 0 }).end();
    });
    const ends = await open(server, await listen(server));
    const answers = readAnswers(ends.client.resume(), 1);
    await send(ends, plant.slice(0, -9));
    assert.equal((await answers)[0]?.status, 504);
    await send(ends, plant.slice(-9));
    const refused = readAnswers(ends.client, 1);
    ends.client.write("GET /x HTTP/1.1\r\nHost: a\r\n\r\n");
    assert.equal((await refused)[0]?.status, 401, "the body has been read");
    assert.deepEqual(own.names, []);
    assert.equal(own.waiting, 0);
    ends.client.destroy();
  }
);

test(
  "a host that responds first gets no second response",
  { timeout },
  async () => {
    const faults: unknown[] = [];
    const slowStore = new HeldStore();
    const handler = createPlantHandler({
      store: slowStore,
      tokens: [token],
      onFault: (error) => void faults.push(error)
    });
    slowStore.hold();
    const port = await listen(
      createServer((request, response) => {
        handler(request, response);
        setImmediate(() =>
          response.writeHead(504, { "Content-Length": 0 }).end()
        );
      })
    );
    assert.equal((await answerTo(port, plant)).status, 504);
    slowStore.release();
    await until("the plant is stored", () => slowStore.names.length > 0);
    assert.deepEqual(faults, []);
  }
);

for (const failure of [
  new StoreError("invalid", "inside"),
  Object.assign(new StoreError("full", "inside"), { code: "toString" }),
  undefined
]) {
  test(
    `a store of the host that rejects with ${String(failure)} is a 500`,
    { timeout },
    async () => {
      const faults: unknown[] = [];
      const append = () => Promise.reject(failure);
      const port = await hostThat(() => undefined, {
        store: { append, close: () => Promise.resolve() },
        onFault: (error) => void faults.push(error)
      });
      const { status, body } = await answerTo(port, plant);
      assert.equal(status, 500);
      assert.match(body, /unknown whether the plant was stored/);
      assert.doesNotMatch(body, /inside/);
      assert.equal(faults.length, 1);
    }
  );
}

const none = "what is not a promise";
for (const [returned, append, appendOnce] of [
  [undefined, 200, 500],
  [{ seq: 1, file: "f" }, 200, 500],
  ["stored", 500, 200],
  ["replayed", 500, 200],
  [null, 500, 500],
  [{ seq: "1" }, 500, 500],
  [none, 500, 500]
] as const) {
  test(
    `a store of the host that resolves to ${JSON.stringify(returned)}: append is a ${append}, appendOnce a ${appendOnce}`,
    { timeout },
    async () => {
      const faults: unknown[] = [];
      const resolve = () =>
        returned === none ? returned : Promise.resolve(returned);
      const own = {
        append: resolve,
        appendOnce: resolve,
        close: () => undefined
      } as object;
      const port = await hostThat(() => undefined, {
        store: own as PlantStore,
        onFault: (error) => void faults.push(error)
      });
      for (const [field, expected] of [
        ["", append],
        ["Idempotency-Key: k\r\n", appendOnce]
      ] as const) {
        const { status, body } = await answerTo(port, post(fern, field));
        assert.equal(status, expected);
        if (status === 500)
          assert.match(
            body,
            /^{"error":50001,.*unknown whether the plant was stored/
          );
      }
      const failed = [append, appendOnce].filter((status) => status === 500);
      assert.equal(faults.length, failed.length);
      for (const fault of faults)
        assert.match(String(fault), /^TypeError: append of a store returns/);
    }
  );
}

const close = (response: ServerResponse): unknown =>
  response.setHeader("Connection", "close");
const stop = (response: ServerResponse): void => {
  response.shouldKeepAlive = false;
};
for (const [what, onRequest, onResponse] of [
  ["a host's header", close, undefined],
  ["a listener's header", undefined, close],
  ["a listener's shouldKeepAlive", undefined, stop]
] as const) {
  test(
    `an early response that ${what} has made the last one is seen`,
    { timeout: seconds(60) },
    async () => {
      const port = await hostThat((_, response) => onRequest?.(response), {
        onResponse: (_, __, response) =>
          void (response && onResponse?.(response))
      });
      const upload =
        "POST /plants HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer weeds\r\n" +
        `Content-Length: 3000000\r\n\r\n${" ".repeat(3_000_000)}`;
      assert.match(
        await writeFirst(port, upload),
        /^HTTP\/1\.1 401 Unauthorized\r\n/
      );
    }
  );
}

/** As packages that compress do: `write` forgets its callback, and all leaves after the end. */
function compress(response: ServerResponse): void {
  const writeHead = response.writeHead.bind(response);
  const end = response.end.bind(response);
  const pieces: Buffer[] = [];
  Object.assign(response, {
    writeHead: (
      status: number,
      { "Content-Length": bytes, ...fields }: Record<string, string>
    ) => writeHead(status, { "X-Length": bytes, ...fields }),
    write: (chunk: string, encoding: BufferEncoding) =>
      pieces.push(Buffer.from(chunk, encoding)),
    end: () => gzip(Buffer.concat(pieces), (_, packed) => end(packed))
  });
}
const head = (version: string, lengthBytes: number, bearer: string): string =>
  `POST /plants HTTP/${version}\r\nHost: a\r\nContent-Length: ${lengthBytes}\r\n` +
  `Authorization: Bearer ${bearer}\r\nContent-Type: application/json\r\n`;
for (const [what, bytes, status] of [
  ["a whole request", `${head("1.0", fern.length, token)}\r\n${fern}`, 200],
  [
    "an early response",
    `${head("1.0", fern.length + 10, "weeds")}\r\n${fern}`,
    401
  ]
] as const) {
  test(
    `a last response leaves a host whose write would compress: ${what}`,
    { timeout },
    async () => {
      const handler = createPlantHandler({
        store,
        tokens: [token],
        limits: { discardMillis: never }
      });
      const server = createServer((request, response) => {
        compress(response);
        handler(request, response);
      });
      const ends = await open(server, await listen(server));
      await send(ends, bytes);
      const answer = await readAll(ends);
      assert.match(
        answer,
        new RegExp(`^HTTP/1.1 ${status} [^]*\\r\\nConnection: close\\r\\n`)
      );
      const packed = answer.slice(answer.indexOf("\x1f\x8b"));
      assert.match(
        gunzipSync(Buffer.from(packed, "latin1")).toString(),
        status === 200 ? /^{"name":"Fern"}\n$/ : /^{"error":\d+,/
      );
    }
  );
}

for (const wrapping of [
  "an append of its own",
  "a proxy",
  "nothing"
] as const) {
  test(
    `a journal that a host has wrapped in ${wrapping} is called as the host wants`,
    { timeout },
    async () => {
      const journal = await openOne();
      const seen: bigint[] = [];
      const append = ({ id }: NewPlant): Promise<void> => {
        seen.push(id);
        return Promise.resolve();
      };
      const stores = {
        "an append of its own": Object.create(journal, {
          append: { value: append }
        }) as typeof journal,
        "a proxy": new Proxy(journal, {
          get: (target, name) =>
            name === "append" ? append : Reflect.get(target, name, target)
        }),
        "nothing": journal
      };
      const port = await hostThat(() => undefined, { store: stores[wrapping] });
      const bytes = post('{"id":9007199254740993,"name":"Fern"}');
      assert.equal((await answerTo(port, bytes)).status, 200);
      const isWrapped = wrapping !== "nothing";
      assert.deepEqual(seen, isWrapped ? [9007199254740993n] : []);
      assert.equal(journal.stats.records, isWrapped ? 0 : 1);
      await journal.close();
    }
  );
}

/** What on-headers 1.0.2 does, below morgan, compression, response-time and express-session. */
function onHeaders(response: ServerResponse, listener: () => void): void {
  const { writeHead } = response;
  response.writeHead = (...args: unknown[]): ServerResponse => {
    const index = typeof args[1] === "string" ? 2 : 1;
    const headers = args[index] ?? {};
    response.statusCode = Number(args[0]);
    const pairs: readonly string[][] = Array.isArray(headers)
      ? headers
      : Object.entries(headers);
    for (const [name, value] of pairs)
      response.setHeader(String(name), value ?? "");
    listener();
    return Reflect.apply(
      writeHead,
      response,
      args.slice(0, index)
    ) as ServerResponse;
  };
}

test(
  "below on-headers 1.0.2 and replaced methods the headers are right",
  { timeout },
  async () => {
    const port = await hostThat((_, response) => {
      onHeaders(
        response,
        () => void response.setHeader("X-Response-Time", "1ms")
      );
      for (const name of ["setHeader", "write", "end"] as const)
        Object.assign(response, { [name]: response[name].bind(response) });
    });
    const last = plant.replace(token, "wrong\r\nConnection: close");
    const { headers, body } = await answerTo(port, last);
    assert.deepEqual(headers, {
      ...headers,
      "content-type": "application/json",
      "content-length": `${Buffer.byteLength(body)}`,
      "x-response-time": "1ms",
      "www-authenticate": 'Bearer realm="plant-store", error="invalid_token"',
      "connection": "close"
    });
    assert.ok(Object.keys(headers).every((name) => name.length > 1));
  }
);
