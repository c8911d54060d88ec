/** Hostile orders: pipelined requests, what stands behind them, half-closes. */
import {
  bare, chunk, chunked, chunks, evil, framed, good, host, hosted, length, line, lined, plant, sent,
  sequences, targeted, type Row, type Sequence,
} from "./hostile.ts";

const [a, b] = [sent(plant(1)), sent(plant(2))];
const bye = sent(plant(9), "Connection: close\r\n");
const garbage = "garbage\r\n\r\n";
const connecting = bare("CONNECT a:1 HTTP/1.1");
const twoHosts = hosted(`${host}${host}`);
const anonymous = `${line}\r\n${host}${length}\r\n${evil}`;
const upgraded = sent(plant(3), "Connection: upgrade\r\nUpgrade: websocket\r\n");
const stranger = bare(line, "Connection: upgrade\r\nUpgrade: websocket\r\n");
const outer = framed(`Content-Length: ${a.length}\r\n`, "");
const cut = a.slice(0, -1);
const elsewhere = targeted("/x");

const wholes: readonly Sequence[] = [
  ["B, Strict: in order", "four", [a + b + a + bye], "200,200,200,200", "1,2,1,9"],
  ["B, Strict: in order", "two hundred", [a.repeat(199) + bye], `${"200,".repeat(199)}200`,
    `${"1,".repeat(199)}9`],
  ["B, Strict: in order", "errors among them", [a + sent("{") + b + sent("{}") + bye],
    "200,40010,200,40014,200", "1,2,9"],
  ["B, Strict: in order", "early answers among them", [a + anonymous + elsewhere + b + bye],
    "200,40101,40401,200,200", "1,2,9"],
  ["B, Strict: in order", "chunked ones", [chunked(chunks(evil)) + b + chunked(chunks(evil)) + bye],
    "200,200,200,200", "1,2,1,9"],
  ["B, Strict: in order", "too large among them",
    [a + sent(evil.padEnd(1_048_577)) + b + bye], "200,41301,200,200", "1,2,9"],
  ["B, Strict: in order", "Expect among them",
    [a + sent(plant(2), "Expect: 100-continue\r\n") + bye], "200,100,200,200", "1,2,9"],
  ["B, Strict: in order", "cut between two", [a + b.slice(0, 30), b.slice(30) + bye],
    "200,200,200", "1,2,9"],
  ["B, Strict: in order", "cut in a body", [a + b.slice(0, -9), b.slice(-9) + bye],
    "200,200,200", "1,2,9"],
  ["B, Strict: behind close", "at once", [bye + a], "200", "9"],
  ["B, Strict: behind close", "later", [bye, a], "200", "9"],
  ["B, Strict: behind close", "CONNECT", [bye + connecting], "200", "9"],
  ["B, Strict: behind close", "garbage", [bye + garbage], "200", "9"],
  ["B, Strict: behind close", "of a refusal, CONNECT", [twoHosts + connecting], "40003", ""],
  ["B, Strict: behind close", "of a refusal, CONNECT later", [twoHosts, connecting], "40003", ""],
  ["B, Strict: behind close", "of a refusal, garbage", [twoHosts + garbage], "40003", ""],
  ["B, Strict: behind close", "of a refusal, a half", [twoHosts + cut], "40003", ""],
  ["B, Strict: behind close", "of CONNECT, CONNECT", [connecting + connecting], "40502", ""],
  ["B, Strict: behind close", "of garbage, a request", [garbage + a], "40001", ""],
  ["B, Strict: behind close", "of garbage, later", [garbage, a, b], "40001", ""],
  // The parser drops what is behind an Upgrade in its segment: the rest is no request of its own.
  ["B, Strict: behind", "an Upgrade, the body of another", [upgraded + outer, a], "200", "3"],
  ["B, Strict: behind", "an Upgrade, later", [upgraded, a], "200", "3"],
  ["B, Strict: behind", "an Upgrade, garbage", [upgraded, garbage], "200", "3"],
  ["B, Strict: behind", "an Upgrade, CONNECT", [upgraded, connecting], "200", "3"],
  // The parser obeys it where trailers are to be ignored; our answer has not said so.
  ["README, Limitations", "behind Connection: close in a trailer",
    [chunked(`${chunk(evil)}0\r\nConnection: close\r\n\r\n`), a], "200,40001", "1"],
  ["B, Strict: behind", "an Upgrade in HTTP/1.0",
    [upgraded.replace("HTTP/1.1", "HTTP/1.0") + outer, a], "200", "3"],
  ["B, Strict: behind", "an Upgrade with no token", [stranger + outer, a], "40101", ""],
  ["RFC 9112, 9.3", "behind HTTP/1.0", [framed(length).replace("/1.1", "/1.0"), a], "200", "1"],
  ["RFC 9112, 9.3", "behind RTSP/1.0", [lined("POST /plants RTSP/1.0") + a], "200", "1"],
  ["B, Strict: behind", "a refusal", [a + hosted("") + b], "200,40003", "1"],
  ["B, Strict: behind", "a broken chunk", [a + chunked(`${chunk(evil)}x\r\n`) + b], "200,40001",
    "1"],
  ["B, Strict: behind", "CONNECT", [a + connecting + b], "200,40502", "1"],
  ["B, Strict: behind", "CONNECT, no token", [a + bare("CONNECT a:1 HTTP/1.1", "") + b],
    "200,40101", "1"],
  ["B, Strict: garbage behind", "at once", [a + garbage], "200,40001", "1"],
  ["B, Strict: garbage behind", "a letter", [`${a}x`, "\r\n"], "200,40001", "1"],
  ["B, Strict: garbage behind", "later", [a, "\0\0\0\0"], "200,40001", "1"],
  ["B, Strict: garbage behind", "two", [a + b + garbage], "200,200,40001", "1,2"],
  ["B, Strict: garbage behind", "two hundred", [a.repeat(200) + garbage],
    `${"200,".repeat(200)}40001`, "1,".repeat(200)],
  ["B, Strict: garbage behind", "a refusal", [elsewhere + garbage], "40401,40001", ""],
  ["B, Strict: garbage behind", "200 and a refusal", [a + elsewhere + garbage],
    "200,40401,40001", "1"],
  ["B, Strict: garbage behind", "a chunked one", [chunked(chunks(evil)) + garbage], "200,40001",
    "1"],
  ["B, Strict: garbage behind", "a body that is too long", [`${a}}}\r\n\r\n`], "200,40001", "1"],
  ["B, Strict: garbage behind", "much", [a + "x".repeat(1_000_000)], "200,40001", "1"],
  ["B, Strict: garbage behind", "a head over the limit",
    [`${a}GET / HTTP/1.1\r\nX: ${"x".repeat(20_000)}`], "200,43101", "1"],
  ["B, Strict: garbage behind", "HTTP/2.0", [`${a}PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n`],
    "200,400|505", "1"],
];
const halves: readonly Sequence[] = [
  ["B, Strict: half-close", "behind a whole request", [a], "200", "1"],
  ["B, Strict: half-close", "behind two", [a + b], "200,200", "1,2"],
  ["B, Strict: half-close", "behind a chunked one", [chunked(chunks(evil))], "200", "1"],
  ["B, Strict: half-close", "behind a refusal", [elsewhere], "40401", ""],
  ["B, Strict: half-close", "behind a body too large", [sent(evil.padEnd(1_048_577))], "41301", ""],
  ["B, Strict: half-close", "behind garbage", [garbage], "40001", ""],
  ["B, Strict: half-close", "behind CONNECT", [connecting], "40502", ""],
  ["RFC 9112, 8", "half-close in a body", [cut], "40015", ""],
  ["RFC 9112, 8", "half-close in a chunk", [chunked(chunk(evil))], "40015", ""],
  ["RFC 9112, 8", "half-close in a chunk of 64 bits",
    [chunked(`ffffffffffffffff\r\n${evil}`)], "40015|413", ""],
  ["RFC 9112, 8", "half-close in a chunk's size", [chunked("1")], "40015", ""],
  ["RFC 9112, 8", "half-close in a trailer", [chunked(`${chunk(evil)}0\r\nX: y`)], "40015", ""],
  ["RFC 9112, 8", "half-close in a head", [a.slice(0, 40)], "40015", ""],
  ["RFC 9112, 8", "half-close in a request line", ["P"], "40015", ""],
  ["RFC 9112, 8", "half-close in a refused body", [elsewhere.slice(0, -1)], "40401", ""],
  ["RFC 9112, 8", "half-close in the second", [a + cut], "200,40015", "1"],
  ["RFC 9112, 8", "half-close before a body", [bare(line, `${good}${length}`)], "40015", ""],
  ["RFC 9112, 8", "half-close, no byte", [], "", ""],
  ["RFC 9112, 8", "half-close, an empty line", ["\r\n"], "", ""],
];
export const orders: readonly Row[] = [...sequences(wholes), ...sequences(halves, true)];
