/**
 * One writer: the lock against other users, network namespaces and programs.
 * Most needs root, and is skipped without.
 * PLANT_TEST_ROUNDS, whatever its value: more turns, and every errno of a missing lock.
 */
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import {
  appendFileSync,
  chmodSync,
  chownSync,
  existsSync,
  linkSync,
  mkdirSync,
  readdirSync,
  rmSync,
  readFileSync,
  lchownSync,
  renameSync,
  statSync,
  symlinkSync,
  writeFileSync
} from "node:fs";
import { basename, dirname, join } from "node:path";
import { test } from "node:test";
import { realDisk } from "../../src/journal/files.ts";
import { openJournal } from "../../src/journal/journal.ts";
import { abstractOf } from "../../src/journal/lock.ts";
import { mayListenOn } from "../../src/journal/sockets.ts";
import { run } from "../support/in-process.ts";
import { copyOf, four, six } from "../support/ends.ts";
import {
  diskWith,
  fern,
  header,
  idsIn,
  journalWith,
  marksIn
} from "../support/journals.ts";
import { launch, nextSocket } from "../support/launch.ts";
import { macEnvironment, noShim, systemArgs } from "../support/mac.ts";
import {
  cleanEnvironment,
  placeIn,
  program,
  runningOf,
  socketFolder
} from "../support/support.ts";
import {
  missing,
  noMount,
  noStrace,
  readableByAll,
  strace,
  unless
} from "../support/tools.ts";

/** Becomes another user, of a group that all of them have. */
const group = 5000;
const as = (uid: number): readonly [string, ...string[]] => [
  "setpriv",
  "--reuid",
  `${uid}`,
  "--regid",
  `${group}`,
  "--clear-groups"
];
const apart = ["unshare", "-n"] as const;
const isLong = process.env["PLANT_TEST_ROUNDS"] !== undefined;

const noUsers = missing([...apart, ...as(5001), process.execPath, "--version"]);
const noSs = missing(["ss", "-xlp"]);
const noPerl = missing(["perl", "-MSocket", "-e", "1"]);

const serving = (
  store: string,
  wrapper: readonly string[] = [],
  server = program
) =>
  launch({ store, wrapper, server }).catch((error: Error) =>
    assert.fail(error.message)
  );

const refused = (
  message: RegExp,
  ...given: Parameters<typeof serving>
): Promise<void> => assert.rejects(serving(...given), { message });

const locksIn = (folder: string): readonly string[] =>
  readdirSync(folder).filter((name) => name.includes(".lock-"));

/** What verify says of a journal, by default from another network namespace. */
const verified = (
  path: string,
  node: readonly string[] = [...apart, process.execPath],
  env = {}
): string =>
  spawnSync("env", [...node, program, "verify", "--json", path], {
    encoding: "utf8",
    env: cleanEnvironment(env)
  }).stdout;

/**
 * Three users take turns on one journal: each meets the stale lock of another, and each dies of
 * kill -9 while the next is refused.
 */
async function takeTurns(
  mode: number,
  server = readableByAll()
): Promise<void> {
  const { folder, path } = placeIn(socketFolder());
  chownSync(folder, 0, group);
  chmodSync(folder, mode);
  await (await openJournal(path)).close();
  chownSync(path, 0, group);
  chmodSync(path, 0o660);
  const users = isLong ? [5001, 5002, 0, 5003, 5001] : [5001, 5002, 0, 5001];
  for (const [turn, user] of users.entries()) {
    const first = await serving(path, [...apart, ...as(user)], server);
    assert.equal((await first.post(turn)).status, 200);
    for (const other of isLong ? [5001, 5002, 0] : [users[turn + 1] ?? 5002]) {
      await refused(
        /^75 .* another process, or this one, has it open, maybe in another container: at /,
        path,
        [...apart, ...as(other)],
        server
      );
    }
    assert.equal((await first.post(turn)).status, 200);
    assert.equal(await first.end("SIGKILL"), "SIGKILL");
  }
  assert.deepEqual(
    idsIn(path),
    users.flatMap((_, turn) => [turn, turn])
  );
}

test("a file has one writer, by whatever name", async () => {
  const { folder, path } = placeIn(socketFolder());
  const journal = await openJournal(path);
  linkSync(path, join(folder, "hard"));
  symlinkSync(path, join(folder, "soft"));
  const before = readFileSync(path);
  for (const name of [
    "plants.ndjson",
    "hard",
    "soft",
    `../${basename(folder)}/soft`
  ]) {
    await assert.rejects(openJournal(join(folder, name)), {
      code: "locked",
      exitCode: 75
    });
  }
  assert.deepEqual(readFileSync(path), before);
  await journal.close();
  rmSync(join(folder, "hard"));
  await (await openJournal(join(folder, "soft"))).close();
});

/** Where 2, a file of another user can't even be opened with O_CREAT in such a folder. */
const sticky = "/proc/sys/fs/protected_regular";
const noSticky =
  noUsers ||
  (existsSync(sticky) && readFileSync(sticky, "utf8").trim() === "2"
    ? `${sticky} is 2`
    : false);
test(
  "users in network namespaces of their own exclude each other, and no lock needs a hand, in a sticky folder, too",
  { skip: noSticky },
  () => takeTurns(0o1770)
);
if (isLong)
  test("the same in a folder that is not sticky", { skip: noUsers }, () =>
    takeTurns(0o770)
  );

// Broken programs, in the long tests.
if (isLong)
  for (const [says, file, from, to] of [
    [
      "whose locks other users can't reach",
      "sockets.js",
      "writableAll: isPath",
      "writableAll: false"
    ],
    ["without the lock beside the file", "lock.js", ".test(name)", '.test("")'],
    [
      "without a lock",
      "open.js",
      "await disk.lock(path, identity, releases, warn);",
      ""
    ]
  ] as const) {
    test(`a program ${says} is noticed`, { skip: noUsers }, async () => {
      const server = readableByAll(file, [from, to]);
      await assert.rejects(takeTurns(0o770, server), {
        name: "AssertionError"
      });
    });
  }

test("a start removes the lock that a kill -9 left, and nothing that is not such a socket", async () => {
  const { folder, path } = placeIn(socketFolder());
  await (await openJournal(path)).close();
  const { identity = "" } = realDisk.look(path) ?? {};
  const others = ["a", "b~", "c"].map(
    (end) => `${path}.lock-${identity}-${end}`
  );
  const [file = "", socket = "", link = ""] = others;
  writeFileSync(file, "somebody's");
  symlinkSync("/run/somebody.sock", link);
  const unfinished = spawnSync(process.execPath, [
    "-e",
    `require("net").createServer().listen(${JSON.stringify(socket)}, () => process.exit())`
  ]);
  assert.equal(unfinished.status, 0);
  for (const signal of ["SIGKILL", "SIGKILL", "SIGTERM"] as const) {
    await (await serving(path)).end(signal);
    assert.equal(locksIn(folder).length, signal === "SIGKILL" ? 4 : 3);
  }
  assert.deepEqual(
    locksIn(folder).map((name) => join(folder, name)),
    others
  );
  assert.equal(readFileSync(file, "utf8"), "somebody's");
});

test("a stale lock goes with the next start of its own journal, and not with another journal's", async () => {
  const folder = socketFolder();
  const path = join(folder, "plants.ndjson");
  const other = join(folder, "other.ndjson");
  await (await serving(path)).end("SIGKILL");
  const stale = locksIn(folder);
  await (await openJournal(other)).close();
  renameSync(path, join(folder, "moved.ndjson"));
  const beside = await openJournal(path);
  assert.equal(stale.length, 1);
  assert.deepEqual(
    locksIn(folder).filter((name) => stale.includes(name)),
    stale
  );
  await (await openJournal(join(folder, "moved.ndjson"))).close();
  assert.deepEqual(
    locksIn(folder).filter((name) => stale.includes(name)),
    []
  );
  assert.equal(locksIn(folder).length, 1, "the control: a lock in use stays");
  await beside.close();
});

test("a journal and what stands beside it are for their owner and group alone", async () => {
  const { folder, path } = placeIn(socketFolder());
  // An umask that takes nothing away shows the modes themselves.
  const before = process.umask(0);
  try {
    await journalWith(path, fern);
    appendFileSync(path, '{"seq":2,');
    await (await openJournal(path)).close();
    const [torn = ""] = readdirSync(folder).filter((name) =>
      name.includes(".torn-")
    );
    realDisk.openBeside(join(folder, "plants.ndjson.rewrite")).close();
    const names = ["plants.ndjson", torn, "plants.ndjson.rewrite"];
    const modes = names.map(
      (name) => statSync(join(folder, name)).mode & 0o777
    );
    assert.deepEqual(modes, [0o640, 0o640, 0o640]);
    process.umask(0o077);
    await (await openJournal(join(folder, "secret"))).close();
    assert.equal(
      statSync(join(folder, "secret")).mode & 0o777,
      0o600,
      "the umask takes away"
    );
  } finally {
    process.umask(before);
  }
});

test("a journal whose lock cannot be removed closes without an error", async () => {
  const { folder, path } = placeIn(socketFolder());
  const journal = await openJournal(path);
  const [lock] = locksIn(folder);
  renameSync(folder, `${folder}-moved`);
  await journal.close();
  renameSync(`${folder}-moved`, folder);
  assert.deepEqual(
    locksIn(folder),
    [lock],
    "the control: it could not be removed"
  );
  await (await openJournal(path)).close();
  assert.deepEqual(locksIn(folder), []);
});

test(
  "a name that another user has taken is 75, and the message leads to its process",
  { skip: noUsers || noSs },
  async () => {
    const path = await journalWith(join(socketFolder(), "plants.ndjson"));
    const { identity = "" } = realDisk.look(path) ?? {};
    const name = JSON.stringify(abstractOf(identity));
    const [command, ...rest] = [
      ...as(5001),
      process.execPath,
      "-e",
      `require("net").createServer().listen(${name}, () => console.log("listens"))`
    ];
    const squatter = runningOf(
      spawn(command ?? "", rest, { stdio: ["ignore", "pipe", "inherit"] })
    );
    await squatter.until(() => squatter.stdout() !== "", "it listens");
    const outcome = await launch({ store: path }).then(
      () => "it serves",
      String
    );
    assert.match(
      outcome,
      /75 .*: another process, or this one, has it open: "ss .*" shows which\n$/
    );
    const [, shown = ""] = /open: "(.*)" shows/.exec(outcome) ?? [];
    const { stdout } = spawnSync("sh", ["-c", shown], { encoding: "utf8" });
    assert.match(stdout, new RegExp(`pid=${squatter.process.pid},`));
    await squatter.end("SIGKILL");
    await (await serving(path)).end();
  }
);

/** The number of the bind call that a program makes for its lock beside the journal; looked up once. */
let bindNumber: Promise<number> | undefined;
async function bindBeside(): Promise<number> {
  const path = join(socketFolder(), "plants.ndjson");
  const trace = join(dirname(path), "trace");
  await (await serving(path, strace("bind", "-o", trace))).end();
  const binds = readFileSync(trace, "utf8")
    .split("\n")
    .filter((line) => line.includes("bind("));
  return 1 + binds.findIndex((line) => line.includes(".lock-"));
}

for (const [says, call, errno] of [
  ...["EPERM", ...(isLong ? ["EOPNOTSUPP", "ENOSYS", "EINVAL"] : [])].map(
    (errno) => [errno, "bind", errno] as const
  ),
  ["it gets no name", "/^rename", "EPERM"]
] as const) {
  test(
    `where no socket can be beside it (${says}) it serves, says so, and has one writer`,
    { skip: noStrace },
    async () => {
      const path = join(socketFolder(), "plants.ndjson");
      const when = call === "bind" ? await (bindNumber ??= bindBeside()) : 1;
      const inject = `inject=${call}:error=${errno}:when=${when}`;
      const first = await serving(path, strace(call, "-e", inject));
      assert.match(
        first.stderr(),
        new RegExp(
          `^plant-store: ${path}: one of its two locks is ` +
            `missing, .*\\.lock-.*\\n$`
        )
      );
      assert.deepEqual(locksIn(dirname(path)), []);
      await refused(/^75 /, path);
      assert.equal((await first.post(1)).status, 200);
      assert.equal(await first.end(), 0);
    }
  );
}

test("without any lock it ends with 74", { skip: noStrace }, async () => {
  const path = join(socketFolder(), "plants.ndjson");

  // Where there is no journal, a start tries to listen before it locks.
  writeFileSync(path, header);
  const inject = "inject=bind:error=EPERM:when=1+";
  await refused(/^74 [^]*listen EPERM/, path, strace("bind", "-e", inject));
});

/** A new journal's path of so many bytes, in folders that are not too long. */
function pathOf(bytes: number): string {
  let folder = socketFolder();
  while (bytes - folder.length > 200) folder = join(folder, "d".repeat(99));
  mkdirSync(folder, { recursive: true });
  return join(folder, "p".repeat(bytes - folder.length - 1));
}

for (const bytes of [73, 74, 107, 108, 1_000, 3_800]) {
  test(`a journal whose path has ${bytes} bytes has both locks, without a warning`, async () => {
    const path = pathOf(bytes);
    const warnings: string[] = [];
    const journal = await openJournal(path, {
      warn: (text) => warnings.push(text)
    });
    assert.equal(locksIn(dirname(path)).length, 1);
    await assert.rejects(openJournal(path), { code: "locked" });
    const lock = join(dirname(path), locksIn(dirname(path))[0] ?? "");
    assert.equal(await mayListenOn(lock), true);
    await journal.close();
    assert.deepEqual(locksIn(dirname(path)), []);
    assert.deepEqual(warnings, []);
  });
}

test(
  "beside a long path, a process in another network namespace is excluded, and verify by a link sees it live and killed",
  { skip: noUsers },
  async () => {
    const path = pathOf(300);
    const link = join(socketFolder(), "link");
    symlinkSync(path, link);
    const server = await serving(path, apart);
    assert.equal(server.stderr(), "");
    assert.equal((await server.post(1)).status, 200);
    await refused(/^75 .*, maybe in another container: at /, path, apart);
    assert.doesNotMatch(verified(link), /"opening"/);
    await server.end("SIGKILL");
    assert.equal(locksIn(dirname(path)).length, 1);
    assert.match(verified(link), /"opening":"uses it as it is"/);
    await (await serving(path, apart)).end();
    assert.deepEqual(locksIn(dirname(path)), []);
  }
);

test(
  "without /proc a long path is reached by a symbolic link, which is removed",
  { skip: noMount },
  async () => {
    const path = pathOf(200);
    const folder = socketFolder();
    const hidden = [
      ...apart,
      "-m",
      "sh",
      "-c",
      'mount -t tmpfs none /proc && TMPDIR="$0" exec "$@"',
      folder
    ];
    const server = await serving(path, hidden);
    assert.equal(server.stderr(), "");
    assert.deepEqual(readdirSync(folder), []);
    await refused(/^75 .*, maybe in another container: at /, path, hidden);
    await server.end();
    assert.deepEqual(locksIn(dirname(path)), []);
    assert.deepEqual(readdirSync(folder), []);
  }
);

/** Mounts something upon itself, in a mount namespace of its own. */
const mounting = (path: string): readonly string[] => [
  "unshare",
  "-m",
  "sh",
  "-c",
  'mount --bind "$0" "$0" && exec "$@"',
  path
];

/** Makes a closed journal in a folder whose name `/proc/self/mountinfo` escapes. */
async function mountable() {
  const folder = join(socketFolder(), "a b\\c d");
  mkdirSync(folder);
  const path = join(folder, "plants.ndjson");
  await (await openJournal(path)).close();
  return { folder, path };
}

test(
  "a journal that is mounted without its folder is refused with 74",
  { skip: noMount },
  async () => {
    const { path } = await mountable();
    await refused(
      /^74 .*: is mounted without its directory/,
      path,
      mounting(path)
    );
  }
);

test(
  "a journal that is mounted with its folder is served",
  { skip: noMount },
  async () => {
    const { folder, path } = await mountable();
    const server = await serving(path, mounting(folder));
    assert.equal(await server.end(), 0);
    const left = readdirSync(folder).filter((name) => !isMark(name));
    assert.deepEqual(left, ["plants.ndjson"]);
  }
);

const datagrams = `use Socket; socket(S, AF_UNIX, SOCK_DGRAM, 0); bind(S, sockaddr_un($ARGV[0]))
  or die; $| = 1; print "bound\\n"; sleep 60;`;
const privately = `process.umask(0o077); require("net").createServer()
  .listen(process.argv[1], () => console.log("listens"))`;
for (const [says, skip, command, script, wrapper, message] of [
  [
    "another program's datagram socket",
    noPerl,
    "perl",
    datagrams,
    [],
    /^69 .*--socket: cannot listen: another process may listen at .*\.sock\n$/
  ],
  [
    "a socket that may be another user's",
    noUsers,
    process.execPath,
    privately,
    as(5001),
    /^69 .*--socket: cannot listen: another process may listen at .*\.sock\n$/
  ]
] as const) {
  test(
    `--socket at ${says} ends with 69, and leaves it`,
    { skip },
    async () => {
      const folder = socketFolder();
      chmodSync(folder, 0o777);
      const socketPath = nextSocket(folder);
      const other = runningOf(
        spawn(command, ["-e", script, socketPath], {
          stdio: ["ignore", "pipe", "inherit"]
        })
      );
      await other.until(() => other.stdout() !== "", "it listens");
      await refused(
        message,
        join(folder, "plants.ndjson"),
        wrapper,
        readableByAll()
      );
      assert.ok(existsSync(socketPath));
      await other.end("SIGKILL");
    }
  );
}

const isProtected =
  existsSync(sticky) && readFileSync(sticky, "utf8").trim() !== "0";
const noOtherUser =
  unless(
    process.getuid?.() === 0,
    "only root can give a file to another user"
  ) ||
  unless(
    !isProtected,
    `${sticky} is set: the system itself refuses such files`
  );
test(
  "a .rewrite that another user may have left is refused with 65, the journal untouched",
  { skip: noOtherUser },
  async (t) => {
    t.mock.method(process as Required<NodeJS.Process>, "geteuid", () => 5001);
    for (const [mode, owner, isRefused] of [
      [0o1777, 5002, true],
      [0o1777, 5001, false],
      [0o1777, 5003, false],
      [0o1777, 0, false],
      [0o770, 5002, false]
    ] as const) {
      const folder = socketFolder();
      const path = join(folder, "plants.ndjson");
      writeFileSync(path, four);
      writeFileSync(`${path}.rewrite`, copyOf());
      chmodSync(folder, mode);
      chownSync(folder, 5003, group);
      chownSync(path, 5001, group);
      chownSync(`${path}.rewrite`, owner, group);
      const opening = openJournal(path);
      if (isRefused) {
        await assert.rejects(opening, {
          exitCode: 65,
          path: `${path}.rewrite`
        });
        assert.deepEqual(readFileSync(path), four);
      } else {
        await (await opening).close();
        assert.deepEqual(readFileSync(path), six, "the control: it is used");
      }
    }
  }
);

test(
  "a mark that another user may have left is not used: the end is rewritten",
  { skip: noOtherUser },
  async (t) => {
    t.mock.method(process as Required<NodeJS.Process>, "geteuid", () => 5001);
    for (const [mode, owner, isRewritten] of [
      [0o1777, 5002, true],
      [0o1777, 5001, false],
      [0o1777, 0, false],
      [0o770, 5002, false]
    ] as const) {
      const { folder, path } = placeIn(socketFolder());
      chmodSync(folder, mode);
      await journalWith(path, fern);
      chownSync(path, 5001, group);
      const [made = ""] = marksIn(folder);
      const mark = `${path}.closed-${realDisk.look(path)?.state}`;
      renameSync(made, mark);
      chownSync(mark, owner, group);
      const note = mark.replace("closed", "unflushed");
      writeFileSync(note, "");
      chownSync(note, 5002, group);
      if (mode === 0o770) rmSync(note);
      const before = statSync(path, { bigint: true }).mtimeNs;
      await (await openJournal(path)).close();
      const after = statSync(path, { bigint: true }).mtimeNs;
      assert.equal(after !== before, isRewritten, `${owner}`);
    }
  }
);

test(
  "another user's link or file at the journal's path is refused in a directory open to all",
  { skip: noOtherUser },
  async () => {
    const link = (path: string, target: string): void =>
      symlinkSync(target, path);
    const empty = (path: string): void =>
      writeFileSync(path, "", { mode: 0o666 });
    const journal = (path: string): void =>
      void writeFileSync(path, header, { mode: 0o666 });
    for (const [mode, owner, isRefused] of [
      [0o1777, 5002, true],
      [0o1777, 5003, false],
      [0o1777, 0, false],
      [0o755, 5002, false],
      [0o1770, 5002, false]
    ] as const) {
      for (const put of [link, empty, journal]) {
        const folder = socketFolder();
        const path = join(folder, "plants.ndjson");
        const target = join(socketFolder(), "victim");
        put(path, target);
        chmodSync(folder, mode);
        chownSync(folder, 5003, group);
        lchownSync(path, owner, group);
        const opening = openJournal(path);
        if (isRefused)
          await assert.rejects(
            opening,
            /belongs to user 5002, in a directory open to all/
          );
        else await (await opening).close();
        if (put === link) {
          assert.equal(existsSync(target), !isRefused);
          writeFileSync(target, header);
          const { code, stderr } = await run(["cat", path]);
          assert.deepEqual(
            [code, stderr],
            isRefused
              ? [
                  74,
                  `plant-store: ${path}: belongs to user 5002, in a directory open to all users\n`
                ]
              : [0, ""]
          );
        } else assert.equal(statSync(path).size > 133, false);
      }
    }
  }
);

test(
  "a user without a name, as in some containers, opens its own journal in such a directory, and no other user's",
  { skip: noOtherUser || noUsers },
  async () => {
    const nameless = 54_320;
    const server = readableByAll();
    const wrapper = as(nameless);
    for (const [owner, isLink] of [
      [5002, false],
      [5002, true],
      [nameless, false],
      [nameless, true]
    ] as const) {
      const folder = socketFolder();
      const path = join(folder, "plants.ndjson");
      const target = isLink ? join(socketFolder(), "target") : path;
      chmodSync(dirname(target), 0o777);
      writeFileSync(target, header);
      chmodSync(target, 0o666);
      if (isLink) symlinkSync(target, path);
      chmodSync(folder, 0o1777);
      lchownSync(path, owner, group);
      if (owner === nameless) {
        const running = await serving(path, wrapper, server);
        assert.equal((await running.post(1)).status, 200);
        assert.equal(await running.end(), 0);
      } else {
        await refused(
          /^(?:65|74) .* belongs to user 5002, in a directory open to all/,
          path,
          wrapper,
          server
        );
        assert.equal(readFileSync(target, "utf8"), header);
      }
    }
  }
);

test("a link in the place of a copy to be made is replaced, not followed, and a folder refused", async () => {
  const { folder, path } = placeIn(socketFolder());
  await journalWith(path, fern);
  writeFileSync(path, "torn", { flag: "a" });
  const victim = join(folder, "victim");
  writeFileSync(victim, "precious");
  for (const copy of [".rewrite", `.torn-${readFileSync(path).length - 4}`]) {
    symlinkSync(victim, `${path}${copy}.part`);
  }
  await (await openJournal(path)).close();
  assert.equal(readFileSync(victim, "utf8"), "precious");
  assert.equal(readFileSync(path, "utf8").split("\n").length, 3);
  assert.equal(
    readFileSync(`${path}.torn-${readFileSync(path).length}`, "utf8"),
    "torn"
  );
  for (const mark of marksIn(folder)) rmSync(mark);
  mkdirSync(`${path}.rewrite.part`);
  await assert.rejects(openJournal(path), /EEXIST.*\.rewrite\.part/);
});

test(
  "a journal in use is found by its other names in the folder, from another namespace",
  { skip: missing([...apart, "true"]) },
  async () => {
    const { folder, path: store } = placeIn(socketFolder());
    const first = await serving(store, apart);
    assert.equal((await first.post(1)).status, 200);
    const before = readFileSync(store);
    for (const [index, make] of [linkSync, renameSync].entries()) {
      const name = join(folder, `other-${index}.ndjson`);
      make(store, name);
      await refused(/another process, or this one, has it open/, name, apart);
      assert.deepEqual(readFileSync(name), before);
    }
    await first.end("SIGKILL");
  }
);

const isMark = (name: string): boolean => name.includes(".closed-");

/** A node that takes its system for another one. */
const nodeOn = (system: string): readonly string[] => [
  process.execPath,
  ...systemArgs(system)
];
const simulated = { node: nodeOn("darwin"), env: macEnvironment };

test(
  "on a simulated Mac a journal has one writer by every name, and its lock ends with kill -9",
  { skip: noShim },
  async () => {
    const store = pathOf(300);
    const link = join(socketFolder(), "hard");
    const seen = (): string => verified(link, simulated.node, simulated.env);
    for (const signal of ["SIGKILL", "SIGTERM"] as const) {
      const server = await launch({ store, ...simulated });
      assert.equal((await server.post(1)).status, 200);
      linkSync(store, link);
      for (const name of [store, link]) {
        await assert.rejects(launch({ store: name, ...simulated }), {
          message: /^75 .* has it open$/m
        });
      }
      assert.doesNotMatch(seen(), /"opening"/);
      assert.match(readFileSync(store, "utf8"), /"plant":\{"id":1,/);
      await server.end(signal);
      assert.match(
        seen(),
        /"opening":"uses it as it is"/,
        "the control: it sees that a server runs"
      );
      rmSync(link);
    }
    const left = readdirSync(dirname(store)).filter((name) => !isMark(name));
    assert.deepEqual(idsIn(store), [1, 1]);
    assert.deepEqual(left, [basename(store)]);
  }
);

test("a system that ignores the lock, and one that is not known, end the start with 74", async () => {
  const message =
    /^74 .* cannot be locked: expected a system and a file system that obey UV_FS_O_EXLOCK$/m;
  for (const system of ["darwin", "sunos"]) {
    const store = join(socketFolder(), "plants.ndjson");
    await assert.rejects(launch({ store, node: nodeOn(system) }), { message });
  }
});

test("nobody listens where nothing is, however long the path", async () => {
  for (const bytes of [107, 108, 300])
    assert.equal(await mayListenOn(pathOf(bytes)), false);
});

test("an opening that fails keeps no lock, however often, though its file can't be closed either", async () => {
  const { folder, path } = placeIn(socketFolder());
  const broken = diskWith((file) => ({
    close() {
      file.close();
      throw new Error("EIO: close");
    },
    append: () => Promise.reject(new Error("EIO: write"))
  }));
  for (let start = 0; start < 3; start++) {
    await assert.rejects(openJournal(path, { disk: broken }), {
      exitCode: 74,
      message: /write/
    });
    assert.deepEqual(locksIn(folder), []);
  }
  await (await openJournal(path)).close();
});

test("a file keeps its inode until its lock is released, so that no new file meets the lock", async () => {
  const path = join(socketFolder(), "plants.ndjson");
  const steps: string[] = [];
  const disk = {
    ...diskWith((file) => ({
      close() {
        steps.push("the descriptor is closed");
        file.close();
      }
    })),
    async lock(...given: Parameters<typeof realDisk.lock>) {
      const [, , releases] = given;
      await realDisk.lock(...given);
      releases.push(() => steps.push("the lock is released"));
    }
  };
  await (await openJournal(path, { disk })).close();
  assert.deepEqual(steps, ["the lock is released", "the descriptor is closed"]);
});
