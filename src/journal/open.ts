/** Opening a journal: lock it, examine its end, and mend what a crash has left.
 *
 * Every step may itself be killed: the next opening then finds what this one found, or the end
 * of its work. Nothing is cut before a durable copy of it stands beside the journal.
 */
import { randomUUID } from "node:crypto";
import { appendAll, type Disk, type JournalFile, type Release } from "./disk.ts";
import { encodeCopy, headerText, seal, type Copy } from "./record.ts";
import { copyBytesMax, planOpening } from "./recover.ts";

/** Those of sysexits. */
const exitCodes = { damaged: 65, unreadable: 65, failed: 74, locked: 75 } as const;

export type JournalErrorCode = keyof typeof exitCodes;

/** `damaged`: not as this program leaves a file; `locked`: another process has it; else I/O. */
export class JournalError extends Error {
  override readonly name = "JournalError";
  readonly code: JournalErrorCode;
  readonly path: string;
  readonly offset: number | undefined;
  readonly exitCode: number;

  constructor(code: JournalErrorCode, path: string, cause: unknown, offset?: number) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    super(`${path}: ${offset === undefined ? "" : `at offset ${offset}, `}${reason}`, { cause });
    this.code = code;
    this.path = path;
    this.offset = offset;
    this.exitCode = exitCodes[code];
  }
}

/** A journal that is ours, its end sound and durable; `seq` is the last record's, or 0. */
export type OpenFile = Awaited<ReturnType<typeof openFile>>;

type Warn = (message: string) => void;

/**
 * Opens the file behind a path, or makes it.
 *
 * @throws JournalError
 */
export async function openFile(disk: Disk, given: string, warn: Warn) {
  const path = attempt("failed", given, () => disk.resolve(given));
  const before = attempt("unreadable", path, () => disk.look(path));
  if (before?.isFile === false) throw new JournalError("unreadable", path, "is no regular file");

  const file = attempt(before ? "unreadable" : "failed", path, () => disk.open(path));
  let unlock: Release = () => undefined;
  try {
    const { identity } = file.look();
    const taken = await disk.lock(path, identity, warn);
    if (typeof taken === "string") throw new JournalError("locked", path, taken);
    unlock = taken;

    const seq = await mend({ disk, path, file, warn });
    return { path, identity, file, unlock, bytes: file.size(), seq };
  } catch (error) {
    release({ file, unlock });
    throw error instanceof JournalError ? error : new JournalError("failed", path, error);
  }
}

/** Whatever is to be kept is on stable storage: what fails here is no loss, and keeps no lock. */
export function release({ file, unlock }: Pick<OpenFile, "file" | "unlock">): void {
  try {
    file.close();
  } catch {
    // The descriptor is gone all the same.
  }
  unlock();
}

function attempt<T>(code: JournalErrorCode, path: string, step: () => T): T {
  try {
    return step();
  } catch (error) {
    throw new JournalError(code, path, error);
  }
}

/**
 * FILE.anew, as `planOpening` takes it; undefined where there is none.
 *
 * @throws JournalError
 */
export function readCopy(disk: Disk, path: string): Buffer | undefined {
  const name = `${path}.anew`;
  return attempt("unreadable", name, () => {
    const there = disk.look(name);
    if (!there) return undefined;
    if (there.isFile && there.bytes <= copyBytesMax) return disk.readBeside(name, path);
    throw new Error("is no copy of a journal's end");
  });
}

/** What is ours by the lock, and who is told. */
interface Opening {
  readonly disk: Disk;
  readonly path: string;
  readonly file: JournalFile;
  readonly warn: Warn;
}

/** Leaves a file that ends with its last record, durably; the record's number. */
async function mend(opening: Opening): Promise<number> {
  const { disk, path, file, warn } = opening;
  const { size, end: verdict } = await finishRewrite(opening);
  if (verdict.kind === "new") {
    const header = seal(headerText(randomUUID(), new Date().toISOString()));
    file.cut(0);
    await appendAll(file, header);
    disk.syncDirectory(path);
    return 0;
  }

  const { certified, end, seq, unterminated } = verdict;
  const tail = attempt("unreadable", path, () => file.read(certified, size - certified));
  const torn = tail.subarray(end - certified);
  if (torn.length > 0) {
    const name = await saveTorn(opening, end, torn);
    warn(`${path}: at offset ${end}, a torn end of ${torn.length} bytes was moved to ${name}`);
  }

  // Only a cache may hold what nobody certified, and a retried flush says success over lost pages.
  const lf = Buffer.from(unterminated ? "\n" : "");
  const bytes = Buffer.concat([tail.subarray(0, end - certified), lf]);
  if (bytes.length > 0) {
    await rewrite(opening, size, { file: verdict.file, offset: certified, size, bytes });
  } else if (torn.length > 0) {
    cut(opening, size, end);
  }
  return seq;
}

/**
 * Finishes what a killed opening has begun, and tells what the file is then.
 *
 * @throws JournalError where its end, or what FILE.anew says of it, is damaged
 */
async function finishRewrite(opening: Opening) {
  const { disk, path, file } = opening;
  const bytes = readCopy(disk, path);
  const size = attempt("unreadable", path, () => file.size());
  const { copy, end } = attempt("unreadable", path, () => planOpening(file, bytes));
  checkSize(opening, size);
  if (end.kind === "damaged") {
    const help = `the file is untouched; "verify ${path}" shows every damaged spot`;
    throw new JournalError("damaged", path, `${end.reason}; ${help}`, end.offset);
  }

  if (copy.kind === "spent") disk.remove(`${path}.anew`);
  if (copy.kind !== "due") return { size, end };
  await rewrite(opening, size, copy);
  return { size: copy.offset + copy.bytes.length, end };
}

/**
 * Writes the end of a file anew, durably; a copy in FILE.anew stands by meanwhile.
 *
 * @param size that the file had when it was looked at
 */
async function rewrite(opening: Opening, size: number, copy: Copy): Promise<void> {
  const { disk, path, file } = opening;
  await saveBeside(disk, `${path}.anew`, encodeCopy(copy));
  cut(opening, size, copy.offset);
  await appendAll(file, copy.bytes);
  disk.remove(`${path}.anew`);
}

/** Cuts what still has the size at which it was looked at. */
function cut(opening: Opening, size: number, end: number): void {
  checkSize(opening, size);
  opening.file.cut(end);
}

/** What has grown, or shrunk, since it was looked at has another writer: that is no torn end. */
function checkSize({ path, file }: Opening, expected: number): void {
  const size = attempt("unreadable", path, () => file.size());
  if (size !== expected) throw new JournalError("locked", path, "another process writes to it");
}

/** Copies a torn end aside, durably; never over another copy, but one cut short is finished. */
async function saveTorn(opening: Opening, offset: number, bytes: Buffer): Promise<string> {
  const { disk, path } = opening;
  const first = `${path}.torn-${offset}`;
  let name = first;
  for (let number = 2; isAnother(opening, name, bytes); number++) name = `${first}-${number}`;
  await saveBeside(disk, name, bytes);
  return name;
}

/** Whether something else stands there than these bytes, or a part of them. */
function isAnother({ disk, path }: Opening, name: string, bytes: Buffer): boolean {
  return attempt("unreadable", name, () => {
    const there = disk.look(name);
    if (there && (!there.isFile || there.bytes > bytes.length)) return true;
    const known = disk.readBeside(name, path);
    return known !== undefined && !bytes.subarray(0, known.length).equals(known);
  });
}

/** Leaves a durable file, and one that was there until the new one is: it may be all there is. */
async function saveBeside(disk: Disk, path: string, bytes: Buffer): Promise<void> {
  const file = disk.openBeside(`${path}.part`);
  try {
    await appendAll(file, bytes);
  } finally {
    file.close();
  }
  disk.rename(`${path}.part`, path);
  disk.syncDirectory(path);
}
