/** The journal: plants are queued, written together, and acknowledged when the write has returned.
 *
 * One loop does all that touches the file: rotations first, then a batch, else it rests. So one
 * write is in flight at a time, what arrives meanwhile joins the next (group commit), and nothing
 * else can happen between a write and its answer.
 */
import { EventEmitter } from "node:events";
import { constants } from "node:os";
import { resolve } from "node:path";
import { setImmediate } from "node:timers/promises";
import { limitsWith, type Limits } from "../config.ts";
import type { NewPlant } from "../plant.ts";
import { appendAll, ifPossible, realDisk, type Disk } from "./files.ts";
import { JournalError } from "./error.ts";
import { openFile, release, type OpenFile } from "./open.ts";
import { Queue } from "./queue.ts";
import { appendPlant, epoch, recordText, seal } from "./record.ts";
import {
  appendJson,
  StoreError,
  type PlantStore,
  type StoreEvents
} from "../store.ts";

export interface JournalOptions {
  readonly limits?: Partial<Limits> | undefined;
  /**
   * Told what opening has mended, which lock it could not take, and of plants that could not be
   * made into lines: without memory, or with a clock that has no RFC 3339 time. Default: nobody is.
   */
  readonly warn?: ((message: string) => void) | undefined;
  /** Another disk, for tests. */
  readonly disk?: Disk | undefined;
}

/**
 * Opens the journal at a path, or makes it; rejects with a JournalError, and with a RangeError for
 * a bad limit.
 */
export async function openJournal(
  path: string,
  options: JournalOptions = {}
): Promise<Journal> {
  const site = siteOf(path, options);
  return new Journal(site, await openFile(site.disk, site.path, site.warn));
}

/** What a journal has for its whole life; what the path's links lead to is asked each time. */
type Site = ReturnType<typeof siteOf>;

const siteOf = (
  path: string,
  { disk = realDisk, warn = () => {}, limits }: JournalOptions
) => ({ path: resolve(path), disk, warn, limits: limitsWith(limits) });

/** Resolves the promise of who has asked for one: of a failure with a promise that it rejects. */
type Rotation = (isNew: boolean | Promise<never>) => void;

export class Journal
  extends EventEmitter<StoreEvents<JournalError>>
  implements PlantStore
{
  readonly #site: Site;
  readonly #queue = new Queue();
  /** Asked for and not done; the first may be under way. */
  readonly #rotations: Rotation[] = [];
  readonly #loop: Promise<void>;
  /** Its `bytes` and `seq`: where the records on stable storage end, and the last one's number. */
  #inUse: OpenFile;
  /** `file`: no successor could be made when it was renamed, so it may be at its path or not. */
  #watched: "path" | "file" = "path";

  /**
   * Ends the loop's rest; unheard while it works, for then it looks by itself for what to do. So
   * where the loop stands is the journal's state, and no field is to be kept in step with it.
   */
  readonly #bell = new EventEmitter<{ anything: []; rotation: [] }>();

  /** Closed, or failed for good: who asks for a rotation later would wait for ever. */
  #hasEnded = false;
  #closed: Promise<void> | undefined;

  constructor(site: Site, open: OpenFile) {
    super();
    this.#site = site;
    this.#inUse = open;
    this.#loop = this.#run();
  }

  /** What is on stable storage in the file in use, and what waits for a write or is in it. */
  get stats() {
    return {
      records: this.#inUse.seq,
      bytes: this.#inUse.bytes,
      queue: this.#queue.held
    };
  }

  append(plant: NewPlant): Promise<void> {
    return appendPlant(plant, this.#append);
  }

  readonly #append = (
    json: string,
    settle: (error?: StoreError) => void
  ): void => {
    this.#queue.push(json, this.#site.limits, settle);
    this.#bell.emit("anything");
  };

  readonly [appendJson] = {
    of: Journal.prototype.append,
    append: this.#append
  };

  /**
   * Goes on in the file that the path now leads to, or in a new one where nothing is, when the
   * journal's was renamed or the path's symbolic link moved; nothing is refused meanwhile.
   *
   * @returns whether there is one; rejects where none can be made: the old one stays in use
   */
  rotate(): Promise<boolean> {
    return new Promise((resolve) => {
      if (this.#hasEnded) return resolve(false);
      this.#rotations.push(resolve);
      this.#bell.emit("anything");
      this.#bell.emit("rotation");
    });
  }

  /** Takes no more; resolves when all that was taken is settled, and the file is closed. */
  close(): Promise<void> {
    // A file that waits for its rotation goes on waiting: until then its batch is not settled.
    this.#queue.refusal ??= new StoreError("closed", "the journal is closed");
    this.#bell.emit("anything");
    return (this.#closed ??= this.#loop.then(() => release(this.#inUse)));
  }

  readonly [Symbol.asyncDispose] = (): Promise<void> => this.close();

  /** Whatever is thrown to it is final: no later write could be trusted. */
  async #run(): Promise<void> {
    try {
      for (;;) {
        const [rotation] = this.#rotations;
        if (rotation) await this.#rotate(rotation);
        else if (this.#queue.waiting.length > 0) await this.#commit();
        else if (this.#queue.refusal) break;
        else await this.#rest("anything");
      }
    } catch (cause) {
      const error = new JournalError(
        "failed",
        this.#inUse.path,
        cause,
        this.#inUse.bytes
      );
      this.#queue.fail(
        new StoreError("unknown", error.message, { cause: error })
      );
      // A listener that throws does not get into the way of closing.
      queueMicrotask(() => this.emit("failed", error));
    }

    this.#hasEnded = true;
    for (const rotation of this.#rotations) rotation(false);
  }

  /** `rotation`: a batch is written to a renamed file, and nothing else can come before that. */
  #rest(until: "anything" | "rotation"): Promise<void> {
    return new Promise((wake) => this.#bell.once(until, () => wake()));
  }

  /** @throws Error where the file is not ours any more */
  async #rotate(resolve: Rotation): Promise<void> {
    const old = this.#inUse;
    const { path, disk, warn } = this.#site;
    // What was deleted or changed is lost: a new file would hide it.
    this.#check(old.file.look());

    try {
      const isNew = disk.look(path)?.identity !== old.identity;
      if (isNew) this.#inUse = await openFile(disk, path, warn);
      this.#watched = "path";
      resolve(isNew);
    } catch (error) {
      // The old one stays in use, whatever failed.
      this.#watched = "file";
      resolve(Promise.reject(error));
    }

    if (old !== this.#inUse) release(old);
    this.#rotations.shift();
  }

  /** @throws Error where the batch, and what follows, may be stored or not */
  async #commit(): Promise<void> {
    // What the event loop still delivers joins the write, while a turn brings a tenth more: a write
    // costs as much as 10 requests, and a turn that brings nothing next to nothing.
    let known;
    do {
      known = this.#queue.waiting.length;
      await setImmediate();
    } while (this.#queue.waiting.length > 1.1 * known);

    const bytes = this.#takeBatch();
    if (!bytes) return;
    const { length: records } = this.#queue.batch;
    const begun = performance.now();
    try {
      await appendAll(this.#inUse.file, bytes);
    } catch (error) {
      return this.#takeBack(error, bytes.length);
    }
    const millis = performance.now() - begun;
    this.#inUse.bytes += bytes.length;
    this.#inUse.seq += records;

    await this.#watch();
    // A listener that throws does not get into the way of what follows.
    queueMicrotask(() => this.emit("batch", records, millis));
    this.#queue.settle();
  }

  /**
   * The next batch's bytes; undefined where they can't be made: then its appends are rejected, the
   * file is as it was, and the next batch is tried as usual.
   */
  #takeBatch(): Buffer | undefined {
    const { path, seq, bytes: end } = this.#inUse;
    // No seq of the batch is longer than this one, nor a time than another.
    const frame = recordText(seq + this.#queue.waiting.length, epoch, end, "");
    this.#queue.take(frame.length, this.#site.limits);

    try {
      const at = new Date().toISOString();
      let last = seq;
      let lines = "";
      for (const { json } of this.#queue.batch)
        lines += recordText(++last, at, end, json);
      return seal(lines);
    } catch (cause) {
      const reason = cause instanceof Error ? cause.message : String(cause);
      const warning = `${path}: ${this.#queue.batch.length} plants are not stored: ${reason}`;
      this.#queue.settle(
        new StoreError("unknown", "no line could be made of it", { cause })
      );
      queueMicrotask(() => this.#site.warn(warning));
      return undefined;
    }
  }

  /**
   * Nothing of the batch is acknowledged, and the file is cut back: blocks whose flush failed must
   * go, for a retried flush says success over zeros (seen on ext4). Where there was no space, the
   * next batch is tried as usual.
   *
   * @throws the error where it is another, or the file can't be cut back
   */
  #takeBack(error: unknown, bytes: number): void {
    const { file, bytes: end } = this.#inUse;
    const found = file.size();
    // What is beyond may be another's: that is not cut.
    if (found >= end && found <= end + bytes) file.cut(end);

    const isFull =
      error instanceof Error && "errno" in error && noSpace.has(error.errno);
    if (!isFull || file.size() !== end) throw error;
    this.#queue.settle(
      new StoreError("full", "there is no space left", { cause: error })
    );
    queueMicrotask(() => this.emit("full"));
  }

  /** @throws Error when the file is not where, or not as long as, this process has left it */
  async #watch(): Promise<void> {
    if (this.#isWatchedSoundly()) return;

    // A rename is the first half of a rotation; without the second it is a fault. What has become
    // of the file meanwhile is looked at again: it may be deleted, cut, or back in its place.
    const timer = setTimeout(
      () => this.#bell.emit("rotation"),
      this.#site.limits.rotationMillis
    );
    if (this.#rotations.length === 0) await this.#rest("rotation");
    clearTimeout(timer);
    if (this.#isWatchedSoundly() || this.#rotations.length > 0) return;
    throw new Error(
      "it was renamed, or its link was, and no rotation followed"
    );
  }

  /**
   * Whether the file is where it is to be looked for.
   *
   * @throws Error where it was deleted, or is not as long as this process has left it
   */
  #isWatchedSoundly(): boolean {
    const { identity, file } = this.#inUse;
    const look = () => this.#site.disk.look(this.#site.path);
    // What made a rotation fail may still be there: then the path holds nothing of ours.
    const there = this.#watched === "file" ? ifPossible(look) : look();
    const isInPlace = there?.identity === identity;
    this.#check(isInPlace ? there : file.look());

    // One that was put back after a failed rotation is watched again.
    if (isInPlace) this.#watched = "path";
    return isInPlace || this.#watched === "file";
  }

  /** @throws Error where the file was deleted, or is not as long as this process has left it */
  #check({ bytes, links }: ReturnType<OpenFile["file"]["look"]>): void {
    const { bytes: expected } = this.#inUse;
    if (bytes !== expected)
      throw new Error(`another changed it: ${bytes} bytes, not ${expected}`);
    if (links === 0) throw new Error("it was deleted while in use");
  }
}

/** Compared as numbers: libuv has no name for EDQUOT. */
const { ENOSPC, EDQUOT, EFBIG } = constants.errno;
const noSpace: ReadonlySet<unknown> = new Set([-ENOSPC, -EDQUOT, -EFBIG]);
