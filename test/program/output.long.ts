/** What the program prints, where it can't be printed: full disks, readers that go away. */
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import type { Host } from "../../src/program/host.ts";
import { begin } from "../support/in-process.ts";
import { fern, journalWith } from "../support/journals.ts";
import {
  cleanEnvironment,
  complaintsOf,
  program,
  runningOf,
  socketFolder,
  temporaryFolder
} from "../support/support.ts";
import { logged, post, timeout } from "../support/operator.ts";
import { missing } from "../support/tools.ts";

/** Runs the program in a shell's line, where it is `plants`; its own exit status. */
function shell(line: string, cwd: string) {
  const env = { ...cleanEnvironment(), node: process.execPath, program };
  const plants = 'plants() { "$node" "$program" "$@"; }';
  const { status, stdout, stderr } = spawnSync(
    "bash",
    ["-c", `${plants}; ${line}`],
    {
      cwd,
      env,
      encoding: "utf8",
      timeout
    }
  );
  return { status, stdout, stderr: complaintsOf(stderr) };
}

const full = "/dev/full";
const skip = missing(["test", "-e", full], ["bash", "--version"]);

/** A folder with a sound journal, and a damaged one. */
async function journals(): Promise<string> {
  const cwd = temporaryFolder();
  await journalWith(join(cwd, "sound"), fern);
  writeFileSync(join(cwd, "damaged"), "x\n".repeat(100));
  return cwd;
}

test("the name of a file forges no line, whichever command reports on it", async () => {
  const cwd = await journals();
  const name = "a\n\x1b[2Kwhole\u202e";
  const shown = "a\\u000a\\u001b[2Kwhole\\u202e: ";
  for (const command of ["verify", "cat"])
    for (const isThere of [false, true]) {
      if (isThere) writeFileSync(join(cwd, name), "x\n");
      const { stdout, stderr } = spawnSync(
        process.execPath,
        [program, command, name],
        { cwd, env: cleanEnvironment(), encoding: "utf8" }
      );
      for (const line of (stdout + stderr).trimEnd().split("\n"))
        assert.ok(line.replace("plant-store: ", "").startsWith(shown), line);
      rmSync(join(cwd, name), { force: true });
    }
});

/** Commands, and their exit codes if stdout takes what they print. */
const commands = [
  ["token x", 0],
  ["openapi", 0],
  ["--help", 0],
  ["--version", 0],
  ["verify sound sound", 0],
  ["verify --json sound sound", 0],
  ["verify damaged damaged", 65]
] as const;

/** Runs a command whose lines for stdout go this way; its exit code, and what it complains of. */
async function printing(command: string, print: Host["print"]) {
  const running = begin(
    command.split(" "),
    {},
    { cwd: await journals(), host: { print } }
  );
  return { code: await running.ended, stderr: running.stderr() };
}

const refuse: Host["print"] = () =>
  Promise.reject(
    Object.assign(new Error("cannot write to stdout: ENOSPC"), { errno: -28 })
  );

for (const [command, status] of commands) {
  test(`${command} ends with 74 and says why if stdout takes nothing, with ${status} if its reader goes away`, async () => {
    const full = await printing(command, refuse);
    assert.equal(full.code, 74);
    assert.match(full.stderr, /plant-store: cannot write to stdout: ENOSPC\n$/);
    assert.equal(full.stderr.split("cannot write").length, 2, "said once");
    const closed = await printing(command, () => Promise.resolve("closed"));
    assert.equal(closed.code, status, closed.stderr);
    // The token itself is on stderr.
    const token = command.startsWith("token") ? /^[\w-]{43}\n$/ : /^$/;
    assert.match(closed.stderr, token);
  });
}

test("a full stdout ends the process with 74", { skip, timeout }, async () => {
  const cwd = await journals();
  const { status, stderr } = shell(`plants verify damaged > ${full}`, cwd);
  assert.equal(status, 74);
  assert.match(
    stderr,
    /^plant-store: cannot write to stdout: ENOSPC: no space left.*\n$/
  );
});

test(
  "a reader that is gone before anything is written is no failure",
  { skip, timeout },
  async () => {
    const cwd = await journals();
    assert.deepEqual(
      shell("exec 3> >(true); wait $!; plants openapi >&3", cwd),
      { status: 0, stdout: "", stderr: "" }
    );
  }
);

for (const line of [
  `plants token x 2> ${full}`,
  "exec 3> >(true); wait $!; plants token x 2>&3"
]) {
  test(
    `${line} ends with 74, and prints no line for a token that nobody has seen`,
    { skip, timeout },
    async () => {
      const { status, stdout } = shell(line, await journals());
      assert.equal(status, 74);
      assert.equal(stdout, "");
    }
  );
}

const noLimits = missing(["prlimit", "--version"]);
for (const command of ["openapi", "verify --json sound sound sound"]) {
  test(
    `${command} into a file that has no room for all of it ends with 74`,
    { skip: skip || noLimits, timeout },
    async () => {
      const cwd = await journals();
      const line = `plants() { prlimit --fsize=200 "$node" "$program" "$@"; }; plants ${command} > out`;
      const { status, stderr } = shell(line, cwd);
      assert.equal(
        readFileSync(join(cwd, "out")).length,
        200,
        "the control: a part was written"
      );
      assert.equal(status, 74);
      assert.match(stderr, /cannot write to stdout: EFBIG/);
    }
  );
}

test(
  "a server whose first line cannot be written serves, and logs it",
  { skip, timeout },
  async () => {
    const cwd = socketFolder();
    const line = `exec "$0" "$1" --socket s > ${full}`;
    const running = runningOf(
      spawn("sh", ["-c", line, process.execPath, program], {
        cwd,
        env: cleanEnvironment(),
        stdio: ["ignore", "ignore", "pipe"]
      })
    );
    await logged(running, "serving");
    assert.equal(await post({ socketPath: join(cwd, "s") }), 401);
    assert.equal(await running.end(), 0);
    assert.match(
      running.stderr(),
      /^plant-store: cannot write to stdout: ENOSPC: .*\n$/
    );
  }
);

test(
  "verify of many files opens one at a time",
  { skip, timeout },
  async () => {
    const line =
      "ulimit -n 64; plants verify --json $(yes sound | head -100) | wc -l";
    assert.equal(shell(line, await journals()).stdout.trim(), "100");
  }
);

test("a reader of stdout that goes away does not end the server", async () => {
  const folder = socketFolder();
  const socketPath = join(folder, "s");
  const inner = 'echo $$ >&2; exec "$0" "$@"';
  const child = spawn(
    "sh",
    [
      "-c",
      `sh -c '${inner}' "$0" "$@" | true`,
      process.execPath,
      program,
      "--socket",
      socketPath
    ],
    { cwd: folder, env: cleanEnvironment() }
  );
  const [pid] = await once(child.stderr, "data");
  const asked = async (): Promise<number | undefined> => {
    assert.equal(child.exitCode, null, "the program ended");
    return post({ socketPath }).catch(() => asked());
  };
  assert.equal(await asked(), 401);
  process.kill(Number(`${pid}`), "SIGTERM");
  await once(child, "close");
});
