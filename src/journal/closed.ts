/**
 * Marks beside a journal: empty files whose names hold a state of it, so that they are never there
 * in part, can be left on a full disk, and belong to no copy and to no file that was written since.
 *
 *   FILE.closed-STATE     a process closed the file in this state: all of it is durable
 *   FILE.unflushed-STATE  a flush of the whole file failed in this state: some of it may be lost
 *
 * STATE is inode, size, and time of the last write. A process leaves the first mark as its last
 * step, once everything was written or truncated. An opening takes it away, under the lock, before
 * it writes. Only with this mark does an opening leave the file's end as it is:
 *
 * - Killed, failed, rotated, moved, copied, restored, or written by another program: no mark has
 *   the file's state. A mark that is lost, or that could not be left, costs a rewrite of the end.
 * - A mark that cannot be taken away is not used: the rewrite ends its state.
 * - No mark is synced. The power failed: what an opening reads is what the disk has. So a mark that
 *   comes back is true, and one that is missing costs a rewrite.
 *
 * The second mark exists because the system reports a failed flush once: the next one says that all
 * is durable. It stays until a person has copied the file again, and counts for every later state
 * of the same file.
 */
import { ifPossible } from "../failure.ts";
import type { Disk, JournalFile } from "./files.ts";

/** Marks a file as closed, if it is where and as long as its process left it. */
export const markClosed = (
  disk: Disk,
  path: string,
  { identity, bytes }: { readonly identity: string; readonly bytes: number }
) =>
  ifPossible(() => {
    const found = disk.look(path);
    if (found?.identity === identity && found.bytes === bytes)
      disk.openBeside(`${path}.closed-${found.state}`).close();
  });

/**
 * Takes away the mark of a closed file, and those of files that were at this path before.
 *
 * @returns whether the file was closed, and is as it was then
 */
export function takeClosedMark(disk: Disk, path: string, file: JournalFile) {
  const own = `${path}.closed-${file.look().state}`;
  const taken = disk.listBeside(path, ".closed-").filter((mark) =>
    ifPossible(() => {
      // Throws if another user may have left it.
      disk.readBeside(mark, path, 0);
      disk.remove(mark);
      return true;
    })
  );
  return taken.includes(own);
}

/** Notes that a flush of the whole file has failed. */
export const markUnflushed = (disk: Disk, path: string, file: JournalFile) =>
  ifPossible(() =>
    disk.openBeside(`${path}.unflushed-${file.look().state}`).close()
  );

/** @throws Error if a flush of the whole file has failed, whatever was written since */
export function checkFlushed(disk: Disk, path: string, file: JournalFile) {
  const [note] = disk.listBeside(path, `.unflushed-${file.look().inode}-`);
  if (note !== undefined)
    throw new Error(
      "a flush of it failed, so some of it may be in memory only: " +
        `copy the file there again, then remove ${note}`
    );
}
