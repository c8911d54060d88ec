/** Hostile chunks, expectations, media types, codings, JSON and plants. */
import {
  bare, chunk, chunked, chunks, closing, coding, evil, framed, good, host, json, keeping, known,
  length, line, plant, sent, served, typed, utf8, withFields, type Case, type Row,
} from "./hostile.ts";
import { token } from "../support/support.ts";

const size = evil.length.toString(16);
const limit = 1_048_576;
/** A chunked body whose first size line is the case. */
const opened = (first: string): string => chunked(`${first}\r\n${evil}\r\n0\r\n\r\n`);
/** A good chunked request whose trailer is the case. */
const trailed = (fields: string): string => chunked(`${chunk(evil)}0\r\n${fields}\r\n`);

const broken: readonly Case[] = [
  ...["x", "", "-1", "-", `+${size}`, `0x${size}`, ` ${size}`, `\t${size}`, `${size}g`, `${size}.`,
    `${size},${size}`, `${size} ${size}`, "\xb2", `"${size}"`, "1\0"].map((first): Case =>
    ["RFC 9112, 7.1", `chunk-size ${JSON.stringify(first)}`, opened(first), "400"]),
  ["RFC 9112, 7.1", "over 64 bits", opened("10000000000000016"), "400|413"],
  ["RFC 9112, 7.1", "over 64 bits by far", opened("f".repeat(40)), "400|413"],
  ["RFC 9112, 7.1", "too small", opened("5"), "400"],
  ["RFC 9112, 7.1", "too large by one", opened("17"), "400"],
  ["RFC 9112, 7.1", "too large by two", opened("18"), "400"],
  ["RFC 9112, 7.1", "LF behind the size", chunked(chunks(evil).replace("\r\n", "\n")), "400"],
  ["RFC 9112, 7.1", "CR behind the size", chunked(`${size}\rx${evil}\r\n0\r\n\r\n`), "400"],
  ["RFC 9112, 7.1", "CR CR LF behind the size", opened(`${size}\r`), "400"],
  ["RFC 9112, 7.1", "LF behind the data", chunked(`${size}\r\n${evil}\n0\r\n\r\n`), "400"],
  ["RFC 9112, 7.1", "CR behind the data", chunked(`${size}\r\n${evil}\r0\r\n\r\n`), "400"],
  ["RFC 9112, 7.1", "nothing behind the data", chunked(`${size}\r\n${evil}0\r\n\r\n`), "400"],
  ["RFC 9112, 7.1", "LF ends it", chunked(`${chunk(evil)}0\r\n\n`), "400"],
  ["RFC 9112, 7.1", "LF behind the last size", chunked(`${chunk(evil)}0\n\r\n`), "400"],
  ["RFC 9112, 7.1", "no end", chunked(`${chunk(evil)}0\r\n`), "400"],
  ["RFC 9112, 7.1", "no chunks at all", chunked(evil), "400"],
  ["RFC 9112, 7.1.1", "NUL", opened(`${size};a=\0`), "400"],
  ["RFC 9112, 7.1.1", "LF", chunked(`${size};a=b\n${evil}\r\n0\r\n\r\n`), "400"],
  ["RFC 9112, 7.1.1", "a hidden chunk", chunked(`${size};a\n${evil}\r\n0\r\n\r\n`), "400"],
  ["RFC 9112, 7.1.1", "CR", chunked(`${size};a=b\rx\r\n${evil}\r\n0\r\n\r\n`), "400"],
  ["RFC 9112, 7.1.1", "CR in quotes", opened(`${size};a="b\rc"`), "400"],
  ["RFC 9112, 7.1.1", "open quotes", opened(`${size};a="b`), "400"],
  ["B, Limits", "extensions of 32 KiB", opened(`${size};a=${"x".repeat(32_768)}`), "400|413"],
  ["RFC 9112, 7.1.2", "no field", trailed("x\r\n"), "400"],
  ["RFC 9112, 7.1.2", "no name", trailed(": x\r\n"), "400"],
  ["RFC 9112, 7.1.2", "space before colon", trailed("x : y\r\n"), "400"],
  ["RFC 9112, 7.1.2", "obs-fold", trailed("x: y\r\n z\r\n"), "400"],
  ["RFC 9112, 7.1.2", "NUL", trailed("x: \0\r\n"), "400"],
  ["RFC 9112, 7.1.2", "LF", trailed("x: y\nz: a\r\n"), "400"],
  ["RFC 9112, 7.1.2", "a request for a trailer", trailed("POST /plants HTTP/1.1\r\n"), "400"],
  ["README, Limitations", "Content-Length in a trailer", trailed(length), "400"],
  ["README, Limitations", "Transfer-Encoding in a trailer", trailed(coding), "400"],
  ["B, Strict: limits apply", "a trailer of 32 KiB", trailed(`X: ${"x".repeat(32_768)}\r\n`),
    "43101"],
  ["B, Statuses 413", "as counted, one chunk", chunked(chunks(" ".repeat(limit + 1))), "41302"],
  ["B, Statuses 413", "as counted, two chunks",
    chunked(`${chunk(" ".repeat(limit))}1\r\n \r\n0\r\n\r\n`), "41302"],
];

const pieces: readonly Case[] = [
  ["RFC 9112, 7.1", "many chunks", chunked(
    `${[...evil.slice(0, -6)].map(chunk).join("")}${chunk(evil.slice(-6))}000\r\n\r\n`)],
  ["RFC 9112, 7.1", "zeros first", chunked(`000${chunks(evil)}`)],
  ["RFC 9112, 7.1", "100 zeros first", chunked(`${"0".repeat(100)}${chunks(evil)}`)],
  ["RFC 9112, 7.1.1", "extensions", chunked(`${size};a;b=c;d="e"\r\n${evil}\r\n0;z=1\r\n\r\n`)],
  ["RFC 9112, 7.1.1", "a quoted semicolon", opened(`${size};a="b;c"`)],
  ["RFC 9112, 7.1.2", "trailers", trailed("X: y\r\nHost: b\r\n")],
  ["RFC 9110, 6.5.1", "a framing trailer", trailed("Date: x\r\n")],
  ["B, Strict: a trailer never frames", "Expect", trailed("Expect: x\r\n")],
  ["B, Strict: a trailer never frames", "Content-Type", trailed("Content-Type: text/plain\r\n")],
  ["B, Limits", "a trailer of 100 fields", trailed("a:\r\n".repeat(100))],
  ["B, Limits", "extensions of 20 KiB on many chunks",
    chunked(`1;a=${"x".repeat(200)}\r\n \r\n`.repeat(100) + chunks(evil))],
  ["B, Limits", "1 MiB", sent(evil.padEnd(limit))],
  ["B, Limits", "1 MiB in chunks", chunked(chunks(evil.padEnd(limit)))],
];

const types: readonly (readonly [type: string, error?: "41501" | "41502"])[] = [
  ["application/json"], ["Application/JSON"], ["application/json;charset=utf-8"],
  ["application/json; charset=UTF-8"], ['application/json; charset="utf-8"'],
  ['application/json \t;\t CHARSET="Utf-8"'], ['application/json; charset="ut\\f-8"'],
  ["application/json; x=y"], ['application/json; x="; charset=utf-16"'],
  ['application/json; x="\\"; charset=utf-16; y="'], ["application/json;"],
  ["application/json;; charset=utf-8;"], ["application/json; charset=utf-16", "41502"],
  ['application/json; charset="utf-16"', "41502"], ["application/json; charset=latin1", "41502"],
  ["application/json; charset=utf8", "41502"], ["application/json; charset='utf-8'", "41502"],
  ["application/json; charset=", "41501"], ['application/json; charset=""', "41502"],
  ['application/json; charset="utf-8', "41501"], ['application/json; charset=utf-8"', "41501"],
  ["application/json; charset=utf-8; charset=utf-8", "41502"],
  ['application/json; charset=utf-8; CharSet="utf-16"', "41502"],
  ["application/json; x=y; charset=utf-16", "41502"], ["application/json; charset =utf-8", "41501"],
  ["application/json; x", "41501"], ["application/json charset=utf-8", "41501"],
  ["application/json, application/json", "41501"], ["application/json, text/plain", "41501"],
  ["application/json; x=\xe4", "41501"], ["application/jsonp", "41501"],
  ["application/vnd.api+json", "41501"], ["application/*", "41501"], ["application /json", "41501"],
  ["text/json", "41501"], ["text/plain", "41501"], ["json", "41501"], ["", "41501"],
  ["application/x-www-form-urlencoded", "41501"], ["*/*", "41501"], ["__proto__", "41501"],
  [`application/json${";".repeat(8_000)}`], [`application/json; x="${"\\".repeat(8_000)}"`],
  [`application/json; x="${"\\".repeat(7_999)}"`, "41501"],
];
const contents: readonly Case[] = [
  ["A, request", "no Content-Type", `${line}\r\n${host}${known}${length}\r\n${evil}`, "41501"],
  ...types.map(([type, error = "200"], index): Case =>
    ["B, Statuses 415", `${index}: ${type.slice(0, 60)}`, typed(type), error]),
  ...["identity", "IDENTITY"].map((name): Case =>
    ["B, Statuses 415", name, withFields(`Content-Encoding: ${name}\r\n`)]),
  ...["gzip", "x-gzip", "br", "identity, gzip", "gzip, identity", "utf-8", "identity, identity",
    "aws-chunked", ""].map((name): Case => ["B, Statuses 415", `Content-Encoding: ${name}`,
    withFields(`Content-Encoding: ${name}\r\n`), "41503"]),
  ["B, Statuses 415", "two lines",
    withFields("Content-Encoding: identity\r\nContent-Encoding: gzip\r\n"), "41503"],
  ["B, Statuses 413", "by Content-Length", sent(evil.padEnd(limit + 1)), "41301"],
  ["B, Strict: a trailer authenticates nobody", "chunked",
    `${line}\r\n${host}${json}${coding}\r\n${chunk(evil)}0\r\n${known}\r\n`, "40101"],
];

/** Where an Expect can't be met, the body may come or not: the framing is in doubt. */
const expected: readonly Case[] = [
  ["B, Statuses 417", "other", withFields("Expect: 200-ok\r\n"), "41701"],
  ["B, Statuses 417", "and other", withFields("Expect: 100-continue, x=y\r\n"), "41701"],
  ["B, Statuses 417", "twice", withFields("Expect: 100-continue, 100-continue\r\n"), "41701"],
  ["B, Statuses 417", "within", withFields("Expect: x100-continuex\r\n"), "41701"],
  ["B, Statuses 417", "two lines", withFields("Expect: 100-continue\r\nExpect: x\r\n"), "41701"],
  ["B, Statuses 417", "in HTTP/1.0", withFields("Expect: x\r\n").replace("HTTP/1.1", "HTTP/1.0"),
    "41701"],
];

const texts: readonly (readonly [clause: string, body: string, errors: string])[] = [
  ["B, Statuses 400", "", "40008"], ["RFC 8259, 2", " ", "40010"], ["RFC 8259, 2", "{", "40010"],
  ["RFC 8259, 2", `${evil}${evil}`, "40010"], ["RFC 8259, 2", `${evil},`, "40010"],
  ["RFC 8259, 2", `${evil}\0`, "40010"], ["RFC 8259, 2", `${evil}//`, "40010"],
  ["RFC 8259, 2", `/**/${evil}`, "40010"], ["RFC 8259, 2", `\x0c${evil}`, "40010"],
  ["RFC 8259, 2", `\xc2\xa0${evil}`, "40010"], ["RFC 8259, 3", '{"id":1,"name":True}', "40010"],
  ["RFC 8259, 3", '{"id":1,"name":undefined}', "40010"], ["RFC 8259, 4", "{id:1}", "40010"],
  ["RFC 8259, 4", "{'id':1}", "40010"], ["RFC 8259, 4", '{"id":1,}', "40010"],
  ["RFC 8259, 4", '{"id":1,,"name":""}', "40010"], ["RFC 8259, 4", '{"id"=1}', "40010"],
  ["RFC 8259, 5", "[1,]", "40010"], ["RFC 8259, 5", "[", "40010"], ["RFC 8259, 5", "]", "40010"],
  ["RFC 8259, 6", '{"id":01,"name":""}', "40010"], ["RFC 8259, 6", '{"id":+1}', "40010"],
  ["RFC 8259, 6", '{"id":.5}', "40010"], ["RFC 8259, 6", '{"id":1.}', "40010"],
  ["RFC 8259, 6", '{"id":0x1}', "40010"], ["RFC 8259, 6", '{"id":1e}', "40010"],
  ["RFC 8259, 6", '{"id":NaN}', "40010"], ["RFC 8259, 6", '{"id":-Infinity}', "40010"],
  ["RFC 8259, 6", '{"id":1n}', "40010"], ["RFC 8259, 6", '{"id":1_0}', "40010"],
  ["RFC 8259, 7", '{"id":1,"name":"\n"}', "40010"], ["RFC 8259, 7", '{"name":"\0"}', "40010"],
  ["RFC 8259, 7", '{"name":"\\x41"}', "40010"], ["RFC 8259, 7", '{"name":"\\u00g0"}', "40010"],
  ["RFC 8259, 7", '{"name":"', "40010"], ["RFC 8259, 7", '{"name":"\\', "40010"],
  ["RFC 8259, 8.1", `\xef\xbb\xbf${evil}`, "40010"], ["RFC 8259, 8.1", "\xff\xfe{\0}\0", "40009"],
  ["RFC 8259, 8.1", "\0{\0}", "40010"], ["RFC 7493, 2.1", '{"name":"\xff"}', "40009"],
  ["RFC 7493, 2.1", '{"name":"\xc0\xaf"}', "40009"], ["RFC 7493, 2.1", '"\xed\xa0\x80"', "40009"],
  ["RFC 7493, 2.1", '"\xf4\x90\x80\x80"', "40009"], ["RFC 7493, 2.1", '"\xe2\x82', "40009"],
  ["RFC 7493, 2.1", '{"id":1,"name":"\\ud800"}', "40012"],
  ["RFC 7493, 2.1", '{"id":1,"name":"\\udc00\\ud800"}', "40012"],
  ["RFC 7493, 2.1", '{"id":1,"name":"","\\ud800":1}', "40012"],
  ["RFC 7493, 2.3", '{"id":1,"id":1,"name":"a"}', "40011"],
  ["RFC 7493, 2.3", '{"id":1,"i\\u0064":2,"name":"a"}', "40011"],
  ["RFC 7493, 2.3", '{"id":1,"name":"a","x":[{"a":1,"\\u0061":1}]}', "40011"],
  ["RFC 7493, 2.3", '{"__proto__":1,"__proto__":2}', "40011"],
  ["RFC 7493, 2.3", '{"toString":1,"toString":2}', "40011"],
  ["B, JSON: nesting bounded", `${"[".repeat(65)}${"]".repeat(65)}`, "40013"],
  ["B, JSON: nesting bounded", "[".repeat(100_000), "40013"],
  ["B, JSON: nesting bounded", '{"a":'.repeat(100_000), "40013"],
  ["A, NewPlant", "[]", "40014"], ["A, NewPlant", "null", "40014"], ["A, NewPlant", '"a"', "40014"],
  ["A, NewPlant", "1", "40014"], ["A, NewPlant", "{}", "40014"],
  ["A, NewPlant", `[${evil}]`, "40014"],
  ["A, NewPlant", '{"id":1}', "40014"], ["A, NewPlant", '{"name":"a"}', "40014"],
  ["A, NewPlant", '{"ID":1,"Name":"a"}', "40014"], ["A, NewPlant", '{"id":1,"name":null}', "40014"],
  ["A, NewPlant", '{"id":1,"name":["a"]}', "40014"], ["B, JSON", '{"id":"7","name":"a"}', "40014"],
  ["B, JSON", '{"id":1,"name":"a","tag":null}', "40014"],
  ["B, JSON", '{"id":1,"name":"a","tag":[]}', "40014"],
  ...["null", "true", "[1]", "{}", "1.5", "9223372036854775808", "-9223372036854775809", "1e19",
    "1e-1", "1e1000000000", "-1e1000000000", "1e-1000000000", "9007199254740993.5",
    `1e${"9".repeat(100_000)}`, `0.${"0".repeat(100_000)}1`, "9".repeat(100_000)].map((id) =>
    ["B, JSON: id", plant(id), "40014"] as const),
  ["B, JSON: just names", `{"__proto__":${evil}}`, "40014"],
  ["B, JSON: just names", '{"id":1,"__proto__":{"name":"a"}}', "40014"],
  ["B, JSON: just names", '{"constructor":{"prototype":{"id":1,"name":"a"}}}', "40014"],
  ["RFC 6750, 2.2", `access_token=${token}`, "40010"],
];

const ids: readonly (readonly [id: string, stored: string])[] = [
  ["9007199254740993", "9007199254740993"], ["9223372036854775807", "9223372036854775807"],
  ["-9223372036854775808", "-9223372036854775808"], ["-0", "0"], ["1.0", "1"], ["1e2", "100"],
  ["120e-1", "12"], ["0.9007199254740993e16", "9007199254740993"], ["0e1000000000", "0"],
  ["-0.000e-1000000000", "0"], [`1${"0".repeat(100_000)}e-100000`, "1"],
  [`1.${"0".repeat(100_000)}`, "1"], [`0.${"0".repeat(99_999)}1e100000`, "1"],
];
const name = evil.slice(8, -1);
const plants: readonly Case[] = [
  ...ids.map(([id, stored]): Case =>
    ["B, JSON: id", `${id.slice(0, 40)} of ${id.length}`, sent(plant(id)), "200", stored]),
  ...["__proto__", "constructor", "toString", "hasOwnProperty", "then", "\\u005f_proto__", "", "0"]
    .map((member): Case => ["B, JSON: just names", JSON.stringify(member),
      sent(`{"${member}":{"id":"x","tag":5},"id":1,${name}}`)]),
  ["B, JSON: other members", "an ID, a Name", sent(`{"ID":"x","id":1,"Name":5,${name}}`)],
  ["B, JSON: nesting bounded", "64 levels",
    sent(`{"id":1,${name},"x":${"[".repeat(63)}${"]".repeat(63)}}`)],
  ["RFC 8259, 2", "white space", sent(`\r\n\t { "id" : 1 , ${name} }\n`)],
  ["RFC 8259, 7", "escaped names", sent(`{"\\u0069\\u0064":1,${name}}`)],
  ["B, JSON: noncharacters", "U+FFFF", sent(utf8(`{"id":1,${name},"tag":"\uffff\\ufdd0"}`))],
  ["A: no limits", "a tag of 1 MB", sent(`{"id":1,${name},"tag":"${"x".repeat(1_000_000)}"}`)],
];

export const bodies: readonly Row[] = [
  ...closing(broken), ...served(pieces), ...closing(expected),
  ...served(contents.filter(([, , , answers]) => answers === undefined || answers === "200")),
  ...keeping(contents.filter(([, , , answers = "200"]) => answers !== "200")),
  ...keeping(texts.map(([clause, body, errors], index): Case =>
    [clause, `${index}: ${JSON.stringify(body.slice(0, 60))}`, sent(body), errors])),
  ...served(plants),
  ...keeping([
    ["B, Statuses 400", "no length, no body", bare(line), "40008"],
    ["B, Statuses 400", "no chunk but the last", chunked("0\r\n\r\n"), "40008"],
    ["B, Statuses 400", "in a chunk", chunked(chunks("{")), "40010"],
  ]),
  ...closing([
    ["B, Strict: limits apply", "a trailer of 101 fields", trailed("a:\r\n".repeat(101)), "43102"],
    ["RFC 9112, 9.6", "no JSON, and close",
      framed(`Connection: close\r\nContent-Length: 1\r\n`, "{"), "40010"],
    ["RFC 9112, 9.6", "no body, and close", bare(line, `${good}Connection: close\r\n`), "40008"],
    ["RFC 9112, 9.3", "in HTTP/1.0", framed("Content-Length: 1\r\n", "{").replace("/1.1", "/1.0"),
      "40010"],
  ]),
];
