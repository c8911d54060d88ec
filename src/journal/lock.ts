/**
 * The lock: which process has the journal. It ends with its process, kill -9 included.
 *
 * On Linux it is two Unix sockets. The abstract one excludes processes in the same network
 * namespace, whichever name of the file they open. The other one is beside the journal,
 * FILE.lock-DEVICE-INODE-RANDOM: it excludes processes in other namespaces, too.
 *
 * On macOS and the BSDs the journal itself is opened once more with O_EXLOCK. That is flock(2): it
 * disturbs no reader, and excludes every name of the file. On Windows the same flag keeps readers
 * out, so FILE.lock is opened with it. FILE.lock stays: another process may be opening it.
 */
import * as fs from "node:fs";
import { dirname, join } from "node:path";
import { isLinux, isWindows } from "../system.ts";
import { JournalError } from "./error.ts";
import { codeOf, ifPossible, messageOf } from "../failure.ts";
import { exclusiveNameOf, isExclusive, openExclusive } from "./exclusive.ts";
import { listenOn, mayListenOn, randomName } from "./sockets.ts";

/** Called with a warning for the operator. */
export type Warn = (message: string) => void;

/** Ends a lock. */
export type Release = () => void;

/** Two openings in one process look like those of two. */
const holder = "another process, or this one, has it open";

/**
 * The length of every abstract name, in bytes.
 *
 * Node 20 pads a shorter one with NULs, later versions do not: they would not exclude each other.
 */
const abstractBytes = 108;

/**
 * Locks a file for this process.
 *
 * @param identity device and inode, as `look` returns them
 * @param releases takes a function for each lock, which releases it
 * @param warn called if only one of the two locks can be had
 * @throws JournalError `locked` if another process has it
 * @throws Error if no lock can be had, or if the file is mounted without its directory
 */
export async function takeLocks(
  path: string,
  identity: string,
  releases: Release[],
  warn: Warn
) {
  if (!isLinux) return takeExclusive(path, identity, releases);
  if (isMountedAlone(path)) {
    throw new Error(
      "is mounted without its directory: mount the directory, for its lock and copies"
    );
  }

  // No name is used twice, so that anybody may remove a socket on which nobody listens.
  const own = `${path}.lock-${identity}-${randomName()}`;
  let isOneMissing = false;
  for (const name of [abstractOf(identity), own]) {
    try {
      releases.push(await listenOn(name));
    } catch (error) {
      if (codeOf(error) === "EADDRINUSE")
        throw locked(
          path,
          `: "ss -xlp | grep plant-store-${identity}" shows which`
        );
      if (isOneMissing) throw error;
      isOneMissing = true;
      warn(
        `${path}: one of its two locks is missing, so another process may not see that it is ` +
          `in use: ${messageOf(error)}`
      );
    }
  }

  // A process that starts later finds our socket here, so at most one of two simultaneous starts
  // continues. Stale sockets of other journals are left to their own starts.
  const stale = locksBeside(path, identity).filter((name) => name !== own);
  for (const name of stale) {
    if (await mayListenOn(name))
      throw locked(path, `, maybe in another container: at ${name}`);
  }

  // One may be another user's, or gone already.
  for (const name of stale) ifPossible(() => fs.unlinkSync(name));
}

const locked = (path: string, details = "") =>
  new JournalError("locked", path, holder + details);

/** Whether a process has the file at a resolved path open, or may have it open. */
export async function isLocked(path: string, identity: string) {
  if (!isLinux) return isExclusive(path);

  // The sockets in a directory that cannot be listed are unknown.
  const beside = ifPossible(() => locksBeside(path, identity)) ?? [];
  const names = [abstractOf(identity), ...beside];
  return (await Promise.all(names.map(mayListenOn))).some(Boolean);
}

/**
 * Whether the file is a mount of its own, as with `docker run -v FILE:FILE`.
 *
 * No other container then sees what stands beside it, and that is lost with this one. Returns
 * false if /proc cannot be read, as under --permission.
 */
function isMountedAlone(path: string) {
  const escaped = path.replace(
    /[ \t\n\\]/g,
    (character) => `\\${character.charCodeAt(0).toString(8).padStart(3, "0")}`
  );
  const mounts =
    ifPossible(() => fs.readFileSync("/proc/self/mountinfo", "utf8")) ?? "";
  return mounts.split("\n").some((mount) => mount.split(" ")[4] === escaped);
}

/** The file's abstract name, the same on every Node. */
export const abstractOf = (identity: string) =>
  `\0plant-store-${identity}`.padEnd(abstractBytes, ".");

/**
 * The sockets in a journal's directory that lock it by any of its names, or once did. Asks lstat
 * what an entry is: Deno's directory entries do not know sockets.
 */
const locksBeside = (path: string, identity: string) =>
  fs
    .readdirSync(dirname(path))
    .filter((name) => RegExp(`\\.lock-${identity}-\\w{8}$`).test(name))
    .map((name) => join(dirname(path), name))
    .filter((name) =>
      fs.lstatSync(name, { throwIfNoEntry: false })?.isSocket()
    );

/** Locks a file by a descriptor. */
function takeExclusive(path: string, identity: string, releases: Release[]) {
  const name = exclusiveNameOf(path);
  const fd = openExclusive(name, fs.constants.O_CREAT);
  if (fd === undefined) throw locked(path);
  releases.push(() => fs.closeSync(fd));

  // The journal may have been renamed since it was opened: its lock would be another file's.
  const { dev, ino } = fs.fstatSync(fd, { bigint: true });
  if (!isWindows && `${dev}-${ino}` !== identity)
    throw new Error("another file was put in its place");

  // A system, a runtime or a file system that ignores the flag would admit a second writer.
  if (!isExclusive(path))
    throw new Error(
      "cannot be locked: expected a system and a file system that obey UV_FS_O_EXLOCK"
    );
}
