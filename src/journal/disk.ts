/**
 * The only file that touches the file system for the journal: the interface Disk, and the real one.
 *
 * On Linux every write is one system call for data and flush (O_DSYNC); fsync and fdatasync are
 * refused under Node's permission model, this is not. Elsewhere a write is followed by fdatasync.
 */
import {
  closeSync, constants, existsSync, fdatasync, fdatasyncSync, fstatSync, fsyncSync, ftruncateSync,
  lstatSync, openSync, readFileSync, readlinkSync, readSync, realpathSync, statSync, unlinkSync,
  write, writeSync,
} from "node:fs";
import type { BigIntStats } from "node:fs";
import { platform } from "node:os";
import { basename, dirname, join, resolve } from "node:path";
import { lockFile } from "./lock.ts";
import type { Bytes } from "./recover.ts";

/** What the journal needs of a disk. All of it is synchronous but the lock and the busy write. */
export interface Disk {
  /** The absolute path behind symbolic links; a dangling one leads to what it names. */
  resolve(path: string): string;
  /** What is at a path, or undefined where nothing is. */
  look(path: string): Seen | undefined;
  /** Opens for durable appends, and makes the file where there is none. */
  open(path: string): JournalFile;
  /** Holds the file for this process until `release`; undefined: another process has it. */
  lock(path: string, identity: string): Promise<Lock | undefined>;
  /** A small file beside the journal, or undefined where there is none. */
  readSideFile(path: string): Buffer | undefined;
  /** Writes one durably. */
  writeSideFile(path: string, bytes: Buffer): void;
  remove(path: string): void;
  /** Makes the names in a file's directory durable; where that is not permitted, it can't be. */
  syncDirectory(path: string): void;
}

export interface Seen {
  /** Device and inode. */
  readonly identity: string;
  readonly isFile: boolean;
  readonly bytes: number;
  /** How many names the file has; 0: deleted. */
  readonly links: number;
}

export interface Lock {
  release(): void;
}

export interface JournalFile extends Bytes {
  look(): Seen;
  /** Appends durably; how many bytes: fewer than given where the disk took no more. */
  append(bytes: Buffer): number;
  /** The same, without holding up the process. */
  appendLater(bytes: Buffer, done: (error: Error | null, written: number) => void): void;
  cut(bytes: number): void;
  close(): void;
}

const isLinux = platform() === "linux";
const durably = isLinux ? constants.O_DSYNC : 0;

/** Opens for reading only; `close` it. */
export const openToRead = (path: string): JournalFile =>
  new RealFile(openSync(path, constants.O_RDONLY));

export const realDisk: Disk = {
  resolve: (path) => resolveLinks(path),
  look(path) {
    const stat = statSync(path, { bigint: true, throwIfNoEntry: false });
    return stat && seen(stat);
  },
  open: (path) => new RealFile(
    openSync(path, constants.O_RDWR | constants.O_APPEND | constants.O_CREAT | durably),
  ),
  lock: lockFile,
  readSideFile: (path) => (existsSync(path) ? readFileSync(path) : undefined),
  writeSideFile(path, bytes) {
    const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC | durably;
    const file = new RealFile(openSync(path, flags));
    try {
      for (let at = 0; at < bytes.length;) at += file.append(bytes.subarray(at));
    } finally {
      file.close();
    }
  },
  remove: (path) => unlinkSync(path),
  syncDirectory(path) {
    const fd = openSync(dirname(path), constants.O_RDONLY);
    try {
      fsyncSync(fd);
    } catch (error) {
      if (codeOf(error) !== "ERR_ACCESS_DENIED") throw error;
    } finally {
      closeSync(fd);
    }
  },
};

/** The error's code, such as ENOSPC, or "" where it has none. */
export const codeOf = (error: unknown): string =>
  error instanceof Error && "code" in error ? String(error.code) : "";

class RealFile implements JournalFile {
  readonly #fd: number;

  constructor(fd: number) {
    this.#fd = fd;
  }

  look(): Seen {
    return seen(fstatSync(this.#fd, { bigint: true }));
  }

  size(): number {
    return fstatSync(this.#fd).size;
  }

  read(offset: number, length: number): Buffer {
    const bytes = Buffer.alloc(length);
    let at = 0;
    while (at < length) {
      const got = readSync(this.#fd, bytes, at, length - at, offset + at);
      if (got === 0) break;
      at += got;
    }
    return bytes.subarray(0, at);
  }

  append(bytes: Buffer): number {
    const written = writeSync(this.#fd, bytes);
    if (!isLinux) fdatasyncSync(this.#fd);
    return written;
  }

  appendLater(bytes: Buffer, done: (error: Error | null, written: number) => void): void {
    write(this.#fd, bytes, 0, bytes.length, null, (error, written) => {
      if (error || isLinux) done(error, written);
      else fdatasync(this.#fd, (failure) => done(failure, written));
    });
  }

  cut(bytes: number): void {
    ftruncateSync(this.#fd, bytes);
  }

  close(): void {
    closeSync(this.#fd);
  }
}

const seen = (stat: BigIntStats): Seen => ({
  identity: `${stat.dev}-${stat.ino}`,
  isFile: stat.isFile(),
  bytes: Number(stat.size),
  links: Number(stat.nlink),
});

function resolveLinks(path: string, hopsMax = 40): string {
  const here = join(realpathSync.native(dirname(resolve(path))), basename(resolve(path)));
  if (lstatSync(here, { throwIfNoEntry: false })?.isSymbolicLink() !== true) return here;
  if (hopsMax === 0) throw new Error("too many symbolic links");
  return resolveLinks(resolve(dirname(here), readlinkSync(here)), hopsMax - 1);
}
