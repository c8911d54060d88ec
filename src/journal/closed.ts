/**
 * Marks beside a journal: empty files whose names hold a state of it, so that they are never there
 * in part, can be left on a full disk, and belong to no copy and to no file that was written since.
 *
 *   FILE.closed-STATE     a process closed the file in this state: all of it is durable
 *   FILE.unflushed-STATE  a flush of the whole file failed in this state: some of it may be lost
 *
 * STATE is inode, size, and time of the last change. A process leaves the first mark as its last
 * step, once everything was written or truncated. An opening takes it away, under the lock, before
 * it writes. Only with this mark does an opening leave the file's end as it is:
 *
 * - The file has this state: its end is clean, or it is damaged. It is shorter: records are lost.
 * - Killed, failed, rotated, moved, copied, restored, or written by another program: no mark has
 *   the file's state. A mark that is lost, or that could not be left, costs a rewrite of the end.
 * - A mark that cannot be taken away is not used: the rewrite ends its state.
 * - No mark is synced. The power failed: what an opening reads is what the disk has. So a mark that
 *   comes back is true, and one that is missing costs a rewrite.
 *
 * The second mark exists because the system reports a failed flush once: the next one says that all
 * is durable. It stays until a person has copied the file again, and counts for every later state
 * of the same file, under any name in its directory.
 */
import { ifPossible } from "../failure.ts";
import type { Disk, JournalFile } from "./files.ts";

/** A journal. */
export interface Place {
  readonly disk: Disk;
  readonly path: string;
}

type Looked = Pick<JournalFile, "look">;

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

export type ClosedMark = NonNullable<ReturnType<typeof findClosedMark>>;

/** Returns the mark of a file; `isCurrent`: nothing has changed the file since. */
export function findClosedMark(place: Place, file: Looked) {
  const { inode, state } = file.look();
  const marks = closedMarks(place).filter((mark) => mark.inode === inode);
  const mark = marks.find((each) => each.state === state) ?? marks[0];
  return mark && { ...mark, isCurrent: mark.state === state };
}

/** Takes away the marks of all files that were closed at a path, as far as that is possible. */
export const takeClosedMarks = (place: Place) =>
  take(place, closedMarks(place));

/** Takes away the notes of a deleted file, whose inode a new file has. */
export const takeNotes = (place: Place, file: Looked) =>
  take(place, notesOf(place, file));

/** Notes that a flush of the whole file has failed. Returns what a person must do. */
export function noteUnflushed({ disk, path }: Place, file: Looked) {
  const note = ifPossible(() => {
    const name = `${path}.unflushed-${file.look().state}`;
    disk.openBeside(name).close();
    return name;
  });
  return note ? adviceWith(note) : `${advice}; no note of it could be left`;
}

/** @throws Error if a flush of the whole file has failed, whatever was written since */
export function checkFlushed(place: Place, file: Looked) {
  const [note] = notesOf(place, file);
  if (note) throw new Error(`a flush of it failed: ${adviceWith(note.path)}`);
}

const advice = "some of it may be in memory only: copy the file there again";
const adviceWith = (note: string) => `${advice}, then remove ${note}`;

function take({ disk }: Place, marks: ReturnType<typeof marksBeside>) {
  for (const { path } of marks) ifPossible(() => disk.remove(path));
}

const notesOf = (place: Place, file: Looked) =>
  marksBeside(place, "unflushed").filter(
    ({ inode }) => inode === file.look().inode
  );

const closedMarks = (place: Place) =>
  marksBeside(place, "closed").filter(
    ({ path, state }) => path === `${place.path}.closed-${state}`
  );

/** Returns the marks in a journal's directory: a person's files have other names. */
const marksBeside = ({ disk, path }: Place, kind: "closed" | "unflushed") => {
  const form = RegExp(`\\.${kind}-((\\d+)-(\\d+)-\\d+)$`);
  return disk.listEmpty(path, form).map((path) => {
    const [, state = "", inode = "", bytes] = form.exec(path) ?? [];
    return { path, state, inode, bytes: Number(bytes) };
  });
};
