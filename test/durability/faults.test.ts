/**
 * Real faults of the running program: failing and short writes from strace, a small file system
 * that fills, kill -9 in the middle of large writes, network namespaces, Node's permission model.
 * Each test shows that its fault has come, and most that a broken program fails it: a copy of
 * `dist` with one line changed. A test whose tool is missing is skipped, and says so.
 */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { appendFileSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { setTimeout } from "node:timers/promises";
import * as journals from "../support/journals.ts";
import { launch, type Answer } from "../support/launch.ts";
import { nodes } from "../support/recipes.ts";
import { program, root, temporaryFolder } from "../support/support.ts";
import { eager, missing, patched } from "../support/tools.ts";

const noStrace = missing(["strace", "-f", "-o", "/dev/null", "-e", "inject=write:retval=1:when=9",
  "-e", "trace=write", "true"]);
const noLimits = noStrace || missing(["prlimit", "--version"]);
const noMount = missing(["unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"]);

const retrying = () => patched("journal.js", [["await appendAll(file, bytes);",
  "await appendAll(file, bytes).catch(() => appendAll(file, bytes));"]]);
const untruncated = () => patched("journal.js", [["file.truncate(end);", ";"],
  [" || file.size() !== end", ""]]);

/** The ids of a journal's records, and what is wrong with its first bad line. */
function read(path: string) {
  const { ids, fault } = journals.read(readFileSync(path));
  return { ids, fault };
}

async function until(holds: () => boolean | Promise<boolean>, says: string): Promise<void> {
  for (let tries = 0; !await holds(); tries++) {
    assert.ok(tries < 2_000, says);
    await setTimeout(5);
  }
}

/** Runs it under strace, with one thread for files, so that writes to the journal are counted:
 * the first is the header's. `-D`: the program stays our child.
 * @param inject what happens to writes to the journal; nothing: all writes are traced */
async function traced(inject: readonly string[], server = program, wrapper: string[] = []) {
  // strace -P knows a file by its real path.
  const folder = temporaryFolder();
  const [trace, store] = [join(folder, "trace"), join(folder, "plants.ndjson")];
  const which = inject.length > 0 ? ["-P", store] : ["-y", "-s", "65536"];
  const running = await launch({ folder, store, server, env: { UV_THREADPOOL_SIZE: "1" },
    wrapper: [...wrapper, "strace", "-D", "-f", "-q", "-o", trace, ...which,
      "-e", "trace=write,pwrite64,writev,pwritev", ...inject.flatMap((each) => ["-e", each])] });
  const writes = async (isJoined = true): Promise<readonly string[]> => {
    await until(() => new RegExp(`^${running.pid} .*\\+\\+\\+ (?:exited|killed)`, "m")
      .test(readFileSync(trace, "utf8")), "strace has written all");
    const text = readFileSync(trace, "utf8");
    return (isJoined ? whole(text) : text.split("\n")).filter((line) => line.includes("write"));
  };
  return { ...running, writes };
}

/** A trace's lines; a call that another thread's interrupted stands in two, and is joined. */
function whole(trace: string): readonly string[] {
  const begun = new Map<string, string>();
  return trace.split("\n").flatMap((line) => {
    const [, thread = "", start] = /^(\d+) +(.*?) *<unfinished \.\.\.>$/.exec(line) ?? [];
    if (start !== undefined) begun.set(thread, start);
    const [, resumed = "", rest] = /^(\d+) +<\.\.\. \w+ resumed>(.*)$/.exec(line) ?? [];
    if (rest !== undefined) return [`${resumed} ${begun.get(resumed) ?? ""}${rest}`];
    return start === undefined ? [line] : [];
  });
}

const stored: Answer = { status: 200, error: undefined };
const full: Answer = { status: 503, error: 50301 };
const unknown: Answer = { status: 503, error: 50302 };

/** No space for the second plant: it is not stored, and the third is. */
async function isFullOnce(errno: string, server: string): Promise<void> {
  const running = await traced([`inject=write,pwrite64:error=${errno}:when=3`], server);
  assert.deepEqual(await running.post(1), stored);
  const before = readFileSync(running.path);
  assert.deepEqual(await running.post(2), full);
  assert.deepEqual(readFileSync(running.path), before);
  assert.deepEqual(await running.post(3), stored);
  assert.deepEqual(read(running.path), { ids: [1, 3], fault: "" });
  assert.equal(await running.end(), 0);
  assert.equal((await running.writes()).filter((line) => line.includes("(INJECTED)")).length, 1);
}

for (const errno of ["ENOSPC", "EDQUOT"]) {
  test(`${errno} from a write that wrote nothing: 50301, and the next plant is stored`,
    { skip: noStrace }, () => isFullOnce(errno, program));
}

test("a program that retries a failed write is noticed", { skip: noStrace }, () =>
  assert.rejects(isFullOnce("ENOSPC", retrying()), { name: "AssertionError" }));

/** A write that fails for good: no 200 after it, exit 74, and the next start has what it must. */
async function isFinal(inject: string, server: string): Promise<void> {
  const running = await traced([inject], server);
  assert.deepEqual(await running.post(1), stored);
  const later = await Promise.all([2, 3, 4].map((id) => running.post(id)));
  assert.deepEqual(later[0], unknown);
  assert.ok(later.every(({ status }) => status === 0 || status === 503), JSON.stringify(later));
  assert.equal(await running.ended, 74, running.stderr());
  assert.equal((await running.writes()).filter((line) => line.includes("(INJECTED)")).length, 1);
  assert.match(running.stderr(), /plants\.ndjson: at offset \d+, /);
  assert.deepEqual(read(running.path), { ids: [1], fault: "" });
  const again = await launch({ store: running.path });
  assert.deepEqual(await again.post(5), stored);
  assert.equal(await again.end(), 0);
  assert.deepEqual(read(running.path), { ids: [1, 5], fault: "" });
}

for (const [says, injected] of [
  ["EIO from a write", "error=EIO"], ["a write that takes no byte", "retval=0"],
] as const) {
  test(`${says}: 50302, no later 200, exit 74, and the next start goes on`, { skip: noStrace },
    () => isFinal(`inject=write,pwrite64:${injected}:when=3`, program));
}

test("a folder that can't be synced ends the start with 74", { skip: noStrace }, () =>
  assert.rejects(launch({ wrapper: ["strace", "-D", "-f", "-q", "-o", "/dev/null",
    "-e", "trace=fsync", "-e", "inject=fsync:error=EIO"] }), { code: 74, message: /EIO.*fsync/ }));

test("the rest of a short write of a real file is written", { skip: noLimits }, async () => {
  // The write that meets the limit of the file's size stops the program when it returns; then the
  // limit is lifted, and the rest finds room.
  const running = await traced(["inject=write,pwrite64:signal=SIGSTOP:when=3"], program,
    ["prlimit", "--fsize=4096:unlimited"]);
  assert.deepEqual(await running.post(1), stored);
  const answer = running.post(2, "b".repeat(5000));
  await until(() => statSync(running.path).size === 4096
    && /^State:\s+[Tt]/m.test(readFileSync(`/proc/${running.pid}/status`, "utf8")),
  "a part was written, and the program is stopped");
  spawnSync("prlimit", ["--fsize=unlimited", "--pid", String(running.pid)]);
  running.process.kill("SIGCONT");
  assert.deepEqual(await answer, stored);
  assert.equal(await running.end(), 0);
  assert.deepEqual(read(running.path), { ids: [1, 2], fault: "" });
  const [, , short, rest] = (await running.writes()).map((line) =>
    (/, (\d+)\) += (\d+)/.exec(line) ?? []).slice(1).map(Number));
  const [bytes = 0, taken = 0] = short ?? [];
  assert.ok(taken > 0 && taken < bytes, "the write was short");
  assert.deepEqual(rest, [bytes - taken, bytes - taken]);
});

/** A file system of 64 KiB, in a mount namespace of its own, fills and is freed. */
async function fills(server: string): Promise<void> {
  const folder = temporaryFolder();
  const disk = join(folder, "disk");
  mkdirSync(disk);
  const running = await launch({ folder, store: join(disk, "plants.ndjson"), server,
    wrapper: ["unshare", "-m", "sh", "-c", 'mount -t tmpfs -o size=64k none "$0" && exec "$@"',
      disk] });
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
  await until(async () => (await running.post(99, "c".repeat(6_000))).status === 200,
    "service returns by itself");
  kept.push(99);
  assert.deepEqual(read(path), { ids: kept, fault: "" });
  assert.equal(await running.end(), 0);
}

test("a full file system: 50301, no torn byte; when it is freed plants are stored again",
  { skip: noMount }, () => fills(program));

test("a program that does not truncate is noticed on a full file system", { skip: noMount }, () =>
  assert.rejects(fills(untruncated()), { name: "AssertionError" }));

/** Forty plants at once; how many responses began before the write of their record had returned. */
async function earlyResponses(server: string): Promise<{ readonly early: number }> {
  const running = await traced([], server);
  const answers = await Promise.all(Array.from({ length: 40 }, (_, n) => running.post(n + 1)));
  assert.deepEqual(answers, Array<Answer>(40).fill(stored));
  await running.end();
  const written = new Set<string>();
  const begun = new Map<string, readonly string[]>();
  let [early, answered] = [0, 0];
  for (const line of await running.writes(false)) {
    const [, thread = "", rest = ""] = /^(\d+) +(.*)/.exec(line) ?? [];
    const ids = rest.match(/plant-\d+/g) ?? [];
    if (rest.includes("HTTP/1.1 200 OK")) {
      answered += ids.length;
      early += ids.filter((id) => !written.has(id)).length;
    } else if (rest.includes("plants.ndjson>") || rest.startsWith("<... ")) {
      const all = [...begun.get(thread) ?? [], ...ids];
      if (rest.endsWith("<unfinished ...>")) begun.set(thread, all);
      else for (const id of all) written.add(id);
    }
  }
  assert.deepEqual([answered, written.size], [40, 40], "all responses and all records were seen");
  return { early };
}

test("each response leaves after the write of its record has returned", { skip: noStrace },
  async () => assert.deepEqual(await earlyResponses(program), { early: 0 }));

test("a program that responds before it writes is noticed", { skip: noStrace },
  async () => assert.deepEqual(await earlyResponses(eager()), { early: 40 }));

test("without memory for the window of keys the journal does not open, and says so", async () => {
  const server = patched("keys.js", [["Buffer.alloc(length * 2 * digestBytes)",
    "Buffer.alloc(length < 1000 ? length * 2 * digestBytes : 2 ** 53)"]]);
  await assert.rejects(launch({ server }),
    { code: 74, message: /plants\.ndjson: no memory for a window of keys of 67108864 bytes/ });
});

/** A bad line that no crash makes is refused, and stays as it is. */
async function refusesDamage(server: string): Promise<void> {
  const running = await launch({ server });
  for (const id of [1, 2]) assert.deepEqual(await running.post(id), stored);
  await running.end();
  const text = readFileSync(running.path, "utf8").replace("plant-2", "plant-3");
  writeFileSync(running.path, text);
  await assert.rejects(launch({ server, store: running.path }), { code: 65 });
  assert.equal(readFileSync(running.path, "utf8"), text);
}

test("a bad line is refused, not truncated; a program that truncates it is noticed", async () => {
  await refusesDamage(program);
  await assert.rejects(refusesDamage(patched("recover.js",
    [["if (isTorn(", "if (true || isTorn("]])), { name: "AssertionError" });
});

/** The flags that the README gives, for a folder. */
const flagsFor = (folder: string): readonly string[] =>
  (/`node (--permission .*?) dist\/server\.js/.exec(
    readFileSync(join(root, "src/program/README.md"), "utf8"),
  )?.[1] ?? assert.fail("the README has them")).replaceAll("'", "").split(" ")
    .map((flag) => flag.replace("FOLDER", folder).replace(/=dist$/, `=${dirname(program)}`));

for (const { path: node, version, major } of nodes) {
  test(`Node ${version} serves, recovers and verifies with the permissions of the README alone`, {
    skip: missing([node, "--permission", "--eval", "0"]) }, async () => {
    const folder = temporaryFolder();
    const store = join(folder, "plants.ndjson");
    const flags = [...flagsFor(folder), ...major >= 25 ? ["--allow-net"] : []];
    const first = await launch({ store, node: [node, ...flags] });
    assert.deepEqual(await first.post(1), stored);
    await first.end("SIGKILL");
    appendFileSync(first.path, "torn");
    for (const flag of flags.slice(1)) {
      const fewer = [node, ...flags.filter((each) => each !== flag)];
      await assert.rejects(launch({ store, node: fewer }), { name: "Error" }, `without ${flag}`);
    }
    const second = await launch({ store, node: [node, ...flags] });
    assert.match(second.stderr(), /a torn end of 4 bytes was moved to/);
    assert.deepEqual(await second.post(2), stored);
    assert.equal(await second.end(), 0);
    const { status } = spawnSync(node, [...flags, program, "verify", second.path]);
    assert.deepEqual([status, read(second.path)], [0, { ids: [1, 2], fault: "" }]);
  });
}
