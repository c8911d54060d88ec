/**
 * A simulated disk, for faults that a real one cannot be made to have.
 *
 * A file has the bytes that the page cache shows and those that stable storage holds. A write that
 * returns is durable, and has NULs before it where the bytes there are not (ext4 under O_DSYNC).
 * What a write or a sync that failed has left is read and counts as clean: neither a later write
 * there nor a sync makes it durable, only a truncation lets it go. A name is durable once its
 * directory is synced. The time of a file's last write is as durable as its bytes. A crash comes
 * before any change, or lets a part of a write through; `restart` brings back what the cache knew,
 * or only what was durable.
 */
import type { PathLike } from "node:fs";
import { setImmediate } from "node:timers/promises";
import { getSystemErrorName } from "node:util";
import { JournalError } from "../../src/journal/error.ts";
import type { Disk, JournalFile } from "../../src/journal/files.ts";
import type { Release } from "../../src/journal/lock.ts";

type Seen = ReturnType<JournalFile["look"]>;
/** The name of a method of `Disk` or `JournalFile`. */
export type Operation = keyof Disk | keyof JournalFile;

/** What is wrong with one call. */
export interface Fault {
  /** A positive error number; without one the call returns short. */
  readonly errno?: number;
  /** How many bytes of a write get through; where it fails, to the cache only. */
  readonly bytes?: number;
}

/** How many bytes get through of the write that a crash interrupts; of another change nothing does. */
export interface Interruption {
  readonly through: number;
}

/**
 * What a power cut leaves of the bytes that were not durable: none, and the truncations before them
 * are undone, or are not; all, but for those of a failed flush; their size alone, as NULs; a half.
 */
export type Kept =
  "durable" | "truncated" | "flushed" | "size" | "first half" | "second half";

/** What a crash leaves of what was not durable: all of it where only the process died. */
export interface Survival {
  readonly bytes: true | Kept;
  readonly names: boolean;
}

/** The operations that change the disk, or may. The others only read. */
export const changing: ReadonlySet<Operation> = new Set([
  "open",
  "append",
  "truncate",
  "sync",
  "openBeside",
  "rename",
  "remove",
  "syncDirectory"
]);

export class SimulatedDisk implements Disk {
  /** Every call, in order. */
  readonly calls: Operation[] = [];
  /** How many of the faults that were asked for have come. */
  faultsFired = 0;
  /** A disk that lies: its writes return and are not durable. */
  lies = false;
  /** Neither size nor time tells two states of a file apart. */
  statesAreEqual = false;
  /** A crash has come: every call fails until `restart`. */
  isDown = false;
  /** Called before each operation, with how many bytes it writes: what it meets. */
  onCall: (
    operation: Operation,
    bytes: number
  ) => Fault | Interruption | undefined = () => undefined;
  #names = new Map<string, Inode>();
  #durableNames = new Map<string, Inode>();
  /** The identities of the files that this process has locked. */
  #locks = new Set<string>();
  #inodes = 0;
  /** The time: it passes with each write. */
  #now = 0;
  #faults: {
    readonly operation: Operation;
    left: number;
    readonly fault: Fault;
  }[] = [];
  /** What gets through of the change that a crash interrupts. */
  #crash: Interruption | undefined;
  #stalled: (() => void)[] | undefined;
  #onStalled = (): void => undefined;
  #life = 0;

  /** Puts a durable file there. */
  put(path: string, bytes: Buffer): void {
    const inode = this.#make(path);
    inode.fill(Buffer.from(bytes), Buffer.from(bytes));
    this.#durableNames.set(path, inode);
  }

  /** Copies bytes to a file, as `cp` does: in place, or to a new file. None of them is durable. */
  copy(bytes: Buffer, to: string, isInPlace: boolean): void {
    const inode = (isInPlace && this.#names.get(to)) || this.#make(to);
    inode.fill(Buffer.from(bytes), Buffer.alloc(bytes.length));
  }

  /** Removes a file durably, as an operator does. */
  discard(path: string): void {
    this.#names.delete(path);
    this.#durableNames.delete(path);
  }

  /** Changes a file's time. */
  touch(path: string): void {
    this.#names.get(path)?.touch();
  }

  /** Whether there is a mark that a process has closed a file, and it is as it was then. */
  isClosed(path: string): boolean {
    const inode = this.#names.get(path);
    const mark = inode && `${path}.closed-${this.#seen(inode).state}`;
    return mark !== undefined && this.#names.has(mark);
  }

  /** The text of all that is on the disk. */
  describe(): string {
    const files = (names: ReadonlyMap<string, Inode>) =>
      [...names].map(([name, inode]) => [name, inode.describe()]).sort();
    const closed = this.names().filter((name) => this.isClosed(name));
    return JSON.stringify([
      files(this.#names),
      files(this.#durableNames),
      closed
    ]);
  }

  /** Leaves the mark of a closed file beside one, as the process that closed it. */
  markClosed(path: string): void {
    const inode = this.#names.get(path);
    if (!inode) return;
    this.put(`${path}.closed-${this.#seen(inode).state}`, Buffer.alloc(0));
  }

  /** What a reader sees, or undefined where no file is. */
  bytes(path: string): Buffer | undefined {
    return this.#names.get(path)?.cached;
  }

  /** The names of marks, which are empty files. */
  marks(): string[] {
    return this.names().filter((name) => isMark(name));
  }

  names(): string[] {
    return [...this.#names.keys()].sort();
  }

  /** All names but those of marks. */
  files(): string[] {
    return this.names().filter((name) => !isMark(name));
  }

  /** The call of that name after `skip` others of it has the fault. */
  fail(operation: Operation, fault: Fault, skip = 0): void {
    this.#faults.push({ operation, left: skip, fault });
  }

  /** Ends the process that used the disk, with all its locks and open files. */
  restart({ bytes, names }: Survival): void {
    this.#life++;
    this.isDown = false;
    this.#locks.clear();
    this.#faults = [];
    this.#crash = this.#stalled = undefined;
    if (!names) this.#names = new Map(this.#durableNames);
    const kept = bytes === true ? (names ? undefined : "flushed") : bytes;
    if (kept === undefined) return;
    for (const inode of this.#names.values()) inode.forget(kept);
    this.#durableNames = new Map(this.#names);
  }

  /** Stalls every append from now on; resolves when the first has been called. */
  stall(): Promise<void> {
    this.#stalled = [];
    return new Promise((resolve) => {
      this.#onStalled = resolve;
    });
  }

  /** Lets the stalled appends continue, and stalls no more. */
  resume(): void {
    const stalled = this.#stalled ?? [];
    this.#stalled = undefined;
    for (const resolve of stalled) resolve();
  }

  resolve(path: string): string {
    this.#enter("resolve");
    return path;
  }

  look(path: string): Seen | undefined {
    this.#enter("look");
    const inode = this.#names.get(path);
    return inode && this.#seen(inode);
  }

  open(path: string): JournalFile {
    this.#enter("open");
    this.#change();
    return this.#file(this.#names.get(path) ?? this.#make(path));
  }

  // An async function, so that what it throws is a rejection, as that of the real one.
  async lock(path: string, identity: string, releases: Release[]) {
    this.#enter("lock");
    if (this.#locks.has(identity))
      throw new JournalError("locked", path, "another process has it open");
    this.#locks.add(identity);
    releases.push(() => this.#locks.delete(identity));
  }

  readBeside(path: string): Buffer | undefined {
    this.#enter("readBeside");
    return this.bytes(path);
  }

  listEmpty(_journal: string, form: RegExp): string[] {
    this.#enter("listEmpty");
    return this.names().filter((name) => form.test(name));
  }

  openBeside(path: string): JournalFile {
    this.#enter("openBeside");
    this.#change();
    const inode = this.#names.get(path) ?? this.#make(path);
    inode.truncate(0);
    return this.#file(inode);
  }

  rename(from: PathLike, to: PathLike): void {
    this.#enter("rename");
    this.#change();
    const inode = this.#names.get(String(from));
    if (!inode) throw systemError(2, "rename");
    this.#names.set(String(to), inode);
    this.#names.delete(String(from));
  }

  remove(path: PathLike): void {
    this.#enter("remove");
    this.#change();
    this.#names.delete(String(path));
  }

  async syncDirectory(_path: string) {
    this.#enter("syncDirectory");

    // A flush takes time: a caller that does not wait for it goes on meanwhile.
    await setImmediate();
    this.#change();
    this.#durableNames = new Map(this.#names);
    for (const inode of this.#names.values()) inode.commitTruncations();
  }

  #file(inode: Inode): JournalFile {
    const life = this.#life;
    const enter = (operation: Operation, bytes?: number): Fault => {
      if (life !== this.#life) throw new Error("opened before the crash");
      return this.#enter(operation, bytes);
    };
    return {
      look: () => {
        enter("look");
        return this.#seen(inode);
      },
      size: () => {
        enter("size");
        return inode.cached.length;
      },
      read: (offset, length) => {
        enter("read");
        return Buffer.from(inode.cached.subarray(offset, offset + length));
      },
      append: async (bytes) => {
        if (this.#stalled)
          await new Promise<void>((resolve) => this.#stall(resolve));
        return this.#append(inode, bytes, enter("append", bytes.length));
      },
      truncate: (bytes) => {
        enter("truncate");
        this.#change();
        inode.truncate(bytes);
      },
      sync: async () => {
        try {
          enter("sync");
        } catch (error) {
          if (!this.isDown) inode.failSync();
          throw error;
        }
        this.#change();
        if (!this.lies) inode.sync();
      },
      close: () => undefined
    };
  }

  #stall(resolve: () => void): void {
    this.#stalled?.push(resolve);
    this.#onStalled();
  }

  /** Every call comes through here. */
  #enter(operation: Operation, bytes = 0): Fault {
    if (this.isDown) throw new Error("the machine is down");
    this.calls.push(operation);
    const given = this.onCall(operation, bytes);
    if (given && "through" in given) this.#crash = given;
    else if (given) this.#faults.push({ operation, left: 0, fault: given });
    const [due] = this.#faults.filter(
      (each) => each.operation === operation && each.left-- === 0
    );
    if (!due) return {};
    this.faultsFired++;
    if (due.fault.errno !== undefined && due.fault.bytes === undefined) {
      throw systemError(due.fault.errno, operation);
    }
    return due.fault;
  }

  /** Every change comes through here, before it is made. */
  #change(): void {
    if (this.#stop()) throw new Error("the machine is down");
  }

  /** Ends the machine if the crash comes now; returns what it lets through. */
  #stop(): Interruption | undefined {
    if (this.#crash) this.isDown = true;
    return this.#crash;
  }

  #append(
    inode: Inode,
    bytes: Buffer,
    { errno, bytes: taken = bytes.length }: Fault
  ): number {
    const stop = this.#stop();
    if (stop) {
      inode.append(bytes.subarray(0, stop.through), false);
      throw new Error("the machine is down");
    }
    inode.append(bytes.subarray(0, taken), errno === undefined && !this.lies);
    if (errno !== undefined) {
      inode.failFlush(Math.min(taken, bytes.length));
      throw systemError(errno, "append");
    }
    return Math.min(taken, bytes.length);
  }

  #make(path: string): Inode {
    const inode = new Inode(`${++this.#inodes}`, () => ++this.#now);
    this.#names.set(path, inode);
    return inode;
  }

  #seen({ identity, cached, written }: Inode): Seen {
    const links = [...this.#names.values()].filter(
      (each) => each.identity === identity
    ).length;
    return {
      identity,
      inode: identity,
      state: this.statesAreEqual
        ? `${identity}-0-0`
        : `${identity}-${cached.length}-${written}`,
      isFile: true,
      bytes: cached.length,
      links
    };
  }
}

const isMark = (name: string): boolean =>
  /\.(?:closed|unflushed)-[\d-]+$/.test(name);

class Inode {
  readonly identity: string;
  readonly #now: () => number;
  cached: Buffer = Buffer.alloc(0);
  durable: Buffer = Buffer.alloc(0);

  /** When it was last written, as the cache and as stable storage have it. */
  written = 0;
  #durablyWritten = 0;

  /** The lowest offset of all truncations that are not durable yet. */
  #truncatedAt = Infinity;

  /** What a failed flush has left in the cache: it counts as clean, and stable storage lacks it. */
  #lost: { readonly from: number; readonly to: number }[] = [];

  constructor(identity: string, now: () => number) {
    this.identity = identity;
    this.#now = now;
  }

  /** Replaces all of its bytes. */
  fill(cached: Buffer, durable: Buffer): void {
    this.cached = cached;
    this.durable = durable;
    this.#truncatedAt = Infinity;
    this.#lost = [];
    this.written = this.#durablyWritten = this.#now();
  }

  append(bytes: Buffer, durable: boolean): void {
    const end = this.cached.length;
    this.cached = Buffer.concat([this.cached, bytes]);
    this.written = this.#now();
    if (!durable) return;
    this.commitTruncations();
    const hole = Buffer.alloc(Math.max(0, end - this.durable.length));
    this.durable = Buffer.concat([this.durable.subarray(0, end), hole, bytes]);
  }

  /** The flush of the last bytes has failed. */
  failFlush(bytes: number): void {
    if (bytes > 0)
      this.#lost.push({
        from: this.cached.length - bytes,
        to: this.cached.length
      });
  }

  /** A sync has failed: all that was not durable counts as clean, and is lost. */
  failSync(): void {
    let from = 0;
    while (
      from < this.cached.length &&
      this.cached[from] === this.durable[from]
    )
      from++;
    this.failFlush(this.cached.length - from);
  }

  /** Makes durable what the cache has and counts as dirty. */
  sync(): void {
    this.durable = this.#flushed();
    this.#truncatedAt = Infinity;
    this.#durablyWritten = this.written;
  }

  /** What stable storage has once everything is flushed: NULs where a flush has failed. */
  #flushed(): Buffer {
    const bytes = Buffer.from(this.cached);
    for (const { from, to } of this.#lost) bytes.fill(0, from, to);
    return bytes;
  }

  truncate(bytes: number): void {
    this.cached = this.cached.subarray(0, bytes);
    this.written = this.#now();
    this.#lost = this.#lost
      .filter(({ from }) => from < bytes)
      .map(({ from, to }) => ({ from, to: Math.min(to, bytes) }));
    this.#truncatedAt = Math.min(this.#truncatedAt, bytes);
  }

  /** Bytes appended since stand after the truncation, and are not durable with it. */
  commitTruncations(): void {
    this.durable = this.durable.subarray(0, this.#truncatedAt);
    this.#truncatedAt = Infinity;
    this.#durablyWritten = this.written;
  }

  /** The power fails: this much is left of what was not durable. */
  forget(kept: Kept): void {
    if (kept === "durable") this.written = this.#durablyWritten;
    else this.#durablyWritten = this.written;
    this.cached = this.durable = this.#left(kept);
    this.#truncatedAt = Infinity;
    this.#lost = [];
  }

  #left(kept: Kept): Buffer {
    if (kept === "durable") return this.durable;
    const truncated = this.durable.subarray(0, this.#truncatedAt);
    if (kept === "truncated") return truncated;
    const left = this.#flushed();
    const from = Math.min(truncated.length, left.length);
    const middle = (from + left.length) >> 1;
    if (kept === "first half") return left.subarray(0, middle);
    if (kept === "size") left.fill(0, from);

    // A header's sector has no hole.
    if (kept === "second half" && from < 133) return truncated;
    if (kept === "second half") left.fill(0, from, middle);
    return left;
  }

  touch(): void {
    this.written = this.#durablyWritten = this.#now();
  }

  describe(): string {
    const { cached, durable } = this;
    return JSON.stringify([
      cached.toString("latin1"),
      durable.toString("latin1"),
      this.#truncatedAt,
      this.#lost
    ]);
  }
}

/** As Node throws it; libuv has no name for some numbers, EDQUOT's for one. */
function systemError(errno: number, operation: Operation): Error {
  const code = getSystemErrorName(-errno);
  return Object.assign(new Error(`${code}: ${operation}`), {
    errno: -errno,
    code
  });
}
