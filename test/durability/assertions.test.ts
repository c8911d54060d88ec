/**
 * Invariants: a failed assertion is an internal error, exit code 70, and never a wrong 200.
 *
 * Each program is a copy of `dist` in which one line breaks the invariant.
 */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, test } from "node:test";
import { setImmediate } from "node:timers/promises";
import { openJournal } from "../../src/journal/journal.ts";
import { SimulatedDisk } from "../support/simdisk.ts";
import {
  cleanEnvironment, exchange, post, program, temporaryFolder, token, type Running,
} from "../support/support.ts";
import { outcomeOf, patched } from "../support/tools.ts";

const children = new Set<Running["process"]>();
after(() => children.forEach((child) => child.kill("SIGKILL")));

/** Starts a program and posts two plants; the statuses, the exit code, stderr and the journal. */
async function live(server: string) {
  const cwd = temporaryFolder();
  const env = cleanEnvironment({ PLANTS_TOKEN: token });
  const child = spawn(process.execPath, [server, "--port", "0"], { cwd, env });
  children.add(child);
  const closed = once(child, "close").then(([code]) => String(code));
  const outcome = await outcomeOf(child);
  if (typeof outcome === "string") return { statuses: [], end: outcome, names: [] };
  const statuses: (number | undefined)[] = [];
  for (const name of ["Fern", "Moss"]) {
    // A program that has failed may not listen any more.
    const [answer] = await exchange(outcome.port, post(`{"id":1,"name":"${name}"}`), { answers: 1 })
      .catch(() => []);
    statuses.push(answer?.status);
    if (answer?.status !== 200) break;
  }
  // A program that has failed ends by itself: a signal could end it first.
  if (server === program) child.kill();
  const code = await closed;
  const text = readFileSync(join(cwd, "plants.ndjson"), "utf8");
  const names = [...text.matchAll(/"name":"(\w+)"/g)].map(([, name]) => name);
  return { statuses, end: `${code} ${outcome.stderr()}`, names };
}

test("the program itself responds with 200 twice and ends with 0: the control", async () => {
  assert.deepEqual(await live(program),
    { statuses: [200, 200], end: "0 ", names: ["Fern", "Moss"] });
});

const broken: readonly (readonly [
  invariant: string, file: string, from: string, to: string, statuses: readonly number[],
])[] = [
  ["queued bytes are never negative", "queue.js", "this.#bytes += bytes;",
    "this.#bytes += bytes - 1;", [503]],
  ["an append settles only once", "queue.js", "this.batch = this.waiting.splice(0, count);",
    "const [a] = this.waiting.splice(0, count); this.#bytes += a.bytes; this.batch = [a, a];",
    [200]],
  ["every append of a batch settles", "queue.js", "file });\n        }\n        this.batch = [];",
    "file });\n        }", [200, 503]],
];

for (const [invariant, file, from, to, statuses] of broken) {
  test(`a program in which it is not true that ${invariant} ends with 70`, async () => {
    const found = await live(patched(file, [[from, to]]));
    assert.match(found.end, new RegExp(`^70 .*[:,] internal error: ${invariant}\n$`));
    assert.deepEqual(found.statuses.slice(0, statuses.length), statuses);
    const acknowledged = ["Fern", "Moss"].slice(0, statuses.filter((each) => each === 200).length);
    for (const name of acknowledged) assert.ok(found.names.includes(name), "a 200 is stored");
  });
}

test("a batch is not written where the file's end is not its offset", async () => {
  const disk = new SimulatedDisk();
  const journal = await openJournal("/plants.ndjson", { disk });
  const writes = (): number => disk.calls.filter((call) => call === "append").length;
  await journal.append({ id: 1n, name: "Fern" });
  await disk.open("/plants.ndjson").append(Buffer.from("another's"));
  const before = writes();
  const failed = new Promise<Error>((resolve) => journal.once("failed", resolve));
  await assert.rejects(journal.append({ id: 2n, name: "Moss" }), { code: "unknown" });
  assert.match((await failed).message, /process changed it: expected \d+ bytes, found \d+$/);
  await setImmediate();
  assert.equal(writes(), before, "nothing is written");
  await journal.close();
});
