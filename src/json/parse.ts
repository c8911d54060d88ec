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
  | null
  | boolean
  | string
  | JsonNumber
  | readonly JsonValue[]
  | ReadonlyMap<string, JsonValue>;

export type JsonErrorCode =
  "json" | "utf8" | "duplicate" | "surrogate" | "nesting";

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
    throw new JsonError(
      "json",
      0,
      "found a byte order mark, expected a JSON value"
    );
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

/** Nearly every string: without escapes. */
const unescaped = /"[^"\\\0-\x1f]*"/y;

/** An escaped UTF-16 unit: alone, or as one half of a surrogate pair. */
const hex = String.raw`[\da-fA-F]`;
const single = String.raw`\\u(?![dD][89a-fA-F])${hex}{4}`;
const high = String.raw`\\u[dD][89abAB]${hex}{2}`;
const low = String.raw`\\u[dD][c-fC-F]${hex}{2}`;

/**
 * Some characters of a string (RFC 8259, 7): I-JSON has no half of a pair (RFC 7493, 2.1).
 *
 * Not all at once: each escape costs a place on the stack of the regular expression.
 */
const characters = new RegExp(
  String.raw`(?:[^"\\\0-\x1f]+|\\["\\/bfnrt]|${single}|${high}${low}){1,999}`,
  "y"
);

/** The beginning of an escape that breaks off, or of a pair whose second half does. */
const brokenEscape = new RegExp(
  String.raw`(?:${high})?\\u${hex}{0,3}(?!${hex})|\\(?!u)`,
  "y"
);

/** A word, or number = [ minus ] int [ frac ] [ exp ] (RFC 8259, 3 and 6) */
const scalar = /true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;

const words: ReadonlyMap<string, JsonValue> = new Map([
  ["true", true],
  ["false", false],
  ["null", null]
]);

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
      case "{":
        return this.#object();
      case "[":
        return this.#array();
      case '"':
        return this.#string();
      default:
        return this.#scalar();
    }
  }

  #object(): ReadonlyMap<string, JsonValue> {
    const members = new Map<string, JsonValue>();
    this.#items("}", () => {
      this.#space();
      const start = this.#next;
      if (this.#text[start] !== '"') this.#fail("a member name in quotes");
      const name = this.#string();

      // I-JSON has no name twice (RFC 7493, 2.3): of two, readers take the one or the other.
      if (members.has(name)) {
        this.#next = start;
        this.#fail(
          "each name once",
          "duplicate",
          "a member name for the second time"
        );
      }
      if (!this.#skip(":")) this.#fail('":"');
      members.set(name, this.#value());
    });
    return members;
  }

  #array(): readonly JsonValue[] {
    const items: JsonValue[] = [];
    this.#items("]", () => items.push(this.#value()));
    return items;
  }

  /** Reads what stands between the brackets of an array or object, with commas between. */
  #items(end: string, readItem: () => void): void {
    if (++this.#nesting > this.#nestingMax) {
      this.#fail(
        `at most ${this.#nestingMax} levels`,
        "nesting",
        "one more level of nesting"
      );
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
    const plain = this.#take(unescaped);
    if (plain !== undefined) return plain.slice(1, -1);

    const start = this.#next++;
    while (this.#take(characters) !== undefined);
    if (this.#text[this.#next] === "\\") this.#failEscape();
    if (this.#text[this.#next] !== '"') {
      this.#fail(
        "a character, control characters escaped, or the string's closing quote"
      );
    }
    // Every escape is a good one. To join a piece for each took 2.5 GB for 2^25 of them.
    return JSON.parse(this.#text.slice(start, ++this.#next));
  }

  /** Refuses the escape that is next. */
  #failEscape(): never {
    const broken = this.#take(brokenEscape);
    if (broken === "\\") this.#fail('one of " \\ / b f n r t u');
    if (broken !== undefined) this.#fail("a hexadecimal digit");
    this.#fail("a high and a low one", "surrogate", "half of a surrogate pair");
  }

  /** A number stays its text: what it is worth is asked where it is needed. */
  #scalar(): JsonValue {
    const text = this.#take(scalar) ?? this.#fail("a JSON value");
    const word = words.get(text);
    return word === undefined ? new JsonNumber(text) : word;
  }

  /** What is next, where it has a form; then it is passed. */
  #take(form: RegExp): string | undefined {
    form.lastIndex = this.#next;
    if (!form.test(this.#text)) return undefined;
    const start = this.#next;
    this.#next = form.lastIndex;
    return this.#text.slice(start, this.#next);
  }

  /** ws = *( space / tab / line feed / carriage return ) (RFC 8259, 2) */
  #space(): void {
    for (; ; this.#next++) {
      const code = this.#text.charCodeAt(this.#next);
      if (code !== 0x20 && code !== 0x0a && code !== 0x0d && code !== 0x09)
        return;
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
    found = this.#found()
  ): never {
    const offset = Buffer.byteLength(this.#text.slice(0, this.#next));
    throw new JsonError(code, offset, `found ${found}, expected ${expected}`);
  }

  /** One character at the most: an answer never repeats what a client sent. */
  #found(): string {
    const point = this.#text.codePointAt(this.#next);
    if (point === undefined) return "the end of the body";
    if (point > 0x20 && point < 0x7f)
      return JSON.stringify(String.fromCodePoint(point));
    return `U+${point.toString(16).toUpperCase().padStart(4, "0")}`;
  }
}
