/**
 * Requests made from a seed, valid and mutated: the bytes of one connection, and how they are sent.
 *
 * The right responses are not known here: fuzzmodel.ts reads the bytes.
 */
import { seeded, token } from "../support/support.ts";

export interface FuzzCase {
  /** Bytes as latin1. */
  readonly text: string;
  /** The same, as they are written one after another. */
  readonly parts: readonly string[];
  /** `abort`: reset after the last part. `patient`: half-close after the last response. */
  readonly ending: "half-close" | "patient" | "abort";
}

type Below = (bound: number) => number;
type Strings = readonly string[];
/** Text as its bytes in UTF-8, each a character. */
const utf8 = (text: string): string => Buffer.from(text).toString("latin1");
const pick = <T>(below: Below, list: readonly [T, ...T[]]): T =>
  list[below(list.length)] ?? list[0];

const goodPieces = [
  "a",
  "Fern",
  " ",
  "\\n",
  "\\u00e9",
  "é",
  "🌿",
  "\\ud83c\\udf3f",
  '\\"',
  "\\\\",
  "\\/",
  "\\u0000",
  "\uffff",
  "\\ufdd0",
  "\u2028",
  "\x7f",
  "{}[],:",
  "__proto__",
  "\\t\\b\\f\\r"
] as const;
const badPieces = [
  "\\ud800",
  "\\udc00\\ud800",
  "\\uD83Cx",
  "\\x",
  "\\u12",
  "\\u12g4",
  "\n",
  "\0",
  "\x1f",
  '"',
  "\\",
  "\\ud800\\u0041",
  "\\'"
] as const;
const badBytes = [
  "\xff",
  "\xc0\xaf",
  "\xed\xa0\x80",
  "\xf4\x90\x80\x80",
  "\xe2\x82",
  "\x80",
  "\xf0\x9f\x8c",
  "\xc3"
] as const;
const numbers = [
  "0",
  "-0",
  "1.0",
  "1e2",
  "120e-1",
  "0e999999999",
  "9223372036854775807",
  "-9223372036854775808",
  "9223372036854775808",
  "-9223372036854775809",
  "9007199254740993",
  "9223372036854775807.5",
  "1e19",
  "9.223372036854775807e18",
  "92233720368547758070e-1",
  "1.5",
  "1e-1",
  "1e999999999999999999",
  "-1E+3",
  "0.000",
  "01",
  "+1",
  ".5",
  "1.",
  "0x1",
  "1e",
  "NaN",
  "Infinity",
  "-",
  "1_0",
  "18446744073709551616",
  "1e-400",
  "-1e18",
  "--1",
  "0.1e1",
  `1${"0".repeat(300)}e-300`,
  `${"0.".padEnd(300, "0")}1e299`
] as const;
const values = [
  "null",
  "true",
  "false",
  '"7"',
  "[]",
  "{}",
  "[1,2]",
  "nul",
  "True",
  "",
  '{"a":1,"a":2}',
  '{"a":{"\\u0061":1,"b":2,"\\u0062":3}}',
  "[,]",
  "[1,]",
  '{"a":}',
  '"\\ud800"',
  '{"":0,"":1}'
] as const;
const spaces = [
  "",
  "",
  "",
  " ",
  "\t",
  "\r\n",
  "\n \n",
  "\x0b",
  "\xa0",
  "/**/",
  "\ufeff"
] as const;

function stringText(below: Below, first: string, isGood: boolean): string {
  let text = utf8(first);
  for (let count = below(4); count > 0; count--)
    text += utf8(pick(below, goodPieces));
  if (!isGood)
    text +=
      below(3) === 0 ? pick(below, badBytes) : utf8(pick(below, badPieces));
  if (below(200) === 0) text += "x".repeat(below(5_000));
  return `"${text}"`;
}

type Members = (readonly [name: string, value: string])[];
const bodyMutations: readonly ((below: Below, members: Members) => void)[] = [
  (below, members) => void members.splice(below(members.length), 1),
  (below, members) =>
    void members.push(members[below(members.length)] ?? ['"x"', "1"]),
  (below, members) =>
    void members.push(['"\\u0069d"', "1"], [pick(below, ['"x"', '"id"']), "2"]),
  (below, members) =>
    void members.push([
      '"__proto__"',
      pick(below, [
        '{"name":"evil","id":1}',
        "null",
        "1",
        '{"__proto__":{"__proto__":1}}'
      ])
    ]),
  (below, members) => {
    const [left, right] = pick(below, [
      ["[", "]"],
      ['{"a":', "}"]
    ]);
    const depth = 5 + below(5);
    members.push([
      '"deep"',
      `${left.repeat(depth)}0${right.repeat(depth - (below(9) % 2))}`
    ]);
  },
  ...['"id"', '"id"', '"id"', '"name"', '"tag"', '"more"'].map(
    (name) => (below: Below, members: Members) => {
      const at = members.findIndex(([known]) => known === name);
      const other = pick(below, [
        pick(below, values),
        stringText(below, "mutated", below(2) > 0)
      ]);
      const value =
        below(name === '"id"' ? 5 : 2) > 0 ? pick(below, numbers) : other;
      members.splice(at < 0 ? members.length : at, at < 0 ? 0 : 1, [
        name,
        value
      ]);
    }
  )
];

function bodyText(
  below: Below,
  index: number,
  seed: number,
  mutations: number
): string {
  const id = `${below(3) === 0 ? "-" : ""}${seed * 8 + index}`;
  const numeral = pick(below, [
    id,
    id,
    id,
    `${id}.0`,
    `${id}e0`,
    `${id}00E-2`,
    `${id}.00e+0`
  ]);
  const members: Members = [
    ['"id"', numeral],
    ['"name"', stringText(below, `p${seed}.${index}`, true)]
  ];
  if (below(2) === 0) members.push(['"tag"', stringText(below, "", true)]);
  if (below(4) === 0) {
    members.push([
      stringText(below, "more", true),
      pick(below, ["1.5", "[null]"])
    ]);
  }
  if (below(2) === 0) members.reverse();
  for (let count = mutations; count > 0; count--) {
    bodyMutations[below(bodyMutations.length)]?.(below, members);
  }
  const isOdd = mutations > 0 && below(6) === 0;
  const space = (): string =>
    isOdd ? utf8(pick(below, spaces)) : pick(below, ["", " "]);
  const inner = members
    .map(([name, value]) => `${name}${space()}:${space()}${value}`)
    .join(",");
  const text = `${space()}{${inner}}${space()}`;
  if (mutations === 0 || below(8) > 0) return text;
  return pick(below, [
    "",
    "[]",
    "null",
    "7",
    '"x"',
    `\xef\xbb\xbf${text}`,
    `${text}${text}`,
    "{",
    `[${text}]`,
    `${text}//`,
    text.padEnd(4_090 + below(12)),
    " "
  ]);
}

interface Draft {
  line: string;
  fields: string[];
  body: string;
  framing: "length" | "chunked";
}

const targets = [
  "/plants?a=b",
  "/plants?",
  "http://localhost/plants",
  "HTTP://h:1/plants?x",
  "/",
  "/plants/",
  "/Plants",
  "//plants",
  "/plants;a",
  "/%70lants",
  "/plants%20",
  "/plants#x",
  "*",
  "http://u@h/plants",
  "/plants\0",
  "/plants\x80",
  "/pl ants",
  "plants",
  "",
  "/plants?{}",
  "/x?#",
  "https://h/plants",
  "/plants?\x7f",
  "localhost:80",
  "/plants?%zz",
  "http://h",
  "?/plants"
] as const;
const lines = [
  "POST /plants HTTP/1.0",
  "POST /plants HTTP/2.0",
  "POST /plants HTTP/1.2",
  "POST /plants",
  "POST  /plants HTTP/1.1",
  "POST /plants  HTTP/1.1",
  "POST /plants HTTP/1.1 ",
  "post /plants HTTP/1.1",
  "PLANT /plants HTTP/1.1",
  " POST /plants HTTP/1.1",
  "PUT /plants HTTP/1.1",
  "POST\t/plants HTTP/1.1",
  "POST /plants http/1.1",
  "POST /plants HTTP/1.10",
  "GET /x HTTP/1.1",
  "HEAD /plants HTTP/1.1",
  "OPTIONS * HTTP/1.1",
  "DELETE / HTTP/1.0",
  "CONNECT a:80 HTTP/1.1",
  "CONNECT /plants HTTP/1.1",
  "POST /plants RTSP/1.0",
  "PRI * HTTP/2.0",
  "QUERY /plants HTTP/1.1",
  "GET /plants HTTP/0.9",
  "TRACE /plants HTTP/1.1",
  "POST /plants HTTP/1.1\n",
  ""
] as const;
/** No `Connection: upgrade` beside an Upgrade: the parser stops there; see pipelining.test.ts. */
const fieldLines = [
  "Expect: 100-continue",
  "expect: 100-Continue",
  "Expect: 200-ok",
  "Expect:",
  "Connection: close",
  "Connection: keep-alive",
  "Connection: Close, x",
  "Connection: te",
  "Upgrade: websocket",
  "Upgrade: h2c",
  "Content-Encoding: identity",
  "Content-Encoding: gzip",
  "Host: b",
  "Host:",
  "Authorization: Bearer x",
  "Content-Type: text/plain",
  "Content-Length: 3",
  "content-length: 0",
  "Content-Length: -1",
  "Content-Length: 1, 1",
  "Content-Length:",
  "Transfer-Encoding: chunked",
  "Transfer-Encoding: gzip, chunked",
  "transfer-encoding: CHUNKED",
  "Transfer-Encoding: identity",
  "Transfer-Encoding: chunked\x0b",
  "Transfer-Encoding:",
  "X : y",
  "Transfer-Encoding : chunked",
  " folded: x",
  "\tfolded",
  "X: y\r\n z",
  "X: \0",
  "X: \x7f",
  "X(Y): z",
  "X\r: y",
  "X: y\n",
  ": x",
  "X",
  "__proto__: x",
  "constructor: y",
  "X:\t a\xe9 \t",
  "Cookie: a=b",
  "X: y\rz",
  "X\x80: y",
  "Proxy-Connection: close",
  "Trailer: X",
  "TE: trailers",
  "Date: x",
  "Keep-Alive: timeout=1",
  "Content-Encoding:",
  "X: \x01",
  "Content-Length: 99999999999999999999",
  "Content-Length: 5000",
  "Content-Length: 00000000000000022",
  "Connection: close, close"
] as const;
const authorizations = [
  `bearer ${token}`,
  `Bearer   ${token}`,
  "Bearer",
  `Bearer ${token} x`,
  "Basic dGVzdA==",
  `Bearer ${token}=`,
  `Bearer ${token.slice(1)}`,
  "",
  `Bearer\t${token}`,
  "Bearer =",
  `Bearer ${token},`,
  `Bearer${token}`,
  `Bearer "${token}"`,
  "Bearer \xe9",
  `${token}`,
  "Bearer,x"
] as const;
const types = [
  "application/json; charset=utf-8",
  'Application/JSON;charset="UTF-8"',
  "text/plain",
  "application/json; charset=latin1",
  "application/json;",
  'application/json; x="; charset=y"',
  "application/json; charset=utf-8; charset=utf-8",
  "application/jsonp",
  "application/json x",
  "",
  "application/json; x",
  "application/json, text/plain",
  'application/json;;x=y; charset="ut\\f-8"',
  'application/json; charset="utf-8',
  "application/json;charset =utf-8",
  "*/*"
] as const;
const hosts = [
  "[::1]:80",
  "a:",
  "a b",
  "a/b",
  "u@h",
  "a:1:2",
  "a:x",
  "[::1",
  "",
  "a%20b",
  "a%zz",
  "a,b",
  "x".repeat(300),
  "\xe9",
  "a\\b",
  "[v1.x]",
  '"a"'
] as const;

const swap = (draft: Draft, name: string, value: string): void => {
  const at = draft.fields.findIndex((line) => line.startsWith(`${name}:`));
  if (at >= 0) draft.fields[at] = `${name}: ${value}`;
};
const addField = (below: Below, { fields }: Draft): void =>
  void fields.splice(below(fields.length + 1), 0, pick(below, fieldLines));
const draftMutations: readonly ((below: Below, draft: Draft) => void)[] = [
  (below, draft) => {
    draft.line = pick(below, lines);
  },
  (below, draft) => {
    draft.line = `POST ${pick(below, targets)} HTTP/1.1`;
  },
  addField,
  addField,
  (below, draft) => void draft.fields.splice(below(draft.fields.length), 1),
  (below, draft) =>
    void draft.fields.push(draft.fields[below(draft.fields.length)] ?? ""),
  (below, draft) => swap(draft, "Authorization", pick(below, authorizations)),
  (below, draft) => swap(draft, "Content-Type", pick(below, types)),
  (below, draft) => swap(draft, "Host", pick(below, hosts)),
  (below, { fields }) =>
    void fields.push(`X: ${"x".repeat(below(2) ? 1_700 + below(300) : 4_000)}`),
  (below, draft) =>
    void draft.fields.push(
      ...Array.from({ length: 22 + below(8) }, () => "a:")
    ),
  (below, draft) => {
    draft.fields = draft.fields.map((line) => {
      const [name = "", rest = ""] = line.split(/(?<=^[^:]*):/);
      return `${below(2) ? name.toUpperCase() : name.toLowerCase()}:${rest}${" ".repeat(below(3))}`;
    });
  }
];

const bad = (below: Below, rate: number, list: Strings): string | undefined =>
  below(rate) === 0 ? list[below(list.length)] : undefined;
function chunks(below: Below, body: string, mutated: boolean): string {
  const rate = mutated ? 12 : Infinity;
  let text = "";
  for (let at = 0; at < body.length;) {
    const size = Math.min(
      body.length - at,
      1 + below(pick(below, [3, 40, 5_000]))
    );
    const digits = size.toString(16);
    const more = below(10) === 0 ? pick(below, [";a", ";a=b", ';a;b="c"']) : "";
    const shown = bad(below, rate, [
      digits.toUpperCase(),
      `00${digits}`,
      `${digits} `,
      `0x${digits}`,
      `-${digits}`,
      (size + 1).toString(16),
      (size - 1).toString(16),
      "",
      "ffffffffffffffff1",
      `${digits};a=\0`,
      `${digits};${"x".repeat(5_000)}`,
      `${digits} ;a = "b"`,
      "7fffffffffffffff"
    ]);
    const eol =
      bad(below, rate, ["\n", "\r", "", "\r\n\r\n", "\r\r\n"]) ?? "\r\n";
    const end = bad(below, rate, ["\n", "", "\r", "x\r\n"]) ?? "\r\n";
    text +=
      `${shown ?? digits}${shown === undefined ? more : ""}${eol}` +
      `${body.slice(at, at + size)}${end}`;
    at += size;
  }
  const trailer =
    below(6) === 0 ? pick(below, ["X: y\r\n", 'Date: x\r\nETag: "z"\r\n']) : "";
  const odd = bad(below, rate / 4, [
    "Content-Length: 5\r\n",
    "X\r\n",
    "Host: b\r\n",
    "a:\r\n".repeat(31),
    "Transfer-Encoding: chunked\r\n",
    "X: \0\r\n",
    `X: ${"x".repeat(4_000)}\r\n`,
    " x\r\n",
    "X: y\n",
    `Authorization: Bearer ${token}\r\n`
  ]);
  return `${text}${pick(below, ["0", "0", "000"])}\r\n${odd ?? trailer}\r\n`;
}

function requestText(
  below: Below,
  seed: number,
  index: number,
  mutations: number
): string {
  // Half of the mutated requests have one fault only, so that one response is right.
  const inBody = mutations > 0 && below(2) === 0;
  const draft: Draft = {
    line: "POST /plants HTTP/1.1",
    fields: [
      "Host: localhost",
      `Authorization: Bearer ${token}`,
      "Content-Type: application/json"
    ],
    framing: below(3) === 0 ? "chunked" : "length",
    body: bodyText(below, index, seed, inBody ? mutations : 0)
  };
  const oddChunks = mutations > 0 && !inBody && below(4) === 0;
  if (oddChunks) draft.framing = "chunked";
  const body =
    draft.framing === "length"
      ? draft.body
      : chunks(below, draft.body, oddChunks);
  draft.fields.push(
    draft.framing === "length"
      ? `Content-Length: ${draft.body.length}`
      : "Transfer-Encoding: chunked"
  );
  if (below(3) === 0) draft.fields.push(`X-More: ${"y".repeat(below(30))}`);
  const closing = ["Expect: 100-continue", "Connection: close"] as const;
  if (below(12) === 0) draft.fields.push(pick(below, closing));
  for (let count = inBody || oddChunks ? 0 : mutations; count > 0; count--) {
    draftMutations[below(draftMutations.length)]?.(below, draft);
  }
  return `${draft.line}\r\n${draft.fields.map((line) => `${line}\r\n`).join("")}\r\n${body}`;
}

const alphabet = [
  "\r",
  "\n",
  "\r\n",
  "\0",
  " ",
  ":",
  "\t",
  ";",
  "\xff",
  "0",
  "a",
  '"',
  "{",
  "\\"
];
/** The text with bytes changed, inserted, removed or repeated, anywhere. */
function mangled(below: Below, text: string): string {
  const at = below(text.length + 1);
  const end = at + 1 + below(pick(below, [1, 4, 60]));
  switch (below(5)) {
    case 0:
      return text.slice(0, at) + text.slice(end);
    case 1:
      return text.slice(0, at) + text.slice(at, end) + text.slice(at);
    case 2:
      return (
        text.slice(0, at) +
        (alphabet[below(alphabet.length)] ?? "") +
        text.slice(at)
      );
    case 3:
      return (
        text.slice(0, at) + String.fromCharCode(below(256)) + text.slice(at + 1)
      );
    default:
      return (
        text.slice(0, at) +
        String.fromCharCode((text.charCodeAt(at) || 0) ^ (1 << below(8))) +
        text.slice(at + 1)
      );
  }
}

const garbage = [
  "garbage\r\n\r\n",
  "\0\0\0\0",
  "\r\n\r\n",
  "GET",
  "\x16\x03\x01\x02\0\x01",
  "\n",
  "POST /plants HTTP/1.1\r\nHost: a\r\n",
  "\r"
] as const;

export function fuzzCase(seed: number): FuzzCase {
  const below = seeded(Math.imul(seed, 0x9e3779b1));
  let text = "";
  for (let index = 0, count = 1 + below(4); index < count; index++) {
    const mutations = pick(below, [0, 0, 0, 1, 1, 1, 2]);
    let request = requestText(below, seed, index, mutations);
    if (below(8) === 0) request = mangled(below, request);
    if (below(40) === 0) text += "\r\n";
    text += request;
  }
  if (below(12) === 0) text += pick(below, garbage);
  if (below(12) === 0) text = text.slice(0, below(text.length));
  const cuts = Array.from({ length: pick(below, [0, 0, 1, 2, 6]) }, () =>
    below(text.length + 1)
  );
  const edges = [0, ...cuts.sort((a, b) => a - b), text.length];
  const parts = edges
    .slice(1)
    .map((edge, index) => text.slice(edges[index], edge))
    .filter(Boolean);
  const ending = below(5) < 3 ? "half-close" : "patient";
  return { text, parts, ending: below(25) === 0 ? "abort" : ending };
}
