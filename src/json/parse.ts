/**
 * A strict reader of I-JSON (RFC 7493, RFC 8259) with exact numbers, in linear time.
 *
 * Beyond JSON.parse: UTF-8 is checked, a byte order mark, a repeated member name, an unpaired
 * surrogate and deep nesting are errors, every error has a byte offset, a number stays text.
 */
import { isUtf8 } from "node:buffer";
import { NameTable, stringOf } from "./names.ts";

/**
 * A checked value: its text, or the kept members of an object with their texts.
 *
 * Nothing is built. A Map takes `__proto__` as a name like any other.
 */
export type JsonValue = string | ReadonlyMap<string, string>;

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
export function parseJson(
  body: Buffer,
  nestingMax: number,
  kept: readonly string[]
): JsonValue {
  const text = body.toString("utf8");
  if (text.startsWith("\ufeff")) {
    throw new JsonError(
      "json",
      0,
      "found a byte order mark, expected a JSON value"
    );
  }
  if (!text.includes("\ufffd") || isUtf8(body))
    return new Reader(text, nestingMax, kept).read();

  // Decoding puts U+FFFD for what is not UTF-8: encoded again, it is the first to differ.
  const again = Buffer.from(text);
  let offset = 0;
  while (again[offset] === body[offset]) offset++;
  // Back to the first byte of a character that is cut off.
  while (((again[offset] ?? 0) & 0xc0) === 0x80) offset--;
  throw new JsonError("utf8", offset, "found a byte that is not UTF-8");
}

/** Nearly every string: without escapes. */
const unescaped = new RegExp(String.raw`"[^"\\\0-\x1f]*"`, "y");

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
const scalar = new RegExp(
  String.raw`true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?`,
  "y"
);

/** An object with more names has them in a table. */
const fewNames = 8;

/** Positions are in the decoded text; an error's byte offset is counted when it is thrown. */
class Reader {
  readonly #text: string;
  readonly #nestingMax: number;
  readonly #kept: readonly string[];

  /** The kept members of the outermost object. */
  readonly #members = new Map<string, string>();
  #table: NameTable | undefined;

  /** The position of the next character. */
  #next = 0;

  /** How many arrays and objects are open. */
  #nesting = 0;

  constructor(text: string, nestingMax: number, kept: readonly string[]) {
    this.#text = text;
    this.#nestingMax = nestingMax;
    this.#kept = kept;
  }

  read(): JsonValue {
    const start = this.#value();
    const value = this.#text.slice(start, this.#next);
    this.#space();
    if (this.#next < this.#text.length) this.#fail("the end of the body");
    return value.startsWith("{") ? this.#members : value;
  }

  /** Checks the value that is next, and returns its position. */
  #value(): number {
    this.#space();
    const start = this.#next;
    switch (this.#text[start]) {
      case "{":
        this.#items("}");
        break;
      case "[":
        this.#items("]");
        break;
      case '"':
        this.#string();
        break;
      default:
        if (!this.#match(scalar)) this.#fail("a JSON value");
    }
    return start;
  }

  /** Checks what stands between the brackets of an array or object, with commas between. */
  #items(end: "}" | "]"): void {
    if (++this.#nesting > this.#nestingMax) {
      this.#fail(
        `at most ${this.#nestingMax} levels`,
        "nesting",
        "one more level of nesting"
      );
    }
    const start = this.#next++;
    if (!this.#skip(end)) {
      const names: string[] = [];
      do end === "}" ? this.#member(start, names) : this.#value();
      while (this.#skip(","));
      if (!this.#skip(end)) this.#fail(`"," or "${end}"`);
    }
    this.#nesting--;
  }

  /** member = string name-separator value (RFC 8259, 4) */
  #member(object: number, names: string[]): void {
    this.#space();
    const start = this.#next;
    if (this.#text[start] !== '"') this.#fail("a member name in quotes");
    this.#string();
    const end = this.#next;
    const name = stringOf(this.#text.slice(start, end));

    // I-JSON has no name twice (RFC 7493, 2.3): of two, readers take the one or the other.
    const isNew =
      !names.includes(name) &&
      (names.length < fewNames
        ? names.push(name) > 0
        : (this.#table ??= new NameTable(this.#text)).add(
            name,
            start,
            end,
            object
          ));
    if (!isNew) {
      this.#next = start;
      this.#fail(
        "each name once",
        "duplicate",
        "a member name for the second time"
      );
    }
    if (!this.#skip(":")) this.#fail('":"');
    const value = this.#value();
    if (this.#nesting === 1 && this.#kept.includes(name))
      this.#members.set(name, this.#text.slice(value, this.#next));
  }

  /** string = quotation-mark *char quotation-mark (RFC 8259, 7) */
  #string(): void {
    if (this.#match(unescaped)) return;

    this.#next++;
    while (this.#text[this.#next] !== '"') {
      if (this.#match(characters)) continue;
      if (this.#text[this.#next] === "\\") this.#failEscape();
      this.#fail(
        "a character, control characters escaped, or the string's closing quote"
      );
    }
    this.#next++;
  }

  /** Refuses the escape that is next. */
  #failEscape(): never {
    const start = this.#next;
    const broken = this.#match(brokenEscape)
      ? this.#text.slice(start, this.#next)
      : undefined;
    if (broken === "\\") this.#fail('one of " \\ / b f n r t u');
    if (broken !== undefined) this.#fail("a hexadecimal digit");
    this.#fail("a high and a low one", "surrogate", "half of a surrogate pair");
  }

  /** Passes what is next, where it has the form. */
  #match(form: RegExp): boolean {
    form.lastIndex = this.#next;
    if (!form.test(this.#text)) return false;
    this.#next = form.lastIndex;
    return true;
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
