/** Opening a journal: lock it, examine its end, and mend what a crash has left.
 *
 * Every step may itself be killed: the next opening then finds what this one found, or the end
 * of its work. Nothing is cut before a durable copy of it stands beside the journal.
 */
import { randomUUID } from "node:crypto";
import { basename, dirname, join } from "node:path";
import {
  appendAll,
  ifPossible,
  type Disk,
  type JournalFile,
  type Warn
} from "./files.ts";
import { encodeCopy, headerText, seal } from "./record.ts";
import { copyBytesMax, planOpening } from "./recover.ts";
import { JournalError, type JournalErrorCode } from "./error.ts";

/** A journal that is ours, its end sound and durable; `seq` is the last record's, or 0. */
export type OpenFile = Awaited<ReturnType<typeof openFile>>;

/**
 * Opens the file behind a path, or makes it.
 *
 * @throws JournalError
 */
export async function openFile(disk: Disk, given: string, warn: Warn) {
  const path = attempt("failed", given, () => disk.resolve(given));
  attempt("failed", path, () => checkName(disk, path));
  const before = attempt("unreadable", path, () => disk.look(path));
  if (before?.isFile === false)
    throw new JournalError("unreadable", path, "is no regular file");

  const file = attempt(before ? "unreadable" : "failed", path, () =>
    disk.open(path)
  );
  const held: (() => void)[] = [];
  try {
    const { identity } = file.look();
    const other = await disk.lock(path, identity, held, warn);
    if (other !== undefined) throw new JournalError("locked", path, other);

    const seq = await mend(disk, path, file, warn);
    return { path, identity, file, held, bytes: file.size(), seq };
  } catch (error) {
    release({ file, held });
    throw error instanceof JournalError
      ? error
      : new JournalError("failed", path, error);
  }
}

/** The longest that can follow a journal's name: `saveTorn`'s OFFSET and NUMBER at their longest. */
const longestSuffix = `.torn-${Number.MAX_SAFE_INTEGER}-${Number.MAX_SAFE_INTEGER}.part`;

/**
 * Checks, before anything is created, that every file beside the journal can have its name.
 *
 * @throws Error that names the longest name that works, in bytes
 */
function checkName(disk: Disk, path: string): void {
  // Node reads bytes that are not UTF-8 as U+FFFD, and writes a lone surrogate as U+FFFD: a file
  // of that name would be another one.
  if (path.toWellFormed().includes("\ufffd"))
    throw new Error("the path is not valid UTF-8: rename the file");
  if (disk.canName(path + longestSuffix)) return;

  const length = Buffer.byteLength(basename(path));
  const canHave = (bytes: number): boolean =>
    disk.canName(join(dirname(path), "x".repeat(bytes) + longestSuffix));
  let bytesMax = length - 1;
  while (bytesMax > 0 && !canHave(bytesMax)) bytesMax--;
  throw new Error(
    bytesMax > 0
      ? `the name has ${length} bytes: expected at most ${bytesMax} here, so that FILE.torn-OFFSET-NUMBER.part fits beside it`
      : "the directory's path is too long for any journal"
  );
}

/** Whatever is to be kept is on stable storage: what fails here is no loss, and keeps no lock. */
export function release({ file, held }: Pick<OpenFile, "file" | "held">): void {
  // The descriptor is gone all the same.
  ifPossible(() => file.close());
  for (const letGo of held) letGo();
}

function attempt<T>(code: JournalErrorCode, path: string, step: () => T): T {
  try {
    return step();
  } catch (error) {
    throw new JournalError(code, path, error);
  }
}

/**
 * FILE.rewrite, as `planOpening` takes it; undefined where there is none.
 *
 * @throws JournalError
 */
export function readCopy(disk: Disk, path: string): Buffer | undefined {
  const name = `${path}.rewrite`;
  const copy = attempt("unreadable", name, () =>
    disk.readBeside(name, path, copyBytesMax)
  );
  if (copy !== "other") return copy;
  throw new JournalError("unreadable", name, "is no copy of a journal's end");
}

/**
 * Leaves a file that ends with its last record, durably; the record's number.
 *
 * From where nobody certified it, or from where a killed opening has left a copy of it, the end is
 * written anew: only a cache may hold it, and a retried flush says success over lost pages. A copy
 * in FILE.rewrite stands by meanwhile.
 *
 * @throws JournalError where the end, or what FILE.rewrite says of it, is damaged
 */
async function mend(
  disk: Disk,
  path: string,
  file: JournalFile,
  warn: Warn
): Promise<number> {
  const anew = `${path}.rewrite`;
  const there = readCopy(disk, path);
  const size = attempt("unreadable", path, () => file.size());
  const plan = attempt("unreadable", path, () =>
    planOpening({ ...file, size: () => size }, there)
  );
  const { copy, file: whole, end: verdict } = plan;
  if (verdict.kind === "new") {
    // An empty file may be writable where its directory is not: the next opening could not repair.
    disk.openBeside(`${anew}.part`).close();
    disk.remove(`${anew}.part`);
  }
  checkSize(path, file, size);

  if (verdict.kind === "damaged") {
    const help = `the file is untouched; "verify ${path}" shows every damaged spot`;
    throw new JournalError(
      "damaged",
      path,
      `${verdict.reason}; ${help}`,
      verdict.offset
    );
  }
  if (verdict.kind === "new") {
    const header = seal(headerText(randomUUID(), new Date().toISOString()));
    file.cut(0);
    // Not before: until then, a copy of the header may be due.
    if (there) disk.remove(anew);
    await appendAll(file, header);
    disk.syncDirectory(path);
    return 0;
  }

  // Nothing is cut before the torn end is durable aside, and what is written anew in its copy.
  const { certified, end, unterminated } = verdict;
  const offset =
    copy.kind === "due" ? Math.min(copy.offset, certified) : certified;
  const tail = attempt("unreadable", path, () =>
    whole.read(offset, whole.size() - offset)
  );
  const torn = tail.subarray(end - offset);
  if (torn.length > 0) {
    const name = await saveTorn(disk, path, end, torn);
    warn(
      `${path}: at offset ${end}, a torn end of ${torn.length} bytes was moved to ${name}`
    );
  }

  const lf = Buffer.from(unterminated ? "\n" : "");
  const bytes = Buffer.concat([tail.subarray(0, end - offset), lf]);
  await saveBeside(
    disk,
    anew,
    encodeCopy({ file: verdict.file, offset, size, bytes })
  );
  checkSize(path, file, size);
  file.cut(offset);
  await appendAll(file, bytes);
  disk.remove(anew);
  return verdict.seq;
}

/** What has grown, or shrunk, since it was looked at has another writer: that is no torn end. */
function checkSize(path: string, file: JournalFile, expected: number): void {
  const size = attempt("unreadable", path, () => file.size());
  if (size !== expected)
    throw new JournalError("locked", path, "another process writes to it");
}

/** Copies a torn end aside, durably; never over another copy, but one cut short is finished. */
async function saveTorn(
  disk: Disk,
  path: string,
  offset: number,
  bytes: Buffer
): Promise<string> {
  const first = `${path}.torn-${offset}`;
  let name = first;
  for (let number = 2; isAnother(disk, path, name, bytes); number++)
    name = `${first}-${number}`;
  await saveBeside(disk, name, bytes);
  return name;
}

/** Whether something else stands there than these bytes, or a part of them. */
function isAnother(
  disk: Disk,
  path: string,
  name: string,
  bytes: Buffer
): boolean {
  const there = attempt("unreadable", name, () =>
    disk.readBeside(name, path, bytes.length)
  );
  return (
    there === "other" ||
    there?.equals(bytes.subarray(0, there.length)) === false
  );
}

/** Leaves a durable file, and one that was there until the new one is: it may be all there is. */
async function saveBeside(
  disk: Disk,
  path: string,
  bytes: Buffer
): Promise<void> {
  const file = disk.openBeside(`${path}.part`);
  await appendAll(file, bytes).finally(() => file.close());
  disk.rename(`${path}.part`, path);
  disk.syncDirectory(path);
}
