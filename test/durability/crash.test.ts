/**
 * What was acknowledged outlives every crash: the real program under load is killed again and
 * again, and recovery, on a simulated disk, is killed at each of its steps.
 */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { after, test } from "node:test";
import { crc32 } from "node:zlib";
import { openJournal } from "../../src/journal/journal.ts";
import { JournalError } from "../../src/journal/error.ts";
import { faultsOf, load } from "../support/load.ts";
import { SimulatedDisk } from "../support/simdisk.ts";
import type { Interruption, Operation, Survival } from "../support/simdisk.ts";
import {
  cleanEnvironment, exchange, post, program, run, seeded, start, temporaryFolder, token,
} from "../support/support.ts";

const rounds = Number(process.env["PLANT_TEST_ROUNDS"] ?? 20);
/** How many torn ends must really be met. */
const tornWanted = Math.ceil(rounds / 20);

test(`${rounds} times killed under load, the program has every acknowledged plant`, async (t) => {
  const path = join(temporaryFolder(), "plants.ndjson");
  const next = seeded(20261121);
  const all: number[] = [];
  let firstId = 1;
  for (let round = 1; round <= rounds; round++) {
    const server = await start({ args: ["--store", path] });
    const { acknowledged, nextId, unanswered } =
      await load(server, firstId, 1 + next(600));
    assert.equal(unanswered, 32, "every connection was waiting for an answer when it died");
    all.push(...acknowledged);
    firstId = nextId;
    const again = await start({ args: ["--store", path] });
    assert.deepEqual(faultsOf(readFileSync(path), all), [], `round ${round}`);
    await again.end("SIGKILL");
  }
  const { code, stdout } = await run(["verify", path]);
  assert.equal(code, 0, stdout);
  const records = readFileSync(path, "utf8").split("\n").length - 2;
  t.diagnostic(`${rounds} rounds, ${all.length} plants acknowledged, ${records} stored`);
});

test("killed until it has left torn ends of 200 KB records, it loses none", async (t) => {
  const folder = temporaryFolder();
  const next = seeded(7);
  const nameOf = (id: number): string => String.fromCharCode(97 + (id % 26)).repeat(200_000);
  let [torn, round, acknowledgedTotal] = [0, 0, 0];
  for (; torn < tornWanted && round < 40 * tornWanted; round++) {
    const path = join(folder, `${round}.ndjson`);
    const server = await start({ args: ["--store", path, "--max-batch", "67108864"] });
    // It dies while a write of some megabytes is under way: the file grows while one looks.
    const aim = (): void => {
      const { size } = statSync(path);
      for (let looks = 0; looks < 50_000 && statSync(path).size === size; looks++);
    };
    const killAt = 1 + next(30);
    const { acknowledged } = await load(server, 1, killAt, nameOf, aim);
    const left = readFileSync(path);
    const again = await start({ args: ["--store", path] });
    assert.deepEqual(faultsOf(readFileSync(path), acknowledged), [], `round ${round}`);
    await again.end("SIGKILL");
    const [copy] = readdirSync(folder).filter((name) => name.startsWith(`${round}.ndjson.torn-`));
    assert.equal(copy !== undefined, left.at(-1) !== 0x0a, "what is torn, and only that, is aside");
    if (copy !== undefined) {
      torn++;
      assert.deepEqual(readFileSync(join(folder, copy)), left.subarray(Number(copy.split("-")[1])));
    }
    acknowledgedTotal += acknowledged.length;
    for (const name of readdirSync(folder)) rmSync(join(folder, name));
  }
  t.diagnostic(`${round} rounds, ${torn} torn ends, ${acknowledgedTotal} plants acknowledged`);
  assert.ok(torn >= tornWanted, `${torn} torn ends in ${round} rounds`);
});

test("a lost plant, a torn line, a gap and a missing LF are noticed", async () => {
  const path = join(temporaryFolder(), "plants.ndjson");
  const server = await start({ args: ["--store", path] });
  const { acknowledged } = await load(server, 1, 50);
  await (await start({ args: ["--store", path] })).end();
  const text = readFileSync(path, "utf8");
  const lines = text.split(/(?<=\n)/);
  const last = lines.at(-1) ?? "";
  const { plant: { id } } = JSON.parse(last) as { plant: { id: number } };
  const faults = (changed: string, ids = acknowledged): string[] =>
    faultsOf(Buffer.from(changed), ids);
  assert.deepEqual(faults(text), []);
  assert.deepEqual(faults(text, [...acknowledged, 999]), ["lost: 999"]);
  assert.deepEqual(faults(text.slice(0, -last.length), [id]), [`lost: ${id}`]);
  assert.deepEqual(faults(text.slice(0, -9), [id]),
    ["it does not end in LF", `lost: ${id}`]);
  assert.deepEqual(faults(`${text.slice(0, -9)}\n`, []), [`line ${lines.length} is not whole`]);
  assert.equal(faults(lines.toSpliced(5, 1).join(""), [])[0], "line 6 has seq 6");
});

test("of twenty starts at once on one file one serves, the others exit 75", async () => {
  const path = join(temporaryFolder(), "plants.ndjson");
  const children = Array.from({ length: 20 }, () =>
    spawn(process.execPath, [program, "--port", "0", "--store", path], {
      env: cleanEnvironment({ PLANTS_TOKEN: token }), stdio: ["ignore", "pipe", "ignore"],
    }));
  after(() => children.map((child) => child.kill("SIGKILL")));
  const outcomes = await Promise.all(children.map(async (child) => {
    const serves = once(child.stdout, "data").then(() => "serves");
    return Promise.race([serves, once(child, "exit").then(([code]) => Number(code))]);
  }));
  assert.deepEqual(outcomes.toSorted(), [...Array<number>(19).fill(75), "serves"]);
  const winner = children[outcomes.indexOf("serves")];
  assert.ok(winner);
  const before = readFileSync(path);
  assert.equal((await run(["serve", "--store", path, "--port", "0"])).code, 75);
  assert.deepEqual(readFileSync(path), before, "who exits 75 touches nothing");
  winner.kill("SIGKILL");
  await once(winner, "exit");
  const next = await start({ args: ["--store", path] });
  assert.equal(await next.end(), 0, "after kill -9 the next start needs no hand");
});

test("a real disk's EFBIG is 503, nothing stored; a smaller plant then is stored", async () => {
  const folder = temporaryFolder();
  const child = spawn("bash", ["-c", 'ulimit -f 4; exec "$@"', "bash", process.execPath, program,
    "--port", "0"], { cwd: folder, env: cleanEnvironment({ PLANTS_TOKEN: token }) });
  const [line] = await once(child.stdout.setEncoding("utf8"), "data");
  const port = Number(/:(\d+)\n/.exec(String(line))?.[1]);
  const statusOf = async (id: number, name: string): Promise<number | undefined> =>
    (await exchange(port, post(JSON.stringify({ id, name })), { answers: 1 }))[0]?.status;
  assert.equal(await statusOf(1, "a"), 200);
  assert.equal(await statusOf(2, "b".repeat(5000)), 503);
  assert.equal(await statusOf(3, "c"), 200);
  child.kill("SIGKILL");
  await once(child, "exit");
  assert.deepEqual(faultsOf(readFileSync(join(folder, "plants.ndjson")), [1, 3]), []);
});

/** A journal of three batches of two, as the program writes it; its last one begins at C. */
const journalPath = "/plants.ndjson";
const whole = await (async () => {
  const disk = new SimulatedDisk();
  const journal = await openJournal(journalPath, { disk });
  for (let batch = 0n; batch < 3n; batch++) {
    await Promise.all(["Fern", "Moss"].map((name) => journal.append({ id: batch, name })));
  }
  await journal.close();
  return disk.bytes(journalPath) ?? assert.fail();
})();
const lines = whole.toString().split(/(?<=\n)/);
const textOf = (count: number): string => lines.slice(0, count).join("");
const C = textOf(5).length;
const bytesOf = (text: string, nuls = 0): Buffer => Buffer.from(text + "\0".repeat(nuls));

const ends: readonly (readonly [says: string, file: Buffer, expected: string])[] = [
  ["no byte", bytesOf(""), ""],
  ["a part of a header", bytesOf(textOf(1).slice(0, 50)), ""],
  ["a header", bytesOf(textOf(1)), ""],
  ["a sound end", whole, textOf(7)],
  ["a missing LF", whole.subarray(0, -1), textOf(7)],
  ["a line cut short", whole.subarray(0, -9), textOf(6)],
  ["a last write that is torn", Buffer.from(whole).fill(0, C + 20, C + 30), textOf(5)],
  ["NULs behind it", bytesOf(textOf(7), 99), textOf(7)],
];

/** Opens and closes; what a reader then sees, or why not. "": a header, whosever. */
async function opened(disk: SimulatedDisk): Promise<string> {
  try {
    await (await openJournal(journalPath, { disk })).close();
    const text = disk.bytes(journalPath)?.toString() ?? "no file";
    return text.length === textOf(1).length ? "" : text;
  } catch (error) {
    return String(error);
  }
}

const processDied: Survival = { bytes: true, names: true };
const survivals: readonly Survival[] = [processDied, { bytes: true, names: false },
  { bytes: false, names: true }, { bytes: false, names: false }];
const parts: readonly (Interruption | undefined)[] = [
  undefined, { bytes: Infinity, durable: false }, { bytes: 40, durable: true },
  { bytes: 0, nuls: 40, durable: true }, { bytes: 40, nuls: Infinity, durable: true },
];

interface Crash {
  readonly skip: number;
  readonly part: Interruption | undefined;
  readonly survival: Survival;
}

/** Whether every crash came, and where records were lost, how. */
async function recover(
  file: Buffer, expected: string, crashes: readonly Crash[], disk: SimulatedDisk,
): Promise<{ readonly crashed: boolean; readonly lost: readonly string[] }> {
  disk.put(journalPath, file);
  for (const { skip, part, survival } of crashes) {
    disk.crash(skip, part);
    await opened(disk);
    if (!disk.isDown) return { crashed: false, lost: [] };
    disk.restart(survival);
  }
  const found = await opened(disk);
  disk.restart({ bytes: false, names: false });
  const kept = await opened(disk);
  const torn = file.subarray(expected === "" ? file.length : expected.length);
  const isSaved = torn.length === 0 || disk.names().some((name) =>
    name.includes(".torn-") && disk.bytes(name)?.equals(torn) === true);
  const isRight = found === expected && kept === expected && isSaved;
  return { crashed: true, lost: isRight ? [] : [JSON.stringify({ crashes, found, kept })] };
}

/** A first crash at every change, in every way; behind the death of a process a second crash. */
async function losses(file: Buffer, expected: string, twice: boolean, lies = false) {
  const lost: string[] = [];
  let states = 0;
  const each = async (before: readonly Crash[], cutsAreDurable: boolean): Promise<void> => {
    const isAgain = before.length > 0;
    for (const part of isAgain ? parts.slice(0, 3) : parts) {
      for (const survival of isAgain ? survivals.slice(1) : survivals) {
        for (let skip = 0; ; skip++) {
          const disk = Object.assign(new SimulatedDisk(), { cutsAreDurable, lies });
          const crashes = [...before, { skip, part, survival }];
          const result = await recover(file, expected, crashes, disk);
          if (!result.crashed) break;
          states++;
          lost.push(...result.lost);
          if (!isAgain && twice && survival === processDied) await each(crashes, cutsAreDurable);
        }
      }
    }
  };
  await each([], true);
  await each([], false);
  return { lost, states };
}

for (const [says, file, expected] of ends) {
  test(`a recovery from ${says}, killed at any step and again, loses nothing`, async (t) => {
    const { lost, states } = await losses(file, expected, true);
    t.diagnostic(`${states} states`);
    assert.ok(states > 100);
    assert.deepEqual(lost.slice(0, 2), [], `${lost.length} of ${states} states`);
  });
}

test("on a disk that lies about its writes a killed recovery loses records", async () => {
  assert.notDeepEqual((await losses(whole, textOf(7), false, true)).lost, []);
});

test("lines that only the page cache held are durable once the journal is open", async () => {
  const openOver = async (durable: Buffer, lies: boolean): Promise<string | undefined> => {
    const disk = Object.assign(new SimulatedDisk(), { lies });
    disk.put(journalPath, whole, durable);
    await opened(disk);
    disk.restart({ bytes: false, names: false });
    return disk.bytes(journalPath)?.toString();
  };
  const holes = Buffer.from(whole).fill(0, C);
  for (const durable of [whole.subarray(0, C), whole.subarray(0, C + 40), holes]) {
    assert.equal(await openOver(durable, false), whole.toString());
    assert.notEqual(await openOver(durable, true), whole.toString(), "the control");
  }
});

/** A FILE.rewrite as a killed recovery leaves it, and the file cut at C that stood beside it. */
const anewPath = `${journalPath}.rewrite`;
const killed = await (async () => {
  const disk = new SimulatedDisk();
  disk.put(journalPath, whole);
  for (let skip = 0; skip < 99 && disk.bytes(journalPath)?.length !== C; skip++) {
    disk.restart(processDied);
    disk.crash(skip);
    await opened(disk);
  }
  return { file: whole.subarray(0, C), rewrite: disk.bytes(anewPath) ?? assert.fail() };
})();
const foreign = Buffer.from(textOf(1).replace(/(?<="file":")[^"]*/, "0".repeat(36))
  .replace(/(.*),"crc.*/, (_, start: string) =>
    `${start},"crc":"${crc32(start).toString(16).padStart(8, "0")}"}`));

const copies: readonly (readonly [says: string, file: Buffer, rewrite: Buffer, after: string])[] = [
  ["beside a file that is cut", killed.file, killed.rewrite, textOf(7)],
  ["beside a file written rewrite in part", whole.subarray(0, C + 40), killed.rewrite, textOf(7)],
  ["beside one with NULs in that part", Buffer.from(whole).fill(0, C + 9), killed.rewrite, textOf(7)],
  ["beside a whole file", whole, killed.rewrite, textOf(7)],
  ["cut short beside a whole file", whole, killed.rewrite.subarray(0, -9), textOf(7)],
  ["empty beside a whole file", whole, Buffer.alloc(0), textOf(7)],
  ["of NULs beside a whole file", whole, Buffer.alloc(999), textOf(7)],
];

for (const [says, file, rewrite, after] of copies) {
  test(`a FILE.rewrite ${says} is finished, or dropped where it is not whole`, async () => {
    const path = join(temporaryFolder(), "plants.ndjson");
    writeFileSync(path, file);
    writeFileSync(`${path}.rewrite`, rewrite);
    await (await openJournal(path)).close();
    assert.equal(readFileSync(path, "utf8"), after);
    assert.deepEqual(readdirSync(dirname(path)), ["plants.ndjson"]);
  });
}

test("a FILE.rewrite of another journal never enters, and is not lost", async () => {
  for (const file of [foreign, Buffer.concat([foreign, whole.subarray(foreign.length)])]) {
    const disk = new SimulatedDisk();
    disk.put(journalPath, file);
    disk.put(anewPath, killed.rewrite);
    assert.match(await opened(disk), /^JournalError: .*another file/);
    assert.deepEqual([disk.bytes(journalPath), disk.bytes(anewPath)], [file, killed.rewrite]);
    disk.remove(anewPath);
    assert.doesNotMatch(await opened(disk), /^JournalError/, "the control: without it");
  }
});

const EIO = 5;
/** Files whose openings make every kind of call. */
const busy: readonly Buffer[] = [
  bytesOf("", 9), whole, whole.subarray(0, -1), bytesOf(`${textOf(7)}torn`),
];
const calls: readonly (readonly [operation: Operation, code: string, exitCode: number])[] = [
  ["open", "unreadable", 65], ["read", "unreadable", 65], ["readBeside", "unreadable", 65],
  ["append", "failed", 74], ["truncate", "failed", 74], ["openBeside", "failed", 74],
  ["syncDirectory", "failed", 74], ["remove", "failed", 74],
];

for (const [operation, code, exitCode] of calls) {
  test(`an opening whose ${operation} fails ends with ${exitCode}; the next mends`, async () => {
    let fired = 0;
    for (const file of busy) {
      for (let skip = 0; ; skip++) {
        const disk = new SimulatedDisk();
        disk.put(journalPath, file);
        disk.fail(operation, { errno: EIO }, skip);
        const error: unknown = await openJournal(journalPath, { disk })
          .then((journal) => journal.close(), (error: unknown) => error);
        fired += disk.faultsFired;
        if (disk.faultsFired > 0) {
          assert.ok(error instanceof JournalError, `${operation} ${skip}: ${error}`);
          assert.deepEqual([error.code, error.exitCode], [code, exitCode], `${operation} ${skip}`);
          if (exitCode === 65) assert.deepEqual(disk.bytes(journalPath), file);
        }
        const isLast = disk.faultsFired === 0;
        disk.restart(processDied);
        assert.equal(await opened(disk), file.length === 9 ? "" : textOf(7));
        if (isLast) break;
      }
    }
    assert.ok(fired > 0);
  });
}
