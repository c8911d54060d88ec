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
import { bodies } from "../attack/hostile-bodies.ts";
import { heads } from "../attack/hostile-heads.ts";
import { orders } from "../attack/hostile-sequences.ts";
import { fern, halfHead, plantOf } from "../support/requests.ts";
import { listen, open, send, timeout } from "../support/serving.ts";
import { answerTo, assertError } from "../support/exchange.ts";
import { post, token } from "../support/support.ts";
import { documentOf } from "../repository/documents.ts";

interface Case {
  readonly bytes?: string | Buffer;
  readonly limits?: Partial<Limits>;
  /** What another connection has sent before. */
  readonly before?: string;
  /** What the store, or the host application, does. */
  readonly fails?: Error;
  readonly host?: (options: PlantOptions) => Server;
  readonly closes?: true;
}
const failing = (code: Exclude<StoreErrorCode, "invalid">): Case => ({
  fails: new StoreError(code, "secret")
});
const taken = (options: PlantOptions): Server => {
  const handler = createPlantHandler(options);
  return createServer((request, response) => {
    request.resume().once("end", () => handler(request, response));
  });
};

/** What more than one request on a connection must do; the hostile tables have the other causes. */
const causes: { readonly [name in Cause]?: Case } = {
  timeout: {
    bytes: halfHead,
    limits: { headMillis: 100, requestMillis: 100, checkMillis: 10 },
    closes: true
  },
  fault: { fails: new Error("secret") },
  bodyTaken: { host: taken, closes: true },
  full: failing("full"),
  unknown: failing("unknown"),
  busy: failing("busy"),
  bodies: {
    before: post(plantOf(99)).toString().slice(0, -30),
    bytes: post(plantOf(99)),
    limits: { bodyBytesMax: 100, bodiesBytesMax: 100 },
    closes: true
  },
  closed: { ...failing("closed"), closes: true },
  tooLarge: failing("tooLarge"),
  conflict: failing("conflict"),
  unreachable: failing("unreachable")
};
const inTables = [...heads, ...bodies, ...orders]
  .map(({ expected }) => expected)
  .join()
  .split(",");

for (const [decides, before, fails, withoutKey, withKey] of [
  ["the server", causes.bodies?.before, undefined, 50304, 50302],
  ["the store", undefined, new StoreError("full", "no space"), 50301, 50301]
] as const) {
  test(`a 503 that ${decides} decides is ${withoutKey} without a key and ${withKey} with one`, async () => {
    const { limits = {} } = causes.bodies ?? {};
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

test("the contract says that a misspelt member is not stored, as http.test.ts shows", () => {
  const { text } = documentOf("src/http/README.md");
  assert.doesNotMatch(text, /b64token/, "a word that readers do not know");
  assert.match(
    text,
    /\*\*[^*]*A misspelt `"tagg"` gets 200, and the plant has no tag\.[^*]*\*\*/
  );
});

describe("every cause of the catalogue is reached, with its number and its headers", () => {
  for (const [cause, [number]] of Object.entries(catalogue)) {
    const found = causes[cause as Cause];
    if (inTables.includes(`${number}`)) continue;
    test(cause, { timeout }, async () => {
      assert.ok(found, "it is here, or in the hostile tables");
      const {
        bytes = post(fern),
        limits = {},
        fails,
        host = createPlantServer,
        before = "",
        closes = false
      } = found;
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
      const answer = await answerTo(port, bytes);
      const status = Math.floor(number / 100);
      const { error, message } = assertError(answer, [status]);
      assert.equal(error, number);
      const [limit = ""] = Object.values(limits);
      assert.ok(message.includes(`${limit}`), `the limit in: ${message}`);
      assert.equal(answer.headers["connection"] === "close", closes);
      assert.doesNotMatch(message, /secret/);
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
