/**
 * Opens a journal: locks it, examines its end, and repairs what a crash left.
 *
 * Every step may itself be killed: the next opening then finds what this one found, or the result
 * of its work. Nothing is truncated before a durable copy of it stands beside the journal.
 */
import { randomUUID } from "node:crypto";
import { basename } from "node:path";
import { attempt, ifPossible, JournalError } from "./error.ts";
import {
  appendAll,
  replaceFile,
  type Disk,
  type JournalFile
} from "./files.ts";
import type { KeyWindow } from "./keys.ts";
import { checkSystem, type Warn } from "./lock.ts";
import { fillChecksums, headerText } from "./record.ts";
import {
  checkSize,
  copyPath,
  planOpening,
  readCopy,
  rewriteEnd,
  withEnd
} from "./rewrite.ts";

/** What an opening needs. Each one resolves the links of `path`, and adds the file to `keys`. */
export interface Place {
  readonly disk: Disk;
  readonly path: string;
  readonly warn: Warn;
  readonly keys: KeyWindow;
}

/**
 * A locked journal whose end is clean and durable. `seq` is the last record's, or 0; `release`
 * closes and unlocks the file.
 */
export type OpenFile = Awaited<ReturnType<typeof openFile>>;

/**
 * Opens the file behind a path; creates it if there is none. Adds its keys to the window.
 *
 * @throws JournalError
 */
export async function openFile(place: Place) {
  const { disk, path: given, warn } = place;
  const path = attempt("failed", given, () => disk.resolve(given));
  attempt("failed", path, checkSystem);
  attempt("failed", path, () => checkName(path));
  const before = attempt("unreadable", path, () => disk.look(path));
  if (before?.isFile === false)
    throw new JournalError("unreadable", path, "is not a regular file");

  const file = attempt(before ? "unreadable" : "failed", path, () =>
    disk.open(path)
  );
  const releases: (() => void)[] = [];

  // An error here loses nothing: acknowledged records are durable, and the descriptor is closed all
  // the same.
  const release = () => {
    ifPossible(() => file.close());
    for (const each of releases) each();
  };
  try {
    const { identity } = file.look();
    const other = await disk.lock(path, identity, releases, warn);
    if (other !== undefined) throw new JournalError("locked", path, other);

    const found = await repair(place, path, file);
    return { path, identity, file, release, bytes: file.size(), ...found };
  } catch (error) {
    release();
    throw error instanceof JournalError
      ? error
      : new JournalError("failed", path, error);
  }
}

/**
 * The longest name, in bytes: file systems allow 255, and up to 68 follow in a name beside it, as
 * in FILE.torn-OFFSET-UUID.part.
 */
const nameBytesMax = 187;

/** @throws Error before anything is created, if the file cannot have its names */
function checkName(path: string) {
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

/**
 * Leaves a file that ends with its last record, durably; returns that record's number and the
 * header's UUID.
 *
 * @throws JournalError if the end is damaged, or what FILE.rewrite has of it
 */
async function repair(
  { disk, warn, keys }: Place,
  path: string,
  file: JournalFile
) {
  const found = readCopy(disk, path);
  const size = attempt("unreadable", path, () => file.size());
  const { copy, whole, end } = attempt("unreadable", path, () =>
    planOpening({ ...file, size: () => size }, found)
  );
  checkSize(path, file, size);

  if (end.kind === "damaged") {
    const help = `the file is untouched; "verify ${path}" shows every damaged spot`;
    const reason = `${end.reason}; ${help}`;
    throw new JournalError("damaged", path, reason, end.offset);
  }
  if (end.kind === "new") {
    const uuid = randomUUID();
    const header = fillChecksums(headerText(uuid, new Date().toISOString()));

    // There is nothing to keep, but that a copy can be made is tried now: an empty file may be
    // writable, its directory not. The directory is synced with it, before the first response.
    await replaceFile(disk, copyPath(path), Buffer.alloc(0));
    disk.remove(copyPath(path));
    checkSize(path, file, size);
    file.truncate(0);
    await appendAll(file, header);
    return { seq: 0, uuid };
  }

  // Lines that no line certifies are rewritten, and a pending rewrite is finished.
  const offset = Math.min(
    copy.kind === "pending" ? copy.offset : size,
    end.certified
  );
  const tail = attempt("unreadable", path, () =>
    whole.read(offset, whole.size() - offset)
  );
  const lf = Buffer.from(end.kind === "unterminated" ? "\n" : "");
  const bytes = Buffer.concat([tail.subarray(0, end.end - offset), lf]);
  const rewrite = { file: end.file, offset, size, bytes };

  // Before anything is written: a read that fails refuses a file that is still untouched.
  attempt("unreadable", path, () => keys.addFile(withEnd(whole, rewrite)));
  const torn = tail.subarray(end.end - offset);
  if (torn.length > 0) await saveTorn(disk, path, end.end, torn, warn);
  await rewriteEnd(disk, path, file, rewrite);
  return { seq: end.seq, uuid: end.file };
}

/** Copies a torn end aside, durably, and warns of it. Replaces no other copy. */
async function saveTorn(
  disk: Disk,
  path: string,
  offset: number,
  bytes: Buffer,
  warn: Warn
) {
  let name = `${path}.torn-${offset}`;
  if (disk.look(name)) name += `-${randomUUID()}`;
  await replaceFile(disk, name, bytes);
  warn(
    `${path}: at offset ${offset}, a torn end of ${bytes.length} bytes was moved to ${name}`
  );
}
