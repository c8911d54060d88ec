/** A JSON number, exactly as it was written: never rounded (RFC 8259, 6). */
export class JsonNumber {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/** The integers that a format allows, both ends included. */
export interface Range {
  readonly min: bigint;
  readonly max: bigint;
}

export const int32: Range = { min: -(2n ** 31n), max: 2n ** 31n - 1n };
export const int64: Range = { min: -(2n ** 63n), max: 2n ** 63n - 1n };

/** Why a number is no integer of a range. */
export type NumberProblem = "fraction" | "range";

/**
 * The value of a number where it is an integer of the range, as `1.0` and `1e2` may be.
 *
 * Linear in the number's length: `1e1000000000` is never expanded, and costs nothing.
 */
export function exactInteger({ text }: JsonNumber, { min, max }: Range): bigint | NumberProblem {
  // No int64 has more than 19 digits: such a text needs no look at its parts.
  const isPlain = /^-?\d{1,19}$/.test(text);
  const integer = isPlain ? BigInt(text) : integerOfDecimal(text, max.toString().length);
  if (typeof integer !== "bigint") return integer;
  return integer < min || integer > max ? "range" : integer;
}

/** The value of a text with a fraction, a power, or many digits; `digitsMax` bounds the work. */
function integerOfDecimal(text: string, digitsMax: number): bigint | NumberProblem {
  const isNegative = text.startsWith("-");
  const [mantissa = "", power = "0"] = text.slice(isNegative ? 1 : 0).split(/e/i);
  const [whole = "", fraction = ""] = mantissa.split(".");

  // Without the zeros at both ends: a body full of them costs one look at each.
  const digits = whole + fraction;
  let start = 0;
  while (digits[start] === "0") start++;
  let end = digits.length;
  while (end > start && digits[end - 1] === "0") end--;
  if (start === end) return 0n;

  // Number() of a long power is inexact or infinite, but then it outweighs any body's length.
  const exponent = Number(power) - fraction.length + (digits.length - end);
  if (exponent < 0) return "fraction";
  if (end - start + exponent > digitsMax) return "range";
  const magnitude = BigInt(digits.slice(start, end)) * 10n ** BigInt(exponent);
  return isNegative ? -magnitude : magnitude;
}
