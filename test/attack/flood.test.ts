/**
 * Clients that pipeline many small requests on many connections at once, and read every response.
 * PLANT_TEST_NODES: the Nodes to test on, besides this one.
 */
import assert from "node:assert/strict";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { test } from "node:test";
import { nodes } from "../support/recipes.ts";
import {
  answerTo,
  post,
  startProcess,
  temporaryFolder
} from "../support/support.ts";
import { seconds } from "../support/until.ts";

const timeout = seconds(120);
const connectionCount = 10;

/** 64 KiB of small requests without a token. */
const request = "GET / HTTP/1.1\r\nHost:a\r\n\r\n";
const last = "GET / HTTP/1.1\r\nHost:a\r\nConnection: close\r\n\r\n";
const requestCount = Math.floor(65_536 / request.length);
const segment = Buffer.from(request.repeat(requestCount - 1) + last);

/** A heap in which the program serves, but does not hold all of these requests at once. */
const nodeArgs = ["--max-old-space-size=32"];

/**
 * Returns the path of a server of node:http alone that sends the same status.
 *
 * @param end what ends a response
 */
function bareServer(end = "response.end()"): string {
  const path = join(temporaryFolder(), "bare.cjs");
  writeFileSync(
    path,
    `const body = JSON.stringify({ error: 40101, message: "x".repeat(60) });
const written = [];
const endAll = () => written.splice(0).forEach((response) => response.end());
const server = require("node:http").createServer((request, response) => {
  response.writeHead(401, {
    "Content-Type": "application/json",
    "Content-Length": body.length,
    "WWW-Authenticate": 'Bearer realm="plant-store"',
    ...(response.shouldKeepAlive ? {} : { Connection: "close" })
  });
  response.write(body);
  ${end};
});
server.listen(0, "127.0.0.1", () => {
  console.log("http://127.0.0.1:" + server.address().port);
  console.error(JSON.stringify({ level: 30, msg: "serving as the program does" }));
});
`
  );
  return path;
}

/**
 * Sends a segment on each connection while the process is stopped, so that one turn of its event
 * loop finds them all. The outcome is every response, or the signal that ended the process.
 */
async function flood(node: string, program?: string) {
  const server = await startProcess({
    node,
    nodeArgs,
    ...(program === undefined ? {} : { program })
  });
  const { process: child } = server;
  const ended = once(child, "exit").then(([, signal]) => String(signal));
  const clients = Array.from({ length: connectionCount }, () =>
    connect(server.port, "127.0.0.1").on("error", () => undefined)
  );

  // After a first response the server has accepted the connection: it reads all in one turn.
  const first = clients.map(async (client) => {
    client.write(request);
    await once(client, "data");
    client.pause();
  });
  await Promise.all(first);

  child.kill("SIGSTOP");
  const sent = clients.map(
    (client) => new Promise((resolve) => client.write(segment, resolve))
  );
  await Promise.all(sent);
  const counts = clients.map(async (client) => {
    let count = 0;
    let rest = "";
    client.on("data", (bytes: Buffer) => {
      const text = bytes.toString("latin1");
      const parts = `${rest}${text}`.split("HTTP/1.1 401 ");
      count += parts.length - 1;
      rest = parts.at(-1)?.slice(-12) ?? "";
    });
    await new Promise((resolve) => client.resume().once("close", resolve));
    return count;
  });
  child.kill("SIGCONT");

  const responses = (await Promise.all(counts)).reduce(
    (sum, each) => sum + each
  );
  const isWhole = responses === connectionCount * requestCount;
  return { server, outcome: isWhole ? "every response" : await ended };
}

for (const { path, version } of nodes) {
  test(
    `on Node ${version} a heap of 32 MiB bears small requests on ${connectionCount} connections in one turn`,
    { timeout },
    async () => {
      const { server, outcome } = await flood(path);
      assert.equal(outcome, "every response");
      const plant = post('{"id":1,"name":"Fern"}');
      assert.equal((await answerTo(server.port, plant)).status, 200);
      assert.equal(await server.end("SIGTERM"), 0);
    }
  );

  test(
    `on Node ${version} a bare server bears the same requests`,
    { timeout },
    async () => {
      const { server, outcome } = await flood(path, bareServer());
      assert.equal(outcome, "every response");
      await server.end("SIGKILL");
    }
  );

  test(
    `on Node ${version} the same requests end a bare server that ends its responses after the turn`,
    { timeout },
    async () => {
      const { outcome } = await flood(
        path,
        bareServer("if (written.push(response) === 1) setImmediate(endAll)")
      );
      assert.equal(outcome, "SIGABRT");
    }
  );
}
