/**
 * Clients that fill the 64 KiB that node reads at once with small requests, on many connections in
 * one turn. PLANT_TEST_NODES: the Nodes to test on, besides this one. PLANT_TEST_ROUNDS, whatever
 * its value: all cases in place of the first ones.
 */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { test } from "node:test";
import type { Limits } from "../../src/config.ts";
import { plant } from "../support/requests.ts";
import { commandOf, nodes } from "../support/recipes.ts";
import { readAnswers } from "../support/exchange.ts";
import {
  library,
  startProcess,
  temporaryFolder,
  token
} from "../support/support.ts";
import { seconds } from "../support/until.ts";

const timeout = seconds(60);
const segmentBytes = 65_536;

/** How many clients, and a heap that does not hold all requests of their segments at once. */
interface Size {
  readonly says: string;
  readonly connectionCount: number;
  readonly nodeArgs: readonly string[];
}
const usual: Size = {
  says: "a heap of 64 MiB",
  connectionCount: 60,
  nodeArgs: ["--max-old-space-size=64"]
};

/** The recipe's. With --jitless, Node 22 imports no node:http into an ES module. */
const small: Size = {
  says: "the heap of a small machine",
  connectionCount: 15,
  nodeArgs: commandOf("small.conf", "").nodeArgs.filter(
    (flag) => flag !== "--jitless"
  )
};

/** How a server differs from one on a port whose store stores at once. */
interface Kind {
  /** `usual` by default. */
  readonly size?: Size;

  /** Node's own parser, as a host's server has it. */
  readonly isHosts?: true;

  /** The store's promises never settle. */
  readonly isStalled?: true;

  readonly limits?: Partial<Limits>;
}

const program = join(temporaryFolder(), "server.mjs");
writeFileSync(
  program,
  `import { createServer } from "node:http";
import { createPlantHandler, createPlantServer } from "${library}";

const { isHosts, isStalled, limits } = JSON.parse(process.argv.at(-1));
const options = {
  tokens: ["${token}"],
  limits,
  store: {
    append: () => isStalled ? new Promise(() => undefined) : Promise.resolve(),
    close: () => Promise.resolve()
  }
};
const server = isHosts
  ? createServer(createPlantHandler(options))
  : createPlantServer(options);
server.listen(0, "127.0.0.1", () => {
  console.log("http://127.0.0.1:" + server.address().port);
  console.error(JSON.stringify({ level: 30, msg: "serving as the program does" }));
});
`
);

const refused = "GET / HTTP/1.1\r\nHost:a\r\n\r\n";

/** Fills a segment with a request. */
const segmentOf = (request: Buffer | string): Buffer =>
  Buffer.from(`${request}`.repeat(Math.floor(segmentBytes / request.length)));

/**
 * Sends a segment on each connection while the process is stopped, so that one turn of its event
 * loop finds them all.
 *
 * @param count how many responses each client gets
 * @param reads whether the clients read while the server works, or after that
 * @returns each client's statuses, once another client has got its response; or the signal that
 *   ended the process
 */
async function flood(
  node: string,
  kind: Kind,
  segment: Buffer,
  count: number,
  reads: "read at once" | "read later"
) {
  const args = [JSON.stringify(kind)];
  const { connectionCount, nodeArgs } = kind.size ?? usual;
  const server = await startProcess({ node, nodeArgs, program, args });
  const { process: child } = server;
  const ended = once(child, "exit").then(([, signal]) => String(signal));
  const open = (): Socket => connect(server.port, "127.0.0.1");
  const ask = async (client: Socket): Promise<void> => {
    client.on("error", () => undefined).write(refused);
    await new Promise((resolve) => client.once("data", resolve));
  };

  // After a first response the server has accepted the connection: it reads all in one turn.
  const clients = Array.from({ length: connectionCount }, open);
  await Promise.all(clients.map(ask));
  for (const client of clients) client.pause();
  child.kill("SIGSTOP");
  const sent = clients.map(
    (client) => new Promise((resolve) => client.write(segment, resolve))
  );
  await Promise.all(sent);

  const read = () =>
    Promise.all(
      clients.map(async (client) => {
        const answers =
          count === 0 ? [] : await readAnswers(client.resume(), count);
        return answers.slice(0, count).map(({ status }) => status);
      })
    );
  const whole = reads === "read at once" ? read() : undefined;
  child.kill("SIGCONT");
  const served = ask(open()).then(() => whole ?? read());
  const outcome = await Promise.race([served, ended]);
  await server.end("SIGKILL");
  for (const client of clients) client.destroy();

  // A process that ends by itself closes its sockets before its end is reported.
  const signal = await ended;
  return signal === "SIGKILL" ? outcome : signal;
}

const last = "GET / HTTP/1.1\r\n\r\n";

/** Each with the status of its responses, how many each client gets, and whether it reads them. */
const cases: readonly (readonly [
  says: string,
  request: Buffer | string,
  status: number,
  count: number,
  reads: "read at once" | "read later",
  kind: Kind
])[] = [
  ["after a last response,", last, 400, 1, "read later", { size: small }],
  ["for a stalled store,", plant, 200, 0, "read at once", { isStalled: true }],
  ["after a last response,", last, 400, 1, "read at once", {}],
  ["with responses", refused, 401, 129, "read at once", {}],
  ["after a last response,", last, 400, 1, "read later", {}]
];
const limits = { pipelinedMax: 1_000_000 };
const controls: readonly (readonly [
  says: string,
  request: Buffer | string,
  reads: "read at once" | "read later",
  kind: Kind
])[] = [
  ["node's own parser", last, "read later", { isHosts: true, size: small }],
  ["no limit", plant, "read at once", { isStalled: true, limits }],
  ["node's own parser", last, "read later", { isHosts: true }]
];

const isLong = process.env["PLANT_TEST_ROUNDS"] !== undefined;
for (const { path: node, version } of nodes) {
  for (const [says, request, status, count, reads, kind] of cases.slice(
    0,
    isLong ? cases.length : 1
  )) {
    const size = kind.size ?? usual;
    test(
      `on Node ${version} ${size.says} bears requests ${says} ${reads}`,
      { timeout },
      async () => {
        const statuses = Array<number>(count).fill(status);
        assert.deepEqual(
          await flood(node, kind, segmentOf(request), count, reads),
          Array(size.connectionCount).fill(statuses)
        );
      }
    );
  }

  for (const [says, request, reads, kind] of controls.slice(
    0,
    isLong ? controls.length : 1
  ))
    test(
      `on Node ${version} ${(kind.size ?? usual).says} does not bear requests with ${says}: the control`,
      { timeout },
      async () => {
        const outcome = await flood(node, kind, segmentOf(request), 1, reads);

        // V8 aborts, or traps.
        assert.match(`${outcome}`, /^SIG/);
      }
    );
}

/** Prints how many requests and responses a server has, while the connection is open. */
const counter = join(temporaryFolder(), "counter.mjs");
writeFileSync(
  counter,
  `import { once } from "node:events";
import { createServer, IncomingMessage, ServerResponse } from "node:http";
import { connect } from "node:net";
import { setImmediate } from "node:timers/promises";
import { queryObjects } from "node:v8";
import { createPlantHandler, createPlantServer } from "${library}";

const segment = Buffer.from(${JSON.stringify(last)}.repeat(400));
const store = { append: async () => undefined, close: async () => undefined };
const options = { tokens: ["${token}"], store };
const server = process.argv.includes("--hosts")
  ? createServer({ requireHostHeader: false }, createPlantHandler(options))
  : createPlantServer(options);
const count = () =>
  [IncomingMessage, ServerResponse].map((each) => queryObjects(each, { format: "count" }));

// Prototypes count, too.
const before = count();
await once(server.listen(0, "127.0.0.1"), "listening");
const accepted = once(server, "connection");
const client = connect({ port: server.address().port, allowHalfOpen: true });
client.write(segment);
const [socket] = await accepted;
await once(client, "data");
while (socket.bytesRead < segment.length) await setImmediate();
console.log(...count().map((all, kind) => all - before[kind]), socket.closed);
process.exit();
`
);
test("of requests that follow a last response in its segment, none is kept", () => {
  const countOf = (node: string, ...args: readonly string[]) =>
    spawnSync(node, ["--no-warnings", counter, ...args], { encoding: "utf8" })
      .stdout;
  for (const { path: node } of nodes) {
    assert.equal(countOf(node), "1 1 false\n");
    assert.equal(countOf(node, "--hosts"), "400 400 false\n", "the control");
  }
});
