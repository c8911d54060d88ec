/** The checks of Plant, NewPlant and Error: every violation, where it is, and nothing coerced. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { JsonError, parseJson } from "../../src/json/parse.ts";
import { checkSchemas } from "../../src/json/schema.ts";
import {
  newPlantOf,
  newPlantSchema,
  readNewPlant,
  type NewPlant
} from "../../src/plant.ts";

/** All violations of a text, of which every member is kept. */
const violationsOf = (text: string) =>
  checkSchemas(
    newPlantSchema.allOf,
    parseJson(text, 64, Object.keys(Object(JSON.parse(text))))
  );

/** The places of the violations, in their order; "" for the whole value. */
const pointersOf = (text: string): readonly string[] =>
  violationsOf(text).map((violation) =>
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
    assert.deepEqual(violationsOf(text), []);
    assert.deepStrictEqual(read(text), plant);
  });
}

/** What is there, with all places that are wrong, each once, and what the message expects. */
for (const [text, pointers, found] of [
  // Not even an object: told once, though both parts of the allOf ask for one.
  ["null", [""], /object/],
  ["[]", [""], /object/],
  // Something is missing.
  ["{}", ["/name", "/id"], /name is required.*\/id is required/],
  ['{"Name":"a","ID":1}', ["/name", "/id"], /required/],
  ['{"__proto__":{"id":1,"name":"a"}}', ["/name", "/id"], /required/],
  // The name or the tag is there, and is no string.
  ['{"id":1,"name":7}', ["/name"], /string/],
  ['{"id":1,"name":"a","tag":null}', ["/tag"], /string/],
  // The id is no integer: nothing is coerced.
  ['{"id":"7","name":"a"}', ["/id"], /integer/],
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
  ['{"id":1.5,"tag":1}', ["/name", "/tag", "/id"], /required.*string.*integer/]
] as const) {
  test(`${text} is not a NewPlant: wrong at ${pointers.map((at) => at || "the whole")}`, () => {
    assert.deepEqual(pointersOf(text).toSorted(), pointers.toSorted());
    assert.throws(
      () => read(text),
      (error) => {
        assert.ok(error instanceof JsonError && error.code === "schema");
        assert.match(error.message, found);
        assert.equal(error.message, violationsOf(text).join("; "));
        // Nothing of it is the client's own text, and an answer has room for it.
        assert.match(error.message, /^[ -~]{1,450}$/);
        return true;
      }
    );
  });
}
