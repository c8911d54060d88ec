/** Signals: during the start, twice, through npm; and the exit codes. */
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import {
  existsSync,
  readFileSync,
  renameSync,
  symlinkSync,
  writeFileSync
} from "node:fs";
import { Server } from "node:http";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { tokenDigest } from "../../src/http/bearer.ts";
import { begin, start } from "../support/in-process.ts";
import {
  finish,
  logged,
  post,
  preload,
  statusOf,
  timeout,
  underWay,
  withToken
} from "../support/operator.ts";
import { readAnswers } from "../support/exchange.ts";
import {
  cleanEnvironment,
  eventsOf,
  type LogEvent,
  program,
  root,
  type Running,
  runningOf,
  socketFolder,
  startProcess,
  temporaryFolder,
  token
} from "../support/support.ts";
import { missing } from "../support/tools.ts";
import { until } from "../support/until.ts";

/** Stops the program's clock at 0 until SIGUSR2 sets it. */
const stoppedClock = (millis: number): string => `
  let now = 0;
  performance.now = () => now;
  ${told}
  process.on("SIGUSR2", () => { now = ${millis}; });`;

/** Prints each signal that a listener handled. Node binds process.emit when the first one is added. */
const told = `
  const emit = process.emit;
  process.emit = function (name, ...others) {
    const result = emit.call(this, name, ...others);
    if (String(name).startsWith("SIG")) process.stderr.write(name + " was handled\\n");
    return result;
  };
`;

/** Sends a signal, and waits until it was handled. */
async function signal(server: Running, name: NodeJS.Signals): Promise<void> {
  const timesHandled = (): number =>
    server.stderr().split(`${name} was handled\n`).length;
  const before = timesHandled();
  server.signal(name);
  await server.until(() => timesHandled() > before, `it handled ${name}`);
}

for (const name of ["SIGINT", "SIGTERM"] as const) {
  test(`${name} again within a second is a repetition: the response in progress still comes`, async (t) => {
    const server = await start();
    const socket = await underWay(server);
    for (const millis of [0, 0, 999]) {
      t.mock.method(performance, "now", () => millis);
      server.signal(name);
    }
    assert.deepEqual(await finish(socket), [200]);
    assert.equal(await server.end(name), 0, server.stderr());
  });

  for (const [first, when] of [
    [name, "a second later"],
    ["SIGTERM", "at once"],
    ["SIGINT", "at once"]
  ] as const) {
    if (first === name && when === "at once") continue;
    test(`${name} ${when} after ${first} ends at once: the response in progress is lost`, async () => {
      // Not by the deadline, which ends with 69, too.
      const args = ["--drain-timeout", "600000"];
      const server = await startProcess({
        args,
        nodeArgs: preload(stoppedClock(1_000))
      });
      const socket = await underWay(server);
      await signal(server, first);
      if (when !== "at once") await signal(server, "SIGUSR2");
      const answers = readAnswers(socket, 1);
      assert.equal(await server.end(name), 69);
      assert.deepEqual(await answers, []);
    });
  }
}

/** npm hands its signals on to bash. */
const noNpm = missing(["npm", "--version"], ["bash", "--version"]);

/** Runs `npm start` in a process group of its own, so that none of it outlives a test that fails. */
async function npmStart(
  t: TestContext,
  env: Readonly<Record<string, string>> = {}
) {
  const folder = temporaryFolder();
  const { scripts } = JSON.parse(
    readFileSync(join(root, "package.json"), "utf8")
  );
  const manifest = {
    name: "npm-start",
    type: "module",
    scripts: { start: scripts.start }
  };
  writeFileSync(join(folder, "package.json"), JSON.stringify(manifest));
  symlinkSync(join(root, "dist"), join(folder, "dist"));
  const npm = runningOf(
    spawn("npm", ["start", "--silent"], {
      cwd: folder,
      env: cleanEnvironment({ PORT: "0", PLANTS_TOKEN: token, ...env }),
      detached: true,
      stdio: ["ignore", "pipe", "pipe"]
    })
  );
  const { pid: group = 0 } = npm.process;
  t.after(() => npm.process.exitCode ?? process.kill(-group, "SIGKILL"));
  await npm.listening();
  return { npm, group, socket: await underWay(npm) };
}

test(
  "Ctrl-C at npm start, which npm repeats, ends with 0 and cuts off nothing",
  { skip: noNpm },
  async (t) => {
    const [, script = ""] =
      preload(`if (process.argv[1].endsWith("server.js")) {
    console.error("process", process.pid);
    ${stoppedClock(0)}
  }`);
    const env = {
      NODE_OPTIONS: `--import=${script}`,
      npm_config_script_shell: "bash"
    };
    const { npm, group, socket } = await npmStart(t, env);
    // Ctrl-C goes to both. One after the other: two that wait at the same time are but one.
    const [, child] = /process (\d+)/.exec(npm.stderr()) ?? [];
    for (const [index, pid] of [Number(child), group].entries()) {
      process.kill(pid, "SIGINT");
      await npm.until(
        () => npm.stderr().split("SIGINT was handled").length >= index + 2,
        "it handled SIGINT"
      );
    }
    assert.deepEqual(await finish(socket), [200]);
    assert.equal(await npm.ended, 0, npm.stderr());
  }
);

test(
  "SIGTERM at npm start ends npm and the server, which drains",
  { skip: noNpm },
  async (t) => {
    const { npm, group, socket } = await npmStart(t);
    npm.signal("SIGTERM");
    assert.deepEqual(await finish(socket), [200]);
    await npm.ended;
    assert.throws(
      () => process.kill(-group, 0),
      /ESRCH/,
      "no process of the group is left"
    );
  }
);

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
    "plant-store: tokens reloaded: PLANTS_TOKEN, alice\n" +
      `plant-store: rotated: now writing to ${join(cwd, "plants.ndjson")}\n`
  );
  assert.match(
    readFileSync(join(cwd, "plants.ndjson"), "utf8"),
    /"name":"Fern"/
  );
});

/** Sends SIGHUP when the first file of the program runs, before it loads another one. */
const hungUp = preload(`
  const { on } = process;
  process.on = (event, listener) => {
    if (event === "exit") process.kill(process.pid, "SIGHUP");
    return on.call(process, event, listener);
  };`);

test("a SIGHUP while the program is loaded is done when the start is, and ends other commands", async () => {
  const cwd = temporaryFolder();
  const line = `alice ${tokenDigest("a")}\n`;
  writeFileSync(join(cwd, "tokens"), line, { mode: 0o600 });
  const server = await startProcess({
    nodeArgs: hungUp,
    cwd,
    args: ["--tokens", "tokens"]
  });
  await logged(server, "tokens reloaded: PLANTS_TOKEN, alice");
  assert.equal(await statusOf(server), 200);
  assert.equal(await server.end(), 0);
  const { signal: end } = spawnSync(
    process.execPath,
    [...hungUp, program, "token"],
    { env: cleanEnvironment(), timeout }
  );
  assert.equal(end, "SIGHUP");
});

const noTerminal = missing(["script", "--version"], ["nohup", "--version"]);

for (const [how, wrapper] of [
  ["drains and ends with 0", ""],
  ["goes on under nohup", "nohup"]
] as const) {
  test(
    `once its terminal is closed the server ${how}; before that SIGHUP reloads`,
    { skip: noTerminal },
    async (t) => {
      const cwd = socketFolder();
      // A person's shell hands its SIGHUP on, too.
      const line = `${wrapper} "${process.execPath}" "${program}" --socket s 2> log &
        trap "kill -HUP $!" HUP; wait; wait $!; echo $? > code`;
      const terminal = spawn("script", ["-qec", line, "/dev/null"], {
        cwd,
        env: cleanEnvironment({ PLANTS_TOKEN: token }),
        stdio: ["pipe", "ignore", "ignore"]
      });
      t.after(() => terminal.kill("SIGKILL"));
      const contentOf = (name: string): string =>
        existsSync(join(cwd, name))
          ? readFileSync(join(cwd, name), "utf8")
          : "";
      const events = (): readonly LogEvent[] => eventsOf(contentOf("log"));
      const has = (words: string, times = 1): Promise<void> =>
        until(
          words,
          () =>
            events().filter(({ msg }) => msg.startsWith(words)).length === times
        );
      await has("serving");
      const pid = Number(events()[0]?.pid);
      t.after(() => spawnSync("kill", ["-KILL", `${pid}`]));
      process.kill(pid, "SIGHUP");
      await has("not rotated");
      terminal.kill("SIGKILL");
      if (wrapper === "")
        return until("0 is its exit code", () => contentOf("code") === "0\n");
      await has("not rotated", 2);
      assert.equal(await post({ socketPath: join(cwd, "s") }), 200);
    }
  );
}

for (const name of ["SIGINT", "SIGTERM"] as const) {
  test(`${name} during the start ends the program with 0 when the start is done`, async (t) => {
    const cwd = temporaryFolder();
    const server = await startWith(t, name, cwd);
    assert.equal(await server.ended, 0);
    assert.equal(server.stderr(), "");
    assert.ok(existsSync(join(cwd, "plants.ndjson")));
  });
}

test("SIGUSR1 opens no debugger, and SIGUSR2 does not end the program", async () => {
  const server = await startProcess({
    nodeArgs: ["--inspect-port=0", ...preload(told)]
  });
  await signal(server, "SIGUSR1");
  await signal(server, "SIGUSR2");
  assert.equal(await statusOf(server), 200);
  assert.equal(await server.end(), 0);
  assert.equal(server.stderr().replace(/^SIG\w+ was handled\n/gm, ""), "");
});

test("the control: a program that does not listen opens the debugger at SIGUSR1, dies of SIGUSR2", async () => {
  const idle = "setInterval(() => undefined, 1_000); console.log('runs')";
  for (const name of ["SIGUSR1", "SIGUSR2"] as const) {
    const child = spawn(process.execPath, ["--inspect-port=0", "-e", idle]);
    await once(child.stdout, "data");
    child.kill(name);
    if (name === "SIGUSR1") {
      assert.match(
        `${await once(child.stderr, "data")}`,
        /^Debugger listening/
      );
      child.kill("SIGKILL");
    }
    const [, signalCode] = await once(child, "exit");
    assert.equal(signalCode, name === "SIGUSR1" ? "SIGKILL" : name);
  }
});

for (const [what, deadline] of [
  ["the drain's deadline", "100"],
  ["a second signal", "60000"]
] as const) {
  test(`a journal that fails makes the end 74, though ${what} cuts requests off`, async () => {
    const cwd = temporaryFolder();
    const args = ["--rotation-timeout", "10", "--drain-timeout", deadline];
    const server = await startProcess({ cwd, args, nodeArgs: preload(told) });
    const socket = await underWay(server);
    renameSync(join(cwd, "plants.ndjson"), join(cwd, "old.ndjson"));
    assert.equal(await statusOf(server), 503);
    if (what === "a second signal") await signal(server, "SIGTERM");
    assert.equal(
      await (what === "a second signal" ? server.end("SIGINT") : server.ended),
      74
    );
    assert.match(
      server.stderr(),
      what === "a second signal"
        ? /was renamed/
        : /was renamed.*\n.*requests were cut off after 100 ms\n$/
    );
    socket.destroy();
  });
}
