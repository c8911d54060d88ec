/** Where it listens: sockets that are handed in, as by systemd, and why it can't. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { test } from "node:test";
import { run, start } from "../support/in-process.ts";
import { header } from "../support/journals.ts";
import { post } from "../support/operator.ts";
import { listen } from "../support/serving.ts";
import {
  cleanEnvironment,
  program,
  type Running,
  socketFolder,
  temporaryFolder
} from "../support/support.ts";
import { missing, outcomeOf } from "../support/tools.ts";

const noPerl = missing(["perl", "-MSocket", "-MPOSIX", "-e", "1"]);

/**
 * Binds as systemd does, and hands the socket as descriptor 3 to one program after another; it
 * accepts nothing itself. The number of each, which becomes the program, is printed on stderr.
 */
const manager = `use Socket qw(:all);
my ($where, $lives) = splice @ARGV, 0, 2;
my $address = $where =~ m{/} ? pack_sockaddr_un($where)
  : $where =~ /:/ ? pack_sockaddr_in6(0, inet_pton(AF_INET6, $where))
  : pack_sockaddr_in(0, inet_aton($where));
$^F = 3;
socket(S, sockaddr_family($address), SOCK_STREAM, 0) && bind(S, $address) && listen(S, 9) or exit 9;
for (1 .. $lives) {
  my $pid = fork;
  if (!$pid) {
    POSIX::dup2(fileno(S), 3) if fileno(S) != 3;
    $ENV{LISTEN_PID} //= $$;
    $ENV{LISTEN_FDS} //= 1;
    print STDERR "pid $$\\n";
    exec @ARGV;
  }
  waitpid $pid, 0;
}
exit $? >> 8;`;

/** The program on a socket that was handed in, with a generated token; or its exit code and stderr. */
function handed(where: string, folder: string, lives: number) {
  const child = spawn(
    "perl",
    ["-MPOSIX", "-e", manager, where, `${lives}`, process.execPath, program],
    { cwd: folder, stdio: ["ignore", "pipe", "pipe"], env: cleanEnvironment() }
  );
  return outcomeOf(child);
}

/** The number of the process that begins such a life, and what it printed. */
async function living(outcome: Running | string, life: number) {
  assert.ok(typeof outcome !== "string", String(outcome));
  const printed = () => outcome.stdout().split(/(?=^plant-store)/m);
  await outcome.until(
    () => /-d '/.test(printed()[life - 1] ?? ""),
    "it printed"
  );
  const pids = [...outcome.stderr().matchAll(/^pid (\d+)$/gm)];
  return {
    pid: Number(pids[life - 1]?.[1]),
    said: printed()[life - 1] ?? "",
    outcome
  };
}

for (const [what, name, printed, signals] of [
  [
    "port",
    "127.0.0.1",
    /^plant-store listening on http:\/\/127\.0\.0\.1:(\d+)\n[^]*^ {2}curl 'http:\/\/127\.0\.0\.1:\1\/plants' /m,
    ["SIGTERM"]
  ],
  [
    "Unix socket",
    "s",
    /^plant-store listening on unix:fd 3\n[^]*^ {2}curl --unix-socket 'PATH' 'http:\/\/localhost\/plants' /m,
    ["SIGKILL", "SIGTERM"]
  ]
] as const) {
  const lives = signals.length;
  test(
    `an inherited ${what} is served by ${lives} processes, one after the other, and is not removed`,
    { skip: noPerl },
    async () => {
      const folder = socketFolder();
      const socketPath = join(folder, name);
      const where = what === "port" ? name : socketPath;
      const started = await handed(where, folder, lives);
      for (const [index, signal] of signals.entries()) {
        const { pid, said } = await living(started, index + 1);
        const [, port] = printed.exec(said) ?? assert.fail(said);
        const at = port === undefined ? { socketPath } : { port };
        assert.equal(await post(at), 401);
        process.kill(pid, signal);
      }
      assert.ok(typeof started !== "string");
      assert.equal(await started.ended, 0);
      assert.equal(existsSync(socketPath), where === socketPath);
    }
  );
}

const notListening = /^78 plant-store: LISTEN_FDS: cannot listen: /;

test("an inherited descriptor that is not a socket ends with 78", async () => {
  // The descriptor after stderr is one of Node's own.
  const env = { LISTEN_PID: `${process.pid}`, LISTEN_FDS: "1" };
  const { code, stderr } = await run([], env, temporaryFolder());
  assert.match(`${code} ${stderr}`, notListening);
});

test(
  "an inherited connection, as with Accept=yes, ends with 78",
  { skip: noPerl },
  async () => {
    const connected = `use Socket qw(:all); $^F = 3;
    socketpair(S, OTHER, AF_UNIX, SOCK_STREAM, 0) or exit 9;
    POSIX::dup2(fileno(S), 3) if fileno(S) != 3;
    $ENV{LISTEN_PID} = $$; $ENV{LISTEN_FDS} = 1;
    exec @ARGV;`;
    const child = spawn(
      "perl",
      ["-MPOSIX", "-e", connected, process.execPath, program],
      {
        cwd: temporaryFolder(),
        stdio: ["ignore", "pipe", "pipe"],
        env: cleanEnvironment()
      }
    );
    assert.match(String(await outcomeOf(child)), notListening);
  }
);

test("a start that cannot listen ends with 69, names the setting, and leaves what is there", async () => {
  const folder = socketFolder();
  const other = createServer();
  const busy = String(await listen(other));
  const served = join(folder, "served");
  const server = await start({ args: ["--socket", served] });
  const file = join(folder, "file");
  writeFileSync(file, "not a socket");
  const inUse = `in use 127\\.0\\.0\\.1:${busy}`;
  for (const [at, reason] of [
    [["--port", busy], `--host, --port: .*${inUse}`],
    [["--host", "192.0.2.1"], "--host, --port: .*EADDRNOTAVAIL.*"],
    [["--socket", "nowhere/s"], "--socket: .*ENOENT.*"],
    [["--socket", served], `--socket: another process may listen at ${served}`],
    [["--socket", file], `--socket: what is at ${file} is not a socket`],
    [["--port", "0", "--admin", busy], `--admin: .*${inUse}`]
  ] as const) {
    const cwd = temporaryFolder();
    const path = join(cwd, "plants.ndjson");
    for (const isEmpty of [true, false]) {
      const { code, stdout, stderr } = await run(at, {}, cwd);
      assert.equal(code, 69);
      assert.equal(stdout, "", "before anything is served");
      assert.match(
        stderr,
        RegExp(`^plant-store: ${reason.replace(": ", ": cannot listen: ")}\n$`)
      );
      if (isEmpty) {
        assert.equal((await run(["verify", path])).code, 0, "an empty journal");
        writeFileSync(path, header);
      } else assert.equal(readFileSync(path, "utf8"), header);
    }
  }
  assert.equal(await post({ socketPath: served }), 200);
  assert.equal(await server.end(), 0);
  assert.equal(readFileSync(file, "utf8"), "not a socket");
  other.close();
});

test("a socket on which nobody listens is replaced, and removed at the end", async () => {
  const folder = socketFolder();
  const socketPath = join(folder, "s");
  // As kill -9 leaves it: Node removes the path that it had.
  const gone = createServer();
  await listen(gone, join(folder, "first"));
  renameSync(join(folder, "first"), socketPath);
  await once(gone.close(), "close");
  const server = await start({ args: ["--socket", socketPath] });
  assert.equal(await post({ socketPath }), 200);
  assert.equal(await server.end(), 0);
  assert.ok(!existsSync(socketPath));
});
