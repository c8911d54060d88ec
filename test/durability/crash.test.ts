/**
 * Acknowledged plants survive kill -9: the program under load is killed again and again.
 * PLANT_TEST_ROUNDS: how often, and then also in the middle of writes of 200 KB records, with the
 * controls.
 */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { run } from "../support/in-process.ts";
import { idsIn, read } from "../support/journals.ts";
import { faultsOf, load, RetryingClients } from "../support/load.ts";
import {
  cleanEnvironment,
  program,
  seeded,
  startProcess,
  temporaryFolder,
  token
} from "../support/support.ts";
import { eager, outcomeOf } from "../support/tools.ts";

const { PLANT_TEST_ROUNDS: given = "1" } = process.env;
const rounds = Number(given);
/** How many torn ends must really be met. */
const tornWanted = Math.ceil(rounds / 20);

test(`${rounds} times killed under load, the program has every acknowledged plant`, async (t) => {
  const path = join(temporaryFolder(), "plants.ndjson");
  const next = seeded(20261121);
  const all: number[] = [];
  let firstId = 1;
  for (let round = 1; round <= rounds; round++) {
    const server = await startProcess({ args: ["--store", path] });
    const { acknowledged, nextId, unanswered } = await load(
      server,
      firstId,
      1 + next(600)
    );
    assert.equal(
      unanswered,
      32,
      "every connection was waiting for a response when it died"
    );
    all.push(...acknowledged);
    firstId = nextId;
    const again = await startProcess({ args: ["--store", path] });
    assert.deepEqual(faultsOf(readFileSync(path), all), [], `round ${round}`);
    await again.end("SIGKILL");
  }
  const { code, stdout } = await run(["verify", path]);
  assert.equal(code, 0, stdout);
  const records = readFileSync(path, "utf8").split("\n").length - 2;
  t.diagnostic(
    `${rounds} rounds, ${all.length} plants acknowledged, ${records} stored`
  );
});

/**
 * Kills a program under the load of clients that retry, until a retry has met a stored plant: on a
 * busy machine, a kill may come when all is acknowledged.
 *
 * @returns the clients, and the ids in the file
 */
async function killAndRetry(isKeyed: boolean, times: number) {
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
    await clients.killAfter(await startProcess({ args }), 1 + next(600));
  }
  const server = await startProcess({ args });
  await clients.finish(server);
  assert.equal(await server.end(), 0);
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

/**
 * Kills a program in the middle of writes of 200 KB plants, until so many ends are torn, or a
 * plant is lost: on a busy machine, a kill may come when all is written.
 */
async function killInWrites(server: string, tornMax: number) {
  const folder = temporaryFolder();
  const next = seeded(7);
  const nameOf = (id: number): string =>
    String.fromCharCode(97 + (id % 26)).repeat(200_000);
  const found = { rounds: 0, torn: 0, acknowledged: 0, faults: [] as string[] };
  while (
    found.torn < tornMax &&
    found.faults.length === 0 &&
    found.rounds++ < 40 * tornMax
  ) {
    const path = join(folder, `${found.rounds}.ndjson`);
    const args = ["--store", path, "--max-batch", "67108864"];
    // It dies while a write of some megabytes is under way: the file grows while one looks.
    const aim = (): void => {
      const { size } = statSync(path);
      for (
        let looks = 0;
        looks < 50_000 && statSync(path).size === size;
        looks++
      );
    };
    const { acknowledged } = await load(
      await startProcess({ args, program: server }),
      1,
      1 + next(30),
      nameOf,
      aim
    );
    const left = readFileSync(path);
    await (await startProcess({ args })).end("SIGKILL");
    found.faults.push(...faultsOf(readFileSync(path), acknowledged));
    const [copy] = readdirSync(folder).filter((name) =>
      name.includes(".torn-")
    );
    assert.equal(
      copy !== undefined,
      left.at(-1) !== 0x0a,
      "what is torn, and only that, is aside"
    );
    if (copy !== undefined) {
      found.torn++;
      assert.deepEqual(
        readFileSync(join(folder, copy)),
        left.subarray(Number(copy.split("-")[1]))
      );
    }
    found.acknowledged += acknowledged.length;
    for (const name of readdirSync(folder)) rmSync(join(folder, name));
  }
  return found;
}

if (process.env["PLANT_TEST_ROUNDS"] !== undefined) {
  test("killed until it has left torn ends of 200 KB records, it loses none", async (t) => {
    const { faults, ...found } = await killInWrites(program, tornWanted);
    t.diagnostic(JSON.stringify(found));
    assert.deepEqual(faults, []);
    assert.ok(found.torn >= tornWanted && found.acknowledged > 0);
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

  test("a program that responds before it writes loses some: the control", async () => {
    assert.match((await killInWrites(eager(), 50)).faults.join(), /lost: /);
  });
}

const starts = process.env["PLANT_TEST_ROUNDS"] === undefined ? 4 : 20;
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
