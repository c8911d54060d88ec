/**
 * Opens a journal: locks it, reads its end, and repairs what a crash left.
 *
 * Reading comes first, and decides: what cannot be read is refused untouched. Every step of writing
 * may itself be killed: the next opening then finds what this one found, or the result of its work.
 * Nothing is truncated before a durable copy of it stands beside the journal.
 *
 * The end is rewritten because lines may stand in the page cache alone. A flush that failed marks
 * its pages clean: they are read, but no later flush writes them. Only a truncation lets them go
 * (ext4, measured). A process truncates after such a flush, unless it dies first. The lock says it:
 *
 * - Closed, also after a rotation: the lock is gone. All was written or truncated, and nothing is
 *   truncated now, so that readers see the file grow only.
 * - Killed, exited without closing, a worker that was terminated, or a write that failed for good:
 *   the socket beside the file stays. It is removed once the end is rewritten, so a kill meanwhile
 *   leaves it, too.
 * - The power failed: what is read now is what the disk has, whether the socket is there or not.
 * - Renamed since: the socket is known by the file's identity. Only if the file was also moved to
 *   another directory after a kill, it counts as closed.
 * - Several names: the lock may stand beside another one, so the file never counts as closed.
 * - A copy that was put there, as from a backup: it has no lock. It may be in the page cache alone,
 *   so every opening flushes the whole file.
 */
import { randomUUID } from "node:crypto";
import { basename } from "node:path";
import { asJournalError, attempt, ifPossible, JournalError } from "./error.ts";
import {
  appendAll,
  replaceFile,
  type Disk,
  type JournalFile
} from "./files.ts";
import type { KeyWindow } from "./keys.ts";
import { checkSystem, type FileEnd, type Release, type Warn } from "./lock.ts";
import { fillChecksums, headerText } from "./record.ts";
import {
  checkSize,
  copyPath,
  planOpening,
  readCopy,
  rewriteEnd,
  withEnd
} from "./rewrite.ts";

/** What an opening needs. It resolves the links of `path`, and adds the file to `keys`. */
export interface OpenOptions {
  readonly disk: Disk;
  readonly path: string;
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
  const { disk, path: link, warn } = options;
  const path = attempt("failed", link, () => disk.resolve(link));
  const releases: Release[] = [];

  // An error here loses nothing: acknowledged records are durable, and the descriptor is closed all
  // the same.
  const release: Release = (end) => {
    for (const each of releases) ifPossible(() => each(end));
  };
  let end: FileEnd = "durable";
  try {
    checkPath(path);
    const before = attempt("unreadable", path, () => disk.look(path));
    if (before?.isFile === false)
      throw new JournalError("unreadable", path, "is not a regular file");
    const file = attempt(before ? "unreadable" : "failed", path, () =>
      disk.open(path)
    );
    releases.push(() => file.close());

    const { identity, links } = file.look();
    const lock = await disk.lock(path, identity, releases, warn);
    const isClosed = lock.isClosed && links === 1;
    const plan = attempt("unreadable", path, () =>
      planRepair(options, path, file, isClosed)
    );
    end = "unknown";
    try {
      await repair(options, path, file, plan);
    } catch (error) {
      // An empty file that stays keeps logrotate's notifempty from ever rotating again. Its lock
      // goes with it: else each start on a full disk would leave one.
      const isNew = !before && plan.kind === "new";
      if (isNew && isRemoved(disk, path, identity)) end = "durable";
      throw error;
    }
    lock.removeStale();
    const { seq, uuid } = plan;
    return { path, identity, file, release, bytes: file.size(), seq, uuid };
  } catch (error) {
    release(end);
    throw asJournalError("failed", path, error);
  }
}

/** Removes a file, unless its path leads to another one by now. Returns whether it did. */
const isRemoved = (disk: Disk, path: string, identity: string) =>
  ifPossible(() => {
    if (disk.look(path)?.identity !== identity) return false;
    disk.remove(path);
    return true;
  });

/**
 * The longest name, in bytes: file systems allow 255, and up to 68 follow in a name beside it, as
 * in FILE.torn-OFFSET-UUID.part.
 */
const nameBytesMax = 187;

/** @throws Error before anything is created, if the file cannot be locked or have its names */
function checkPath(path: string) {
  checkSystem();

  // Node reads bytes that are not UTF-8 as U+FFFD, and writes a lone surrogate as U+FFFD: it
  // would open another file.
  if (path.toWellFormed().includes("\ufffd"))
    throw new Error("the path is not valid UTF-8: rename the file");
  const bytes = Buffer.byteLength(basename(path));
  if (bytes > nameBytesMax)
    throw new Error(
      `the name has ${bytes} bytes: expected at most ${nameBytesMax}`
    );
}

type Plan = ReturnType<typeof planRepair>;

/**
 * Reads the end of a file, and decides what to write. Adds the keys of what will be there.
 *
 * @returns also the last record's number and the header's UUID once the plan is carried out
 * @throws JournalError if the end is damaged, or what FILE.rewrite has of it
 */
function planRepair(
  { disk, keys }: OpenOptions,
  path: string,
  file: JournalFile,
  isClosed: boolean
) {
  const copyBytes = readCopy(disk, path);
  const size = file.size();
  const { copy, completed, verdict } = planOpening(
    { ...file, size: () => size },
    copyBytes
  );
  checkSize(path, file, size);

  if (verdict.kind === "damaged") {
    throw new JournalError(
      "damaged",
      path,
      `${verdict.reason}; the file is untouched; "verify ${path}" shows every damaged spot`,
      verdict.offset
    );
  }
  if (verdict.kind === "new")
    return { kind: "new", seq: 0, uuid: randomUUID(), size } as const;
  const { seq, uuid } = verdict;
  if (isClosed && verdict.kind === "clean" && copy.kind === "none") {
    keys?.addFile(completed);
    return { kind: "clean", seq, uuid } as const;
  }

  // Lines that no line certifies are rewritten, and a pending rewrite is finished.
  const offset = Math.min(
    copy.kind === "pending" ? copy.offset : size,
    verdict.certified
  );
  const tail = completed.read(offset, completed.size() - offset);
  const lf = Buffer.from(verdict.kind === "unterminated" ? "\n" : "");
  const bytes = Buffer.concat([tail.subarray(0, verdict.end - offset), lf]);
  const rewrite = { file: uuid, offset, size, bytes };
  keys?.addFile(withEnd(completed, rewrite));
  const torn = {
    offset: verdict.end,
    bytes: tail.subarray(verdict.end - offset)
  };
  return { kind: "rewrite", seq, uuid, rewrite, torn } as const;
}

/** Writes what was planned: leaves a file that ends with its last record, durably. */
async function repair(
  { disk, warn }: OpenOptions,
  path: string,
  file: JournalFile,
  plan: Plan
) {
  if (plan.kind === "new") {
    // There is nothing to keep, but that a copy can be made is tried now: an empty file may be
    // writable, its directory not. The directory is synced with it, before the first response.
    await replaceFile(disk, copyPath(path), Buffer.alloc(0));
    disk.remove(copyPath(path));
    checkSize(path, file, plan.size);
    file.truncate(0);
    const header = headerText(plan.uuid, new Date().toISOString());
    return appendAll(file, fillChecksums(header));
  }
  file.sync();
  disk.syncDirectory(path);
  if (plan.kind === "clean") return;

  const { rewrite, torn } = plan;
  const { offset, bytes } = torn;
  if (bytes.length > 0) {
    // Replaces no other copy.
    let name = `${path}.torn-${offset}`;
    if (disk.look(name)) name += `-${randomUUID()}`;
    await replaceFile(disk, name, bytes);
    warn(
      `${path}: at offset ${offset}, a torn end of ${bytes.length} bytes was moved to ${name}`
    );
  }
  await rewriteEnd(disk, path, file, rewrite);
}
