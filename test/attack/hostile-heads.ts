/** Hostile request lines, targets, fields and limits: each closes the connection, or is served. */
import {
  asWritten,
  casesOf,
  chunked,
  chunks,
  evil,
  known,
  length,
  request,
  rowsOf,
  withoutBody,
  type Case,
  type Row
} from "./hostile.ts";
import { tokenDigest } from "../../src/index.ts";
import { token } from "../support/support.ts";

const short = (count: number): string => "a:\r\n".repeat(count);
const long = "x".repeat(16_384);
const size = evil.length;
/** A valid request whose header section has this many bytes, the empty line included. */
const headOf = (bytes: number): string => {
  const rest = request({ fields: "X: \r\n" }).length - size;
  return request({ fields: `X: ${"x".repeat(bytes - rest)}\r\n` });
};
const withFields = (fields: string): string => request({ fields });
const withTarget = (target: string): string => request({ target });
const withLine = (line: string): string => request({ line });
const withHost = (value: string): string =>
  request({ host: `Host: ${value}\r\n` });
const withCredentials = (value: string): string =>
  request({ authorization: `Authorization: ${value}\r\n` });
const json = "Content-Type: application/json\r\n";
const keepAlive = "Connection: keep-alive\r\n";
/** HTTP/1.0 does not need a Host. */
const old = { version: "HTTP/1.0", host: "" };

const codings: readonly Case[] = [
  ...casesOf("RFC 9112, 6.1", "50101", (coding) => request({ coding }), {
    "gzip, chunked": "gzip, chunked",
    "two lines": "gzip\r\ntransfer-encoding: chunked"
  }),
  ...casesOf("RFC 9112, 6.1", "400|501", (coding) => request({ coding }), {
    "unknown": "xchunked",
    "not last": "chunked, gzip",
    "twice": "chunked, chunked",
    "a comma first": ",chunked",
    "parameter": "chunked;a=b"
  }),
  ...casesOf("RFC 9112, 6.1", "400|501", asWritten, {
    "gzip": request({ coding: "gzip", body: evil }),
    "empty": request({ framing: `Transfer-Encoding:\r\n${length}` }),
    "identity, and a length": withFields("Transfer-Encoding: identity\r\n")
  }),
  ...casesOf("RFC 9112, 6.1", "40004", asWritten, {
    "with a length": request({
      framing: length + chunked,
      body: chunks(evil)
    }),
    "before a length": request({
      framing: chunked + length,
      body: chunks(evil)
    }),
    "in HTTP/1.0": request({ version: "HTTP/1.0", coding: "chunked" }),
    "in HTTP/1.0, kept alive": request({
      ...old,
      coding: "chunked",
      fields: keepAlive
    })
  }),
  ...casesOf("RFC 9112, 5", "400", asWritten, {
    "space before the coding's colon": request({
      framing: "Transfer-Encoding : chunked\r\n",
      body: chunks(evil)
    }),
    "folded": request({ coding: "\r\n chunked" })
  })
];

const lengths: readonly Case[] = [
  ...casesOf("RFC 9110, 8.6", "40004", (value) => request({ length: value }), {
    "twice, same": `${size}\r\n${length.trim()}`,
    "twice, other": `${size}\r\ncontent-length: 5`,
    "a list": `${size}, ${size}`,
    "20 digits": "9".repeat(20)
  }),
  ...casesOf("RFC 9110, 8.6", "400", (value) => request({ length: value }), {
    "+": `+${size}`,
    "-": "-1",
    "hexadecimal": "0x16",
    "a fraction": `${size}.0`,
    "a space within": "2 2",
    "empty": ""
  }),
  ...casesOf(
    "a body over the limit",
    "41301",
    (value) => request({ length: value }),
    {
      "over the limit and all that is discarded": "16777217",
      "16 digits": "9".repeat(16),
      "the last of 64 bits": "18446744073709551615"
    }
  )
];

const host = "Host: localhost\r\n";
const hosts: readonly Case[] = [
  ...casesOf("RFC 9112, 3.2", "40003", (lines) => request({ host: lines }), {
    "no Host": "",
    "two Hosts, same": host + host,
    "two Hosts, other": `${host}host: b\r\n`,
    "two Hosts, one empty": `Host:\r\n${host}`
  }),
  ...casesOf("RFC 9112, 3.2", "40003", asWritten, {
    "two Hosts, apart": withFields(host),
    "HTTP/1.0, two Hosts": request({ ...old, host: host + host }),
    "HTTP/1.0, an empty Host": request({ ...old, host: "Host:\r\n" }),
    "absolute form and no Host": request({
      target: "http://localhost/plants",
      host: ""
    })
  }),
  ...casesOf("RFC 9110, 7.2", "400", withHost, {
    "an empty Host": "",
    "a blank Host": "\t ",
    "Host: a space": "a b",
    "Host: a path": "a/b",
    "Host: a fragment": "a#b",
    "Host: userinfo": "u@a",
    "Host: a URI": "http://a",
    "Host: a port that is not a number": "a:x",
    "Host: two ports": "a:1:2",
    "Host: no brackets": "::1",
    "Host: open bracket": "[::1",
    "Host: brackets, and more": "[::1]a",
    "Host: empty brackets": "[]",
    "Host: brackets around no address": "[...]",
    "Host: % without two digits": "a%4",
    "Host: a backslash": "a\\b",
    "Host: a byte over 7F": "\xe4",
    "Host: a port alone": ":80"
  })
];

const lines: readonly Case[] = [
  ...casesOf(
    "stricter than node:http",
    "50501",
    (version) => request({ version }),
    ["HTTP/2.0", "HTTP/0.9"]
  ),
  ...casesOf("RFC 9112, 2.3", "400|505", (version) => request({ version }), [
    "HTTP/1.2",
    "HTTP/1.10",
    "HTTP/1",
    "http/1.1",
    "HTTPS/1.1",
    "HTTP/1.1 x"
  ]),
  [
    "RFC 9112, 2.3",
    "ICE/1.0",
    withLine("SOURCE /plants ICE/1.0"),
    "400|405|505"
  ],
  ...casesOf("RFC 9112, 3", "400|505", asWritten, {
    "HTTP/0.9, and fields": withLine("POST /plants"),
    "HTTP/0.9 alone": "GET /plants\r\n",
    "no target": withLine("POST HTTP/1.1"),
    "the preface of HTTP/2": "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "a bare CR after the line": withLine("POST /plants HTTP/1.1\rX: y"),
    "LF alone": request().replaceAll("\r\n", "\n")
  }),
  ...casesOf("RFC 9112, 3", "40001", asWritten, {
    "a tab": withLine("POST\t/plants HTTP/1.1"),
    "space first": withLine(" POST /plants HTTP/1.1"),
    "a response": "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    "SSH": "SSH-2.0-OpenSSH_9.6\r\n",
    "a byte order mark": `\xef\xbb\xbf${request()}`
  }),
  ...casesOf("an unknown method", "40001", (method) => request({ method }), {
    "PLANT": "PLANT",
    "a long word": long,
    "POST and more": "POSTS",
    "post": "post",
    "NUL in POST": "PO\0ST"
  }),
  [
    "RFC 9112, 2.2",
    "space before fields",
    request({ host: ` X: y\r\n${host}` }),
    "400"
  ]
];

const connecting = { line: "CONNECT a:80 HTTP/1.1" };
const upgrade = "Connection: upgrade\r\nUpgrade: websocket\r\n";
const connects: readonly Case[] = [
  ...casesOf("another method", "40502", asWritten, {
    "CONNECT": withoutBody(connecting),
    "CONNECT, an address": withoutBody({ line: "CONNECT [::1]:80 HTTP/1.1" }),
    "CONNECT, a body": request(connecting),
    "CONNECT, a coding": request({
      ...connecting,
      coding: "chunked",
      body: ""
    }),
    "CONNECT, an Upgrade": withoutBody({ ...connecting, fields: upgrade })
  }),
  [
    "another method",
    "CONNECT, no token",
    withoutBody({ ...connecting, authorization: "", type: "" }),
    "40101"
  ],
  ...casesOf(
    "RFC 9112, 3.2.3",
    "400",
    (target) => withoutBody({ method: "CONNECT", target }),
    {
      "CONNECT /plants": "/plants",
      "CONNECT, a URI": "http://localhost/plants",
      "CONNECT, no port": "localhost",
      "CONNECT, an empty port": "localhost:",
      "CONNECT, no host": ":80",
      "CONNECT, userinfo": "u@a:80"
    }
  )
];

const targets: readonly Case[] = [
  ...casesOf("a fragment in the target", "40002", withTarget, ["/plants#x"]),
  ...casesOf("a fragment in the target", "400", withTarget, [
    "#",
    "/plants?a#b",
    "http://localhost/plants#x",
    "http://localhost#"
  ]),
  ...casesOf("RFC 9112, 3.2", "400|505", withTarget, [
    "http://u:p@localhost/plants",
    "http:///plants",
    "http:/plants",
    "http://[::1/plants",
    "http://a:b/plants",
    "http://a\\plants",
    "ftp://localhost/plants",
    "plants",
    "*",
    "localhost:80",
    "?/plants",
    "%2Fplants",
    "",
    "/pl ants",
    "/plants\0",
    "/pl\xe4nts",
    "/plants?\xff"
  ])
];

const sections: readonly Case[] = [
  ...casesOf("RFC 9112, 2.2 and 5", "400", withFields, {
    "space before colon": "X : y\r\n",
    "obs-fold": "X: y\r\n z\r\n",
    "a bare LF": "X: y\n",
    "a hidden coding": "X: y\nTransfer-Encoding: chunked\r\n",
    "a hidden coding, CR": "X: y\rTransfer-Encoding: chunked\r\n",
    "CR CR LF": "X: y\r\r\n",
    "NUL in a value": "X: a\0b\r\n",
    "no name": ": b\r\n",
    "no colon": "X\r\n"
  }),
  ...casesOf("RFC 9112, 2.2 and 5", "400", asWritten, {
    "obs-fold, token": request().replace("Bearer ", "Bearer\r\n "),
    "LF ends the head": request().replace("\r\n\r\n", "\r\n\n"),
    "CR ends the head": request().replace("\r\n\r\n", "\r\n\r")
  }),
  ...[...'\0\x7f\xe4 (@"{'].map((byte): Case => [
    "RFC 9110, 5.1",
    `${JSON.stringify(byte)} in a name`,
    withFields(`X${byte}: b\r\n`),
    "400"
  ]),
  ...casesOf("a repeated field", "40007", withFields, {
    "Authorization": "authorization: Bearer x\r\n",
    "Authorization, the same": known,
    "Authorization, one empty": "Authorization:\r\n"
  }),
  ...casesOf("a repeated field", "40005", withFields, {
    "Content-Type": "Content-Type: text/plain\r\n",
    "Content-Type, the same": json.toLowerCase(),
    "Idempotency-Key": 'Idempotency-Key: "a\r\nIdempotency-Key: b"\r\n'
  }),
  ...casesOf("a header section over 16 KiB", "43101", asWritten, {
    "a value": withFields(`X: ${long}\r\n`),
    "a name": withFields(`${long}: x\r\n`),
    "the target": withTarget(`/${long}`),
    "90 fields": withFields(`X: ${"x".repeat(190)}\r\n`.repeat(90)),
    "by a byte": headOf(16_385),
    "no end": `POST /plants HTTP/1.1\r\nX: ${"x".repeat(40_000)}`
  }),
  ["more than 100 fields", "101 fields", withFields(short(97)), "43102"],
  ...casesOf("fields that Node 20 loses", "431", asWritten, {
    "1500 fields, then a coding": request({
      framing: short(1_500) + chunked,
      body: chunks(evil)
    }),
    "2100 fields, then a length": request({ framing: short(2_100) + length })
  })
];

const unusual: readonly Case[] = [
  [
    "RFC 9112, 6.1: any case",
    "CHUNKED",
    request({ framing: "transfer-encoding: CHUNKED\r\n", body: chunks(evil) })
  ],
  ...casesOf("RFC 9112, 5: OWS", "200", asWritten, {
    "around the coding": request({ coding: "\t chunked  " }),
    "around the length": request({ length: `\t ${size}  ` }),
    "none": request().replaceAll(": ", ":"),
    "a zero before the length": request({ length: `0${size}` })
  }),
  ["RFC 9112, 2.2", "three empty lines", `\r\n\r\n\r\n${request()}`],
  ...casesOf("RFC 9112, 3.2.2", "200", withTarget, {
    "absolute form": "http://elsewhere:1/plants?a",
    "absolute form, https": "https://localhost/plants",
    "absolute form, an address, any case": "HTTP://[::1]:80/plants?x"
  }),
  ...casesOf(
    "a query is ignored",
    "200",
    (query) => withTarget(`/plants${query}`),
    ["?", "?/a?b/../c", "?access_token=x"]
  ),
  ...casesOf(
    "RFC 9110, 7.2",
    "200",
    (value) => request({ host: `HOST: ${value}\r\n` }),
    ["[::1]:8080", "[v1.a:b]", "127.0.0.1:1", "a:", "a_b.example", "%41"]
  ),
  ...casesOf("RFC 9110, 5.1", "200", asWritten, {
    "unknown fields": withFields("__proto__: x\r\nconstructor: y\r\n"),
    "all of a token": withFields("!#$%&'*+-.^_`|~09aZ: y\r\n")
  }),
  ["RFC 9110, 5.5", "bytes over 7F", withFields("X: \x80\xff\r\n")],
  ...casesOf("within the limits", "200", asWritten, {
    "a header section of 16 KiB": headOf(16_384),
    "100 fields": withFields(short(96))
  }),
  [
    "the scheme in any case",
    "bearer",
    request({ authorization: known.toLowerCase() })
  ],
  ["RFC 6750, 2.1: 1*SP", "three", withCredentials(`Bearer   ${token}`)],
  [
    "HTTP/1.0",
    "without Host, kept alive",
    request({ ...old, fields: keepAlive })
  ],
  ...casesOf(
    "RFC 9112, 9.3: not close",
    "200",
    (value) => withFields(`Connection: ${value}\r\n`),
    ["close-not", "x-close"]
  ),
  ...casesOf("RFC 9110, 10.1.1", "200", asWritten, {
    "an empty Expect": withFields("Expect:\r\n"),
    "in HTTP/1.0 no 100": request({
      version: "HTTP/1.0",
      fields: `${keepAlive}Expect: 100-continue\r\n`
    })
  }),
  ...casesOf(
    "RFC 9110, 10.1.1",
    "100,200",
    (value) => withFields(`Expect: ${value}\r\n`),
    { "100-continue": "100-continue", "any case": "100-Continue" }
  )
];

/** Each is served, and the last request of its connection. */
const lasts: readonly Case[] = [
  ...casesOf(
    "RFC 9112, 9.3",
    "200",
    (value) => withFields(`Connection: ${value}\r\n`),
    ["close\t", "x, CLOSE ,y"]
  ),
  ...casesOf(
    "RFC 9112, 9.3",
    "200",
    (value) => request({ ...old, fields: `Connection: ${value}\r\n` }),
    ["keep-alive, close", "close,\tkeep-alive"]
  ),

  // Node's parser drops the rest of a segment after an Upgrade.
  ...casesOf("RFC 9110, 7.8", "200", withFields, {
    "Upgrade": upgrade,
    "h2c with settings":
      "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n",
    "Proxy-Connection": `Proxy-${upgrade}`
  }),
  [
    "RFC 9110, 7.8",
    "Upgrade, chunked",
    request({ coding: "chunked", fields: upgrade })
  ]
];

/** A path, a method or credentials that are refused leave the connection open. */
const refused: readonly Case[] = [
  ...casesOf("another path", "40401", withTarget, [
    "/",
    "/plants/",
    "/Plants",
    "//plants",
    "/plants;a",
    "/%70lants",
    "/x/../plants",
    "/?/plants",
    "//localhost/plants",
    "http://localhost",
    "http://a?/plants"
  ]),
  ...casesOf("another method", "40501", (method) => request({ method }), [
    "GET",
    "DELETE",
    "OPTIONS",
    "TRACE",
    "M-SEARCH"
  ]),
  ...casesOf("another method", "40501", asWritten, {
    "GET, chunked": request({ method: "GET", coding: "chunked" }),
    "TRACE alone": withoutBody({ method: "TRACE" })
  }),
  [
    "another method",
    "OPTIONS *",
    withoutBody({ line: "OPTIONS * HTTP/1.1" }),
    "404|405"
  ],
  ...casesOf("another scheme", "40101", withCredentials, [
    "Basic eA==",
    `Bear ${token}`,
    `Bearer=${token}`,
    `Basic ${token}, Bearer ${token}`
  ]),
  ...casesOf(
    "no credentials",
    "40101",
    (authorization) => request({ authorization }),
    {
      "no Authorization": "",
      "an empty field": "Authorization:\r\n",
      "a token in a Cookie": `Cookie: ${known}`,
      "a token for a proxy": `Proxy-${known}`
    }
  ),
  ...casesOf("no credentials", "40101", asWritten, {
    "a token in a query": request({
      authorization: "",
      target: `/plants?access_token=${token}`
    }),
    "a token in a body": request({
      authorization: "",
      body: `access_token=${token}`
    })
  }),
  ...casesOf("malformed credentials", "40006", withCredentials, [
    "Bearer",
    "Bearer a b",
    `Bearer\t${token}`,
    `Bearer \t${token}`,
    `Bearer ${token},${token}`,
    `Bearer, Bearer ${token}`,
    `Bearer token="${token}"`,
    "Bearer ==",
    "Bearer a=b",
    "Bearer t\xe9st",

    // Reading the file of tokens does not help.
    `Bearer ${tokenDigest(token)}`
  ]),
  ...casesOf("an unknown token", "40102", withCredentials, {
    "of marks": "Bearer -._~+/",
    "a known one and =": `Bearer ${token}=`,
    "a known one, a byte less": `Bearer ${token.slice(0, -1)}`,
    "a known one in capitals": `Bearer ${token.toUpperCase()}`,
    "the digest of a known one": `Bearer ${tokenDigest(token).slice(7)}`,
    "of 8,000 bytes": `Bearer ${"x".repeat(8_000)}`
  })
];

const badKeys: readonly Case[] = casesOf(
  "a malformed Idempotency-Key",
  "40016",
  (key) => withFields(`Idempotency-Key: ${key}\r\n`),
  {
    "an empty key": "",
    "an empty String": '""',
    "a list": "a,b",
    "256 characters": "k".repeat(256),
    "256 characters in quotes": `"${"k".repeat(256)}"`,
    "open quotes": '"a',
    "a parameter": '"a";b=c',
    "a space": "a b",
    "a backslash": "a\\b",
    "a quote within": 'a"b',
    "an unknown escape": '"\\a"',
    "an escape last": '"\\"',
    "a byte over 7F in quotes": '"\xe9"'
  }
);

export const heads: readonly Row[] = [
  ...rowsOf(
    [
      ...codings,
      ...lengths,
      ...hosts,
      ...lines,
      ...connects,
      ...targets,
      ...sections,
      [
        "another method",
        "GET upgraded",
        withoutBody({ method: "GET", fields: upgrade }),
        "40501"
      ],

      // The client may send the body of a refused Expect, or not.
      ...casesOf("another path", "40401", asWritten, {
        "Expect, no body": withoutBody({
          target: "/x",
          fields: "Expect: 100-continue\r\n"
        }),
        "Expect, an empty body": request({
          target: "/x",
          body: "",
          fields: "Expect: 100-continue\r\n"
        }),
        "Expect, a body": request({
          target: "/x",
          fields: "Expect: 100-continue\r\n"
        }),
        "a length over all limits": request({
          target: "/x",
          length: 99_999_999
        })
      })
    ],
    { closes: true }
  ),
  ...rowsOf(lasts, { closes: true, isStored: true }),
  ...rowsOf(unusual, { isStored: true }),
  ...rowsOf([...refused, ...badKeys])
];
