/** How bodies and responses are framed: early responses to raw clients, lengths, real clients. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, test } from "node:test";
import { promisify } from "node:util";
import { request, type RequestOptions } from "../attack/hostile.ts";
import { chunk, coding, good, host, line } from "../support/requests.ts";
import { statusesOf, writeFirst } from "../support/serving.ts";
import { assertError, exchange } from "../support/exchange.ts";
import {
  cleanEnvironment,
  post,
  root,
  startProcess,
  temporaryFolder,
  token
} from "../support/support.ts";
import { seconds } from "../support/until.ts";

const { PLANT_TEST_NODE: node = process.execPath } = process.env;
const timeout = seconds(60);

/** A server with a journal that can be counted. */
async function open() {
  const cwd = temporaryFolder();

  // No connection waits for this time, unless the server has left it open by mistake.
  const args = ["--discard-timeout", "60000"];
  const server = await startProcess({ node, cwd, args });
  after(() => server.end());
  const names = (): readonly string[] =>
    readFileSync(join(cwd, "plants.ndjson"), "utf8")
      .split("\n")
      .slice(1, -1)
      .map((line) => /"name":"([^"]*)"/.exec(line)?.[1] ?? "");
  return { port: server.port, url: server.url, names };
}
const server = await open();

const plant = (name: string): string => `{"id":1,"name":"${name}"}`;

const size = 8 * 1_048_576;
const early: readonly (readonly [
  says: string,
  statuses: readonly number[],
  options: RequestOptions
])[] = [
  ["no token", [401], { authorization: "" }],
  ["a body over the limit", [413], {}],
  ["a chunk over the limit", [413], { coding: "chunked" }],
  ["another expectation", [417], { fields: "Expect: 200-ok\r\n" }],
  ["CONNECT", [405], { line: "CONNECT a:1 HTTP/1.1" }],
  ["garbage", [400], { line: "garbage" }],
  ["HEAD", [405], { method: "HEAD" }],
  [
    "HEAD with two Hosts after a plant",
    [200, 400],
    { method: "HEAD", fields: host }
  ]
];
test(
  "a client that writes 8 MB before it reads sees an early response, also one to HEAD",
  { timeout },
  async (t) => {
    const spaces = " ".repeat(size);
    for (const [says, statuses, options] of early) {
      await t.test(`${says}: ${statuses.join(" and ")}`, async () => {
        const start = options.coding ? `${size.toString(16)}\r\n` : "";
        const upload = request({ ...options, body: start + spaces });
        const before = statuses.length > 1 ? request() : "";
        const text = await writeFirst(
          server.port,
          before + upload,
          statuses.length
        );
        assert.deepEqual(statusesOf(text).slice(0, statuses.length), statuses);
        assert.equal(
          /\r\n\r\n\{"error":\d+,"message":"[^"]+"\}\n/.test(text),
          options.method !== "HEAD"
        );
      });
    }
  }
);

test(
  "an early response is seen although the rest of the body is invalid",
  { timeout },
  async () => {
    for (const body of [
      "x\r\n",
      `${chunk(plant("evil"))}x\r\n`,
      `x${" ".repeat(size)}`
    ]) {
      const [answer, ...more] = await exchange(
        server.port,
        `${line}${host}${coding}\r\n${body}`
      );
      assertError(answer, [401]);
      assert.deepEqual(more, []);
    }
  }
);

test(
  "curl stores a plant by HTTP/1.1, by HTTP/1.0, and where it asks for HTTP/2",
  { timeout },
  async () => {
    const fields = [
      "-H",
      `Authorization: Bearer ${token}`,
      "-H",
      "Content-Type: application/json"
    ];
    for (const version of ["--http1.1", "--http1.0", "--http2"]) {
      const args = [
        "-sS",
        "-w",
        "%{http_code}",
        version,
        ...fields,
        "-d",
        plant(version)
      ];
      const { stdout } = await promisify(execFile)(
        "curl",
        [...args, `${server.url}/plants`],
        { env: cleanEnvironment() }
      );
      assert.equal(stdout.slice(-3), "200");
      assert.equal(server.names().at(-1), version);
    }
  }
);

const stored = post(plant("lenient")).toString();
const chunkedPlant = (trailer: string): string =>
  `${line}${host}${good}${coding}\r\n${chunk(plant("lenient"))}0\r\n${trailer}\r\n`;
/** The README's list: the words of an item, what is sent, the statuses of the responses. */
const lenient = [
  ["Several spaces", stored.replace("POST /plants", "POST  /plants  "), [200]],
  ["CR, LF and CRLF before a request line", `\r\n\r\r\n\n${stored}`, [200]],
  ["`RTSP` in place of `HTTP`", stored.replace("HTTP/1.1", "RTSP/1.0"), [200]],
  [
    "White space before a field's value",
    stored.replace("Host: ", `Host:${" ".repeat(50_000)}`),
    [200]
  ],
  [
    "A tab after `Transfer-Encoding: chunked`",
    chunkedPlant("").replace("ked\r", "ked\t\r"),
    [400]
  ],
  [
    "`Content-Length` or `Transfer-Encoding` in a trailer",
    chunkedPlant("Content-Length: 1\r\n"),
    [400]
  ],
  [
    "`Content-Length` or `Transfer-Encoding` in a trailer",
    chunkedPlant(coding),
    [400]
  ],
  [
    "`Connection: close` in a trailer",
    chunkedPlant("Connection: close\r\n") + stored,
    [200, 400]
  ],
  [
    "A request with `Upgrade`",
    stored.replace("Host", "Connection: upgrade\r\nUpgrade: h2c\r\nHost") +
      stored,
    [200]
  ]
] as const;
const nodes = (process.env["PLANT_TEST_NODES"] ?? "")
  .split(":")
  .filter(Boolean);
for (const each of new Set([node, ...nodes])) {
  test(
    `where Node's parser decides is as the README lists it: ${each}`,
    { timeout },
    async () => {
      const readme = readFileSync(
        join(root, "src", "http", "README.md"),
        "utf8"
      );
      const list =
        /^## Where Node's parser decides\n\n((?:- .*\n)+)/m.exec(readme)?.[1] ??
        "";
      const listed = list.trimEnd().split("\n");
      assert.equal(new Set(lenient.map(([item]) => item)).size, listed.length);
      const running =
        each === node ? server : await startProcess({ node: each });
      for (const [item, bytes, statuses] of lenient) {
        assert.ok(
          listed.some((text) => text.startsWith(`- ${item}`)),
          item
        );
        const answers = await exchange(running.port, bytes, {
          halfClose: true
        });
        assert.deepEqual(
          answers.map(({ status }) => status),
          statuses,
          item
        );
      }
    }
  );
}
