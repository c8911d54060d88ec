/** The only file that touches the file system for the journal.
 *
 * On Linux every write is one system call for data and flush (O_DSYNC), which Node's permission
 * model does not refuse, as it does fsync and fdatasync. Elsewhere a write is followed by
 * fdatasync.
 */
import * as fs from "node:fs";
import { platform } from "node:os";
import { basename, dirname, join, resolve } from "node:path";
import { abstractName, hold, occupantOf } from "./lock.ts";

const { O_APPEND, O_CREAT, O_DSYNC, O_EXCL, O_RDONLY, O_RDWR } = fs.constants;
const isLinux = platform() === "linux";
const durably = O_RDWR | O_APPEND | O_CREAT | (isLinux ? O_DSYNC : 0);

/** Of the journal, and of what stands beside it, for that holds the same plants; less the umask. */
const mode = 0o640;

/** What the journal needs of a disk; tests put another in its place. */
export type Disk = typeof realDisk;

export type JournalFile = ReturnType<typeof realFile>;

export type Warn = (message: string) => void;

export const realDisk = {
  /** The absolute path behind symbolic links; a dangling one leads to what it names. */
  resolve: (path: string): string => resolveLinks(resolve(path), 40),

  /** What is at a path, or undefined where nothing is. */
  look(path: string): ReturnType<typeof seen> | undefined {
    const stat = fs.statSync(path, { bigint: true, throwIfNoEntry: false });
    return stat && seen(stat);
  },

  /** Whether a file can have this path: no name in it, nor the whole, is too long. */
  canName: (path: string): boolean =>
    unlessTooLong(
      () => fs.lstatSync(path, { throwIfNoEntry: false }) ?? true
    ) !== undefined,

  /** Opens for durable appends, and makes the file where there is none. */
  open: (path: string): JournalFile =>
    realFile(fs.openSync(path, durably, mode)),

  /**
   * Takes the locks of a file for this process, into `held`; the result: who else has it.
   *
   * On Linux an abstract socket, under any of the file's names in one network namespace; and one
   * beside it, between those. Where only one of them can be, `warn` is told.
   *
   * @throws Error where neither can be, or where the file is mounted without its folder
   */
  lock: takeLocks,

  /**
   * The bytes of a file beside the journal; undefined where nothing is, `other` where that is no
   * file, or a longer one.
   *
   * @throws Error where a stranger may have put it there
   */
  readBeside(
    path: string,
    journal: string,
    bytesMax: number
  ): Buffer | "other" | undefined {
    const stat = unlessTooLong(() =>
      fs.statSync(path, { throwIfNoEntry: false })
    );
    if (!stat) return undefined;
    if (!stat.isFile() || stat.size > bytesMax) return "other";

    const fd = fs.openSync(path, O_RDONLY);
    try {
      const { uid } = fs.fstatSync(fd);
      const folder = fs.statSync(dirname(path));

      // In a sticky folder, as /tmp, everybody can put a copy there that we would build upon.
      const isSticky = (folder.mode & 0o1000) !== 0;
      if (
        isSticky &&
        ![0, folder.uid, fs.statSync(journal).uid].includes(uid)
      ) {
        throw new Error(
          `belongs to user ${uid}, who owns neither the journal nor its folder`
        );
      }
      return fs.readFileSync(fd);
    } finally {
      fs.closeSync(fd);
    }
  },

  /** Opens a fresh one for durable appends: what was there goes, and no link is followed. */
  openBeside(path: string): JournalFile {
    fs.rmSync(path, { force: true });
    return realFile(fs.openSync(path, durably | O_EXCL, mode));
  },

  rename: (from: string, to: string): void => fs.renameSync(from, to),

  remove: (path: string): void => fs.unlinkSync(path),

  /** Makes the names in a file's directory durable; where that is not permitted, it can't be. */
  syncDirectory(path: string): void {
    const fd = fs.openSync(dirname(path), O_RDONLY);
    try {
      fs.fsyncSync(fd);
    } catch (error) {
      if (!(error instanceof Error && "permission" in error)) throw error;
    } finally {
      fs.closeSync(fd);
    }
  }
};

export const openToRead = (path: string): JournalFile =>
  realFile(fs.openSync(path, O_RDONLY));

/** Another name for a file; fails where there is one already, which `rename` would replace. */
export const link = fs.linkSync;

/** Appends all, durably: the rest of a short write is written. */
export async function appendAll(
  file: JournalFile,
  bytes: Buffer
): Promise<void> {
  for (let index = 0; index < bytes.length;) {
    const written = await file.append(bytes.subarray(index));
    if (written === 0)
      throw new Error("nothing was written, and no error told");
    index += written;
  }
}

/** Whether a process holds the file, or may hold it. */
export async function isLocked(
  path: string,
  identity: string
): Promise<boolean> {
  // Of a folder that can't be listed the sockets are not known.
  const beside = ifPossible(() => locksBeside(realDisk.resolve(path))) ?? [];
  const names = [
    ...abstractOf(identity),
    ...beside.filter((name) => isLockOf(name, identity))
  ];
  return (await Promise.all(names.map(occupantOf))).some(
    (occupant) => occupant !== undefined
  );
}

/**
 * Removes a Unix socket that no process listens on any more, and nothing else.
 *
 * Moves the socket aside before it removes it: another start may have replaced the abandoned
 * socket by its own since the probe, and then gets it back. One gap remains, of microseconds: a
 * process that has bound its socket, and does not listen yet, refuses connections too.
 *
 * @throws Error where a process listens, or may listen
 */
export async function removeAbandoned(path: string): Promise<void> {
  const found = fs.lstatSync(path, { bigint: true, throwIfNoEntry: false });
  if (found?.isSocket() !== true) return;
  const occupant = await occupantOf(path);
  if (occupant !== undefined)
    throw new Error(`something else is at ${path}: ${occupant}`);

  const aside = `${path}.${Math.random().toString(36).slice(2, 10)}`;
  fs.renameSync(path, aside);
  const { ino, mtimeNs } = fs.lstatSync(aside, { bigint: true });
  const isSame = ino === found.ino && mtimeNs === found.mtimeNs;
  // `link` fails where a third process listens at the path by now.
  if (!isSame) fs.linkSync(aside, path);
  fs.unlinkSync(aside);
  if (!isSame)
    throw new Error(`another process has begun to listen at ${path}`);
}

/** What a step gives; undefined where it fails, and that is as good. */
export function ifPossible<T>(step: () => T): T | undefined {
  try {
    return step();
  } catch {
    return undefined;
  }
}

const realFile = (fd: number) => ({
  look: () => seen(fs.fstatSync(fd, { bigint: true })),

  size: () => fs.fstatSync(fd).size,

  /** Exactly these bytes; fewer only where the file ends. */
  read(offset: number, length: number): Buffer {
    const bytes = Buffer.alloc(length);
    for (let index = 0; index < length;) {
      const got = fs.readSync(fd, bytes, index, length - index, offset + index);
      if (got === 0) return bytes.subarray(0, index);
      index += got;
    }
    return bytes;
  },

  /** Appends durably; how many bytes: fewer than given where the disk took no more. */
  append: (bytes: Buffer) =>
    new Promise<number>((resolve, reject) => {
      fs.write(fd, bytes, 0, bytes.length, null, (error, written) => {
        if (error) reject(error);
        else if (isLinux) resolve(written);
        else
          fs.fdatasync(fd, (failure) =>
            failure ? reject(failure) : resolve(written)
          );
      });
    }),

  cut: (bytes: number): void => fs.ftruncateSync(fd, bytes),

  close: (): void => fs.closeSync(fd)
});

/** What is known of a file. */
const seen = (stat: fs.BigIntStats) => ({
  /** Device and inode: what a file keeps when it is renamed, and no other has meanwhile. */
  identity: `${stat.dev}-${stat.ino}`,
  isFile: stat.isFile(),
  bytes: Number(stat.size),
  /** How many names it has; 0: it is deleted. */
  links: Number(stat.nlink)
});

/** Returns what a step returns; undefined if a path is too long for any file to be there. */
function unlessTooLong<T>(step: () => T): T | undefined {
  try {
    return step();
  } catch (error) {
    if (
      error instanceof Error &&
      "code" in error &&
      error.code === "ENAMETOOLONG"
    )
      return undefined;
    throw error;
  }
}

function resolveLinks(absolute: string, hopsMax: number): string {
  const here = join(
    fs.realpathSync.native(dirname(absolute)),
    basename(absolute)
  );
  const stat = unlessTooLong(() =>
    fs.lstatSync(here, { throwIfNoEntry: false })
  );
  if (stat?.isSymbolicLink() !== true) return here;
  if (hopsMax === 0) throw new Error("too many symbolic links");
  return resolveLinks(
    resolve(dirname(here), fs.readlinkSync(here)),
    hopsMax - 1
  );
}

async function takeLocks(
  path: string,
  identity: string,
  held: (() => void)[],
  warn: Warn
) {
  if (isMountedAlone(path)) {
    throw new Error(
      "is mounted without its folder: mount the folder, for its lock and copies"
    );
  }

  // No name is used twice: a socket that is abandoned is so for ever, and anybody may remove it.
  const random = Math.random().toString(36).slice(2, 10).padEnd(8, "0");
  const own = `${path}.lock-${identity}-${random}`;
  for (const name of [...abstractOf(identity), own]) {
    try {
      if (name === own) await holdBeside(own, held);
      else held.push(await hold(name));
    } catch (error) {
      if (
        error instanceof Error &&
        "code" in error &&
        error.code === "EADDRINUSE"
      ) {
        return `another process has it open: "ss -xlp | grep plant-store-${identity}" shows which`;
      }
      if (name === own && held.length === 0) throw error;
      const reason = error instanceof Error ? error.message : error;
      warn(
        `${path}: one of its two locks can't be held, so another process may not see that it is ` +
          `in use: ${reason}`
      );
    }
  }

  // Who takes the lock later than we did finds ours here: of two at once, one at most goes on.
  // A lock that nobody holds goes. Where it is another journal's that is here, another kernel may
  // hold it, which nobody can ask: that is for the start of that journal.
  for (const name of locksBeside(path).filter((each) => each !== own)) {
    const occupant = await occupantOf(name);
    if (occupant === undefined) {
      // It may be another user's, or gone, and stands in nobody's way.
      if (isLockOf(name, identity) || !hasJournal(name))
        ifPossible(() => fs.unlinkSync(name));
    } else if (isLockOf(name, identity)) {
      return `another process has it open, maybe in another container: at ${name}, ${occupant}`;
    }
  }
  return undefined;
}

/**
 * Whether the file is a mount of its own, as of `docker run -v FILE:FILE`.
 *
 * What is put beside it then is seen by no other container, and goes with this one. Unknown where
 * /proc is not readable, as under --permission.
 */
function isMountedAlone(path: string): boolean {
  const escaped = path.replace(
    /[ \t\n\\]/g,
    (character) => `\\${character.charCodeAt(0).toString(8).padStart(3, "0")}`
  );
  const mounts =
    ifPossible(() => fs.readFileSync("/proc/self/mountinfo", "utf8")) ?? "";
  return mounts.split("\n").some((mount) => mount.split(" ")[4] === escaped);
}

/** How a name ends that nobody looks at: a kill -9 within an instant may leave one. */
const unfinished = "~";

/** Holds a socket under a name that it gets only when all who can reach it can connect to it. */
async function holdBeside(name: string, held: (() => void)[]): Promise<void> {
  const release = await hold(name + unfinished);
  try {
    fs.renameSync(name + unfinished, name);
  } catch (error) {
    release();
    throw error;
  }
  held.push(() => ifPossible(() => fs.unlinkSync(name)), release);
}

/** The file's abstract name, where there are such names. */
const abstractOf = (identity: string) =>
  isLinux ? [abstractName(`plant-store-${identity}`)] : [];

/** The sockets in a journal's folder that hold one, or held it until a kill -9. */
const locksBeside = (path: string): readonly string[] =>
  entriesBeside(path)
    .filter(
      (entry) =>
        entry.isSocket() && /\.lock-\d+-\d+(?:-\w{8})?$/.test(entry.name)
    )
    .map(({ name }) => join(dirname(path), name));

/** Whether the file that a lock is for is in its folder, under whatever name. */
const hasJournal = (lock: string): boolean =>
  entriesBeside(lock)
    .filter((entry) => entry.isFile())
    .map(({ name }) => realDisk.look(join(dirname(lock), name)))
    .some((file) => file && isLockOf(lock, file.identity));

const entriesBeside = (path: string) =>
  fs.readdirSync(dirname(path), { withFileTypes: true });

/** Whether a lock is this file's, whatever its name was; those of old releases end with that. */
const isLockOf = (lock: string, identity: string) =>
  `${lock}-`.includes(`.lock-${identity}-`);
