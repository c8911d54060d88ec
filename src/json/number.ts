/** The integer that a JSON number is: exact, never rounded (RFC 8259, 6). */

/** The integers that each format allows, both ends included. */
export const int32 = { min: -(2n ** 31n), max: 2n ** 31n - 1n } as const;
export const int64 = { min: -(2n ** 63n), max: 2n ** 63n - 1n } as const;

type Range = typeof int64;

/** Why a number is no integer of a range. */
export type NumberProblem = "fraction" | "range";

/**
 * The value of a number where it is an integer of the range, as `1.0` and `1e2` may be.
 *
 * Linear in the number's length: `1e1000000000` is never expanded, and costs nothing.
 */
export function exactInteger(
  text: string,
  { min, max }: Range
): bigint | NumberProblem {
  // No int64 has more than 19 digits: such a text needs no look at its parts.
  const isPlain = /^-?\d{1,19}$/.test(text);
  const integer = isPlain
    ? BigInt(text)
    : integerOfDecimal(text, max.toString().length);
  if (typeof integer !== "bigint") return integer;
  return integer < min || integer > max ? "range" : integer;
}

/** The parts of a JSON number: sign, whole, fraction, power. */
const decimalForm = new RegExp(String.raw`^(-?)(\d+)\.?(\d*)e?(.*)$`, "i");

/** The value of a text with a fraction, a power, or many digits; `digitsMax` bounds the work. */
function integerOfDecimal(
  text: string,
  digitsMax: number
): bigint | NumberProblem {
  const [, sign = "", whole = "", fraction = "", power = ""] =
    decimalForm.exec(text) ?? [];

  // Without the zeros at both ends: a body full of them costs one look at each.
  const digits = whole + fraction;
  const start = digits.search(/[1-9]/);
  if (start < 0) return 0n;
  let end = digits.length;
  while (digits[end - 1] === "0") end--;

  // Number() of a long power is inexact or infinite, but then it outweighs any body's length.
  const exponent = Number(power) - fraction.length + (digits.length - end);
  if (exponent < 0) return "fraction";
  if (end - start + exponent > digitsMax) return "range";
  return BigInt(sign + digits.slice(start, end)) * 10n ** BigInt(exponent);
}
