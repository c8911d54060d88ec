/**
 * Requests and responses, row by row: what the description declares, the order of the checks, and
 * what messages say. The hostile tables have the other rows of each status.
 */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, test } from "node:test";
import {
  checkResponse,
  request as hostileRequest,
  utf8,
  type RequestOptions
} from "../attack/hostile.ts";
import { fern } from "../support/requests.ts";
import { answerTo, assertError, type RawAnswer } from "../support/exchange.ts";
import { serve } from "../support/serving.ts";
import { startProcess, temporaryFolder } from "../support/support.ts";
import { seconds } from "../support/until.ts";

const { PLANT_TEST_NODE: node = process.execPath } = process.env;
const timeout = seconds(60);
const folder = temporaryFolder();
const server = await startProcess({ node, cwd: folder });
after(() => server.end());

const request = (parts: RequestOptions = {}): string =>
  hostileRequest({ body: fern, ...parts });

/** The response to a good request with some parts replaced. */
const responseTo = (parts: RequestOptions): Promise<RawAnswer> =>
  answerTo(server.port, request(parts), parts.method === "HEAD");

const records = (): readonly string[] =>
  readFileSync(join(folder, "plants.ndjson"), "utf8").split("\n").slice(1, -1);

// test/unit/schema.test.ts and the hostile tables have other plants.
for (const [what, body, plant] of [
  [
    "name and tag",
    '{"id":1,"name":"Farn","tag":"\u{1f33f} \\n\\u0000"}',
    { name: "Farn", tag: "\u{1f33f} \n\0" }
  ],
  ["no tag", fern, { name: "Fern" }],
  ["the same id again", fern, { name: "Fern" }],
  [
    "other members, which are not stored",
    '{"id":5,"name":"Moss","tagg":"x","age":[1,{"name":2}]}',
    { name: "Moss" }
  ]
] as const) {
  test(
    `a valid plant is stored, and the response is 200 with the Plant, without its id: ${what}`,
    { timeout },
    async () => {
      const before = records().length;
      const answer = await responseTo({ body: utf8(body) });
      checkResponse(answer);
      assert.deepEqual(JSON.parse(answer.body), plant);
      const [line = "", ...more] = records().slice(before);
      assert.equal(more.length, 0);
      const { id } = JSON.parse(body);
      assert.deepEqual(JSON.parse(line).plant, { id, ...plant });
    }
  );
}

const notHttp = "This is not an HTTP message as RFC 9112 defines it";
const parameters =
  "Content-Type must be application/json: expected its parameters as name=value.";
const ofType = (value: string): string =>
  request({ type: `Content-Type: ${value}\r\n` });

/** What is sent, and what its Error says, which repeats nothing of that. */
const messages: readonly (readonly [
  message: string,
  status: number,
  ...sent: readonly string[]
])[] = [
  [parameters, 415, ofType("application/json; S3cret")],
  [
    "The HTTP version must be 1.0 or 1.1, and CRLF must follow.",
    505,
    request().replace("\r\n", "\n")
  ],
  [
    "A field that must be single is repeated: content-type.",
    400,
    request({ fields: "Content-Type: application/json\r\n" })
  ],
  [
    `${notHttp}: found the PROXY protocol.`,
    400,
    `PROXY TCP4 10.0.0.1 10.0.0.2 5 80\r\n${request()}`,
    `\r\n\r\n\0\r\nQUIT\n${request()}`
  ],
  [`${notHttp}: found TLS.`, 400, "\x16\x03\x01\x02\0\x01\r\n"],
  [
    `${notHttp}: found HTTP/2.`,
    400,
    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0"
  ],
  [`${notHttp}.`, 400, "PROXIMA\r\n\r\n"],
  [
    "The body is not JSON: at byte offset 1, expected a member name in double quotes.",
    400,
    request({ body: "{'id':1}" })
  ],
  [
    "The body is not a NewPlant: /tag must be a string; /id is required, but missing.",
    400,
    request({ body: '{"name":"","tag":null}' })
  ]
];

test(
  "an error names the rule and the place, and repeats nothing that was sent",
  { timeout },
  async () => {
    for (const [message, status, ...sent] of messages)
      for (const bytes of sent) {
        const answer = await answerTo(server.port, bytes);
        assert.equal(assertError(answer, [status]).message, message);
      }
  }
);

/** The contract's order of checks. */
const faults: readonly (readonly [
  string,
  RequestOptions & { readonly status: number }
])[] = [
  ["one unambiguous request", { status: 400, host: "Host:\r\n" }],
  ["bearer", { status: 401, authorization: "" }],
  ["path", { status: 404, target: "/plant" }],
  ["method", { status: 405, method: "PUT" }],
  ["Expect", { status: 417, fields: "Expect: 200-ok\r\n" }],
  ["key", { status: 400, fields: 'Idempotency-Key: "\r\n' }],
  ["media type", { status: 415, type: "Content-Type: text/json\r\n" }],
  ["content coding", { status: 415, fields: "Content-Encoding: br\r\n" }],
  ["size", { status: 413, length: 1_048_577 }],
  ["JSON", { status: 400, body: "{" }],
  ["schema", { status: 400, body: "{}" }]
];

test(
  "of two faults, the first in the order of checks decides the response",
  { timeout },
  async () => {
    for (const [index, [first, { status, ...one }]] of faults.entries()) {
      const alone = assertError(await responseTo(one), [status]);
      for (const [second, two] of faults.slice(index + 1)) {
        const fields = `${two.fields ?? ""}${one.fields ?? ""}`;
        const answer = await responseTo({ ...two, ...one, fields });
        const { error } = assertError(answer, [status]);
        assert.equal(error, alone.error, `${first}, then ${second}`);
      }
    }
  }
);

test(
  "a fault of the head gets its response before 100 Continue, without the body",
  { timeout },
  async () => {
    const ofHead = faults.slice(0, 9).filter(([name]) => name !== "Expect");
    for (const [, { status, ...parts }] of ofHead) {
      const fields = `${parts.fields ?? ""}Expect: 100-continue\r\n`;
      const sent = { length: 22, ...parts, fields, body: "" };
      assertError(await responseTo(sent), [status]);
    }
  }
);

test("with a base path, /plants follows it and is nowhere else", async () => {
  const { port } = await serve({ basePath: "/v1" });
  for (const [target, status] of [
    ["/v1/plants", 200],
    ["/plants", 404],
    ["/v1", 404]
  ] as const) {
    assert.equal((await answerTo(port, request({ target }))).status, status);
  }
});
