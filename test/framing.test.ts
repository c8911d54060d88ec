/** Strict where node:http is lenient: hostile bytes on raw sockets; and clients of good will. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { request as httpRequest } from "node:http";
import { connect } from "node:net";
import { join } from "node:path";
import { after, test } from "node:test";
import { promisify } from "node:util";
import {
  assertError, cleanEnvironment, exchange, post, readAnswers, start, temporaryFolder, token,
} from "./support.ts";
import type { RawAnswer } from "./support.ts";

const { PLANT_TEST_NODE: node = process.execPath } = process.env;
const timeout = 30_000;

/** A server with a journal that can be counted. */
async function open(env: Readonly<Record<string, string>> = {}) {
  const cwd = temporaryFolder();
  const server = await start({ node, cwd, env });
  after(() => server.end());
  const names = (): readonly string[] =>
    readFileSync(join(cwd, "plants.ndjson"), "utf8").split("\n").slice(1, -1)
      .map((line) => /"name":"([^"]*)"/.exec(line)?.[1] ?? "");
  return { port: server.port, url: server.url, names };
}
const server = await open();
const lenient = await open({ NODE_OPTIONS: "--insecure-http-parser" });

const plant = (name: string): string => `{"id":1,"name":"${name}"}`;
const evil = plant("evil");
const smuggled = post(plant("smuggled"), "Connection: close\r\n");
const chunk = (text: string): string => `${text.length.toString(16)}\r\n${text}\r\n`;
const chunks = (text: string): string => `${chunk(text)}0\r\n\r\n`;
const line = "POST /plants HTTP/1.1";
const host = "Host: localhost\r\n";
const good = `Authorization: Bearer ${token}\r\nContent-Type: application/json\r\n`;
const length = `Content-Length: ${evil.length}\r\n`;
const coding = "Transfer-Encoding: chunked\r\n";

/** A good request whose framing fields, or whose body, are the case. */
const framed = (fields: string, body = evil): string =>
  `${line}\r\n${host}${good}${fields}\r\n${body}`;
/** A chunked request with another transfer coding. */
const coded = (value: string): string => framed(`Transfer-Encoding: ${value}\r\n`, chunks(evil));
/** A good request with more fields. */
const withFields = (fields: string): string => framed(`${length}${fields}`);
/** A good request with another Host; whole lines. */
const hosted = (fields: string): string => `${line}\r\n${fields}${good}${length}\r\n${evil}`;
/** A good request with another request line. */
const lined = (first: string): string => `${first}\r\n${host}${good}${length}\r\n${evil}`;
/** A good chunked request whose body is the case. */
const chunked = (body: string): string => framed(coding, body);

const statusOf = (answers: readonly RawAnswer[]): string =>
  answers.map(({ status }) => status).join();

/** Clause, what, bytes, statuses. Each is answered so, once, then closed; no plant is stored. */
type Case = readonly [string, string, string, readonly number[]];
const refused: readonly Case[] = [
  ["RFC 9112, 6.1", "gzip, chunked", coded("gzip, chunked"), [501]],
  ["RFC 9112, 6.1", "two lines", coded("gzip\r\nTransfer-Encoding: chunked"), [501]],
  ["RFC 9112, 6.1", "broken body", framed("Transfer-Encoding: gzip, chunked\r\n"), [400, 501]],
  ["RFC 9112, 6.1", "identity", framed("Transfer-Encoding: identity\r\n"), [400, 501]],
  ["RFC 9112, 6.1", "gzip", framed("Transfer-Encoding: gzip\r\n"), [400, 501]],
  ["RFC 9112, 6.1", "unknown", coded("xchunked"), [400, 501]],
  ["RFC 9112, 6.1", "suffix", coded("chunkedx"), [400, 501]],
  ["RFC 9112, 6.1", "not last", coded("chunked, gzip"), [400, 501]],
  ["RFC 9112, 6.1", "twice", coded("chunked, chunked"), [400, 501]],
  ["RFC 9112, 6.1", "twice, two lines", framed(`${coding}${coding}`, chunks(evil)), [400, 501]],
  ["RFC 9112, 6.1", "parameter", coded("chunked;a=b"), [400, 501]],
  ["RFC 9112, 6.1", "quoted", coded('"chunked"'), [400, 501]],
  ["RFC 9112, 6.1", "VT", coded("\x0bchunked"), [400, 501]],
  ["RFC 9112, 6.1", "NBSP", coded("chunked\xa0"), [400, 501]],
  ["RFC 9112, 6.1", "empty", framed(`Transfer-Encoding:\r\n${length}`), [400, 501]],
  ["RFC 9112, 6.1", "with a length", framed(`${length}${coding}`, chunks(evil)), [400]],
  ["RFC 9112, 6.1", "before a length", framed(`${coding}${length}`, chunks(evil)), [400]],
  ["RFC 9112, 6.1", "and a length", withFields("Transfer-Encoding: identity\r\n"), [400, 501]],
  ["RFC 9112, 6.1", "in HTTP/1.0",
    `POST /plants HTTP/1.0\r\n${host}${good}${coding}\r\n${chunks(evil)}`, [400]],
  ["RFC 9112, 6.1", "in HTTP/1.0, kept alive",
    `POST /plants HTTP/1.0\r\nConnection: keep-alive\r\n${good}${coding}\r\n${chunks(evil)}`,
    [400]],
  ["RFC 9110, 8.6", "length twice, same", framed(`${length}${length}`), [400]],
  ["RFC 9110, 8.6", "length twice, other", framed(`${length}Content-Length: 5\r\n`), [400]],
  ["RFC 9110, 8.6", "a list", framed(`Content-Length: ${evil.length}, ${evil.length}\r\n`), [400]],
  ["RFC 9110, 8.6", "+", framed(`Content-Length: +${evil.length}\r\n`), [400]],
  ["RFC 9110, 8.6", "-", framed("Content-Length: -1\r\n"), [400]],
  ["RFC 9110, 8.6", "hexadecimal", framed("Content-Length: 0x16\r\n"), [400]],
  ["RFC 9110, 8.6", "a fraction", framed(`Content-Length: ${evil.length}.0\r\n`), [400]],
  ["RFC 9110, 8.6", "a space within", framed("Content-Length: 2 2\r\n"), [400]],
  ["RFC 9110, 8.6", "empty", framed("Content-Length:\r\n"), [400]],
  ["RFC 9110, 8.6", "over 64 bits", framed("Content-Length: 18446744073709551638\r\n"), [400, 413]],
  ["RFC 9112, 3.2", "no Host", hosted(""), [400]],
  ["RFC 9112, 3.2", "two Hosts, same", hosted(`${host}${host}`), [400]],
  ["RFC 9112, 3.2", "two Hosts, other", hosted(`${host}host: b\r\n`), [400]],
  ["B", "an empty Host", hosted("Host:\r\n"), [400]],
  ["B", "a blank Host", hosted("Host: \t \r\n"), [400]],
  ["RFC 9110, 7.2", "a space", hosted("Host: a b\r\n"), [400]],
  ["RFC 9110, 7.2", "a path", hosted("Host: a/b\r\n"), [400]],
  ["RFC 9110, 7.2", "userinfo", hosted("Host: u@a\r\n"), [400]],
  ["RFC 9110, 7.2", "no port", hosted("Host: a:x\r\n"), [400]],
  ["RFC 9110, 7.2", "two ports", hosted("Host: a:1:2\r\n"), [400]],
  ["RFC 9110, 7.2", "open bracket", hosted("Host: [::1\r\n"), [400]],
  ["RFC 9112, 3.2.2", "absolute form and no Host",
    `POST http://localhost/plants HTTP/1.1\r\n${good}${length}\r\n${evil}`, [400]],
  ["RFC 9112, 3.2", "HTTP/1.0, two Hosts",
    `POST /plants HTTP/1.0\r\n${host}${host}${good}${length}\r\n${evil}`, [400]],
  ["RFC 9112, 2.3", "HTTP/2.0", lined("POST /plants HTTP/2.0"), [505]],
  ["RFC 9112, 2.3", "HTTP/3.0", lined("POST /plants HTTP/3.0"), [400, 505]],
  ["RFC 9112, 2.3", "HTTP/0.9", lined("POST /plants HTTP/0.9"), [505]],
  ["RFC 9112, 2.3", "HTTP/1.2", lined("POST /plants HTTP/1.2"), [505]],
  ["RFC 9112, 2.3", "HTTP/1.10", lined("POST /plants HTTP/1.10"), [400, 505]],
  ["RFC 9112, 2.3", "HTTP/1", lined("POST /plants HTTP/1"), [400, 505]],
  ["RFC 9112, 2.3", "http/1.1", lined("POST /plants http/1.1"), [400, 505]],
  ["RFC 9112, 2.3", "ICE/1.0", lined("SOURCE /plants ICE/1.0"), [400, 405, 505]],
  ["HTTP/0.9", "and fields", lined("POST /plants"), [400, 505]],
  ["HTTP/0.9", "alone", "GET /plants\r\n", [400, 505]],
  ["RFC 9113, 3.4", "the preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", [400, 505]],
  ["RFC 9112, 3", "a tab", lined("POST\t/plants HTTP/1.1"), [400]],
  ["RFC 9112, 3", "space at its end", lined("POST /plants HTTP/1.1 "), [400, 505]],
  ["RFC 9112, 3", "a word more", lined("POST /plants HTTP/1.1 x"), [400, 505]],
  ["RFC 9112, 3", "space first", lined(" POST /plants HTTP/1.1"), [400]],
  ["RFC 9112, 3", "an unknown method", lined("PLANT /plants HTTP/1.1"), [400]],
  ["RFC 9112, 3.2", "a fragment", lined("POST /plants#a HTTP/1.1"), [400]],
  ["RFC 9110, 4.2.4", "userinfo", lined("POST http://u@localhost/plants HTTP/1.1"), [400]],
  ["RFC 9112, 3.2", "NUL", lined("POST /plants\0 HTTP/1.1"), [400]],
  ["RFC 9112, 2.2", "a bare CR", lined("POST /plants HTTP/1.1\rX: y"), [400, 505]],
  ["RFC 8446", "TLS", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", [400]],
  ["RFC 9112, 5.1", "space before colon", withFields("X : y\r\n"), [400]],
  ["RFC 9112, 5.1", "coding", framed("Transfer-Encoding : chunked\r\n", chunks(evil)), [400]],
  ["RFC 9112, 5.2", "obs-fold", withFields("X: y\r\n z\r\n"), [400]],
  ["RFC 9112, 5.2", "obs-fold, token",
    framed(length).replace("Bearer ", "Bearer\r\n "), [400]],
  ["RFC 9112, 2.2", "space before fields", hosted(` X: y\r\n${host}`), [400]],
  ["RFC 9112, 2.2", "a bare LF", withFields("X: y\n"), [400]],
  ["RFC 9112, 2.2", "a hidden coding", withFields("X: y\nTransfer-Encoding: chunked\r\n"), [400]],
  ["RFC 9112, 2.2", "LF alone", withFields("").replaceAll("\r\n", "\n"), [400, 505]],
  ["RFC 9112, 2.2", "LF ends the head", framed(length).replace("\r\n\r\n", "\r\n\n"), [400]],
  ["RFC 9110, 5.5", "a bare CR", withFields("X: y\rz: a\r\n"), [400]],
  ["RFC 9110, 5.5", "NUL", withFields("X: a\0b\r\n"), [400]],
  ["RFC 9110, 5.1", "NUL in a name", withFields("X\0: b\r\n"), [400]],
  ["RFC 9110, 5.1", "a space in a name", withFields("X Y: b\r\n"), [400]],
  ["RFC 9110, 5.1", "no token", withFields("X(Y): b\r\n"), [400]],
  ["RFC 9110, 5.1", "no name", withFields(": b\r\n"), [400]],
  ["RFC 9112, 5", "no colon", withFields("X\r\n"), [400]],
  ["RFC 6750, 3.1", "Authorization twice", withFields("authorization: Bearer x\r\n"), [400]],
  ["RFC 9110, 5.3", "Content-Type twice", withFields("Content-Type: text/plain\r\n"), [400]],
  ["RFC 9110, 5.3", "the same", withFields("content-type: application/json\r\n"), [400]],
  ["B, Limits", "over 16 KiB", withFields(`X: ${"x".repeat(16_384)}\r\n`), [431]],
  ["B, Limits", "over 16 KiB, a name", withFields(`${"x".repeat(16_384)}: x\r\n`), [431]],
  ["B, Limits", "over 16 KiB, the target", lined(`POST /${"x".repeat(16_384)} HTTP/1.1`), [431]],
  ["B, Limits", "over 16 KiB, behind", withFields(`X: y${" ".repeat(16_384)}\r\n`), [431]],
  ["B, Limits", "over 16 KiB, no end", `${line}\r\nX: ${"x".repeat(40_000)}`, [431]],
  ["B, Limits", "101 fields", hosted(`${host}${"a:\r\n".repeat(97)}`), [431]],
  ["B, Limits", "1500 fields", hosted(`${host}${"a:\r\n".repeat(1_500)}`), [431]],
  ["B, Limits", "1500 fields, then a coding",
    `${line}\r\n${host}${good}${"a:\r\n".repeat(1_500)}${coding}\r\n${chunks(evil)}`, [431]],
  ["RFC 9112, 7.1", "no size", chunked(`x\r\n${evil}\r\n0\r\n\r\n`), [400]],
  ["RFC 9112, 7.1", "an empty size", chunked(`\r\n${evil}\r\n0\r\n\r\n`), [400]],
  ["RFC 9112, 7.1", "-", chunked(`-1\r\n${evil}\r\n0\r\n\r\n`), [400]],
  ["RFC 9112, 7.1", "+", chunked(`+${chunks(evil)}`), [400]],
  ["RFC 9112, 7.1", "0x", chunked(`0x${chunks(evil)}`), [400]],
  ["RFC 9112, 7.1", "a space first", chunked(` ${chunks(evil)}`), [400]],
  ["RFC 9112, 7.1", "over 64 bits", chunked(`10000000000000016\r\n${evil}\r\n`), [400, 413]],
  ["RFC 9112, 7.1", "no CRLF behind", chunked(`5\r\n${evil}\r\n0\r\n\r\n`), [400]],
  ["RFC 9112, 7.1", "LF behind the size", chunked(chunks(evil).replace("\r\n", "\n")), [400]],
  ["RFC 9112, 7.1", "LF behind the data", chunked(`16\r\n${evil}\n0\r\n\r\n`), [400]],
  ["RFC 9112, 7.1", "a bare CR", chunked(`16\rx${evil}\r\n0\r\n\r\n`), [400]],
  ["RFC 9112, 7.1", "LF ends it", chunked(`${chunk(evil)}0\r\n\n`), [400]],
  ["RFC 9112, 7.1.1", "NUL", chunked(`16;a=\0\r\n${evil}\r\n0\r\n\r\n`), [400]],
  ["RFC 9112, 7.1.1", "LF", chunked(`16;a=b\n${evil}\r\n0\r\n\r\n`), [400]],
  ["RFC 9112, 7.1.1", "32 KiB", chunked(`16;a=${"x".repeat(32_768)}\r\n${evil}\r\n`), [400, 413]],
  ["RFC 9112, 7.1.2", "no field", chunked(`${chunk(evil)}0\r\nx\r\n\r\n`), [400]],
  ["RFC 9112, 7.1.2", "32 KiB", chunked(`${chunk(evil)}0\r\nX: ${"x".repeat(32_768)}\r\n`), [431]],
];

for (const [label, { port, names }] of [["", server], [", lenient Node", lenient]] as const) {
  test(`each hostile message is refused once, closed, and stores nothing${label}`, { timeout },
    async (t) => {
      for (const [clause, what, bytes, statuses] of refused) {
        await t.test(`${clause}: ${what}`, async () => {
          const before = names().length;
          const behind = Buffer.concat([Buffer.from(bytes, "latin1"), smuggled]);
          const halves = [bytes.slice(0, -9), bytes.slice(-9)];
          // In one segment, and in three; what waits for more bytes gets them from behind it.
          for (const parts of [[behind], [...halves, smuggled]]) {
            const [answer, ...more] = await exchange(port, parts);
            assertError(answer, statuses);
            assert.equal(answer?.headers["connection"], "close");
            assert.equal(statusOf(more), "");
            assert.deepEqual(names().slice(before), []);
          }
        });
      }
      assert.equal(statusOf(await exchange(port, post(plant("good")), { answers: 1 })), "200");
    });
}

test("what is strange but allowed is served, whole and byte by byte", { timeout }, async (t) => {
  const expect = "Expect: 100-continue\r\n";
  const accepted: readonly (readonly [string, string, string])[] = [
    ["RFC 9112, 7: any case", framed("transfer-encoding: CHUNKED\r\n", chunks(evil)), "200"],
    ["RFC 9110, 5.5: OWS", framed(`Content-Length:\t ${evil.length}  \r\n`), "200"],
    ["RFC 9112, 7.1: many chunks", chunked(`${[...evil].map(chunk).join("")}000\r\n\r\n`), "200"],
    ["RFC 9112, 7.1: zeros", chunked(`000${chunks(evil)}`), "200"],
    ["RFC 9112, 7.1.1: extensions", chunked(`16;a;b=c;d="e"\r\n${evil}\r\n0;z=1\r\n\r\n`), "200"],
    ["RFC 9112, 7.1.2: trailers", chunked(`${chunk(evil)}0\r\nX: y\r\nHost: b\r\n\r\n`), "200"],
    ["RFC 9110, 6.5.1: framing trailers", chunked(`${chunk(evil)}0\r\nDate: x\r\n\r\n`), "200"],
    ["RFC 9112, 2.2: an empty line first", `\r\n${framed(length)}`, "200"],
    ["B: HTTP/1.0 without Host", `POST /plants HTTP/1.0\r\n${good}${length}\r\n${evil}`, "200"],
    ["RFC 9112, 3.2.2", lined("POST http://elsewhere:1/plants?a HTTP/1.1"), "200"],
    ["RFC 9110, 7.2: a port", hosted("HOST: [::1]:8080\r\n"), "200"],
    ["RFC 9110, 10.1.1: in HTTP/1.0 no 100",
      `POST /plants HTTP/1.0\r\n${good}${expect}${length}\r\n${evil}`, "200"],
    ["RFC 9110, 7.8: Upgrade", withFields("Connection: upgrade\r\nUpgrade: websocket\r\n"), "200"],
    ["RFC 9110, 7.8: h2c", withFields("Connection: Upgrade\r\nUpgrade: h2c\r\n"), "200"],
    ["B: 100 fields", hosted(`${host}${"a:\r\n".repeat(96)}`), "200"],
    ["RFC 9110, 5.1: unknown fields", withFields("__proto__: x\r\nconstructor: y\r\n"), "200"],
    ["RFC 9110, 10.1.1: any case", withFields("Expect: 100-Continue\r\n"), "100,200"],
    ["RFC 9110, 10.1.1: other", withFields("Expect: 200-ok\r\n"), "417"],
    ["RFC 9110, 10.1.1: and other", withFields("Expect: 100-continue, x=y\r\n"), "417"],
    ["RFC 9110, 10.1.1: two lines", withFields(`${expect}Expect: x\r\n`), "417"],
    ["B: a trailer authenticates nobody", `${line}\r\n${host}Content-Type: application/json\r\n`
      + `${coding}\r\n${chunk(evil)}0\r\nAuthorization: Bearer ${token}\r\n\r\n`, "401"],
    // What node's parser keeps from us, as the README's limitations say.
    ["README: RTSP/1.0 is seen as HTTP/1.0", lined("POST /plants RTSP/1.0"), "200"],
    ["README: space before a value is not counted",
      withFields(`X:${" ".repeat(16_384)}y\r\n`), "200"],
    ["RFC 9112, 6.3: no length, no body", `${line}\r\n${host}${good}\r\n`, "400"],
    ["RFC 9112, 6.3: an empty chunked body", chunked("0\r\n\r\n"), "400"],
  ];
  for (const [clause, bytes, statuses] of accepted) {
    await t.test(clause, async () => {
      for (const parts of [[bytes], [...bytes]]) {
        const before = server.names().length;
        const answers = await exchange(server.port, parts, { answers: statuses.split(",").length });
        // The body may be there before 100 Continue could be sent (RFC 9110, 10.1.1).
        const seen = statusOf(answers.filter(({ status }) => status !== 100));
        assert.equal(seen, statuses.replace("100,", ""), answers.at(-1)?.body);
        assert.equal(answers.some(({ status }) => status === 100), statuses.startsWith("100"));
        assert.equal(server.names().length - before, statuses.endsWith("200") ? 1 : 0);
        if (!statuses.endsWith("200")) assertError(answers.at(-1), [Number(statuses)]);
      }
    });
  }
});

const [a, b, partial] = [post(plant("a")), post(plant("b")), post(plant("partial"))];
const bye = post(plant("bye"), "Connection: close\r\n");
const garbage = Buffer.from("garbage\r\n\r\n");
const connecting = Buffer.from(`CONNECT a:1 HTTP/1.1\r\n${host}${good}\r\n`);
/** Statuses of all answers, a comma between; then closed. Names: what was stored, in order. */
const sequences: readonly (readonly [
  string, readonly (string | Buffer)[], RegExp, readonly string[], halfClose?: true,
])[] = [
  ["B: pipelined, in order", [Buffer.concat([a, b, a, bye])], /^200,200,200,200$/,
    ["a", "b", "a", "bye"]],
  ["B: errors among them", [Buffer.concat([a, post("{"), b, post("{}"), bye])],
    /^200,400,200,400,200$/, ["a", "b", "bye"]],
  ["RFC 9112, 9.6: behind close", [Buffer.concat([bye, a])], /^200$/, ["bye"]],
  ["RFC 9112, 9.6: behind close, later", [bye, a], /^200$/, ["bye"]],
  ["RFC 9112, 9.3: behind 1.0", [framed(length).replace("/1.1", "/1.0"), a], /^200$/, ["evil"]],
  ["B: behind a refusal", [Buffer.concat([a, Buffer.from(hosted("")), b])], /^200,400$/, ["a"]],
  ["B: behind CONNECT", [Buffer.concat([a, connecting, b])], /^200,405$/, ["a"]],
  ["B: garbage behind, at once", [Buffer.concat([a, garbage])], /^200,400$/, ["a"]],
  ["B: garbage behind, later", [a, "\0\0\0\0"], /^200,400$/, ["a"]],
  ["B: garbage behind two", [Buffer.concat([a, b, garbage])], /^200,200,400$/, ["a", "b"]],
  ["B: garbage behind close", [Buffer.concat([bye, garbage])], /^200$/, ["bye"]],
  ["B: half-close behind a whole request", [a], /^200$/, ["a"], true],
  ["B: half-close behind two", [Buffer.concat([a, b])], /^200,200$/, ["a", "b"], true],
  ["B: half-close behind a chunked one", [chunked(chunks(evil))], /^200$/, ["evil"], true],
  ["RFC 9112, 8: half-close in a body", [partial.subarray(0, -1)], /^400$/, [], true],
  ["RFC 9112, 8: half-close in a chunk", [chunked(chunk(evil))], /^400$/, [], true],
  ["RFC 9112, 8: half-close in a head", [partial.subarray(0, 40)], /^400$/, [], true],
  ["RFC 9112, 8: half-close in the second", [Buffer.concat([a, partial.subarray(0, -1)])],
    /^200,400$/, ["a"], true],
  ["RFC 9112, 8: half-close, no byte", [], /^$/, [], true],
];
test("each connection gets its answers in order, and stores no more than they say", { timeout },
  async (t) => {
    for (const [clause, parts, statuses, names, halfClose = false] of sequences) {
      await t.test(clause, async () => {
        const before = server.names().length;
        const answers = await exchange(server.port, parts, { halfClose });
        assert.match(statusOf(answers), statuses);
        for (const answer of answers) {
          if (answer.status >= 400) assertError(answer, [answer.status]);
        }
        assert.deepEqual(server.names().slice(before), names);
      });
    }
    assert.equal(statusOf(await exchange(server.port, a, { answers: 1 })), "200");
  });

const size = 8 * 1_048_576;
const upload = (head: string): string => `${head}${host}Content-Length: ${size}\r\n`;
const early: readonly (readonly [number, string])[] = [
  [400, `${line}\r\nHost:\r\n${good}Content-Length: ${size}\r\n`],
  [401, upload(`${line}\r\n`)], [404, upload(`POST /nothing HTTP/1.1\r\n${good}`)],
  [405, upload(`PUT /plants HTTP/1.1\r\n${good}`)], [413, upload(`${line}\r\n${good}`)],
  [413, `${line}\r\n${host}${good}${coding}`],
  [415, upload(`${line}\r\nAuthorization: Bearer ${token}\r\nContent-Type: text/plain\r\n`)],
  [417, upload(`${line}\r\n${good}Expect: 200-ok\r\n`)],
  [405, upload(`CONNECT a:1 HTTP/1.1\r\n${good}`)],
  [431, upload(`${line}\r\n${"a:\r\n".repeat(101)}`)], [400, upload("garbage\r\n")],
  [501, `${line}\r\n${host}${good}Transfer-Encoding: gzip, chunked\r\n`],
];
test("an early answer is seen by who writes 8 MB before reading", { timeout }, async (t) => {
  for (const [status, head] of early) {
    await t.test(`B: ${status} to ${head.slice(0, 24).trim()}`, async () => {
      const socket = connect({ port: server.port, host: "127.0.0.1", allowHalfOpen: true });
      await once(socket, "connect");
      const body = head.includes("chunked") ? chunks(" ".repeat(size)) : " ".repeat(size);
      const answers = readAnswers(socket.pause(), 1);
      socket.write(`${head}\r\n${body}`, () => socket.resume());
      const [answer] = await answers;
      assertError(answer, [status]);
      socket.destroy();
    });
  }
});

test("an early answer is seen although the body behind it is broken", { timeout }, async () => {
  for (const [status, head] of [
    [401, `${line}\r\n${host}`], [404, `POST /nothing HTTP/1.1\r\n${host}${good}`],
    [415, `${line}\r\n${host}Authorization: Bearer ${token}\r\n`],
  ] as const) {
    for (const body of ["x\r\n", `${chunk(evil)}x\r\n`, `x${" ".repeat(size)}`]) {
      const [answer, ...more] = await exchange(server.port, `${head}${coding}\r\n${body}`);
      assertError(answer, [status]);
      assert.equal(statusOf(more), "");
    }
  }
});

test("curl stores a plant, and sees an early answer to 8 MB", { timeout }, async () => {
  const file = join(temporaryFolder(), "large");
  writeFileSync(file, " ".repeat(size));
  const curl = async (...args: readonly string[]): Promise<string> => (await promisify(execFile)(
    "curl", ["-sS", "-w", "%{http_code}", "-H", "Content-Type: application/json", ...args],
    { env: cleanEnvironment() },
  )).stdout.slice(-3);
  const known = ["-H", `Authorization: Bearer ${token}`];
  const url = `${server.url}/plants`;
  for (const version of ["--http1.1", "--http1.0", "--http2"]) {
    const before = server.names().length;
    assert.equal(await curl(version, ...known, "-d", plant("curl"), url), "200");
    assert.deepEqual(server.names().slice(before), ["curl"]);
  }
  for (const more of [[], ["-H", "Expect:"], ["-H", "Transfer-Encoding: chunked"]]) {
    assert.equal(await curl(...known, ...more, "--data-binary", `@${file}`, url), "413");
    assert.equal(await curl(...more, "--data-binary", `@${file}`, url), "401");
    assert.equal(await curl(...known, ...more, "--data-binary", `@${file}`, server.url), "404");
  }
});

test("fetch and node:http store a plant, and see early answers to 8 MB", { timeout }, async () => {
  const url = `${server.url}/plants`;
  const send = (body: string, authorization: string): Promise<number | undefined> =>
    new Promise((resolve, reject) => {
      const headers = { authorization, "content-type": "application/json" };
      httpRequest(url, { method: "POST", headers }, (response) => {
        response.resume().once("end", () => resolve(response.statusCode));
      }).on("error", reject).end(body);
    });
  const get = async (body: string, authorization: string): Promise<number> => {
    const headers = { authorization, "content-type": "application/json" };
    const answer = await fetch(url, { method: "POST", headers, body });
    await answer.arrayBuffer();
    return answer.status;
  };
  for (const client of [send, get]) {
    for (const body of [plant("client"), " ".repeat(size)]) {
      const before = server.names().length;
      const isLarge = body.length === size;
      assert.equal(await client(body, `Bearer ${token}`), isLarge ? 413 : 200);
      assert.equal(await client(body, "Bearer x"), 401);
      assert.deepEqual(server.names().slice(before), isLarge ? [] : ["client"]);
    }
  }
});
