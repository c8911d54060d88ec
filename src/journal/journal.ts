/**
 * The loop that writes the journal: it queues plants, writes them together, and acknowledges them
 * when the write returns.
 *
 * One loop does everything that touches the file: rotations first, then a batch; otherwise it
 * sleeps. So one write is in flight at a time, and appends that arrive meanwhile join the next one
 * (group commit). Between a write and its acknowledgement nothing is written.
 */
import { EventEmitter } from "node:events";
import { constants } from "node:os";
import { resolve } from "node:path";
import { setImmediate, setTimeout as pause } from "node:timers/promises";
import { checkTypes, limitsWith, type Limits } from "../config.ts";
import type { NewPlant } from "../plant.ts";
import { methodsOf, shareOutcomes } from "../append.ts";
import {
  StoreError,
  type PlantStore,
  type Receipt,
  type StoreEvents
} from "../store.ts";
import { attempt, JournalError } from "./error.ts";
import { ifPossible, isError } from "../failure.ts";
import { markClosed } from "./closed.ts";
import { appendAll, pathOf, realDisk, type Disk } from "./files.ts";
import { openFile, type OpenFile, type OpenOptions } from "./open.ts";
import { KeyWindow } from "./keys.ts";
import { Queue } from "./queue.ts";
import { fillChecksums, recordText } from "./record.ts";

export interface JournalOptions {
  readonly limits?: Partial<Limits> | undefined;

  /**
   * Called when opening has moved a torn end aside or lacks one of its locks. Default: nothing is
   * called.
   */
  readonly warn?: ((message: string) => void) | undefined;

  /** Another disk, for tests. @internal */
  readonly disk?: Disk | undefined;
}

/**
 * Opens the journal at a path, or creates it. A `file:` URL is a path, as in fs.
 *
 * Rejects with a JournalError, a RangeError for a limit out of bounds, or a TypeError that names the
 * path or an option, and what was expected.
 */
export async function openJournal(
  location: string | URL,
  options: JournalOptions = {}
): Promise<Journal> {
  const path = pathOf(location);
  checkTypes("options", options, {
    limits: "object",
    warn: "function",
    disk: "object"
  });
  const { disk = realDisk, warn = () => {} } = options;
  const limits = limitsWith(options.limits);
  const { keysBytesMax } = limits;
  const keys =
    keysBytesMax > 0
      ? attempt("failed", path, () => new KeyWindow(keysBytesMax))
      : undefined;
  const settings = { path: resolve(path), disk, warn, limits, keys };
  return new Journal(settings, await openFile(settings));
}

interface JournalSettings extends OpenOptions {
  readonly limits: Limits;
}

/** How often a journal that was renamed is looked at, in milliseconds. */
const watchMillis = 10;

interface RotationRequest {
  resolve(isNew: boolean): void;
  reject(error: unknown): void;
}

export class Journal
  extends EventEmitter<StoreEvents<JournalError>>
  implements PlantStore
{
  readonly #settings: JournalSettings;
  readonly #queue = new Queue();

  readonly append: (plant: NewPlant) => Promise<Receipt>;

  /** Undefined with a window of 0. */
  readonly appendOnce: PlantStore["appendOnce"];

  /** The requests that are not done; the first may be under way. */
  readonly #rotations: RotationRequest[] = [];

  /** The file. `bytes` is where its durable records end, `seq` the last one's number. */
  #current: OpenFile;

  /** Whether a rotation has failed: the file may have any name, until it is found at its path. */
  #mayBeRenamed = false;

  /** Whether the loop has ended: the file is closed, or can never be written again. */
  #hasEnded = false;

  /**
   * Wakes the sleeping loop. A wake-up while the loop works is lost, which is safe: the loop looks
   * for work before it sleeps.
   */
  #wakeUp = () => {};

  readonly #loop: Promise<void>;

  constructor(settings: JournalSettings, current: OpenFile) {
    super();
    this.#settings = settings;
    this.#current = current;
    const methods = methodsOf(this.#append, settings.keys !== undefined);
    this.append = methods.append;
    this.appendOnce = methods.appendOnce;
    this.#loop = this.#run();
  }

  /**
   * The records and bytes on stable storage in the current file, the appends in the queue, and for
   * how many seconds a key is remembered.
   */
  get stats() {
    return {
      records: this.#current.seq,
      bytes: this.#current.bytes,
      queue: this.#queue.size,
      keysSeconds: this.#settings.keys?.seconds
    } as const;
  }

  readonly #append = shareOutcomes(
    (json, key) => {
      const remembered = this.#settings.keys?.find(key, json);
      if (remembered instanceof StoreError) throw remembered;
      if (remembered) {
        this.#checkReplay();
        return Promise.resolve({ json, ...remembered });
      }
      const stored = this.#queue.push(json, this.#settings.limits, key);
      this.#wakeUp();
      return stored;
    },
    () => this.#settings.limits.queueRecordsMax - this.#queue.size.records
  );

  /** @throws StoreError `unknown` once there is a refusal, or if the file lost what was durable */
  #checkReplay() {
    const { file, bytes } = this.#current;
    const { refusal } = this.#queue;

    // After closing, the descriptor may belong to another file, which says nothing of the plant.
    if (refusal)
      throw new StoreError("unknown", refusal.message, { cause: refusal });

    // During a write the file may be longer.
    const state = ifPossible(() => file.look());
    if (!state || state.links === 0 || state.bytes < bytes)
      throw new StoreError("unknown", "the file was deleted or truncated");
  }

  /**
   * Continues in the file that the path now leads to; creates it if there is none. Call it once the
   * journal was renamed or the path's symbolic link was moved. No append is refused meanwhile.
   *
   * @returns whether there is a new file; rejects if none can be opened: the old one stays current
   */
  rotate(): Promise<boolean> {
    return new Promise((resolve, reject) => {
      if (this.#hasEnded) return resolve(false);
      this.#rotations.push({ resolve, reject });
      this.#wakeUp();
    });
  }

  /** Accepts no more plants; resolves when every append has settled and the file is closed. */
  close(): Promise<void> {
    // A batch that waits for a rotation keeps waiting: its appends have not settled.
    this.#queue.refusal ??= new StoreError("closed", "the journal is closed");
    this.#wakeUp();
    return this.#loop;
  }

  readonly [Symbol.asyncDispose] = () => this.close();

  /**
   * Runs until the journal is closed, and closes the file. An error is final: no later write could
   * be trusted.
   */
  async #run() {
    try {
      for (;;) {
        const [rotation] = this.#rotations;
        if (rotation) await this.#rotate(rotation);
        else if (this.#queue.waiting.length > 0) await this.#commit();
        else if (this.#queue.refusal) break;
        else await this.#sleep();
      }
      markClosed(this.#settings.disk, this.#current.path, this.#current);
    } catch (cause) {
      const { path, bytes } = this.#current;
      const error = new JournalError("failed", path, cause, bytes);
      this.#queue.fail(
        new StoreError("unknown", error.message, { cause: error })
      );
      // A listener that throws does not prevent closing.
      queueMicrotask(() => this.emit("failed", error));
    }

    this.#hasEnded = true;
    for (const rotation of this.#rotations) rotation.resolve(false);
    this.#current.release();
  }

  #sleep() {
    return new Promise<void>((resolve) => {
      this.#wakeUp = resolve;
    });
  }

  /** @throws Error if the file was deleted or changed, or the new one cannot be read */
  async #rotate(request: RotationRequest) {
    const old = this.#current;
    const { path, disk, keys } = this.#settings;
    // A new file would hide that records of the old one are lost.
    this.#check(old.file.look());

    try {
      const isNew = disk.look(path)?.identity !== old.identity;
      if (isNew) {
        // The window of keys continues. It stays unchanged if the file cannot be opened.
        this.#current = await openFile({ ...this.#settings, keys: undefined });
        old.release();
      }
      this.#mayBeRenamed = false;
      request.resolve(isNew);
    } catch (error) {
      this.#mayBeRenamed = true;
      request.reject(error);
    }

    this.#rotations.shift();
    if (this.#current === old || !keys) return;

    // The new file may already have records: their keys are remembered, too. Opening made them
    // durable.
    keys.addFile(this.#current.file);
    this.#queue.settleRemembered(keys);
  }

  /** @throws Error if it is unknown whether the batch, or a later one, is stored */
  async #commit() {
    // Waits while each turn of the event loop adds over 10 % more appends, so that they share the
    // write. A write costs as much as 10 requests, an idle turn next to nothing.
    let before;
    do {
      before = this.#queue.waiting.length;
      await setImmediate();
    } while (this.#queue.waiting.length > 1.1 * before);

    const bytes = this.#takeBatch();
    const records = this.#queue.batch.length;
    const { file, uuid, seq } = this.#current;
    // The lines of the batch name this offset as `synced`: they must be appended exactly here.
    this.#check(file.look());
    const begun = performance.now();
    try {
      await appendAll(file, bytes);
    } catch (error) {
      return this.#takeBack(error, bytes.length);
    }
    const millis = performance.now() - begun;
    this.#current.bytes += bytes.length;
    this.#current.seq += records;

    await this.#watch();
    this.#settings.keys?.addLines(bytes, this.#queue.batch);
    // A listener that throws does not prevent what follows.
    queueMicrotask(() => this.emit("batch", records, millis));
    this.#queue.settle({ seq: seq + 1, file: uuid });
  }

  /**
   * Takes the next batch and returns its lines.
   *
   * @throws RangeError without memory for them, or with a clock that has no RFC 3339 time
   */
  #takeBatch() {
    const { seq, bytes: end } = this.#current;
    this.#queue.take(this.#settings.limits);
    const at = new Date().toISOString();
    let last = seq;
    let lines = "";
    for (const { json, key } of this.#queue.batch)
      lines += recordText(++last, at, end, json, key);
    return fillChecksums(lines);
  }

  /**
   * Truncates the file to where the batch began, and acknowledges nothing of it.
   *
   * Blocks whose flush failed must go: a retried flush reports success although they hold zeros
   * (observed on ext4). If there was no space, the next batch is tried as usual.
   *
   * @throws the error if it was another, or if the file cannot be truncated
   */
  #takeBack(error: unknown, bytes: number) {
    const { file, bytes: end } = this.#current;
    const size = file.size();
    // Bytes beyond the batch may be another process's: they are not truncated.
    if (size < end || size > end + bytes) throw error;
    file.truncate(end);

    if (!isFull(error)) throw error;
    this.#queue.settle(
      new StoreError("full", "there is no space left", { cause: error })
    );
    queueMicrotask(() => this.emit("full"));
  }

  /** @throws Error if the file is not where, or not as long as, this process has left it */
  async #watch() {
    const { disk, path, limits } = this.#settings;
    const { identity, file } = this.#current;
    const look = () => disk.look(path);
    for (let millis = 0; ; millis += watchMillis) {
      // What made a rotation fail may still be at the path. Then looking fails, too.
      const there = this.#mayBeRenamed ? ifPossible(look) : look();
      const isAtPath = there?.identity === identity;
      this.#check(isAtPath ? there : file.look());

      // A file that was put back after a failed rotation must stay at the path again.
      if (isAtPath) this.#mayBeRenamed = false;
      if (isAtPath || this.#mayBeRenamed || this.#rotations.length > 0) return;

      // A rename is the first half of a rotation; without the second half it is a fault. Meanwhile
      // the file may be deleted, truncated or put back.
      if (millis >= limits.rotationMillis)
        throw new Error(
          "the journal (or its symbolic link) was renamed, and no SIGHUP, or rotate() of the library, followed"
        );
      await pause(watchMillis);
    }
  }

  /** @throws Error if the file was deleted, or is not as long as this process has left it */
  #check({ bytes, links }: ReturnType<OpenFile["file"]["look"]>) {
    const expected = this.#current.bytes;
    if (bytes !== expected)
      throw new Error(
        `another process changed it: expected ${expected} bytes, found ${bytes}`
      );
    if (links === 0) throw new Error("it was deleted or replaced");
  }
}

/** Whether an error of the system, or the cause of a JournalError, is that there is no space. */
export const isFull = (error: unknown): boolean =>
  error instanceof JournalError
    ? isFull(error.cause)
    : isError(error) && "errno" in error && noSpace.has(error.errno);

/** Compared as numbers: libuv has no name for EDQUOT. */
const { ENOSPC, EDQUOT, EFBIG } = constants.errno;
const noSpace: ReadonlySet<unknown> = new Set([-ENOSPC, -EDQUOT, -EFBIG]);
