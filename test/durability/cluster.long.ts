/**
 * Workers of node:cluster are processes like any others: they exclude each other, and the program
 * as a worker ends as it should. This process is their primary. Connections come through it, too:
 * it shares what a worker listens on with all others, unless a worker refuses that.
 */
import assert from "node:assert/strict";
import cluster from "node:cluster";
import { linkSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { after, test } from "node:test";
import { run } from "../support/in-process.ts";
import { faultsOf, load } from "../support/load.ts";
import {
  program,
  seeded,
  temporaryFolder,
  token,
  type Running
} from "../support/support.ts";
import { outcomeOf, patched } from "../support/tools.ts";
import { seconds } from "../support/until.ts";

const rounds = Number(process.env["PLANT_TEST_ROUNDS"] ?? 1);
/** A worker that does not end by itself is a failure, and no test that never ends. */
const bounded = { timeout: seconds(60 + rounds * 10) };

function killAll(): void {
  for (const worker of Object.values(cluster.workers ?? {}))
    worker?.process.kill("SIGKILL");
}
after(killAll);

/** Starts the program as a worker. */
function startWorker(
  store: string,
  server = program
): Promise<Running | string> {
  cluster.setupPrimary({
    exec: server,
    args: ["--port", "0", "--store", store],
    execArgv: [],
    silent: true
  });
  return outcomeOf(cluster.fork({ PLANTS_TOKEN: token }).process);
}

async function serving(store: string, server = program): Promise<Running> {
  const worker = await startWorker(store, server);
  return typeof worker === "string"
    ? assert.fail(`it ended with ${worker}`)
    : worker;
}

/**
 * Under load, a second worker on the same file is refused by each of its names; then the first is
 * killed, and the next has every plant that was acknowledged.
 */
async function killRounds(server: string) {
  const folder = temporaryFolder();
  const path = join(folder, "plants.ndjson");
  const elsewhere = join(folder, "elsewhere");
  mkdirSync(elsewhere);
  const hardLink = join(elsewhere, "plants.ndjson");
  const next = seeded(9);
  const all: number[] = [];
  let firstId = 1;
  let refused = 0;
  for (let round = 1; round <= rounds; round++) {
    const first = await serving(path, server);
    linkSync(path, hardLink);
    const loaded = load(first, firstId, Infinity);
    loaded.catch(() => undefined); // where nothing fails before, it is awaited below
    try {
      for (const name of [hardLink, path]) {
        const second = await startWorker(name, server);
        // By the lock, which excludes by all names, not only by the writes that opening sees.
        assert.match(
          typeof second === "string" ? second : "it serves",
          /^75 .*has it open: "ss /
        );
        refused++;
      }
      for (let responses = next(50); responses > 0; responses--)
        await fetch(first.url);
    } finally {
      killAll();
      rmSync(hardLink);
    }
    const { acknowledged, nextId } = await loaded;
    assert.ok(acknowledged.length > 0, "there was load");
    all.push(...acknowledged);
    firstId = nextId;
  }
  assert.equal(await (await serving(path, server)).end(), 0);
  assert.deepEqual(faultsOf(readFileSync(path), all), []);
  const { code, stdout } = await run(["verify", path]);
  assert.equal(code, 0, stdout);
  return { rounds, refused, acknowledged: all.length };
}

test(
  `${rounds} times killed and started again under load, workers lose no plant, and a second ` +
    "one is refused each time",
  bounded,
  async (t) => {
    t.diagnostic(JSON.stringify(await killRounds(program)));
  }
);

if (rounds > 1)
  test(
    "a program whose workers share the lock of their primary is noticed",
    bounded,
    () =>
      assert.rejects(
        killRounds(
          patched("sockets.js", [["exclusive: true", "exclusive: false"]])
        ),
        {
          name: "AssertionError",
          actual: /^it serves|another process writes to it|has 2 names/
        }
      )
  );

test(
  "a worker ends at SIGTERM with 0, and has closed its journal",
  bounded,
  async () => {
    const path = join(temporaryFolder(), "plants.ndjson");
    for (const signal of ["SIGTERM", "SIGINT"] as const) {
      const worker = await serving(path);
      assert.equal(await worker.end(signal), 0);
      assert.equal(worker.stderr(), "");
    }
  }
);
