/** Hostile request lines, targets, fields and limits: each closes the connection, or is served. */
import {
  authorized, bare, chunks, closing, coded, coding, ending, evil, framed, good, host, hosted, json,
  keeping, known, length, line, lined, served, sized, targeted, versioned, withFields, type Case,
  type Row,
} from "./hostile.ts";
import { token } from "../support/support.ts";

const fields = (count: number): string => "a:\r\n".repeat(count);
const long = "x".repeat(16_384);
const size = evil.length;
/** A good request with a head of this many bytes, the empty line included. */
const headed = (bytes: number): string => {
  const rest = withFields("X: \r\n").length - size;
  return withFields(`X: ${"x".repeat(bytes - rest)}\r\n`);
};

const codings: readonly Case[] = [
  ["RFC 9112, 6.1", "gzip, chunked", coded("gzip, chunked"), "50101"],
  ["RFC 9112, 6.1", "deflate, chunked", coded("deflate, chunked"), "50101"],
  ["RFC 9112, 6.1", "identity, chunked", coded("identity, chunked"), "50101"],
  ["RFC 9112, 6.1", "two lines", coded("gzip\r\nTransfer-Encoding: chunked"), "50101"],
  ["RFC 9112, 6.1", "two lines, the names' case", coded("gzip\r\ntransfer-encoding: chunked"),
    "50101"],
  ["RFC 9112, 6.1", "broken body", framed("Transfer-Encoding: gzip, chunked\r\n"), "400|501"],
  ["RFC 9112, 6.1", "identity", framed("Transfer-Encoding: identity\r\n"), "400|501"],
  ["RFC 9112, 6.1", "gzip", framed("Transfer-Encoding: gzip\r\n"), "400|501"],
  ["RFC 9112, 6.1", "unknown", coded("xchunked"), "400|501"],
  ["RFC 9112, 6.1", "suffix", coded("chunkedx"), "400|501"],
  ["RFC 9112, 6.1", "not last", coded("chunked, gzip"), "400|501"],
  ["RFC 9112, 6.1", "not last, identity", coded("chunked, identity"), "400|501"],
  ["RFC 9112, 6.1", "twice", coded("chunked, chunked"), "400|501"],
  ["RFC 9112, 6.1", "twice, two lines", framed(`${coding}${coding}`, chunks(evil)), "400|501"],
  ["RFC 9112, 6.1", "a comma first", coded(",chunked"), "400|501"],
  ["RFC 9112, 6.1", "a comma last", coded("chunked,"), "400|501"],
  ["RFC 9112, 6.1", "a comma alone", coded(","), "400|501"],
  ["RFC 9112, 6.1", "parameter", coded("chunked;a=b"), "400|501"],
  ["RFC 9112, 6.1", "quoted", coded('"chunked"'), "400|501"],
  ["RFC 9112, 6.1", "apart", coded("chun ked"), "400|501"],
  ["RFC 9112, 6.1", "VT", coded("\x0bchunked"), "400|501"],
  ["RFC 9112, 6.1", "NBSP", coded("chunked\xa0"), "400|501"],
  ["RFC 9112, 6.1", "NUL", coded("chunked\0"), "400"],
  ["RFC 9112, 6.1", "empty", framed(`Transfer-Encoding:\r\n${length}`), "400|501"],
  ["RFC 9112, 6.1", "with a length", framed(`${length}${coding}`, chunks(evil)), "40004"],
  ["RFC 9112, 6.1", "before a length", framed(`${coding}${length}`, chunks(evil)), "40004"],
  ["RFC 9112, 6.1", "with length 0", framed(`Content-Length: 0\r\n${coding}`, chunks(evil)),
    "40004"],
  ["RFC 9112, 6.1", "and a length", withFields("Transfer-Encoding: identity\r\n"), "400|501"],
  ["RFC 9112, 6.1", "in HTTP/1.0",
    `POST /plants HTTP/1.0\r\n${host}${good}${coding}\r\n${chunks(evil)}`, "40004"],
  ["RFC 9112, 6.1", "in HTTP/1.0, kept alive",
    `POST /plants HTTP/1.0\r\nConnection: keep-alive\r\n${good}${coding}\r\n${chunks(evil)}`,
    "40004"],
  ["RFC 9112, 6.1", "in HTTP/1.0, with a length",
    `POST /plants HTTP/1.0\r\n${good}${length}${coding}\r\n${chunks(evil)}`, "40004"],
  ["RFC 9112, 5.1", "space before the coding's colon",
    framed("Transfer-Encoding : chunked\r\n", chunks(evil)), "400"],
  ["RFC 9112, 5.1", "NUL in the name", framed("Transfer\0-Encoding: chunked\r\n", chunks(evil)),
    "400"],
  ["RFC 9112, 5.2", "folded", coded("\r\n chunked"), "400"],
];

const lengths: readonly Case[] = [
  ["RFC 9110, 8.6", "twice, same", framed(`${length}${length}`), "400"],
  ["RFC 9110, 8.6", "twice, other", framed(`${length}Content-Length: 5\r\n`), "400"],
  ["RFC 9110, 8.6", "twice, with a zero", framed(`${length}content-length: 0${size}\r\n`), "400"],
  ["RFC 9110, 8.6", "a list", sized(`${size}, ${size}`), "400"],
  ["RFC 9110, 8.6", "a list, no space", sized(`${size},${size}`), "400"],
  ["RFC 9110, 8.6", "a comma first", sized(`,${size}`), "400"],
  ["RFC 9110, 8.6", "a comma last", sized(`${size},`), "400"],
  ["RFC 9110, 8.6", "+", sized(`+${size}`), "400"],
  ["RFC 9110, 8.6", "-", sized("-1"), "400"],
  ["RFC 9110, 8.6", "-0", sized("-0"), "400"],
  ["RFC 9110, 8.6", "hexadecimal", sized("0x16"), "400"],
  ["RFC 9110, 8.6", "hexadecimal, bare", sized("1a"), "400"],
  ["RFC 9110, 8.6", "a fraction", sized(`${size}.0`), "400"],
  ["RFC 9110, 8.6", "a power", sized("22e0"), "400"],
  ["RFC 9110, 8.6", "a space within", sized("2 2"), "400"],
  ["RFC 9110, 8.6", "a tab within", sized("2\t2"), "400"],
  ["RFC 9110, 8.6", "a unit", sized(`${size} bytes`), "400"],
  ["RFC 9110, 8.6", "quoted", sized(`"${size}"`), "400"],
  ["RFC 9110, 8.6", "a semicolon", sized(`${size};a`), "400"],
  ["RFC 9110, 8.6", "VT", sized(`\x0b${size}`), "400"],
  ["RFC 9110, 8.6", "FF behind", sized(`${size}\x0c`), "400"],
  ["RFC 9110, 8.6", "NBSP", sized(`\xa0${size}`), "400"],
  ["RFC 9110, 8.6", "NUL", sized(`${size}\0`), "400"],
  ["RFC 9110, 8.6", "other digits", sized("\xb2\xb2"), "400"],
  ["RFC 9110, 8.6", "empty", sized(""), "400"],
  ["RFC 9110, 8.6", "over 64 bits", sized("18446744073709551638"), "400|413"],
  ["RFC 9110, 8.6", "over 128 bits", sized(`1${"0".repeat(40)}`), "400|413"],
  ["RFC 9112, 5.1", "space before the length's colon",
    framed(`Content-Length : ${size}\r\n`), "400"],
  ["RFC 9112, 5.2", "folded length", sized(`\r\n ${size}`), "400"],
  ["B, Statuses 413", "over the limit and all that is discarded", sized("16777217"), "41301"],
  ["B, Statuses 413", "15 digits", sized("9".repeat(15)), "41301"],
  ["B, Statuses 413", "16 digits", sized("9".repeat(16)), "41301"],
  ["B, Statuses 413", "19 digits", sized("9".repeat(19)), "41301"],
  ["B, Statuses 413", "the last of 64 bits", sized("18446744073709551615"), "41301"],
];

const hosts: readonly Case[] = [
  ["RFC 9112, 3.2", "no Host", hosted(""), "40003"],
  ["RFC 9112, 3.2", "two Hosts, same", hosted(`${host}${host}`), "40003"],
  ["RFC 9112, 3.2", "two Hosts, other", hosted(`${host}host: b\r\n`), "40003"],
  ["RFC 9112, 3.2", "two Hosts, apart", withFields(host), "40003"],
  ["RFC 9112, 3.2", "two Hosts, one empty", hosted(`Host:\r\n${host}`), "40003"],
  ["B, Strict", "an empty Host", hosted("Host:\r\n"), "40003"],
  ["B, Strict", "a blank Host", hosted("Host: \t \r\n"), "40003"],
  ["B, Strict", "an empty Host in HTTP/1.0",
    `POST /plants HTTP/1.0\r\nHost:\r\n${good}${length}\r\n${evil}`, "40003"],
  ...([
    ["a space", "a b"], ["a tab", "a\tb"], ["a list with a space", "a, b"], ["a path", "a/b"],
    ["a query", "a?b"], ["a fragment", "a#b"], ["userinfo", "u@a"], ["a URI", "http://a"],
    ["no number for a port", "a:x"], ["two ports", "a:1:2"], ["a signed port", "a:+1"],
    ["no brackets", "::1"], ["open bracket", "[::1"], ["closed bracket", "::1]"],
    ["brackets, and more", "[::1]a"], ["empty brackets", "[]"], ["no address", "[a b]"],
    ["a backslash", "a\\b"], ["quotes", '"a"'], ["<", "<a>"], ["|", "a|b"], ["^", "a^b"],
    ["a byte over 7F", "\xe4"], ["DEL", "a\x7fb"], ["a port alone", ":80"],
  ] as const).map(([name, value]): Case =>
    ["RFC 9110, 7.2", `Host: ${name}`, hosted(`Host: ${value}\r\n`), "400"]),
  ["RFC 9110, 7.2", "Host: VT", hosted("Host: a\x0bb\r\n"), "400"],
  ["RFC 9112, 3.2.2", "absolute form and no Host",
    `POST http://localhost/plants HTTP/1.1\r\n${good}${length}\r\n${evil}`, "40003"],
  ["RFC 9112, 3.2", "HTTP/1.0, two Hosts",
    `POST /plants HTTP/1.0\r\n${host}${host}${good}${length}\r\n${evil}`, "40003"],
];

const lines: readonly Case[] = [
  ["B, Strict", "HTTP/2.0", versioned("HTTP/2.0"), "50501"],
  ["B, Strict", "HTTP/0.9", versioned("HTTP/0.9"), "50501"],
  ...[
    "HTTP/3.0", "HTTP/1.2", "HTTP/1.9", "HTTP/0.0", "HTTP/9.9", "HTTP/1.10", "HTTP/1.1.1",
    "HTTP/01.1", "HTTP/1.01", "HTTP/1", "HTTP/2", "HTTP/11", "HTTP/1.", "HTTP/.1", "HTTP/-1.1",
    "HTTP/1,1", "HTTP/1 .1", "HTTP /1.1", "HTTP/a.b", "HTTP", "HTTP/", "http/1.1", "Http/1.1",
    "HTP/1.1", "HTTPS/1.1", "HTTP\\1.1", "HTTP/1.1x", "HTTP/1.1\t", "HTTP/1.1 ", "HTTP/1.1 x",
  ].map((version): Case => ["RFC 9112, 2.3", version, versioned(version), "400|505"]),
  ["RFC 9112, 2.3", "ICE/1.0", lined("SOURCE /plants ICE/1.0"), "400|405|505"],
  ["B, Strict: HTTP/0.9", "and fields", lined("POST /plants"), "400|505"],
  ["B, Strict: HTTP/0.9", "alone", "GET /plants\r\n", "400|505"],
  ["B, Strict: HTTP/0.9", "alone, no path", "GET\r\n", "400|505"],
  ["RFC 9113, 3.4", "the preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "400|505"],
  ["RFC 9112, 3", "a tab", lined("POST\t/plants HTTP/1.1"), "40001"],
  ["RFC 9112, 3", "space first", lined(" POST /plants HTTP/1.1"), "40001"],
  ["RFC 9112, 3", "no space", lined("POST/plants HTTP/1.1"), "40001"],
  ["RFC 9112, 3", "no target", lined("POST HTTP/1.1"), "400|505"],
  ["RFC 9112, 3", "the words turned", lined("HTTP/1.1 POST /plants"), "40001"],
  ["RFC 9112, 3", "an answer", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "40001"],
  ["B, Statuses 405", "an unknown method", lined("PLANT /plants HTTP/1.1"), "40001"],
  ["B, Statuses 405", "a long method", lined(`${long} /plants HTTP/1.1`), "40001"],
  ["B, Statuses 405", "POST and more", lined("POSTS /plants HTTP/1.1"), "40001"],
  ["B, Statuses 405", "POST cut", lined("POS /plants HTTP/1.1"), "40001"],
  ["RFC 9110, 9.1", "post", lined("post /plants HTTP/1.1"), "40001"],
  ["RFC 9110, 9.1", "Post", lined("Post /plants HTTP/1.1"), "40001"],
  ["RFC 9110, 9.1", "NUL in POST", lined("PO\0ST /plants HTTP/1.1"), "40001"],
  ["RFC 9110, 9.1", "POST in quotes", lined('"POST" /plants HTTP/1.1'), "40001"],
  ["RFC 8446", "TLS", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", "40001"],
  ["RFC 4253", "SSH", "SSH-2.0-OpenSSH_9.6\r\n", "40001"],
  ["RFC 9112, 2.2", "a byte order mark", `\xef\xbb\xbf${framed(length)}`, "40001"],
  ["RFC 9112, 2.2", "space before fields", hosted(` X: y\r\n${host}`), "400"],
  ["RFC 9112, 2.2", "a bare CR behind the line", lined("POST /plants HTTP/1.1\rX: y"), "400|505"],
  ["RFC 9112, 2.2", "LF alone", withFields("").replaceAll("\r\n", "\n"), "400|505"],
  ["B, Statuses 405", "CONNECT", bare("CONNECT localhost:80 HTTP/1.1"), "40502"],
  ["B, Statuses 405", "CONNECT, an address", bare("CONNECT [::1]:80 HTTP/1.1"), "40502"],
  ["B, Statuses 405", "CONNECT, a body", lined("CONNECT localhost:80 HTTP/1.1"), "40502"],
  ["B, Statuses 405", "CONNECT, a coding", bare("CONNECT a:80 HTTP/1.1", good + coding), "40502"],
  ["B, Statuses 405", "CONNECT, an Upgrade", bare("CONNECT a:80 HTTP/1.1",
    `${good}Connection: upgrade\r\nUpgrade: a\r\n`), "40502"],
  ["B, Statuses 405", "CONNECT, no token", bare("CONNECT localhost:80 HTTP/1.1", ""), "40101"],
  ["B, Statuses 405", "CONNECT, another token",
    bare("CONNECT a:80 HTTP/1.1", "Authorization: Bearer x\r\n"), "40102"],
  ...["/plants", "http://localhost/plants", "localhost", "*", "localhost:", ":80", "u@a:80", "a:b"]
    .map((target): Case =>
      ["RFC 9112, 3.2.3", `CONNECT ${target}`, bare(`CONNECT ${target} HTTP/1.1`), "400"]),
];

const targets: readonly Case[] = [
  ...["/plants#", "/plants#x", "/#/plants", "#", "/plants?a#b", "http://localhost/plants#x",
    "http://localhost#", "http://localhost/?#"].map((target): Case =>
    ["B, Strict: a fragment", target, targeted(target), "400"]),
  ...["http://user@localhost/plants", "http://u:p@localhost/plants", "http://@localhost/plants"]
    .map((target): Case => ["RFC 9110, 4.2.4", target, targeted(target), "400"]),
  ...["http:///plants", "http://", "http:/plants", "http:plants", "http://[::1/plants",
    "http://a:b/plants", "http://a b/plants", "http://a\\plants", "ftp://localhost/plants",
    "ws://localhost/plants", "file:///plants", "urn:plants"].map((target): Case =>
    ["RFC 9112, 3.2.2", target, targeted(target), "400|505"]),
  ...["plants", "*", "localhost:80", "localhost/plants", "?/plants", "\\plants", ".", "./plants",
    "%2Fplants", "", "/pl ants", "/plants /x", "/pl\tants", "/plants\0", "/plants\x7f",
    "/plants\x80", "/pl\xe4nts", "/plants?\xff", "/plants?a b", "/plants?a\0"]
    .map((target): Case =>
      ["RFC 9112, 3.2", `target ${JSON.stringify(target)}`, targeted(target), "400|505"]),
];

const sections: readonly Case[] = [
  ["RFC 9112, 5.1", "space before colon", withFields("X : y\r\n"), "400"],
  ["RFC 9112, 5.1", "tab before colon", withFields("X\t: y\r\n"), "400"],
  ["RFC 9112, 5.2", "obs-fold", withFields("X: y\r\n z\r\n"), "400"],
  ["RFC 9112, 5.2", "obs-fold, a tab", withFields("X: y\r\n\tz\r\n"), "400"],
  ["RFC 9112, 5.2", "obs-fold, token", framed(length).replace("Bearer ", "Bearer\r\n "), "400"],
  ["RFC 9112, 2.2", "a bare LF", withFields("X: y\n"), "400"],
  ["RFC 9112, 2.2", "a hidden coding", withFields("X: y\nTransfer-Encoding: chunked\r\n"), "400"],
  ["RFC 9112, 2.2", "a hidden coding, CR", withFields("X: y\rTransfer-Encoding: chunked\r\n"),
    "400"],
  ["RFC 9112, 2.2", "LF ends the head", framed(length).replace("\r\n\r\n", "\r\n\n"), "400"],
  ["RFC 9112, 2.2", "CR ends the head", framed(length).replace("\r\n\r\n", "\r\n\r"), "400"],
  ["RFC 9112, 2.2", "CR CR LF", withFields("X: y\r\r\n"), "400"],
  ["RFC 9110, 5.5", "a bare CR", withFields("X: y\rz: a\r\n"), "400"],
  ...[["NUL", "\0"], ["BEL", "\x07"], ["VT", "\x0b"], ["ESC", "\x1b"], ["DEL", "\x7f"]]
    .map(([name = "", byte = ""]): Case =>
      ["RFC 9110, 5.5", `${name} in a value`, withFields(`X: a${byte}b\r\n`), "400"]),
  ...[..."\0\x07\x7f\xe4 ()<>@,;\\\"/[]?={}"].map((byte): Case =>
    ["RFC 9110, 5.1", `${JSON.stringify(byte)} in a name`, withFields(`X${byte}: b\r\n`), "400"]),
  ["RFC 9110, 5.1", "no name", withFields(": b\r\n"), "400"],
  ["RFC 9112, 5", "no colon", withFields("X\r\n"), "400"],
  ["B, Statuses 400", "Authorization twice", withFields("authorization: Bearer x\r\n"), "40007"],
  ["B, Statuses 400", "Authorization twice, the same", withFields(known), "40007"],
  ["B, Statuses 400", "Authorization twice, Basic first",
    authorized(`Authorization: Basic eA==\r\n${known}`), "40007"],
  ["B, Statuses 400", "Authorization twice, one empty", withFields("Authorization:\r\n"), "40007"],
  ["B, Strict", "Content-Type twice", withFields("Content-Type: text/plain\r\n"), "40005"],
  ["B, Strict", "Content-Type twice, the same", withFields(json.toLowerCase()), "40005"],
  ["B, Limits", "over 16 KiB, a value", withFields(`X: ${long}\r\n`), "43101"],
  ["B, Limits", "over 16 KiB, a name", withFields(`${long}: x\r\n`), "43101"],
  ["B, Limits", "over 16 KiB, the target", targeted(`/${long}`), "43101"],
  ["B, Limits", "over 16 KiB, the query", targeted(`/plants?${long}`), "43101"],
  ["B, Limits", "over 16 KiB, space behind", withFields(`X: y${" ".repeat(16_384)}\r\n`), "43101"],
  ["B, Limits", "over 16 KiB, 90 fields", withFields(`X: ${"x".repeat(190)}\r\n`.repeat(90)),
    "43101"],
  ["B, Limits", "16 KiB and a byte", headed(16_385), "43101"],
  ["B, Limits", "over 16 KiB, no end", `${line}\r\nX: ${"x".repeat(40_000)}`, "43101"],
  ["B, Limits", "101 fields", hosted(`${host}${fields(97)}`), "43102"],
  ["B, Limits", "1500 fields", hosted(`${host}${fields(1_500)}`), "431"],
  ["B, Strict: Node 20 loses fields", "1500 fields, then a coding",
    `${line}\r\n${host}${good}${fields(1_500)}${coding}\r\n${chunks(evil)}`, "431"],
  ["B, Strict: Node 20 loses fields", "2100 fields, then a length",
    `${line}\r\n${host}${good}${fields(2_100)}${length}\r\n${evil}`, "431"],
];

const strange: readonly Case[] = [
  ["RFC 9112, 6.1: any case", "CHUNKED", framed("transfer-encoding: CHUNKED\r\n", chunks(evil))],
  ["RFC 9112, 5: OWS", "around the coding", coded("\t chunked  ")],
  ["RFC 9112, 5: OWS", "around the length", framed(`Content-Length:\t ${size}  \r\n`)],
  ["RFC 9112, 5: OWS", "none", `${line}\r\nHost:a\r\n${good}Content-Length:${size}\r\n\r\n${evil}`],
  ["RFC 9110, 8.6", "a zero first", sized(`0${size}`)],
  ["RFC 9110, 8.6", "5000 zeros first", sized(`${"0".repeat(5_000)}${size}`)],
  ["RFC 9112, 2.2", "an empty line first", `\r\n${framed(length)}`],
  ["RFC 9112, 2.2", "three empty lines first", `\r\n\r\n\r\n${framed(length)}`],
  ["RFC 9112, 3.2.2", "absolute form", targeted("http://elsewhere:1/plants?a")],
  ["RFC 9112, 3.2.2", "absolute form, https", targeted("https://localhost/plants")],
  ["RFC 9112, 3.2.2", "absolute form, any case", targeted("HTTP://LOCALHOST/plants?x")],
  ["RFC 9112, 3.2.2", "absolute form, an address", targeted("http://[::1]:80/plants")],
  ...["?", "?a=b", "?/a?b/../c", "?access_token=x", "?%00"].map((query): Case =>
    ["B, Statuses 404: a query", query, targeted(`/plants${query}`)]),
  ...["[::1]:8080", "[::1]", "[v1.a:b]", "127.0.0.1:1", "a:", "a_b.example", "%41", "a,b", "A.B"]
    .map((value): Case => ["RFC 9110, 7.2", value, hosted(`HOST: ${value}\r\n`)]),
  ["RFC 9110, 5.1", "unknown fields", withFields("__proto__: x\r\nconstructor: y\r\n")],
  ["RFC 9110, 5.1", "all of a token", withFields("!#$%&'*+-.^_`|~09aZ: y\r\n")],
  ["RFC 9110, 5.5", "bytes over 7F", withFields("X: \x80\xff\r\n")],
  ["RFC 9110, 5.3", "unknown fields twice", withFields("X: y\r\nX: z\r\nCookie: a\r\n")],
  ["B, Limits", "16 KiB", headed(16_384)],
  ["B, Limits", "100 fields", hosted(`${host}${fields(96)}`)],
  ["B, Bearer: any case", "bearer", authorized(`authorization: bearer ${token}\r\n`)],
  ["RFC 6750, 2.1: 1*SP", "three", authorized(`Authorization: Bearer   ${token}\r\n`)],
  ["README, Limitations", "RTSP/1.0 is seen as HTTP/1.0, kept alive",
    withFields("Connection: keep-alive\r\n").replace("HTTP/1.1", "RTSP/1.0")],
  ["README, Limitations", "space before a value is not counted",
    withFields(`X:${" ".repeat(16_384)}y\r\n`)],
  ["B, Strict", "HTTP/1.0 without Host, kept alive",
    `POST /plants HTTP/1.0\r\nConnection: keep-alive\r\n${good}${length}\r\n${evil}`],
  ["RFC 9110, 10.1.1", "in HTTP/1.0 no 100", withFields(
    "Connection: keep-alive\r\nExpect: 100-continue\r\n").replace("HTTP/1.1", "HTTP/1.0")],
  ["RFC 9110, 10.1.1", "100-continue", withFields("Expect: 100-continue\r\n"), "100,200"],
  ["RFC 9110, 10.1.1", "any case", withFields("Expect: 100-Continue\r\n"), "100,200"],
];

/** Node's parser drops what stands behind an Upgrade in its segment: nothing may stand there. */
const upgrade = "Connection: upgrade\r\nUpgrade: websocket\r\n";
const upgraded: readonly Case[] = [
  ["RFC 9110, 7.8", "Upgrade", withFields(upgrade)],
  ["RFC 9110, 7.8", "h2c", withFields("Connection: Upgrade\r\nUpgrade: h2c\r\n")],
  ["RFC 9110, 7.8", "h2c with settings", withFields(
    "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n")],
  ["RFC 9110, 7.8", "Proxy-Connection", withFields(`Proxy-${upgrade}`)],
  ["RFC 9110, 7.8", "Upgrade, chunked", framed(`${upgrade}${coding}`, chunks(evil))],
];

/** A path, a method or credentials that are refused leave the connection in use. */
const refused: readonly Case[] = [
  ...["/", "/plants/", "/Plants", "/PLANTS", "//plants", "/plants/1", "/plants;a", "/plantsx",
    "/plant", "/v1/plants", "/%70lants", "/plants%20", "/plants%00", "/./plants", "/x/../plants",
    "/plants/.", "/?/plants", "/__proto__", "/constructor", "//localhost/plants", "/*",
    "http://localhost", "http://localhost/", "http://localhost/plants/", "http://a?/plants",
    "http://localhost//plants"].map((target): Case =>
    ["B, Statuses 404", target, targeted(target), "40401"]),
  ...["GET", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "M-SEARCH", "PURGE", "LINK"]
    .map((method): Case =>
      ["B, Statuses 405", `${method} and a body`, lined(`${method} /plants HTTP/1.1`), "40501"]),
  ...["GET", "TRACE", "DELETE"].map((method): Case => ["B, Statuses 405", `${method}, chunked`,
    framed(coding, chunks(evil)).replace("POST", method), "40501"]),
  ["B, Statuses 405", "TRACE alone", bare("TRACE /plants HTTP/1.1"), "40501"],
  ["B, Statuses 405", "OPTIONS *", bare("OPTIONS * HTTP/1.1"), "404|405"],
  ...["Basic eA==", token, `Bearer${token}`, `Bear ${token}`, `"Bearer" ${token}`, "Negotiate"]
    .map((value): Case => ["B, Statuses 401: another scheme", value.replace(token, "TOKEN"),
      authorized(`Authorization: ${value}\r\n`), "40101"]),
  ["B, Statuses 401", "no Authorization", authorized(""), "40101"],
  ["B, Statuses 401", "an empty one", authorized("Authorization:\r\n"), "40101"],
  ["B, Statuses 401", "in a Cookie", authorized(`Cookie: ${known}`), "40101"],
  ["B, Statuses 401", "for a proxy", authorized(`Proxy-${known}`), "40101"],
  ...["Bearer", "Bearer a b", `Bearer ${token} x`, `Bearer\t${token}`, `Bearer "${token}"`,
    `Bearer ${token},`, `Bearer ${token}, Basic x`, "Bearer =", "Bearer a=b", "Bearer a:b",
    "Bearer t\xe9st", `Bearer token=${token}`].map((value): Case =>
    ["B, Statuses 400: no b64token", value.replace(token, "TOKEN"),
      authorized(`Authorization: ${value}\r\n`), "40006"]),
  ...["x", `${token}=`, `${token}x`, token.slice(0, -1), token.toUpperCase(), "x".repeat(8_000)]
    .map((value, index): Case => ["B, Statuses 401: unknown", `a token ${index}`,
      authorized(`Authorization: Bearer ${value}\r\n`), "40102"]),
];

export const heads: readonly Row[] = [
  ...closing(codings), ...closing(lengths), ...closing(hosts), ...closing(lines),
  ...closing(targets), ...closing(sections), ...ending(upgraded), ...served(strange),
  ...closing([["B, Statuses 405", "GET upgraded",
    bare("GET /plants HTTP/1.1", `${good}${upgrade}`), "40501"]]), ...keeping(refused),
];
