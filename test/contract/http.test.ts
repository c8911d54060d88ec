/**
 * Requests and responses, row by row: what the description declares, the order of the checks, and
 * what messages say. The hostile tables have the other rows of each status.
 */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, test } from "node:test";
import {
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
const folder = temporaryFolder();
const server = await startProcess({ node, cwd: folder });
after(() => server.end());

const request = (parts: RequestOptions = {}): string =>
  hostileRequest({ body: fern, ...parts });

/** The response to a good request with some parts replaced. */
const responseTo = (parts: RequestOptions): Promise<RawAnswer> =>
  answerTo(server.port, request(parts), parts.method === "HEAD");

/** Checks that the response is a 200 with exactly this Plant, or an Error of this status. */
function assertAnswer(
  answer: RawAnswer,
  status: number,
  plant: unknown = { name: "Fern" }
): void {
  if (status >= 400) return void assertError(answer, [status]);
  assert.equal(answer.status, status, answer.body);
  assert.equal(answer.headers["content-type"], "application/json");
  assert.equal(
    answer.headers["content-length"],
    String(Buffer.byteLength(answer.body))
  );
  assert.match(answer.headers["date"] ?? "", / GMT$/);
  assert.deepEqual(JSON.parse(answer.body), plant);
}

const records = (): readonly string[] =>
  readFileSync(join(folder, "plants.ndjson"), "utf8").split("\n").slice(1, -1);

/** Runs each row as a test of its own, which its first member names. */
function table<Row extends readonly [string, ...unknown[]]>(
  name: string,
  rows: readonly Row[],
  check: (row: Row) => Promise<void>
): void {
  test(name, { timeout: seconds(60) }, async (t) => {
    for (const row of rows) {
      await t.test(row[0], () => check(row));
    }
  });
}

table(
  "a valid plant is stored, and the response is 200 with the Plant, without its id",
  [
    // test/unit/schema.test.ts and the hostile tables have other plants.
    [
      "name and tag",
      '{"id":1,"name":"Fern","tag":"shade"}',
      { name: "Fern", tag: "shade" }
    ],
    ["no tag", fern, { name: "Fern" }],
    ["the same id again", fern, { name: "Fern" }],
    [
      "an empty name, an empty tag",
      '{"id":2,"name":"","tag":""}',
      { name: "", tag: "" }
    ],
    [
      "a tag of any characters",
      '{"id":4,"name":"Farn","tag":"\u{1f33f} \\n\\u0000"}',
      { name: "Farn", tag: "\u{1f33f} \n\0" }
    ],
    [
      "other members, which are not stored",
      '{"id":5,"name":"Moss","tagg":"x","age":[1,{"name":2}]}',
      { name: "Moss" }
    ]
  ] as const,
  async ([, body, plant]) => {
    const before = records().length;
    assertAnswer(await responseTo({ body: utf8(body) }), 200, plant);
    const [line = "", ...more] = records().slice(before);
    assert.equal(more.length, 0);
    const stored = JSON.parse(line) as {
      readonly plant: { readonly id: number };
    };
    assert.deepEqual(stored.plant, {
      id: (JSON.parse(body) as { id: number }).id,
      ...plant
    });
  }
);

table(
  "a body that is not a NewPlant is a 400, and every violation is named",
  [
    // test/unit/schema.test.ts has each violation.
    [
      "several violations in one message",
      '{"id":"x","name":1,"tag":null}',
      /\/name.*\/tag.*\/id/
    ],
    ["malformed JSON, with its offset", '{"id":1,}', /\b8\b/],
    [
      "long names, in a message that is bounded",
      utf8(`{"id":1,"name":"","${"\\u0000é".repeat(9000)}`),
      /./
    ],
    [
      "control characters, in an excerpt that is escaped",
      `{"id":1,"\\u0007\\u2028":0,"\\u0007\\u2028":0}`,
      /./
    ]
  ] as const,
  async ([, body, expected]) => {
    const before = records().length;
    assert.match(
      assertError(await responseTo({ body }), [400]).message,
      expected
    );
    assert.equal(records().length, before);
  }
);

const notHttp = "This is not an HTTP message as RFC 9112 defines it";
const parameters =
  "Content-Type must be application/json: expected its parameters as name=value.";
const charset = "The charset of Content-Type must be utf-8, once, or absent.";
const ofType = (value: string): string =>
  request({ type: `Content-Type: ${value}\r\n` });

/** What is sent, and what its Error says, which repeats nothing of that. */
const messages: readonly (readonly [
  message: string,
  status: number,
  ...sent: readonly string[]
])[] = [
  [
    "Content-Type must be application/json.",
    415,
    ofType("S3cret"),
    request({ type: "" })
  ],
  [parameters, 415, ofType("application/json; S3cret")],
  [charset, 415, ofType("application/json; charset=S3cret")],
  [
    "Content-Encoding must be identity or absent.",
    415,
    request({ fields: "Content-Encoding: S3cret\r\n" })
  ],
  [
    "The HTTP version must be 1.0 or 1.1, and CRLF must follow.",
    505,
    request().replace("\r\n", "\n")
  ],
  [
    "Host must be one name or address without a zone, with or without a port.",
    400,
    request({ host: "Host: [fe80::1%eth0]:80\r\n" })
  ],
  [
    "A field that must be single is repeated: content-type.",
    400,
    request({ fields: "Content-Type: application/json\r\n" })
  ],
  [
    "The body is empty, expected a NewPlant, with Content-Length or in chunks.",
    400,
    request({ framing: "", body: "" })
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
  ]
];

table(
  "an error names the rule and the place, and repeats nothing that was sent",
  messages.flatMap(([message, status, ...sent]) =>
    sent.map((bytes) => [message, status, bytes] as const)
  ),
  async ([message, status, bytes]) => {
    const answer = await answerTo(server.port, bytes);
    assert.equal(assertError(answer, [status]).message, message);
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
const pairs = faults.flatMap(([first, one], index) =>
  faults
    .slice(index + 1)
    .map(([second, two]) => [`${first}, then ${second}`, one, two] as const)
);

table(
  "of two faults, the first in the order of checks decides the response",
  pairs,
  async ([, one, two]) => {
    const alone = assertError(await responseTo(one), [one.status]);
    const fields = `${two.fields ?? ""}${one.fields ?? ""}`;
    const both = assertError(await responseTo({ ...two, ...one, fields }), [
      one.status
    ]);
    assert.equal(both.error, alone.error);
  }
);

table(
  "a fault of the head gets its response before 100 Continue, without the body",
  faults.slice(0, 9).filter(([name]) => name !== "Expect"),
  async ([, { status, ...parts }]) => {
    const fields = `${parts.fields ?? ""}Expect: 100-continue\r\n`;
    assertError(await responseTo({ length: 22, ...parts, fields, body: "" }), [
      status
    ]);
  }
);

test("with a base path, /plants follows it and is nowhere else", async () => {
  const { port } = await serve({ basePath: "/v1" });
  for (const [target, status] of [
    ["/v1/plants", 200],
    ["/plants", 404],
    ["/v1", 404]
  ] as const) {
    assertAnswer(await answerTo(port, request({ target })), status);
  }
});
