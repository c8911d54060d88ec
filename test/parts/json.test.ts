/**
 * The JSON reader: what it takes, what it refuses, where, and in how much time.
 *
 * JSON.parse and TextDecoder are the independent oracles; the differences from them are I-JSON's.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { JsonError, parseJson, type JsonErrorCode } from "../../src/json/parse.ts";
import { PlantError, readNewPlant } from "../../src/plant.ts";
import { shapes } from "../support/shapes.ts";
import { seeded } from "../support/support.ts";

const nestingMax = 64;

/** Checks a text, and returns the value that the kept texts stand for, as JSON.parse makes it. */
function valueOf(text: string, nesting = nestingMax): unknown {
  const expected: unknown = JSON.parse(text);
  const names = Object.keys(Object(expected));
  const value = parseJson(Buffer.from(text), nesting, names);
  if (typeof value === "string") return JSON.parse(value);
  return Object.fromEntries([...value].map(([name, member]) => [name, JSON.parse(member)]));
}

function errorOf(body: Buffer | string, nesting = nestingMax): JsonError | undefined {
  try {
    parseJson(Buffer.from(body), nesting, []);
    return undefined;
  } catch (error) {
    assert.ok(error instanceof JsonError, `a JsonError, not ${String(error)}`);
    return error;
  }
}

/** For a test's name: the text itself while it is short. */
const shown = (text: string): string => JSON.stringify(text.slice(0, 60));

const valid: readonly string[] = [
  "null", "true", "false", "0", "-0", "7", "-7", "10", "1.5", "-1.5", "0.0", "0.5", "1e2", "1E2",
  "1e+2", "1e-2", "1E+02", "0e0", "-0.0e-0", "1e400", "1e-400", "9007199254740993",
  '""', '"a"', '"é"', '"€"', '"😀"', '"\u007f"', '"\u2028\u2029"', '"\ufeff"', '"\ufffd"',
  '"\uffff"', '"\u{10ffff}"', '"\\u0000"', '"\\uFFFE"', '"\\uffff"',
  '"\\"\\\\\\/\\b\\f\\n\\r\\t"', '"\\u0041\\u00e9\\u20AC"', '"\\ud83d\\ude00"', '"\\uD83D\\uDE00"',
  '"\\ud800\\udc00"', '"\\udbff\\udfff"', '"\\ud7ff\\ue000"', '"\\\\ud83d"', '"/"', '"\\\\"',
  "[]", "[ ]", "[1]", "[[]]", "[1,2,[3]]", "[null,true,false]", '["a",{"b":[]}]',
  "{}", "{ }", '{"a":1}', '{"":1}', '{"a":{"a":{"a":1}}}', '[{"a":1},{"a":2}]', '{"a":1,"A":2}',
  '{"é":1,"e\u0301":2}', '{"a":1,"a ":2}', '{"1":1,"01":2,"1.0":3}', '{"2":1,"1":2,"-1":3}',
  '{"__proto__":1}', '{"__proto__":{"a":1}}', '{"constructor":1,"toString":2,"valueOf":3}',
  '{"hasOwnProperty":1,"then":2,"length":3,"size":4,"has":5,"get":6}', '{"prototype":{}}',
  " 1", "1 ", "\t\n\r 1\t\n\r ", ' { "a" : [ 1 , 2 ] , "b" : { } } ', "\r\n[\r\n]\r\n",
  "[".repeat(nestingMax) + "]".repeat(nestingMax), '{"a":'.repeat(63) + "[]" + "}".repeat(63),
  `[${"[[]],".repeat(99)}1]`, "9".repeat(400), `0.${"0".repeat(400)}1`, `1e${"0".repeat(400)}`,
];

for (const text of valid) {
  test(`${shown(text)} is read as JSON.parse reads it`, () => {
    assert.deepStrictEqual(valueOf(text), JSON.parse(text));
  });
}

for (const text of ["9007199254740993", "-0", "1.0", "1E+2", "1e1000000000", "9".repeat(2 ** 20),
  `1${"0".repeat(100_000)}e-100000`, "0.10000000000000000000000001"]) {
  test(`${shown(text)} stays the text that was sent`, () => {
    assert.equal(parseJson(Buffer.from(` ${text} `), nestingMax, []), text);
    const kept = parseJson(Buffer.from(`{"a": ${text} ,"b":0}`), nestingMax, ["a"]);
    assert.deepStrictEqual(kept, new Map([["a", text]]));
  });
}

for (const piece of ["s", "\u00e9", "\\n", "x\\n", "\\ud83d\\ude00"]) {
  test(`a string of ${shown(piece)} may be as long as the largest body`, () => {
    const body = Buffer.from(`"${piece.repeat(2 ** 24 / Buffer.byteLength(piece) - 1)}"`);
    assert.equal(parseJson(body, nestingMax, []), body.toString());
  });
}

const deep = "[".repeat(65) + "]".repeat(65);

/** Each with its code and the byte where the text stops being I-JSON. */
const invalid: readonly (readonly [text: string, code: JsonErrorCode, offset: number])[] = [
  // Nothing, or more than one value.
  ["", "json", 0], [" ", "json", 1], ["\n\t\r ", "json", 4], ["1 2", "json", 2],
  ["{}{}", "json", 2], ["[] ,", "json", 3], ["nullnull", "json", 4], ['""1', "json", 2],
  ["1;", "json", 1], ["1\0", "json", 1], ["1//", "json", 1], ["/**/1", "json", 0],
  // White space that is none of JSON's four, and a byte order mark.
  ["\ufeff1", "json", 0], ["\ufeff", "json", 0], [" \ufeff1", "json", 1],
  ["1\ufeff", "json", 1], ["\u00a01", "json", 0], ["\v1", "json", 0], ["\f1", "json", 0],
  ["[\u20281]", "json", 1], ["\u30001", "json", 0], ["\x7f", "json", 0], ["[\x80]", "json", 1],
  // Words: one that is none is wrong from its start.
  ["nul", "json", 0], ["nulL", "json", 0], ["True", "json", 0], ["trux", "json", 0],
  ["fals", "json", 0], ["truee", "json", 4], ["undefined", "json", 0], ["t", "json", 0],
  ["NULL", "json", 0], ["[nu\u217cl]", "json", 1],
  // Numbers: wrong where the longest number ends.
  ["-", "json", 0], ["--1", "json", 0], ["+1", "json", 0], ["01", "json", 1],
  ["-01", "json", 2], ["00", "json", 1], ["1.", "json", 1], [".5", "json", 0],
  ["-.5", "json", 0], ["1.e5", "json", 1], ["1..2", "json", 1], ["1.2.3", "json", 3],
  ["1e", "json", 1], ["1E+", "json", 1], ["1e-", "json", 1], ["1e1.5", "json", 3],
  ["1e+-1", "json", 1], ["e1", "json", 0], ["0x1", "json", 1], ["0b1", "json", 1],
  ["1n", "json", 1], ["1_000", "json", 1], ["1,000", "json", 1], ["- 1", "json", 0],
  ["Infinity", "json", 0], ["-Infinity", "json", 0], ["NaN", "json", 0], ["-NaN", "json", 0],
  ["１", "json", 0], ["1٢", "json", 1], ["1 e5", "json", 2], ["[1.]", "json", 2],
  // Strings.
  ['"', "json", 1], ['"a', "json", 2], ["'a'", "json", 0], ["`a`", "json", 0],
  ['"a\nb"', "json", 2], ['"\0"', "json", 1], ['"\t"', "json", 1], ['"\u001f"', "json", 1],
  ['"é\r"', "json", 3], ['"€\u0001"', "json", 4], ['"😀\n"', "json", 5],
  ['"\\', "json", 2], ['"\\"', "json", 3], ['"\\x41"', "json", 2], ['"\\\'"', "json", 2],
  ['"\\0"', "json", 2], ['"\\a"', "json", 2], ['"\\N"', "json", 2], ['"é\\é"', "json", 4],
  ['"\\\n"', "json", 2], ['"\\u"', "json", 3], ['"\\u00"', "json", 5], ['"\\U0041"', "json", 2],
  ['"\\u004', "json", 6], ['"\\u00g1"', "json", 5], ['"\\u 041"', "json", 3],
  ['"\\u+041"', "json", 3], ['"\\u{41}"', "json", 3], ['"\\u004１"', "json", 6],
  ['"\\ud83d\\u"', "json", 9], ['"\\ud83d\\uzz00"', "json", 9],
  // Arrays.
  ["[", "json", 1], ["]", "json", 0], ["[1", "json", 2], ["[1,", "json", 3],
  ["[1,]", "json", 3], ["[,1]", "json", 1], ["[,]", "json", 1], ["[1 2]", "json", 3],
  ["[1}", "json", 2], ["[1]]", "json", 3], ["[1:2]", "json", 2], ['["é" "é"]', "json", 6],
  // Objects.
  ["{", "json", 1], ["}", "json", 0], ["{1:2}", "json", 1], ["{a:1}", "json", 1],
  ["{'a':1}", "json", 1], ['{"a"', "json", 4], ['{"a" 1}', "json", 5], ['{"a":', "json", 5],
  ['{"a":}', "json", 5], ['{"a":1', "json", 6], ['{"a":1,', "json", 7],
  ['{"a":1,}', "json", 7], ["{,}", "json", 1], ['{"a":1]', "json", 6], ['{"a"::1}', "json", 5],
  ['{"a"=1}', "json", 4], ['{"a":1 "b":2}', "json", 7], ['{"a":1;"b":2}', "json", 6],
  ['{"a","b"}', "json", 4], ['{"é":1,é:2}', "json", 8], ["{null:1}", "json", 1],
  ['{"😀":"😀",}', "json", 15], ['{"a":1,"b"}', "json", 10], ["{[]:1}", "json", 1],
  // A name for the second time: the offset is that of its quote.
  ['{"a":1,"a":2}', "duplicate", 7], ['{"a":1,"a":1}', "duplicate", 7],
  ['{"":1,"":1}', "duplicate", 6], ['{"a":{"b":1,"c":2},"b":1,"b":2}', "duplicate", 25],
  ['{"a":1, "\\u0061":2}', "duplicate", 8], ['{"\\u0061":1,"a":2}', "duplicate", 12],
  ['{"é":1,"é":2}', "duplicate", 8], ['{"é":1,"\\u00E9":2}', "duplicate", 8],
  ['{"😀":1,"\\ud83d\\ude00":2}', "duplicate", 10], ['{"/":1,"\\/":2}', "duplicate", 7],
  ['[[{"a":{"b":1,"b":2}}]]', "duplicate", 14], ['{"a":{},"b":1,"a":{}}', "duplicate", 14],
  ['{"a":{"a":1},"a":2}', "duplicate", 13], ['{"__proto__":1,"__proto__":2}', "duplicate", 15],
  ['{"toString":1,"toString":2}', "duplicate", 14], ['{"1":1,"1":2}', "duplicate", 7],
  ['{"constructor":1,"constructor":2}', "duplicate", 17], ['{"a":1,"a"', "duplicate", 7],
  // Half of a surrogate pair: the offset is that of its backslash.
  ['"\\ud83d"', "surrogate", 1], ['"\\ude00"', "surrogate", 1],
  ['"\\ude00\\ud83d"', "surrogate", 1], ['"\\ud83d\\ud83d\\ude00"', "surrogate", 1],
  ['"\\ud83dx\\ude00"', "surrogate", 1],
  ['"\\ud83d\\u0041"', "surrogate", 1], ['"\\ud83d\\n"', "surrogate", 1],
  ['"\\ud83d\\\\ude00"', "surrogate", 1], ['"\\ud83d \\ude00"', "surrogate", 1],
  ['"\\uD83D😀"', "surrogate", 1], ['"é\\ude00"', "surrogate", 3], ['"\\udfff"', "surrogate", 1],
  ['"\\ud83d\\ude00\\ude00"', "surrogate", 13], ['"\\ud83d\\ude00\\ud83d"', "surrogate", 13],
  ['"\\ud83d\\ue000"', "surrogate", 1], ['"\\ud83d\\ud7ff"', "surrogate", 1],
  ['{"\\ud83d":1}', "surrogate", 2], ['{"a":{"€":["\\udc00"]}}', "surrogate", 14],
  // One level over the limit.
  [deep, "nesting", 64], ['{"é":'.repeat(65), "nesting", 384],
  ["[".repeat(100_000), "nesting", 64],
  ["[" + deep.slice(1, -1) + "]", "nesting", 64], ["[1," + deep.slice(1), "nesting", 66],
  ['{"a":'.repeat(100_000), "nesting", 320],
];

for (const [text, code, offset] of invalid) {
  test(`${shown(text)} is refused at byte ${offset} as ${code}`, () => {
    const error = errorOf(text);
    assert.deepEqual([error?.code, error?.offset], [code, offset]);
    // Safe in any log: one line, no more than a character of what was sent.
    assert.match(error?.message ?? "", new RegExp(`^at byte ${offset}, found [ -~]{1,150}$`));
  });
}

test("a character that can't be seen is told by its number, a byte order mark by its name", () => {
  const found = (text: string): string | undefined =>
    /, found (.*), expected/.exec(errorOf(text)?.message ?? "")?.[1];
  assert.deepEqual(["~", "\x7f", " \ufeff", "\ufeff1"].map(found),
    ['"~"', "U+007F", "U+FEFF", "a byte order mark"]);
});

for (const limit of [1, 2, 64, 512]) {
  test(`${limit} levels are read where ${limit} are allowed, and one more is not`, () => {
    const text = (levels: number): string => "[".repeat(levels) + "]".repeat(levels);
    const objects = (levels: number): string => '{"":'.repeat(levels) + "1" + "}".repeat(levels);
    assert.equal(errorOf(text(limit), limit), undefined);
    assert.equal(errorOf(objects(limit), limit), undefined);
    assert.deepEqual([errorOf(text(limit + 1), limit)?.offset], [limit]);
    assert.deepEqual([errorOf(objects(limit + 1), limit)?.code], ["nesting"]);
  });
}

/** Bytes, and where the first ones stand that are no part of a well-formed character. */
const notUtf8: readonly (readonly [what: string, hex: string, offset: number])[] = [
  ["a byte FF", "ff", 0], ["a byte FE", "22fe22", 1], ["a lone continuation", "228022", 1],
  ["a lead without continuation", "22c32822", 1],
  ["two bytes, cut by the end", "22c3", 1], ["three bytes, cut by the end", "22e282", 1],
  ["three bytes from EF on, cut after one", "22ef", 1], ["the same, cut after two", "22efbf", 1],
  ["EF BF before a quote", "22efbf22", 1], ["EF BF before FF", "22efbfff22", 1],
  ["EF before EF BF BD", "22efefbfbd22", 1], ["four bytes, cut by the end", "22f09f98", 1],
  ["four bytes, cut by a quote", "22f09f9822", 1], ["an overlong slash of two", "22c0af22", 1],
  ["an overlong slash of three", "22e080af22", 1], ["an overlong slash of four", "22f08080af22", 1],
  ["an overlong NUL", "22c08022", 1], ["an overlong C1", "22c1bf22", 1],
  ["an overlong U+07FF", "22e09fbf22", 1], ["an overlong U+FFFF", "22f08fbfbf22", 1],
  ["a pair of CESU-8 surrogates", "22eda0bdedb88022", 1], ["a high surrogate", "22eda08022", 1],
  ["a low surrogate", "22edbfbf22", 1], ["U+110000", "22f490808022", 1], ["F5", "22f580808022", 1],
  ["five bytes", "22f88880808022", 1], ["six bytes", "22fc848080808022", 1],
  ["FF after characters of two and three", "22c3a9e282acff22", 6],
  ["UTF-16 with a byte order mark", "fffe3100", 0],
  ["FF after U+FFFD", "22efbfbdff22", 4], ["EF BF after U+FFFD", "22efbfbdefbf", 4],
  ["Latin-1", "22e92c22", 1], ["FF after a whole value", "31ff", 1],
  ["FF in a name", "7b22ff223a317d", 2],
];

for (const [what, hex, offset] of notUtf8) {
  test(`${what} (${hex}) is refused at byte ${offset} as not UTF-8`, () => {
    const error = errorOf(Buffer.from(hex, "hex"));
    assert.deepEqual([error?.code, error?.offset], ["utf8", offset]);
  });
}

type Below = (bound: number) => number;

const spaces = ["", "", "", " ", "\n", "\t \r"];
const scalars = ["null", "true", "false", "0", "-0", "1", "-1.5", "1e5", "12345678901234567890"];
const characters = ["a", "b", "é", "😀", "\\n", '\\"', "\\\\", "\\u0061", "\\ud83d\\ude00", " "];
const names = ["", "a", "b", "c", "é", "😀", "__proto__", "constructor", "0", "1", "\\u0061"];

/** A random JSON text; names may be there twice. */
function randomText(below: Below, depth: number): string {
  const one = (table: readonly string[]): string => table[below(table.length)] ?? "";
  const many = (make: () => string): string =>
    Array.from({ length: below(4) }, make).join(`${one(spaces)},${one(spaces)}`);
  const value = (): string => randomText(below, depth - 1);
  switch (below(depth > 0 ? 5 : 2)) {
    case 0: return one(scalars);
    case 1: return `"${Array.from({ length: below(5) }, () => one(characters)).join("")}"`;
    case 2: return `[${one(spaces)}${many(value)}${one(spaces)}]`;
    default: return `{${many(() => `"${one(names)}"${one(spaces)}:${one(spaces)}${value()}`)}}`;
  }
}

/** The text with a piece left out, put in, or repeated; it stays well-formed Unicode. */
function mutated(text: string, below: Below): string {
  const [alphabet, points] = [[...'{}[]",:\\u0d18eE+-.tn /\u0001é😀'], [...text]];
  const at = below(points.length + 1);
  const length = below(4);
  switch (below(3)) {
    case 0: points.splice(at, length + 1); break;
    case 1: points.splice(at, below(2), alphabet[below(alphabet.length)] ?? ""); break;
    default: points.splice(at, 0, ...points.slice(at, at + length + 1));
  }
  return points.join("");
}

/** What I-JSON and the limit forbid in a text that JSON.parse takes: found by its tokens alone. */
function forbidden(text: string, parsed: unknown, nesting: number): readonly JsonErrorCode[] {
  const strings = text.match(/"(?:[^"\\]|\\.)*"/g) ?? [];
  const members = text.match(/"(?:[^"\\]|\\.)*"\s*:/g)?.length ?? 0;
  const isHalved = strings.some((token) => !String(JSON.parse(token)).isWellFormed());
  let depth = 0;
  const depths = [...text.replace(/"(?:[^"\\]|\\.)*"/g, "")].map((character) => {
    if ("[{".includes(character)) depth++;
    if ("]}".includes(character)) depth--;
    return depth;
  });
  return [
    ...(members > membersOf(parsed) ? ["duplicate"] as const : []),
    ...(isHalved ? ["surrogate"] as const : []),
    ...(Math.max(...depths) > nesting ? ["nesting"] as const : []),
  ];
}

function membersOf(value: unknown): number {
  if (typeof value !== "object" || value === null) return 0;
  const inner = Object.values(value).reduce((sum: number, member) => sum + membersOf(member), 0);
  return inner + (Array.isArray(value) ? 0 : Object.keys(value).length);
}

test("random texts, mutated or not, are taken and refused as JSON.parse and I-JSON say", () => {
  const below = seeded(1);
  const seen = { taken: 0, json: 0, duplicate: 0, surrogate: 0, nesting: 0, utf8: 0 };
  for (let round = 0; round < 40_000; round++) {
    let text = randomText(below, 5);
    for (let times = below(3); times > 0; times--) text = mutated(text, below);
    const error = errorOf(text, 4);
    seen[error?.code ?? "taken"]++;
    let parsed: unknown;
    try {
      parsed = JSON.parse(text);
    } catch {
      assert.ok(error, `JSON.parse refuses ${text}`);
      continue;
    }
    const codes = forbidden(text, parsed, 4);
    if (error) assert.ok(codes.includes(error.code), `${error.code} is wrong of ${text}`);
    else assert.deepStrictEqual([valueOf(text, 4), codes], [parsed, []]);
  }
  assert.equal(Object.values(seen).filter((times) => times >= 20).length, 5, JSON.stringify(seen));
});

test("a text that is cut is refused at its end, one with a control character at that", () => {
  const below = seeded(2);
  /** Or in the last token, when that is a word or a number. */
  const isAtEnd = (error: JsonError | undefined, before: string): boolean =>
    error?.code === "json" && /^(?:[a-z]+|-|[.e]|[eE][+-]?)?$/.test(
      Buffer.from(before).toString("utf8", error.offset));
  for (let round = 0; round < 10_000; round++) {
    const points = [...randomText(below, 4)];
    if (errorOf(points.join(""))) continue;
    const before = points.slice(0, below(points.length)).join("");
    const cut = errorOf(before);
    const control = errorOf(`${before}\u0001${points.join("").slice(before.length)}`);
    // Between the halves of a pair, the first half is what is wrong.
    if (control?.code === "surrogate") continue;
    assert.ok(isAtEnd(control, before), `${control?.message}: ${before}`);
    if (cut) assert.ok(isAtEnd(cut, before), `${cut.message}: ${before}`);
  }
});

test("random bytes are refused where TextDecoder's longest good beginning ends", () => {
  const below = seeded(3);
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  const isGood = (bytes: Buffer): boolean => Buffer.from(decoder.decode(bytes)).equals(bytes);
  const pieces = ("61 c3 a9 c3a9 e2 82 ac e282ac f0 9f 98 80 ef bf bd efbfbd f09f9880 ed a0 c0 f4 "
    + "90 ff e0 bb 22").split(" ");
  for (let round = 0; round < 20_000; round++) {
    const hex = Array.from({ length: below(7) }, () => pieces[below(pieces.length)] ?? "").join("");
    const bytes = Buffer.from(`22${hex}`, "hex");
    let good = bytes.length;
    while (!isGood(bytes.subarray(0, good))) good--;
    const error = errorOf(bytes);
    assert.equal(error?.code === "utf8", good < bytes.length, hex);
    if (error?.code === "utf8") assert.equal(error.offset, good, hex);
  }
});

/** The processor's time for a run, in microseconds: the least of some. */
function costOf(run: () => void): number {
  const costs: number[] = [];
  for (let spent = 0; costs.length < 10 && spent < 200_000; spent += costs.at(-1) ?? 0) {
    const start = process.cpuUsage();
    run();
    const { user, system } = process.cpuUsage(start);
    costs.push(user + system);
  }
  return Math.min(...costs);
}

/**
 * A large run against 128 small ones of the same sum: 1 where linear, up to 7 where the garbage
 * collector has its hands full, 128 where quadratic.
 */
function growthOf(work: (size: number) => () => void): number {
  const [small, large] = [work(2 ** 13), work(2 ** 20)];
  const many = (): void => Array.from({ length: 128 }).forEach(small);
  const once = (): number => costOf(large) / Math.max(costOf(many), 1);
  const growth = once();
  return growth < growthMax ? growth : Math.min(growth, once());
}
const growthMax = 30;

test("the measure of growth tells linear from quadratic", () => {
  const scan = (rounds: number, length: number) => (): void => {
    let sum = 0;
    for (let at = 0; at < rounds * length; at++) sum = (sum + (at ^ rounds)) | 0;
    assert.ok(Number.isInteger(sum));
  };
  assert.ok(growthOf((size) => scan(size / 64, 64)) < growthMax, "the linear control");
  assert.ok(growthOf((size) => scan(size / 64, size / 64)) > growthMax, "the quadratic control");
});

for (const [what, body] of shapes) {
  test(`time grows linearly with the body: ${what}`, () => {
    const growth = growthOf((size) => {
      const bytes = Buffer.from(body(size));
      return () => {
        try {
          readNewPlant(bytes, 512);
        } catch (error) {
          assert.ok(error instanceof JsonError || error instanceof PlantError);
        }
      };
    });
    assert.ok(growth < growthMax, `128 times the body costs ${growth.toFixed(0)} times 128`);
  });
}
