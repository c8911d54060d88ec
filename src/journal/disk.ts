/** The only file that touches the file system for the journal. On Linux every write is one system
 * call for data and flush (O_DSYNC), which Node's permission model does not refuse, as it does
 * fsync and fdatasync. Elsewhere a write is followed by fdatasync. */
import {
  closeSync, constants, fdatasync, fstatSync, fsyncSync, ftruncateSync, lstatSync,
  openSync, readFileSync, readlinkSync, readSync, realpathSync, renameSync, statSync, unlinkSync,
  write, type BigIntStats,
} from "node:fs";
import { platform } from "node:os";
import { basename, dirname, join, resolve } from "node:path";
import { hold, isHeld } from "./lock.ts";

const { O_APPEND, O_CREAT, O_DSYNC, O_RDONLY, O_RDWR, O_TRUNC } = constants;
const isLinux = platform() === "linux";
const durably = O_RDWR | O_APPEND | O_CREAT | (isLinux ? O_DSYNC : 0);
/** What the journal needs of a disk; tests put another in its place. */
export type Disk = typeof realDisk;
export type JournalFile = ReturnType<typeof realFile>;
export type Lock = NonNullable<Awaited<ReturnType<Disk["lock"]>>>;

export const realDisk = {
  /** The absolute path behind symbolic links; a dangling one leads to what it names. */
  resolve: (path: string): string => resolveLinks(path, 40),
  /** What is at a path, or undefined where nothing is. */
  look(path: string): ReturnType<typeof seen> | undefined {
    const stat = statSync(path, { bigint: true, throwIfNoEntry: false });
    return stat && seen(stat);
  },
  /** Opens for durable appends, and makes the file where there is none. */
  open: (path: string) => realFile(openSync(path, durably)),
  /** Holds the file for this process until `release`; undefined: another process has it.
   * On Linux under any of its names, in one network namespace; by a socket beside it, where one
   * can be, between those too: but not for two starts in the instant after a kill -9. */
  async lock(path: string, identity: string): Promise<{ release(): void } | undefined> {
    const held: (() => void)[] = [];
    const release = (): void => held.forEach((end) => end());
    for (const name of locksOf(path, identity)) {
      await removeAbandoned(name);
      const end = await hold(name);
      if (!end) {
        release();
        return undefined;
      }
      held.push(end);
    }
    return { release };
  },
  /** The bytes of a small file beside the journal, or undefined where there is none. */
  readBeside: (path: string): Buffer | undefined =>
    statSync(path, { throwIfNoEntry: false }) && readFileSync(path),
  /** Opens one for durable appends, emptied. */
  openBeside: (path: string) => realFile(openSync(path, durably | O_TRUNC)),
  rename: (from: string, to: string): void => renameSync(from, to),
  remove: (path: string): void => unlinkSync(path),
  /** Makes the names in a file's directory durable; where that is not permitted, it can't be. */
  syncDirectory(path: string): void {
    const fd = openSync(dirname(path), O_RDONLY);
    try {
      fsyncSync(fd);
    } catch (error) {
      if (!(error instanceof Error && "permission" in error)) throw error;
    } finally {
      closeSync(fd);
    }
  },
};

export const isLocked = async (path: string, identity: string): Promise<boolean> =>
  (await Promise.all(locksOf(path, identity).map(isHeld))).includes(true);
/** Removes a Unix socket that nobody listens on any more, and nothing else. */
export async function removeAbandoned(path: string): Promise<void> {
  if (path.startsWith("\0")) return;
  const isSocket = statSync(path, { throwIfNoEntry: false })?.isSocket() ?? false;
  if (isSocket && !await isHeld(path)) unlinkSync(path);
}

const locksOf = (path: string, identity: string): readonly string[] =>
  [...(isLinux ? [`\0plant-store-${identity}`] : []), `${path}.lock-${identity}`];
export const openToRead = (path: string): JournalFile => realFile(openSync(path, O_RDONLY));
/** Appends all, durably: the rest of a short write is written. */
export async function appendAll(file: JournalFile, bytes: Buffer): Promise<void> {
  for (let at = 0; at < bytes.length;) {
    const written = await file.append(bytes.subarray(at));
    if (written === 0) throw new Error("nothing was written, and no error told");
    at += written;
  }
}

const realFile = (fd: number) => ({
  look: () => seen(fstatSync(fd, { bigint: true })),
  size: () => fstatSync(fd).size,
  /** Exactly these bytes; fewer only where the file ends. */
  read(offset: number, length: number): Buffer {
    const bytes = Buffer.alloc(length);
    for (let at = 0; at < length;) {
      const got = readSync(fd, bytes, at, length - at, offset + at);
      if (got === 0) return bytes.subarray(0, at);
      at += got;
    }
    return bytes;
  },
  /** Appends durably; how many bytes: fewer than given where the disk took no more. */
  append: (bytes: Buffer) => new Promise<number>((resolve, reject) => {
    write(fd, bytes, 0, bytes.length, null, (error, written) => {
      if (error) reject(error);
      else if (isLinux) resolve(written);
      else fdatasync(fd, (failure) => (failure ? reject(failure) : resolve(written)));
    });
  }),
  cut: (bytes: number): void => ftruncateSync(fd, bytes),
  close: (): void => closeSync(fd),
});
/** A file's device and inode, what it is, its size, and how many names it has; 0: deleted. */
const seen = (stat: BigIntStats) => ({
  identity: `${stat.dev}-${stat.ino}`, isFile: stat.isFile(),
  bytes: Number(stat.size), links: Number(stat.nlink),
});

function resolveLinks(path: string, hopsMax: number): string {
  const absolute = resolve(path);
  const here = join(realpathSync.native(dirname(absolute)), basename(absolute));
  if (lstatSync(here, { throwIfNoEntry: false })?.isSymbolicLink() !== true) return here;
  if (hopsMax === 0) throw new Error("too many symbolic links");
  return resolveLinks(resolve(dirname(here), readlinkSync(here)), hopsMax - 1);
}
