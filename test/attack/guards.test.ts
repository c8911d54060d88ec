/**
 * Negative controls: with any one guard removed, its row of the hostile tables fails. The cause of
 * each Error is reached by test/contract/errors.test.ts.
 *
 * A guard is removed from a copy of the built program, by replacing one text with another.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import {
  createPlantServer,
  type NewPlant,
  type PlantStore
} from "../../src/index.ts";
import { bodies } from "./hostile-bodies.ts";
import { heads } from "./hostile-heads.ts";
import { orders } from "./hostile-sequences.ts";
import { nameOf, runRow, titleOf, type Row } from "./hostile.ts";
import { listen, variant, type Program } from "../support/serving.ts";
import { reader, token } from "../support/support.ts";

const rows = new Map(
  [...heads, ...bodies, ...orders].map((row) => [titleOf(row), row])
);

/** Takes a while, as a disk does: bytes that arrive meanwhile find the request in progress. */
class SlowStore implements PlantStore {
  readonly ids: string[] = [];
  async append({ id }: NewPlant): Promise<void> {
    for (let turns = 0; turns < 50; turns++) await turn();
    this.ids.push(String(id));
  }
  async appendOnce(plant: NewPlant): Promise<"stored"> {
    await this.append(plant);
    return "stored";
  }
  close(): Promise<void> {
    return Promise.resolve();
  }
}

/** Runs one row: throws unless the responses and the stored plants are as it says. */
async function check(
  program: Pick<Program, "createPlantServer">,
  row: Row,
  patienceMillis = 10_000
): Promise<void> {
  const store = new SlowStore();
  const server = program.createPlantServer({
    store,
    tokens: [token],
    limits: { discardMillis: 1_000 }
  });
  // A request that gets no response without its guard fails soon.
  const watchdog = setTimeout(() => server.emit("giveUp"), patienceMillis);
  server.on("connection", (socket) =>
    server.once("giveUp", () => socket.destroy())
  );
  const read = reader(server);
  try {
    await runRow(await listen(server), row, nameOf(0, 0), 0, read);
    assert.equal(await server.drain(), true);
    assert.deepEqual(store.ids, row.ids);
  } finally {
    clearTimeout(watchdog);
  }
}

for (const [what, file, from, to, title] of [
  [
    "a Host twice",
    "http/head.js",
    '["host", "host"],',
    "",
    "RFC 9112, 3.2: two Hosts, other"
  ],
  [
    "an Idempotency-Key twice",
    "http/head.js",
    '["idempotency-key", "repeated"]',
    "",
    "B, Strict: Idempotency-Key twice"
  ],
  [
    "the form of Host",
    "http/head.js",
    "hostForm.test(host)",
    'host !== ""',
    "RFC 9110, 7.2: Host: userinfo"
  ],
  [
    "a body's bytes as counted",
    "http/body.js",
    "body.bytes + chunk.length > bodyBytesMax",
    "false",
    "B, Statuses 413: as counted, one chunk"
  ],
  [
    "the trailer's fields",
    "service.js",
    "checkCount(request.rawTrailers, limits);",
    "",
    "B, Strict: limits apply: a trailer of 101 fields"
  ],
  [
    "a plant's violations",
    "plant.js",
    "violations.size > 0",
    "false",
    'A, NewPlant: "{\\"id\\":1,\\"name\\":\\"a\\",\\"tag\\":null}" of 30'
  ],
  [
    "no request after the last response",
    "http/connection.js",
    'this.#progress.state !== "open" || this.#socket.destroyed',
    "false",
    "B, Strict: after: a refusal"
  ],
  [
    "no request after an Upgrade",
    "http/connection.js",
    'this.#progress.state = "closing";\n            response.shouldKeepAlive',
    "response.shouldKeepAlive",
    "B, Strict: after: an Upgrade, the body of another"
  ],
  [
    "an Upgrade's response is the last",
    "http/connection.js",
    "response.shouldKeepAlive = false;\n        }\n        return true;",
    "} return true;",
    "RFC 9110, 7.8: Upgrade"
  ],
  [
    "the strict parser",
    "http/strict-server.js",
    "insecureHTTPParser: false",
    "insecureHTTPParser: true",
    "RFC 9112, 5.2: obs-fold"
  ],
  [
    "its own 400 to a missing Host",
    "http/strict-server.js",
    "requireHostHeader: false",
    "requireHostHeader: true",
    "RFC 9112, 3.2: no Host"
  ],
  [
    "the parser's limit",
    "http/strict-server.js",
    "maxHeaderSize: limits.headBytesMax",
    "maxHeaderSize: 1e6",
    "B, Limits: over 16 KiB, space after it"
  ],
  [
    "half-open connections",
    "http/strict-server.js",
    "httpAllowHalfOpen: true",
    "httpAllowHalfOpen: false",
    "B, Strict: half-close: after a whole request"
  ],
  [
    "CONNECT's response",
    "http/strict-server.js",
    'on("connect"',
    'on("x"',
    "B, Statuses 405: CONNECT"
  ],
  [
    "CONNECT's token",
    "service.js",
    "connection.refuseConnect(this.#errorOf(error))",
    'connection.refuseConnect(new ApiError("connect", "No."))',
    "B, Statuses 405: CONNECT, no token"
  ],
  [
    "its own 417",
    "http/strict-server.js",
    '"checkExpectation"',
    '"x"',
    "B, Statuses 417: other"
  ],
  [
    "100 Continue after the checks",
    "http/strict-server.js",
    '"checkContinue"',
    '"x"',
    "B, Statuses 417: and other"
  ],
  [
    "its own 400",
    "http/sockets.js",
    '"clientError"',
    '"x"',
    "B, Strict: after close: of garbage, a request"
  ],
  [
    "responses in order",
    "http/connection.js",
    "if (this.isAnswered())\n            act();",
    "if (true) act();",
    "B, Strict: garbage after: two"
  ],
  [
    "an error in a body is its request's",
    "http/connection.js",
    "latest === undefined || latest.req.complete",
    "true",
    "RFC 9112, 7.1: too small"
  ],
  [
    "431 of the parser",
    "http/errors.js",
    '"HPE_HEADER_OVERFLOW"',
    '"x"',
    "B, Limits: over 16 KiB, a value"
  ],
  [
    "a half-close distinguished from garbage",
    "http/errors.js",
    '"HPE_INVALID_EOF_STATE"',
    '"x"',
    "RFC 9112, 8: half-close in a body"
  ],
  [
    "a Date in every response",
    "http/reply.js",
    "Date: ",
    "X: ",
    "RFC 8446: TLS"
  ]
] as const) {
  test(
    `without ${what} a row fails: ${title}`,
    { timeout: 20_000 },
    async () => {
      const row = rows.get(title);
      assert.ok(row, `there is no row ${title}`);
      await check({ createPlantServer }, row);
      await assert.rejects(
        check(await variant(file, from, to), row, 1_500),
        assert.AssertionError
      );
    }
  );
}
