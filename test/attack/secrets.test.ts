/** No token leaves the server: no answer, stream or file has it, or tells it from another. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { connect } from "node:net";
import { after, test } from "node:test";
import {
  authorized, bare, chunk, chunked, chunks, evil, framed, good, host, hosted, length, line, lined,
  plant, sent, targeted, typed, withFields,
} from "./hostile.ts";
import { assertError, exchange, start, temporaryFolder, token } from "../support/support.ts";

/** Two that are known, one that is not: no four letters of them stand in any answer of ours. The
 * first letter is the same: where JSON stops, the message shows the one character that is there. */
const [first, second, stranger] = ["Qz9XwVk7", "Qx4ZqYp8", "Qv6KzJj3"].map((text) =>
  text.repeat(5)) as [string, string, string];
const digestOf = (text: string): string => createHash("sha256").update(text).digest("hex");
const cwd = temporaryFolder();
const digests = [token, first, second].map((text, index) => `t${index} sha256:${digestOf(text)}\n`);
writeFileSync(join(cwd, "tokens"), digests.join(""), { mode: 0o600 });
const args = ["--tokens", "tokens", "--idle-timeout", "3000", "--log-requests"];
const server = await start({ cwd, args });
after(() => server.end("SIGKILL"));

/** Where a token can stand in what is sent. All but Authorization's have another, good one. */
type Place = readonly [where: string, bytes: (secret: string) => string | readonly string[]];
const places: readonly Place[] = [
  ["Authorization", (secret) => authorized(`Authorization: Bearer ${secret}\r\n`)],
  ["Authorization, another scheme", (secret) => authorized(`Authorization: Token ${secret}\r\n`)],
  ["Authorization, no scheme", (secret) => authorized(`Authorization: ${secret}\r\n`)],
  ["Authorization, the scheme", (secret) => authorized(`Authorization: ${secret} x\r\n`)],
  ["Authorization, quoted", (secret) => authorized(`Authorization: Bearer "${secret}"\r\n`)],
  ["Authorization, a list", (secret) => authorized(`Authorization: Bearer ${secret}, x\r\n`)],
  ["Authorization, the second", (secret) => withFields(`Authorization: Bearer ${secret}\r\n`)],
  ["Authorization, folded", (secret) => authorized(`Authorization: Bearer\r\n ${secret}\r\n`)],
  ["Proxy-Authorization", (secret) => withFields(`Proxy-Authorization: Bearer ${secret}\r\n`)],
  ["Cookie", (secret) => withFields(`Cookie: token=${secret}\r\n`)],
  ["a path", (secret) => targeted(`/plants/${secret}`)],
  ["a path that is all", (secret) => targeted(secret)],
  ["a query", (secret) => targeted(`/plants?access_token=${secret}`)],
  ["a fragment", (secret) => targeted(`/plants#${secret}`)],
  ["userinfo", (secret) => targeted(`http://${secret}@localhost/plants`)],
  ["an absolute form's host", (secret) => targeted(`http://${secret}/plants`)],
  ["an absolute form's path", (secret) => targeted(`http://localhost/${secret}`)],
  ["a scheme", (secret) => targeted(`${secret}://localhost/plants`)],
  ["CONNECT's host", (secret) => bare(`CONNECT ${secret}:80 HTTP/1.1`)],
  ["CONNECT's target", (secret) => bare(`CONNECT /${secret} HTTP/1.1`)],
  ["the method", (secret) => lined(`${secret} /plants HTTP/1.1`)],
  ["the version", (secret) => lined(`POST /plants ${secret}`)],
  ["behind HTTP/", (secret) => lined(`POST /plants HTTP/${secret}`)],
  ["behind the version", (secret) => lined(`POST /plants HTTP/1.1 ${secret}`)],
  ["a name", (secret) => withFields(`${secret}: x\r\n`)],
  ["a name that is none", (secret) => withFields(`${secret} : x\r\n`)],
  ["a value", (secret) => withFields(`X: ${secret}\r\n`)],
  ["a value that is none", (secret) => withFields(`X: ${secret}\0\r\n`)],
  ["a line with no colon", (secret) => withFields(`${secret}\r\n`)],
  ["a folded line", (secret) => withFields(`X: y\r\n ${secret}\r\n`)],
  ["Host", (secret) => hosted(`Host: ${secret}\r\n`)],
  ["Host that is none", (secret) => hosted(`Host: ${secret}/\r\n`)],
  ["a second Host", (secret) => withFields(`Host: ${secret}\r\n`)],
  ["Content-Type", (secret) => typed(secret)],
  ["Content-Type's subtype", (secret) => typed(`application/${secret}`)],
  ["Content-Type's charset", (secret) => typed(`application/json; charset=${secret}`)],
  ["Content-Type's parameter", (secret) => typed(`application/json; ${secret}=x`)],
  ["Content-Type's bad parameter", (secret) => typed(`application/json; ${secret}`)],
  ["a second Content-Type", (secret) => withFields(`Content-Type: ${secret}\r\n`)],
  ["Content-Encoding", (secret) => withFields(`Content-Encoding: ${secret}\r\n`)],
  ["Content-Length", (secret) => framed(`Content-Length: ${secret}\r\n`)],
  ["Transfer-Encoding", (secret) => framed(`Transfer-Encoding: ${secret}\r\n`, chunks(evil))],
  ["Transfer-Encoding, first",
    (secret) => framed(`Transfer-Encoding: ${secret}, chunked\r\n`, chunks(evil))],
  ["Expect", (secret) => withFields(`Expect: ${secret}\r\n`)],
  ["Upgrade", (secret) => withFields(`Connection: upgrade\r\nUpgrade: ${secret}\r\n`)],
  ["Connection", (secret) => withFields(`Connection: ${secret}\r\n`)],
  ["a head over its limit", (secret) => withFields(`X: ${secret.repeat(500)}\r\n`)],
  ["too many fields", (secret) => withFields(`X: ${secret}\r\n`.repeat(101))],
  ["a chunk's size", (secret) => chunked(`${secret}\r\n${evil}\r\n0\r\n\r\n`)],
  ["a chunk's extension",
    (secret) => chunked(`${evil.length.toString(16)};a=${secret}\r\n${evil}\r\n0\r\n\r\n`)],
  ["a chunk's bad extension",
    (secret) => chunked(`${evil.length.toString(16)};a=${secret}\0\r\n${evil}\r\n0\r\n\r\n`)],
  ["behind a chunk", (secret) => chunked(`${chunk(evil).slice(0, -2)}${secret}\r\n0\r\n\r\n`)],
  ["a trailer", (secret) => chunked(`${chunk(evil)}0\r\nAuthorization: Bearer ${secret}\r\n\r\n`)],
  ["a bad trailer", (secret) => chunked(`${chunk(evil)}0\r\n${secret}\r\n\r\n`)],
  ["a body that is no JSON", (secret) => sent(secret)],
  ["a form", (secret) => sent(`access_token=${secret}`)],
  ["where JSON stops", (secret) => sent(`{"id":1,"name":"a"}${secret}`)],
  ["a bare word of JSON", (secret) => sent(`{"id":1,"name":${secret}}`)],
  ["a bare member name", (secret) => sent(`{${secret}:1}`)],
  ["a member name", (secret) => sent(`{"id":1,"name":"a","${secret}":1}`)],
  ["a member name, twice", (secret) => sent(`{"${secret}":1,"${secret}":2}`)],
  ["a member's value", (secret) => sent(`{"id":1,"name":"a","x":"${secret}"}`)],
  ["id", (secret) => sent(plant(`"${secret}"`))],
  ["name, and no id", (secret) => sent(`{"name":"${secret}"}`)],
  ["name within an array", (secret) => sent(`{"id":1,"name":["${secret}"]}`)],
  ["tag within an object", (secret) => sent(`{"id":1,"name":"a","tag":{"${secret}":1}}`)],
  ["a bad escape", (secret) => sent(`{"id":1,"name":"${secret}\\x"}`)],
  ["no UTF-8", (secret) => sent(`{"id":1,"name":"${secret}\xff"}`)],
  ["half a pair", (secret) => sent(`{"id":1,"name":"${secret}\\ud800"}`)],
  ["an open string", (secret) => sent(`"${secret}`)],
  ["a body over its limit", (secret) => sent(secret.repeat(30_000))],
  ["a body that is not asked for", 
    (secret) => `${line}\r\n${host}Content-Length: 40\r\n\r\n${secret}`],
  ["garbage alone", (secret) => `${secret}\r\n\r\n`],
  ["garbage behind", (secret) => `${framed(length)}${secret}\r\n\r\n`],
  ["garbage behind, later", (secret) => [framed(length), `${secret}\r\n\r\n`]],
  ["garbage behind a refusal", (secret) => `${targeted("/x")}${secret}\r\n\r\n`],
  ["behind a last answer", (secret) => withFields("Connection: close\r\n")
    + authorized(`Authorization: Bearer ${secret}\r\n`)],
];

/** Every piece of a token that is long enough to be one, in clear, in Base64 and as a digest. */
const needles = [first, second, stranger].flatMap((secret) => [
  ...Array.from({ length: 8 }, (_, at) => secret.slice(at, at + 4)),
  Buffer.from(secret).toString("base64").slice(0, 12), digestOf(secret).slice(0, 12),
]);
function assertSilent(text: string, where: string): void {
  const found = needles.find((needle) => text.toLowerCase().includes(needle.toLowerCase()));
  assert.equal(found, undefined, `${where} tells of a token: ${text.slice(0, 400)}`);
}
/** The whole answer as text, but for what the clock, the journal and the log count. */
function shown(answers: Awaited<ReturnType<typeof exchange>>): string {
  return JSON.stringify(answers.map(({ headers: { date, "x-request-id": id, ...headers },
    ...answer }) => ({ ...answer, headers, isDated: date !== undefined, hasId: id !== undefined })));
}

test("wherever a token stands, no answer has it, and none differs by it", async (t) => {
  for (const [where, build] of places) {
    await t.test(where, async () => {
      const answers: string[] = [];
      for (const secret of [first, second, stranger]) {
        const bytes = build(secret);
        const last = bare(line, `${good}Connection: close\r\n`);
        const parts = typeof bytes === "string" ? [bytes, last] : bytes;
        const found = await exchange(server.port, parts);
        assert.ok(found.length > 0, "no answer came");
        for (const answer of found) if (answer.status >= 400) assertError(answer, [answer.status]);
        answers.push(shown(found));
      }
      const [one = "", two = "", three = ""] = answers;
      for (const text of answers) assertSilent(text, where);
      assert.equal(two, one, "two known tokens are told apart");
      // In Authorization a good token opens, as it should; elsewhere good and bad are the same.
      if (where === "Authorization") assert.notEqual(three, one);
      else assert.equal(three, one, "a known token is told from another");
    });
  }
});

test("unknown tokens are answered alike, however near to a known one they come", async () => {
  const near = [first.slice(0, -1), `${first}=`, `${first}A`, first.toLowerCase(), digestOf(first),
    second.slice(0, 8) + first.slice(8), "A", "A".repeat(8_000), stranger];
  const answers = await Promise.all(near.map(async (secret) => {
    const bytes = authorized(`Authorization: Bearer ${secret}\r\n`);
    return shown(await exchange(server.port, bytes, { answers: 1 }));
  }));
  assert.equal(new Set(answers).size, 1, answers.join("\n"));
  assert.match(answers[0] ?? "", /40102/);
});

test("a connection that dies in a token's midst says nothing of it", async () => {
  const cut = authorized(`Authorization: Bearer ${first}\r\n`);
  for (const at of [30, cut.indexOf(first) + 20, cut.length - 3]) {
    const socket = connect(server.port, "127.0.0.1");
    await new Promise<void>((resolve) => socket.write(cut.slice(0, at), () => resolve()));
    socket.resetAndDestroy();
  }
  await exchange(server.port, authorized(""), { answers: 1 });
});

test("neither the streams nor any file of the server has a piece of a token", async () => {
  assert.equal(await server.end(), 0, server.stderr());
  assert.equal(server.stderr(), "");
  assertSilent(server.stdout(), "stdout");
  const events = server.events();
  assert.ok(events.length > 2 * places.length, "the control: each request is logged");
  for (const event of events) {
    // Who holds a token has the path shown as it was sent; nobody else has.
    const { req: { url } = {}, token: name } = event;
    assert.equal(url !== undefined, name !== undefined, event.msg);
    assertSilent(JSON.stringify(event).replaceAll(url ?? "\0", ""), "the log");
  }
  assert.deepEqual([...new Set(events.map((event) => event.token))].sort(), ["t0", "t1", "t2",
    undefined]);
  const files = readdirSync(cwd).filter((name) => name !== "tokens");
  assert.deepEqual(files, ["plants.ndjson"]);
  const journal = readFileSync(join(cwd, "plants.ndjson"), "utf8");
  assert.ok(journal.split("\n").length > 10);
  assertSilent(journal, "the journal");
});

test("a token of the environment is in no stream and no file either", async () => {
  const folder = temporaryFolder();
  const running = await start({ cwd: folder, env: { PLANTS_TOKEN: first } });
  const bytes = authorized(`Authorization: Bearer ${first}\r\n`);
  assert.equal((await exchange(running.port, bytes, { answers: 1 }))[0]?.status, 200);
  running.process.kill("SIGHUP");
  await exchange(running.port, bytes, { answers: 1 });
  assert.equal(await running.end(), 0);
  const journal = readFileSync(join(folder, "plants.ndjson"), "utf8");
  const log = JSON.stringify(running.events());
  assert.ok(log.includes("PLANTS_TOKEN"), "the control: its name is");
  for (const text of [running.stdout(), log, journal]) assertSilent(text, "it");
});
