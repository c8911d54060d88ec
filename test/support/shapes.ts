/** Bodies of about a given size that a reader of JSON could spend too much time or memory on. */
export type Body = (size: number) => string | Buffer;
type Text = (size: number) => string;

const list =
  (open: string, item: (index: number) => string, close: string): Text =>
  (size) => {
    const length = Math.floor(size / (item(9_999).length + 1));
    return (
      open + Array.from({ length }, (_, index) => item(index)).join(",") + close
    );
  };
const array = (item: string): Text => list("[", () => item, "]");
const object = (nameOf: (index: number) => string): Text =>
  list("{", (index) => `"${nameOf(index)}":0`, "}");
const string =
  (piece: string): Text =>
  (size) =>
    `"${piece.repeat(size / Buffer.byteLength(piece))}"`;

/** A plant with one member of this size: `member` may be its name, or one that is not stored. */
const plant =
  (member: string, value: Text): Text =>
  (size) =>
    `{"id":1,${member === "name" ? "" : '"name":"",'}"${member}":${value(size)}}`;
const idOf =
  (number: Text): Text =>
  (size) =>
    `{"name":"","id":${number(size)}}`;

/** The shortest names that differ: their characters are digits to the base of 93. */
function shortName(index: number): string {
  const digit = String.fromCharCode(0x23 + (index % 93)).replace("\\", " ");
  return index < 93 ? digit : shortName(Math.floor(index / 93) - 1) + digit;
}

export const shapes: readonly (readonly [what: string, body: Body])[] = [
  ["deep arrays", array("[".repeat(64) + "]".repeat(64))],
  ["deep objects", array('{"":'.repeat(64) + "0" + "}".repeat(64))],
  ["open arrays", (size) => "[".repeat(size)],
  ["empty arrays", array("[]")],
  ["empty objects", array("{}")],
  ["empty objects, not stored", plant("x", array("{}"))],
  ["arrays in arrays, not stored", plant("x", array("[[[]]]"))],
  ["objects in objects, not stored", plant("x", array('{"":{"":{}}}'))],
  ["numbers", array("1")],
  ["words", array("null")],
  ["short strings", array('"é"')],
  ["small objects", array('{"a":1,"b":2}')],
  ["objects of 12 names", array(object((index) => `n${index}`)(70))],
  ["members", object((index) => `name${index}`)],
  ["members 0, 1, 2", object(String)],
  ["members with the shortest names", object(shortName)],
  [
    "members with the shortest names, not stored",
    plant("x", object(shortName))
  ],
  [
    "members with the shortest names after an escape",
    object((index) => `\\n${shortName(index)}`)
  ],
  [
    "members with the shortest names after € and an escape",
    object((index) => `€\\n${shortName(index)}`)
  ],
  [
    "members with names of escapes",
    object((index) => `\\u${(0x1000 + (index % 0x8000)).toString(16)}${index}`)
  ],
  [
    "members within members",
    (size) =>
      '{"x":'.repeat(60) +
      object((index) => `name${index}`)(size) +
      "}".repeat(60)
  ],
  // A hash that begins with 0 is the same for all of them.
  [
    "names of U+0000, of every length",
    (size) =>
      object((index) => "\\u0000".repeat(index))(60_000 * Math.sqrt(size / 3))
  ],
  // Where V8 hashes array indexes without a seed, these are equal modulo 2^16 or 2^15.
  [
    "colliding members by 65536",
    object((index) => `${(index * 2 ** 16) % (2 ** 32 - 1)}`)
  ],
  ["colliding members by 32768", object((index) => String(index * 2 ** 15))],
  [
    "long names that differ at the end",
    object((index) => "n".repeat(999) + index)
  ],
  [
    "a name for the second time",
    list('{"n1":0,', (index) => `"m${index}":0`, ',"n1":0}')
  ],
  ["a long name of escapes", (size) => `{${string("\\u0061")(size)}:0}`],
  ["a long string", string("s")],
  ["a string of é", string("é")],
  ["a string of astral characters", string("\u{1f33f}")],
  ["simple escapes", string("\\n")],
  ["escaped pairs", string("\\ud83d\\ude00")],
  ["an open string", (size) => `"${"s".repeat(size)}`],
  ["a stored name", plant("name", string("s"))],
  ["a stored name of astral characters", plant("name", string("\u{1f33f}"))],
  [
    "a stored name of one astral character and others",
    plant("name", (size) => string("s")(size).replace("s", "\u{1f33f}"))
  ],
  ["a stored name of control characters", plant("name", string("\\u0001"))],
  ["a stored name of escaped pairs", plant("name", string("\\ud83d\\ude00"))],
  ["zeros and their power", idOf((size) => `1${"0".repeat(size)}e-${size}`)],
  ["a fraction", idOf((size) => `15.${"5".repeat(size)}`)],
  ["zeros first", idOf((size) => `0.${"0".repeat(size)}1e${size + 1}`)],
  ["a power", idOf((size) => `1e${"9".repeat(size)}`)],
  ["spaces", (size) => "\n".repeat(size)],
  ["an error at the end", (size) => `["${"é".repeat(size / 2)}" 1`],
  ["U+FFFD", string("\ufffd")],
  ["bytes that are not UTF-8", (size) => Buffer.alloc(size, 0xff)],
  [
    "bytes that are not UTF-8 at the end",
    (size) => Buffer.concat([Buffer.alloc(size, "é"), Buffer.from([0xff])])
  ]
];
