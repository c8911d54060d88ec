/** A strict reader of I-JSON (RFC 7493, RFC 8259) with exact numbers, in linear time.
 * Beyond JSON.parse: UTF-8 is checked, a byte order mark, a repeated member name, an unpaired
 * surrogate and deep nesting are errors, every error has a byte offset, a number stays text. */
import { isUtf8 } from "node:buffer";
import { JsonNumber } from "./number.ts";

/** Objects are Maps: `__proto__` is a name like any other. */
export type JsonValue =
  | null | boolean | string | JsonNumber | readonly JsonValue[] | ReadonlyMap<string, JsonValue>;
export type JsonErrorCode = "json" | "utf8" | "duplicate" | "surrogate" | "nesting";
/** Where a text stops being I-JSON: `offset` in bytes from the start of the body. */
export class JsonError extends Error {
  override readonly name = "JsonError";
  readonly code: JsonErrorCode;
  readonly offset: number;
  constructor(code: JsonErrorCode, offset: number, message: string) {
    super(`at byte ${offset}, ${message}`);
    [this.code, this.offset] = [code, offset];
  }
}

/** Reads one JSON text; throws JsonError.
 * @param nestingMax how many arrays and objects may stand in one another */
export function parseJson(body: Buffer, nestingMax: number): JsonValue {
  if (body[0] === 0xef && body[1] === 0xbb && body[2] === 0xbf) {
    throw new JsonError("json", 0, "found a byte order mark, expected a JSON value");
  }
  const text = body.toString("utf8");
  if (isUtf8(body)) return new Reader(text, nestingMax).read();
  // Decoding puts U+FFFD for what is not UTF-8: encoded again, it is the first to differ.
  const again = Buffer.from(text);
  let at = 0;
  while (again[at] === body[at]) at++;
  while (((again[at] ?? 0) & 0xc0) === 0x80) at--;
  throw new JsonError("utf8", at, "found a byte that is not UTF-8");
}

const simpleEscapes: ReadonlySet<string> = new Set('"\\/bfnrt');
/** number = [ minus ] int [ frac ] [ exp ] (RFC 8259, 6) */
const numberForm = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
/** Positions are in the decoded text; they turn into byte offsets when an error needs one. */
class Reader {
  readonly #text: string;
  readonly #nestingMax: number;
  #at = 0;
  #nesting = 0;

  constructor(text: string, nestingMax: number) {
    [this.#text, this.#nestingMax] = [text, nestingMax];
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
    const members = new Map<string, JsonValue>();
    for (let isMore = this.#opens("}"); isMore; isMore = this.#goesOn("}")) {
      this.#space();
      const start = this.#at;
      if (this.#text[start] !== '"') this.#fail("a member name in quotes");
      const name = this.#string();
      if (members.has(name)) {
        this.#fail("each name once", "duplicate", "a member name for the second time", start);
      }
      if (!this.#skip(":")) this.#fail('":"');
      members.set(name, this.#value());
    }
    return members;
  }

  #array(): readonly JsonValue[] {
    const items: JsonValue[] = [];
    let isMore = this.#opens("]");
    for (; isMore; isMore = this.#goesOn("]")) items.push(this.#value());
    return items;
  }
  /** Whether an item follows, at the beginning of an array or object. */
  #opens(end: string): boolean {
    if (++this.#nesting > this.#nestingMax) {
      this.#fail(`at most ${this.#nestingMax} levels`, "nesting", "one more level of nesting");
    }
    this.#at++;
    return !this.#ends(end);
  }

  #goesOn(end: string): boolean {
    if (this.#skip(",")) return true;
    return !this.#ends(end) && this.#fail(`"," or "${end}"`);
  }

  #ends(end: string): boolean {
    const isEnd = this.#skip(end);
    if (isEnd) this.#nesting--;
    return isEnd;
  }
  /** RFC 8259, 7: string = quotation-mark *char quotation-mark */
  #string(): string {
    const start = this.#at++;
    let hasEscape = false;
    for (;;) {
      const code = this.#text.charCodeAt(this.#at);
      if (code === 0x22 /* " */) break;
      if (code === 0x5c /* \ */) {
        hasEscape = true;
        this.#escape();
      } else if (code >= 0x20) this.#at++;
      else this.#fail("a character, control characters escaped, or the string's closing quote");
    }
    const end = ++this.#at;
    if (!hasEscape) return this.#text.slice(start + 1, end - 1);
    // Every escape is a good one. To join a piece for each took 2.5 GB for 2^25 of them.
    const decoded: string = JSON.parse(this.#text.slice(start, end));
    return decoded;
  }
  /** Goes behind an escape, or a pair of them. */
  #escape(): void {
    const start = this.#at++;
    if (simpleEscapes.has(this.#text[this.#at] ?? "")) {
      this.#at++;
      return;
    }
    const unit = this.#unicodeEscape();
    if (unit < 0xd800 || unit > 0xdfff) return;
    const hasLow = unit < 0xdc00 && this.#text.startsWith("\\u", this.#at++);
    const low = hasLow ? this.#unicodeEscape() : 0;
    if (low < 0xdc00 || low > 0xdfff) {
      this.#fail("a high and a low one", "surrogate", "half of a surrogate pair", start);
    }
  }

  #unicodeEscape(): number {
    if (this.#text[this.#at] !== "u") this.#fail('one of " \\ / b f n r t u');
    let unit = 0;
    for (const end = this.#at + 5; ++this.#at < end;) {
      const digit = hexDigit(this.#text.charCodeAt(this.#at));
      if (digit === undefined) this.#fail("a hexadecimal digit");
      unit = 16 * unit + digit;
    }
    return unit;
  }

  #number(): JsonNumber {
    const start = this.#at;
    numberForm.lastIndex = start;
    if (!numberForm.test(this.#text)) this.#fail("a JSON value");
    this.#at = numberForm.lastIndex;
    return new JsonNumber(this.#text.slice(start, this.#at));
  }

  #word<T>(word: string, value: T): T {
    if (!this.#text.startsWith(word, this.#at)) this.#fail("a JSON value");
    this.#at += word.length;
    return value;
  }

  #space(): void {
    for (; ; this.#at++) {
      const code = this.#text.charCodeAt(this.#at);
      if (code !== 0x20 && code !== 0x0a && code !== 0x0d && code !== 0x09) return;
    }
  }

  #skip(character: string): boolean {
    this.#space();
    if (this.#text[this.#at] !== character) return false;
    this.#at++;
    return true;
  }

  #fail(expected: string, code: JsonErrorCode = "json", found = "", at = this.#at): never {
    const offset = Buffer.byteLength(this.#text.slice(0, at));
    throw new JsonError(code, offset, `found ${found || this.#found()}, expected ${expected}`);
  }
  /** One character at the most: an answer never repeats what a client sent. */
  #found(): string {
    const point = this.#text.codePointAt(this.#at);
    if (point === undefined) return "the end of the body";
    if (point > 0x20 && point < 0x7f) return JSON.stringify(String.fromCodePoint(point));
    return `U+${point.toString(16).toUpperCase().padStart(4, "0")}`;
  }
}

/** A digit's value by its code: faster than its text for a body of nothing but escapes. */
function hexDigit(code: number): number | undefined {
  if (code >= 0x30 && code <= 0x39) return code - 0x30;
  const letter = code | 0x20; // in lower case
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : undefined;
}
