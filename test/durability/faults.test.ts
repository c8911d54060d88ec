/**
 * Real faults of the running program: failing writes from strace, a small file system that fills,
 * Node's permission model. Each test shows that its fault has come; histories.test.ts has those of
 * each operation. A test whose tool is missing is skipped, and says so.
 */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import {
  appendFileSync,
  mkdirSync,
  readFileSync,
  rmSync,
  writeFileSync
} from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";
import * as journals from "../support/journals.ts";
import type { Answer } from "../support/http.ts";
import { launch } from "../support/launch.ts";
import { nodes } from "../support/recipes.ts";
import {
  placeIn,
  program,
  root,
  socketFolder,
  temporaryFolder
} from "../support/support.ts";
import { missing, noMount, noStrace, strace } from "../support/tools.ts";
import { until } from "../support/until.ts";

/** The ids of a journal's records, and what is wrong with its first bad line. */
function read(path: string) {
  const { ids, fault } = journals.read(readFileSync(path));
  return { ids, fault };
}

const stored: Answer = { status: 200, error: undefined };
const full: Answer = { status: 503, error: 50301 };
const unknown: Answer = { status: 503, error: 50302 };

test(
  "EIO from a write: 50302, no later 200, exit 74, and the next start goes on",
  { skip: noStrace },
  async () => {
    // One thread for files, so that writes to the journal are counted: the first is the header's.
    const { folder, path: store } = placeIn();
    const running = await launch({
      folder,
      store,
      env: { UV_THREADPOOL_SIZE: "1" },
      wrapper: strace(
        "write,pwrite64",
        ...["-P", store, "-e", "inject=write,pwrite64:error=EIO:when=3"]
      )
    });
    assert.deepEqual(await running.post(1), stored);
    const later = await Promise.all([2, 3, 4].map((id) => running.post(id)));
    assert.deepEqual(later[0], unknown);
    assert.ok(
      later.every(({ status }) => status === 0 || status === 503),
      JSON.stringify(later)
    );
    assert.equal(await running.ended, 74, running.stderr());
    assert.match(running.stderr(), /plants\.ndjson: at offset \d+, /);
    assert.deepEqual(read(running.path), { ids: [1], fault: "" });
    const again = await launch({ store: running.path });
    assert.deepEqual(await again.post(5), stored);
    assert.equal(await again.end(), 0);
    assert.deepEqual(read(running.path), { ids: [1, 5], fault: "" });
  }
);

for (const [says, isFlushed, next] of [
  ["a new journal whose directory cannot be synced", false, 0],
  ["a journal that cannot be flushed, and the next one with 65,", true, 65]
] as const)
  test(`the start of ${says} ends with 74`, { skip: noStrace }, async () => {
    const { folder, path: store } = placeIn();
    if (isFlushed) writeFileSync(store, journals.header);
    const failing = isFlushed ? store : folder;
    const injected = ["-P", failing, "-e", "inject=fsync:error=EIO"];
    const wrapper = strace("fsync", ...injected);
    await assert.rejects(launch({ folder, store, wrapper }), {
      code: 74,
      message: /EIO.*fsync/
    });
    const code = await launch({ folder, store }).then(
      (again) => again.end(),
      (error: { readonly code: number }) => error.code
    );
    assert.equal(code, next);
  });

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
      "service returns by itself",
      async () => (await running.post(99, "c".repeat(6_000))).status === 200
    );
    kept.push(99);
    assert.deepEqual(read(path), { ids: kept, fault: "" });
    assert.equal(await running.end(), 0);
  }
);

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
      const { folder, path: store } = placeIn(socketFolder());
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
