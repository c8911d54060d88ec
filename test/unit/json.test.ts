/**
 * The JSON reader: what it accepts, what it refuses, and at which byte.
 *
 * JSON.parse, TextDecoder and a model of I-JSON are the independent oracles.
 * PLANT_TEST_BODIES, whatever its value: four times as many random texts, and strings of 16 MiB.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { decodeUtf8, JsonError, parseJson } from "../../src/json/parse.ts";
import { faultsOf } from "../support/models.ts";
import { seeded } from "../support/support.ts";

const nestingMax = 64;

/** Checks a text, and returns the value that the kept texts stand for, as JSON.parse makes it. */
function valueOf(text: string, nesting = nestingMax): unknown {
  const expected: unknown = JSON.parse(text);
  const names = Object.keys(Object(expected)).map((name) =>
    JSON.stringify(name).slice(1, -1)
  );
  const value = parseJson(text, nesting, names);
  if (!value.text.startsWith("{")) return JSON.parse(value.text);
  return Object.fromEntries(
    [...value.members].map(([name, member]) => [
      JSON.parse(`"${name}"`),
      JSON.parse(member)
    ])
  );
}

function errorOf(body: Buffer | string, nesting = nestingMax) {
  try {
    parseJson(decodeUtf8(Buffer.from(body)), nesting, []);
    return undefined;
  } catch (error) {
    assert.ok(error instanceof JsonError, `a JsonError, not ${String(error)}`);
    const { code, message } = error;
    return {
      code,
      message,
      offset: Number(/^at byte offset (\d+)/.exec(message)?.[1])
    };
  }
}

/** The beginning of a text, for a test's name. */
const shown = (text: string): string => JSON.stringify(text.slice(0, 60));

for (const text of [
  "null",
  "false",
  "-0",
  "-1.5",
  "1E+02",
  '""',
  '"\u2028\u2029"',
  '"\ufffd"',
  '"\\"\\\\\\/\\b\\f\\n\\r\\t"',
  '"\\u0000\\u00e9\\u20AC\\uFFFE"',
  '"\\ud800\\udc00\\uDBFF\\uDFFF"',
  '"\\\\ud83d"',
  "[[],[null,[3]]]",
  "{ }",
  '[{"a":1},{"a":2}]',
  '{"a":1,"A":2,"a ":3}',
  '{"__proto__":{"a":1},"constructor":1,"then":2,"length":3,"get":6}',
  "\t\n\r 1\t\n\r ",
  ' { "a" : [ 1 , 2 ] , "b" : { } } ',
  "[".repeat(nestingMax) + "]".repeat(nestingMax),
  '{"a":'.repeat(63) + "[]" + "}".repeat(63),
  `1e${"0".repeat(400)}`
] as const) {
  test(`${shown(text)} is read as JSON.parse reads it`, () => {
    assert.deepStrictEqual(valueOf(text), JSON.parse(text));
  });
}

for (const text of [
  "9007199254740993",
  "1e1000000000",
  "9".repeat(2 ** 20),
  "0.10000000000000000000000001"
]) {
  test(`${shown(text)} stays the text that was sent`, () => {
    assert.equal(parseJson(` ${text} `, nestingMax, []).text, text);
    const { members } = parseJson(`{"a": ${text} ,"b":0}`, nestingMax, ["a"]);
    assert.deepStrictEqual(members, new Map([["a", text]]));
  });
}

const isLong = process.env["PLANT_TEST_BODIES"] !== undefined;
const mebibytes = isLong ? 16 : 4;
for (const piece of ["s", "\u00e9", "\\n", "x\\n", "\\ud83d\\ude00"]) {
  test(`a string of ${shown(piece)} may have ${mebibytes} MiB`, () => {
    const count =
      Math.floor((mebibytes * 2 ** 20) / Buffer.byteLength(piece)) - 1;
    const body = Buffer.from(`"${piece.repeat(count)}"`);
    assert.equal(
      parseJson(decodeUtf8(body), nestingMax, []).text,
      body.toString()
    );
  });
}

const deep = "[".repeat(65) + "]".repeat(65);

/** Texts by the code of their error, each with the byte where it stops being I-JSON. */
const invalid: Readonly<
  Partial<Record<JsonError["code"], readonly (readonly [string, number])[]>>
> = {
  json: [
    ["", 0],
    ["{}{}", 2],
    ["1\0", 1],
    ["/**/1", 0],
    ["\ufeff1", 0],
    ["\u00a01", 0],
    ["truee", 4],
    ["-", 0],
    ["+1", 0],
    ["01", 0],
    ["1.", 1],
    [".5", 0],
    ["1e", 1],
    ["1E+", 1],
    ["0x1", 1],
    ["NaN", 0],
    ["１", 0],
    ['"', 1],
    ["'a'", 0],
    ['"a\nb"', 2],
    ['"\0"', 1],
    ['"\u001f"', 1],
    ['"€\u0001"', 4],
    ['"\\', 1],
    ['"\\x41"', 1],
    ['"\\u00"', 1],
    ['"\\u00g1"', 1],
    ['"\\ud83d\\u"', 1],
    ["[", 1],
    ["]", 0],
    ["[1,]", 3],
    ["[1 2]", 3],
    ['["é" "é"]', 6],
    ["{", 1],
    ["{1:2}", 1],
    ['{"a" 1}', 5],
    ['{"a":}', 5],
    ['{"a":1,}', 7],
    ['{"a":1]', 6],
    ['{"😀":"😀",}', 15]
  ],
  duplicate: [
    ['{"a":1,"a":1}', 7],
    ['{"a":{"b":1,"c":2},"b":1,"b":2}', 25],
    ['{"a":1, "\\u0061":2}', 8],
    ['[[{"a":{"b":1,"b":2}}]]', 14],
    ['{"a":1,"a"', 7],
    ['{"__proto__":1,"__proto__":2}', 15],
    ['{"1":1,"1":2}', 7]
  ],
  surrogate: [
    ['"\\ude00\\ud83d"', 1],
    ['"\\ud83d\\ud83d\\ude00"', 1],
    ['"\\ud83dx\\ude00"', 1],
    ['"\\uD83D😀"', 1],
    ['"\\ud83d\\ude00\\ude00"', 13],
    ['"\\ud83d\\ud7ff"', 1],
    ['{"\\ud83d":1}', 2]
  ],
  nesting: [
    [deep, 64],
    ['{"é":'.repeat(65), 384],
    ["[1," + deep.slice(1), 66],
    ['{"a":'.repeat(100_000), 320]
  ]
};

const errors = Object.entries(invalid).flatMap(([code, texts]) =>
  texts.map(([text, offset]) => [text, code, offset] as const)
);
for (const [text, code, offset] of errors) {
  test(`${shown(text)} is refused at offset ${offset} as ${code}`, () => {
    const error = errorOf(text);
    assert.equal(error?.code, code);
    assert.equal(error?.offset, offset);
    // Safe in any log: one line, and nothing of what was sent.
    assert.match(
      error?.message ?? "",
      new RegExp(`^at byte offset ${offset}, expected [ -~]{1,90}$`)
    );
  });
}

for (const [text, expected] of [
  ["{'id':1}", "a member name in double quotes"],
  [
    "'a'",
    "a JSON value: strings in double quotes, numbers without leading zeros"
  ],
  [
    '"a\nb"',
    "a character, an escape or the closing quote: control characters must be escaped"
  ],
  ["[1 2]", '"," or "]"'],
  ["[[]]", "at most 1 levels"]
] as const) {
  test(`the message for ${shown(text)} says what was expected`, () => {
    assert.match(errorOf(text, 1)?.message ?? "", / expected /);
    assert.equal(errorOf(text, 1)?.message.split(", expected ")[1], expected);
  });
}

/** Bytes, and the position of the first that are not part of a well-formed character. */
for (const [what, hex, offset] of [
  ["a byte FF", "ff", 0],
  ["a lone continuation", "228022", 1],
  ["two bytes, truncated", "22c3", 1],
  ["EF before EF BF BD", "22efefbfbd22", 1],
  ["four bytes, truncated", "22f09f98", 1],
  ["an overlong slash", "22c0af22", 1],
  ["U+110000", "22f490808022", 1],
  ["FF after characters of two and three", "22c3a9e282acff22", 6],
  ["UTF-16 with a byte order mark", "fffe3100", 0],
  ["EF BF after U+FFFD", "22efbfbdefbf", 4]
] as const) {
  test(`${what} (${hex}) is refused at offset ${offset} as not UTF-8`, () => {
    const error = errorOf(Buffer.from(hex, "hex"));
    assert.equal(error?.code, "utf8");
    assert.equal(error?.offset, offset);
  });
}

type Below = (bound: number) => number;

const spaces = ["", "", "", " ", "\n", "\t \r"];
const scalars = [
  "null",
  "true",
  "false",
  "0",
  "-0",
  "1",
  "-1.5",
  "1e5",
  "12345678901234567890"
];
const characters = [
  "a",
  "b",
  "é",
  "😀",
  "\\n",
  '\\"',
  "\\\\",
  "\\u0061",
  "\\ud83d\\ude00",
  " "
];
const names = [
  "",
  "a",
  "b",
  "c",
  "é",
  "😀",
  "__proto__",
  "constructor",
  "0",
  "1",
  "\\u0061"
];

/** A random JSON text, in which a name may occur twice. */
function randomText(below: Below, depth: number): string {
  const one = (table: readonly string[]): string =>
    table[below(table.length)] ?? "";
  const many = (make: () => string): string =>
    Array.from({ length: below(4) }, make).join(
      `${one(spaces)},${one(spaces)}`
    );
  const value = (): string => randomText(below, depth - 1);
  switch (below(depth > 0 ? 5 : 2)) {
    case 0:
      return one(scalars);
    case 1:
      return `"${Array.from({ length: below(5) }, () => one(characters)).join("")}"`;
    case 2:
      return `[${one(spaces)}${many(value)}${one(spaces)}]`;
    default:
      return `{${many(() => `"${one(names)}"${one(spaces)}:${one(spaces)}${value()}`)}}`;
  }
}

/** The text with a piece left out, put in, or repeated; it stays well-formed Unicode. */
function mutated(text: string, below: Below): string {
  const alphabet = [...'{}[]",:\\u0d18eE+-.tn /\u0001é😀'];
  const points = [...text];
  const at = below(points.length + 1);
  const length = below(4);
  switch (below(3)) {
    case 0:
      points.splice(at, length + 1);
      break;
    case 1:
      points.splice(at, below(2), alphabet[below(alphabet.length)] ?? "");
      break;
    default:
      points.splice(at, 0, ...points.slice(at, at + length + 1));
  }
  return points.join("");
}

/** Rounds of a random test. */
const rounds = (count: number): number => (isLong ? count : count / 4);

test("random texts, mutated or not, are accepted and refused as JSON.parse and I-JSON say", () => {
  const below = seeded(1);
  const seen = {
    accepted: 0,
    json: 0,
    duplicate: 0,
    surrogate: 0,
    nesting: 0,
    utf8: 0,
    schema: 0
  };
  for (let round = 0; round < rounds(40_000); round++) {
    let text = randomText(below, 5);
    for (let times = below(3); times > 0; times--) text = mutated(text, below);
    const error = errorOf(text, 4);
    seen[error?.code ?? "accepted"]++;
    let parsed: unknown;
    try {
      parsed = JSON.parse(text);
    } catch {
      assert.ok(error, `JSON.parse refuses ${text}`);
      continue;
    }
    const faults: readonly string[] = faultsOf(text, 4);
    if (error)
      assert.ok(
        faults.includes(error.code),
        `${error.code} is wrong of ${text}`
      );
    else assert.deepStrictEqual([valueOf(text, 4), faults], [parsed, []]);
  }
  assert.equal(
    Object.values(seen).filter((times) => times >= 20).length,
    5,
    JSON.stringify(seen)
  );
});

test("random bytes are refused where the longest text that TextDecoder accepts ends", () => {
  const below = seeded(3);
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  const isValid = (bytes: Buffer): boolean =>
    Buffer.from(decoder.decode(bytes)).equals(bytes);
  const pieces = (
    "61 c3 a9 c3a9 e2 82 ac e282ac f0 9f 98 80 ef bf bd efbfbd f09f9880 ed a0 c0 f4 " +
    "90 ff e0 bb 22"
  ).split(" ");
  for (let round = 0; round < rounds(20_000); round++) {
    const hex = Array.from(
      { length: below(7) },
      () => pieces[below(pieces.length)] ?? ""
    ).join("");
    const bytes = Buffer.from(`22${hex}`, "hex");
    let end = bytes.length;
    while (!isValid(bytes.subarray(0, end))) end--;
    const error = errorOf(bytes);
    assert.equal(error?.code === "utf8", end < bytes.length, hex);
    if (error?.code === "utf8") assert.equal(error.offset, end, hex);
  }
});

for (const length of [16_383, 16_384]) {
  test(`a name of ${length} characters with its quotes may stand once in an object`, () => {
    const name = (last: string) => `"${last.padStart(length - 2, "x")}"`;
    const object = (...lasts: readonly string[]) =>
      `{${lasts.map((last) => `${name(last)}:0`).join(",")}}`;
    assert.equal(errorOf(object("a", "b", "c")), undefined);
    assert.equal(errorOf(object("a", "b", "a"))?.code, "duplicate");
    const escaped = `{${name("a")}:0,${name("a").replace("x", "\\u0078")}:0}`;
    assert.equal(errorOf(escaped)?.code, "duplicate", "however it is spelt");
  });
}
