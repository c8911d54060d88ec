/** The OpenAPI description declares what the server does; test/contract-tools compares the responses. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, test } from "node:test";
import { catalogue } from "../../src/http/errors.ts";
import { limitsWith } from "../../src/config.ts";
import { describeApi } from "../../src/openapi.ts";
import { run } from "../support/in-process.ts";
import { answerTo } from "../support/exchange.ts";
import { post, root, startProcess, token } from "../support/support.ts";

const server = await startProcess();
after(() => server.end());

/** The description as a client gets it. */
const description: unknown = JSON.parse(
  JSON.stringify(describeApi(limitsWith()))
);

/** Returns the value at a JSON Pointer, or undefined. */
function at(pointer: string, value: unknown = description): unknown {
  for (const step of pointer.split("/").slice(1)) {
    const name = step.replaceAll("~1", "/").replaceAll("~0", "~");
    value = Object.entries(Object(value)).find(
      ([known]) => known === name
    )?.[1];
  }
  return value;
}

/** The value with every reference into the description replaced by what it refers to. */
function resolved(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(resolved);
  if (typeof value !== "object" || value === null) return value;
  if ("$ref" in value) {
    const target = at(String(value.$ref).replace(/^#/, ""));
    assert.notEqual(
      target,
      undefined,
      `${String(value.$ref)} refers to something`
    );
    return resolved(target);
  }
  const members = Object.entries(value).map(([name, member]) => [
    name,
    resolved(member)
  ]);
  return Object.fromEntries(members);
}

const operation = "/paths/~1plants/post";
const statuses = Object.keys(Object(at(`${operation}/responses`)));

/** A value without texts for people and examples. */
function skeletonOf(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(skeletonOf);
  if (typeof value !== "object" || value === null) return value;
  const members = Object.entries(value).filter(
    ([name]) => !/^(?:description|summary|examples?|title|pattern)$/.test(name)
  );
  return Object.fromEntries(
    members.map(([name, member]) => [name, skeletonOf(member)])
  );
}

test("the description declares one operation, its security, its parameter, its body and its responses", () => {
  const text = { schema: { type: "string" } };
  const content = (name: string) => ({
    "application/json": { schema: { $ref: `#/components/schemas/${name}` } }
  });
  const failed = { content: content("Error") };
  const { info, components, ...rest } = Object(skeletonOf(description));
  assert.equal(info.version, "1.0.0");
  assert.deepEqual(info.license, { name: "MIT", identifier: "MIT" });
  assert.deepEqual(Object.keys(components), ["schemas", "securitySchemes"]);
  assert.deepEqual(components.securitySchemes, {
    bearer: { type: "http", scheme: "bearer" }
  });
  assert.deepEqual(Object.keys(components.schemas), [
    "Plant",
    "NewPlant",
    "Error"
  ]);
  assert.deepEqual(rest, {
    openapi: "3.1.0",
    // Its URL does not end with "/": tools append "/plants" to it.
    servers: [{ url: "http://127.0.0.1:8080" }],
    // For the whole document: no operation has a security of its own.
    security: [{ bearer: [] }],
    paths: {
      "/plants": {
        post: {
          operationId: "createPlant",
          parameters: [{ name: "Idempotency-Key", in: "header", ...text }],
          requestBody: { required: true, content: content("NewPlant") },
          responses: {
            200: {
              content: content("Plant"),
              headers: {
                "Idempotency-Replayed": {
                  schema: { type: "string", enum: ["true"] }
                }
              }
            },
            400: failed,
            401: failed,
            404: failed,
            405: failed,
            408: failed,
            413: failed,
            415: failed,
            417: failed,
            422: failed,
            431: failed,
            500: failed,
            501: failed,
            503: failed,
            505: failed
          }
        }
      }
    }
  });
});

test("the schemas are the three objects of the published description", () => {
  const plant = {
    title: "Plant",
    type: "object",
    required: ["name"],
    properties: {
      name: { type: "string" },
      tag: { type: "string", description: "the type of the plant" }
    }
  };
  const { Error: error, ...plants } = Object(
    resolved(at("/components/schemas"))
  );
  assert.deepEqual(plants, {
    Plant: plant,
    NewPlant: {
      title: "NewPlant",
      allOf: [
        plant,
        {
          type: "object",
          required: ["id"],
          properties: {
            id: {
              type: "integer",
              format: "int64",
              description: "identification number"
            }
          }
        }
      ]
    }
  });
  const { examples, ...described } = error;
  assert.equal(examples.length, 1);
  assert.deepEqual(described, {
    title: "Error",
    type: "object",
    required: ["error", "message"],
    properties: {
      error: {
        type: "integer",
        format: "int32",
        description: "numeric error value"
      },
      message: { type: "string" }
    }
  });
});

test("every response has a description, and each number of the catalogue is an item of that of its status", () => {
  const textOf = (status: string) =>
    String(at(`${operation}/responses/${status}/description`));
  assert.match(textOf("200"), /\w/);
  const items = statuses.flatMap((status) =>
    textOf(status)
      .split("\n")
      .filter((line) => line.startsWith(`- ${status}`))
  );
  assert.deepEqual(
    items,
    Object.values(catalogue).map(([error, what]) => `- ${error}: ${what}`)
  );
});

test("the example has an id beyond 2^53 that every JSON reader shows as it is, and is answered as described, as is that of an Error", async () => {
  const example = at(
    `${operation}/requestBody/content/application~1json/example`
  );
  const text = JSON.stringify(example);
  const [, digits = ""] = /"id":(\d+)/.exec(text) ?? [];
  assert.ok(
    BigInt(digits) > 2n ** 53n && BigInt(Number(digits)) === BigInt(digits),
    digits
  );
  const { status, body } = await answerTo(server.port, post(text));
  assert.equal(status, 200);
  assert.deepEqual(
    JSON.parse(body),
    at(`${operation}/responses/200/content/application~1json/example`)
  );
  const refused = await answerTo(
    server.port,
    post(text).toString().replace(token, "weeds")
  );
  assert.deepEqual(
    JSON.parse(refused.body),
    at("/components/schemas/Error/examples/0")
  );
});

test("the pattern of Idempotency-Key is a regular expression of JSON Schema, which has the flag u", () => {
  const pattern = new RegExp(
    String(at(`${operation}/parameters/0/schema/pattern`)),
    "u"
  );
  for (const key of ["8e03978e-40d5", '"a b"']) assert.match(key, pattern);
  for (const key of ["", "a b", '"a']) assert.doesNotMatch(key, pattern);
});

test("the program prints the same description, and one without keys if the store keeps none", async () => {
  const printed = async (
    args: readonly string[],
    env = {}
  ): Promise<unknown> => {
    const { code, stdout, stderr } = await run(["openapi", ...args], env);
    assert.equal(code, 0);
    assert.equal(stderr, "");
    return JSON.parse(stdout);
  };
  assert.deepEqual(await printed([]), description);
  const without = await printed(["--key-window", "0"]);
  assert.deepEqual(await printed([], { PLANTS_KEY_WINDOW: "0" }), without);
  const { scripts } = JSON.parse(
    readFileSync(join(root, "package.json"), "utf8")
  );
  const [, built = ""] = /server\.js openapi (.*) >/.exec(scripts.build) ?? [];
  assert.deepEqual(
    await printed(built.split(" "), { PLANTS_KEY_WINDOW: "0" }),
    description,
    "what npm publishes does not depend on the builder's environment"
  );
  for (const own of [description, without]) {
    const text = String(at("/info/description", own));
    assert.match(
      text,
      /stable storage.\n\n.*2\^53.*\n\nAfter no response, or error \d+ or \d+, .*twice\.$/s
    );
    assert.equal(
      text.includes("Repeat the request with the same Idempotency-Key"),
      own === description
    );
    const named =
      /Idempotency|replay|with this key|40016|42201|"422"|parameters/gi;
    assert.equal(named.test(JSON.stringify(own)), own === description);
  }
});
