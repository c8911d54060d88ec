/** Signals through npm, and from a terminal that is closed. */
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { existsSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import {
  finish,
  post,
  preload,
  timeout,
  underWay
} from "../support/operator.ts";
import {
  cleanEnvironment,
  eventsOf,
  program,
  root,
  runningOf,
  socketFolder,
  temporaryFolder,
  token
} from "../support/support.ts";
import { missing } from "../support/tools.ts";
import { until } from "../support/until.ts";

/** Stops the program's clock, and prints each SIGINT that was handled. Node binds process.emit early. */
const watched = `
  performance.now = () => 0;
  const emit = process.emit;
  process.emit = function (name, ...others) {
    const result = emit.call(this, name, ...others);
    if (name === "SIGINT") console.error("SIGINT was handled");
    return result;
  };`;

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
  { skip: noNpm, timeout },
  async (t) => {
    const [, script = ""] =
      preload(`if (process.argv[1].endsWith("server.js")) {
    console.error("process", process.pid);
    ${watched}
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
  { skip: noNpm, timeout },
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

const noTerminal = missing(["script", "--version"], ["nohup", "--version"]);

for (const [how, wrapper] of [
  ["drains and ends with 0", ""],
  ["goes on under nohup", "nohup"]
] as const) {
  test(
    `once its terminal is closed the server ${how}; before that SIGHUP reloads`,
    { skip: noTerminal, timeout },
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
      const events = () => eventsOf(contentOf("log"));
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
