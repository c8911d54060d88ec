/**
 * What a plant's text is: the integers that JSON numbers are, by their mathematical value, never
 * rounded (the independent model is a fraction of two BigInts), and two readers that agree.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { exactInteger, int64 } from "../../src/json/number.ts";
import {
  newPlantOf,
  plainForm,
  plantJson,
  plantText,
  readNewPlant
} from "../../src/plant.ts";
import { integerOf } from "../support/models.ts";
import { seeded } from "../support/support.ts";

type Verdict = ReturnType<typeof exactInteger>;

const zeros = (count: number): string => "0".repeat(count);
const shown = (text: string): string =>
  text.length > 44
    ? `${text.slice(0, 20)}...${text.slice(-20)} (${text.length} characters)`
    : text;

type Verdicts = readonly (readonly [text: string, verdict: Verdict])[];
const verdicts = (verdict: Verdict, texts: readonly string[]): Verdicts =>
  texts.map((text) => [text, verdict]);

const known: Verdicts = [
  ["0", 0n],
  ["-0", 0n],
  ["0e999999999999", 0n],
  [`0.${zeros(100_000)}`, 0n],
  ["1E+2", 100n],
  ["-100E-2", -1n],
  ["-1.25e2", -125n],
  ["1200.00e-2", 12n],
  ["100000000000000000000e-20", 1n],
  ["123.456e+0003", 123456n],
  ["9007199254740993", 9007199254740993n],
  ["9223372036854775807", int64.max],
  ["-9223372036854775808", int64.min],
  ["-9.223372036854775808e18", int64.min],
  [`-1${zeros(100_000)}e-100000`, -1n],
  [`0.${zeros(100_000)}7e100003`, 700n],
  [`9223372036854775807${zeros(100_000)}e-100000`, int64.max],
  [`-0.${zeros(100_000)}9223372036854775808e100019`, int64.min],
  ...verdicts(undefined, [
    "9.2233720368547758071e18",
    "-1.5",
    "1e-1",
    "100e-3",
    "9223372036854775807.5",
    "1.0000000000000000000000000001e2",
    `1e-${"9".repeat(400)}`,
    "1e-4294967296",
    `0.${zeros(100_000)}1e100000`,
    `${"9".repeat(100_000)}e-99981`,
    "9223372036854775808",
    "-9223372036854775809",
    "922337203685477580.8e1",
    "10000000000000000000",
    "18446744073709551617",
    "0.1e99999999999999999999",
    `1e${"9".repeat(400)}`,
    "1e4294967297",
    "9".repeat(100_000),
    `9223372036854775808${zeros(100_000)}e-100000`
  ])
];

for (const [text, verdict] of known) {
  test(`${shown(text)} is ${verdict ?? "no int64"}`, () => {
    assert.equal(exactInteger(text), verdict);
  });
}

test("random numbers are what the fraction of two BigInts is", () => {
  const below = seeded(1);
  const seen = { integer: 0, none: 0 };
  const digits = (most: number): string =>
    Array.from({ length: 1 + below(most) }, () =>
      below(2) ? below(10) : 0
    ).join("");
  const edges = [int64.max, int64.min, 2n ** 64n, 10n ** 18n, 10n ** 19n];
  for (let round = 0; round < 60_000; round++) {
    const edge = (edges[below(edges.length)] ?? 0n) + BigInt(below(5) - 2);
    const isEdge = below(3) === 0;
    const sign = isEdge ? edge < 0n : below(2) === 0;
    const significant = isEdge
      ? `${edge < 0n ? -edge : edge}${zeros(below(4))}`
      : digits(24);
    const point = below(significant.length + 1);
    const whole = significant.slice(0, point).replace(/^0+(?=\d)/, "") || "0";
    const fraction = significant.slice(point);
    const exact = isEdge && below(2) ? fraction.length : below(60) - 30;
    const plus = exact > 0 && below(2) ? "+" : "";
    const power = exact === 0 ? "" : `${below(2) ? "e" : "E"}${plus}${exact}`;
    const text = `${sign ? "-" : ""}${whole}${fraction && `.${fraction}`}${power}`;
    assert.doesNotThrow(
      () => JSON.parse(text),
      `the generator makes JSON: ${text}`
    );
    const verdict = exactInteger(text);
    assert.equal(verdict, integerOf(text), text);
    seen[verdict === undefined ? "none" : "integer"]++;
  }
  assert.ok(Math.min(...Object.values(seen)) > 2_000, JSON.stringify(seen));
});

// Two readers of a plant: the regular expression and the strict one. They agree on every body.

const { PLANT_TEST_BODIES = "20000" } = process.env;
const runs = Number(PLANT_TEST_BODIES);

const isPlain = (text: string): boolean =>
  new RegExp(`^${plainForm}$`).test(text);
const space = Buffer.from(" ");

/** Returns the text that the strict reader makes of a body, or undefined if it refuses the body. */
function strict(body: Buffer): string | undefined {
  try {
    // No plain form begins with a space.
    return readNewPlant(Buffer.concat([space, body]), 64);
  } catch {
    return undefined;
  }
}

/** Returns what is wrong with the fast reader on a body, or undefined. */
function disagreement(
  body: Buffer,
  isFast: (text: string) => boolean
): string | undefined {
  const text = body.toString("latin1");
  if (!isFast(text)) return undefined;
  const kept = strict(body);
  if (kept === undefined) return "the strict reader refuses it";
  return kept === text ? undefined : `the strict reader makes ${kept}`;
}

const ids = [
  "0",
  "-0",
  "7",
  "-7",
  "01",
  "1.0",
  "1e2",
  "+1",
  "",
  "-",
  "null",
  '"7"',
  "0x1",
  "9".repeat(17),
  "9".repeat(18),
  "9".repeat(19),
  `-${"9".repeat(18)}`,
  `-${"9".repeat(19)}`,
  "9223372036854775807",
  "9223372036854775808",
  "-9223372036854775808",
  "-9223372036854775809"
];
const pieces = [
  "",
  "Fern",
  " ",
  "!",
  "#",
  "[",
  "]",
  "~",
  "\x7f",
  "\x1f",
  "\t",
  "\n",
  "\0",
  '"',
  "\\",
  '\\"',
  "\\\\",
  "\\u0041",
  "\\ud800",
  "\\/",
  "\xe9",
  "\xc3\xa9",
  "\xff",
  "}",
  ',"tag":"x"',
  ',"id":2',
  "__proto__"
];
const frames: readonly ((id: string, name: string, tag: string) => string)[] = [
  (id, name) => `{"id":${id},"name":"${name}"}`,
  (id, name, tag) => `{"id":${id},"name":"${name}","tag":"${tag}"}`,
  (id, name, tag) => `{"id":${id},"name":"${name}","tag":"${tag}","id":${id}}`,
  (id, name, tag) =>
    `{"id":${id},"name":"${name}","tag":"${tag}","tag":"${tag}"}`,
  (id, name, tag) => `{"name":"${name}","id":${id},"tag":"${tag}"}`,
  (id, name, tag) => `{"id":${id},"name":"${name}","more":"${tag}"}`,
  (id, name) => `{"id": ${id},"name":"${name}"}`,
  (id, name) => `{"id":${id},"name":"${name}","tag":null}`,
  (id, name) => `[{"id":${id},"name":"${name}"}]`,
  (id, name) => `{"id":${id},"name":"${name}"}\n`,
  (id, name) => `\n{"id":${id},"name":"${name}"}`
];

/** Bodies drawn from those, a third of them with a byte put in, taken out or replaced. */
function* bodies(count: number, seed: number): Generator<Buffer, void> {
  const below = seeded(seed);
  const one = <T>(all: readonly [T, ...T[]] | readonly T[]): T =>
    all[below(all.length)] as T;
  const text = (): string => one(pieces) + one(pieces);

  for (let run = 0; run < count; run++) {
    const body = Buffer.from(one(frames)(one(ids), text(), text()), "latin1");
    if (below(3) > 0) {
      yield body;
      continue;
    }
    const index = below(body.length);
    const put = Buffer.from([below(256)].slice(below(2)));
    yield Buffer.concat([
      body.subarray(0, index),
      put,
      body.subarray(index + below(2))
    ]);
  }
}

test(`a plain body is what the strict reader keeps of it, in ${runs} bodies`, (t) => {
  const counts = { plain: 0, strict: 0, refused: 0 };
  for (const body of bodies(runs, 20_261_122)) {
    const wrong = disagreement(body, isPlain);
    assert.equal(
      wrong,
      undefined,
      `${JSON.stringify(body.toString("latin1"))}: ${wrong}`
    );

    const json = strict(body);
    if (json === undefined) {
      counts.refused++;
      continue;
    }
    counts[isPlain(json) ? "plain" : "strict"]++;

    // For a host's own store, and back; and for the response.
    const plant = newPlantOf(json);
    assert.equal(plantText(plant, Infinity), json);
    const { name, tag } = plant;
    assert.equal(plantJson(json), JSON.stringify({ name, tag }));
  }
  t.diagnostic(JSON.stringify(counts));
  const few = Object.entries(counts).filter(([, count]) => count < runs / 50);
  assert.deepEqual(few, [], "each kind must have come often");
});

const plainString = '"[ !#-[\\]-~]*"';
for (const [what, form] of [
  ["a name with a backslash", `{"id":(0|-?[1-9]\\d{0,17}),"name":"[ !#-~]*"}`],
  ["an id of 19 digits", `{"id":(0|-?[1-9]\\d{0,18}),"name":${plainString}}`],
  ["an id that begins with 0", `{"id":(-?\\d{1,18}),"name":${plainString}}`],
  [
    "a line feed behind it",
    `{"id":(0|-?[1-9]\\d{0,17}),"name":${plainString}}\n?`
  ]
] as const) {
  test(`control: a form that lets ${what} through is caught`, () => {
    const isFast = (text: string): boolean =>
      new RegExp(`^(?:${form})$`).test(text);
    const found = [...bodies(10_000, 7)].find(
      (body) => disagreement(body, isFast) !== undefined
    );
    assert.ok(found !== undefined);
  });
}
