/**
 * Real faults of the running program: failing and short writes from strace, a small file system
 * that fills, Node's permission model. Each test shows that its fault has come. A test whose tool is
 * missing is skipped, and says so.
 */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import {
  appendFileSync,
  mkdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync
} from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { setTimeout } from "node:timers/promises";
import * as journals from "../support/journals.ts";
import type { Answer } from "../support/http.ts";
import { launch } from "../support/launch.ts";
import { nodes } from "../support/recipes.ts";
import { placeIn, program, root, temporaryFolder } from "../support/support.ts";
import { missing, patched } from "../support/tools.ts";

const noStrace = missing([
  "strace",
  "-f",
  "-o",
  "/dev/null",
  "-e",
  "inject=write:retval=1:when=9",
  "-e",
  "trace=write",
  "true"
]);
const noLimits = noStrace || missing(["prlimit", "--version"]);
const noMount = missing([
  "unshare",
  "-m",
  "mount",
  "-t",
  "tmpfs",
  "none",
  "/mnt"
]);

/** The ids of a journal's records, and what is wrong with its first bad line. */
function read(path: string) {
  const { ids, fault } = journals.read(readFileSync(path));
  return { ids, fault };
}

async function until(
  holds: () => boolean | Promise<boolean>,
  says: string
): Promise<void> {
  for (let tries = 0; !(await holds()); tries++) {
    assert.ok(tries < 2_000, says);
    await setTimeout(5);
  }
}

/** Runs it under strace, with one thread for files, so that writes to the journal are counted:
 * the first is the header's. `-D`: the program stays our child.
 * @param inject what happens to writes to the journal */
async function traced(inject: string, wrapper: readonly string[] = []) {
  // strace -P knows a file by its real path.
  const folder = temporaryFolder();
  const trace = join(folder, "trace");
  const store = join(folder, "plants.ndjson");
  const running = await launch({
    folder,
    store,
    env: { UV_THREADPOOL_SIZE: "1" },
    wrapper: [
      ...wrapper,
      "strace",
      "-D",
      "-f",
      "-q",
      "-o",
      trace,
      "-P",
      store,
      "-e",
      "trace=write,pwrite64,writev,pwritev",
      "-e",
      inject
    ]
  });
  const writes = async (): Promise<readonly string[]> => {
    await until(
      () =>
        new RegExp(`^${running.pid} .*\\+\\+\\+ (?:exited|killed)`, "m").test(
          readFileSync(trace, "utf8")
        ),
      "strace has written all"
    );
    return whole(readFileSync(trace, "utf8")).filter((line) =>
      line.includes("write")
    );
  };
  return { ...running, writes };
}

/** A trace's lines; a call that another thread's interrupted stands in two, and is joined. */
function whole(trace: string): readonly string[] {
  const begun = new Map<string, string>();
  return trace.split("\n").flatMap((line) => {
    const [, thread = "", start] =
      /^(\d+) +(.*?) *<unfinished \.\.\.>$/.exec(line) ?? [];
    if (start !== undefined) begun.set(thread, start);
    const [, resumed = "", rest] =
      /^(\d+) +<\.\.\. \w+ resumed>(.*)$/.exec(line) ?? [];
    if (rest !== undefined)
      return [`${resumed} ${begun.get(resumed) ?? ""}${rest}`];
    return start === undefined ? [line] : [];
  });
}

const stored: Answer = { status: 200, error: undefined };
const full: Answer = { status: 503, error: 50301 };
const unknown: Answer = { status: 503, error: 50302 };

for (const errno of ["ENOSPC", "EDQUOT"]) {
  test(
    `${errno} from a write that wrote nothing: 50301, and the next plant is stored`,
    { skip: noStrace },
    async () => {
      const running = await traced(
        `inject=write,pwrite64:error=${errno}:when=3`
      );
      assert.deepEqual(await running.post(1), stored);
      const before = readFileSync(running.path);
      assert.deepEqual(await running.post(2), full);
      assert.deepEqual(readFileSync(running.path), before);
      assert.deepEqual(await running.post(3), stored);
      assert.deepEqual(read(running.path), { ids: [1, 3], fault: "" });
      assert.equal(await running.end(), 0);
      assert.equal(
        (await running.writes()).filter((line) => line.includes("(INJECTED)"))
          .length,
        1
      );
    }
  );
}

for (const [says, injected] of [
  ["EIO from a write", "error=EIO"],
  ["a write that takes no byte", "retval=0"]
] as const) {
  test(
    `${says}: 50302, no later 200, exit 74, and the next start goes on`,
    { skip: noStrace },
    async () => {
      const running = await traced(`inject=write,pwrite64:${injected}:when=3`);
      assert.deepEqual(await running.post(1), stored);
      const later = await Promise.all([2, 3, 4].map((id) => running.post(id)));
      assert.deepEqual(later[0], unknown);
      assert.ok(
        later.every(({ status }) => status === 0 || status === 503),
        JSON.stringify(later)
      );
      assert.equal(await running.ended, 74, running.stderr());
      assert.equal(
        (await running.writes()).filter((line) => line.includes("(INJECTED)"))
          .length,
        1
      );
      assert.match(running.stderr(), /plants\.ndjson: at offset \d+, /);
      assert.deepEqual(read(running.path), { ids: [1], fault: "" });
      const again = await launch({ store: running.path });
      assert.deepEqual(await again.post(5), stored);
      assert.equal(await again.end(), 0);
      assert.deepEqual(read(running.path), { ids: [1, 5], fault: "" });
    }
  );
}

test(
  "a folder that can't be synced ends the start with 74",
  { skip: noStrace },
  () =>
    assert.rejects(
      launch({
        wrapper: [
          "strace",
          "-D",
          "-f",
          "-q",
          "-o",
          "/dev/null",
          "-e",
          "trace=fsync",
          "-e",
          "inject=fsync:error=EIO"
        ]
      }),
      { code: 74, message: /EIO.*fsync/ }
    )
);

test(
  "the rest of a short write of a real file is written",
  { skip: noLimits },
  async () => {
    // The write that meets the limit of the file's size stops the program when it returns; then the
    // limit is lifted, and the rest finds room.
    const running = await traced(
      "inject=write,pwrite64:signal=SIGSTOP:when=3",
      ["prlimit", "--fsize=4096:unlimited"]
    );
    assert.deepEqual(await running.post(1), stored);
    const answer = running.post(2, "b".repeat(5000));
    await until(
      () =>
        statSync(running.path).size === 4096 &&
        /^State:\s+[Tt]/m.test(
          readFileSync(`/proc/${running.pid}/status`, "utf8")
        ),
      "a part was written, and the program is stopped"
    );
    spawnSync("prlimit", ["--fsize=unlimited", "--pid", String(running.pid)]);
    running.process.kill("SIGCONT");
    assert.deepEqual(await answer, stored);
    assert.equal(await running.end(), 0);
    assert.deepEqual(read(running.path), { ids: [1, 2], fault: "" });
    const [, , short, rest] = (await running.writes()).map((line) =>
      (/, (\d+)\) += (\d+)/.exec(line) ?? []).slice(1).map(Number)
    );
    const [bytes = 0, taken = 0] = short ?? [];
    assert.ok(taken > 0 && taken < bytes, "the write was short");
    assert.deepEqual(rest, [bytes - taken, bytes - taken]);
  }
);

test(
  "a full file system is 50301 without a torn byte, and plants are stored again when it is freed",
  { skip: noMount },
  async () => {
    // A file system of 64 KiB, in a mount namespace of its own.
    const folder = temporaryFolder();
    const disk = join(folder, "disk");
    mkdirSync(disk);
    const running = await launch({
      folder,
      store: join(disk, "plants.ndjson"),
      wrapper: [
        "unshare",
        "-m",
        "sh",
        "-c",
        'mount -t tmpfs -o size=64k none "$0" && exec "$@"',
        disk
      ]
    });
    const inside = join(`/proc/${running.pid}/root`, disk);
    const path = join(inside, "plants.ndjson");
    const filler = join(inside, "filler");
    writeFileSync(filler, Buffer.alloc(32 * 1024));
    const kept: number[] = [];
    let answer = stored;
    for (let id = 1; answer.status === 200; id++) {
      assert.ok(id < 20, "it never fills");
      answer = await running.post(id, "c".repeat(6_000));
      if (answer.status === 200) kept.push(id);
    }
    assert.deepEqual(answer, full);
    assert.ok(kept.length > 0);
    assert.deepEqual(read(path), { ids: kept, fault: "" });
    rmSync(filler);
    await until(
      async () => (await running.post(99, "c".repeat(6_000))).status === 200,
      "service returns by itself"
    );
    kept.push(99);
    assert.deepEqual(read(path), { ids: kept, fault: "" });
    assert.equal(await running.end(), 0);
  }
);

test("without memory for the window of keys the journal does not open, and says so", async () => {
  const server = patched("keys.js", [
    [
      "Buffer.alloc(length * 2 * digestBytes)",
      "Buffer.alloc(length < 1000 ? length * 2 * digestBytes : 2 ** 53)"
    ]
  ]);
  await assert.rejects(launch({ server }), {
    code: 74,
    message: /plants\.ndjson: no memory for a window of keys of 67108864 bytes/
  });
});

/** The flags that the README gives, for a folder. */
const flagsFor = (folder: string): readonly string[] =>
  (
    /^node (--permission [^]*?) dist\/server\.js/m
      .exec(readFileSync(join(root, "src/program/README.md"), "utf8"))?.[1]
      ?.match(/--\S+/g) ?? assert.fail("the README has them")
  ).map((flag) =>
    flag.replace("FOLDER", folder).replace(/=dist$/, `=${dirname(program)}`)
  );

for (const { path: node, version, major } of nodes) {
  test(
    `Node ${version} serves, recovers and verifies with the permissions of the README alone`,
    {
      skip: missing([node, "--permission", "--eval", "0"])
    },
    async () => {
      const { folder, path: store } = placeIn();
      const flags = [
        ...flagsFor(folder),
        ...(major >= 25 ? ["--allow-net"] : [])
      ];
      const first = await launch({ store, node: [node, ...flags] });
      assert.deepEqual(await first.post(1), stored);
      assert.doesNotMatch(first.stderr(), /locks is missing/);
      await first.end("SIGKILL");
      appendFileSync(first.path, "torn");
      for (const flag of flags.slice(1)) {
        const fewer = [node, ...flags.filter((each) => each !== flag)];
        await assert.rejects(
          launch({ store, node: fewer }),
          { name: "Error" },
          `without ${flag}`
        );
      }
      const second = await launch({ store, node: [node, ...flags] });
      assert.match(second.stderr(), /a torn end of 4 bytes was moved to/);
      assert.deepEqual(await second.post(2), stored);
      assert.equal(await second.end(), 0);
      const { status } = spawnSync(node, [
        ...flags,
        program,
        "verify",
        second.path
      ]);
      assert.equal(status, 0);
      assert.deepEqual(read(second.path), { ids: [1, 2], fault: "" });
    }
  );
}
