/** The integer that a JSON number is, by its mathematical value (RFC 8259, 6): never rounded. */

/** The range of every integer, both ends included. */
export const int64 = { min: -(2n ** 63n), max: 2n ** 63n - 1n } as const;

/** More digits than this are never in the range; fewer always are. */
const digitsMax = 19;

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

/**
 * Returns the int64 that a JSON value is, undefined if it is none; `1.0` and `1e2` are integers, too.
 *
 * Linear in the number's length: `1e1000000000` is never expanded.
 */
export function exactInteger(text: string) {
  const [, minus = "", integerPart, fraction = "", power = ""] =
    decimalForm.exec(text) ?? [];
  if (integerPart === undefined) return undefined;

  // Zeros at both ends are left out, and each is looked at once: a body may be full of them.
  const digits = integerPart + fraction;
  const start = digits.search(/[1-9]/);
  if (start < 0) return 0n;
  let end = digits.length;
  while (digits[end - 1] === "0") end--;

  // Number() makes a long power inexact or infinite. Then it outweighs the digits of any body.
  const exponent = Number(power) - fraction.length + (digits.length - end);
  if (exponent < 0 || end - start + exponent > digitsMax) return undefined;
  const integer =
    BigInt(minus + digits.slice(start, end)) * 10n ** BigInt(exponent);
  return integer < int64.min || integer > int64.max ? undefined : integer;
}
