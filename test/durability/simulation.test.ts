/**
 * Random lives of a journal on the simulated disk, each decided by a seed: appends, rotations,
 * second openings, faults of any call, short and torn writes, crashes, and new openings. Between
 * two lives an operator deletes marks, moves, copies and links the file. Clients retry plants with
 * a key, after any outcome or none. A model, which shares no code with the
 * journal, knows what must be in its files, what may be, and which keys are remembered.
 *
 * PLANT_TEST_RUNS: how many runs; PLANT_TEST_SEED: this one run alone, which prints its story.
 */
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { setImmediate } from "node:timers/promises";
import type { JournalFile } from "../../src/journal/files.ts";
import { openJournal, type Journal } from "../../src/journal/journal.ts";
import { JournalError } from "../../src/journal/error.ts";
import { KeyWindow } from "../../src/journal/keys.ts";
import type { NewPlant } from "../../src/plant.ts";
import {
  SimulatedDisk,
  type Fault,
  type Interruption,
  type Operation,
  type Survival
} from "../support/simdisk.ts";
import {
  EDQUOT,
  EFBIG,
  EIO,
  ENOSPC,
  headerBytes,
  outcomeOf,
  read
} from "../support/journals.ts";
import { seeded } from "../support/support.ts";

const path = "/plants.ndjson";
/** A second name of the file, in another folder. */
const second = "/second/plants";
const limits = { batchBytesMax: 1024, rotationMillis: 10 };
/** Windows in bytes: the newest record alone, a few records, and all of them. */
const windows: readonly number[] = [1, 500, 3000, 2 ** 16];
const noSpace: ReadonlySet<number | undefined> = new Set([
  EFBIG,
  ENOSPC,
  EDQUOT
]);

/** The same numbers for the same seed; `below`: whole ones from 0. */
function diceOf(seed: number) {
  const below = seeded(seed);
  const pick = <T>(list: readonly T[]): T =>
    list[below(list.length)] ?? assert.fail("empty");
  const happens = (percent: number): boolean => below(100) < percent;
  return { below, pick, happens };
}

/** A disk that knows where the append began that a crash has interrupted, and what was shipped. */
class WatchedDisk extends SimulatedDisk {
  interrupted: number | undefined;

  /** By the identity of each file, what ship.mjs has printed of it, which reads after each write. */
  readonly shipped = new Map<string, Buffer>();

  /** Whether it prints all whole lines. */
  shipsAll = false;

  /** An operator deletes what no process uses; the program has no sockets here. */
  deleteSockets(): void {}

  override open(name: string): JournalFile {
    const file = super.open(name);
    const append = (bytes: Buffer): Promise<number> => {
      this.interrupted = this.bytes(name)?.length;
      return file.append(bytes).finally(() => {
        if (!this.isDown) this.interrupted = undefined;
        this.#ship(name);
      });
    };
    return { ...file, append };
  }
  override restart(survival: Survival): void {
    super.restart(survival);
    this.interrupted = undefined;
  }

  #ship(name: string): void {
    const [identity, bytes] = [this.identityOf(name), this.bytes(name)];
    if (identity === undefined || bytes === undefined) return;
    const before = this.shipped.get(identity) ?? Buffer.alloc(0);
    const rest = bytes.subarray(before.length).toString("latin1");
    const synced = rest.match(/(?<="synced":)\d+(?=,)/g)?.map(Number) ?? [];
    const [first = 0] = synced;
    const last = this.shipsAll
      ? bytes.lastIndexOf("\n") + 1
      : (synced.at(-1) ?? 0);
    if (last > first)
      this.shipped.set(
        identity,
        Buffer.concat([before, bytes.subarray(before.length, last)])
      );
  }
}

type Planned = readonly [operation: Operation, skip: number, fault: Fault];
const operations: readonly Operation[] = [
  ...Array<Operation>(12).fill("append"),
  "truncate",
  "truncate",
  "size",
  "size",
  "look",
  "look",
  "read",
  "open",
  "lock",
  "sync",
  "readBeside",
  "listEmpty",
  "openBeside",
  "rename",
  "remove",
  "syncDirectory",
  "resolve"
];

class Run {
  violation: string | undefined;
  readonly story: string[] = [];
  readonly #dice: ReturnType<typeof diceOf>;
  readonly #disk: WatchedDisk;
  readonly #counts: Map<string, number>;
  /** The outcomes of each plant's appends. */
  readonly #outcomes = new Map<number, string[]>();
  /** The plants that were sent with a key, for retries. */
  readonly #keyed: { readonly key: string; readonly plant: NewPlant }[] = [];
  readonly #window: number;
  /** The records and bytes of the files that this life has left, and the identity of its file. */
  #left: { records: Placed[]; bytes: number } = { records: [], bytes: 0 };
  #current: string | undefined;
  /** Whether each rotation of this life led to a new file. */
  #isNew = true;
  #isFaulty = false;
  #planned: Planned[] = [];
  #hasFailed = false;
  #isRenamed = false;
  #wasPowerLost = false;
  #renames = 0;
  /** The file in use, where it was renamed. */
  #inUse = path;
  /** What the operator has copied to the path, kept until a journal was opened there. */
  #backup: Buffer | undefined;
  /** Whether that is lost, or a flush has failed of which the program could leave no note. */
  #mustCopy = false;

  constructor(seed: number, disk: WatchedDisk, counts: Map<string, number>) {
    [this.#dice, this.#disk, this.#counts] = [diceOf(seed), disk, counts];
    disk.truncationsAreDurable = this.#dice.happens(50);
    this.#window = this.#dice.pick(windows);
  }

  async run(): Promise<this> {
    for (let lives = 1 + this.#dice.below(3); lives > 0; lives--) {
      await this.#live(true);
      this.#operate();
    }
    this.#undoLink();
    if (this.#mustCopy || this.#refusal()) this.#copyAgain();
    await this.#live(false);
    this.#disk.restart({ bytes: false, names: false });
    this.#wasPowerLost = true;
    this.#check(false);
    return this;
  }

  async #live(isFaulty: boolean): Promise<void> {
    this.#planned = [];
    this.#disk.calls.length = 0;
    this.#hasFailed = this.#isRenamed = false;
    this.#isNew = true;
    this.#isFaulty = isFaulty;
    const faults = this.#disk.faultsFired;
    if (isFaulty) this.#plan();
    const journal = await this.#open();
    let isFull = false;
    for (let steps = 1 + this.#dice.below(4); journal && steps > 0; steps--) {
      if (this.#dice.happens(20)) await this.#retry(journal);
      else if (this.#dice.happens(70)) await this.#append(journal);
      else
        await (this.#dice.happens(67)
          ? this.#rotate(journal)
          : this.#openTwice());
      if (this.#disk.isDown || this.#hasFailed) break;
      this.#check();
      // Before another write makes the truncation durable, the power may be lost.
      isFull = this.#verdict(this.#outcomes.size) === "full";
      if (isFull) break;
    }
    if (journal && !isFull && this.#dice.happens(50))
      await this.#crashInWrite(journal);
    await journal?.close();
    const fired = this.#fired();
    for (const [operation, , fault] of fired)
      this.#count(nameOf(operation, fault));
    const names = fired.map(([operation]) => operation);
    this.#mustCopy =
      names.includes("sync") &&
      (this.#disk.isDown ||
        names.includes("look") ||
        names.includes("openBeside"));
    assert.equal(
      this.#disk.faultsFired - faults,
      fired.length,
      "each planned fault came"
    );
    this.#restart();
  }

  /** Faults, and perhaps a crash, somewhere in the life to come. */
  #plan(): void {
    for (let count = this.#dice.pick([0, 1, 1, 2, 3]); count > 0; count--) {
      const operation = this.#dice.pick(operations);
      this.#fail(operation, this.#dice.below(6), this.#fault(operation));
    }
    if (this.#dice.happens(10)) {
      // The rest of a short write meets a full disk.
      const skip = this.#dice.below(6);
      this.#fail("append", skip, { bytes: 100 + this.#dice.below(900) });
      this.#fail("append", skip + 1, { errno: ENOSPC });
    }
    if (this.#dice.happens(10)) {
      // What a failed write has left in the cache is not truncated.
      const bytes = 100 + this.#dice.below(900);
      this.#fail("append", this.#dice.below(4), { errno: EIO, bytes });
      this.#fail("truncate", this.#dice.below(2), { errno: EIO });
    }
    if (this.#backup && this.#dice.happens(50))
      this.#fail("sync", 0, { errno: ENOSPC });
    if (this.#dice.happens(60))
      this.#disk.crash(this.#dice.below(16), this.#part());
    this.story.push(`plan ${JSON.stringify(this.#planned)}`);
  }

  #fail(operation: Operation, skip: number, fault: Fault): void {
    if (
      this.#planned.some(
        ([other, count]) => other === operation && count === skip
      )
    )
      return;
    this.#planned.push([operation, skip, fault]);
    this.#disk.fail(operation, fault, skip);
  }

  /** The faults of this life that have come. */
  readonly #fired = (): Planned[] =>
    this.#planned.filter(
      ([operation, skip]) =>
        this.#disk.calls.filter((call) => call === operation).length > skip
    );

  #fault(operation: Operation): Fault {
    const errno = this.#dice.happens(70)
      ? this.#dice.pick([EIO, ENOSPC, EDQUOT, EFBIG])
      : 1 + this.#dice.below(133);
    const bytes = this.#dice.below(900);
    if (operation !== "append") return { errno };
    return this.#dice.pick([
      { errno },
      { errno, bytes },
      { bytes: bytes + 1 },
      { bytes: 0 }
    ]);
  }

  #part(): Interruption {
    const bytes = this.#dice.pick([
      0,
      this.#dice.below(900),
      this.#dice.below(900),
      Infinity
    ]);
    const nuls = this.#dice.pick([0, this.#dice.below(900)]);
    return { bytes, nuls, durable: this.#dice.happens(70) };
  }

  async #open(): Promise<Journal | undefined> {
    const faults = this.#disk.faultsFired;
    const warn = (): void => this.#count("torn end repaired");
    try {
      const journal = await openJournal(path, {
        disk: this.#disk,
        limits: { ...limits, keysBytesMax: this.#window },
        warn
      });
      if (this.#refusal())
        this.#violate(`opened in spite of ${this.#refusal()}`);
      this.#backup = undefined;
      this.#left = { records: [], bytes: 0 };
      this.#current = this.#disk.identityOf(path);
      journal.once("failed", (error) => {
        this.#hasFailed = true;
        this.story.push(error.message);
        this.#count("journal failed");
      });
      this.#check();
      return journal;
    } catch (error) {
      this.story.push(`opening: ${error}`);
      this.#count("opening failed");
      const isDue =
        this.#disk.isDown ||
        this.#disk.faultsFired > faults ||
        this.#refusal() !== undefined;
      const isFault =
        error instanceof JournalError &&
        /^(?:unreadable|failed)$/.test(error.code);
      if (!isDue || !isFault) this.#violate(`opening is refused: ${error}`);
      return undefined;
    }
  }

  /** Some plants at once, and what became of them; sometimes more while a write is in flight. */
  async #append(journal: Journal): Promise<void> {
    const waits = Array.from({ length: this.#dice.pick([1, 2, 3, 4]) }, () =>
      this.#one(journal)
    );
    if (this.#dice.happens(30)) {
      const stalled = this.#disk.stall();
      await Promise.race([stalled, Promise.all(waits)]);
      waits.push(this.#one(journal), this.#one(journal));
      this.#disk.resume();
    }
    const outcome = await Promise.all(waits);
    if (this.#disk.isDown) return;
    const fired = this.#fired();
    const isFullOnly = fired.every(
      ([operation, , fault]) =>
        operation === "append" &&
        (fault.errno === undefined
          ? fault.bytes !== 0
          : noSpace.has(fault.errno))
    );
    if (isFullOnly && this.#hasFailed)
      this.#violate("failed for a full disk or a short write");
    const isWell =
      fired.length > 0 ||
      outcome.every((each) => /^(?:stored|replayed|conflict)$/.test(each));
    if (!isWell) this.#violate(`without a fault: ${outcome.join()}`);
  }

  /** Appends a new plant, with a key or without one, or retries an earlier one with its key. */
  #one(journal: Journal): Promise<string> {
    if (this.#keyed.length > 0 && this.#dice.happens(30)) {
      const { key, plant } = this.#dice.pick(this.#keyed);
      return this.#send(journal, plant, key);
    }
    const plant = this.#fresh();
    if (this.#dice.happens(50)) return this.#send(journal, plant);
    const key = `${String(plant.id).padStart(21, "p")}A`;
    this.#keyed.push({ key, plant });
    return this.#send(journal, plant, key);
  }

  #fresh(): NewPlant {
    const id = this.#outcomes.size + 1;
    this.#outcomes.set(id, []);
    return { id: BigInt(id), name: "Fern".repeat(this.#dice.below(150)) };
  }

  #send(journal: Journal, plant: NewPlant, key?: string): Promise<string> {
    const outcomes =
      this.#outcomes.get(Number(plant.id)) ?? assert.fail("never made");
    const attempt = outcomes.push("unknown") - 1;
    let known = "stored";
    const done =
      key === undefined
        ? journal.append(plant)
        : journal.appendOnce?.(plant, key).then((value) => {
            known = value;
          });
    return outcomeOf(done ?? assert.fail("no keys")).then((outcome) => {
      const result = outcome === "stored" ? known : outcome;
      outcomes[attempt] = result;
      this.story.push(
        `${plant.id} ${key === undefined ? "" : `with ${key} `}${result}`
      );
      this.#count(result);
      return result;
    });
  }

  /** What is known of a plant after all its appends. */
  #verdict(id: number): string | undefined {
    const outcomes = this.#outcomes.get(id) ?? [];
    if (outcomes.includes("replayed")) return "stored";
    const known = ["stored", "unknown", "full", "conflict"];
    return (
      outcomes.find((each) => !known.includes(each)) ??
      known.find((each) => outcomes.includes(each))
    );
  }

  /**
   * Retries a plant with its key while nothing is in flight, twice at once, and perhaps another
   * plant with that key: the model knows each outcome.
   */
  async #retry(journal: Journal): Promise<void> {
    if (this.#keyed.length === 0) return;
    const { key, plant: first } = this.#dice.pick(this.#keyed);
    const plant = this.#dice.happens(80) ? first : this.#fresh();
    const found = this.#remembered(key);
    const expected =
      found === undefined
        ? "stored"
        : found === Number(plant.id)
          ? "replayed"
          : "conflict";
    const [one, two] = await Promise.all([
      this.#send(journal, plant, key),
      this.#send(journal, plant, key)
    ]);
    if (this.#disk.isDown) return;
    this.#count(`retry ${one}`);
    // A fault may prevent that a record is stored, or that the file is looked at for a replay.
    if (expected === "stored" && (this.#hasFailed || one === "full")) return;
    const isUnseen = this.#fired().some(([operation]) => operation === "look");
    if (expected === "replayed" && isUnseen && `${one}${two}`.includes("unk"))
      return this.#count("replay of a file that cannot be looked at");
    const second = expected === "stored" ? "replayed" : expected;
    if (one !== expected || two !== second) {
      if (
        expected === "stored" &&
        this.#fired().length > 0 &&
        one === "unknown"
      )
        return;
      this.#violate(
        `${plant.id} with ${key}: ${one}, ${two} instead of ${expected}, ${second}`
      );
    }
  }

  /** The id of the plant that a key is remembered for. */
  #remembered(key: string): number | undefined {
    const { records, bytes } = this.#chain();
    const last = records.at(-1);
    const newest = records.findLast((each) => each.key === key);
    const isWithin =
      newest && (newest === last || newest.offset >= bytes - this.#window);
    return isWithin ? newest.plant.id : undefined;
  }

  /** All records of this life's files, at their positions over all of them, without headers. */
  #chain(): { records: Placed[]; bytes: number } {
    const bytes = this.#disk.bytesOf(this.#current) ?? Buffer.alloc(0);
    const { records, bytes: before } = this.#left;
    const start = before - headerBytes;
    const here = read(bytes).records.map((each) => ({
      ...each,
      offset: start + each.offset
    }));
    return {
      records: [...records, ...here],
      bytes: start + Math.max(headerBytes, bytes.length)
    };
  }

  async #rotate(journal: Journal): Promise<void> {
    const before = this.#one(journal);
    if (this.#dice.happens(50)) await setImmediate();
    const name = `${path}.${++this.#renames}`;
    // What stands at the path after a rotation that was refused is not the file in use.
    if (!this.#isRenamed) this.#inUse = name;
    this.#isRenamed = true;
    try {
      if (this.#disk.bytes(path)) this.#disk.rename(path, name);
      if (this.#dice.happens(30)) this.#putOlder();
    } catch (error) {
      this.story.push(`${error}`);
    }
    const rotated = journal.rotate().then(
      (isNew) => (isNew ? "rotated" : "not rotated"),
      () => "rotation refused"
    );
    const during = this.#one(journal);
    const [outcome] = await Promise.all([rotated, before, during]);
    this.#count(outcome);
    this.story.push(outcome);
    if (outcome === "rotated") {
      this.#isRenamed = false;
      this.#left = this.#chain();
      this.#current = this.#disk.identityOf(path);
    }
    if (outcome === "rotation refused" && this.#dice.happens(50))
      this.#putBack();
  }

  /**
   * An older journal stands at the path, and the rotation continues there. Only in a life without
   * faults: FILE.rewrite may hold what a failed opening has truncated.
   */
  #putOlder(): void {
    if (this.#isFaulty) return;
    const older = this.#disk
      .names()
      .filter(
        (name) =>
          /\.\d+$/.test(name) &&
          this.#disk.identityOf(name) !== this.#current &&
          !this.#disk.bytes(path)
      );
    if (older.length === 0) return;
    this.#disk.rename(this.#dice.pick(older), path);
    this.#count("older file put at the path");
    this.#isNew = false;
  }

  /** The file that got no successor is back at its path, where nothing is. */
  #putBack(): void {
    try {
      if (this.#disk.bytes(path)) return;
      this.#disk.rename(this.#inUse, path);
      this.#isRenamed = false;
      this.#count("put back");
    } catch (error) {
      this.story.push(`${error}`);
    }
  }

  /** A second opening of a journal in use is refused. */
  async #openTwice(): Promise<void> {
    const faults = this.#disk.faultsFired;
    const code = await openJournal(path, {
      disk: this.#disk,
      limits: { keysBytesMax: 1 }
    }).then(
      (second) => second.close().then(() => "opened"),
      (error: unknown) =>
        error instanceof JournalError ? error.code : String(error)
    );
    this.#count(`second opening ${code}`);
    if (this.#disk.isDown || this.#disk.faultsFired > faults || this.#isRenamed)
      return;
    if (code !== "locked") this.#violate(`a second opening: ${code}`);
  }

  /** The crash comes while plants are on their way; they get no outcome. */
  async #crashInWrite(journal: Journal): Promise<void> {
    if (this.#disk.isDown) return;
    this.#disk.crash(0, this.#part());
    await Promise.all(
      Array.from({ length: 1 + this.#dice.below(3) }, () => this.#one(journal))
    );
  }

  #restart(): void {
    const { isDown, interrupted } = this.#disk;
    if (isDown)
      this.#count(
        interrupted === undefined ? "crash elsewhere" : "crash in a write"
      );
    const survival: Survival = {
      bytes: this.#dice.happens(40),
      names: this.#dice.happens(60)
    };
    this.story.push(`restart ${JSON.stringify(survival)}`);
    if (!survival.names) this.#count("names forgotten");
    if (!survival.bytes) this.#count("bytes forgotten");
    this.#wasPowerLost ||= !survival.bytes;
    this.#mustCopy ||= !survival.bytes || !survival.names;
    this.#disk.restart(survival);
    const found = this.#disk.bytes(path);
    const from = this.#isRenamed || survival.bytes ? 0 : (interrupted ?? 0);
    // In a header's own sector there are no holes.
    if (
      !found ||
      from < headerBytes ||
      found.length <= from ||
      this.#dice.happens(50)
    )
      return;
    // What was in flight reaches the disk in any order: NULs stand where it has not.
    const bytes = Buffer.from(found);
    const start = from + this.#dice.below(bytes.length - from);
    bytes.fill(0, start, start + 1 + this.#dice.below(bytes.length - start));
    this.#disk.put(path, bytes);
    this.story.push(`NULs from ${start} on`);
    this.#count("hole of NULs");
  }

  /** Why an opening must be refused, for what the operator or a failed flush has left. */
  #refusal(): string | undefined {
    const identity = this.#disk.identityOf(path);
    const note = `${path}.unflushed-${identity}-`;
    const isNoted = this.#disk.marks().some((mark) => mark.startsWith(note));
    if (isNoted) return "a failed flush";
    return this.#disk.identityOf(second) === identity && identity
      ? "a second name"
      : undefined;
  }

  /** What an operator may do while no server runs, and must do after a refusal. */
  #operate(): void {
    this.#undoLink();
    if (this.#mustCopy || this.#dice.happens(50)) this.#copyAgain();
    if (this.#isRenamed || !this.#disk.bytes(path)) return;
    if (this.#dice.happens(25)) {
      this.#note("operator deletes marks, or moves the file");
      this.#disk.deleteSockets();
      for (const mark of this.#disk.marks())
        if (mark.includes(".closed-")) this.#disk.remove(mark);
    } else if (this.#dice.happens(15)) {
      this.#note("operator adds a second name");
      this.#disk.link(path, second);
    } else if (this.#dice.happens(20) && !this.#disk.bytes(`${path}.rewrite`)) {
      this.#note("operator copies the file");
      this.#backup = Buffer.from(this.#disk.bytes(path) ?? "");
      this.#copyAgain();
    }
    this.#disk.syncDirectory(path);
  }

  #undoLink(): void {
    if (!this.#disk.bytes(second)) return;
    if (this.#dice.happens(50)) this.#disk.rename(second, path);
    else this.#disk.remove(second);
    this.#disk.syncDirectory(path);
  }

  /** Copies the file again if a flush has failed, or if the power was lost before an opening. */
  #copyAgain(): void {
    const refusal = this.#refusal();
    if (!this.#backup && !refusal) return;
    if (refusal) this.#note("operator copies the file after a failed flush");
    this.#backup ??= Buffer.from(this.#disk.bytes(path) ?? "");
    this.#disk.copy(this.#backup, path, this.#dice.happens(50));
    for (const mark of this.#disk.marks())
      if (mark.includes(".unflushed-")) this.#disk.remove(mark);
    this.#disk.syncDirectory(path);
  }

  #note(what: string): void {
    this.#count(what);
    this.story.push(what);
  }

  /** Compares the files with the model; `isOpen`: the journal is, and nothing is in flight. */
  #check(isOpen = true): void {
    const found = new Map<number, number>();
    const keyed = new Set(this.#keyed.map(({ plant }) => Number(plant.id)));
    for (const name of this.#disk.names()) {
      if (!/^\/plants\.ndjson(?:\.\d+)?$/.test(name)) continue;
      const { records, ids, fault } = read(
        this.#disk.bytes(name) ?? Buffer.alloc(0)
      );
      for (const id of ids) found.set(id, (found.get(id) ?? 0) + 1);
      this.#checkKeys(name, records);
      const shipped = this.#disk.shipped.get(this.#disk.identityOf(name) ?? "");
      if (isOpen && shipped) {
        this.#count("shipped");
        if (
          !this.#disk.bytes(name)?.subarray(0, shipped.length).equals(shipped)
        )
          this.#violate(`${name}: what was shipped has changed`);
      }
      // A rotated file is not repaired: only its valid lines count.
      if (isOpen && fault && name === path && !this.#isRenamed)
        this.#violate(`${name}: ${fault}`);
    }
    if (isOpen && this.#isNew)
      this.#checkKeys("this life's files", this.#chain().records);
    for (const [id, times] of found) {
      // With a key it may be there again, further apart than the window.
      if (times > 1 && !keyed.has(id))
        this.#violate(`${id} is there ${times} times`);
      if (!this.#outcomes.has(id)) this.#violate(`${id} was never sent`);
    }
    for (const id of this.#outcomes.keys()) {
      const outcome = this.#verdict(id) ?? "unknown";
      const isThere = found.has(id);
      const isKnown = ["stored", "full", "unknown", "conflict"].includes(
        outcome
      );
      if (!isKnown) this.#violate(`${id} was reported ${outcome}`);
      if (outcome === "stored" && !isThere)
        this.#violate(`${id} was acknowledged, and is lost`);
      if (outcome === "conflict" && isThere)
        this.#violate(`${id} was a conflict, and is there`);
      if (outcome !== "full" || !isThere) continue;
      // A truncation that was not durable may be undone by a power loss, and only by that.
      const mayReturn = this.#wasPowerLost && !this.#disk.truncationsAreDurable;
      if (mayReturn) this.#count("a truncation that was undone");
      else this.#violate(`${id} was reported ${outcome}, and is there`);
    }
  }

  /** No key is in a file twice within the window, nor in two records that follow each other. */
  #checkKeys(name: string, records: readonly Placed[]): void {
    const last = new Map<string, number>();
    for (const [index, { key, offset }] of records.entries()) {
      if (key === undefined) continue;
      const before = last.get(key);
      const first = before === undefined ? undefined : records[before];
      if (
        first &&
        (before === index - 1 || offset - first.offset <= this.#window)
      ) {
        this.#violate(`${name} has ${key} at ${first.offset} and at ${offset}`);
      }
      last.set(key, index);
    }
  }

  #violate(what: string): void {
    this.story.push(`VIOLATION ${what}`);
    this.violation ??= what;
  }
  #count(what: string): void {
    this.#counts.set(what, (this.#counts.get(what) ?? 0) + 1);
  }
}

type Placed = ReturnType<typeof read>["records"][number];

function nameOf(operation: Operation, { errno, bytes }: Fault): string {
  if (operation !== "append") return `${operation} fails`;
  if (errno === undefined)
    return bytes === 0 ? "append of no byte" : "short append";
  return `append fails${noSpace.has(errno) ? ", no space" : ""}${bytes ? ", a part is there" : ""}`;
}

/** Runs with seeds from this one on, until so many are done or one has violated the promises. */
async function simulate(
  first: number,
  runs: number,
  make = () => new WatchedDisk()
) {
  const counts = new Map<string, number>();
  for (let seed = first; ; seed++) {
    const { violation, story } = await new Run(seed, make(), counts).run();
    if (violation ?? seed + 1 >= first + runs)
      return { violation, story, counts, seed };
  }
}

const { PLANT_TEST_SEED: seed, PLANT_TEST_RUNS: runs = "800" } = process.env;
const lives =
  seed === undefined ? `${runs} random runs` : `the run of seed ${seed}`;

test(`in ${lives} nothing acknowledged is lost, and no outcome is false`, async (t) => {
  const result = await simulate(
    Number(seed ?? 1),
    seed === undefined ? Number(runs) : 1
  );
  const counts = Object.fromEntries([...result.counts].sort());
  t.diagnostic(JSON.stringify(counts));
  const story = `reproduce with PLANT_TEST_SEED=${result.seed}\n${result.story.join("\n")}`;
  assert.equal(result.violation, undefined, story);
  if (seed !== undefined) return;
  const wanted = Number(runs) < 2_000 ? kinds : [...kinds, ...rareKinds];
  assert.deepEqual(
    wanted.filter((kind) => !counts[kind]),
    [],
    "never met"
  );
});

/** What a quick test need not meet: each comes once in hundreds of runs. */
const rareKinds: readonly string[] = [
  "a truncation that was undone",
  "put back",
  "retry full"
];

const kinds: readonly string[] = [
  ...new Set(operations.map((operation) => nameOf(operation, { errno: EIO }))),
  "append fails, a part is there",
  "append fails, no space",
  "short append",
  "append of no byte",
  "append fails, no space, a part is there",
  "crash in a write",
  "crash elsewhere",
  "hole of NULs",
  "bytes forgotten",
  "names forgotten",
  "torn end repaired",
  "opening failed",
  "journal failed",
  "stored",
  "shipped",
  "full",
  "unknown",
  "rotated",
  "rotation refused",
  "second opening locked",
  "operator deletes marks, or moves the file",
  "operator adds a second name",
  "operator copies the file",
  "operator copies the file after a failed flush",
  "older file put at the path",
  "replayed",
  "conflict",
  "retry stored",
  "retry replayed",
  "retry conflict"
];

/** Puts something between a journal and its file. */
const between =
  (change: (file: JournalFile) => Partial<JournalFile>) =>
  () =>
  (): WatchedDisk => {
    const disk = new WatchedDisk();
    const open = disk.open.bind(disk);
    return Object.assign(disk, {
      open: (name: string) => {
        const file = open(name);
        return { ...file, ...change(file) };
      }
    });
  };
const disk = (change: Partial<WatchedDisk>) => () => () =>
  Object.assign(new WatchedDisk(), change);
const nothing = (): undefined => undefined;

/** Opening takes a file for closed if `isClosed` says so of its identity. */
const closedIf = (isClosed: (identity: string | undefined) => boolean) => {
  const disk = new WatchedDisk();
  const list = disk.listEmpty.bind(disk);
  return Object.assign(disk, {
    listEmpty(name: string, form: RegExp) {
      if (!form.source.includes("closed")) return list(name, form);
      const mark = `${name}.closed-${disk.look(name)?.state}`;
      return isClosed(disk.identityOf(name)) ? [mark] : [];
    }
  });
};

/** Opening takes each file for closed beside which no process has left its lock. */
const trustingLocks = () => (): WatchedDisk => {
  const [held, stale] = [new Set<string>(), new Set<string | undefined>()];
  const disk = closedIf((identity) => !stale.has(identity));
  const { lock, restart } = disk;
  return Object.assign(disk, {
    async lock(...given: Parameters<typeof lock>) {
      await lock.apply(disk, given);
      const [name, identity, releases] = given;
      held.add(identity);
      releases.push(() => {
        held.delete(identity);
        const isClosed = disk.marks().some((mark) => mark.includes(".closed-"));
        if (!isClosed || disk.identityOf(name) !== identity)
          stale.add(identity);
      });
    },
    restart(survival: Survival) {
      for (const identity of held) stale.add(identity);
      held.clear();
      restart.call(disk, survival);
    },
    deleteSockets: () => stale.clear()
  });
};

/** A file's marks say nothing of its bytes, so all depends on when they are there. */
const equalStates = () => {
  const disk = new WatchedDisk();
  disk.statesAreEqual = true;
  return disk;
};

const neverRemovingMarks = () => (): WatchedDisk => {
  const disk = equalStates();
  const { remove } = disk;
  return Object.assign(disk, {
    remove: (name: string) => {
      if (!name.includes(".closed-")) remove.call(disk, name);
    }
  });
};

/** An opening whose flush fails leaves no note of that. */
const notNoting = () => (): WatchedDisk => {
  const disk = new WatchedDisk();
  const { openBeside } = disk;
  return Object.assign(disk, {
    openBeside(name: string) {
      if (name.includes(".unflushed-")) throw new Error("not noted");
      return openBeside.call(disk, name);
    }
  });
};

/** Leaves the mark at a call of the file, too. */
const marking = (at: "append" | "close") => () => (): WatchedDisk => {
  const disk = equalStates();
  const open = disk.open.bind(disk);
  return Object.assign(disk, {
    open: (name: string) => {
      const file = open(name);
      const mark = () => {
        if (!disk.isDown) disk.markClosed(name);
      };
      const append = (bytes: Buffer) => {
        if (at === "append") mark();
        return file.append(bytes);
      };
      const close = () => {
        if (at === "close") mark();
        file.close();
      };
      return { ...file, append, close };
    }
  });
};
const without = (method: "find" | "add" | "addFile") => (t: TestContext) => {
  t.mock.method(KeyWindow.prototype, method, nothing);
  return () => new WatchedDisk();
};
const twice = / at \d+ and at \d+$|instead of/;

/** A quick test does not look for what comes once in thousands of runs. */
const runsMax = Number(runs) < 2_000 ? 1_000 : 10_000;

for (const [says, make, violated = /./, within = 1_000] of [
  ["a disk that lies", disk({ lies: true })],
  [
    "a failed write that is taken for done",
    between((file) => ({
      append: (bytes) => file.append(bytes).catch(() => bytes.length)
    }))
  ],
  [
    "a failed write that is tried again",
    between((file) => ({
      append: (bytes) => file.append(bytes).catch(() => file.append(bytes))
    }))
  ],
  [
    "a short write that is taken for whole",
    between((file) => ({
      append: (bytes) => file.append(bytes).then(() => bytes.length)
    }))
  ],
  ["a file that is not truncated", between(() => ({ truncate: nothing }))],
  ["a directory that is never synced", disk({ syncDirectory: nothing })],
  ["a lock that is always free", disk({ lock: () => Promise.resolve() })],
  [
    "a reader that ships lines before a later one covers them",
    disk({ shipsAll: true }),
    /shipped has changed$/
  ],
  ["an end that is never rewritten", () => () => closedIf(() => true)],
  ["an absent lock that is trusted", trustingLocks, /./, 10_000],
  ["a mark that is never removed", neverRemovingMarks, /./, 10_000],
  ["a mark that is left before the last write", marking("append")],
  ["a mark of a journal that has failed", marking("close")],
  ["a failed flush that is not noted", notNoting, /./, 10_000],
  [
    "a copy of the end that is not made",
    disk({ rename: nothing, remove: nothing })
  ],
  ["a window that finds nothing", without("find"), twice],
  ["a window that remembers nothing new", without("add"), twice],
  ["a window that is not rebuilt at opening", without("addFile"), twice]
] as const) {
  if (within > runsMax) continue;
  test(`${says} is caught within ${within} runs`, async (t) => {
    const { violation, seed: caught } = await simulate(1, within, make(t));
    assert.match(violation ?? "", violated);
    t.diagnostic(`seed ${caught}: ${violation}`);
    t.mock.restoreAll();
    assert.equal(
      (await simulate(caught, 1)).violation,
      undefined,
      "without the fault"
    );
  });
}
