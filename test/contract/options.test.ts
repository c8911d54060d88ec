/** The options of the library: checked at construction, limits within their bounds, onResponse. */
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import type { ServerOptions as TlsOptions } from "node:https";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { inspect } from "node:util";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { type Limits, limitsWith } from "../../src/config.ts";
import {
  BearerTokens,
  createPlantHandler,
  createPlantServer,
  openJournal,
  type ResponseListener
} from "../../src/index.ts";
import { openNats } from "../../src/nats/nats.ts";
import type { PlantOptions } from "../../src/options.ts";
import { limits } from "../support/limits.ts";
import { plant } from "../support/requests.ts";
import { HeldStore, serve, temporaryTls, timeout } from "../support/serving.ts";
import { answerTo, exchange } from "../support/exchange.ts";
import { temporaryFolder, token } from "../support/support.ts";

const store = new HeldStore();
const tokens = [token];

/** What differs from usable options, as JavaScript may give it. */
const bad: readonly (readonly [change: object, message: RegExp])[] = [
  [{ basePath: "v1" }, /^basePath must be a path/],
  [{ onFault: "x" }, /^onFault must be of type function/],
  [{ store: "plants.ndjson" }, /^store must be of type object/],
  [{ store: { close: () => undefined } }, /^store must be /],
  [
    { store: { append: () => undefined } },
    /^store must be a PlantStore, with append and close$/
  ],
  [{ tokens: [] }, /^tokens must be a list of at least one/],
  [
    { tokens: ["a b"] },
    /^each of tokens must be a token of letters, digits and .*, with = at the end only, or sha256:/
  ],
  [{ tokens: [undefined] }, /^tokens must be a list/]
];
for (const [change, message] of bad) {
  test(`${inspect(change)} is a TypeError at construction`, () => {
    const options = { store, tokens, ...change } as PlantOptions;
    for (const create of [createPlantServer, createPlantHandler])
      assert.throws(() => create(options), { name: "TypeError", message });
  });
}

const pair = temporaryTls();
test("tls that is no object is a TypeError, and no server without TLS", () => {
  for (const tls of [null, false, ""]) {
    const options = { store, tokens, tls } as unknown as PlantOptions;
    assert.throws(() => createPlantServer(options), {
      name: "TypeError",
      message: "tls must be of type object"
    });
  }
});

for (const [says, tls] of [
  ["a key that is no PEM", { ...pair, key: "secret" }],
  ["the key of another certificate", { ...pair, key: temporaryTls().key }],
  ["versions that do not exist", { ...pair, minVersion: "secret" }]
] as const) {
  test(`tls with ${says} is a TypeError without OpenSSL's text`, () => {
    const options = { store, tokens, tls } as unknown as PlantOptions;
    assert.throws(() => createPlantServer(options), {
      name: "TypeError",
      message:
        /^tls has options that node refuses: (?:ERR_[A-Z0-9_]+|without a code)$/
    });
  });
}

test("tls with a function that finds certificates, or a protocol of its own, makes a server", () => {
  const options: readonly TlsOptions[] = [
    { SNICallback: () => undefined },
    { ...pair, secureProtocol: "TLS_method" }
  ];
  for (const tls of options)
    assert.equal(createPlantServer({ store, tokens, tls }).listening, false);
});

test("a service keeps no list of tokens", async () => {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  const made = () => {
    const list = ["a".repeat(40)];
    const options = { store, tokens: list, onFault: () => undefined };
    return {
      server: createPlantServer(options),
      handler: createPlantHandler(options),
      tokens: new WeakRef(list),
      kept: new WeakRef(options.onFault)
    };
  };
  const { server, handler, tokens: list, kept } = made();
  await turn();
  collect();
  assert.equal(list.deref(), undefined);
  assert.ok(kept.deref(), "the control: what is kept is there");
  assert.equal(server.listening, false);
  assert.equal(handler.length, 2);
});

test("an unknown option is a TypeError that lists the known ones", async () => {
  const known = "store, tokens, basePath, limits, onFault, onResponse";
  for (const [name, create, names] of [
    ["TLS", createPlantServer, `${known}, tls`],
    ["tls", createPlantHandler, known],
    ["bodyBytesMax", openJournal.bind(null, "x"), "limits, warn, disk"],
    [
      "url",
      openNats.bind(null, "nats://a/B"),
      "credentials, keys, limits, tls, warn"
    ]
  ] as const) {
    const options = {
      ...(name !== "bodyBytesMax" && name !== "url" && { store, tokens }),
      [name]: 1
    };
    const message = `the options are ${names}; there is no ${name}`;
    await assert.rejects(async () => create(options as never), {
      name: "TypeError",
      message
    });
  }
  const limits: object = { pingMilis: 1 };
  await assert.rejects(
    openNats("nats://a/B", { limits }),
    /^TypeError: the limits are .*, pingMillis,.*; there is no pingMilis$/
  );
});

const noObject = "the options must be an object";
const journal = (options: unknown) => openJournal("x", options as never);
const stream = (options: unknown) => openNats("nats://a/B", options as never);

/** Calls that open nothing, as JavaScript may make them. */
const calls: readonly (readonly [
  call: () => unknown,
  message: string | RegExp
])[] = [
  [createPlantServer as () => unknown, noObject],
  [createPlantHandler as () => unknown, noObject],
  [openJournal as () => unknown, /^The "path" argument must be /],
  [() => openJournal(""), "path must not be empty"],
  [
    () => openJournal(new URL("http://a/x")),
    /^The URL must be of scheme file$/
  ],
  [() => journal(null), noObject],
  [() => journal({ warn: true }), "warn must be of type function"],
  [() => journal({ disk: "x" }), "disk must be of type object"],
  [() => journal({ limits: null }), "limits must be of type object"],
  [() => stream(null), noObject],
  [() => stream({ warn: 5 }), "warn must be of type function"],
  [
    () => stream({ credentials: 5 }),
    "credentials must be of type string or function"
  ],
  [() => stream({ keys: "no" }), "keys must be of type boolean"],
  [() => stream({ tls: true }), "tls must be of type object or function"]
];
for (const [call, message] of calls) {
  test(`${call}: a TypeError names what was expected, and nothing is opened`, async () => {
    await assert.rejects(async () => call(), { name: "TypeError", message });
    assert.ok(!existsSync("x"));
  });
}

test("the required options alone, and others that are undefined or empty, make a server and a handler", () => {
  for (const change of [
    { basePath: undefined, limits: undefined, tls: undefined },
    { basePath: "" },
    { basePath: "/a/b%20c:@!~" },
    { tokens: new BearerTokens(tokens) },
    { tls: pair }
  ]) {
    const options = { store, tokens, ...change };
    const { tls, ...ofHandler } = { tls: undefined, ...options };
    const server = createPlantServer({ ...ofHandler, tls });
    assert.equal(typeof createPlantHandler(ofHandler), "function");
    assert.equal(server.setSecureContext !== undefined, tls !== undefined);
  }
});

// The limits that an embedder may set: each within its bounds, and no other name.

/** With these, each of the two limits that are compared may have any value. */
const apart = { bodyBytesMax: 1, bodiesBytesMax: 4 * 1024 ** 3 };

for (const { name, min, max, unit } of limits) {
  test(`${name} is a whole number from ${min} to ${max}, or a RangeError`, () => {
    for (const value of [min, max]) {
      assert.equal(limitsWith({ ...apart, [name]: value })[name], value);
    }
    const message = `${name} must be a whole number of ${unit}, ${min} to ${max}`;
    for (const value of [`${min}`, BigInt(min), null]) {
      assert.throws(() => limitsWith({ ...apart, [name]: value }), {
        name: "TypeError",
        message: `${name} must be of type number`
      });
    }
    assert.equal(limitsWith({ [name]: undefined })[name], limitsWith()[name]);
    for (const value of [min - 1, max + 1, min + 0.5, NaN]) {
      assert.throws(() => limitsWith({ ...apart, [name]: value }), {
        name: "RangeError",
        message
      });
    }
  });
}

test("a body may be as large as all bodies together, and one more byte is a RangeError", () => {
  const of = (bodyBytesMax: number) =>
    limitsWith({ bodyBytesMax, bodiesBytesMax: 500 }).bodyBytesMax;
  assert.equal(of(500), 500);
  assert.throws(() => of(501), {
    name: "RangeError",
    message:
      "--max-body (bodyBytesMax) must be at most --max-bodies (bodiesBytesMax)"
  });
});

test("an unknown name of a limit is a TypeError", async () => {
  for (const name of ["maxBody", "__proto__"]) {
    const limits: Partial<Limits> = Object.fromEntries([[name, 1]]);
    const expected = {
      name: "TypeError",
      message: new RegExp(
        `^the limits are bodyBytesMax, headBytesMax, .* drainMillis; there is no ${name}$`
      )
    };
    assert.throws(() => createPlantServer({ store, tokens, limits }), expected);
    await assert.rejects(openJournal("x", { limits }), expected);
  }
});

test("the limits are those that are promised, with their defaults, and are frozen", () => {
  const defaults = limits.map(({ name, defaultValue }) => [name, defaultValue]);
  assert.deepEqual(Object.entries(limitsWith()), defaults);
  assert.ok(Object.isFrozen(limitsWith({ bodyBytesMax: 7 })));
});

test("a limit that is a getter is read once", () => {
  let reads = 0;
  const fickle = {
    get bodyBytesMax(): number {
      return ++reads;
    }
  };
  assert.equal(limitsWith(fickle).bodyBytesMax, 1);
  assert.equal(reads, 1);
});

// onResponse: called once with each response before it leaves, also after a parser error.

const line = "POST /plants HTTP/1.1\r\nHost: a\r\n";

/** What is sent, and what is reported of each response: its status, the method of the request. */
for (const [what, bytes, wanted] of [
  ["a plant", plant, ["200 POST"]],
  ["no token", `${line}\r\n`, ["401 POST"]],
  ["an early response", `${line}Content-Length: 9\r\n\r\n`, ["401 POST"]],
  ["HEAD", plant.replace("POST", "HEAD"), ["405 HEAD"]],
  ["garbage after a plant", `${plant}x\r\n\r\n`, ["200 POST", "400 -"]],
  [
    "an invalid chunk",
    `${line}Transfer-Encoding: chunked\r\n\r\nx\r\n`,
    ["401 POST"]
  ],
  ["CONNECT", "CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n", ["401 -"]],
  [
    "a request after a last response",
    plant.replace("Host", "Connection: close\r\nHost") + plant,
    ["200 POST"]
  ]
] as const) {
  test(
    `onResponse is called once with each response that the client gets: ${what}`,
    { timeout },
    async () => {
      const reported: string[] = [];
      const errors: unknown[] = [];
      const onResponse: ResponseListener = (
        { status, error, message },
        socket,
        response
      ) => {
        errors.push({ error, message });
        assert.ok(socket.remotePort);
        assert.equal(response?.headersSent ?? false, false, "it has not left");
        reported.push(`${status} ${response?.req.method ?? "-"}`);
      };
      const { port } = await serve({ onResponse });
      const answers = await exchange(port, bytes, {
        answers: wanted.length,
        halfClose: true,
        head: what === "HEAD"
      });
      assert.deepEqual(reported, wanted);
      if (what === "HEAD") return;
      assert.deepEqual(
        answers.map(({ status }) => `${status}`),
        wanted.map((each) => each.replace(/ .*/, ""))
      );
      const seen = answers.map(({ body }) => JSON.parse(body));
      assert.deepEqual(
        errors,
        seen.map(({ error, message }) => ({ error, message })),
        "as the client reads it"
      );
    }
  );
}

test(
  "onResponse gets an object of the documented members, which no change of it sends to the client",
  { timeout },
  async () => {
    const names: string[] = [];
    const { port } = await serve({
      onResponse: (summary) => {
        names.push(Object.keys(summary).join());
        Object.assign(summary, { status: 599, headers: {}, body: "x" });
      }
    });
    const answers = await exchange(
      port,
      plant.replace("/plants", "/x") + plant,
      {
        answers: 2
      }
    );
    assert.deepEqual(
      answers.map(({ status, body }) => [status, body.length > 9]),
      [
        [404, true],
        [200, true]
      ]
    );
    const all = "status,error,message,replayed,receipt";
    assert.deepEqual(names, [all, all]);
  }
);

test("a file: URL is the path of a journal, as in fs", async () => {
  const path = join(temporaryFolder(), "my plants #1 (ü).ndjson");
  const journal = await openJournal(pathToFileURL(path));
  await journal.append({ id: 1n, name: "Fern" });
  await journal.close();
  assert.match(readFileSync(path, "utf8"), /"Fern"/);
});

test(
  "onResponse gets the receipt of a stored plant, if the store gives one, and none of a replay",
  { timeout },
  async () => {
    const receipts: unknown[] = [];
    const outcomes = [{ seq: 7, file: "f" }, { seq: 8 }, undefined];
    const append = async () => outcomes.shift() as { seq: number };
    const store = {
      append,
      appendOnce: async () => "replayed" as const,
      close: async () => {}
    };
    const { port } = await serve({
      store,
      onResponse: ({ receipt }) => void receipts.push(receipt)
    });
    const replay = plant.replace("Host", "Idempotency-Key: k\r\nHost");
    await exchange(
      port,
      plant.repeat(3) + replay + plant.replace("/plants", "/x"),
      { answers: 5 }
    );
    assert.deepEqual(receipts, [
      { seq: 7, file: "f" },
      { seq: 8 },
      undefined,
      undefined,
      undefined
    ]);
  }
);

test(
  "the receipt of a journal is the record's number and its file's id, with a key, too, and for a library's caller",
  { timeout },
  async () => {
    const path = join(temporaryFolder(), "plants.ndjson");
    const store = await openJournal(path);
    const receipts: unknown[] = [];
    const { port } = await serve({
      store,
      onResponse: ({ receipt }) => void receipts.push(receipt)
    });
    const keyed = plant.replace("Host", "Idempotency-Key: k\r\nHost");
    await exchange(port, plant + keyed, { answers: 2 });
    await exchange(port, keyed, { answers: 1 });
    // Its type says that it is there: a caller need not ask.
    const { seq, file: id } = await store.append({ id: 2n, name: "Moss" });
    receipts.push({ seq, file: id });
    await store.close();
    const [{ file }, ...records] = readFileSync(path, "utf8")
      .trim()
      .split("\n")
      .map((each) => JSON.parse(each));
    const [first, second, third] = records.map(({ seq }) => ({ seq, file }));
    assert.deepEqual(receipts, [first, second, undefined, third]);
  }
);

test("onResponse may set header fields", { timeout }, async () => {
  const onResponse: ResponseListener = (_answer, _socket, response) =>
    void response?.setHeader("X-Request-Id", "7");
  const { port } = await serve({ onResponse });
  for (const bytes of [plant, `${line}\r\n`]) {
    const { headers } = await answerTo(port, bytes);
    assert.equal(headers["x-request-id"], "7");
    assert.equal(headers["content-type"], "application/json");
  }
});
