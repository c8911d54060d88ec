/** A JSON number, exactly as it was written: never rounded (RFC 8259, 6). */
export class JsonNumber {
  readonly text: string;
  constructor(text: string) { this.text = text; }
}

/** The value of a number, if it is an integer from `min` to `max`, as `1.0` and `1e2` may be.
 * Linear in the number's length: `1e1000000000` is never expanded, and costs nothing. */
export function exactInteger({ text }: JsonNumber, min: bigint, max: bigint) {
  const isPlain = /^-?\d{1,19}$/.test(text);
  const integer = isPlain ? BigInt(text) : integerOfDecimal(text, max.toString().length);
  if (typeof integer !== "bigint") return integer;
  return integer < min || integer > max ? "range" : integer;
}

function integerOfDecimal(text: string, digitsMax: number): bigint | "fraction" | "range" {
  const negative = text.startsWith("-");
  const [mantissa = "", power = "0"] = text.slice(negative ? 1 : 0).split(/e/i);
  const [whole = "", fraction = ""] = mantissa.split(".");
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
  return negative ? -magnitude : magnitude;
}
