/** Prism as a proxy: it checks each request and each response against the description. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { after, test } from "node:test";
import { catalogue } from "../../src/http/errors.ts";
import { fetchPlant } from "../support/operator.ts";
import { listen } from "../support/serving.ts";
import {
  root,
  runningOf,
  startProcess,
  temporaryFolder,
  token
} from "../support/support.ts";

/** Starts a Prism in front of a server and returns its address. */
async function prismBefore(url: string): Promise<string> {
  const cli = join(
    import.meta.dirname,
    "node_modules/@stoplight/prism-cli/dist/index.js"
  );
  const child = runningOf(
    spawn(
      process.execPath,
      [
        cli,
        "proxy",
        join(root, "dist/openapi.json"),
        url,
        "--errors",
        "--host",
        "127.0.0.1",
        "--port",
        "0"
      ],
      { stdio: ["ignore", "pipe", "inherit"] }
    )
  );
  const address = () =>
    /listening on (http:\/\/[\d.:]+)/.exec(child.stdout())?.[1] ?? "";
  await child.until(() => address() !== "", "Prism listens");
  return address();
}

const cwd = temporaryFolder();
const server = await startProcess({ cwd });
after(() => server.end());
const prism = await prismBefore(server.url);

test("a plant and its response pass through Prism", async () => {
  const response = await fetchPlant(
    prism,
    '{"id":7,"name":"Fern","tag":"shade","planted":1999}'
  );
  assert.deepEqual(
    [response.status, await response.json()],
    [200, { name: "Fern", tag: "shade" }]
  );
  assert.match(
    readFileSync(join(cwd, "plants.ndjson"), "utf8"),
    /"plant":\{"id":7,/
  );
});

test("a plant with a key, its replay and the 422 pass through Prism, which refuses a malformed key", async () => {
  const outcomes = [
    ["a b", 7, 422, null],
    ['"a b"', 7, 200, null],
    ['"a b"', 7, 200, "true"],
    ['"a b"', 8, 422, null]
  ] as const;
  for (const [key, id, status, replayed] of outcomes) {
    const response = await fetchPlant(
      prism,
      `{"id":${id},"name":"Fern"}`,
      token,
      { "Idempotency-Key": key }
    );
    assert.deepEqual(
      [response.status, response.headers.get("Idempotency-Replayed")],
      [status, replayed]
    );
    if (status === 422)
      assert.match(
        await response.text(),
        id === 8 ? RegExp(`${catalogue.conflict[0]}`) : /idempotency-key/i
      );
  }
});

for (const [says, body, bearer, status, error] of [
  [
    "a token that is not known",
    '{"id":7,"name":"Fern"}',
    "weeds",
    401,
    "token"
  ],
  [
    "half of a surrogate pair",
    '{"id":7,"name":"\\ud800"}',
    token,
    400,
    "surrogate"
  ]
] as const) {
  test(`the server's response to ${says} is as described`, async () => {
    const response = await fetchPlant(prism, body, bearer);
    const described = (await response.json()) as { readonly error: number };
    assert.deepEqual(
      [response.status, described.error],
      [status, catalogue[error][0]]
    );
  });
}

for (const [says, body] of [
  ["a plant without a name", '{"id":7}'],
  ["an id that is text", '{"id":"7","name":"Fern"}'],
  ["an id with a fraction", '{"id":7.5,"name":"Fern"}'],
  // Prism takes int64 for the integers that a double represents.
  [
    "an id beyond 2^53, which the server accepts",
    '{"id":9007199254740993,"name":"Fern"}'
  ]
] as const) {
  test(`Prism itself refuses ${says}`, async () => {
    const before = readFileSync(join(cwd, "plants.ndjson"), "utf8");
    const response = await fetchPlant(prism, body);
    assert.equal(response.status, 422);
    assert.equal(readFileSync(join(cwd, "plants.ndjson"), "utf8"), before);
  });
}

test("the control: Prism reports a response that is not as described", async () => {
  const other = createServer((request, response) => {
    request.resume();
    response
      .setHeader("Content-Type", "application/json")
      .end('{"tag":"shade"}');
  });
  const port = await listen(other);
  const response = await fetchPlant(
    await prismBefore(`http://127.0.0.1:${port}`),
    '{"id":7,"name":"Fern"}'
  );
  assert.equal(response.status, 500);
  assert.match(await response.text(), /violations/i);
});
