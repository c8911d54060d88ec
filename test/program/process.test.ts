/** What the process does when something goes wrong that no request can be blamed for. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { once } from "node:events";
import {
  existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { openJournal, tokenDigest } from "../../src/index.ts";
import { exchange, post, run, start, temporaryFolder } from "../support/support.ts";

/** What waits for a line that does not come fails. */
const bounded = { timeout: 30_000 };
const plant = (id: number): Buffer => post(`{"id":${id},"name":"Fern"}`);

test("a fault of ours ends with 70 and one line, without a stack", async () => {
  const fault = "process.once('SIGUSR2', () => { throw new Error('boom'); })";
  const server = await start({ nodeArgs: ["--import", `data:text/javascript,${fault}`] });
  assert.equal(await server.end("SIGUSR2"), 70);
  assert.equal(server.stderr(), "plant-store: internal error: boom\n");
});

test("a command that fails without the system's fault ends with 70", async () => {
  const fault = "JSON.stringify = () => { throw new Error('boom'); }";
  const env = { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(fault)}` };
  const { code, stdout, stderr } = await run(["openapi"], env);
  assert.deepEqual([code, stdout, stderr], [70, "", "plant-store: internal error: boom\n"]);
});

test("a program that cannot listen leaves nothing but its journal", async () => {
  const cwd = temporaryFolder();
  const args = ["--socket", join(cwd, "no", "socket")];
  const { code, stderr } = await run(args, {}, cwd);
  assert.deepEqual([code, readdirSync(cwd)], [69, ["plants.ndjson"]]);
  const folder = join(cwd, "no");
  assert.equal(stderr,
    `plant-store: cannot listen: ${join(folder, "socket")}: there is no folder ${folder}\n`);
});

test("a connection that can't be accepted is told, and the others are served", async () => {
  // As some systems tell it; libuv keeps it to itself on Linux.
  const script = `import { Server } from "node:http";
    import { Server as NetServer } from "node:net";
    Server.prototype.listen = function (...args) {
      process.once("SIGUSR2", () => this.emit("error", new Error("accept ENOBUFS")));
      return NetServer.prototype.listen.apply(this, args);
    };`;
  const nodeArgs = ["--import", `data:text/javascript,${encodeURIComponent(script)}`];
  const server = await start({ nodeArgs });
  const { stderr } = server.process;
  assert.ok(stderr);
  server.process.kill("SIGUSR2");
  while (server.stderr() === "") await once(stderr, "data");
  assert.equal(server.stderr(), "plant-store: accept ENOBUFS\n");
  const [answer] = await exchange(server.port, plant(1), { answers: 1 });
  assert.equal(answer?.status, 200);
  assert.equal(await server.end(), 0);
});

test("a file that is moved, and not rotated, fails for good: 503, and the end is 74", async () => {
  const cwd = temporaryFolder();
  const server = await start({ cwd, args: ["--rotation-timeout", "100"] });
  renameSync(join(cwd, "plants.ndjson"), join(cwd, "old.ndjson"));
  const [answer] = await exchange(server.port, plant(1), { answers: 1 });
  assert.equal(answer?.status, 503);
  assert.match(answer.body, /^\{"error":50302,/);
  await once(server.process, "exit");
  assert.equal(server.process.exitCode, 74);
  assert.match(server.stderr(), /^plant-store: .*plants\.ndjson: at offset \d+, the journal .*was renamed, /);
});

test("a name in the place of a lock or a copy that is no such thing stays as it is", async () => {
  const cwd = temporaryFolder();
  const socket = join(cwd, "socket");
  writeFileSync(socket, "a file of somebody's");
  await assert.rejects(start({ cwd, args: ["--socket", socket] }), /cannot listen/);
  assert.equal(readFileSync(socket, "utf8"), "a file of somebody's");
});

test("a journal that fails while the program ends still makes the end 74", async () => {
  const cwd = temporaryFolder();
  const server = await start({ cwd, args: ["--rotation-timeout", "300"] });
  renameSync(join(cwd, "plants.ndjson"), join(cwd, "old.ndjson"));
  const answered = exchange(server.port, plant(1), { answers: 1 });
  // The plant is written, and waits for a rotation that does not come, when the end is asked for.
  while (!readFileSync(join(cwd, "old.ndjson"), "utf8").includes('"seq":1')) {
    await exchange(server.port, "GET / HTTP/1.1\r\nHost: a\r\n\r\n", { answers: 1 });
  }
  assert.equal(await server.end(), 74);
  assert.equal((await answered)[0]?.status, 503);
});

test("of a SIGHUP each half does its work, whatever becomes of the other", bounded, async (t) => {
  const cwd = temporaryFolder();
  const [path, tokens] = [join(cwd, "plants.ndjson"), join(cwd, "tokens")];
  const write = (text: string): void => writeFileSync(tokens, text, { mode: 0o600 });
  write(`alice ${tokenDigest("one")}\n`);
  const server = await start({ cwd, args: ["--tokens", "tokens"] });
  t.after(() => server.process.kill("SIGKILL"));
  const { stderr } = server.process;
  assert.ok(stderr);
  const told = async (count: number): Promise<void> => {
    server.process.kill("SIGHUP");
    while (server.stderr().split("\n").length <= count) await once(stderr, "data");
  };
  renameSync(path, `${path}.1`);
  write("no digest\n");
  await told(2);
  renameSync(path, `${path}.2`);
  mkdirSync(path);
  write(`alice ${tokenDigest("two")}\n`);
  await told(4);
  const withTwo = plant(1).toString().replace("test-token", "two");
  assert.equal((await exchange(server.port, withTwo, { answers: 1 }))[0]?.status, 200);
  assert.match(readFileSync(`${path}.2`, "utf8"), /"name":"Fern"/);
  assert.equal(await server.end(), 0);
  assert.match(server.stderr(), new RegExp("^plant-store: tokens file tokens: line 1: .*; the old "
    + "tokens stay\nplant-store: rotated: now writing to .*/plants\\.ndjson\n"
    + "plant-store: tokens reloaded\nplant-store: .*plants\\.ndjson: is not a regular file; still writing to the old file\n$"));
});

test("a SIGHUP does not take a deleted journal for a renamed one", async () => {
  const cwd = temporaryFolder();
  const server = await start({ cwd });
  await exchange(server.port, plant(1), { answers: 1 });
  rmSync(join(cwd, "plants.ndjson"));
  assert.equal(await server.end("SIGHUP"), 74);
  assert.match(server.stderr(), /it was deleted while in use/);
  assert.equal(existsSync(join(cwd, "plants.ndjson")), false);
});

test("a copy that can't be looked at is no missing copy: the journal is not opened", async () => {
  const cwd = temporaryFolder();
  const path = join(cwd, "plants.ndjson");
  await (await openJournal(path)).close();
  symlinkSync("plants.ndjson.rewrite", `${path}.rewrite`);
  await assert.rejects(openJournal(path), { code: "unreadable", exitCode: 65 });
});

test("verify refuses what is not a regular file, and does not wait for it", async () => {
  const cwd = temporaryFolder();
  execFileSync("mkfifo", [join(cwd, "fifo")]);
  const { code, stderr } = await run(["verify", "fifo"], {}, cwd);
  assert.deepEqual([code, stderr], [74, "plant-store: fifo: is not a regular file\n"]);
});

test("a library's journal stays where it was opened", async () => {
  const before = process.cwd();
  const cwd = temporaryFolder();
  process.chdir(cwd);
  const journal = await openJournal("plants.ndjson");
  process.chdir(before);
  journal.once("failed", () => assert.fail("nothing fails"));
  renameSync(join(cwd, "plants.ndjson"), join(cwd, "old.ndjson"));
  assert.equal(await journal.rotate(), true);
  assert.ok(existsSync(join(cwd, "plants.ndjson")));
  await journal.append({ id: 1n, name: "Fern" });
  await journal.close();
  await (await openJournal(join(cwd, "plants.ndjson"))).close();
});
