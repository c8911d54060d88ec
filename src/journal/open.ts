/**
 * Opens a journal: locks it, reads its end, and repairs what a crash left.
 *
 * Reading comes first, and decides: what cannot be read is refused untouched. Every step of writing
 * may itself be killed: the next opening then finds what this one found, or the result of its work.
 * Nothing is truncated before a durable copy of it stands beside the journal.
 *
 * The end is rewritten because lines may stand in the page cache alone. A flush that failed marks
 * its pages clean: they are read, but no later flush writes them. Only a truncation lets them go
 * (ext4, measured). A process whose write fails truncates the file, unless it is killed before
 * that. Its successor cannot see this, so it rewrites every end, but that of a file with a mark
 * that a process has closed it. Readers thus see a file grow only, while its servers are stopped
 * and started.
 *
 * A file that was put there, as from a backup, may be in the page cache as a whole: every opening
 * flushes it.
 *
 * A file with several names is refused: FILE.rewrite may stand beside another one.
 */
import { ok as assert } from "node:assert";
import { randomUUID } from "node:crypto";
import { dirname } from "node:path";
import {
  checkFlushed,
  findClosedMark,
  noteUnflushed,
  takeClosedMarks,
  takeNotes,
  type Place
} from "./closed.ts";
import { asJournalError, attempt, JournalError } from "./error.ts";
import { ifPossible, messageOf } from "../failure.ts";
import {
  appendAll,
  checkAccess,
  realDisk,
  replaceFile,
  type JournalFile
} from "./files.ts";
import type { KeyWindow } from "./keys.ts";
import type { Release, Warn } from "./lock.ts";
import { fillChecksums, headerText } from "./record.ts";
import { advice } from "./recover.ts";
import { copyBytesMax, copyPath, encodeCopy, planOpening } from "./rewrite.ts";

/** What an opening needs. It resolves the links of `path`, and adds the file to `keys`. */
export interface OpenOptions extends Place {
  readonly warn: Warn;
  readonly keys: KeyWindow | undefined;
}

/**
 * A locked journal whose end is clean and durable. `seq` is the last record's, or 0; `release`
 * closes and unlocks the file.
 */
export type OpenFile = Awaited<ReturnType<typeof openFile>>;

/**
 * Opens the file behind a path; creates it if there is none. Adds its keys to the window.
 *
 * @throws JournalError `unreadable` for what cannot be read, `failed` for most else
 */
export async function openFile(options: OpenOptions) {
  const { disk, warn } = options;
  const { path, before } = findFile(options);
  const place = { ...options, path };
  const releases: Release[] = [];

  // The lock goes before the descriptor: a deleted file's inode is free once it is closed, and a new
  // file must not meet a lock that is named by it. An error here loses nothing: acknowledged records
  // are durable, and the descriptor is closed all the same.
  const release = () => {
    for (const each of releases.toReversed()) ifPossible(each);
  };
  try {
    // A new file may get the inode of one that was deleted.
    if (!before) attempt("failed", path, () => takeClosedMarks(place));
    const file = attempt(before ? "unreadable" : "failed", path, () =>
      disk.open(path)
    );
    releases.push(() => file.close());

    const { identity, links } = file.look();
    await disk.lock(path, identity, releases, warn);
    if (!before) attempt("failed", path, () => takeNotes(place, file));
    if (links > 1)
      throw new Error(
        `the file has ${links} names: remove the others first (a hard link is no copy)`
      );
    const plan = attempt("unreadable", path, () => planRepair(place, file));
    await repair(place, file, plan);
    const { seq, uuid } = plan;
    return { path, identity, file, release, bytes: file.size(), seq, uuid };
  } catch (error) {
    release();
    throw asJournalError("failed", path, error);
  }
}

/**
 * Finds the file behind a path; `before` is undefined if there is none.
 *
 * @throws JournalError also if it is not a regular file
 */
export function findFile({ disk, path: link }: Place) {
  const path = attempt("failed", link, () => disk.resolve(link));

  // Node reads bytes that are not UTF-8 as U+FFFD, and writes a lone surrogate as U+FFFD: it would
  // open another file.
  if (path.toWellFormed().includes("\ufffd"))
    throw new JournalError("failed", path, "expected a path in UTF-8");
  const before = attempt("unreadable", path, () => disk.look(path));
  if (before?.isFile === false)
    throw new JournalError("unreadable", link, "is not a regular file");
  return { path, before };
}

/**
 * Checks what can be known of a journal without opening it: its path, and whether the process may
 * open or create it.
 *
 * @throws JournalError as `openFile` does
 */
export function checkJournal(link: string) {
  const { path, before } = findFile({ disk: realDisk, path: link });
  attempt("failed", path, () => checkAccess(before ? path : dirname(path)));
}

type RepairPlan = ReturnType<typeof planRepair>;

/**
 * Reads the end of a file, and decides what to write. Adds the keys of what will be there.
 *
 * @returns also the last record's number and the header's UUID once the plan is carried out
 * @throws JournalError if the end is damaged, or what FILE.rewrite has of it
 * @throws Error if a flush of the file has failed
 */
function planRepair(place: OpenOptions, file: JournalFile) {
  const { path, keys } = place;
  checkFlushed(place, file);
  const copyBytes = readCopy(place);
  const mark = findClosedMark(place, file);
  const size = file.size();
  const { copy, completed, left, verdict } = planOpening(
    { ...file, size: () => size },
    copyBytes,
    mark
  );
  checkSize(path, file, size);

  if (verdict.kind === "damaged") {
    throw new JournalError(
      "damaged",
      path,
      `${verdict.reason}; the file is untouched, and verify shows more: ${advice}`,
      verdict.offset
    );
  }
  if (verdict.kind === "new")
    return { kind: "new", seq: 0, uuid: randomUUID(), size } as const;
  const { seq, uuid, certified, end } = verdict;
  keys?.addFile(left);

  // Lines that no line certifies are rewritten, and a pending rewrite is finished. A crash tears
  // only what no line certifies, so all of these lines are before the torn end.
  const offset =
    copy.kind === "pending" ? Math.min(copy.offset, certified) : certified;
  assert(offset <= end, "a rewrite begins before the torn end");
  const bytes = left.read(offset, left.size() - offset);
  const rewrite = { file: uuid, offset, size, bytes };
  const torn = {
    offset: end,
    bytes: completed.read(end, completed.size() - end)
  };
  const closed = mark?.isCurrent && copy.kind === "none" ? mark : undefined;
  return { kind: "rewrite", seq, uuid, size, rewrite, torn, closed } as const;
}

/**
 * Reads the copy beside a journal; returns undefined if there is none.
 *
 * @throws JournalError `unreadable`
 */
export function readCopy({ disk, path }: Place): Buffer | undefined {
  const name = copyPath(path);
  return attempt("unreadable", name, () =>
    disk.readBeside(name, path, copyBytesMax)
  );
}

/** Writes what was planned: leaves a file that ends with its last record, durably. */
async function repair(place: OpenOptions, file: JournalFile, plan: RepairPlan) {
  const { disk, path, warn } = place;
  if (plan.kind === "new") {
    // Tries whether a copy can be made, although there is nothing to copy: the directory of a
    // writable file may not be writable. This also syncs the directory before the first response.
    await replaceFile(disk, copyPath(path), Buffer.alloc(0));
    disk.remove(copyPath(path));
    takeClosedMarks(place);
    checkSize(path, file, plan.size);
    file.truncate(0);
    const header = headerText(plan.uuid, new Date().toISOString());
    return appendAll(file, fillChecksums(header));
  }
  const { rewrite, torn, closed } = plan;
  await file.sync().catch((cause: unknown) => {
    // Nothing has changed the file since all of it was durable: the next start tries again.
    if (closed) throw cause;
    const message = `${messageOf(cause)}: ${noteUnflushed(place, file)}`;
    throw new Error(message, { cause });
  });
  await disk.syncDirectory(path);
  checkSize(path, file, plan.size);
  takeClosedMarks(place);
  if (closed && !disk.look(closed.path)) return;

  // Before the torn end, so that a start that finds no space has copied that once.
  await replaceFile(disk, copyPath(path), encodeCopy(rewrite));
  const { offset, bytes } = torn;
  if (bytes.length > 0) {
    // Never replaces an earlier copy.
    let name = `${path}.torn-${offset}`;
    if (disk.look(name)) name += `-${randomUUID()}`;
    await replaceFile(disk, name, bytes);
    warn(
      `${path}: at offset ${offset}, a torn end of ${bytes.length} bytes was moved to ${name}`
    );
  }

  // Rewrites the end durably, as the head of rewrite.ts describes.
  checkSize(path, file, plan.size);
  file.truncate(rewrite.offset);
  await appendAll(file, rewrite.bytes);
  disk.remove(copyPath(path));
}

/** Checks that no other process has written to a file: that would not be a torn end. */
function checkSize(path: string, file: JournalFile, expected: number) {
  if (file.size() !== expected)
    throw new JournalError("locked", path, "another process writes to it");
}
