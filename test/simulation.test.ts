/**
 * Random lives of a journal on the simulated disk, each decided by a seed: appends, rotations,
 * second openings, faults of any call, short and torn writes, crashes, and openings anew. A model,
 * which shares no code with the journal, knows what must be in its files and what may be.
 *
 * PLANT_TEST_RUNS: how many runs; PLANT_TEST_SEED: this one run alone, which tells its story.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate } from "node:timers/promises";
import { crc32 } from "node:zlib";
import type { JournalFile } from "../src/journal/disk.ts";
import { openJournal, type Journal } from "../src/journal/journal.ts";
import { JournalError } from "../src/journal/open.ts";
import { StoreError } from "../src/plant.ts";
import {
  SimulatedDisk, type Fault, type Interruption, type Operation, type Survival,
} from "./simdisk.ts";

const path = "/plants.ndjson";
const headerBytes = 133;
/** EFBIG, ENOSPC, EDQUOT. */
const noSpace: ReadonlySet<number | undefined> = new Set([27, 28, 122]);
const EIO = 5;

/** The same numbers for the same seed (mulberry32). */
class Dice {
  #state: number;

  constructor(seed: number) {
    this.#state = seed;
  }

  /** A whole number from 0 to one less than this. */
  below(count: number): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return Math.floor(((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32 * count);
  }

  pick<T>(list: readonly T[]): T {
    return list[this.below(list.length)] ?? assert.fail("the list is empty");
  }

  /** Whether it happens, in so many of a hundred cases. */
  happens(percent: number): boolean {
    return this.below(100) < percent;
  }
}

/** A disk that tells where its last append to the journal began. */
class WatchedDisk extends SimulatedDisk {
  writeBegan = 0;

  override open(name: string): JournalFile {
    const file = super.open(name);
    const append = (bytes: Buffer): Promise<number> => {
      this.writeBegan = this.bytes(name)?.length ?? 0;
      return file.append(bytes);
    };
    return { ...file, append };
  }
}

interface Line { readonly seq: number; readonly id: number }

/** A journal's records, and what is wrong with it, if anything; read by the format's document. */
function read(bytes: Buffer): { readonly lines: readonly Line[]; readonly fault: string } {
  const lines: Line[] = [];
  let offset = 0;
  let last = { seq: 0, synced: headerBytes };
  const result = (fault: string) => ({ lines, fault: fault && `${fault} at ${offset}` });
  while (offset < bytes.length) {
    const lf = bytes.indexOf("\n", offset);
    if (lf < 0) return result("no LF");
    const line = bytes.toString("utf8", offset, lf);
    const crc = crc32(line.slice(0, -18)).toString(16).padStart(8, "0");
    if (line.slice(-18) !== `,"crc":"${crc}"}`) return result("a wrong checksum");
    if (offset === 0) {
      if (!line.startsWith('{"journal":"plant-store","version":1,')) return result("no header");
    } else {
      const { seq, synced, plant } =
        JSON.parse(line) as { seq: number; synced: number; plant: { id: number } };
      if (seq !== last.seq + 1) return result(`seq ${seq}`);
      if (synced !== offset && synced !== last.synced) return result(`synced ${synced}`);
      last = { seq, synced };
      lines.push({ seq, id: plant.id });
    }
    offset = lf + 1;
  }
  return result(offset === 0 ? "no header" : "");
}

interface Planned { readonly operation: Operation; readonly fault: Fault; readonly skip: number }

const operations: readonly Operation[] = [
  ...Array<Operation>(12).fill("append"), "cut", "cut", "cut", "size", "size", "look", "look",
  "read", "open", "lock", "readBeside", "openBeside", "rename", "remove", "syncDirectory",
  "resolve",
];

class Run {
  readonly violations: string[] = [];
  /** What was done, for who reads the story of a seed. */
  readonly story: string[] = [];
  readonly #dice: Dice;
  readonly #disk: WatchedDisk;
  readonly #counts: Map<string, number>;
  /** What each plant's sender was told. */
  readonly #told = new Map<number, "stored" | StoreError["code"]>();
  #planned: Planned[] = [];
  #hasFailed = false;
  #isRenamed = false;
  #wasPowerLost = false;
  #renames = 0;

  constructor(seed: number, disk: WatchedDisk, counts: Map<string, number>) {
    this.#dice = new Dice(seed);
    this.#disk = disk;
    this.#counts = counts;
    disk.cutsAreDurable = this.#dice.happens(50);
  }

  async run(): Promise<void> {
    for (let lives = 1 + this.#dice.below(5); lives > 0; lives--) await this.#live(true);
    await this.#live(false);
    await this.#live(false);
  }

  async #live(isFaulty: boolean): Promise<void> {
    this.#planned = [];
    this.#disk.calls.length = 0;
    this.#hasFailed = this.#isRenamed = false;
    const faultsBefore = this.#disk.faultsFired;
    if (isFaulty) this.#plan();
    const journal = await this.#open();
    for (let steps = 1 + this.#dice.below(5); journal && steps > 0; steps--) {
      await this.#step(journal);
      if (this.#disk.isDown || this.#hasFailed) break;
      this.#check();
    }
    if (journal && !this.#disk.isDown && this.#dice.happens(50)) await this.#crashInWrite(journal);
    await journal?.close();
    const fired = this.#planned.filter(({ operation, skip }) =>
      this.#disk.calls.filter((call) => call === operation).length > skip);
    for (const { operation, fault } of fired) this.#count(nameOf(operation, fault));
    assert.equal(this.#disk.faultsFired - faultsBefore, fired.length, "each planned fault came");
    this.#restart();
  }

  /** Faults, and perhaps a crash, somewhere in the life to come. */
  #plan(): void {
    for (let count = this.#dice.pick([0, 1, 1, 2, 3]); count > 0; count--) {
      const operation = this.#dice.pick(operations);
      const skip = this.#dice.below(operation === "append" ? 8 : 4);
      const isTwice = this.#planned.some((each) =>
        each.operation === operation && each.skip === skip);
      if (isTwice) continue;
      const fault = this.#fault(operation);
      this.#planned.push({ operation, fault, skip });
      this.#disk.fail(operation, fault, skip);
    }
    if (this.#dice.happens(60)) this.#disk.crash(this.#dice.below(16), this.#part());
    this.#tell(`plan ${JSON.stringify(this.#planned)}`);
  }

  #fault(operation: Operation): Fault {
    const errno = this.#dice.happens(70)
      ? this.#dice.pick([EIO, 28, 122, 27]) : 1 + this.#dice.below(133);
    const bytes = this.#dice.below(900);
    if (operation !== "append") return { errno };
    return this.#dice.pick([{ errno }, { errno, bytes }, { bytes: bytes + 1 }, { bytes: 0 }]);
  }

  #part(): Interruption {
    const [bytes, nuls] = [this.#dice.below(900), this.#dice.below(900)];
    const durable = this.#dice.happens(70);
    return this.#dice.pick([{ bytes: 0, durable }, { bytes, durable }, { bytes, nuls, durable },
      { bytes: 0, nuls, durable }, { bytes: Infinity, durable }]);
  }

  async #open(): Promise<Journal | undefined> {
    const faults = this.#disk.faultsFired;
    const limits = { batchBytesMax: 1024, rotationMillis: 10 };
    const warn = (): void => this.#count("torn end mended");
    try {
      const journal = await openJournal(path, { disk: this.#disk, limits, warn });
      journal.once("failed", (error) => {
        this.#hasFailed = true;
        this.#tell(error.message);
        this.#count("journal failed");
      });
        this.#check();
      return journal;
    } catch (error) {
      this.#tell(`opening: ${error}`);
      this.#count("opening failed");
      const isMeet = this.#disk.isDown || this.#disk.faultsFired > faults;
      if (!(error instanceof JournalError)) this.#violate(`opening throws ${error}`);
      else if (!isMeet || !["unreadable", "failed"].includes(error.code)) {
        this.#violate(`opening is refused: ${error.message}`);
      }
      return undefined;
    }
  }

  #step(journal: Journal): Promise<unknown> {
    const step = this.#dice.below(10);
    if (step < 7) return this.#append(journal);
    return step < 9 ? this.#rotate(journal) : this.#openTwice();
  }

  /** Some plants at once, and what became of them; sometimes more while a write is in flight. */
  async #append(journal: Journal): Promise<void> {
    const wasFailed = this.#hasFailed;
    const waits = Array.from({ length: 1 + this.#dice.below(4) }, () => this.#one(journal));
    if (this.#dice.happens(30)) {
      const held = this.#disk.hold();
      await Promise.race([held, Promise.all(waits)]);
      waits.push(this.#one(journal), this.#one(journal));
      await setImmediate();
      this.#disk.letGo();
    }
    const told = await Promise.all(waits);
    if (wasFailed && told.includes("stored")) this.#violate("acknowledged by a failed journal");
    const fired = this.#planned.filter(({ operation, skip }) =>
      this.#disk.calls.filter((call) => call === operation).length > skip);
    const isFullOnly = fired.every(({ operation, fault }) => operation === "append"
      && (fault.errno === undefined ? fault.bytes !== 0 : noSpace.has(fault.errno)));
    if (isFullOnly && !this.#disk.isDown && this.#hasFailed) {
      this.#violate("the journal failed for no more than a full disk or a short write");
    }
    if (fired.length === 0 && !this.#disk.isDown && told.some((each) => each !== "stored")) {
      this.#violate(`without a fault: ${told.join()}`);
    }
  }

  #one(journal: Journal): Promise<string> {
    const id = this.#told.size + 1;
    this.#told.set(id, "unknown");
    const name = "Fern".repeat(this.#dice.below(150));
    return journal.append({ id: BigInt(id), name }).then(() => "stored" as const, (error) => {
      if (error instanceof StoreError) return error.code;
      this.#violate(`append throws ${error}`);
      return "unknown" as const;
    }).then((told) => {
      this.#told.set(id, told);
      this.#tell(`${id} ${told}`);
      this.#count(told);
      return told;
    });
  }

  async #rotate(journal: Journal): Promise<void> {
    const before = this.#one(journal);
    if (this.#dice.happens(50)) await setImmediate();
    const old = `${path}.${++this.#renames}`;
    this.#isRenamed = true;
    try {
      if (this.#disk.bytes(path)) this.#disk.rename(path, old);
    } catch (error) {
      this.#tell(`${error}`);
    }
    const rotated = journal.rotate().then(
      (isNew) => isNew ? "rotated" : "not rotated", () => "rotation refused");
    const during = this.#one(journal);
    const outcome = await rotated;
    this.#count(outcome);
    this.#tell(`${outcome} ${old}`);
    await Promise.all([before, during]);
    if (outcome === "rotated") this.#isRenamed = false;
  }

  /** Who opens a journal that is in use is sent away. */
  async #openTwice(): Promise<void> {
    const faults = this.#disk.faultsFired;
    const names = this.#disk.names().join();
    if (this.#disk.bytes(path) === undefined) return;
    const code = await openJournal(path, { disk: this.#disk }).then((second) => {
      void second.close();
      return "opened";
    }, (error: unknown) => (error instanceof JournalError ? error.code : String(error)));
    this.#count(`second opening ${code}`);
    if (this.#disk.isDown || this.#disk.faultsFired > faults || this.#isRenamed) return;
    if (code !== "locked") this.#violate(`a second opening: ${code}`);
    if (names !== this.#disk.names().join()) this.#violate("a second opening changes names");
  }

  /** The crash comes while plants are on their way; they are not answered. */
  async #crashInWrite(journal: Journal): Promise<void> {
    this.#disk.crash(0, this.#part());
    await Promise.all(Array.from({ length: 1 + this.#dice.below(3) }, () => this.#one(journal)));
  }

  #restart(): void {
    const isInWrite = this.#disk.isDown && this.#disk.calls.at(-1) === "append";
    if (this.#disk.isDown) this.#count(isInWrite ? "crash in a write" : "crash elsewhere");
    const survival: Survival = {
      bytes: this.#dice.happens(40), names: this.#dice.happens(60),
    };
    this.#tell(`restart ${JSON.stringify(survival)}`);
    for (const kind of ["bytes", "names"] as const) if (!survival[kind]) this.#count(`no ${kind}`);
    this.#wasPowerLost ||= !survival.bytes;
    this.#disk.restart(survival);
    const found = this.#disk.bytes(path);
    const { writeBegan: from } = this.#disk;
    const canHaveHoles = isInWrite && !survival.bytes && !this.#isRenamed && from >= headerBytes;
    if (!canHaveHoles || !found || found.length <= from || this.#dice.happens(50)) return;
    // What was in flight reaches the disk in any order: NULs stand where it has not.
    const bytes = Buffer.from(found);
    const start = from + this.#dice.below(bytes.length - from);
    bytes.fill(0, start, start + 1 + this.#dice.below(bytes.length - start));
    this.#disk.put(path, bytes);
    this.#count("hole of NULs");
  }

  /** Holds the files against the model; the journal is open, and no write is in flight. */
  #check(): void {
    const found = new Map<number, number>();
    for (const name of this.#disk.names()) {
      if (!/^\/plants\.ndjson(?:\.\d+)?$/.test(name)) continue;
      const { lines, fault } = read(this.#disk.bytes(name) ?? Buffer.alloc(0));
      for (const { id } of lines) found.set(id, (found.get(id) ?? 0) + 1);
      // What was rotated away is nobody's to mend: only its sound lines count.
      if (fault && name === path && !this.#isRenamed) this.#violate(`${name}: ${fault}`);
    }
    for (const [id, times] of found) {
      if (times > 1) this.#violate(`${id} is there ${times} times`);
      if (!this.#told.has(id)) this.#violate(`${id} was never sent`);
    }
    for (const [id, told] of this.#told) {
      const isThere = found.has(id);
      if (told === "stored" && !isThere) this.#violate(`${id} was acknowledged, and is lost`);
      if (told === "stored" || told === "unknown" || !isThere) continue;
      // A cut that was not durable may be undone by a power loss, and only by that.
      const isUndone = !this.#disk.cutsAreDurable && this.#wasPowerLost;
      if (isUndone) this.#count("a cut that was undone");
      else this.#violate(`${id} was told ${told}, and is there`);
    }
  }

  #violate(what: string): void {
    this.#tell(`VIOLATION ${what}`);
    this.violations.push(what);
  }

  #tell(what: string): void {
    this.story.push(what);
  }

  #count(what: string): void {
    this.#counts.set(what, (this.#counts.get(what) ?? 0) + 1);
  }
}

function nameOf(operation: Operation, { errno, bytes }: Fault): string {
  if (operation !== "append") return `${operation} fails`;
  if (errno === undefined) return bytes === 0 ? "append of no byte" : "short append";
  return `append fails${noSpace.has(errno) ? ", no space" : ""}${bytes ? ", a part is there" : ""}`;
}

/** Runs with seeds from this one on, until so many are done or violated. */
async function simulate(
  first: number, runs: number, make: () => WatchedDisk = () => new WatchedDisk(), violatedMax = 1,
) {
  const counts = new Map<string, number>();
  const violated: Run[] = [];
  for (let seed = first; seed < first + runs && violated.length < violatedMax; seed++) {
    const run = new Run(seed, make(), counts);
    await run.run();
    if (run.violations.length === 0) continue;
    violated.push(run);
    run.story.unshift(`PLANT_TEST_SEED=${seed}`);
  }
  return { counts, violated };
}

const { PLANT_TEST_SEED: seed, PLANT_TEST_RUNS: runs = "3000" } = process.env;
const told = seed === undefined ? `${runs} random lives` : `the lives of seed ${seed}`;

test(`in ${told} nothing acknowledged is lost, and no answer is false`, async (t) => {
  const { counts, violated } = await simulate(Number(seed ?? 1), seed ? 1 : Number(runs), undefined, 20);
  t.diagnostic(JSON.stringify(Object.fromEntries([...counts].sort())));
  for (const run of violated.slice(0,3)) t.diagnostic(run.story.join("\n"));
  t.diagnostic(violated.length + " violated: " + violated.map((r) => r.violations[0]).join("\n"));
  assert.deepEqual(violated.flatMap(({ violations }) => violations), []);
});
