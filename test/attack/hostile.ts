/**
 * Hostile cases over raw sockets: what a row is, how its bytes are built, how it is judged. The
 * rows are in hostile-heads.ts, hostile-bodies.ts and hostile-sequences.ts.
 */
import assert from "node:assert/strict";
import { assertError, exchange, type RawAnswer } from "../support/exchange.ts";
import { seeded, token } from "../support/support.ts";

/** In a row every plant has this name. Each run of the row replaces it by one of the same length. */
const placeholder = "evil";
export const plant = (id: string | number): string =>
  `{"id":${id},"name":"${placeholder}"}`;
export const evil = plant(1);

/** The bytes of a text in UTF-8, as the parts of a row are written. */
export const utf8 = (text: string): string =>
  Buffer.from(text).toString("latin1");
export const chunk = (text: string): string =>
  `${text.length.toString(16)}\r\n${text}\r\n`;
export const chunks = (text: string): string => `${chunk(text)}0\r\n\r\n`;
export const known = `Authorization: Bearer ${token}\r\n`;
export const length = `Content-Length: ${evil.length}\r\n`;
export const chunked = "Transfer-Encoding: chunked\r\n";

/** What differs from a valid request. */
export interface RequestOptions {
  readonly method?: string;
  readonly target?: string;
  readonly version?: string;
  /** The whole request line. */
  readonly line?: string;
  /** Whole fields, each with its CRLF, in the place of the default ones. */
  readonly host?: string;
  readonly authorization?: string;
  readonly type?: string;
  readonly framing?: string;
  /** More fields, after all others. */
  readonly fields?: string;
  /** The value of Content-Length. */
  readonly length?: string | number;
  /** The value of Transfer-Encoding. */
  readonly coding?: string;
  /** The bytes after the header section. Default: the plant, in one chunk if there is a coding. */
  readonly body?: string;
}

/** A request, by default one that is stored; bytes as Latin-1. */
export function request(options: RequestOptions = {}): string {
  const {
    method = "POST",
    target = "/plants",
    version = "HTTP/1.1",
    coding
  } = options;
  const {
    body = coding === undefined ? evil : chunks(evil),
    length = body.length
  } = options;
  const {
    line = `${method} ${target} ${version}`,
    host = "Host: localhost\r\n",
    authorization = known,
    type = "Content-Type: application/json\r\n",
    fields = "",
    framing = coding === undefined
      ? `Content-Length: ${length}\r\n`
      : `Transfer-Encoding: ${coding}\r\n`
  } = options;
  return `${line}\r\n${host}${authorization}${type}${framing}${fields}\r\n${body}`;
}
/** A request without a body. */
export const withoutBody = (options: RequestOptions): string =>
  request({ ...options, framing: "", body: "" });

export interface Row {
  /** The RFC's section that the row breaks or uses, or our rule in words. */
  readonly clause: string;
  readonly name: string;
  /** Written one after another, each as Latin-1. */
  readonly parts: readonly string[];
  /** The statuses or, where it matters, the errors of each response in turn: `400|50501,200`. */
  readonly expected: string;
  /** The response is the last and says so. Nothing that follows it is executed. */
  readonly closes: boolean;
  /** The ids of the plants that are stored, in order. */
  readonly ids: readonly string[];
  /** The parts are the whole connection: no valid request follows them. */
  readonly isAlone: boolean;
  readonly halfClose: boolean;
}

/** The plant of the request that follows each row. It is stored if the connection stays open. */
const followingId = "7";
export const following = request({
  body: plant(followingId),
  fields: "Connection: close\r\n"
});

/** That of a valid request before the row. */
const firstId = "6";
export const first = request({ body: plant(firstId) });

export type Case = readonly [
  clause: string,
  name: string,
  bytes: string,
  expected?: string,
  id?: string
];

/** Rows of one request each. By default it is refused, and the connection stays open. */
export const rowsOf = (
  cases: readonly Case[],
  { closes = false, isStored = false } = {}
): readonly Row[] =>
  cases.map(([clause, name, bytes, expected = "200", id = "1"]) => ({
    clause,
    name,
    parts: [bytes],
    expected,
    closes,
    isAlone: false,
    halfClose: false,
    ids: [...(isStored ? [id] : []), ...(closes ? [] : [followingId])]
  }));

/** Cases that differ in one value. Its name is the value itself, or the table's key. */
export const casesOf = (
  clause: string,
  expected: string,
  bytesOf: (value: string) => string,
  values: readonly string[] | Readonly<Record<string, string>>
): readonly Case[] =>
  Object.entries(values).map(([name, value]) => [
    clause,
    Array.isArray(values) ? value : name,
    bytesOf(value),
    expected
  ]);

/** For cases that are whole requests. */
export const asWritten = (bytes: string): string => bytes;

/** Whole connections by clause and name: all responses, and the ids of all plants that are stored. */
export type Sequences = Readonly<
  Record<
    string,
    Readonly<
      Record<
        string,
        readonly [parts: readonly string[], expected: string, ids: string]
      >
    >
  >
>;
export const sequencesOf = (
  sequences: Sequences,
  { halfClose = false } = {}
): readonly Row[] =>
  Object.entries(sequences).flatMap(([clause, cases]) =>
    Object.entries(cases).map(([name, [parts, expected, ids]]) => ({
      clause,
      name,
      parts,
      expected,
      ids: ids.split(",").filter(Boolean),
      closes: !halfClose,
      isAlone: true,
      halfClose
    }))
  );

export const titleOf = ({ clause, name }: Row): string => `${clause}: ${name}`;

/** How a row is sent; the valid request that follows it is in its last segment, or in one of its own. */
export const ways = ["whole", "in pieces", "after another request"] as const;
export type Way = (typeof ways)[number];

/** A name for a row's plants that has as many bytes as the placeholder. */
export const nameOf = (index: number, way: number): string =>
  "abcdefgh".charAt(way) +
  index.toString(36).padStart(placeholder.length - 1, "0");

const isAfter = ({ isAlone }: Row, way: Way): boolean =>
  way === "after another request" && !isAlone;

/** The plants that a row stores, and those of the requests around it. */
export const idsOf = (row: Row, way: Way): readonly string[] => [
  ...(isAfter(row, way) ? [firstId] : []),
  ...row.ids
];

/** A text with a name in the place of the row's. */
export const named = (text: string, name: string): string =>
  text.replaceAll(placeholder, name);

/**
 * Runs a row, and throws unless the responses are as it says.
 *
 * @param name of its plants, as long as the placeholder
 */
export async function runRow(
  port: number,
  row: Row,
  name: string,
  way: Way
): Promise<void> {
  const { isAlone, halfClose } = row;
  const [before, bytes, after] = [first, row.parts.join(""), following].map(
    (part) => named(part, name)
  ) as [string, string, string];
  const parts = isAlone
    ? row.parts.map((part) => named(part, name))
    : {
        "whole": [bytes + after],
        "in pieces": [...piecesOf(bytes), after],
        "after another request": [before + bytes + after]
      }[way];
  const found = await exchange(port, parts, { halfClose });
  const expected = [
    ...(isAfter(row, way) ? ["200"] : []),
    row.expected,
    ...(row.closes || isAlone ? [] : ["200"])
  ];
  assertResponses(found, expected.join());
  for (const { status, body } of found)
    if (status === 200)
      assert.equal((JSON.parse(body) as { readonly name: string }).name, name);
  if (halfClose) return;
  const closing = found.map(({ headers }) => headers["connection"] === "close");
  assert.equal(
    closing.indexOf(true),
    found.length - 1,
    "the last response, and no other, closes"
  );
}

/** Two cuts that the bytes decide, and one before the last nine. */
function piecesOf(bytes: string): readonly string[] {
  const below = seeded(bytes.length);
  const end = Math.max(0, bytes.length - 9);
  const cuts = [below(bytes.length), below(bytes.length), end];
  const edges = [0, ...cuts.sort((a, b) => a - b), bytes.length];
  return edges
    .slice(1)
    .map((edge, index) => bytes.slice(edges[index], edge))
    .filter(Boolean);
}

/** Throws unless each response is one of those that are expected in its place, as in a row. */
export function assertResponses(
  found: readonly RawAnswer[],
  expected: string
): void {
  const lists = expected.split(",").filter(Boolean);
  const seen = found.map(checkResponse);
  const isExpected =
    seen.length === lists.length &&
    seen.every((numbers, index) =>
      lists[index]?.split("|").some((each) => numbers.includes(Number(each)))
    );
  assert.ok(
    isExpected,
    `${seen.join(" then ")} instead of ${expected}: ${found.at(-1)?.body}`
  );
}

/** Checks what holds for every response; returns its status and the number of its error. */
export function checkResponse(response: RawAnswer): readonly number[] {
  const { status, headers, body } = response;
  if (status >= 400) return [status, assertError(response, [status]).error];
  if (status === 100) return [status];
  assert.equal(status, 200, body);
  assert.equal(headers["content-type"], "application/json");
  assert.equal(headers["content-length"], String(Buffer.byteLength(body)));
  assert.match(headers["date"] ?? "", / GMT$/);
  assert.match(body, /^\{"name":".*\}\n$/);
  return [status];
}
