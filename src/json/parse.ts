/**
 * A strict reader of I-JSON (RFC 7493, RFC 8259) with exact numbers.
 *
 * Beyond JSON.parse: UTF-8 is checked, a byte order mark, a repeated member name, an unpaired
 * surrogate and deep nesting are errors, every error has a byte offset, and a number stays the
 * text that was sent. Time is linear in the length of the body.
 */
import { isUtf8 } from "node:buffer";
import { JsonNumber } from "./number.ts";

/** Objects are Maps: `__proto__` is a name like any other. */
export type JsonValue =
  | null | boolean | string | JsonNumber | readonly JsonValue[] | ReadonlyMap<string, JsonValue>;

export type JsonErrorCode = "syntax" | "utf8" | "duplicate" | "surrogate" | "nesting";

/** Where a text stops being I-JSON: `offset` in bytes from the start of the body. */
export class JsonError extends Error {
  override readonly name = "JsonError";
  readonly code: JsonErrorCode;
  readonly offset: number;
  constructor(code: JsonErrorCode, offset: number, message: string) {
    super(`at byte ${offset}, ${message}`);
    this.code = code;
    this.offset = offset;
  }
}

/**
 * Reads one JSON text.
 * @param nestingMax how many arrays and objects may stand in one another
 * @throws JsonError
 */
export function parseJson(body: Buffer, nestingMax: number): JsonValue {
  if (body[0] === 0xef && body[1] === 0xbb && body[2] === 0xbf) {
    throw new JsonError("syntax", 0, "found a byte order mark, expected a JSON value");
  }
  if (!isUtf8(body)) {
    throw new JsonError("utf8", utf8End(body), "found a byte that is not UTF-8");
  }
  return new Reader(body.toString("utf8"), nestingMax).read();
}

const zero = 0x30;
const nine = 0x39;
const quote = 0x22;
const backslash = 0x5c;

const simpleEscapes: ReadonlyMap<string, string> = new Map([
  ['"', '"'], ["\\", "\\"], ["/", "/"],
  ["b", "\b"], ["f", "\f"], ["n", "\n"], ["r", "\r"], ["t", "\t"],
]);

/** The text is well-formed, so positions in it turn into byte offsets only when an error needs one. */
class Reader {
  readonly #text: string;
  readonly #nestingMax: number;
  #at = 0;
  #nesting = 0;

  constructor(text: string, nestingMax: number) {
    this.#text = text;
    this.#nestingMax = nestingMax;
  }

  read(): JsonValue {
    const value = this.#value();
    this.#space();
    if (this.#at < this.#text.length) this.#fail("the end of the body");
    return value;
  }

  #value(): JsonValue {
    this.#space();
    switch (this.#text[this.#at]) {
      case "{": return this.#object();
      case "[": return this.#array();
      case '"': return this.#string();
      case "t": return this.#word("true", true);
      case "f": return this.#word("false", false);
      case "n": return this.#word("null", null);
      default: return this.#number();
    }
  }

  #object(): ReadonlyMap<string, JsonValue> {
    this.#enter();
    const members = new Map<string, JsonValue>();
    if (this.#skip("}")) return this.#leave(members);
    do {
      this.#space();
      const start = this.#at;
      if (this.#text.charCodeAt(start) !== quote) this.#fail("a member name in quotes");
      const name = this.#string();
      if (members.has(name)) {
        this.#fail("each name once", "duplicate", "a member name for the second time", start);
      }
      if (!this.#skip(":")) this.#fail('":"');
      members.set(name, this.#value());
    } while (this.#skip(","));
    if (!this.#skip("}")) this.#fail('"," or "}"');
    return this.#leave(members);
  }

  #array(): readonly JsonValue[] {
    this.#enter();
    const items: JsonValue[] = [];
    if (this.#skip("]")) return this.#leave(items);
    do items.push(this.#value());
    while (this.#skip(","));
    if (!this.#skip("]")) this.#fail('"," or "]"');
    return this.#leave(items);
  }

  #enter(): void {
    if (++this.#nesting > this.#nestingMax) {
      this.#fail(`at most ${this.#nestingMax} levels`, "nesting", "one more level of nesting");
    }
    this.#at++;
  }

  #leave<T>(value: T): T {
    this.#nesting--;
    return value;
  }

  /** RFC 8259, 7: string = quotation-mark *char quotation-mark */
  #string(): string {
    const text = this.#text;
    let result = "";
    let start = ++this.#at;
    for (;;) {
      const code = text.charCodeAt(this.#at);
      if (code === quote) break;
      if (code === backslash) {
        result += text.slice(start, this.#at) + this.#escape();
        start = this.#at;
      } else if (code >= 0x20) {
        this.#at++;
      } else {
        this.#fail("a character of a string, control characters escaped, or its closing quote");
      }
    }
    return result + text.slice(start, this.#at++);
  }

  #escape(): string {
    const start = this.#at;
    const simple = simpleEscapes.get(this.#text[start + 1] ?? "");
    if (simple !== undefined) {
      this.#at += 2;
      return simple;
    }
    const unit = this.#unicodeEscape();
    if (unit < 0xd800 || unit > 0xdfff) return String.fromCharCode(unit);
    const pairs = unit < 0xdc00 && this.#text.startsWith("\\u", this.#at);
    const low = pairs ? this.#unicodeEscape() : 0;
    if (low < 0xdc00 || low > 0xdfff) {
      this.#fail("a high and a low one", "surrogate", "half of a surrogate pair", start);
    }
    return String.fromCharCode(unit, low);
  }

  #unicodeEscape(): number {
    this.#at++;
    if (this.#text[this.#at] !== "u") this.#fail('one of " \\ / b f n r t u');
    this.#at++;
    const end = this.#at + 4;
    while (this.#at < end) {
      if (!/[0-9A-Fa-f]/.test(this.#text[this.#at] ?? "")) this.#fail("a hexadecimal digit");
      this.#at++;
    }
    return Number.parseInt(this.#text.slice(end - 4, end), 16);
  }

  /** RFC 8259, 6: number = [ minus ] int [ frac ] [ exp ] */
  #number(): JsonNumber {
    const start = this.#at;
    const text = this.#text;
    if (text[this.#at] === "-") this.#at++;
    if (text.charCodeAt(this.#at) === zero) this.#at++;
    else this.#digits(this.#at === start ? "a JSON value" : "a digit");
    if (text[this.#at] === ".") {
      this.#at++;
      this.#digits("a digit");
    }
    if (text[this.#at] === "e" || text[this.#at] === "E") {
      this.#at++;
      if (text[this.#at] === "+" || text[this.#at] === "-") this.#at++;
      this.#digits("a digit");
    }
    return new JsonNumber(text.slice(start, this.#at));
  }

  #digits(expected: string): void {
    const start = this.#at;
    for (;;) {
      const code = this.#text.charCodeAt(this.#at);
      if (!(code >= zero && code <= nine)) break;
      this.#at++;
    }
    if (this.#at === start) this.#fail(expected);
  }

  #word<T>(word: string, value: T): T {
    for (const letter of word) {
      if (this.#text[this.#at] !== letter) this.#fail(`"${word}"`);
      this.#at++;
    }
    return value;
  }

  #space(): void {
    for (;;) {
      const code = this.#text.charCodeAt(this.#at);
      if (code !== 0x20 && code !== 0x0a && code !== 0x0d && code !== 0x09) return;
      this.#at++;
    }
  }

  #skip(character: string): boolean {
    this.#space();
    if (this.#text[this.#at] !== character) return false;
    this.#at++;
    return true;
  }

  #fail(expected: string, code: JsonErrorCode = "syntax", found = this.#found(), at = this.#at)
    : never {
    const offset = Buffer.byteLength(this.#text.slice(0, at));
    throw new JsonError(code, offset, `found ${found}, expected ${expected}`);
  }

  /** One character at the most: an answer never repeats what a client sent. */
  #found(): string {
    const point = this.#text.codePointAt(this.#at);
    if (point === undefined) return "the end of the body";
    if (point > 0x20 && point < 0x7f) return JSON.stringify(String.fromCodePoint(point));
    return `U+${point.toString(16).toUpperCase().padStart(4, "0")}`;
  }
}

/** Decoding puts U+FFFD for what is not UTF-8: encoded again, it differs there for the first time. */
function utf8End(body: Buffer): number {
  const again = Buffer.from(body.toString("utf8"));
  let at = 0;
  while (again[at] === body[at]) at++;
  return at;
}
