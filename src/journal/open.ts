/** Opening a journal: lock it, examine its end, and mend what a crash has left.
 * Every step may itself be killed: the next opening then finds what this one found, or the end
 * of its work. Nothing is cut before a durable copy of it stands beside the journal. */
import { randomUUID } from "node:crypto";
import { appendAll, type Disk, type JournalFile, type Lock } from "./disk.ts";
import { encodeCopy, headerText, seal } from "./record.ts";
import { copyBytesMax, examine, planOpening } from "./recover.ts";

const exitCodes = { damaged: 65, unreadable: 65, failed: 74, locked: 75 } as const; // sysexits
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
    [this.code, this.path, this.offset] = [code, path, offset];
    this.exitCode = exitCodes[code];
  }
}

/** A journal that is ours, its end sound and durable; `seq` is the last record's, or 0. */
export type OpenFile = Awaited<ReturnType<typeof openFile>>;
type Warn = (message: string) => void;
/** @throws JournalError */
export async function openFile(disk: Disk, given: string, warn: Warn) {
  const path = attempt("failed", given, () => disk.resolve(given));
  const before = attempt("unreadable", path, () => disk.look(path));
  if (before?.isFile === false) throw new JournalError("unreadable", path, "is no regular file");
  const file = attempt(before ? "unreadable" : "failed", path, () => disk.open(path));
  let lock: Lock | undefined;
  try {
    const { identity } = file.look();
    const taken = await disk.lock(path, identity, warn);
    if (typeof taken === "string") throw new JournalError("locked", path, taken);
    lock = taken;
    await finishRewrite(disk, path, file);
    const seq = await mend(disk, path, file, warn);
    return { path, identity, file, lock, bytes: file.size(), seq };
  } catch (error) {
    file.close();
    lock?.release();
    throw error instanceof JournalError ? error : new JournalError("failed", path, error);
  }
}

function attempt<T>(code: JournalErrorCode, path: string, step: () => T): T {
  try {
    return step();
  } catch (error) {
    throw new JournalError(code, path, error);
  }
}

/** Leaves a file that ends with its last record, durably; the record's number. */
async function mend(disk: Disk, path: string, file: JournalFile, warn: Warn): Promise<number> {
  const size = attempt("unreadable", path, () => file.size());
  const verdict = attempt("unreadable", path, () => examine(file));
  checkSize(path, file, size);
  if (verdict.kind === "damaged") throw refusal(path, verdict);
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
    const copy = await saveTorn(disk, path, end, torn);
    warn(`${path}: at offset ${end}, a torn end of ${torn.length} bytes was moved to ${copy}`);
  }
  const lf = unterminated ? "\n" : "";
  const sound = Buffer.concat([tail.subarray(0, end - certified), Buffer.from(lf)]);
  const copy = encodeCopy(verdict.file, certified, size, sound);
  if (sound.length > 0) {
    await rewrite(disk, path, file, { size, offset: certified, bytes: sound, copy });
  } else if (torn.length > 0) cut(path, file, size, end);
  return seq;
}

function refusal(path: string, { offset, reason }: { offset: number; reason: string }) {
  const help = `the file is untouched; "verify ${path}" shows every damaged spot`;
  return new JournalError("damaged", path, `${reason}; ${help}`, offset);
}

/** Cuts what still has the size at which it was looked at. */
function cut(path: string, file: JournalFile, size: number, end: number): void {
  checkSize(path, file, size);
  file.cut(end);
}

/** What has grown, or shrunk, since it was looked at has another writer: that is no torn end. */
function checkSize(path: string, file: JournalFile, expected: number): void {
  const size = attempt("unreadable", path, () => file.size());
  if (size !== expected) throw new JournalError("locked", path, "another process writes to it");
}

/** Copies a torn end aside, durably; never over another copy, but one cut short is finished. */
async function saveTorn(
  disk: Disk, journal: string, offset: number, bytes: Buffer,
): Promise<string> {
  for (let number = 1; ; number++) {
    const copy = `${journal}.torn-${offset}${number === 1 ? "" : `-${number}`}`;
    const isAnother = attempt("unreadable", copy, () => {
      const there = disk.look(copy);
      if (there && (!there.isFile || there.bytes > bytes.length)) return true;
      const known = disk.readBeside(copy, journal);
      return known !== undefined && !bytes.subarray(0, known.length).equals(known);
    });
    if (isAnother) continue;
    await saveBeside(disk, copy, bytes);
    return copy;
  }
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

/** What a file of this size, which was looked at, is to have from an offset on; and the copy. */
interface NewEnd {
  readonly size: number;
  readonly offset: number;
  readonly bytes: Buffer;
  readonly copy: Buffer;
}

/** Writes the uncertified end anew, durably: only a cache may hold it, and a retried flush says
 * success over lost pages. A copy in PATH.anew stands by meanwhile. */
async function rewrite(
  disk: Disk, path: string, file: JournalFile, { size, offset, bytes, copy }: NewEnd,
): Promise<void> {
  await saveBeside(disk, `${path}.anew`, copy);
  cut(path, file, size, offset);
  await appendAll(file, bytes);
  disk.remove(`${path}.anew`);
}

/** FILE.anew, as `planOpening` takes it; undefined where there is none.
 * @throws JournalError */
export function readCopy(disk: Disk, path: string): Buffer | undefined {
  const name = `${path}.anew`;
  return attempt("unreadable", name, () => {
    const there = disk.look(name);
    if (!there) return undefined;
    if (there.isFile && there.bytes <= copyBytesMax) return disk.readBeside(name, path);
    throw new Error("is no copy of a journal's end");
  });
}

/** Finishes what a killed opening has begun. */
async function finishRewrite(disk: Disk, path: string, file: JournalFile): Promise<void> {
  const bytes = readCopy(disk, path);
  if (!bytes) return;
  const size = attempt("unreadable", path, () => file.size());
  const { copy, end } = attempt("unreadable", path, () => planOpening(file, bytes));
  if (end.kind === "damaged") throw refusal(path, end);
  if (copy.kind === "due") {
    await rewrite(disk, path, file, { size, offset: copy.offset, bytes: copy.bytes, copy: bytes });
  } else disk.remove(`${path}.anew`);
}
