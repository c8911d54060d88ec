/**
 * Checks I-JSON strictly, in linear time and little memory (RFC 7493, RFC 8259).
 *
 * Beyond JSON.parse: UTF-8 is checked; a byte order mark, a repeated member name, an unpaired
 * surrogate and deep nesting are errors; every error has a byte offset; no number is rounded.
 */
import { isUtf8 } from "node:buffer";
import { hash } from "node:crypto";

/** A checked value. Nothing is built of it: it is a text, and so is the value of a member. */
export interface JsonValue {
  readonly text: string;

  /** The members that are kept, if the value is an object. */
  readonly members: ReadonlyMap<string, string>;
}

/** Why a body is refused. The message says where it is wrong, and what was expected there. */
export class JsonError extends Error {
  /** `schema`: the JSON has another schema. Any other code: it is not I-JSON. */
  readonly code:
    "json" | "utf8" | "duplicate" | "surrogate" | "nesting" | "schema";

  constructor(code: JsonError["code"], message: string) {
    super(message);
    this.code = code;
  }
}

/**
 * Decodes a body strictly.
 *
 * @throws JsonError `utf8`
 */
export function decodeUtf8(body: Buffer) {
  const text = body.toString("utf8");
  // Decoding replaces each byte that is not UTF-8 by U+FFFD: a text without one was UTF-8.
  if (!text.includes("\ufffd") || isUtf8(body)) return text;

  // The first byte that decoding has replaced is the first to differ.
  const again = Buffer.from(text);
  let offset = 0;
  while (again[offset] === body[offset]) offset++;
  // If it is a later byte of a truncated character, the first byte of that is the wrong one.
  while (((again[offset] ?? 0) & 0xc0) === 0x80) offset--;
  throw new JsonError("utf8", `at byte offset ${offset}`);
}

/**
 * Checks one JSON text, and returns its value.
 *
 * @param nestingMax how many arrays and objects may be open at once
 * @param kept the names of the members that are kept, if the text is an object; none with escapes
 * @throws JsonError
 */
export const parseJson = (
  text: string,
  nestingMax: number,
  kept: readonly string[]
) => new Reader(text, nestingMax, kept).read();

/** string = quotation-mark *unescaped quotation-mark: nearly every string (RFC 8259, 7). */
const plainString = new RegExp(String.raw`"[^"\\\0-\x1f]*"`, "y");

/** "\u" 4HEXDIG: alone, or as one half of a surrogate pair. */
const hex = String.raw`[\da-fA-F]`;
const single = String.raw`\\u(?![dD][89a-fA-F])${hex}{4}`;
const high = String.raw`\\u[dD][89abAB]${hex}{2}`;
const low = String.raw`\\u[dD][c-fC-F]${hex}{2}`;

/**
 * 1*999char (RFC 8259, 7). I-JSON has no half of a surrogate pair (RFC 7493, 2.1).
 *
 *     char      = unescaped / "\" ( %x22 / "\" / "/" / %s"b" / %s"f" / %s"n" / %s"r" / %s"t" )
 *               / %s"\u" 4HEXDIG
 *     unescaped = %x20-21 / %x23-5B / %x5D-10FFFF
 *
 * The number is bounded because each escape takes a place on the regular expression's stack.
 */
const characters = new RegExp(
  String.raw`(?:[^"\\\0-\x1f]+|\\["\\/bfnrt]|${single}|${high}${low}){1,999}`,
  "y"
);

/** Where half a surrogate pair is alone. Before a part of an escape it is not: that is not JSON. */
const unpaired = new RegExp(
  String.raw`(?=(?:${high}|${low})(?!\\u(?!${hex}{4})))`,
  "y"
);

/**
 * false / null / true / number (RFC 8259, 3 and 6).
 *
 *     number = [ "-" ] int [ frac ] [ exp ]
 *     int    = "0" / ( %x31-39 *DIGIT )
 *     frac   = "." 1*DIGIT
 *     exp    = "e" [ "-" / "+" ] 1*DIGIT
 */
const scalar = new RegExp(
  String.raw`true|false|null|-?(?:0(?!\d)|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?`,
  "y"
);

/**
 * The longest string that V8 hashes by its characters. It hashes a longer one by its length alone,
 * so that a client could make all names of one length collide.
 */
const hashedLengthMax = 16_383;

const valueExpected =
  "a JSON value: strings in double quotes, numbers without leading zeros";
const characterExpected =
  "a character, an escape or the closing quote: control characters must be escaped";

/** Positions are in the decoded text; an error's byte offset is counted when it is thrown. */
class Reader {
  readonly #text: string;
  readonly #nestingMax: number;
  readonly #kept: readonly string[];

  /** The kept members of the outermost object. */
  readonly #members = new Map<string, string>();

  /** The position of the next character. */
  #next = 0;

  /** The number of open arrays and objects. */
  #nesting = 0;

  constructor(text: string, nestingMax: number, kept: readonly string[]) {
    this.#text = text;
    this.#nestingMax = nestingMax;
    this.#kept = kept;
  }

  /** JSON-text = ws value ws (RFC 8259, 2) */
  read(): JsonValue {
    const start = this.#value();
    const text = this.#text.slice(start, this.#next);
    this.#space();
    if (this.#next < this.#text.length) this.#fail("the end of the body");
    return { text, members: this.#members };
  }

  /** Passes a value after white space, and returns its position. */
  #value() {
    this.#space();
    const start = this.#next;
    const first = this.#text[start];
    if (first === "{") this.#items("}");
    else if (first === "[") this.#items("]");
    else if (first === '"') this.#string();
    else if (!this.#match(scalar)) this.#fail(valueExpected);
    return start;
  }

  /**
   * Passes an array or an object (RFC 8259, 4 and 5).
   *
   *     object = "{" [ member *( "," member ) ] "}"
   *     array  = "[" [ value *( "," value ) ] "]"
   */
  #items(end: "}" | "]") {
    if (++this.#nesting > this.#nestingMax) {
      this.#fail(`at most ${this.#nestingMax} levels`, "nesting");
    }
    this.#next++;
    if (!this.#skip(end)) {
      // I-JSON has no name twice (RFC 7493, 2.3): readers differ in which of the two they take.
      const names = new Set<string>();
      do {
        if (end === "}") this.#member(names);
        else this.#value();
      } while (this.#skip(","));
      if (!this.#skip(end)) this.#fail(`"," or "${end}"`);
    }
    this.#nesting--;
  }

  /** member = string ":" value (RFC 8259, 4) */
  #member(names: Set<string>) {
    this.#space();
    const start = this.#next;
    if (this.#text[start] !== '"') this.#fail("a member name in double quotes");
    this.#string();
    const text = this.#text.slice(start, this.#next);
    const name = text.includes("\\") ? JSON.stringify(JSON.parse(text)) : text;

    // A name keeps its quotes: V8 hashes array indexes so that a client can make them collide.
    // V8 would hash a long name badly: a digest takes its place. A digest has no quotes, so it
    // equals no name.
    const entry =
      name.length > hashedLengthMax ? hash("sha256", name, "hex") : name;
    if (names.has(entry)) {
      this.#next = start;
      this.#fail("each name once", "duplicate");
    }
    names.add(entry);

    if (!this.#skip(":")) this.#fail('":"');
    const value = this.#value();
    const plain = name.slice(1, -1);
    if (this.#nesting === 1 && this.#kept.includes(plain))
      this.#members.set(plain, this.#text.slice(value, this.#next));
  }

  /** string = quotation-mark *char quotation-mark (RFC 8259, 7) */
  #string() {
    if (this.#match(plainString)) return;

    this.#next++;
    while (this.#text[this.#next] !== '"') {
      if (this.#match(characters)) continue;
      if (this.#match(unpaired))
        this.#fail("a high and a low one", "surrogate");
      this.#fail(characterExpected);
    }
    this.#next++;
  }

  /** Passes the next characters if they have the form, and returns whether they have. */
  #match(form: RegExp) {
    form.lastIndex = this.#next;
    if (!form.test(this.#text)) return false;
    this.#next = form.lastIndex;
    return true;
  }

  /** ws = *( %x20 / %x09 / %x0A / %x0D ) (RFC 8259, 2) */
  #space() {
    for (; ; this.#next++) {
      const code = this.#text.charCodeAt(this.#next);
      if (code !== 0x20 && code !== 0x0a && code !== 0x0d && code !== 0x09)
        return;
    }
  }

  /** Passes a character after white space if it is next, and returns whether it is. */
  #skip(character: string) {
    this.#space();
    if (this.#text[this.#next] !== character) return false;
    this.#next++;
    return true;
  }

  /** Throws for the character that is next. */
  #fail(expected: string, code: JsonError["code"] = "json"): never {
    const offset = Buffer.byteLength(this.#text.slice(0, this.#next));
    throw new JsonError(code, `at byte offset ${offset}, expected ${expected}`);
  }
}
