/** The integer that a JSON number is, by its mathematical value (RFC 8259, 6): never rounded. */

/** The integers of each format, both ends included. */
export const int32 = { min: -(2n ** 31n), max: 2n ** 31n - 1n } as const;
export const int64 = { min: -(2n ** 63n), max: 2n ** 63n - 1n } as const;

type Range = typeof int64;

/** Why a number is not an integer of a range. */
export type NumberProblem = "fraction" | "range";

/**
 * Returns the integer of a range that a number is; `1.0` and `1e2` are integers, too.
 *
 * Linear in the number's length: `1e1000000000` is never expanded.
 *
 * @param text a number as JSON writes it
 */
export function exactInteger(
  text: string,
  { min, max }: Range
): bigint | NumberProblem {
  // No int64 has more than 19 digits, so nearly every integer has this form.
  const isPlain = /^-?\d{1,19}$/.test(text);
  const integer = isPlain
    ? BigInt(text)
    : integerOfDecimal(text, max.toString().length);
  if (typeof integer !== "bigint") return integer;
  return integer < min || integer > max ? "range" : integer;
}

/**
 * The parts of a number: minus, int, the digits of frac, exp without its "e" (RFC 8259, 6).
 *
 *     number = [ minus ] int [ frac ] [ exp ]
 *     frac   = "." 1*DIGIT
 *     exp    = "e" [ minus / plus ] 1*DIGIT
 *
 * It is looser than the grammar, because the text has been checked before.
 */
const decimalForm = new RegExp(String.raw`^(-?)(\d+)\.?(\d*)e?(.*)$`, "i");

/** Returns the integer of a number with frac, exp or many digits; `digitsMax` bounds the work. */
function integerOfDecimal(
  text: string,
  digitsMax: number
): bigint | NumberProblem {
  const [, minus = "", whole = "", fraction = "", power = ""] =
    decimalForm.exec(text) ?? [];

  // Zeros at both ends are left out, and each is looked at once: a body may be full of them.
  const digits = whole + fraction;
  const start = digits.search(/[1-9]/);
  if (start < 0) return 0n;
  let end = digits.length;
  while (digits[end - 1] === "0") end--;

  // Number() makes a long power inexact or infinite. Then it outweighs the digits of any body.
  const exponent = Number(power) - fraction.length + (digits.length - end);
  if (exponent < 0) return "fraction";
  if (end - start + exponent > digitsMax) return "range";
  return BigInt(minus + digits.slice(start, end)) * 10n ** BigInt(exponent);
}
