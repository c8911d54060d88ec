/** Bodies of a given size that a reader of JSON could take too long over: none may. */
export type Body = (size: number) => string;
const list = (open: string, item: (index: number) => string, close: string): Body => (size) => {
  const length = Math.floor(size / (item(9_999).length + 1));
  return open + Array.from({ length }, (_, index) => item(index)).join(",") + close;
};
const array = (item: string): Body => list("[", () => item, "]");
const object = (nameOf: (index: number) => string): Body =>
  list("{", (index) => `"${nameOf(index)}":0`, "}");
const idOf = (number: Body): Body => (size) => `{"name":"","id":${number(size)}}`;
const string = (piece: string): Body => (size) => `"${piece.repeat(size / piece.length)}"`;

export const shapes: readonly (readonly [what: string, body: Body])[] = [
  ["deep arrays", array("[".repeat(64) + "]".repeat(64))],
  ["deep objects", array('{"":'.repeat(64) + "0" + "}".repeat(64))],
  ["open arrays", (size) => "[".repeat(size)], ["empty arrays", array("[]")],
  ["numbers", array("1")], ["words", array("null")],
  ["short strings", array('"é"')], ["small objects", array('{"a":1,"b":2}')],
  ["members", object((index) => `name${index}`)], ["members 0, 1, 2", object(String)],
  // Where V8 hashes array indexes without a seed, these are equal modulo 2^16 or 2^15.
  ["colliding members by 65536", object((index) => `${(index * 2 ** 16) % (2 ** 32 - 1)}`)],
  ["colliding members by 32768", object((index) => String(index * 2 ** 15))],
  ["long names that differ at the end", object((index) => "n".repeat(999) + index)],
  ["a name for the second time", list('{"n1":0,', (index) => `"m${index}":0`, ',"n1":0}')],
  ["a long name of escapes", (size) => `{${string("\\u0061")(size)}:0}`],
  ["a long string", string("s")], ["a string of é", string("é")],
  ["simple escapes", string("\\n")], ["escaped pairs", string("\\ud83d\\ude00")],
  ["an open string", (size) => `"${"s".repeat(size)}`],
  ["zeros and their power", idOf((size) => `1${"0".repeat(size)}e-${size}`)],
  ["a fraction", idOf((size) => `15.${"5".repeat(size)}`)],
  ["zeros first", idOf((size) => `0.${"0".repeat(size)}1e${size + 1}`)],
  ["a power", idOf((size) => `1e${"9".repeat(size)}`)],
  ["spaces", (size) => "\n".repeat(size)],
  ["an error at the end", (size) => `["${"é".repeat(size)}" 1`],
];
