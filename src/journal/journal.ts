/**
 * The journal: plants are queued, written together, and acknowledged when the write has returned.
 *
 * One write is in flight at a time; what arrives meanwhile joins the next (group commit).
 */
import { EventEmitter } from "node:events";
import { constants } from "node:os";
import { limitsWith } from "../config.ts";
import type { Limits } from "../config.ts";
import { int64Max, int64Min, StoreError } from "../plant.ts";
import type { NewPlant, PlantStore } from "../plant.ts";
import { realDisk } from "./disk.ts";
import type { Disk } from "./disk.ts";
import { JournalError, openFile } from "./open.ts";
import type { OpenFile } from "./open.ts";
import { Queue } from "./queue.ts";
import { encodePlant, encodeRecord } from "./record.ts";

export interface JournalOptions {
  readonly limits?: Partial<Limits>;
  /** Told what opening has mended. */
  readonly warn?: (message: string) => void;
  /** For tests: another disk. */
  readonly disk?: Disk;
}

/**
 * Opens the journal at a path, and makes it where there is none.
 * @throws JournalError (as a rejection)
 */
export async function openJournal(path: string, options: JournalOptions = {}): Promise<Journal> {
  const { limits, warn = () => undefined, disk = realDisk } = options;
  const effective = limitsWith(limits);
  return new Journal(disk, effective, await openFile(disk, path, warn), warn);
}

type State = "open" | "closing" | "closed" | "failed";

/** Emits `failed` with a JournalError, once, when no later write can be trusted. */
export class Journal extends EventEmitter<{ failed: [JournalError] }> implements PlantStore {
  readonly #disk: Disk;
  readonly #limits: Limits;
  readonly #warn: (message: string) => void;
  #open: OpenFile;
  #state: State = "open";
  /** Where the records that are on stable storage end, and the last one's number. */
  #end: number;
  #seq: number;
  readonly #queue: Queue;
  /** Set while a batch is written, but not acknowledged: its file was renamed. */
  #held: NodeJS.Timeout | undefined;
  #rotating = false;
  /** No new file could be made where the old one was renamed: the old one stays in use. */
  #pathless = false;
  #watchers: readonly { readonly holds: () => boolean; readonly resolve: () => void }[] = [];

  /** Use `openJournal`. */
  constructor(disk: Disk, limits: Limits, open: OpenFile, warn: (message: string) => void) {
    super();
    this.#disk = disk;
    this.#limits = limits;
    this.#queue = new Queue(limits);
    this.#warn = warn;
    this.#open = open;
    this.#end = open.bytes;
    this.#seq = open.seq;
  }

  append(plant: NewPlant): Promise<void> {
    return new Promise((resolve, reject) => {
      if (this.#state === "failed") throw new StoreError("unknown", "the journal has failed");
      if (this.#state !== "open") throw new StoreError("closed", "the journal is closed");
      const isFirst = this.#queue.isEmpty;
      this.#queue.push({ plant: encodePlant(checked(plant)), resolve, reject });
      // What the event loop still has to deliver in this turn joins the write.
      if (isFirst) setImmediate(() => this.#write());
    });
  }

  /**
   * Goes on in a new file where the journal's was renamed; nothing is refused meanwhile.
   * @returns whether there is a new file
   * @throws JournalError (as a rejection) when none can be made; the old one then stays in use
   */
  async rotate(): Promise<boolean> {
    if (this.#rotating) return false;
    this.#rotating = true;
    try {
      await this.#when(() => this.#queue.batch.length === 0 || this.#held !== undefined);
      const { path, identity, file, lock } = this.#open;
      if (this.#state !== "open" || this.#disk.look(path)?.identity === identity) return false;
      this.#open = await openFile(this.#disk, path, this.#warn);
      this.#end = this.#open.bytes;
      this.#seq = this.#open.seq;
      this.#pathless = false;
      file.close();
      lock.release();
      return true;
    } catch (error) {
      this.#pathless = true;
      throw error;
    } finally {
      this.#rotating = false;
      if (this.#held) this.#acknowledge();
      else this.#write();
    }
  }

  /** Takes no more; resolves when all that was taken is settled, and the file is closed. */
  async close(): Promise<void> {
    if (this.#state === "open") this.#state = "closing";
    await this.#when(() => this.#queue.isEmpty && !this.#rotating);
    if (this.#state === "closed") return;
    this.#state = "closed";
    this.#open.file.close();
    this.#open.lock.release();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** Begins the next write, unless one is in flight or there is nothing to write. */
  #write(): void {
    const isBusy = this.#queue.batch.length > 0 || this.#rotating || this.#state === "failed";
    if (isBusy || !this.#queue.take()) return;
    const at = new Date().toISOString();
    const lines = this.#queue.batch.map(({ plant }, index) =>
      encodeRecord(this.#seq + 1 + index, at, this.#end, plant));
    this.#append(Buffer.from(lines.join("")), 0);
  }

  /** Writes the batch, and the rest of it where a write was short. */
  #append(bytes: Buffer, at: number): void {
    this.#open.file.appendLater(bytes.subarray(at), (error, written) => {
      if (error) this.#onWriteError(error, bytes.length);
      else if (at + written < bytes.length) this.#append(bytes, at + written);
      else this.#onWritten(bytes.length);
    });
  }

  #onWritten(bytes: number): void {
    try {
      const isInPlace = this.#watch(this.#end + bytes);
      this.#end += bytes;
      this.#seq += this.#queue.batch.length;
      if (isInPlace || this.#pathless) this.#acknowledge();
      else this.#hold();
    } catch (error) {
      this.#fail(error);
    }
  }

  /**
   * Whether the file still stands at its path.
   * @throws Error when it is not as long as it must be, or has no name any more
   */
  #watch(end: number): boolean {
    const { path, identity, file } = this.#open;
    const there = this.#disk.look(path);
    const isInPlace = there?.identity === identity;
    const own = isInPlace ? there : file.look();
    if (own.bytes !== end) {
      throw new Error(`expected ${end} bytes, found ${own.bytes}: another has written to it`);
    }
    if (own.links === 0) throw new Error("it was deleted while in use");
    return isInPlace;
  }

  /** A renamed file is what a rotation begins with; without its second half it is a fault. */
  #hold(): void {
    const { rotationMillis } = this.#limits;
    const onLate = (): void =>
      this.#fail(new Error(`it was renamed, and not rotated within ${rotationMillis} ms`));
    this.#held = setTimeout(onLate, rotationMillis);
    this.#notify();
  }

  #acknowledge(): void {
    clearTimeout(this.#held);
    this.#held = undefined;
    const batch = this.#queue.settle();
    // The disk works on while the answers are made.
    this.#write();
    for (const { resolve } of batch) resolve();
    this.#notify();
  }

  /**
   * Nothing of the batch is acknowledged, and the file is cut back: blocks whose flush failed
   * must go, for a retried flush says success over zeros (seen on ext4).
   */
  #onWriteError(error: NodeJS.ErrnoException, bytes: number): void {
    const { file } = this.#open;
    try {
      const found = file.size();
      if (found < this.#end || found > this.#end + bytes) throw error;
      file.cut(this.#end);
      if (file.size() !== this.#end || !noSpace.has(error.errno ?? 0)) throw error;
    } catch (failure) {
      this.#fail(failure);
      return;
    }
    const batch = this.#queue.settle();
    this.#write();
    for (const { reject } of batch) reject(new StoreError("full", "no space", { cause: error }));
    this.#notify();
  }

  #fail(cause: unknown): void {
    this.#state = "failed";
    clearTimeout(this.#held);
    this.#held = undefined;
    const reason = cause instanceof Error ? cause.message : String(cause);
    const error = new JournalError("failed", this.#open.path, reason, this.#end, cause);
    for (const { reject } of this.#queue.clear()) {
      reject(new StoreError("unknown", reason, { cause: error }));
    }
    this.#notify();
    this.emit("failed", error);
  }

  /** Resolves once the condition holds. */
  #when(holds: () => boolean): Promise<void> {
    if (holds()) return Promise.resolve();
    return new Promise((resolve) => {
      this.#watchers = [...this.#watchers, { holds, resolve }];
    });
  }

  #notify(): void {
    const due = this.#watchers.filter(({ holds }) => holds());
    this.#watchers = this.#watchers.filter((watcher) => !due.includes(watcher));
    for (const { resolve } of due) resolve();
  }
}

/** Compared as numbers: libuv has no name for EDQUOT. */
const noSpace: ReadonlySet<number> = new Set(
  [constants.errno.ENOSPC, constants.errno.EDQUOT, constants.errno.EFBIG].map((code) => -code),
);

/** What JSON and int64 can't hold is refused before it is queued. */
function checked(plant: NewPlant): NewPlant {
  const { id, name, tag } = plant;
  const isPlant = typeof id === "bigint" && id >= int64Min && id <= int64Max
    && typeof name === "string" && name.isWellFormed()
    && (tag === undefined || (typeof tag === "string" && tag.isWellFormed()));
  if (!isPlant) {
    throw new StoreError("invalid", "a plant is an int64 id as bigint, a name, and a tag or none");
  }
  return plant;
}
