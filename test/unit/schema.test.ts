/** The checks of Plant, NewPlant and Error: every violation, where it is, and nothing coerced. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { JsonError, parseJson } from "../../src/json/parse.ts";
import { checkSchema, type Schema } from "../../src/json/schema.ts";
import {
  newPlantOf,
  newPlantSchema,
  readNewPlant,
  type NewPlant
} from "../../src/plant.ts";

/** All violations of a text, of which every member is kept. */
const violationsOf = (schema: Schema, text: string): readonly string[] => [
  ...checkSchema(
    schema,
    parseJson(text, 64, Object.keys(Object(JSON.parse(text))))
  )
];

/** The places of the violations, in their order; "" for the whole value. */
const pointersOf = (schema: Schema, text: string): readonly string[] =>
  violationsOf(schema, text).map((violation) =>
    violation.replace(/ .*/, "").replace("it", "")
  );

/** The plant that is kept of a body. */
const read = (text: string): NewPlant =>
  newPlantOf(readNewPlant(Buffer.from(text), 64));

for (const [text, plant] of [
  [
    '{"tag":"shade","name":"Fern","id":1}',
    { id: 1n, name: "Fern", tag: "shade" }
  ],
  ['{"id":0,"name":"","tag":""}', { id: 0n, name: "", tag: "" }],
  ['{"id":-0,"name":" "}', { id: 0n, name: " " }],
  ['{"id":1e2,"name":"a"}', { id: 100n, name: "a" }],
  ['{"id":9223372036854775807,"name":"a"}', { id: 2n ** 63n - 1n, name: "a" }],
  ['{"id":-9223372036854775808,"name":"a"}', { id: -(2n ** 63n), name: "a" }],
  ['{"id":1,"name":"\\u0000\\n😀\\ufeff"}', { id: 1n, name: "\0\n😀\ufeff" }],
  // Members that are not named by the schema are allowed, and not kept.
  [
    '{"id":1,"name":"a","Tag":null,"ID":"x","":{},"more":[[[{}]]]}',
    { id: 1n, name: "a" }
  ],
  [
    '{"id":1,"name":"a","__proto__":{"tag":7},"constructor":1,"toString":null}',
    { id: 1n, name: "a" }
  ]
] as const) {
  test(`${text} is a NewPlant`, () => {
    assert.deepEqual(violationsOf(newPlantSchema, text), []);
    assert.deepStrictEqual(read(text), plant);
  });
}

/** What is there, with all places that are wrong, each once, and what the message expects. */
for (const [text, pointers, found] of [
  // Not even an object: told once, though both parts of the allOf ask for one.
  ["null", [""], /object/],
  ["true", [""], /object/],
  ["7", [""], /object/],
  ['"name"', [""], /object/],
  ["[]", [""], /object/],
  // Something is missing.
  ["{}", ["/name", "/id"], /name is required.*\/id is required/],
  ['{"id":1}', ["/name"], /required/],
  ['{"name":"a"}', ["/id"], /required/],
  ['{"Name":"a","ID":1}', ["/name", "/id"], /required/],
  ['{"__proto__":{"id":1,"name":"a"}}', ["/name", "/id"], /required/],
  // The name or the tag is there, and is no string.
  ['{"id":1,"name":7}', ["/name"], /string/],
  ['{"id":1,"name":[]}', ["/name"], /string/],
  ['{"id":1,"name":{}}', ["/name"], /string/],
  ['{"id":1,"name":"a","tag":null}', ["/tag"], /string/],
  ['{"id":1,"name":"a","tag":false}', ["/tag"], /string/],
  // The id is no integer: nothing is coerced.
  ['{"id":"7","name":"a"}', ["/id"], /integer/],
  ['{"id":true,"name":"a"}', ["/id"], /integer/],
  ['{"id":[1],"name":"a"}', ["/id"], /integer/],
  ['{"id":1.5,"name":"a"}', ["/id"], /integer/],
  [
    '{"id":9223372036854775808,"name":"a"}',
    ["/id"],
    /-9223372036854775808 to 9223372036854775807/
  ],
  // All at once, in whole sentences.
  [
    '{"id":true,"name":null}',
    ["/name", "/id"],
    RegExp(
      "^/name must be a string; " +
        "/id must be an integer from -9223372036854775808 to 9223372036854775807$"
    )
  ],
  [
    '{"id":null,"name":null,"tag":null}',
    ["/name", "/tag", "/id"],
    /string.*string.*integer/
  ],
  ['{"id":1.5,"tag":1}', ["/name", "/tag", "/id"], /required.*string.*integer/]
] as const) {
  test(`${text} is not a NewPlant: wrong at ${pointers.map((at) => at || "the whole")}`, () => {
    assert.deepEqual(
      pointersOf(newPlantSchema, text).toSorted(),
      pointers.toSorted()
    );
    assert.throws(
      () => read(text),
      (error) => {
        assert.ok(error instanceof JsonError && error.code === "schema");
        assert.match(error.message, found);
        assert.equal(
          error.message,
          violationsOf(newPlantSchema, text).join("; ")
        );
        // Nothing of it is the client's own text, and an answer has room for it.
        assert.match(error.message, /^[ -~]{1,450}$/);
        return true;
      }
    );
  });
}

const text: Schema = { type: "string" };
const object: Schema = {
  type: "object",
  required: ["a"],
  properties: { a: text }
};

/** The keywords by themselves: a schema, a value, the places that are wrong. */
const keywords: readonly (readonly [
  Schema,
  value: string,
  pointers: readonly string[]
])[] = [
  [{}, "null", []],
  [{ title: "t", description: "d" }, "7", []],
  [text, '"null"', []],
  [text, "[]", [""]],
  [text, "0", [""]],
  [{ type: "object" }, "{}", []],
  [{ type: "object" }, "[]", [""]],
  [{ type: "integer" }, "7.0", []],
  [{ type: "integer" }, "7.1", [""]],
  [{ type: "integer" }, '"7"', [""]],
  // A format is an annotation (JSON Schema's validation, 7.2.1): every integer is an int64.
  [{ type: "integer", format: "int32" }, "2147483648", []],
  [{ type: "integer", format: "int32" }, "9223372036854775808", [""]],
  [object, '{"a":""}', []],
  [object, '{"a":1}', ["/a"]],
  [object, "{}", ["/a"]],
  [object, "1", [""]],
  [object, '{"a":"","b":null}', []],
  [{ properties: { a: text } }, "{}", []],
  [{ properties: { a: text } }, '{"a":null}', ["/a"]],
  [{ required: ["a", "b"] }, "{}", ["/a", "/b"]],
  // Without a type, what is no object has no members to miss (JSON Schema's validation, 6.5.3).
  [{ required: ["a"] }, "null", []],
  [{ properties: { a: text } }, "[]", []],
  [{ required: ["toString", "__proto__"] }, "{}", ["/toString", "/__proto__"]],
  [{ required: ["toString", "__proto__"] }, '{"toString":1,"__proto__":2}', []],
  [{ properties: { o: { type: "object" } } }, '{"o":{"a":1}}', []],
  [{ properties: { o: { type: "object" } } }, '{"o":[]}', ["/o"]],
  [{ allOf: [] }, "null", []],
  [{ allOf: [text, text] }, "1", [""]],
  [{ allOf: [{}, text] }, '"a"', []],
  [{ allOf: [object, object] }, "{}", ["/a"]],
  [{ allOf: [object, object] }, '{"a":1}', ["/a"]],
  [{ allOf: [{ allOf: [object] }, object] }, '{"a":1}', ["/a"]],
  [{ allOf: [text, { type: "integer" }] }, "null", ["", ""]],
  [{ type: "object", allOf: [object, text] }, "null", ["", ""]]
];

for (const [schema, value, pointers] of keywords) {
  test(`${JSON.stringify(schema)} finds ${pointers.length} violations in ${value}`, () => {
    assert.deepEqual(pointersOf(schema, value), pointers);
  });
}
