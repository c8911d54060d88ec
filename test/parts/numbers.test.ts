/**
 * Which JSON numbers are integers, and which: by their mathematical value, never rounded.
 *
 * The independent model is a fraction of two BigInts.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { exactInteger } from "../../src/json/number.ts";
import { seeded } from "../support/support.ts";

const int32 = { min: -(2n ** 31n), max: 2n ** 31n - 1n };
const int64 = { min: -(2n ** 63n), max: 2n ** 63n - 1n };
type Range = typeof int64;
type Verdict = bigint | "fraction" | "range";

const read = (text: string, { min, max }: Range): Verdict =>
  exactInteger(text, { min, max });
const zeros = (count: number): string => "0".repeat(count);
const shown = (text: string): string =>
  text.length > 44 ? `${text.slice(0, 20)}...${text.slice(-20)} (${text.length} characters)` : text;

const long: readonly (readonly [text: string, verdict: Verdict])[] = [
  ["0", 0n], ["1", 1n], ["-1", -1n], ["7", 7n], ["10", 10n], ["-10", -10n], ["100", 100n],
  // Zero is zero, however it is written.
  ["-0", 0n], ["0.0", 0n], ["-0.0", 0n], ["0e0", 0n], ["0e999999999999", 0n],
  ["0e-999999999999", 0n],
  ["-0E+5", 0n], ["0.000e-7", 0n], ["0.000e7", 0n], [`0.${zeros(100_000)}`, 0n],
  [`0e${zeros(100_000)}`, 0n], [`0e-1${zeros(100_000)}`, 0n],
  // A fraction or a power may make an integer.
  ["1.0", 1n], ["1.000", 1n], ["-1.0", -1n], ["10.0", 10n], ["1e0", 1n], ["1e2", 100n],
  ["1E2", 100n],
  ["1E+2", 100n], ["1e+0", 1n], ["1e-0", 1n], ["100e-2", 1n], ["-100E-2", -1n], ["0.1e1", 1n],
  ["1.5e1", 15n], ["1.50e1", 15n], ["-1.25e2", -125n], ["1.25e3", 1250n], ["0.001e3", 1n],
  ["0.0010e3", 1n], ["120e-1", 12n], ["1200.00e-2", 12n], ["1e02", 100n], ["1e-00", 1n],
  ["1e18", 10n ** 18n], ["-1e18", -(10n ** 18n)], ["9e18", 9n * 10n ** 18n],
  ["123456789e1", 1234567890n],
  ["100000000000000000000e-20", 1n], ["123.456e3", 123456n], ["123.456e+0003", 123456n],
  // What a double cannot hold.
  ["9007199254740993", 9007199254740993n], ["-9007199254740993", -9007199254740993n],
  ["9007199254740993.0", 9007199254740993n], ["9.007199254740993e15", 9007199254740993n],
  ["9007199254740993000e-3", 9007199254740993n], ["1152921504606846977", 1152921504606846977n],
  // The edges of int64.
  ["9223372036854775806", int64.max - 1n], ["9223372036854775807", int64.max],
  ["9223372036854775808", "range"], ["-9223372036854775807", int64.min + 1n],
  ["-9223372036854775808", int64.min], ["-9223372036854775809", "range"],
  ["9.223372036854775807e18", int64.max], ["9.2233720368547758070e18", int64.max],
  ["9.223372036854775808e18", "range"], ["9.2233720368547758071e18", "fraction"],
  ["-9.223372036854775808e18", int64.min], ["-9.223372036854775809e18", "range"],
  ["922337203685477580.7e1", int64.max], ["922337203685477580.8e1", "range"],
  ["9223372036854775807.0", int64.max], ["9223372036854775808.0", "range"],
  ["9223372036854775807000e-3", int64.max], ["-9223372036854775808000e-3", int64.min],
  ["0.9223372036854775807e19", int64.max], ["-0.9223372036854775808e19", int64.min],
  ["9999999999999999999", "range"], ["10000000000000000000", "range"],
  ["-9999999999999999999", "range"],
  ["99999999999999999999", "range"], ["1e19", "range"], ["-1e19", "range"], ["1e20", "range"],
  ["18446744073709551615", "range"], ["18446744073709551617", "range"],
  ["1.8446744073709551616e19", "range"],
  // Fractions, small and large.
  ["1.5", "fraction"], ["-1.5", "fraction"], ["0.5", "fraction"], ["1e-1", "fraction"],
  ["1e-400", "fraction"], ["-1e-400", "fraction"], ["15e-1", "fraction"], ["1.05e1", "fraction"],
  ["100e-3", "fraction"], ["9007199254740992.5", "fraction"],
  ["0.99999999999999999999", "fraction"],
  ["1.00000000000000000001", "fraction"], ["9223372036854775807.5", "fraction"],
  ["1.0000000000000000000000000001e2", "fraction"], ["1e-1000000000", "fraction"],
  ["1e-99999999999999999999", "fraction"], [`1e-${"9".repeat(400)}`, "fraction"],
  [`1e-1${zeros(100_000)}`, "fraction"], [`0.${zeros(100_000)}1`, "fraction"],
  // Powers that nobody could write out.
  ["1e1000000000", "range"], ["-1e1000000000", "range"], ["1e99999999999999999999", "range"],
  ["0.1e99999999999999999999", "range"], [`1e${"9".repeat(400)}`, "range"], ["1e400", "range"],
  [`1e1${zeros(100_000)}`, "range"], ["1e9007199254740993", "range"], ["1e2147483648", "range"],
  ["1e4294967296", "range"], ["1e4294967297", "range"], ["1e-4294967296", "fraction"],
  // As long as a body, and still small.
  [`1${zeros(100_000)}e-100000`, 1n], [`-1${zeros(100_000)}e-100000`, -1n],
  [`1${zeros(100_000)}e-100001`, "fraction"], [`1${zeros(100_000)}e-99998`, 100n],
  [`0.${zeros(100_000)}1e100001`, 1n], [`0.${zeros(100_000)}7e100003`, 700n],
  [`0.${zeros(100_000)}1e100000`, "fraction"], [`1.${zeros(100_000)}`, 1n],
  [`1.${zeros(100_000)}1`, "fraction"], [`12.${zeros(100_000)}e5`, 1200000n],
  [`1e${zeros(100_000)}2`, 100n], [`100e-${zeros(100_000)}2`, 1n], ["9".repeat(100_000), "range"],
  [`${"9".repeat(100_000)}e-100000`, "fraction"], [`${"9".repeat(100_000)}e-99981`, "fraction"],
  [`1${zeros(100_000)}`, "range"], [`9223372036854775807${zeros(100_000)}e-100000`, int64.max],
  [`9223372036854775808${zeros(100_000)}e-100000`, "range"],
  [`-0.${zeros(100_000)}9223372036854775808e100019`, int64.min],
];

for (const [text, verdict] of long) {
  test(`as an int64, ${shown(text)} is ${verdict}`, () => {
    assert.equal(read(text, int64), verdict);
  });
}

const short: readonly (readonly [text: string, verdict: Verdict])[] = [
  ["0", 0n], ["-0", 0n], ["1e2", 100n], ["1.5", "fraction"], ["40001", 40001n],
  ["2147483646", int32.max - 1n], ["2147483647", int32.max], ["2147483648", "range"],
  ["-2147483647", int32.min + 1n], ["-2147483648", int32.min], ["-2147483649", "range"],
  ["2.147483647e9", int32.max], ["2.147483648e9", "range"], ["-2.147483648E+9", int32.min],
  ["4294967295", "range"], ["4294967296", "range"], ["4294967297", "range"], ["1e10", "range"],
  ["9223372036854775807", "range"], ["1e1000000000", "range"], ["2147483647.5", "fraction"],
];

for (const [text, verdict] of short) {
  test(`as an int32, ${text} is ${verdict}`, () => {
    assert.equal(read(text, int32), verdict);
  });
}

/** The number as a fraction of two integers. */
function model(text: string, { min, max }: Range): Verdict {
  const [, sign, whole = "", fraction = "", power = "0"] =
    /^(-?)(\d+)(?:\.(\d+))?(?:[eE]\+?(-?\d+))?$/.exec(text) ?? [];
  let numerator = BigInt(whole + fraction);
  let denominator = 10n ** BigInt(fraction.length);
  if (power.startsWith("-")) denominator *= 10n ** -BigInt(power);
  else numerator *= 10n ** BigInt(power);
  if (numerator % denominator !== 0n) return "fraction";
  const value = (sign === "-" ? -1n : 1n) * (numerator / denominator);
  return value < min || value > max ? "range" : value;
}

test("the model agrees with what is known", () => {
  for (const [text, verdict] of long) {
    const power = /e[+-]?(\d+)$/i.exec(text)?.[1] ?? "";
    if (text.length < 100 && power.length < 4) assert.equal(model(text, int64), verdict, text);
  }
});

test("random numbers are what the fraction of two BigInts is", () => {
  const below = seeded(1);
  const seen = { fraction: 0, range: 0, integer: 0 };
  const digits = (most: number): string =>
    Array.from({ length: 1 + below(most) }, () => (below(2) ? below(10) : 0)).join("");
  const edges = [int64.max, int64.min, int32.max, int32.min, 2n ** 64n, 10n ** 18n, 10n ** 19n];
  for (let round = 0; round < 60_000; round++) {
    const edge = (edges[below(edges.length)] ?? 0n) + BigInt(below(5) - 2);
    const isEdge = below(3) === 0;
    const sign = isEdge ? edge < 0n : below(2) === 0;
    const significant = isEdge ? `${edge < 0n ? -edge : edge}${zeros(below(4))}` : digits(24);
    const point = below(significant.length + 1);
    const whole = significant.slice(0, point).replace(/^0+(?=\d)/, "") || "0";
    const fraction = significant.slice(point);
    const exact = isEdge && below(2) ? fraction.length : below(60) - 30;
    const plus = exact > 0 && below(2) ? "+" : "";
    const power = exact === 0 ? "" : `${below(2) ? "e" : "E"}${plus}${exact}`;
    const text = `${sign ? "-" : ""}${whole}${fraction && `.${fraction}`}${power}`;
    assert.doesNotThrow(() => JSON.parse(text), `the generator makes JSON: ${text}`);
    for (const range of [int64, int32]) {
      const verdict = read(text, range);
      assert.equal(verdict, model(text, range), text);
      seen[typeof verdict === "bigint" ? "integer" : verdict]++;
    }
  }
  assert.ok(Math.min(seen.fraction, seen.range, seen.integer) > 2_000, JSON.stringify(seen));
});
