/** Signals: during the start, twice, at a terminal's end; and the exit codes. */
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { Server } from "node:http";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { tokenDigest } from "../../src/http/bearer.ts";
import { begin, start } from "../support/in-process.ts";
import {
  finish,
  logged,
  preload,
  statusOf,
  timeout,
  underWay,
  withToken
} from "../support/operator.ts";
import { readAnswers } from "../support/exchange.ts";
import {
  cleanEnvironment,
  program,
  startProcess,
  temporaryFolder,
  token
} from "../support/support.ts";

/** Starts the program in this process, which it does not end: it tells the codes that it would end with. */
async function startForEnd(args: readonly string[] = [], cwd?: string) {
  const codes: number[] = [];
  const exit = (code: number) => codes.push(code) as never;
  const server = await start({ args, cwd, host: { exit } });
  return { server, codes, socket: await underWay(server) };
}

for (const [first, second, millis, codes] of [
  ["SIGINT", "SIGINT", 999, []],
  ["SIGTERM", "SIGTERM", 999, []],
  ["SIGINT", "SIGINT", 1_000, [69]],
  ["SIGTERM", "SIGTERM", 1_000, [69]],
  ["SIGINT", "SIGTERM", 0, [69]],
  ["SIGTERM", "SIGINT", 0, [69]]
] as const) {
  test(`${second} ${millis} ms after ${first} ${codes.length === 0 ? "is a repetition: the response in progress still comes" : "ends at once"}`, async (t) => {
    const ending = await startForEnd();
    for (const [name, now] of [
      [first, 0],
      [first, 0],
      [second, millis]
    ] as const) {
      t.mock.method(performance, "now", () => now);
      ending.server.signal(name);
    }
    assert.deepEqual(ending.codes, codes);
    assert.deepEqual(await finish(ending.socket), [200]);
  });
}

test("a process that ends at once, with 69, loses the response in progress", async () => {
  // Not by the deadline, which ends with 69, too.
  const server = await startProcess({ args: ["--drain-timeout", "600000"] });
  const socket = await underWay(server);
  const answers = readAnswers(socket, 1);
  server.signal("SIGTERM");
  await logged(server, "draining: SIGTERM");
  assert.equal(await server.end("SIGINT"), 69);
  assert.deepEqual(await answers, []);
});

/** Starts the program. Just before it listens, the files change and it gets a signal. */
async function startWith(
  t: TestContext,
  name: NodeJS.Signals,
  cwd: string,
  args: readonly string[] = [],
  change = (): void => undefined
) {
  const { listen } = Server.prototype;
  t.mock.method(
    Server.prototype,
    "listen",
    function (this: Server, at: object) {
      change();
      server.signal(name);
      setImmediate(() => listen.call(this, at));
      return this;
    }
  );
  const server = begin(
    ["--port", "0", ...args],
    { PLANTS_TOKEN: token },
    { cwd }
  );
  await server.listening();
  return server;
}

test("a SIGHUP during the start is done when the start is", async (t) => {
  const cwd = temporaryFolder();
  const line = (bearer: string): string => `alice ${tokenDigest(bearer)}\n`;
  writeFileSync(join(cwd, "tokens"), line("revoked"), { mode: 0o600 });
  const server = await startWith(
    t,
    "SIGHUP",
    cwd,
    ["--tokens", "tokens"],
    () => {
      writeFileSync(join(cwd, "tokens"), line("new"));
      renameSync(join(cwd, "plants.ndjson"), join(cwd, "old.ndjson"));
    }
  );
  assert.equal(await statusOf(server, withToken("revoked")), 401);
  assert.equal(await statusOf(server, withToken("new")), 200);
  assert.equal(await server.end(), 0);
  assert.equal(
    server.stderr(),
    "plant-store: tokens reloaded\n" +
      `plant-store: rotated: now writing to ${join(cwd, "plants.ndjson")}\n`
  );
  assert.match(
    readFileSync(join(cwd, "plants.ndjson"), "utf8"),
    /"name":"Fern"/
  );
});

test("a server whose terminal was closed while the program loaded ends", async () => {
  const server = await start({ host: { isHungUp: () => true } });
  assert.equal(await server.ended, 0);
  await logged(server, "draining: the terminal is closed");
});

/** Sends SIGHUP when the first file of the program runs, before it loads another one. */
const hungUp = preload(`
  const { on } = process;
  process.on = (event, listener) => {
    if (event === "exit") process.kill(process.pid, "SIGHUP");
    return on.call(process, event, listener);
  };`);

test("a SIGHUP while the program is loaded does not end the server, and ends other commands", async () => {
  const server = await startProcess({ nodeArgs: hungUp });
  assert.equal(await statusOf(server), 200);
  assert.equal(await server.end(), 0);
  const { signal: end } = spawnSync(
    process.execPath,
    [...hungUp, program, "token"],
    { env: cleanEnvironment(), timeout }
  );
  assert.equal(end, "SIGHUP");
});

test("SIGTERM during the start ends the program with 0 when the start is done", async (t) => {
  const cwd = temporaryFolder();
  const server = await startWith(t, "SIGTERM", cwd);
  assert.equal(await server.ended, 0);
  assert.equal(server.stderr(), "");
  assert.ok(existsSync(join(cwd, "plants.ndjson")));
});

test("SIGUSR1 opens no debugger, and SIGUSR2 does not end the program", async () => {
  const server = await startProcess({ nodeArgs: ["--inspect-port=0"] });
  server.signal("SIGUSR1");
  server.signal("SIGUSR2");
  assert.equal(await statusOf(server), 200);
  assert.equal(await server.end(), 0);
  assert.equal(server.stderr(), "");
});

test("the control: a program that does not listen opens the debugger at SIGUSR1, dies of SIGUSR2", async () => {
  const idle = "setInterval(() => undefined, 1_000); console.log('runs')";
  const child = spawn(process.execPath, ["--inspect-port=0", "-e", idle]);
  await once(child.stdout, "data");
  child.kill("SIGUSR1");
  assert.match(`${await once(child.stderr, "data")}`, /^Debugger listening/);
  child.kill("SIGUSR2");
  assert.deepEqual(await once(child, "exit"), [null, "SIGUSR2"]);
});

for (const [what, isFailing, deadline, names, code, cut] of [
  [
    "the drain's deadline",
    false,
    "10",
    ["SIGTERM"],
    69,
    /^plant-store: ended at once, with 69\n$/
  ],
  [
    "the drain's deadline",
    true,
    "10",
    [],
    74,
    /was renamed.*\n.*ended at once, with 74\n/
  ],
  ["a second signal", true, "60000", ["SIGTERM", "SIGINT"], 74, /was renamed/]
] as const) {
  test(`${what} cuts requests off: ${code} ${isFailing ? "after a journal has failed" : "and a line of the log"}`, async () => {
    const cwd = temporaryFolder();
    const args = ["--rotation-timeout", "10", "--drain-timeout", deadline];
    const { server, codes, socket } = await startForEnd(args, cwd);
    if (isFailing) {
      renameSync(join(cwd, "plants.ndjson"), join(cwd, "old.ndjson"));
      assert.equal(await statusOf(server), 503);
    }
    for (const name of names) server.signal(name);
    await logged(server, `ended at once, with ${code}`);
    assert.deepEqual(codes, [code]);
    assert.match(server.stderr(), cut);
    socket.destroy();
    await server.ended;
  });
}
