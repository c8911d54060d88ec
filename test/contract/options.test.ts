/** The options of the library are checked at construction, before the first request. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { BearerTokens, createPlantHandler, createPlantServer } from "../../src/index.ts";
import type { PlantOptions } from "../../src/options.ts";
import { HeldStore } from "../support/serving.ts";
import { token } from "../support/support.ts";

const store = new HeldStore();
const tokens = [token];

/** Options as JavaScript may give them. */
const bad: readonly (readonly [says: string, options: object, message: RegExp])[] = [
  ["a base path without / in front", { store, tokens, basePath: "v1" }, /^basePath must be a path/],
  ["a base path with / at its end", { store, tokens, basePath: "/v1/" }, /^basePath .* no \/ at/],
  ["a base path that is /", { store, tokens, basePath: "/" }, /^basePath must be /],
  ["a base path with an empty segment", { store, tokens, basePath: "/a//b" }, /^basePath must /],
  ["a base path with a space", { store, tokens, basePath: "/a b" }, /^basePath must be /],
  ["a base path with a query", { store, tokens, basePath: "/a?b" }, /^basePath must be /],
  ["a base path that is null", { store, tokens, basePath: null }, /^basePath must be /],
  ["a base path that is a number", { store, tokens, basePath: 1 }, /^basePath must be /],
  ["no store", { tokens }, /^store must be a PlantStore, with append/],
  ["a store that is null", { store: null, tokens }, /^store must be a PlantStore/],
  ["a store's path", { store: "plants.ndjson", tokens }, /^store must be a PlantStore/],
  ["a store without append", { store: { close: () => undefined }, tokens }, /^store must be /],
  ["the promise of a store", { store: Promise.resolve(store), tokens }, /^store must be /],
  ["no tokens", { store }, /^tokens must be a list/],
  ["tokens that are null", { store, tokens: null }, /^tokens must be a list/],
  ["a token without its list", { store, tokens: token }, /^tokens must be a list/],
  ["an empty list of tokens", { store, tokens: [] }, /^tokens must have at least one/],
  ["an invalid token", { store, tokens: ["a b"] }, /^a token must be a b64token/],
  ["a token that is undefined", { store, tokens: [undefined] }, /^tokens must be a list/],
];
for (const [says, options, message] of bad) {
  test(`${says} is a TypeError at construction`, () => {
    for (const create of [createPlantServer, createPlantHandler]) {
      assert.throws(() => create(options as PlantOptions), { name: "TypeError", message });
    }
  });
}

const good: readonly (readonly [says: string, options: PlantOptions])[] = [
  ["the required options alone", { store, tokens }],
  ["undefined for all others", {
    store, tokens, basePath: undefined, limits: undefined, onFault: undefined,
  }],
  ["an empty base path", { store, tokens, basePath: "" }],
  ["a base path of two segments", { store, tokens, basePath: "/a/b%20c:@!~" }],
  ["tokens that can be replaced", { store, tokens: new BearerTokens(tokens) }],
  ["a store that is an object literal", { store: { append: async () => {}, close: async () => {} },
    tokens }],
];
for (const [says, options] of good) {
  test(`${says}: a server and a handler are created`, () => {
    assert.equal(createPlantServer(options).listening, false);
    assert.equal(createPlantServer({ ...options, tls: undefined }).listening, false);
    assert.equal(typeof createPlantHandler(options), "function");
  });
}

test("only a server with tls has setSecureContext", () => {
  assert.equal(typeof createPlantServer({ store, tokens, tls: {} }).setSecureContext, "function");
  assert.equal(createPlantServer({ store, tokens }).setSecureContext, undefined);
});
