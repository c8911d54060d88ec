/**
 * Workers of node:cluster are processes like any others: they exclude each other, and the program
 * as a worker ends as it should. This process is their primary. Connections come through it, too:
 * it shares what a worker listens on with all others, unless a worker refuses that.
 */
import assert from "node:assert/strict";
import cluster from "node:cluster";
import { linkSync } from "node:fs";
import { join } from "node:path";
import { after, test } from "node:test";
import { program, temporaryFolder, token } from "../support/support.ts";
import { outcomeOf, patched } from "../support/tools.ts";
import { seconds } from "../support/until.ts";

/** A worker that does not end by itself is a failure, and no test that never ends. */
const bounded = { timeout: seconds(60) };

function killAll(): void {
  for (const worker of Object.values(cluster.workers ?? {}))
    worker?.process.kill("SIGKILL");
}
after(killAll);

/** Starts the program as a worker. */
function startWorker(store: string, server = program) {
  cluster.setupPrimary({
    exec: server,
    args: ["--port", "0", "--store", store],
    execArgv: [],
    silent: true
  });
  return outcomeOf(cluster.fork({ PLANTS_TOKEN: token }).process);
}

/** Returns how a second worker ends that opens the first one's file by a hard link. */
async function secondWorker(server: string) {
  const path = join(temporaryFolder(), "plants.ndjson");
  assert.notEqual(typeof (await startWorker(path, server)), "string");
  const hardLink = join(temporaryFolder(), "plants.ndjson");
  linkSync(path, hardLink);
  const second = await startWorker(hardLink, server);
  killAll();
  return typeof second === "string" ? second : "it serves";
}

/** By the lock, which excludes by all names, not only by the writes that opening sees. */
const isRefused = /^75 .*has it open: "ss /;

test(
  "a second worker on a file is refused, by whatever name",
  bounded,
  async () => assert.match(await secondWorker(program), isRefused)
);

test(
  "a program whose workers share the lock of their primary is noticed",
  bounded,
  async () => {
    const change = ["exclusive: true", "exclusive: false"] as const;
    const server = patched("sockets.js", [change]);
    assert.doesNotMatch(await secondWorker(server), isRefused);
  }
);

test(
  "a worker ends at SIGTERM with 0, and has closed its journal",
  bounded,
  async () => {
    const path = join(temporaryFolder(), "plants.ndjson");
    for (const signal of ["SIGTERM", "SIGINT"] as const) {
      const worker = await startWorker(path);
      assert.ok(typeof worker === "object", String(worker));
      assert.equal(await worker.end(signal), 0);
      assert.equal(worker.stderr(), "");
    }
  }
);
