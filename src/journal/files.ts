/**
 * File operations: all that the journal does to the file system, but for its lock.
 *
 * On Linux every write is one system call for data and flush (O_DSYNC), which Node's permission
 * model allows, unlike fsync and fdatasync. Elsewhere a write is followed by fdatasync.
 *
 * On Windows a file that is opened for appends cannot be truncated. So a write there begins at the
 * file's size, which is safe under the lock, and directories are not synced: NTFS journals names.
 */
import * as fs from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { isLinux, isWindows, userId } from "../system.ts";
import { codeOf, ifPossible, isDenied, isError } from "../failure.ts";
import { takeLocks } from "./lock.ts";

const {
  O_APPEND,
  O_CREAT,
  O_DSYNC,
  O_EXCL,
  O_NOFOLLOW,
  O_NONBLOCK,
  O_RDONLY,
  O_RDWR
} = fs.constants;
const durableFlags =
  O_RDWR | O_CREAT | (isLinux ? O_DSYNC : 0) | (isWindows ? 0 : O_APPEND);

/** The mode, less the umask, of the journal and of what stands beside it: both hold plants. */
const mode = 0o640;

/** The operations that the journal needs of a disk; tests replace them. */
export type Disk = typeof realDisk;

export type JournalFile = ReturnType<typeof openedFile>;

export const realDisk = {
  /** Returns the absolute path behind symbolic links; for a dangling one, the path it names. */
  resolve: resolveLinks,

  /** Looks at what is at a path; returns undefined if nothing is. */
  look(path: string) {
    const stat = fs.statSync(path, { bigint: true, throwIfNoEntry: false });
    return stat && described(stat);
  },

  /**
   * Opens a file for durable appends; creates it if there is none.
   *
   * @throws Error also if another user may have put it there
   */
  open(path: string) {
    const fd = permitted(path, () => fs.openSync(path, durableFlags, mode));
    try {
      checkOwner(path, fs.fstatSync(fd));
    } catch (error) {
      fs.closeSync(fd);
      throw error;
    }
    return openedFile(fd);
  },

  lock: takeLocks,

  /**
   * Returns the bytes of a file beside the journal; undefined if there is none. Follows no link.
   *
   * @throws Error if it is not a regular file, is longer, or if another user may have put it there
   */
  readBeside(
    path: string,
    journal: string,
    bytesMax: number
  ): Buffer | undefined {
    // A FIFO opens at once. Another user may replace the file meanwhile: what is open is checked.
    const fd = openIfThere(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW);
    if (fd === undefined) return undefined;
    try {
      const stat = fs.fstatSync(fd);
      if (!stat.isFile() || stat.size > bytesMax)
        throw new Error("is not a copy of a journal's end");

      checkOwner(path, stat, fs.statSync(journal).uid);
      return fs.readFileSync(fd);
    } finally {
      fs.closeSync(fd);
    }
  },

  /**
   * Returns the paths of empty files in a journal's directory whose names have a form, but those
   * that another user may have put there.
   */
  listEmpty(journal: string, form: RegExp) {
    const directory = dirname(journal);
    const owner = fs.statSync(journal, { throwIfNoEntry: false })?.uid;
    return fs
      .readdirSync(directory)
      .map((name) => join(directory, name))
      .filter(
        (path) =>
          form.test(path) &&
          ifPossible(() => {
            const stat = fs.lstatSync(path);
            checkOwner(path, stat, owner);
            return stat.isFile() && stat.size === 0;
          })
      );
  },

  /** Creates an empty file for durable appends: removes what was there, and follows no link. */
  openBeside(path: string) {
    ifPossible(() => fs.unlinkSync(path));
    return openedFile(fs.openSync(path, durableFlags | O_EXCL, mode));
  },

  rename: fs.renameSync,

  remove: fs.unlinkSync,

  /** Makes the names in a file's directory durable. */
  async syncDirectory(path: string) {
    if (isWindows) return;
    const directory = openToRead(dirname(path));
    await directory.sync().finally(() => directory.close());
  }
};

/** Returns the path that an embedder gives. @throws TypeError unless it is one, or a `file:` URL */
export function pathOf(location: string | URL) {
  const path =
    typeof location === "string" ? location : fileURLToPath(location);
  if (path === "") throw new TypeError("path must not be empty");
  return path;
}

/** @throws Error unless the process may read and write a file, or create files in a directory */
export const checkAccess = (path: string) =>
  permitted(path, () =>
    fs.accessSync(path, fs.constants.R_OK | fs.constants.W_OK)
  );

/** Opens a file or a directory for reading only. */
export const openToRead = (path: string): JournalFile =>
  openedFile(fs.openSync(path, O_RDONLY));

/** Appends all bytes durably: writes the rest of a short write. */
export async function appendAll(file: JournalFile, bytes: Buffer) {
  for (let index = 0; index < bytes.length;) {
    const written = await file.append(bytes.subarray(index));
    if (written === 0) throw new Error("nothing was written, without an error");
    index += written;
  }
}

/**
 * Replaces a file atomically and durably: writes PATH.part, renames it, syncs the directory.
 *
 * The old file stays until then: it may be the only copy.
 */
export async function replaceFile(disk: Disk, path: string, bytes: Buffer) {
  const part = `${path}.part`;
  try {
    const file = disk.openBeside(part);
    await appendAll(file, bytes).finally(() => file.close());
    disk.rename(part, path);
  } catch (error) {
    // It may hold the last free blocks.
    ifPossible(() => disk.remove(part));
    throw error;
  }
  await disk.syncDirectory(path);
}

const write = promisify(fs.write);
const fdatasync = promisify(fs.fdatasync);
const fsync = promisify(fs.fsync);

const openedFile = (fd: number) => ({
  look: () => described(fs.fstatSync(fd, { bigint: true })),

  size: () => fs.fstatSync(fd).size,

  /** Reads exactly these bytes; fewer only if the file ends. */
  read(offset: number, length: number): Buffer {
    const bytes = Buffer.alloc(length);
    for (let index = 0; index < length;) {
      const got = fs.readSync(fd, bytes, index, length - index, offset + index);
      if (got === 0) return bytes.subarray(0, index);
      index += got;
    }
    return bytes;
  },

  /** Appends durably; resolves to how many bytes, fewer than given if the disk took no more. */
  async append(bytes: Buffer) {
    const position = isWindows ? fs.fstatSync(fd).size : null;
    const { bytesWritten } = await write(fd, bytes, 0, undefined, position);
    if (!isLinux) await fdatasync(fd);
    return bytesWritten;
  },

  truncate: (bytes: number) => fs.ftruncateSync(fd, bytes),

  /** Makes all of it durable, unless Node's permission model forbids it. It may take seconds. */
  sync: () =>
    fsync(fd).catch((error: unknown) => {
      if (!(isError(error) && "permission" in error)) throw error;
    }),

  close: () => fs.closeSync(fd)
});

/** Returns a descriptor; undefined if nothing is there. */
function openIfThere(path: string, flags: number) {
  try {
    return fs.openSync(path, flags);
  } catch (error) {
    if (codeOf(error) === "ENOENT") return undefined;
    throw error;
  }
}

/** Returns what a step returns. @throws its error, with owner and mode if the system denied it */
function permitted<T>(path: string, step: () => T): T {
  try {
    return step();
  } catch (error) {
    const stat =
      isDenied(error) && fs.statSync(path, { throwIfNoEntry: false });
    if (stat)
      error.message += `: owner ${stat.uid}, mode ${(stat.mode & 0o777).toString(8)}, this process is user ${userId()}`;
    throw error;
  }
}

const described = (stat: fs.BigIntStats) => ({
  /** Device and inode: a renamed file keeps them, and no other file has them meanwhile. */
  identity: `${stat.dev}-${stat.ino}`,
  inode: `${stat.ino}`,

  /** Inode, size and time of the last change: no program can set this time, so no copy has it. */
  state: `${stat.ino}-${stat.size}-${stat.ctimeNs}`,
  isFile: stat.isFile(),
  bytes: Number(stat.size),

  /** The number of its names; 0 if it is deleted. */
  links: Number(stat.nlink)
});

/**
 * @param owner who may have put it there, besides root, the directory's owner and the process's user
 * @throws Error if all users can put files into the directory, and another has put this there
 */
function checkOwner(path: string, { uid }: fs.Stats, owner?: number) {
  const directory = fs.statSync(dirname(path));
  const isOpenToAll = (directory.mode & 0o1002) === 0o1002;
  if (isOpenToAll && ![0, directory.uid, userId(), owner].includes(uid))
    throw new Error(`belongs to user ${uid}, in a directory open to all users`);
}

function resolveLinks(named: string): string {
  const absolute = resolve(named);
  const directory = fs.realpathSync.native(dirname(absolute));
  const path = join(directory, basename(absolute));
  const stat = fs.lstatSync(path, { throwIfNoEntry: false });
  if (!stat?.isSymbolicLink()) return path;
  checkOwner(path, stat);

  // Throws if links form a cycle.
  realDisk.look(path);
  return resolveLinks(resolve(dirname(path), fs.readlinkSync(path)));
}
