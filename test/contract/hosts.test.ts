/** What a host does to node's server, to the answers, and to the journal it hands over. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { createServer, type ServerResponse } from "node:http";
import { connect, type AddressInfo } from "node:net";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { test } from "node:test";
import { gunzipSync, gzip } from "node:zlib";
import { createPlantHandler, openJournal, type NewPlant } from "../../src/index.ts";
import { cleanEnvironment, program, temporaryFolder, token } from "../support/support.ts";

const headers = { Authorization: `Bearer ${token}`, "Content-Type": "application/json" };

test("HEAD is answered on a server that throws for a body that may not be there", async () => {
  const store = await openJournal(join(temporaryFolder(), "plants.ndjson"));
  const server = createServer({ rejectNonStandardBodyWrites: true },
    createPlantHandler({ store, tokens: [token] }));
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port } = server.address() as AddressInfo;
  const { status } = await fetch(`http://127.0.0.1:${port}/plants`, { method: "HEAD", headers });
  assert.equal(status, 405);
  server.close();
  server.closeAllConnections();
  await store.close();
});

/** Sends all before it reads, and shows the first line of the answer. */
const script = 'exec 3<>/dev/tcp/127.0.0.1/$1 && cat "$2" >&3 && IFS= read -r line <&3 && echo "$line"';
const lastMakers = [
  ["a host's header", (response: ServerResponse) => response.setHeader("Connection", "close"), false],
  ["a listener's header", (response: ServerResponse) => response.setHeader("Connection", "close"), true],
  ["a listener's word", (response: ServerResponse) => { response.shouldKeepAlive = false; }, true],
] as const;
for (const [what, makeLast, isListener] of lastMakers) {
  test(`an early answer that ${what} has made the last one is seen`, { timeout: 60_000 }, async () => {
    const folder = temporaryFolder();
    const store = await openJournal(join(folder, "plants.ndjson"));
    const handler = createPlantHandler({
      store, tokens: [token],
      onResponse: (_, __, response) => void (isListener && response && makeLast(response)),
    });
    const server = createServer((request, response) => {
      if (!isListener) makeLast(response);
      handler(request, response);
    });
    await once(server.listen(0, "127.0.0.1"), "listening");
    const { port } = server.address() as AddressInfo;
    const file = join(folder, "upload");
    writeFileSync(file, `POST /plants HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer weeds\r\n`
      + `Content-Length: 3000000\r\n\r\n${" ".repeat(3_000_000)}`);
    for (let round = 0; round < 10; round++) {
      const client = spawn("bash", ["-c", script, "bash", String(port), file]);
      assert.equal((await text(client.stdout)).trim(), "HTTP/1.1 401 Unauthorized");
    }
    server.close();
    server.closeAllConnections();
    await store.close();
  });
}

/** As packages that compress do: `write` forgets its callback, and all leaves after the end. */
function compress(response: ServerResponse): void {
  const writeHead = response.writeHead.bind(response);
  const end = response.end.bind(response);
  const pieces: Buffer[] = [];
  Object.assign(response, {
    writeHead: (status: number, fields: readonly string[]) => writeHead(status, fields
      .map((each) => (each === "Content-Length" ? "X-Length" : each))),
    write: (chunk: string, encoding: BufferEncoding) => pieces.push(Buffer.from(chunk, encoding)),
    end: () => gzip(Buffer.concat(pieces), (_, packed) => end(packed)),
  });
}
/** As they do with what is not worth it: all goes on, but for the callback. */
function forget(response: ServerResponse): void {
  const write = response.write.bind(response);
  Object.assign(response, {
    write: (chunk: string, encoding: BufferEncoding) => write(chunk, encoding),
  });
}
const plant = '{"id":1,"name":"Fern"}';
const unsent = "x".repeat(10);
const head = (version: string, lengthBytes: number, bearer: string): string =>
  `POST /plants HTTP/${version}\r\nHost: a\r\nContent-Length: ${lengthBytes}\r\n`
  + `Authorization: Bearer ${bearer}\r\nContent-Type: application/json\r\n`;
const closings = [
  ["HTTP/1.0", `${head("1.0", plant.length, token)}\r\n${plant}`, 200],
  ["Connection: close", `${head("1.1", plant.length, token)}Connection: close\r\n\r\n${plant}`, 200],
  ["HTTP/1.0, early", `${head("1.0", plant.length + unsent.length, "weeds")}\r\n${plant}`, 401],
  ["a body far over the limit", `${head("1.1", 1e9, token)}\r\n${plant}`, 413],
] as const;
for (const wrap of [compress, forget]) {
  for (const [says, request, status] of closings) {
    test(`a closing answer leaves a host whose own write would ${wrap.name}: ${says}`,
      { timeout: 20_000 }, async () => {
        const store = await openJournal(join(temporaryFolder(), "plants.ndjson"));
        const limits = { discardMillis: 60_000 };
        const handle = createPlantHandler({ store, tokens: [token], limits });
        const server = createServer((asked, response) => {
          wrap(response);
          handle(asked, response);
        });
        await once(server.listen(0, "127.0.0.1"), "listening");
        const client = connect((server.address() as AddressInfo).port, "127.0.0.1");
        client.setEncoding("latin1").write(request);
        const answer = await text(client);
        server.close();
        server.closeAllConnections();
        await store.close();
        assert.match(answer, new RegExp(`^HTTP/1.1 ${status} [^]*\\r\\nConnection: close\\r\\n`));

        // In 1.1 as one chunk, whose size stands before it.
        const start = answer.indexOf(wrap === compress ? "\x1f\x8b" : "{");
        const end = /\r\n0\r\n\r\n$/.exec(answer)?.index;
        const sent = Buffer.from(answer.slice(start, end), "latin1");
        const body = wrap === compress ? gunzipSync(sent) : sent;
        assert.match(body.toString(), status === 200 ? /^{"name":"Fern"}\n$/ : /^{"error":\d+,/);
      });
  }
}

const wrappings = ["an append of its own", "a proxy", "nothing"] as const;
for (const wrapping of wrappings) {
  test(`a journal that a host has wrapped in ${wrapping} is asked as it wants`, async () => {
    const journal = await openJournal(join(temporaryFolder(), "plants.ndjson"));
    const seen: bigint[] = [];
    const append = (plant: NewPlant): Promise<void> => {
      seen.push(plant.id);
      return Promise.resolve();
    };
    const stores = {
      "an append of its own": Object.create(journal, { append: { value: append } }) as typeof journal,
      "a proxy": new Proxy(journal, {
        get: (target, name) => (name === "append" ? append : Reflect.get(target, name, target)),
      }),
      "nothing": journal,
    };
    const server = createServer(createPlantHandler({ store: stores[wrapping], tokens: [token] }));
    await once(server.listen(0, "127.0.0.1"), "listening");
    const { port } = server.address() as AddressInfo;
    const body = '{"id":9007199254740993,"name":"Fern"}';
    const answer = await fetch(`http://127.0.0.1:${port}/plants`, { method: "POST", headers, body });
    assert.equal(answer.status, 200);
    const isWrapped = wrapping !== "nothing";
    assert.deepEqual(seen, isWrapped ? [9007199254740993n] : []);
    assert.equal(journal.stats.records, isWrapped ? 0 : 1, "the control: else it is kept");
    server.close();
    server.closeAllConnections();
    await journal.close();
  });
}

test("who does not read stderr does not hold up the end", { timeout: 60_000 }, async () => {
  const child = spawn(process.execPath, [program, "--port", "0", "--log-requests"], {
    cwd: temporaryFolder(),
    env: cleanEnvironment({ PLANTS_TOKEN: token }),
    stdio: ["ignore", "pipe", "pipe"],
  });
  const ended = once(child, "exit");
  const [line] = await once(child.stdout, "data");
  const url = /http:\S+/.exec(`${line}`)?.[0] ?? "";

  // Nobody reads: the pipe and the stream's own buffer are full after some thousand lines.
  const ask = (): Promise<Response> => fetch(`${url}/plants`, { method: "GET", headers });
  for (let round = 0; round < 100; round++) await Promise.all(Array.from({ length: 20 }, ask));
  child.kill("SIGTERM");
  assert.deepEqual(await ended, [0, null]);
  child.stderr.destroy();
});
