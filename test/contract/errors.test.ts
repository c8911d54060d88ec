/** The catalogue: every cause is reached over HTTP, with its number, headers and an Error as body. */
import assert from "node:assert/strict";
import { createServer, type Server } from "node:http";
import { describe, test } from "node:test";
import type { Limits } from "../../src/config.ts";
import {
  ApiError,
  catalogue,
  messageCharactersMax,
  type Cause
} from "../../src/http/errors.ts";
import {
  createPlantHandler,
  createPlantServer,
  StoreError
} from "../../src/index.ts";
import type { PlantOptions, StoreErrorCode } from "../../src/index.ts";
import {
  chunked,
  fern,
  good,
  halfBody,
  halfHead,
  headersOf,
  nested,
  optional,
  plantOf,
  withFields,
  withHeadBytes
} from "../support/requests.ts";
import { listen, open, send, timeout } from "../support/serving.ts";
import { answerTo, assertError, exchange } from "../support/exchange.ts";
import { post, token } from "../support/support.ts";
import { documentOf } from "../repository/documents.ts";

/** After these, what follows is in doubt or is not waited for: the connection closes. */
const closing: ReadonlySet<string> = new Set<Cause>([
  "malformed",
  "target",
  "host",
  "framing",
  "repeated",
  "manyCredentials",
  "truncated",
  "connect",
  "timeout",
  "size",
  "chunkExtensions",
  "headBytes",
  "headFields",
  "bodyTaken",
  "transferCoding",
  "bodies",
  "closed",
  "version",
  "expectation"
]);

interface Case {
  readonly bytes: string | Buffer;
  readonly limits?: Partial<Limits>;
  readonly halfClose?: true;
  /** What another connection has sent before. */
  readonly before?: string;
  /** What the store, or the host application, does. */
  readonly fails?: Error;
  readonly host?: (options: PlantOptions) => Server;
}
const body = (bytes: string | Buffer): Case => ({ bytes: post(bytes) });
const fields = (text: string): Case => ({ bytes: post(fern, text) });
const replaced = (from: string, to: string): Case => ({
  bytes: post(fern).toString().replace(from, to)
});
const failing = (code: Exclude<StoreErrorCode, "invalid">): Case => ({
  bytes: post(fern),
  fails: new StoreError(code, "secret")
});
const taken = (options: PlantOptions): Server => {
  const handler = createPlantHandler(options);
  return createServer((request, response) => {
    request.resume().once("end", () => handler(request, response));
  });
};

const causes: Readonly<Record<Cause, Case>> = {
  malformed: { bytes: "garbage\r\n\r\n" },
  target: replaced("/plants", "/plants#x"),
  host: replaced("localhost", ""),
  framing: { bytes: chunked(fern).replace("HTTP/1.1", "HTTP/1.0") },
  repeated: fields("Content-Type: application/json\r\n"),
  credentials: replaced("Bearer test-token", "Bearer"),
  manyCredentials: fields(`Authorization: Bearer ${token}\r\n`),
  empty: body(""),
  utf8: body(Buffer.from('{"id":1,"name":"\xff"}', "latin1")),
  json: body("{"),
  duplicate: body('{"id":1,"id":1,"name":"Fern"}'),
  surrogate: body('{"id":1,"name":"\\ud800"}'),
  nesting: { ...body(nested(65)), limits: { nestingMax: 64 } },
  schema: body("{}"),
  truncated: { bytes: halfBody, halfClose: true },
  anonymous: replaced(`Bearer ${token}`, "Basic x"),
  token: replaced(token, "another"),
  path: replaced("/plants", "/"),
  method: replaced("POST", "PUT"),
  connect: { bytes: `CONNECT localhost:80 HTTP/1.1\r\nHost: a\r\n${good}\r\n` },
  timeout: {
    bytes: halfHead,
    limits: { headMillis: 100, requestMillis: 100, checkMillis: 10 }
  },
  declaredSize: { bytes: post(plantOf(101)), limits: { bodyBytesMax: 100 } },
  size: { bytes: chunked(plantOf(101)), limits: { bodyBytesMax: 100 } },
  chunkExtensions: {
    bytes: chunked(fern).replace("16\r\n", `16;x=${"x".repeat(20_000)}\r\n`)
  },
  mediaType: replaced("application/json", "text/plain"),
  charset: replaced("application/json", "application/json; charset=latin1"),
  contentCoding: fields("Content-Encoding: gzip\r\n"),
  expectation: fields("Expect: 200-ok\r\n"),
  headBytes: { bytes: withHeadBytes(1_001), limits: { headBytesMax: 1_000 } },
  headFields: { bytes: withFields(101), limits: { headFieldsMax: 100 } },
  fault: { bytes: post(fern), fails: new Error("secret") },
  bodyTaken: { bytes: post(fern), host: taken },
  transferCoding: {
    bytes: chunked(fern).replace(": chunked", ": gzip, chunked")
  },
  full: failing("full"),
  unknown: failing("unknown"),
  busy: failing("busy"),
  bodies: {
    before: post(plantOf(99)).toString().slice(0, -30),
    bytes: post(plantOf(99)),
    limits: { bodyBytesMax: 100, bodiesBytesMax: 100 }
  },
  closed: failing("closed"),
  tooLarge: failing("tooLarge"),
  conflict: failing("conflict"),
  idempotencyKey: fields('Idempotency-Key: "\r\n'),
  unreachable: failing("unreachable"),
  version: replaced("HTTP/1.1", "HTTP/2.0")
};

for (const [decides, before, fails, withoutKey, withKey] of [
  ["the server", causes.bodies.before, undefined, 50304, 50302],
  ["the store", undefined, new StoreError("full", "no space"), 50301, 50301]
] as const) {
  test(`a 503 that ${decides} decides is ${withoutKey} without a key and ${withKey} with one`, async () => {
    const { limits = {} } = causes.bodies;
    const append = () =>
      fails ? Promise.reject(fails) : Promise.resolve("stored" as const);
    const store = {
      append: () => append().then(() => undefined),
      appendOnce: append,
      close: () => Promise.resolve()
    };
    const server = createPlantServer({ store, tokens: [token], limits });
    const port = await listen(server);
    if (before !== undefined) await send(await open(server, port), before);
    for (const [extra, error] of [
      ["", withoutKey],
      ["Idempotency-Key: k\r\n", withKey]
    ] as const) {
      const answer = await answerTo(port, post(plantOf(99), extra));
      const found = assertError(answer, [503]);
      assert.equal(found.error, error);
      assert.equal(
        found.message.includes(`and this one has error ${withoutKey}`),
        error !== withoutKey
      );
    }
  });
}

test("the contract says that a misspelt member is not stored, as the server does", async () => {
  const { text } = documentOf("src/http/README.md");
  assert.doesNotMatch(text, /b64token/, "a word that readers do not know");
  assert.match(
    text,
    /\*\*[^*]*A misspelt `"tagg"` gets 200, and the plant has no tag\.[^*]*\*\*/
  );
  const stored: unknown[] = [];
  const store = {
    append: (plant: unknown) => Promise.resolve(void stored.push(plant)),
    close: () => Promise.resolve()
  };
  const port = await listen(createPlantServer({ store, tokens: [token] }));
  const answer = await answerTo(
    port,
    post('{"id":1,"name":"Fern","tagg":"shade"}')
  );
  assert.deepEqual([answer.status, answer.body], [200, '{"name":"Fern"}\n']);
  assert.deepEqual(stored, [{ id: 1n, name: "Fern" }]);
});

describe("every cause of the catalogue is reached, with its number and its headers", () => {
  for (const [cause, [number]] of Object.entries(catalogue)) {
    test(cause, { timeout }, async () => {
      const {
        bytes,
        limits = {},
        halfClose = false,
        fails,
        host = createPlantServer,
        before = ""
      } = causes[cause as Cause];
      const store = {
        appendOnce: () => Promise.resolve("stored" as const),
        append: () => (fails ? Promise.reject(fails) : Promise.resolve()),
        close: () => Promise.resolve()
      };
      const faults: unknown[] = [];
      const onFault = (fault: unknown): void => void faults.push(fault);
      const server = host({ store, tokens: [token], limits, onFault });
      const port = await listen(server);
      if (before) await send(await open(server, port), before);
      const [answer] = await exchange(port, bytes, { answers: 1, halfClose });
      const { error, message } = assertError(answer, [
        Math.floor(number / 100)
      ]);
      assert.equal(error, number);
      const [limit = ""] = Object.values(limits);
      assert.ok(message.includes(`${limit}`), `the limit in: ${message}`);
      const { headers = {} } = answer ?? {};
      const found = Object.entries(headers).filter(([name]) =>
        optional.includes(name)
      );
      assert.deepEqual(Object.fromEntries(found), headersOf(number));
      assert.equal(headers["connection"] === "close", closing.has(cause));
      assert.ok(
        !answer?.body.includes("secret"),
        "the message reveals something internal"
      );
      assert.deepEqual(faults, cause === "fault" ? [fails] : []);
    });
  }
});

test("the numbers of the catalogue are unique, and begin with a status of an error", () => {
  const numbers = Object.values(catalogue).map(([error]) => error);
  assert.equal(new Set(numbers).size, numbers.length);
  assert.ok(numbers.every((error) => error > 40_000 && error < 60_000));
});

test("a message is truncated at 500 characters", () => {
  for (const length of [499, 500, 501, 10_000]) {
    const { message } = JSON.parse(
      new ApiError(
        "json",
        "m".repeat(length - "The body is not JSON: .".length)
      ).body
    );
    assert.equal(message.length, Math.min(length, messageCharactersMax));
    assert.equal(message.endsWith("…"), length > messageCharactersMax);
  }
});
