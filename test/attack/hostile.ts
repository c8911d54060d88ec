/** Hostile cases over raw sockets: what a row is, what its bytes are made of, how it is judged.
 * The rows stand in hostile-heads.ts, hostile-bodies.ts and hostile-sequences.ts. */
import assert from "node:assert/strict";
import { assertError, exchange, token, type ExchangeOptions, type RawAnswer } from "../support/support.ts";

export interface Row {
  /** The RFC's section, or the contract's part: A is what is declared, B what is decided. */
  readonly clause: string;
  readonly name: string;
  /** Written one after another, each as Latin-1. */
  readonly parts: readonly string[];
  /** Of each answer in turn the statuses or, where it matters, the errors: `400|50501,200`. */
  readonly answers: string;
  /** The answer is the last, says so, and nothing behind it is executed. */
  readonly closes: boolean;
  /** The ids of the plants that are stored, in order. */
  readonly ids: readonly string[];
  /** The parts are the whole connection: nothing honest is sent behind them. */
  readonly isAlone: boolean;
  readonly halfClose: boolean;
}

/** In a row every plant has this name: each time it is played, another of as many letters. */
const placeholder = "evil";
export const plant = (id: string | number): string => `{"id":${id},"name":"${placeholder}"}`;
export const evil = plant(1);
/** Goes behind each row: stored exactly where the connection must stay in use. */
const behindId = "7";

/** The bytes of a text in UTF-8, as the parts of a row are written. */
export const utf8 = (text: string): string => Buffer.from(text).toString("latin1");
export const chunk = (text: string): string => `${text.length.toString(16)}\r\n${text}\r\n`;
export const chunks = (text: string): string => `${chunk(text)}0\r\n\r\n`;
export const line = "POST /plants HTTP/1.1";
export const host = "Host: localhost\r\n";
export const json = "Content-Type: application/json\r\n";
export const known = `Authorization: Bearer ${token}\r\n`;
export const good = known + json;
export const length = `Content-Length: ${evil.length}\r\n`;
export const coding = "Transfer-Encoding: chunked\r\n";

/** A good request whose framing fields, or whose body, are the case. */
export const framed = (fields: string, body = evil): string =>
  `${line}\r\n${host}${good}${fields}\r\n${body}`;
/** A chunked request with another transfer coding. */
export const coded = (value: string): string =>
  framed(`Transfer-Encoding: ${value}\r\n`, chunks(evil));
/** A good request with another length. */
export const sized = (value: string): string => framed(`Content-Length: ${value}\r\n`);
/** A good request with more fields. */
export const withFields = (fields: string): string => framed(`${length}${fields}`);
/** A good request with another Host; whole lines. */
export const hosted = (fields: string): string =>
  `${line}\r\n${fields}${good}${length}\r\n${evil}`;
/** A good request with another request line. */
export const lined = (first: string): string => `${first}\r\n${host}${good}${length}\r\n${evil}`;
export const versioned = (version: string): string => lined(`POST /plants ${version}`);
export const targeted = (target: string): string => lined(`POST ${target} HTTP/1.1`);
/** A request with no body. */
export const bare = (first: string, fields = good): string => `${first}\r\n${host}${fields}\r\n`;
/** A good chunked request whose body is the case. */
export const chunked = (body: string): string => framed(coding, body);
/** A good request with another Authorization; whole lines. */
export const authorized = (fields: string): string =>
  `${line}\r\n${host}${fields}${json}${length}\r\n${evil}`;
/** A good request with another Content-Type; whole lines. */
export const typed = (type: string): string =>
  `${line}\r\n${host}${known}Content-Type: ${type}\r\n${length}\r\n${evil}`;
/** A good request with this body, of bytes as in Latin-1. */
export const sent = (body: string, fields = ""): string =>
  framed(`${fields}Content-Length: ${body.length}\r\n`, body);

export type Case = readonly [
  clause: string, name: string, bytes: string, answers?: string, id?: string,
];
const row = ([clause, name, bytes, answers = "200"]: Case) =>
  ({ clause, name, parts: [bytes], answers, isAlone: false, halfClose: false });

/** Each is answered once, then the connection closes: nothing is stored, nothing behind is run. */
export const closing = (cases: readonly Case[]): readonly Row[] =>
  cases.map((each) => ({ ...row(each), closes: true, ids: [] }));
/** Each is refused, and the connection stays in use. */
export const keeping = (cases: readonly Case[]): readonly Row[] =>
  cases.map((each) => ({ ...row(each), closes: false, ids: [behindId] }));
/** Each is stored and answered 200; then the connection closes. */
export const ending = (cases: readonly Case[]): readonly Row[] =>
  cases.map((each) => ({ ...row(each), closes: true, ids: [each[4] ?? "1"] }));
/** Each is strange but good: its plant is stored, with this id, and the connection is in use. */
export const served = (cases: readonly Case[]): readonly Row[] =>
  cases.map((each) => ({ ...row(each), closes: false, ids: [each[4] ?? "1", behindId] }));

export type Sequence = readonly [
  clause: string, name: string, parts: readonly string[], answers: string, ids: string,
];
/** Whole connections: all answers, and the ids of all plants that are stored, in order. */
export const sequences = (
  cases: readonly Sequence[], halfClose = false,
): readonly Row[] => cases.map(([clause, name, parts, answers, ids]) => ({
  clause, name, parts, answers, ids: ids.split(",").filter(Boolean),
  closes: !halfClose, isAlone: true, halfClose,
}));

export const titleOf = ({ clause, name }: Row): string => `${clause}: ${name}`;

/** A name for a row's plants that has as many bytes as the placeholder. */
export const nameOf = (index: number, way: number): string =>
  "abcdefgh".charAt(way) + index.toString(36).padStart(placeholder.length - 1, "0");

/** Plays a row, and throws unless it is answered as it says.
 * @param name of its plants, as long as the placeholder
 * @param way 0: in one segment; 1: in three, the last bytes and what is behind on their own */
export async function play(
  port: number, row: Row, name: string, way = 0, read?: ExchangeOptions["read"],
): Promise<void> {
  const behind = sent(plant(behindId), "Connection: close\r\n");
  const [bytes = ""] = row.parts;
  const parts = row.isAlone ? row.parts
    : way === 0 ? [bytes + behind] : [bytes.slice(0, -9), bytes.slice(-9), behind];
  const found = await exchange(port, parts.map((part) => part.replaceAll(placeholder, name)),
    { halfClose: row.halfClose, read });
  const expected = row.closes || row.isAlone ? row.answers : `${row.answers},200`;
  const wanted = expected.split(",").filter(Boolean);
  const seen = found.map((answer) => judge(answer, name)).join();
  assert.equal(found.length, wanted.length, `${seen} instead of ${expected}`);
  for (const [index, { status, body }] of found.entries()) {
    const allowed = (wanted[index] ?? "").split("|");
    const isWanted = allowed.includes(String(status))
      || (status >= 400 && allowed.includes(errorOf(body)));
    assert.ok(isWanted, `${seen} instead of ${expected}: ${body}`);
  }
  if (row.halfClose) return;
  assert.equal(found.at(-1)?.headers["connection"], "close");
  const early = found.slice(0, -1).find(({ headers }) => headers["connection"] === "close");
  assert.equal(early, undefined, "it goes on behind an answer that closes");
}

const errorOf = (body: string): string => /^\{"error":(\d+)/.exec(body)?.[1] ?? body;

/** Checks what every answer keeps; its status, or its error. */
function judge(answer: RawAnswer, name: string): string {
  const { status, headers, body } = answer;
  if (status >= 400) return String(assertError(answer, [status]).error);
  if (status === 100) return "100";
  assert.equal(status, 200, body);
  assert.equal(headers["content-type"], "application/json");
  assert.equal(headers["content-length"], String(Buffer.byteLength(body)));
  assert.match(headers["date"] ?? "", / GMT$/);
  assert.equal((JSON.parse(body) as { readonly name: string }).name, name);
  return "200";
}
