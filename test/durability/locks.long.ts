/** One writer: three users in network namespaces of their own take turns, and broken programs. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync
} from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { idsIn, journalWith } from "../support/journals.ts";
import { launch, nextSocket } from "../support/launch.ts";
import {
  apart,
  as,
  group,
  mounting,
  noUsers,
  protection
} from "../support/locks.ts";
import { placeIn, runningOf, socketFolder } from "../support/support.ts";
import { noMount, readableByAll } from "../support/tools.ts";

const serving = (...given: Parameters<typeof launch>) =>
  launch(...given).catch((error: Error) => assert.fail(error.message));

/**
 * Three users, none of which has a name, take turns on one journal: each meets the stale lock of
 * another, and each dies of kill -9 after the others are refused.
 */
async function takeTurns(
  mode: number,
  server = readableByAll()
): Promise<void> {
  const { folder, path: store } = placeIn(socketFolder());
  chownSync(folder, 0, group);
  chmodSync(folder, mode);
  await journalWith(store);
  chownSync(store, 0, group);
  chmodSync(store, 0o660);
  const users = [5001, 5002, 0, 5003, 5001];
  for (const [turn, user] of users.entries()) {
    const first = await serving({
      store,
      wrapper: [...apart, ...as(user)],
      server
    });
    assert.equal((await first.post(turn)).status, 200);
    for (const other of [5001, 5002, 0])
      await assert.rejects(
        launch({ store, wrapper: [...apart, ...as(other)], server }),
        {
          message:
            /^75 .* another process, or this one, has it open, maybe in another container: at /
        }
      );
    assert.equal((await first.post(turn)).status, 200);
    assert.equal(await first.end("SIGKILL"), "SIGKILL");
  }
  assert.deepEqual(
    idsIn(store),
    users.flatMap((_, turn) => [turn, turn])
  );
}

for (const [says, mode, skip] of [
  ["a folder", 0o770, noUsers],
  [
    "a sticky folder",
    0o1770,
    noUsers ||
      (protection === "2" ? "the system itself refuses such files" : false)
  ]
] as const)
  test(
    `users in network namespaces of their own exclude each other in ${says}, and no lock needs a hand`,
    { skip },
    () => takeTurns(mode)
  );

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
] as const)
  test(`a program ${says} is noticed`, { skip: noUsers }, async () => {
    const server = readableByAll(file, [from, to]);
    await assert.rejects(takeTurns(0o770, server), { name: "AssertionError" });
  });

test(
  "a journal that is mounted with its folder is served",
  { skip: noMount },
  async () => {
    const folder = join(socketFolder(), "a b\\c d");
    mkdirSync(folder);
    const store = await journalWith(join(folder, "plants.ndjson"));
    const server = await serving({ store, wrapper: mounting(folder) });
    assert.equal(await server.end(), 0);
    const left = readdirSync(folder).filter(
      (name) => !name.includes(".closed-")
    );
    assert.deepEqual(left, ["plants.ndjson"]);
  }
);

test(
  "--socket at a socket that may be another user's ends with 69, and leaves it",
  { skip: noUsers },
  async () => {
    const folder = socketFolder();
    chmodSync(folder, 0o777);
    const socketPath = nextSocket(folder);
    const script = `process.umask(0o077); require("net").createServer()
      .listen(process.argv[1], () => console.log("listens"))`;
    const other = runningOf(
      spawn(process.execPath, ["-e", script, socketPath], {
        stdio: ["ignore", "pipe", "inherit"]
      })
    );
    await other.until(() => other.stdout() !== "", "it listens");
    await assert.rejects(
      launch({
        store: join(folder, "plants.ndjson"),
        wrapper: as(5001),
        server: readableByAll()
      }),
      {
        message:
          /^69 .*--socket: cannot listen: another process may listen at .*\.sock\n$/
      }
    );
    assert.ok(existsSync(socketPath));
    await other.end("SIGKILL");
  }
);
