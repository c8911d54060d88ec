/** The description for machines says what the interface declares, and the answers keep to it. */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { ApiError, catalogue, messageCharactersMax, type Cause } from "../../src/http/errors.ts";
import { parseJson } from "../../src/json/parse.ts";
import { checkSchema } from "../../src/json/schema.ts";
import { describeApi } from "../../src/openapi.ts";
import { errorSchema, newPlantSchema, plantSchema } from "../../src/plant.ts";
import { exchange, post, run, start, token, type RawAnswer } from "../support/support.ts";

const server = await start();
after(() => server.end());

/** As a client gets it. */
const description: unknown = JSON.parse(JSON.stringify(describeApi()));

/** What stands at a JSON Pointer; undefined where there is nothing. */
function at(pointer: string): unknown {
  let value: unknown = description;
  for (const step of pointer.split("/").slice(1)) {
    const name = step.replaceAll("~1", "/").replaceAll("~0", "~");
    value = Object.entries(Object(value)).find(([known]) => known === name)?.[1];
  }
  return value;
}

/** The value with every reference into the description replaced by what it refers to. */
function resolved(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(resolved);
  if (typeof value !== "object" || value === null) return value;
  if ("$ref" in value) {
    const target = at(String(value.$ref).replace(/^#/, ""));
    assert.notEqual(target, undefined, `${String(value.$ref)} refers to something`);
    return resolved(target);
  }
  const members = Object.entries(value).map(([name, member]) => [name, resolved(member)]);
  return Object.fromEntries(members);
}

const operation = "/paths/~1plants/post";
const ofAnswer = (status: string): string =>
  `${operation}/responses/${status}/content/application~1json/schema`;

const declared: readonly (readonly [pointer: string, value: unknown])[] = [
  ["/openapi", "3.1.0"], ["/info/version", "1.0.0"], ["/info/license/name", "MIT"],
  ["/info/license/identifier", "MIT"], ["/servers", [{ url: "/" }]],
  // Bearer, for the whole document: no operation has a security of its own.
  ["/security", [{ bearer: [] }]],
  ["/components/securitySchemes", { bearer: { type: "http", scheme: "bearer" } }],
  [`${operation}/security`, undefined],
  // One path, one operation, no parameters, a body.
  [`${operation}/parameters`, undefined], ["/paths/~1plants/parameters", undefined],
  [`${operation}/requestBody/required`, true],
  ["/webhooks", undefined],
];
for (const [pointer, value] of declared) {
  test(`the description has at ${pointer}: ${JSON.stringify(value) ?? "nothing"}`, () => {
    assert.deepEqual(at(pointer), value);
  });
}

const names: readonly (readonly [pointer: string, names: readonly string[]])[] = [
  ["/paths", ["/plants"]], ["/paths/~1plants", ["post"]],
  [`${operation}/requestBody/content`, ["application/json"]],
  [`${operation}/responses`, ["200", "400", "default"]],
  [`${operation}/responses/200/content`, ["application/json"]],
  [`${operation}/responses/400/content`, ["application/json"]],
  [`${operation}/responses/default/content`, ["application/json"]],
  ["/components/schemas", ["Plant", "NewPlant", "Error"]],
];
for (const [pointer, expected] of names) {
  test(`the description names at ${pointer}: ${expected.join(", ")}`, () => {
    assert.deepEqual(Object.keys(Object(at(pointer))), expected);
  });
}

const schemas: readonly (readonly [pointer: string, schema: unknown, ref: string])[] = [
  [`${operation}/requestBody/content/application~1json/schema`, newPlantSchema, "NewPlant"],
  [ofAnswer("200"), plantSchema, "Plant"], [ofAnswer("400"), errorSchema, "Error"],
  [ofAnswer("default"), errorSchema, "Error"],
];
for (const [pointer, schema, ref] of schemas) {
  test(`the schema at ${pointer} is ${ref}, as plant.ts has it`, () => {
    assert.deepEqual(at(pointer), { $ref: `#/components/schemas/${ref}` });
    assert.deepEqual(resolved(at(pointer)), schema);
    assert.deepEqual(resolved(at(`/components/schemas/${ref}`)), schema);
  });
}

test("the schemas are the three objects of the published description", () => {
  const plant = { title: "Plant", type: "object", required: ["name"], properties: {
    name: { type: "string" }, tag: { type: "string", description: "the type of the plant" } } };
  assert.deepEqual(plantSchema, plant);
  assert.deepEqual(newPlantSchema, { title: "NewPlant", allOf: [plant, {
    type: "object", required: ["id"],
    properties: { id: { type: "integer", format: "int64", description: "identification number" } },
  }] });
  assert.deepEqual(errorSchema, { title: "Error", type: "object", required: ["error", "message"],
    properties: { error: { type: "integer", format: "int32", description: "numeric error value" },
      message: { type: "string" } } });
});

test("every answer has a description, and each number of the catalogue is in one of them", () => {
  const of400 = String(at(`${operation}/responses/400/description`));
  const ofOthers = String(at(`${operation}/responses/default/description`));
  assert.match(String(at(`${operation}/responses/200/description`)), /\w/);
  for (const { error, when } of Object.values(catalogue)) {
    const [own, other] = Math.floor(error / 100) === 400 ? [of400, ofOthers] : [ofOthers, of400];
    assert.ok(own.includes(`${error}: ${when}`), `${error} in: ${own}`);
    assert.ok(!other.includes(`${error}`), `${error} not in: ${other}`);
  }
});

test("the program prints the same description", async () => {
  const { code, stdout, stderr } = await run(["openapi"]);
  assert.deepEqual([code, stderr], [0, ""]);
  assert.deepEqual(JSON.parse(stdout), description);
});

test("the numbers of the catalogue tell the causes apart, and the status", () => {
  const numbers = Object.values(catalogue).map(({ error }) => error);
  assert.equal(new Set(numbers).size, numbers.length);
  for (const cause of Object.keys(catalogue) as Cause[]) {
    assert.equal(new ApiError(cause, "").status, Math.floor(catalogue[cause].error / 100));
    assert.ok([...Array(200).keys()].includes(new ApiError(cause, "").status - 400));
  }
});

/** The answer's body is such an object, I-JSON, with these members and no other. */
function assertIs(schema: typeof plantSchema | typeof errorSchema, body: string): void {
  const known = Object.keys(schema.properties);
  assert.deepEqual([...checkSchema(schema, parseJson(Buffer.from(body), 4, known))], [], body);
  assert.ok(Object.keys(JSON.parse(body)).every((name) => known.includes(name)), body);
}

for (const cause of Object.keys(catalogue) as Cause[]) {
  test(`the answer of the cause ${cause} is an Error, however long its message`, () => {
    for (const length of [0, 1, 499, 500, 501, 10_000]) {
      const { body } = new ApiError(cause, "m".repeat(length));
      assertIs(errorSchema, body);
      const { error, message } = JSON.parse(body) as Readonly<Record<string, unknown>>;
      assert.deepEqual(error, catalogue[cause].error);
      assert.ok(String(message).length <= Math.min(length, messageCharactersMax));
    }
  });
}

/** The one answer to the bytes. */
async function answerTo(bytes: string | Buffer): Promise<RawAnswer> {
  const [answer] = await exchange(server.port, bytes, { answers: 1 });
  return answer ?? assert.fail("there is no answer");
}

const plants: readonly (readonly [body: string, answer: string])[] = [
  ['{"id":1,"name":"Fern"}', '{"name":"Fern"}'],
  ['{"id":1,"name":"Fern","tag":"shade"}', '{"name":"Fern","tag":"shade"}'],
  ['{"tag":"","name":"","id":-9223372036854775808}', '{"name":"","tag":""}'],
  ['{"id":1.0,"name":"\\u0000😀\\"","more":[]}', '{"name":"\\u0000😀\\""}'],
  [' {"id":1e2,"name":"\\ud83d\\ude00"} ', '{"name":"😀"}'],
];
for (const [body, expected] of plants) {
  test(`${body} is answered with the Plant ${expected}`, async () => {
    const answer = await answerTo(post(body));
    assert.deepEqual([answer.status, answer.body], [200, `${expected}\n`]);
    assert.equal(answer.headers["content-type"], "application/json");
    assertIs(plantSchema, answer.body);
  });
}

const bearer = `Authorization: Bearer ${token}\r\n`;
const head = (line: string, fields: string): string => `${line}\r\nHost: a\r\n${fields}\r\n`;
const plantsLine = "POST /plants HTTP/1.1";
const typed = (subtype: string): string => `Content-Type: application/${subtype}\r\n`;

const errors: readonly (readonly [what: string, request: string | Buffer, error: number])[] = [
  ["a broken request line", "PLANT\r\n\r\n", 40001],
  ["a fragment", head("POST /plants#a HTTP/1.1", bearer), 40002],
  ["two Hosts", head(plantsLine, `Host: b\r\n${bearer}`), 40003],
  ["no b64token", head(plantsLine, "Authorization: Bearer a b\r\n"), 40006],
  ["two Authorizations", head(plantsLine, `${bearer}${bearer}`), 40007],
  ["an empty body", post(""), 40008],
  ["bytes that are not UTF-8", post(Buffer.from([0xff])), 40009],
  ["no JSON", post("{"), 40010], ["a byte order mark", post("\ufeff{}"), 40010],
  ["a name twice", post('{"id":1,"id":2}'), 40011], ["half of a pair", post('"\\ud800"'), 40012],
  ["deep nesting", post("[".repeat(65)), 40013], ["an empty object", post("{}"), 40014],
  ["three violations", post('{"id":"1","name":2,"tag":null}'), 40014],
  ["null", post("null"), 40014],
  ["no Authorization", head(plantsLine, ""), 40101],
  ["Basic", head(plantsLine, "Authorization: Basic YTpi\r\n"), 40101],
  ["another token", head(plantsLine, "Authorization: Bearer other\r\n"), 40102],
  ["another path without a token", head("POST /x HTTP/1.1", ""), 40101],
  ["another path", head("POST /x HTTP/1.1", bearer), 40401],
  ["GET", head("GET /plants HTTP/1.1", bearer), 40501],
  ["CONNECT", head("CONNECT a:1 HTTP/1.1", bearer), 40502],
  ["a long body", head(plantsLine, `${bearer}${typed("json")}Content-Length: 1048577\r\n`), 41301],
  ["XML", head(plantsLine, `${bearer}${typed("xml")}`), 41501],
  ["Latin-1", head(plantsLine, `${bearer}${typed("json; charset=latin1")}`), 41502],
  ["gzip", post("{}", "Content-Encoding: gzip\r\n"), 41503],
  ["another Expect", post("{}", "Expect: tea\r\n"), 41701],
  ["a large head", head(plantsLine, `${bearer}X: ${"x".repeat(20_000)}\r\n`), 43101],
  ["many fields", head(plantsLine, `${bearer}${"X: y\r\n".repeat(120)}`), 43102],
  ["HTTP/2.0", head("POST /plants HTTP/2.0", bearer), 50501],
];
for (const [what, request, error] of errors) {
  test(`${what} is answered with the Error ${error}`, async () => {
    const { status, headers, body } = await answerTo(request);
    assertIs(errorSchema, body);
    assert.equal(Number(/"error":(\d+)/.exec(body)?.[1]), error, body);
    assert.equal(status, Math.floor(error / 100));
    assert.equal(headers["content-type"], "application/json");
    assert.equal(Number(headers["content-length"]), Buffer.byteLength(body));
    assert.ok(!Number.isNaN(Date.parse(headers["date"] ?? "")), "it has a Date");
  });
}
