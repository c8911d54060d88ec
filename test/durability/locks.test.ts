/**
 * One writer: the lock against other names, network namespaces and users, and whose files count in
 * a directory open to all.
 */
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import {
  appendFileSync,
  chmodSync,
  chownSync,
  existsSync,
  lchownSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync
} from "node:fs";
import { createServer, Server } from "node:net";
import { basename, dirname, join } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";
import { JournalError } from "../../src/journal/error.ts";
import { realDisk } from "../../src/journal/files.ts";
import { abstractOf } from "../../src/journal/lock.ts";
import { mayListenOn } from "../../src/journal/sockets.ts";
import { run } from "../support/in-process.ts";
import { copyOf, four, six } from "../support/ends.ts";
import {
  diskWith,
  fern,
  journalWith,
  marksIn,
  openJournal
} from "../support/journals.ts";
import { launch, nextSocket } from "../support/launch.ts";
import {
  apart,
  as,
  group,
  locksIn,
  mounting,
  noUsers,
  protection
} from "../support/locks.ts";
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
  mockFs,
  noMount,
  readableByAll,
  unless
} from "../support/tools.ts";

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

test(
  "a user in another network namespace excludes others by each name in the folder, and no lock needs a hand",
  { skip: noUsers },
  async () => {
    const { folder, path } = placeIn(socketFolder());
    await journalWith(path, fern);
    chownSync(path, 5001, group);
    chmodSync(path, 0o660);
    chownSync(folder, 5001, group);
    chmodSync(folder, 0o770);
    const link = join(socketFolder(), "link");
    symlinkSync(path, link);
    const server = readableByAll();
    const start = (user: number) =>
      launch({ store: path, wrapper: [...apart, ...as(user)], server });
    const first = await start(5001);
    assert.equal((await first.post(1)).status, 200);
    const before = readFileSync(path);
    await assert.rejects(start(5002), {
      message: /^75 .*has it open, maybe in another container: at /
    });
    const verified = async () =>
      JSON.parse((await run(["verify", "--json", link])).stdout).isOpen;
    assert.equal(await verified(), true);
    const other = join(folder, "other.ndjson");
    for (const make of [linkSync, renameSync]) {
      make(path, other);
      await assert.rejects(openJournal(other), { code: "locked" });
      assert.deepEqual(readFileSync(other), before);
      if (make === linkSync) rmSync(other);
    }
    renameSync(other, path);

    await first.end("SIGKILL");
    assert.equal(locksIn(folder).length, 1);
    assert.equal(await verified(), false);
    const second = await start(5002);
    assert.equal((await second.post(2)).status, 200);
    assert.equal(await second.end(), 0);
    assert.deepEqual(locksIn(folder), []);
  }
);

/** Makes a socket on which nobody listens, as kill -9 leaves it. */
async function leaveSocket(path: string): Promise<void> {
  const server = createServer().listen(`${path}+`);
  await once(server, "listening");
  linkSync(`${path}+`, path);
  server.close();
}

test("an opening removes the stale locks of its own journal, and nothing else", async () => {
  const { folder, path } = placeIn(socketFolder());
  await journalWith(path, fern);
  const { identity } = realDisk.look(path) ?? assert.fail();
  const lock = `${path}.lock-${identity}`;
  const stale = [
    `${lock}-0123abcd`,
    join(folder, `earlier-name.lock-${identity}-4567cdef`)
  ];
  const others = [`${lock}-b~`, `${path}.lock-1-2-0123abcd`];
  for (const name of [...stale, ...others]) await leaveSocket(name);
  writeFileSync(`${lock}-00000000`, "somebody's");
  symlinkSync("/run/somebody.sock", `${lock}-11111111`);
  const other = await openJournal(join(folder, "other.ndjson"));
  const kept = locksIn(folder).filter(
    (name) => !stale.includes(join(folder, name))
  );
  await (await openJournal(path)).close();
  assert.deepEqual(locksIn(folder), kept);
  assert.equal(kept.length, 5, "the control: the other journal's is there");
  await other.close();
});

test("a journal and what stands beside it are for their owner and group alone", async () => {
  const { folder, path } = placeIn(socketFolder());
  // An umask that takes nothing away shows the modes themselves.
  const before = process.umask(0);
  try {
    await journalWith(path, fern);
    appendFileSync(path, '{"seq":2,');
    await (await openJournal(path)).close();
    realDisk.openBeside(join(folder, "plants.ndjson.rewrite")).close();
    process.umask(0o077);
    await (await openJournal(join(folder, "secret"))).close();
    const modes = readdirSync(folder)
      .filter((name) => !name.includes(".closed-"))
      .map((name) => (statSync(join(folder, name)).mode & 0o777).toString(8));
    assert.deepEqual(modes, ["640", "640", "640", "600"]);
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
  "a name that another program has taken is 75, and the message leads to its process",
  { skip: missing(["ss", "-xlp"]) },
  async () => {
    const path = await journalWith(join(socketFolder(), "plants.ndjson"));
    const { identity = "" } = realDisk.look(path) ?? {};
    const squatter = createServer().listen(abstractOf(identity)).unref();
    await once(squatter, "listening");
    const { message } = await openJournal(path).then(
      () => assert.fail("it opens"),
      (error: Error) => error
    );
    const [, command = ""] =
      /has it open: "(ss .*)" shows which$/.exec(message) ?? [];
    const { stdout } = spawnSync("sh", ["-c", command], { encoding: "utf8" });
    assert.match(stdout, RegExp(`pid=${process.pid},`));
    squatter.close();
    await once(squatter, "close");
    await (await openJournal(path)).close();
  }
);

/** The system refuses to listen on some names, or to name a socket that listens. */
for (const [says, refused, doesWarn] of [
  ["has no socket beside it", (name: string) => !name.startsWith("\0"), true],
  ["has no abstract one", (name: string) => name.startsWith("\0"), true],
  ["has none", () => true, false],
  ["gets no name for it", undefined, true]
] as const)
  test(`a journal that ${says} ${doesWarn ? "says so, and has one writer" : "is not opened: 74"}`, async (t) => {
    const { folder, path } = placeIn(socketFolder());
    await journalWith(path, fern);
    const refuse = () => {
      throw Object.assign(new Error("EPERM: not permitted"), { code: "EPERM" });
    };
    const { listen } = Server.prototype;
    if (refused)
      t.mock.method(
        Server.prototype,
        "listen",
        function (this: Server, options: { readonly path: string }) {
          return refused(options.path)
            ? refuse()
            : Reflect.apply(listen, this, [options]);
        }
      );
    else mockFs(t, "renameSync", refuse);
    const warnings: string[] = [];
    const opening = openJournal(path, {
      warn: (text) => warnings.push(text)
    });
    if (!doesWarn)
      return assert.rejects(opening, { exitCode: 74, message: /EPERM/ });
    const journal = await opening;
    assert.match(
      warnings.join("\n"),
      /^.*: one of its two locks is missing, .*: EPERM: not permitted$/
    );
    assert.equal(
      locksIn(folder).length,
      says === "has no abstract one" ? 1 : 0
    );
    await assert.rejects(openJournal(path), { code: "locked" });
    await journal.close();
  });

/** A new journal's path of so many bytes, in folders that are not too long. */
function pathOf(bytes: number): string {
  let folder = socketFolder();
  while (bytes - folder.length > 200) folder = join(folder, "d".repeat(99));
  mkdirSync(folder, { recursive: true });
  return join(folder, "p".repeat(bytes - folder.length - 1));
}

/** Without /proc, a long path is reached by a symbolic link in the folder for temporary files. */
for (const [bytes, hasProc] of [
  [107, true],
  [108, true],
  [3_800, true],
  [200, false]
] as const) {
  test(`a journal whose path has ${bytes} bytes has both locks, without a warning${hasProc ? "" : ", also without /proc"}`, async (t) => {
    const path = pathOf(bytes);
    const folder = dirname(path);
    const temporary = socketFolder();
    const { TMPDIR } = process.env;
    let links = 0;
    if (!hasProc) {
      mockFs(t, "symlinkSync", (real) => {
        links++;
        return real();
      });
      mockFs(t, "statSync", (real, name) =>
        name === "/proc/self/fd" ? undefined : real()
      );
      process.env["TMPDIR"] = temporary;
    }
    const warnings: string[] = [];
    const journal = await openJournal(path, {
      warn: (text) => warnings.push(text)
    });
    const [lock = "", ...others] = locksIn(folder);
    assert.deepEqual(others, []);
    assert.equal(await mayListenOn(join(folder, lock)), true);
    assert.equal(await mayListenOn(join(folder, "nobody")), false);
    await assert.rejects(openJournal(path), { code: "locked" });
    await journal.close();
    if (TMPDIR === undefined) delete process.env["TMPDIR"];
    else process.env["TMPDIR"] = TMPDIR;
    assert.deepEqual(locksIn(folder), []);
    assert.deepEqual(readdirSync(temporary), []);
    assert.equal(links > 0, !hasProc);
    assert.deepEqual(warnings, []);
  });
}

test(
  "a journal that is mounted without its folder is refused with 74, and with it served",
  { skip: noMount },
  async () => {
    // /proc/self/mountinfo escapes this name.
    const folder = join(socketFolder(), "a b\\c d");
    mkdirSync(folder);
    const store = await journalWith(join(folder, "plants.ndjson"));
    await assert.rejects(launch({ store, wrapper: mounting(store) }), {
      message: /^74 .*: is mounted without its directory/
    });
    const server = await launch({ store, wrapper: mounting(folder) });
    assert.equal(await server.end(), 0);
  }
);

test(
  "--socket at another program's datagram socket ends with 69, and leaves it",
  { skip: missing(["perl", "-MSocket", "-e", "1"]) },
  async () => {
    const folder = socketFolder();
    const socketPath = nextSocket(folder);
    const script = `use Socket; socket(S, AF_UNIX, SOCK_DGRAM, 0); bind(S, sockaddr_un($ARGV[0]))
      or die; $| = 1; print "bound\n"; sleep 60;`;
    const other = runningOf(
      spawn("perl", ["-e", script, socketPath], {
        stdio: ["ignore", "pipe", "inherit"]
      })
    );
    await other.until(() => other.stdout() !== "", "it is bound");
    const { code, stderr } = await run(
      ["serve", "--socket", socketPath],
      {},
      folder
    );
    assert.equal(code, 69);
    assert.match(
      stderr,
      /--socket: cannot listen: another process may listen at .*\.sock\n$/
    );
    assert.ok(existsSync(socketPath));
    await other.end("SIGKILL");
  }
);

const noOtherUser =
  unless(
    process.getuid?.() === 0,
    "only root can give a file to another user"
  ) ||
  unless(protection === "0", "the system itself refuses another user's files");
const [us, them, owner] = [5001, 5002, 5003];

/** What may be at a journal's path or beside it, and what an opening does if it counts. */
for (const [says, put, check] of [
  [
    "a journal",
    (path: string) => path,
    (error: unknown, counts: boolean) =>
      assert.equal(error === undefined, counts)
  ],
  [
    "a link",
    (path: string) => {
      renameSync(path, `${path}.target`);
      symlinkSync(`${path}.target`, path);
      return path;
    },
    (error: unknown, counts: boolean) =>
      assert.equal(error === undefined, counts)
  ],
  [
    "a .rewrite",
    (path: string) => {
      writeFileSync(`${path}.rewrite`, copyOf());
      return `${path}.rewrite`;
    },
    (error: unknown, counts: boolean, path: string) => {
      assert.deepEqual(readFileSync(path), counts ? six : four);
      if (counts) return assert.equal(error, undefined);
      assert.ok(error instanceof JournalError);
      assert.deepEqual([error.exitCode, error.path], [65, `${path}.rewrite`]);
    }
  ],
  [
    "a mark",
    (path: string) => {
      const mark = `${path}.closed-${realDisk.look(path)?.state}`;
      writeFileSync(mark, "");
      return mark;
    },
    (error: unknown, counts: boolean, path: string, before: bigint) => {
      assert.equal(error, undefined);
      const { mtimeNs } = statSync(path, { bigint: true });
      assert.equal(mtimeNs === before, counts, "its end is not rewritten");
    }
  ]
] as const)
  test(
    `in a directory open to all, ${says} counts if root, the directory's owner or the process's user owns it`,
    { skip: noOtherUser },
    async (t) => {
      t.mock.method(process as Required<NodeJS.Process>, "geteuid", () => us);
      for (const [mode, uid, counts] of [
        [0o1777, them, false],
        [0o1777, us, true],
        [0o1777, owner, true],
        [0o1777, 0, true],
        [0o1770, them, true],
        [0o777, them, true]
      ] as const) {
        const { folder, path } = placeIn(socketFolder());
        writeFileSync(path, four);
        chownSync(path, us, group);
        chmodSync(folder, mode);
        chownSync(folder, owner, group);
        lchownSync(put(path), uid, group);
        const { mtimeNs } = statSync(path, { bigint: true });
        const error: unknown = await openJournal(path).then(
          (journal) => journal.close(),
          (thrown: unknown) => thrown
        );
        if (error)
          assert.match(
            String(error),
            /belongs to user 5002, in a directory open to all/
          );
        check(error, counts, path, mtimeNs);
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

/** Opens a journal at a path and by a hard link, as a node on a simulated Mac; what it prints. */
function onMac(env: Readonly<Record<string, string>>) {
  const { folder, path } = placeIn(socketFolder());
  const dist = pathToFileURL(dirname(program));
  const script = `
    import { linkSync, readdirSync, rmSync } from "node:fs";
    import { realDisk } from "${dist}/journal/files.js";
    import { openJournal } from "${dist}/journal/journal.js";
    import { isLocked } from "${dist}/journal/lock.js";
    const refusalOf = (name) => openJournal(name).then((journal) => journal.close(), String);
    const [path, link] = ${JSON.stringify([path, join(folder, "hard")])};
    const isOpen = (name) => isLocked(name, realDisk.look(name).identity);
    const journal = await openJournal(path);
    await journal.append({ id: 1n, name: "Fern" });
    linkSync(path, link);
    const during = [await refusalOf(path), await refusalOf(link), await isOpen(link)];
    rmSync(link);
    await journal.close();
    const after = [await isOpen(path), await refusalOf(path) ?? "opened"];
    console.log(JSON.stringify([...during, ...after, readdirSync(${JSON.stringify(folder)}).length]));`;
  const { stdout, stderr } = spawnSync(
    process.execPath,
    [...systemArgs("darwin"), "--input-type=module", "-e", script],
    { encoding: "utf8", env: cleanEnvironment(env) }
  );
  return { stdout, stderr };
}

test(
  "on a simulated Mac a journal has one writer by every name, and nothing is left beside it but its mark",
  { skip: noShim },
  () => {
    const { stdout, stderr } = onMac(macEnvironment);
    const [first, second, ...others] = JSON.parse(stdout || "[]");
    assert.match(first, /another process, or this one, has it open$/, stderr);
    assert.match(second, /another process, or this one, has it open$/);
    assert.deepEqual(others, [true, false, "opened", 2]);
  }
);

test("a system that ignores the lock is refused with 74", () => {
  const { stderr } = onMac({});
  assert.match(
    stderr,
    /cannot be locked: expected a system and a file system that obey UV_FS_O_EXLOCK/
  );
  assert.match(stderr, /exitCode: 74/);
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
