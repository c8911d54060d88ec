/** No token leaves the server: no response, log or file contains one, or tells it from another. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { connect } from "node:net";
import { after, test } from "node:test";
import {
  evil,
  plant,
  request,
  withoutBody,
  type RequestOptions
} from "./hostile.ts";
import { assertError, exchange } from "../support/exchange.ts";
import { startProcess, temporaryFolder, token } from "../support/support.ts";

/**
 * Two tokens that are known and one that is not. No response contains four letters of them. Their
 * first letter is the same: a message may show the one character at which JSON stops.
 */
const [first, second, stranger] = ["Qz9XwVk7", "Qx4ZqYp8", "Qv6KzJj3"].map(
  (text) => text.repeat(5)
) as [string, string, string];
const digestOf = (text: string): string =>
  createHash("sha256").update(text).digest("hex");
const cwd = temporaryFolder();
const digests = [token, second].map(
  (text, index) => `t${index} sha256:${digestOf(text)}\n`
);
writeFileSync(join(cwd, "tokens"), digests.join(""), { mode: 0o600 });
const args = [
  "--tokens",
  "tokens",
  "--idle-timeout",
  "10000",
  "--log-requests",
  "--max-failed-lines",
  "10000"
];
const env = { PLANTS_TOKEN: first };
const server = await startProcess({ cwd, args, env });
after(() => server.end("SIGKILL"));

const withCredentials = (value: string): string =>
  request({ authorization: `Authorization: ${value}\r\n` });

/** A text with a secret before each word, named by what is before it. */
const beforeWords = (text: string): Readonly<Record<string, string>> =>
  Object.fromEntries(
    [...text.matchAll(/\b(?=\w)/g)].map(({ index }) => {
      const before = text.slice(0, index);
      return [JSON.stringify(before), `${before}TOKEN${text.slice(index)}`];
    })
  );

/** Whatever a header section may have; the token in it is another one, which is valid. */
const head = withoutBody({
  target: "http://localhost/plants?a=b",
  type: 'Content-Type: application/json; charset=utf-8; x="y"\r\n',
  fields:
    "Proxy-Authorization: Bearer a\r\nCookie: a=b\r\nContent-Encoding: identity\r\n" +
    "Expect: 100-continue\r\nUpgrade: a\r\nConnection: te\r\nContent-Length: 0\r\n"
});

/** Other header sections: TOKEN in the options of a request. */
const options: Readonly<Record<string, RequestOptions>> = {
  "Authorization": { authorization: "Authorization: Bearer TOKEN\r\n" },
  "another scheme": { authorization: "Authorization: Token TOKEN\r\n" },
  "the scheme": { authorization: "Authorization: TOKEN x\r\n" },
  "a quoted token": { authorization: 'Authorization: Bearer "TOKEN"\r\n' },
  "a list": { authorization: "Authorization: Bearer TOKEN, x\r\n" },
  "a folded line": { authorization: "Authorization: Bearer\r\n TOKEN\r\n" },
  "a second token": { fields: "Authorization: Bearer TOKEN\r\n" },
  "a second Host": { fields: "Host: TOKEN\r\n" },
  "a second Content-Type": { fields: "Content-Type: TOKEN\r\n" },
  "a whole path": { target: "TOKEN" },
  "a fragment": { target: "/plants#TOKEN" },
  "userinfo": { target: "http://TOKEN@localhost/plants" },
  "CONNECT": { line: "CONNECT TOKEN:80 HTTP/1.1", framing: "", body: "" },
  "an invalid name": { fields: "TOKEN : x\r\n" },
  "an invalid value": { fields: "X: TOKEN\0\r\n" },
  "a coding": { coding: "TOKEN, chunked" },
  "a head over its limit": { fields: `X: ${"TOKEN".repeat(500)}\r\n` },
  "too many fields": { fields: "X: TOKEN\r\n".repeat(101) },
  "a body without a token before it": {
    authorization: "",
    type: "",
    length: 40,
    body: "TOKEN"
  }
};
const size = evil.length.toString(16);
const bodies: readonly string[] = [
  ...Object.values(
    beforeWords('{"name":"a","tag":{"b":[true,1.5e7,"\\u0041"]},"c":null}')
  ),
  "access_token=TOKEN",
  `${plant('"TOKEN"')}`,
  '{"TOKEN":1,"TOKEN":2}',
  '{"name":"TOKEN\\x"}',
  '{"name":"TOKEN\xff"}',
  '{"name":"TOKEN\\ud800"}',
  '"TOKEN',
  "TOKEN".repeat(30_000)
];
const chunkedBodies = beforeWords(
  `${size};a="b"\r\n${evil}\r\n0;c\r\nX: y\r\n\r\n`
);
/** Other connections, each with all that is sent in it. */
const others: Readonly<Record<string, readonly string[]>> = {
  "garbage alone": ["TOKEN\r\n\r\n"],
  "garbage after": [`${request()}TOKEN\r\n\r\n`],
  "garbage after, later": [request(), "TOKEN\r\n\r\n"],
  "garbage after a refusal": [`${request({ target: "/x" })}TOKEN\r\n\r\n`],
  "after the last response": [
    request({ fields: "Connection: close\r\n" }) +
      withCredentials("Bearer TOKEN")
  ]
};
const last = withoutBody({ fields: "Connection: close\r\n" });

/** Of each place, the parts of a connection with TOKEN there. */
const places: readonly (readonly [where: string, parts: readonly string[]])[] =
  [
    ...Object.entries(beforeWords(head)),
    ...Object.entries(options).map(
      ([where, each]) => [where, request(each)] as const
    ),
    ...Object.entries(chunkedBodies).map(
      ([where, body]) => [where, request({ coding: "chunked", body })] as const
    ),
    ...bodies.map(
      (body) =>
        [
          body.slice(0, 80),
          // Its length is that of the body with a secret.
          request({ body, length: body.replaceAll("TOKEN", first).length })
        ] as const
    ),
    ...Object.entries(others)
  ].map(([where, parts]) => [where, [...[parts].flat(), last]]);

/** Pieces of the tokens in clear, in Base64 and as a digest, long enough to recognize them. */
const needles = [first, second, stranger]
  .flatMap((secret) => [
    ...Array.from({ length: 8 }, (_, at) => secret.slice(at, at + 4)),
    Buffer.from(secret).toString("base64").slice(0, 12),
    digestOf(secret).slice(0, 12)
  ])
  .map((needle) => needle.toLowerCase());
function assertSilent(text: string, where: string): void {
  const lower = text.toLowerCase();
  const found = needles.find((needle) => lower.includes(needle));
  assert.equal(
    found,
    undefined,
    `${where} contains a token: ${text.slice(0, 400)}`
  );
}
/** Whole responses as text, without the values of Date and X-Request-Id. */
function shown(responses: Awaited<ReturnType<typeof exchange>>): string {
  return JSON.stringify(
    responses.map(
      ({ headers: { date, "x-request-id": id, ...headers }, ...answer }) => ({
        ...answer,
        headers,
        isDated: date !== undefined,
        hasId: id !== undefined
      })
    )
  );
}

test("wherever a token is in a request, no response contains it or differs by it", async (t) => {
  for (const [where, parts] of places) {
    await t.test(where, async () => {
      const responses: string[] = [];
      for (const secret of [first, second, stranger]) {
        const found = await exchange(
          server.port,
          parts.map((part) => part.replaceAll("TOKEN", secret))
        );
        assert.ok(found.length > 0, "no response");
        for (const response of found)
          if (response.status >= 400) assertError(response, [response.status]);
        responses.push(shown(found));
      }
      const [one = "", two = "", three = ""] = responses;
      for (const text of responses) assertSilent(text, where);
      assert.equal(two, one, "two known tokens get different responses");
      // In Authorization a known token opens. Elsewhere known and unknown tokens get the same.
      if (where === "Authorization") assert.notEqual(three, one);
      else
        assert.equal(
          three,
          one,
          "a known and an unknown token get different responses"
        );
    });
  }
});

test("unknown tokens get equal responses, however similar to a known token they are", async () => {
  const similar = [
    first.slice(0, -1),
    `${first}=`,
    `${first}A`,
    first.toLowerCase(),
    digestOf(first),
    second.slice(0, 8) + first.slice(8),
    "A",
    "A".repeat(8_000),
    stranger
  ];
  const responses = await Promise.all(
    similar.map(async (secret) => {
      const bytes = withCredentials(`Bearer ${secret}`);
      return shown(await exchange(server.port, bytes, { answers: 1 }));
    })
  );
  assert.equal(new Set(responses).size, 1, responses.join("\n"));
  assert.match(responses[0] ?? "", /"status":401/);
});

test("a connection that is reset within a token leaves no piece of it", async () => {
  const bytes = withCredentials(`Bearer ${first}`);
  for (const at of [30, bytes.indexOf(first) + 20, bytes.length - 3]) {
    const socket = connect(server.port, "127.0.0.1");
    await new Promise<void>((resolve) =>
      socket.write(bytes.slice(0, at), () => resolve())
    );
    socket.resetAndDestroy();
  }
  await exchange(server.port, request({ authorization: "" }), { answers: 1 });
});

test("no stream and no file of the server contains a piece of a token", async () => {
  assert.equal(await server.end(), 0, server.stderr());
  assert.equal(server.stderr(), "");
  assertSilent(server.stdout(), "stdout");
  const events = server.events();
  assert.ok(
    events.length > 2 * places.length,
    "the control: each request is logged"
  );
  for (const event of events) {
    // The log shows the path of a request with a valid token, as it was sent, and no other path.
    const { req: { url } = {}, token: name } = event;
    assert.equal(url !== undefined, name !== undefined, event.msg);
    assertSilent(JSON.stringify(event).replaceAll(url ?? "\0", ""), "the log");
  }
  assert.deepEqual([...new Set(events.map((event) => event.token))].sort(), [
    "PLANTS_TOKEN",
    "t0",
    "t1",
    undefined
  ]);
  const files = readdirSync(cwd).filter(
    (name) => name !== "tokens" && !name.includes(".closed-")
  );
  assert.deepEqual(files, ["plants.ndjson"]);
  const journal = readFileSync(join(cwd, "plants.ndjson"), "utf8");
  assert.ok(journal.split("\n").length > 10);
  assertSilent(journal, "the journal");
});
