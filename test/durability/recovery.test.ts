/**
 * Recovery on a simulated disk, killed at each of its steps and again: it loses nothing.
 * Nor does an opening lose what another process writes meanwhile, in spite of all locks.
 *
 * PLANT_TEST_ROUNDS: each end is killed again, too. Over 20: also with truncations that are durable
 * at once.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { JournalError } from "../../src/journal/error.ts";
import type { Disk } from "../../src/journal/files.ts";
import { openJournal } from "../../src/journal/journal.ts";
import { EACCES, EIO, ENOSPC, read } from "../support/journals.ts";
import {
  type Interruption,
  type Operation,
  SimulatedDisk,
  type Survival
} from "../support/simdisk.ts";

const { PLANT_TEST_ROUNDS: rounds } = process.env;
const isLong = Number(rounds) > 20;

/** A journal of three batches of two, as the program writes it; its last one begins at C. */
const journalPath = "/plants.ndjson";
/** A window of keys that is made in no time: a journal is opened thousands of times. */
const limits = { keysBytesMax: 4096 };
const whole = await (async () => {
  const disk = new SimulatedDisk();
  const journal = await openJournal(journalPath, { disk, limits });
  for (let batch = 0n; batch < 3n; batch++) {
    await Promise.all(
      ["Fern", "Moss"].map((name) => journal.append({ id: batch, name }))
    );
  }
  await journal.close();
  return disk.bytes(journalPath) ?? assert.fail();
})();
const lines = whole.toString().split(/(?<=\n)/);
const textOf = (count: number): string => lines.slice(0, count).join("");
const C = textOf(5).length;
const bytesOf = (text: string, nuls = 0): Buffer =>
  Buffer.from(text + "\0".repeat(nuls));

/** NULs in the last write. */
const torn = Buffer.from(whole).fill(0, C + 20, C + 30);

const ends: readonly (readonly [
  says: string,
  file: Buffer,
  expected: string
])[] = [
  ["no byte", bytesOf(""), ""],
  ["a part of a header", bytesOf(textOf(1).slice(0, 50)), ""],
  ["a header", bytesOf(textOf(1)), ""],
  ["a clean end", whole, textOf(7)],
  ["a missing LF", whole.subarray(0, -1), textOf(7)],
  ["an unfinished line", whole.subarray(0, -9), textOf(6)],
  ["a last write that is torn", torn, textOf(5)],
  ["NULs after it", bytesOf(textOf(7), 99), textOf(7)]
];

/** Opens and closes; what a reader then sees, or why not. "": a header, whosever. */
async function opened(disk: SimulatedDisk): Promise<string> {
  try {
    await (await openJournal(journalPath, { disk, limits })).close();
    const text = disk.bytes(journalPath)?.toString() ?? "no file";
    return text.length === textOf(1).length ? "" : text;
  } catch (error) {
    return String(error);
  }
}

const processDied: Survival = { bytes: true, names: true };
const survivals: readonly Survival[] = [
  processDied,
  { bytes: true, names: false },
  { bytes: false, names: true },
  { bytes: false, names: false }
];
const parts: readonly (Interruption | undefined)[] = [
  undefined,
  { bytes: Infinity, durable: false },
  { bytes: 40, durable: true },
  { bytes: 0, nuls: 40, durable: true },
  { bytes: 40, nuls: Infinity, durable: true }
];

/** Of a second crash. */
const partsAgain = parts.slice(0, 3);
const survivalsAgain = survivals.slice(1);

interface Crash {
  readonly skip: number;
  readonly part: Interruption | undefined;
  readonly survival: Survival;
}

/** Whether every crash came, and where records were lost, how. */
async function recover(
  file: Buffer,
  expected: string,
  crashes: readonly Crash[],
  disk: SimulatedDisk
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
  const isSaved =
    torn.length === 0 ||
    disk
      .names()
      .some(
        (name) =>
          name.includes(".torn-") && disk.bytes(name)?.equals(torn) === true
      );
  const isRight = found === expected && kept === expected && isSaved;
  return {
    crashed: true,
    lost: isRight ? [] : [JSON.stringify({ crashes, found, kept })]
  };
}

/** A first crash at every change, in every way; after the death of a process a second crash. */
async function losses(
  file: Buffer,
  expected: string,
  twice: boolean,
  lies = false
) {
  const lost: string[] = [];
  let states = 0;
  const each = async (
    before: readonly Crash[],
    truncationsAreDurable: boolean
  ): Promise<void> => {
    const isAgain = before.length > 0;
    for (const part of isAgain ? partsAgain : parts) {
      for (const survival of isAgain ? survivalsAgain : survivals) {
        for (let skip = 0; ; skip++) {
          const disk = Object.assign(new SimulatedDisk(), {
            truncationsAreDurable,
            lies
          });
          const crashes = [...before, { skip, part, survival }];
          const result = await recover(file, expected, crashes, disk);
          if (!result.crashed) break;
          states++;
          lost.push(...result.lost);
          if (isAgain || !twice || survival !== processDied) continue;
          await each(crashes, truncationsAreDurable);
        }
      }
    }
  };
  if (isLong || !twice) await each([], true);
  await each([], false);
  return { lost, states };
}

for (const [says, file, expected] of ends) {
  const isAgain = rounds !== undefined;
  test(`a recovery from ${says}, killed at any step${isAgain ? " and again" : ""}, loses nothing`, async (t) => {
    const { lost, states } = await losses(file, expected, isAgain);
    t.diagnostic(`${states} states`);
    assert.ok(states > 50);
    assert.deepEqual(
      lost.slice(0, 2),
      [],
      `${lost.length} of ${states} states`
    );
  });
}

test("on a disk that lies about its writes a killed recovery loses records", async () => {
  assert.notDeepEqual((await losses(whole, textOf(7), false, true)).lost, []);
});

test("lines that only the page cache held are durable once the journal is open", async () => {
  const openOver = async (
    durable: Buffer,
    lies: boolean
  ): Promise<string | undefined> => {
    const disk = Object.assign(new SimulatedDisk(), { lies });
    disk.put(journalPath, whole, durable);
    await opened(disk);
    disk.restart({ bytes: false, names: false });
    return disk.bytes(journalPath)?.toString();
  };
  const holes = Buffer.from(whole).fill(0, C);
  for (const durable of [
    whole.subarray(0, 0),
    whole.subarray(0, C),
    whole.subarray(0, C + 40),
    holes
  ]) {
    assert.equal(await openOver(durable, false), whole.toString());
    assert.notEqual(
      await openOver(durable, true),
      whole.toString(),
      "the control"
    );
  }
});

for (const [says, act, isLost] of [
  ["is written again after that process", () => undefined, false],
  [
    "is lost if a mark says that the file was closed",
    (disk: SimulatedDisk) => disk.markClosed(journalPath),
    true
  ]
] as const) {
  test(`what a failed flush has left, and no truncation has removed, ${says}`, async () => {
    const disk = new SimulatedDisk();
    const first = await openJournal(journalPath, { disk, limits });
    await first.append({ id: 1n, name: "Fern" });
    disk.fail("append", { errno: EIO, bytes: 1000 });
    disk.fail("truncate", { errno: EIO });
    await assert.rejects(first.append({ id: 2n, name: "Moss" }), {
      code: "unknown"
    });
    await first.close();
    assert.equal(disk.faultsFired, 2);

    assert.deepEqual(disk.marks(), []);
    act(disk);
    const second = await openJournal(journalPath, { disk, limits });
    await second.append({ id: 3n, name: "Ivy" });
    await second.close();
    disk.restart({ bytes: false, names: false });
    const { ids, fault } = read(disk.bytes(journalPath) ?? Buffer.alloc(0));
    assert.equal(ids.includes(2), !isLost, fault);
    assert.equal(fault !== "", isLost, fault);
  });
}

test("a file of which a flush has failed is refused at each opening, until it is copied again", async () => {
  const disk = new SimulatedDisk();
  const open = () => openJournal(journalPath, { disk, limits });
  const refusal = { exitCode: 65, message: /a flush of it failed/ };
  disk.copy(whole, journalPath, true);
  disk.fail("sync", { errno: ENOSPC });
  await assert.rejects(open(), { exitCode: 74, message: /ENOSPC/ });
  await assert.rejects(open(), refusal);
  disk.restart(processDied);
  await assert.rejects(open(), refusal);
  const [note = ""] = disk.marks();
  assert.match(note, /\.unflushed-\d+-\d+-\d+$/);

  disk.copy(whole, journalPath, true);
  disk.remove(note);
  await (await open()).close();
  disk.restart({ bytes: false, names: false });
  assert.equal(disk.bytes(journalPath)?.toString(), whole.toString());
});

for (const [says, isNoted] of [
  ["is refused at each rotation", true],
  ["without its note is lost: the control", false]
] as const) {
  test(`a file of which a flush has failed ${says}`, async () => {
    const disk = new SimulatedDisk();
    const journal = await openJournal(journalPath, { disk, limits });
    disk.rename(journalPath, "/moved");
    disk.copy(whole, journalPath, true);
    disk.fail("sync", { errno: ENOSPC });
    await assert.rejects(journal.rotate(), { exitCode: 74 });
    const [note = ""] = disk.marks();
    if (!isNoted) disk.remove(note);
    const again = journal.rotate();
    if (isNoted) await assert.rejects(again, { exitCode: 65 });
    else assert.equal(await again, true);
    await journal.close();
    disk.restart({ bytes: false, names: false });
    assert.notEqual(disk.bytes(journalPath)?.toString(), whole.toString());
  });
}

test("a journal that was closed is neither truncated nor rewritten at its opening, any other is", async () => {
  const changesOf = async (
    end: (disk: SimulatedDisk) => void
  ): Promise<readonly string[]> => {
    const disk = new SimulatedDisk();
    const journal = await openJournal(journalPath, { disk, limits });
    await journal.append({ id: 1n, name: "Fern" });
    await journal.close();
    end(disk);
    const { length } = disk.calls;
    const second = await openJournal(journalPath, { disk, limits });
    const calls = disk.calls.slice(length);
    await second.close();
    return calls.filter((call) =>
      ["truncate", "append", "rename", "openBeside", "remove", "sync"].includes(
        call
      )
    );
  };
  const rewritten = [
    "openBeside",
    "append",
    "rename",
    "truncate",
    "append",
    "remove"
  ];
  const removeMarks = (disk: SimulatedDisk) => {
    for (const mark of disk.marks()) disk.remove(mark);
  };
  assert.deepEqual(await changesOf(() => undefined), ["sync", "remove"]);
  assert.deepEqual(await changesOf(removeMarks), ["sync", ...rewritten]);
  assert.deepEqual(
    await changesOf((disk) => {
      const [mark = ""] = disk.marks();
      disk.rename(mark, mark.replace(/\d+$/, "0"));
    }),
    ["sync", "remove", ...rewritten],
    "a mark of another state"
  );
  assert.deepEqual(
    await changesOf((disk) => disk.fail("remove", { errno: EACCES })),
    ["sync", "remove", ...rewritten],
    "a mark that cannot be removed"
  );
});

/** A disk that makes no name durable, as if opening did not sync the directory. */
class ForgetfulDisk extends SimulatedDisk {
  override syncDirectory(): void {}
}

const closedPath = "/closed.ndjson";

/** How an operator brings a closed journal to its path. No name is durable after that. */
const ways: readonly (readonly [
  says: string,
  bring: (disk: SimulatedDisk) => void
])[] = [
  ["copied", (disk) => disk.copy(whole, journalPath, false)],
  [
    "moved with its mark",
    (disk) => {
      disk.put(closedPath, whole);
      disk.markClosed(closedPath);
      for (const name of disk.names())
        disk.rename(name, name.replace(closedPath, journalPath));
    }
  ]
];

/** The ids in a journal that is brought to its path and gets one plant, after a power cut. */
async function idsAfterPowerCut(
  disk: SimulatedDisk,
  bring: (disk: SimulatedDisk) => void
): Promise<readonly number[] | undefined> {
  bring(disk);
  const journal = await openJournal(journalPath, { disk, limits });
  await journal.append({ id: 7n, name: "Oak" });
  disk.restart({ bytes: false, names: false });
  const bytes = disk.bytes(journalPath);
  return bytes && read(bytes).ids;
}

for (const [says, bring] of ways) {
  test(`a closed journal that was ${says} to its path keeps its plants after a power cut`, async () => {
    const ids = await idsAfterPowerCut(new SimulatedDisk(), bring);
    assert.deepEqual(ids, [0, 0, 1, 1, 2, 2, 7]);
  });

  test(`control: a journal that was ${says} is gone if its directory is not synced`, async () => {
    const ids = await idsAfterPowerCut(new ForgetfulDisk(), bring);
    assert.equal(ids, undefined);
  });
}

/** Files whose openings make every kind of call. */
const busy: readonly Buffer[] = [
  bytesOf("", 9),
  whole,
  whole.subarray(0, -1),
  bytesOf(`${textOf(7)}torn`)
];
const calls: readonly (readonly [
  operation: Operation,
  code: string,
  exitCode: number
])[] = [
  ["open", "unreadable", 65],
  ["read", "unreadable", 65],
  ["readBeside", "unreadable", 65],
  ["append", "failed", 74],
  ["truncate", "failed", 74],
  ["openBeside", "failed", 74],
  ["syncDirectory", "failed", 74],
  ["remove", "failed", 74]
];

for (const [operation, code, exitCode] of calls) {
  test(`an opening whose ${operation} fails ends with ${exitCode}, and the next one repairs`, async () => {
    let fired = 0;
    for (const file of busy) {
      for (let skip = 0; ; skip++) {
        const disk = new SimulatedDisk();
        disk.put(journalPath, file);
        disk.fail(operation, { errno: EIO }, skip);
        const error: unknown = await openJournal(journalPath, {
          disk,
          limits
        }).then(
          (journal) => journal.close(),
          (error: unknown) => error
        );
        fired += disk.faultsFired;

        // The last file beside it is the mark at its end, which it need not have.
        const isMark = operation === "openBeside" && error === undefined;
        if (disk.faultsFired > 0 && !isMark) {
          assert.ok(
            error instanceof JournalError,
            `${operation} ${skip}: ${error}`
          );
          assert.equal(error.code, code, `${operation} ${skip}`);
          assert.equal(error.exitCode, exitCode, `${operation} ${skip}`);
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

// What opening does where another process writes meanwhile, in spite of all locks.

/** The calls of an opening, with a step before each but the truncation, which comes with the look
 * at the size before it. */
function between<T extends object>(target: T, step: () => void): T {
  return new Proxy(target, {
    get(_, name) {
      const member: unknown = Reflect.get(target, name);
      if (typeof member !== "function") return member;
      return (...given: unknown[]): unknown => {
        if (name !== "truncate") step();
        const result: unknown = member.apply(target, given);
        return name === "open" && typeof result === "object" && result
          ? between(result, step)
          : result;
      };
    }
  });
}

const last = whole.lastIndexOf("\n", -2) + 1;

for (const [says, cutAt] of [
  ["a whole line", last],
  ["the rest of a line", last + 30],
  ["an LF", whole.length - 1],
  ["the rest of a header", 50]
] as const) {
  test(`${says} that another process writes while a journal is opened is not lost`, async (t) => {
    const file = whole.subarray(0, cutAt);
    const rest = whole.subarray(cutAt);
    let acknowledged = 0;
    let refused = 0;
    for (let skip = 0, isOver = false; !isOver; skip++) {
      const disk = new SimulatedDisk();
      disk.put(journalPath, file);
      let steps = 0;
      let isAcknowledged = false;
      const intrude = (): void => {
        if (steps++ !== skip) return;
        const other = disk.open(journalPath);
        void other.append(rest);
        // As a server does, it looks at the size before it acknowledges.
        isAcknowledged = other.size() === whole.length;
      };
      const shared: Disk = between(disk, intrude);
      const outcome: unknown = await openJournal(journalPath, {
        disk: shared,
        limits
      }).then(
        (journal) => journal.close(),
        (error: unknown) => error
      );
      isOver = steps <= skip;
      if (outcome instanceof JournalError) {
        assert.equal(outcome.code, "locked", `${skip}: ${outcome.message}`);
        assert.deepEqual(
          disk.bytes(journalPath),
          whole,
          `${skip}: nothing is truncated`
        );
        if (refused++ === 0)
          assert.deepEqual(disk.names(), [journalPath], "no copy was made");
      }
      disk.restart({ bytes: true, names: true });
      if (isAcknowledged) {
        acknowledged++;
        await (await openJournal(journalPath, { disk, limits })).close();
        assert.deepEqual(
          disk.bytes(journalPath),
          whole,
          `${skip}: it is there`
        );
      }
    }
    t.diagnostic(`${acknowledged} acknowledged, ${refused} openings refused`);
    assert.ok(acknowledged > refused && refused > 0);
  });
}
