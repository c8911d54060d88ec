/** Signals, whenever they come: during the start, twice, from npm too; and the exit status. */
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import {
  existsSync, readFileSync, renameSync, symlinkSync, writeFileSync,
} from "node:fs";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { after, test } from "node:test";
import { tokenDigest } from "../../src/http/bearer.ts";
import {
  cleanEnvironment, exchange, post, readAnswers, root, start as startProgram, temporaryFolder,
  token, type Running, type StartOptions,
} from "../support/support.ts";

const timeout = 30_000;
const servers: Running[] = [];
after(() => servers.map((server) => server.process.kill("SIGKILL")));

/** Starts the program behind a preloaded script; it does not outlive a test that fails. */
async function start(script: string, options: StartOptions = {}): Promise<Running> {
  const server = await startProgram({ ...options, nodeArgs: ["--import", preload(script)] });
  servers.push(server);
  return server;
}

const preload = (script: string): string => `data:text/javascript,${encodeURIComponent(script)}`;

/** The program's clock stands still at 0 until SIGUSR2 sets it; each signal that was handled is
 * told on stderr. Without a listener a signal is as deadly as ever. */
const stoppedClock = (millis: number): string => `
  let now = 0;
  performance.now = () => now;
  const emit = process.emit;
  process.emit = function (name, ...others) {
    const result = emit.call(this, name, ...others);
    if (String(name).startsWith("SIG")) process.stderr.write(name + " was handled\\n");
    return result;
  };
  process.on("SIGUSR2", () => { now = ${millis}; });
`;

async function signal(server: Running, name: NodeJS.Signals): Promise<void> {
  const timesHandled = (): number => server.stderr().split(`${name} was handled\n`).length;
  const before = timesHandled();
  const { process: child } = server;
  assert.ok(child.stderr);
  child.kill(name);
  while (timesHandled() === before) {
    await Promise.race([once(child.stderr, "data"), once(child, "exit")]);
    assert.deepEqual([child.exitCode, child.signalCode], [null, null], `${name} ended it`);
  }
}

const fern = '{"id":1,"name":"Fern"}';

/** A request whose head is read, which 100 Continue shows; its body is still to be sent. */
async function underWay(port: number): Promise<Socket> {
  const socket = connect(port, "127.0.0.1");
  const ready = readAnswers(socket, 1);
  const [head = ""] = post(fern, "Expect: 100-continue\r\n").toString().split(fern);
  socket.write(head);
  assert.equal((await ready)[0]?.status, 100);
  return socket;
}

async function statusOf(port: number, bearer: string): Promise<number | undefined> {
  const bytes = post(fern).toString().replace(token, bearer);
  return (await exchange(port, bytes, { answers: 1 }))[0]?.status;
}

for (const name of ["SIGINT", "SIGTERM"] as const) {
  test(`${name} again within a second is the same wish: the answer under way still comes`,
    { timeout }, async () => {
      const server = await start(stoppedClock(999));
      const socket = await underWay(server.port);
      await signal(server, name);
      await signal(server, name);
      await signal(server, "SIGUSR2");
      await signal(server, name);
      const answers = readAnswers(socket, 1);
      socket.write(fern);
      assert.equal((await answers)[0]?.status, 200);
      assert.equal(await server.end(name), 0, server.stderr());
    });

  test(`${name} again a second later ends at once: the answer under way is lost`,
    { timeout }, async () => {
      // Not by the deadline, which ends with 69, too.
      const server = await start(stoppedClock(1_000), { args: ["--drain-timeout", "600000"] });
      const socket = await underWay(server.port);
      await signal(server, name);
      await signal(server, "SIGUSR2");
      const answers = readAnswers(socket, 1);
      assert.equal(await server.end(name), 69);
      assert.deepEqual(await answers, []);
    });
}

const hasNpm = ["npm", "bash"].every((tool) => spawnSync(tool, ["--version"]).status === 0);
const noNpm = "there is no npm, or no bash, which hands npm's signals on";
if (!hasNpm) console.error(`signals.test.ts: ${noNpm}`);
test("Ctrl-C at npm start, which npm repeats, ends with 0 and cuts off nothing",
  { timeout, skip: hasNpm ? false : noNpm }, async (t) => {
    const folder = temporaryFolder();
    const { scripts } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
    const manifest = { name: "npm-start", type: "module", scripts: { start: scripts.start } };
    writeFileSync(join(folder, "package.json"), JSON.stringify(manifest));
    symlinkSync(join(root, "dist"), join(folder, "dist"));
    const script = `if (process.argv[1].endsWith("server.js")) {
      console.error("process", process.pid);
      ${stoppedClock(0)}
    }`;
    const env = {
      PORT: "0", PLANTS_TOKEN: token, NODE_OPTIONS: `--import=${preload(script)}`,
      npm_config_script_shell: "bash",
    };
    // In a process group of its own, so that none of it outlives a test that fails.
    const npm = spawn("npm", ["start", "--silent"], {
      cwd: folder, env: cleanEnvironment(env), detached: true, stdio: ["ignore", "pipe", "pipe"],
    });
    const { pid: group = 0 } = npm;
    t.after(() => npm.exitCode ?? process.kill(-group, "SIGKILL"));
    const ended = once(npm, "exit");
    let errors = "";
    npm.stderr.setEncoding("utf8").on("data", (text: string) => { errors += text; });
    const [line] = await Promise.race([
      once(npm.stdout, "data"), ended.then(() => assert.fail(errors)),
    ]);
    const socket = await underWay(Number(/:(\d+)\n/.exec(`${line}`)?.[1]));
    // Ctrl-C goes to both. One after the other: two that wait at the same time are but one.
    const [, child] = /process (\d+)/.exec(errors) ?? [];
    for (const [index, pid] of [Number(child), group].entries()) {
      process.kill(pid, "SIGINT");
      while (errors.split("SIGINT was handled").length < index + 2) {
        await Promise.race([once(npm.stderr, "data"), ended.then(() => assert.fail(errors))]);
      }
    }
    const answers = readAnswers(socket, 1);
    socket.write(fern);
    assert.equal((await answers)[0]?.status, 200);
    assert.deepEqual(await ended, [0, null], errors);
  });

test("SIGTERM at npm start ends npm and the server, which drains", { timeout, skip: hasNpm ? false : noNpm },
  async (t) => {
    const folder = temporaryFolder();
    const { scripts } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
    const manifest = { name: "npm-start", type: "module", scripts: { start: scripts.start } };
    writeFileSync(join(folder, "package.json"), JSON.stringify(manifest));
    symlinkSync(join(root, "dist"), join(folder, "dist"));
    const npm = spawn("npm", ["start", "--silent"], {
      cwd: folder, env: cleanEnvironment({ PORT: "0", PLANTS_TOKEN: token }), detached: true,
      stdio: ["ignore", "pipe", "ignore"],
    });
    const { pid: group = 0 } = npm;
    t.after(() => npm.exitCode ?? process.kill(-group, "SIGKILL"));
    const [line] = await once(npm.stdout, "data");
    const socket = await underWay(Number(/:(\d+)\n/.exec(`${line}`)?.[1]));
    const answers = readAnswers(socket, 1);
    npm.kill("SIGTERM");
    socket.write(fern);
    assert.equal((await answers)[0]?.status, 200);
    // No process keeps stdout: npm, its shell and the server have ended.
    await once(npm, "close");
    assert.throws(() => process.kill(-group, 0), /ESRCH/, "no process of the group is left");
  });

/** Just before it listens, the program changes the files and gets a signal; it goes on when the
 * signal was delivered. */
const whileStarting = (name: NodeJS.Signals, change = ""): string => `
  import { renameSync, writeFileSync } from "node:fs";
  import { Server } from "node:http";
  import { Server as NetServer } from "node:net";
  const { listen } = NetServer.prototype;
  Server.prototype.listen = function (...args) {
    ${change}
    const alive = setInterval(() => undefined, 1_000);
    process.once("${name}", () => setImmediate(() => {
      clearInterval(alive);
      listen.apply(this, args);
    }));
    process.kill(process.pid, "${name}");
    return this;
  };
`;

test("a SIGHUP during the start is done when the start is", { timeout }, async () => {
  const cwd = temporaryFolder();
  const line = (bearer: string): string => `alice ${tokenDigest(bearer)}\n`;
  writeFileSync(join(cwd, "tokens"), line("revoked"), { mode: 0o600 });
  const change = `writeFileSync("tokens", ${JSON.stringify(line("new"))});
    renameSync("plants.ndjson", "old.ndjson");`;
  const server = await start(whileStarting("SIGHUP", change), { cwd, args: ["--tokens", "tokens"] });
  assert.deepEqual([await statusOf(server.port, "revoked"), await statusOf(server.port, "new")],
    [401, 200]);
  assert.equal(await server.end(), 0);
  assert.equal(server.stderr(), "plant-store: tokens reloaded\n"
    + `plant-store: rotated: now writing to ${join(cwd, "plants.ndjson")}\n`);
  assert.match(readFileSync(join(cwd, "plants.ndjson"), "utf8"), /"name":"Fern"/);
});

for (const name of ["SIGINT", "SIGTERM"] as const) {
  test(`${name} during the start ends the program with 0 when the start is done`,
    { timeout }, async () => {
      const cwd = temporaryFolder();
      const server = await start(whileStarting(name), { cwd });
      const { process: child } = server;
      if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
      assert.deepEqual([child.exitCode, server.stderr()], [0, ""]);
      assert.ok(existsSync(join(cwd, "plants.ndjson")));
    });
}

/** Each signal that a listener heard is told on stderr; nothing else listens. */
const told = `
  const emit = process.emit;
  process.emit = function (name, ...others) {
    const result = emit.call(this, name, ...others);
    if (String(name).startsWith("SIG")) process.stderr.write(name + " was handled\\n");
    return result;
  };
`;

test("SIGUSR1 opens no debugger, and SIGUSR2 does not end the program", { timeout }, async () => {
  const server = await startProgram({
    nodeArgs: ["--inspect-port=0", "--import", preload(told)],
  });
  servers.push(server);
  await signal(server, "SIGUSR1");
  await signal(server, "SIGUSR2");
  assert.equal(await statusOf(server.port, token), 200);
  assert.equal(await server.end(), 0);
  assert.equal(server.stderr().replace(/^SIG\w+ was handled\n/gm, ""), "");
});

test("the control: a program that does not listen opens the debugger at SIGUSR1, dies of SIGUSR2",
  { timeout }, async () => {
    const idle = "setInterval(() => undefined, 1_000); console.log('runs')";
    for (const name of ["SIGUSR1", "SIGUSR2"] as const) {
      const child = spawn(process.execPath, ["--inspect-port=0", "-e", idle]);
      await once(child.stdout, "data");
      child.kill(name);
      if (name === "SIGUSR1") {
        assert.match(`${await once(child.stderr, "data")}`, /^Debugger listening/);
        child.kill("SIGKILL");
      }
      const [, signalCode] = await once(child, "exit");
      assert.equal(signalCode, name === "SIGUSR1" ? "SIGKILL" : name);
    }
  });

test("a journal that fails makes the end 74, though the drain's deadline cuts requests off",
  { timeout }, async () => {
    const cwd = temporaryFolder();
    const args = ["--rotation-timeout", "10", "--drain-timeout", "100"];
    const server = await startProgram({ cwd, args });
    servers.push(server);
    const socket = await underWay(server.port);
    renameSync(join(cwd, "plants.ndjson"), join(cwd, "old.ndjson"));
    assert.equal(await statusOf(server.port, token), 503);
    if (server.process.exitCode === null) await once(server.process, "exit");
    assert.equal(server.process.exitCode, 74);
    assert.match(server.stderr(), /was renamed.*\n.*requests were cut off after 100 ms\n$/);
    socket.destroy();
  });

test("a signal that ends a drain at once does not hide that the journal has failed: 74",
  { timeout }, async () => {
    const cwd = temporaryFolder();
    const args = ["--rotation-timeout", "10", "--drain-timeout", "60000"];
    const server = await start(stoppedClock(1_000), { cwd, args });
    const socket = await underWay(server.port);
    renameSync(join(cwd, "plants.ndjson"), join(cwd, "old.ndjson"));
    assert.equal(await statusOf(server.port, token), 503);
    await signal(server, "SIGTERM");
    assert.equal(await server.end("SIGINT"), 74);
    socket.destroy();
  });
