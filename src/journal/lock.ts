/**
 * The lock: who holds the journal. Unix sockets, which end with their process, kill -9 included.
 *
 * On Linux one socket is abstract: it excludes processes in the same network namespace, whichever
 * name of the file they open. The other one is beside the journal, FILE.lock-DEVICE-INODE-RANDOM:
 * it excludes processes in other namespaces, too.
 */
import * as fs from "node:fs";
import { connect, createServer } from "node:net";
import { platform } from "node:os";
import { dirname, join } from "node:path";
import { hasCode, ifPossible, messageOf } from "./error.ts";

/** Called with a warning for the operator. */
export type Warn = (message: string) => void;

export const isLinux = platform() === "linux";

/** The longest path that every system can listen on, in bytes: Node 20 truncates longer ones. */
const listenBytesMax = 103;

/** The longest path that can be probed, in bytes: Node 20 and 22 truncate longer ones. */
const probeBytesMax = 107;

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
 * @returns which other process has it, for a message; undefined if none
 * @throws Error if neither lock can be had, or if the file is mounted without its directory
 */
export async function takeLocks(
  path: string,
  identity: string,
  releases: (() => void)[],
  warn: Warn
) {
  if (isMountedAlone(path)) {
    throw new Error(
      "is mounted without its directory: mount the directory, for its lock and copies"
    );
  }

  // No name is used twice, so that anybody may remove a socket on which nobody listens.
  const own = `${path}.lock-${identity}-${randomName()}`;
  for (const name of [...abstractOf(identity), own]) {
    try {
      releases.push(await listenOn(name));
    } catch (error) {
      if (hasCode(error, "EADDRINUSE"))
        return `${holder}: "ss -xlp | grep plant-store-${identity}" shows which`;
      if (name === own && releases.length === 0) throw error;
      warn(
        `${path}: one of its two locks is missing, so another process may not see that it is ` +
          `in use: ${messageOf(error)}`
      );
    }
  }

  // A process that starts later finds our socket here, so at most one of two simultaneous starts
  // continues. Stale sockets of this journal go; those of other journals are left to their own
  // starts.
  for (const name of locksBeside(path, identity)) {
    if (name === own) continue;
    const found = await probe(name);
    if (found !== undefined)
      return `${holder}, maybe in another container: at ${name}, ${found}`;
    // It may be another user's, or gone already; a stale socket does no harm.
    ifPossible(() => fs.unlinkSync(name));
  }
  return undefined;
}

/** Whether a process has the file at a resolved path open, or may have it open. */
export async function isLocked(path: string, identity: string) {
  // The sockets in a directory that cannot be listed are unknown.
  const beside = ifPossible(() => locksBeside(path, identity)) ?? [];
  const found = await Promise.all(
    [...abstractOf(identity), ...beside].map(probe)
  );
  return found.some(Boolean);
}

/**
 * Removes a Unix socket on which nobody listens any more, and nothing else.
 *
 * @throws Error if a process may listen there
 */
export async function removeAbandoned(path: string) {
  const found = fs.lstatSync(path, { bigint: true, throwIfNoEntry: false });
  if (!found?.isSocket()) return;
  const listener = await probe(path);
  if (listener !== undefined)
    throw new Error(`something else is at ${path}: ${listener}`);

  // Another start may have replaced the abandoned socket by its own since the probe. So the socket
  // is moved aside, and that start gets its own back. One gap of microseconds remains: a process
  // that has bound its socket and does not listen yet refuses connections, too.
  const aside = `${path}.${randomName()}`;
  fs.renameSync(path, aside);
  const { ino, mtimeNs } = fs.lstatSync(aside, { bigint: true });
  const isSame = ino === found.ino && mtimeNs === found.mtimeNs;

  // Fails if a third process listens at the path by now.
  if (!isSame) fs.linkSync(aside, path);
  fs.unlinkSync(aside);
  if (!isSame)
    throw new Error(`another process has begun to listen at ${path}`);
}

/**
 * Finds out whether a process listens on a socket.
 *
 * Every error but two may hide a process: EACCES, EAGAIN (its backlog is full), EPROTOTYPE (it is
 * not a stream socket).
 *
 * @returns what was found, for a message; undefined if certainly nobody listens, as after kill -9
 */
export function probe(name: string): Promise<string | undefined> {
  return new Promise((resolve) => {
    if (!name.startsWith("\0") && Buffer.byteLength(name) > probeBytesMax) {
      return resolve(
        `a process may listen there: the path has more than ${probeBytesMax} bytes`
      );
    }
    const socket = connect(name, () => {
      socket.destroy();
      resolve("a process listens there");
    });
    socket.once("error", ({ code = "" }: NodeJS.ErrnoException) => {
      const isNobody = code === "ECONNREFUSED" || code === "ENOENT";
      resolve(isNobody ? undefined : `a process may listen there: ${code}`);
    });
  });
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

/**
 * Listens on a name. A socket gets its path as the last step, once it listens and every user who
 * can reach it can connect to it.
 *
 * @returns a function that stops listening
 * @throws Error the system's: EADDRINUSE if the name is taken
 */
function listenOn(name: string): Promise<() => void> {
  const isPath = !name.startsWith("\0");
  const path = isPath ? `${name}~` : name;
  return new Promise((resolve, reject) => {
    if (isPath && Buffer.byteLength(path) > listenBytesMax)
      throw new Error(`the path has more than ${listenBytesMax} bytes`);

    // A connection is all that a probe needs. A lock keeps no process alive.
    const server = createServer((socket) => socket.destroy())
      .unref()
      .on("error", reject);
    const release = () => {
      if (isPath) ifPossible(() => fs.unlinkSync(name));
      server.close();
    };

    // Otherwise a worker of node:cluster would share its primary's socket with other workers.
    server.listen({ path, exclusive: true, writableAll: isPath }, () => {
      try {
        if (isPath) fs.renameSync(path, name);
        resolve(release);
      } catch (error) {
        release();
        reject(error);
      }
    });
  });
}

/** Returns eight characters that no other name has. */
const randomName = () => Math.random().toString(36).slice(2, 10).padEnd(8, "0");

/** The file's abstract name, the same on every Node, on systems that have such names. */
export const abstractOf = (identity: string) =>
  isLinux ? [`\0plant-store-${identity}`.padEnd(abstractBytes, ".")] : [];

/**
 * The sockets in a journal's directory that lock it by any of its names, or once did. Asks lstat
 * what an entry is: Deno's directory entries do not know sockets.
 */
const locksBeside = (path: string, identity: string) =>
  fs
    .readdirSync(dirname(path))
    .filter((name) => /\.lock-(\d+-\d+)-\w{8}$/.exec(name)?.[1] === identity)
    .map((name) => join(dirname(path), name))
    .filter((name) =>
      fs.lstatSync(name, { throwIfNoEntry: false })?.isSocket()
    );
