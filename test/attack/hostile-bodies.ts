/** Hostile chunks, expectations, media types, codings, JSON and plants. */
import {
  asWritten,
  casesOf,
  chunk,
  chunks,
  evil,
  known,
  plant,
  request,
  rowsOf,
  utf8,
  withoutBody,
  type Case,
  type Row
} from "./hostile.ts";
import { token } from "../support/support.ts";

const size = evil.length.toString(16);
const limit = 1_048_576;
const ofBody = (body: string): string => request({ body });
const withFields = (fields: string): string => request({ fields });
const ofChunks = (body: string): string => request({ coding: "chunked", body });
/** A chunked body whose first size line is the case. */
const withSize = (first: string): string =>
  ofChunks(`${first}\r\n${evil}\r\n0\r\n\r\n`);
/** A valid chunked request whose trailer is the case. */
const withTrailer = (fields: string): string =>
  ofChunks(`${chunk(evil)}0\r\n${fields}\r\n`);

const broken: readonly Case[] = [
  ...casesOf("RFC 9112, 7.1", "400|413", withSize, {
    "no size": "",
    "a sign": `+${size}`,
    "0x": `0x${size}`,
    "a space first": ` ${size}`,
    "a letter after the size": `${size}g`,
    "over 64 bits": "10000000000000016",
    "too small": "5",
    "too large by two": "18",
    "CR CR LF after the size": `${size}\r`
  }),
  ...casesOf("RFC 9112, 7.1", "400", ofChunks, {
    "LF after the size": chunks(evil).replace("\r\n", "\n"),
    "CR after the size": `${size}\rx${evil}\r\n0\r\n\r\n`,
    "nothing after the data": `${size}\r\n${evil}0\r\n\r\n`,
    "LF ends it": `${chunk(evil)}0\r\n\n`,
    "no end": `${chunk(evil)}0\r\n`,
    "no chunks at all": evil
  }),
  ...casesOf("RFC 9112, 7.1.1", "400", ofChunks, {
    "a hidden chunk": `${size};a\n${evil}\r\n0\r\n\r\n`,
    "CR": `${size};a=b\rx\r\n${evil}\r\n0\r\n\r\n`
  }),
  [
    "chunk extensions over the limit",
    "16,385 bytes",
    withSize(`${size};a=${"x".repeat(16_384)}`),
    "41303"
  ],
  ...casesOf("RFC 9112, 7.1.2", "400", withTrailer, {
    "no field": "x\r\n",
    "obs-fold": "x: y\r\n z\r\n",
    "LF": "x: y\nz: a\r\n",
    "a request for a trailer": "POST /plants HTTP/1.1\r\n"
  }),
  [
    "a trailer over the limit",
    "32 KiB",
    withTrailer(`X: ${"x".repeat(32_768)}\r\n`),
    "43101"
  ],
  ...casesOf("a body over the limit", "41302", ofChunks, {
    "as counted, one chunk": chunks(" ".repeat(limit + 1)),
    "as counted, two chunks": `${chunk(" ".repeat(limit))}1\r\n \r\n0\r\n\r\n`
  })
];

const pieces: readonly Case[] = [
  ...casesOf("RFC 9112, 7.1", "200", ofChunks, {
    "many chunks": `${[...evil.slice(0, -6)].map(chunk).join("")}${chunk(evil.slice(-6))}000\r\n\r\n`,
    "zeros first": `000${chunks(evil)}`
  }),
  [
    "RFC 9112, 7.1.1",
    "extensions",
    ofChunks(`${size};a;b="c;d"\r\n${evil}\r\n0;z=1\r\n\r\n`)
  ],
  ...casesOf("a trailer sets no header", "200", withTrailer, {
    "Host": "X: y\r\nHost: b\r\n",
    "Content-Type": "Expect: x\r\nContent-Type: text/plain\r\n"
  }),
  ...casesOf("within the limits", "200", asWritten, {
    "a trailer of 100 fields": withTrailer("a:\r\n".repeat(100)),
    "extensions of 20 KiB on many chunks": ofChunks(
      `1;a=${"x".repeat(200)}\r\n \r\n`.repeat(100) + chunks(evil)
    ),
    "extensions of 16,384 bytes on one chunk": withSize(
      `${size};a=${"x".repeat(16_383)}`
    ),
    "a body of 1 MiB": ofBody(evil.padEnd(limit)),
    "a body of 1 MiB in chunks": ofChunks(chunks(evil.padEnd(limit)))
  })
];

const types: readonly (readonly [
  expected: string,
  types: readonly string[]
])[] = [
  [
    "200",
    [
      "application/json",
      "Application/JSON",
      'application/json; charset="utf-8"',
      'application/json \t;\t CHARSET="Utf-8"',
      'application/json; charset="ut\\f-8"',
      "application/json; x=y",
      'application/json; x="; charset=utf-16"',
      'application/json; x="\\"; charset=utf-16; y="',
      "application/json;",
      "application/json;; charset=utf-8;",
      `application/json${";".repeat(8_000)}`,
      `application/json; x="${"\\".repeat(8_000)}"`
    ]
  ],
  [
    "41502",
    [
      "application/json; charset=utf-16",
      "application/json; charset=utf8",
      'application/json; charset=""',
      "application/json; charset=utf-8; charset=utf-8",
      "application/json; x=y; charset=utf-16"
    ]
  ],
  [
    "41501",
    [
      "application/json; charset=",
      'application/json; charset="utf-8',
      'application/json; charset=utf-8"',
      "application/json; charset =utf-8",
      "application/json; x",
      "application/json; x=\xe4",
      "application/jsonp",
      "application /json",
      "text/plain",
      "",
      `application/json; x="${"\\".repeat(7_999)}"`
    ]
  ]
];
const codings: Readonly<Record<string, readonly string[]>> = {
  200: ["IDENTITY"],
  41503: ["gzip", "identity, gzip", "identity, identity", ""]
};
const contents: readonly Case[] = [
  ["Content-Type", "none", request({ type: "" }), "41501"],
  ...types.flatMap(([expected, values]) =>
    values.map((type): Case => [
      "Content-Type",
      `${type.slice(0, 50)} of ${type.length}`,
      request({ type: `Content-Type: ${type}\r\n` }),
      expected
    ])
  ),
  ...Object.entries(codings).flatMap(([expected, values]) =>
    values.map((coding): Case => [
      "Content-Encoding",
      JSON.stringify(coding),
      withFields(`Content-Encoding: ${coding}\r\n`),
      expected
    ])
  ),
  [
    "Content-Encoding",
    "two lines",
    withFields("Content-Encoding: identity\r\nContent-Encoding: gzip\r\n"),
    "41503"
  ],
  [
    "a body over the limit",
    "by Content-Length",
    ofBody(evil.padEnd(limit + 1)),
    "413"
  ],
  [
    "no credentials",
    "a token in a trailer",
    request({
      authorization: "",
      coding: "chunked",
      body: `${chunk(evil)}0\r\n${known}\r\n`
    }),
    "401"
  ]
];

/** The client may send the body or not when its Expect is refused: the framing is in doubt. */
const expectations: readonly Case[] = [
  ...casesOf(
    "another expectation",
    "41701",
    (value) => withFields(`Expect: ${value}\r\n`),
    {
      "200-ok": "200-ok",
      "100-continue and another": "100-continue, x=y",
      "two lines": "100-continue\r\nExpect: x"
    }
  ),
  [
    "another expectation",
    "in HTTP/1.0",
    request({ version: "HTTP/1.0", fields: "Expect: x\r\n" }),
    "41701"
  ]
];

/** One of each kind: test/unit/json.test.ts, plant.test.ts and schema.test.ts have the others. */
const texts: readonly (readonly [
  clause: string,
  error: string,
  bodies: readonly string[]
])[] = [
  ["no body", "40008", [""]],
  ["RFC 8259, 2", "40010", [evil + evil, `${evil}\0`]],
  ["RFC 8259, 3 to 7", "40010", ['{"id":1,}', `access_token=${token}`]],
  ["RFC 8259, 8.1", "40010", [`\xef\xbb\xbf${evil}`]],
  ["RFC 7493, 2.1", "40009", ['{"name":"\xff"}', '"\xe2\x82']],
  ["RFC 7493, 2.1", "40012", ['{"id":1,"name":"\\udc00\\ud800"}']],
  ["RFC 7493, 2.3", "40011", ['{"id":1,"i\\u0064":2,"name":"a"}']],
  [
    "nesting over 64 levels",
    "40013",
    [`${"[".repeat(65)}${"]".repeat(65)}`, '{"a":'.repeat(100_000)]
  ],
  ["not a NewPlant", "40014", ["null", "{}", `{"__proto__":${evil}}`]],
  [
    "an id that is not an int64",
    "40014",
    ["1.5", "9223372036854775808", `1e${"9".repeat(100_000)}`].map(plant)
  ]
];

const ids: readonly (readonly [id: string, stored: string])[] = [
  ["9007199254740993", "9007199254740993"],
  ["9223372036854775807", "9223372036854775807"],
  ["-9223372036854775808", "-9223372036854775808"],
  ["1e2", "100"],
  [`1${"0".repeat(100_000)}e-100000`, "1"]
];
const name = evil.slice(8, -1);
const plants: readonly Case[] = [
  ...ids.map(([id, stored]): Case => [
    "an id is an int64",
    `${id.slice(0, 40)} of ${id.length}`,
    ofBody(plant(id)),
    "200",
    stored
  ]),
  ...["__proto__", "then", "\\u005f_proto__", ""].map((member): Case => [
    "names that JavaScript gives a meaning",
    JSON.stringify(member),
    ofBody(`{"${member}":{"id":"x","tag":5},"id":1,${name}}`)
  ]),
  ...casesOf("RFC 8259", "200", ofBody, {
    "an id and a name within": `{"x":{"id":2,"name":"a"},"id":1,${name},"y":{"id":3}}`,
    "64 levels": `{"id":1,${name},"x":${"[".repeat(63)}${"]".repeat(63)}}`,
    "white space": `\r\n\t { "id" : 1 , ${name} }\n`,
    "escaped names": `{"\\u0069\\u0064":1,${name}}`,
    "a noncharacter": utf8(`{"id":1,${name},"tag":"\uffff\\ufdd0"}`)
  })
];

const isServed = ([, , , expected = "200"]: Case): boolean =>
  expected === "200";
const closing = "Connection: close\r\n";
export const bodies: readonly Row[] = [
  ...rowsOf(
    [
      ...broken,
      ...expectations,
      [
        "a trailer over the limit",
        "101 fields",
        withTrailer("a:\r\n".repeat(101)),
        "43102"
      ],
      [
        "RFC 9112, 9.6",
        "malformed JSON, and close",
        request({ body: "{", fields: closing }),
        "40010"
      ],
      [
        "RFC 9112, 9.6",
        "no body, and close",
        withoutBody({ fields: closing }),
        "40008"
      ],
      [
        "RFC 9112, 9.3",
        "in HTTP/1.0",
        request({ version: "HTTP/1.0", body: "{" }),
        "40010"
      ]
    ],
    { closes: true }
  ),
  ...rowsOf([...pieces, ...contents.filter(isServed), ...plants], {
    isStored: true
  }),
  ...rowsOf([
    ...contents.filter((each) => !isServed(each)),
    ...texts.flatMap(([clause, error, all]) =>
      all.map((body): Case => [
        clause,
        `${JSON.stringify(body.slice(0, 50))} of ${body.length}`,
        ofBody(body),
        error
      ])
    ),
    ...casesOf("no body", "40008", asWritten, {
      "without a length": withoutBody({}),
      "no chunk but the last": ofChunks("0\r\n\r\n")
    }),
    ["malformed JSON", "in a chunk", ofChunks(chunks("{")), "40010"]
  ])
];
