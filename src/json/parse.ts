/**
 * A strict reader of I-JSON (RFC 7493, RFC 8259) with exact numbers, in linear time.
 *
 * Beyond JSON.parse: UTF-8 is checked, a byte order mark, a repeated member name, an unpaired
 * surrogate and deep nesting are errors, every error has a byte offset, a number stays text.
 */
import { isUtf8 } from "node:buffer";
import { JsonNumber } from "./number.ts";

/** Objects are Maps: `__proto__` is a name like any other. */
export type JsonValue =
  | null | boolean | string | JsonNumber | readonly JsonValue[] | ReadonlyMap<string, JsonValue>;

export type JsonErrorCode = "json" | "utf8" | "duplicate" | "surrogate" | "nesting";

/** Where a text stops being I-JSON, and what was expected there. */
export class JsonError extends Error {
  readonly code: JsonErrorCode;

  /** In bytes from the start of the body. */
  readonly offset: number;

  constructor(code: JsonErrorCode, offset: number, message: string) {
    super(`at byte ${offset}, ${message}`);
    this.code = code;
    this.offset = offset;
  }
}

/**
 * Reads one JSON text.
 *
 * @param nestingMax how many arrays and objects may stand in one another
 * @throws JsonError
 */
export function parseJson(body: Buffer, nestingMax: number): JsonValue {
  if (body[0] === 0xef && body[1] === 0xbb && body[2] === 0xbf) {
    throw new JsonError("json", 0, "found a byte order mark, expected a JSON value");
  }
  const text = body.toString("utf8");
  if (isUtf8(body)) return new Reader(text, nestingMax).read();

  // Decoding puts U+FFFD for what is not UTF-8: encoded again, it is the first to differ.
  const again = Buffer.from(text);
  let offset = 0;
  while (again[offset] === body[offset]) offset++;
  // Back to the first byte of a character that is cut off.
  while (((again[offset] ?? 0) & 0xc0) === 0x80) offset--;
  throw new JsonError("utf8", offset, "found a byte that is not UTF-8");
}

/** What may stand behind a backslash (RFC 8259, 7). */
const escapes: ReadonlySet<string> = new Set('"\\/bfnrtu');

/** number = [ minus ] int [ frac ] [ exp ] (RFC 8259, 6) */
const numberForm = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;

/** Positions are in the decoded text; they turn into byte offsets when an error needs one. */
class Reader {
  readonly #text: string;
  readonly #nestingMax: number;

  /** The position of the next character. */
  #next = 0;

  /** How many arrays and objects are open. */
  #nesting = 0;

  constructor(text: string, nestingMax: number) {
    this.#text = text;
    this.#nestingMax = nestingMax;
  }

  read(): JsonValue {
    const value = this.#value();
    this.#space();
    if (this.#next < this.#text.length) this.#fail("the end of the body");
    return value;
  }

  #value(): JsonValue {
    this.#space();
    switch (this.#text[this.#next]) {
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
    this.#items("}", () => this.#member(members));
    return members;
  }

  #member(members: Map<string, JsonValue>): void {
    this.#space();
    const start = this.#next;
    if (this.#text[start] !== '"') this.#fail("a member name in quotes");
    const name = this.#string();

    // I-JSON has no name twice (RFC 7493, 2.3): of two, readers take the one or the other.
    if (members.has(name)) {
      this.#next = start;
      this.#fail("each name once", "duplicate", "a member name for the second time");
    }
    if (!this.#skip(":")) this.#fail('":"');
    members.set(name, this.#value());
  }

  #array(): readonly JsonValue[] {
    const items: JsonValue[] = [];
    this.#items("]", () => items.push(this.#value()));
    return items;
  }

  /** Reads what stands between the brackets of an array or object, with commas between. */
  #items(end: string, readItem: () => void): void {
    if (++this.#nesting > this.#nestingMax) {
      this.#fail(`at most ${this.#nestingMax} levels`, "nesting", "one more level of nesting");
    }
    this.#next++;
    if (!this.#skip(end)) {
      do readItem();
      while (this.#skip(","));
      if (!this.#skip(end)) this.#fail(`"," or "${end}"`);
    }
    this.#nesting--;
  }

  /** RFC 8259, 7: string = quotation-mark *char quotation-mark */
  #string(): string {
    const start = this.#next++;
    let hasEscape = false;
    for (;;) {
      const code = this.#text.charCodeAt(this.#next);
      if (code === 0x22 /* " */) break;
      if (code === 0x5c /* \ */) {
        hasEscape = true;
        this.#escape();
      } else if (code >= 0x20) this.#next++;
      else this.#fail("a character, control characters escaped, or the string's closing quote");
    }
    const end = ++this.#next;
    if (!hasEscape) return this.#text.slice(start + 1, end - 1);
    // Every escape is a good one. To join a piece for each took 2.5 GB for 2^25 of them.
    return JSON.parse(this.#text.slice(start, end));
  }

  /** Goes behind an escape, or a pair of them: I-JSON has no half of a pair (RFC 7493, 2.1). */
  #escape(): void {
    const start = this.#next;
    const unit = this.#escapedUnit();
    if (unit < 0xd800 || unit > 0xdfff) return;

    const hasLow = unit < 0xdc00 && this.#text.startsWith("\\u", this.#next);
    const low = hasLow ? this.#escapedUnit() : 0;
    if (low < 0xdc00 || low > 0xdfff) {
      this.#next = start;
      this.#fail("a high and a low one", "surrogate", "half of a surrogate pair");
    }
  }

  /** Goes behind one escape; the UTF-16 unit of its four digits, or 0 for one without digits. */
  #escapedUnit(): number {
    const kind = this.#text[++this.#next] ?? "";
    if (!escapes.has(kind)) this.#fail('one of " \\ / b f n r t u');
    this.#next++;
    if (kind !== "u") return 0;

    // 4HEXDIG, or as many of them as there are.
    const [digits = ""] = /^[\dA-Fa-f]*/.exec(this.#text.slice(this.#next, this.#next + 4)) ?? [];
    this.#next += digits.length;
    if (digits.length < 4) this.#fail("a hexadecimal digit");
    return Number.parseInt(digits, 16);
  }

  /** Its text: what it is worth is asked where it is needed. */
  #number(): JsonNumber {
    const start = this.#next;
    numberForm.lastIndex = start;
    if (!numberForm.test(this.#text)) this.#fail("a JSON value");
    this.#next = numberForm.lastIndex;
    return new JsonNumber(this.#text.slice(start, this.#next));
  }

  #word<T>(word: string, value: T): T {
    if (!this.#text.startsWith(word, this.#next)) this.#fail("a JSON value");
    this.#next += word.length;
    return value;
  }

  /** ws = *( space / tab / line feed / carriage return ) (RFC 8259, 2) */
  #space(): void {
    for (; ; this.#next++) {
      const code = this.#text.charCodeAt(this.#next);
      if (code !== 0x20 && code !== 0x0a && code !== 0x0d && code !== 0x09) return;
    }
  }

  /** Whether the character is next, behind white space; then it is passed. */
  #skip(character: string): boolean {
    this.#space();
    if (this.#text[this.#next] !== character) return false;
    this.#next++;
    return true;
  }

  /** Refuses what is next. */
  #fail(
    expected: string,
    code: JsonErrorCode = "json",
    found = this.#found(),
  ): never {
    const offset = Buffer.byteLength(this.#text.slice(0, this.#next));
    throw new JsonError(code, offset, `found ${found}, expected ${expected}`);
  }

  /** One character at the most: an answer never repeats what a client sent. */
  #found(): string {
    const point = this.#text.codePointAt(this.#next);
    if (point === undefined) return "the end of the body";
    if (point > 0x20 && point < 0x7f) return JSON.stringify(String.fromCodePoint(point));
    return `U+${point.toString(16).toUpperCase().padStart(4, "0")}`;
  }
}
