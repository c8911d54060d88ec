/** Where it listens: sockets that are handed in, as by systemd, and why it can't. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { networkInterfaces } from "node:os";
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
  startProcess,
  temporaryFolder,
  token
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

interface Handed {
  readonly folder?: string;
  readonly lives?: number;
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

/** The program on a socket that was handed in; or its exit code and stderr, if it ends at once. */
function handed(
  where: string,
  { folder = socketFolder(), lives = 1, args = [], env = {} }: Handed
) {
  const child = spawn(
    "perl",
    [
      "-MPOSIX",
      "-e",
      manager,
      where,
      `${lives}`,
      process.execPath,
      program,
      ...args
    ],
    {
      cwd: folder,
      stdio: ["ignore", "pipe", "pipe"],
      env: cleanEnvironment({ PLANTS_TOKEN: token, ...env })
    }
  );
  return outcomeOf(child);
}

/** The number of the life that begins, and its first line. */
async function living(outcome: Running | string, life: number) {
  assert.ok(typeof outcome !== "string", String(outcome));
  await outcome.until(
    () => outcome.stdout().split("\n").length > life,
    "its line"
  );
  const pids = [...outcome.stderr().matchAll(/^pid (\d+)$/gm)].map(([, pid]) =>
    Number(pid)
  );
  return {
    pid: pids[life - 1] ?? NaN,
    line: outcome.stdout().split("\n")[life - 1]
  };
}

for (const [host, address] of [
  ["127.0.0.1", "127.0.0.1"],
  ["::1", "[::1]"]
] as const) {
  const isThere = Object.values(networkInterfaces()).some((each) =>
    each?.some((one) => one.address === host)
  );
  const skip = isThere ? noPerl : `there is no ${host} here`;
  test(
    `an inherited port of ${host} is served, and stays open for the next process`,
    { skip },
    async () => {
      const outcome = await handed(host, { lives: 2 });
      for (const [life, signal] of [
        [1, "SIGKILL"],
        [2, "SIGTERM"]
      ] as const) {
        const { pid, line = "" } = await living(outcome, life);
        const [, port] =
          /^plant-store listening on http:\/\/(?:\S+):(\d+)$/.exec(line) ?? [];
        assert.equal(
          line,
          `plant-store listening on http://${address}:${port}`
        );
        assert.equal(await post({ host, port: Number(port) }), 200);
        process.kill(pid, signal);
      }
      assert.ok(typeof outcome !== "string");
      assert.equal(await outcome.ended, 0);
    }
  );
}

test(
  "an inherited Unix socket is served, and not removed",
  { skip: noPerl },
  async () => {
    const folder = socketFolder();
    const socketPath = join(folder, "s");
    const outcome = await handed(socketPath, { folder, lives: 3 });
    for (const [life, signal] of [
      [1, "SIGTERM"],
      [2, "SIGKILL"],
      [3, "SIGTERM"]
    ] as const) {
      const { pid, line } = await living(outcome, life);
      assert.equal(line, "plant-store listening on unix:fd 3");
      assert.equal(await post({ socketPath }), 200);
      if (life === 2) {
        // A start with its path does not remove it either: a process listens there.
        const other = await run(
          ["--socket", socketPath, "--store", "other"],
          {},
          folder
        );
        assert.equal(other.code, 69, other.stderr);
      }
      process.kill(pid, signal);
      assert.ok(existsSync(socketPath), "it is not ours to remove");
    }
    assert.ok(typeof outcome !== "string");
    assert.equal(await outcome.ended, 0);
    assert.ok(existsSync(socketPath), "it is not ours to remove");
  }
);

test(
  "the curl line for an inherited socket names that socket, whatever --socket is",
  { skip: noPerl },
  async () => {
    const folder = socketFolder();
    for (const [where, found] of [
      [
        join(folder, "s"),
        /^ {2}curl --unix-socket 'PATH' 'http:\/\/localhost\/plants' /m
      ],
      ["127.0.0.1", /^ {2}curl 'http:\/\/127\.0\.0\.1:\d+\/plants' /m]
    ] as const) {
      const outcome = await handed(where, {
        folder,
        args: ["--socket", "other"],
        env: { PLANTS_TOKEN: "" }
      });
      const { pid } = await living(outcome, 1);
      assert.ok(typeof outcome !== "string");
      assert.match(outcome.stdout(), found);
      process.kill(pid, "SIGTERM");
      assert.equal(await outcome.ended, 0);
    }
  }
);

/** Hands descriptor 3 to the program: what perl opens as S. */
const handing = (open: string): readonly string[] => [
  "-MPOSIX",
  "-e",
  `use Socket qw(:all); $^F = 3; ${open} or exit 9;
POSIX::dup2(fileno(S), 3) if fileno(S) != 3;
$ENV{LISTEN_PID} = $$; $ENV{LISTEN_FDS} = 1;
exec @ARGV;`
];

for (const [what, open] of [
  ["a file", 'open(S, "<", "/dev/null")'],
  [
    "a connected socket, as with Accept=yes,",
    "socketpair(S, OTHER, AF_UNIX, SOCK_STREAM, 0)"
  ],
  ["a datagram socket", "socket(S, AF_INET, SOCK_DGRAM, 0)"]
] as const) {
  test(
    `${what} as the inherited descriptor ends with 78, which names LISTEN_FDS`,
    { skip: noPerl },
    async () => {
      const child = spawn(
        "perl",
        [...handing(open), process.execPath, program],
        {
          cwd: temporaryFolder(),
          stdio: ["ignore", "pipe", "pipe"],
          env: cleanEnvironment()
        }
      );
      assert.match(
        String(await outcomeOf(child)),
        /^78 plant-store: LISTEN_FDS: cannot listen: /
      );
    }
  );
}

test("a taken port, public or of the admin listener, ends with 69 and is named", async () => {
  const taken = createServer();
  await once(taken.listen(0, "127.0.0.1"), "listening");
  const address = taken.address();
  assert.ok(typeof address === "object" && address !== null);
  for (const [port, admin, source] of [
    [address.port, 0, "--host, --port"],
    [0, address.port, "--admin"]
  ] as const) {
    const args = ["--port", `${port}`, "--admin", `${admin}`];
    const { code, stdout, stderr } = await run(args, {}, temporaryFolder());
    assert.equal(code, 69, "before anything is served");
    assert.equal(stdout, "", "before anything is served");
    assert.match(
      stderr,
      new RegExp(
        `^plant-store: ${source}: cannot listen: .*in use 127\\.0\\.0\\.1:${address.port}\n$`
      )
    );
  }
  taken.close();
});

test("a socket that kill -9 left behind is replaced", async () => {
  const socketPath = join(socketFolder(), "s");
  const args = ["--socket", socketPath];
  assert.equal(await (await startProcess({ args })).end("SIGKILL"), null);
  assert.ok(existsSync(socketPath));
  const second = await start({ args });
  assert.equal(await post({ socketPath }), 200);
  assert.equal(await second.end(), 0);
  assert.ok(!existsSync(socketPath));
});

test("a socket that is served is not replaced", async () => {
  const socketPath = join(socketFolder(), "s");
  const args = ["--socket", socketPath];
  const server = await start({ args });
  assert.equal((await run(args, {}, temporaryFolder())).code, 69);
  assert.equal(await post({ socketPath }), 200);
  assert.equal(await server.end(), 0);
});

test("a file at the path of a socket is not replaced", async () => {
  const socketPath = join(socketFolder(), "s");
  const args = ["--socket", socketPath];
  writeFileSync(socketPath, "not a socket");
  assert.equal((await run(args, {}, temporaryFolder())).code, 69);
  assert.equal(readFileSync(socketPath, "utf8"), "not a socket");
});

test("a start that cannot listen leaves an empty journal, and an existing one as it was", async () => {
  const other = createServer();
  const busy = String(await listen(other));
  for (const at of [
    ["--port", busy],
    ["--host", "192.0.2.1", "--port", "0"],
    ["--socket", join("nowhere", "s")],
    ["--port", "0", "--admin", busy],
    ["--port", "0", "--admin", join("nowhere", "s")]
  ]) {
    const cwd = temporaryFolder();
    const { code, stderr } = await run(at, {}, cwd);
    assert.equal(code, 69, stderr);
    assert.match(stderr, /cannot listen: /);
    assert.equal((await run(["verify", "plants.ndjson"], {}, cwd)).code, 0);
    writeFileSync(join(cwd, "plants.ndjson"), header);
    assert.equal((await run(at, {}, cwd)).code, 69);
    assert.equal(readFileSync(join(cwd, "plants.ndjson"), "utf8"), header);
  }
  other.close();
});
