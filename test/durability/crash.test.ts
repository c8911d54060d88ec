/**
 * Acknowledged plants survive kill -9: the program under load is killed again and again.
 * PLANT_TEST_ROUNDS: how often, and then also the controls.
 */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { run } from "../support/in-process.ts";
import { idsIn, read } from "../support/journals.ts";
import { RetryingClients } from "../support/load.ts";
import {
  cleanEnvironment,
  program,
  seeded,
  startProcess,
  temporaryFolder,
  token
} from "../support/support.ts";
import { eager, outcomeOf } from "../support/tools.ts";

const { PLANT_TEST_ROUNDS: given } = process.env;
const isLong = given !== undefined;
const rounds = Number(given ?? 1);

/**
 * Kills a program under the load of clients that retry, until a retry has met a stored plant: on a
 * busy machine, a kill may come when all is acknowledged.
 *
 * @returns the clients, and the ids in the file
 */
async function killAndRetry(isKeyed: boolean, times: number, server = program) {
  const path = join(temporaryFolder(), "plants.ndjson");
  const next = seeded(20261122);
  const clients = new RetryingClients(isKeyed);
  // So many connections overfill the queue now and then.
  const args = ["--store", path, "--max-queue", "30"];
  const hasMet = (): boolean => {
    const { ids } = read(readFileSync(path));
    return (
      clients.unavailable > 0 &&
      (isKeyed ? clients.replays > 0 : new Set(ids).size < ids.length)
    );
  };
  for (let round = 1; round <= times || (round <= 40 && !hasMet()); round++) {
    const killed = await startProcess({ args, program: server });
    await clients.killAfter(killed, 1 + next(600));
  }
  const last = await startProcess({ args });
  await clients.finish(last);
  assert.equal(await last.end(), 0);
  return { clients, path, ids: idsIn(path) };
}

test(`${rounds} times killed, clients that retry with a key store each plant exactly once`, async (t) => {
  const { clients, path, ids } = await killAndRetry(true, rounds);
  const { acknowledged, replays, unavailable, sent } = clients;
  t.diagnostic(
    JSON.stringify({
      plants: acknowledged.length,
      stored: ids.length,
      sent,
      replays,
      unavailable
    })
  );
  const sorted = (list: readonly number[]) => list.toSorted((a, b) => a - b);
  assert.deepEqual(sorted(ids), sorted(acknowledged));
  assert.equal(new Set(ids).size, ids.length, "a plant is there twice");
  assert.ok(replays > 0 && unavailable > 0, "retries and refusals were met");
  assert.equal((await run(["verify", path])).code, 0);
});

if (isLong) {
  test("a program that responds before it writes loses some: the control", async () => {
    const { clients, ids } = await killAndRetry(true, 3, eager());
    const stored = new Set(ids);
    assert.ok(clients.acknowledged.some((id) => !stored.has(id)));
  });

  test("clients that retry without a key store plants twice: the control", async () => {
    const { clients, ids } = await killAndRetry(false, 3);
    assert.ok(new Set(ids).size < ids.length, `${ids.length} are stored`);
    const sent = new Set(ids);
    assert.deepEqual(
      clients.acknowledged.filter((id) => !sent.has(id)),
      [],
      "none is lost"
    );
  });
}

const starts = isLong ? 20 : 3;
test(`of ${starts} starts at once on one file one serves, the others exit 75`, async () => {
  const path = join(temporaryFolder(), "plants.ndjson");
  const env = cleanEnvironment({ PLANTS_TOKEN: token });
  const outcomes = await Promise.all(
    Array.from({ length: starts }, () =>
      outcomeOf(
        spawn(process.execPath, [program, "--port", "0", "--store", path], {
          env
        })
      )
    )
  );
  const winner = outcomes.find((each) => typeof each === "object");
  assert.ok(winner);
  assert.ok(
    outcomes.every((each) => each === winner || /^75 /.test(String(each))),
    outcomes.join("\n")
  );
  const before = readFileSync(path);
  assert.equal((await run(["serve", "--store", path, "--port", "0"])).code, 75);
  assert.deepEqual(
    readFileSync(path),
    before,
    "a process that exits with 75 touches nothing"
  );
  await winner.end("SIGKILL");
  const next = await startProcess({ args: ["--store", path] });
  assert.equal(
    await next.end(),
    0,
    "after kill -9 the next start needs no hand"
  );
});
