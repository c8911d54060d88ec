/**
 * Opening a journal: lock it, examine its end, and mend what a crash has left.
 *
 * Every step may itself be killed: the next opening then finds what this one found, or the end
 * of its work. Nothing is cut before a durable copy of it stands beside the journal.
 */
import { randomUUID } from "node:crypto";
import type { Disk, JournalFile, Lock } from "./disk.ts";
import { checksum, encodeHeader } from "./record.ts";
import { examine } from "./recover.ts";

/** sysexits: 65 EX_DATAERR, 74 EX_IOERR, 75 EX_TEMPFAIL. */
const exitCodes = { locked: 75, damaged: 65, unreadable: 65, failed: 74 } as const;

export type JournalErrorCode = keyof typeof exitCodes;

/**
 * A journal that cannot be opened or has failed.
 * `locked`: another process writes it; `damaged`: not as this program leaves a file;
 * `unreadable`: no regular file, no permission, or a read error; `failed`: a write error.
 */
export class JournalError extends Error {
  override readonly name = "JournalError";
  readonly code: JournalErrorCode;
  readonly path: string;
  /** In bytes, where the error has a place. */
  readonly offset: number | undefined;
  constructor(
    code: JournalErrorCode, path: string, reason: string, offset?: number, cause?: unknown,
  ) {
    super(`${path}: ${offset === undefined ? "" : `at offset ${offset}, `}${reason}`, { cause });
    this.code = code;
    this.path = path;
    this.offset = offset;
  }

  /** The exit status for a program (sysexits). */
  get exitCode(): number {
    return exitCodes[this.code];
  }
}

/** A journal that is ours, its end sound and durable. */
export interface OpenFile {
  readonly path: string;
  /** Device and inode. */
  readonly identity: string;
  readonly file: JournalFile;
  readonly lock: Lock;
  readonly bytes: number;
  readonly seq: number;
}

/** @throws JournalError */
export async function openFile(
  disk: Disk, path: string, warn: (message: string) => void,
): Promise<OpenFile> {
  const target = attempt("failed", path, () => disk.resolve(path));
  const before = attempt("unreadable", path, () => disk.look(target));
  if (before && !before.isFile) throw new JournalError("unreadable", path, "is no regular file");
  const file = attempt(before ? "unreadable" : "failed", path, () => disk.open(target));
  let lock: Lock | undefined;
  try {
    const { identity } = file.look();
    lock = await disk.lock(target, identity);
    if (!lock) throw new JournalError("locked", path, "another process has it open");
    return { path: target, identity, file, lock, ...mend(disk, target, file, warn) };
  } catch (error) {
    file.close();
    lock?.release();
    throw error instanceof JournalError ? error
      : new JournalError("failed", path, reasonOf(error), undefined, error);
  }
}

function attempt<T>(code: JournalErrorCode, path: string, step: () => T): T {
  try {
    return step();
  } catch (error) {
    throw new JournalError(code, path, reasonOf(error), undefined, error);
  }
}

const reasonOf = (error: unknown): string => error instanceof Error ? error.message : String(error);

function mend(
  disk: Disk, path: string, file: JournalFile, warn: (message: string) => void,
): { readonly bytes: number; readonly seq: number } {
  finishRewrite(disk, path, file);
  const verdict = attempt("unreadable", path, () => examine(file));
  if (verdict.kind === "damaged") {
    const help = `the file is untouched; "verify ${path}" shows every damaged spot`;
    throw new JournalError("damaged", path, `${verdict.reason}; ${help}`, verdict.offset);
  }
  if (verdict.kind === "new") {
    file.cut(0);
    appendAll(file, Buffer.from(encodeHeader(randomUUID(), new Date().toISOString())));
    disk.syncDirectory(path);
    return { bytes: file.size(), seq: 0 };
  }
  const { certified, end, seq, unterminated } = verdict;
  const size = file.size();
  if (end < size) {
    const copy = saveTorn(disk, path, end, file.read(end, size - end));
    warn(`${path}: at offset ${end}, a torn end of ${size - end} bytes was moved to ${copy}`);
  }
  const lf = Buffer.from(unterminated ? "\n" : "");
  const uncertified = Buffer.concat([file.read(certified, end - certified), lf]);
  rewrite(disk, path, file, verdict.file, certified, uncertified);
  return { bytes: file.size(), seq };
}

/** Copies a torn end aside, durably; never over another copy, but one cut short is finished. */
function saveTorn(disk: Disk, path: string, offset: number, bytes: Buffer): string {
  for (let number = 1; ; number++) {
    const copy = `${path}.torn-${offset}${number === 1 ? "" : `-${number}`}`;
    const known = disk.readSideFile(copy);
    if (known && !bytes.subarray(0, known.length).equals(known)) continue;
    if (known?.length !== bytes.length) disk.writeSideFile(copy, bytes);
    disk.syncDirectory(copy);
    return copy;
  }
}

/**
 * Writes the uncertified end anew, durably: only the page cache may hold it, and a retried flush
 * says success over lost pages. A copy in PATH.anew stands by while the end is off the file.
 */
function rewrite(
  disk: Disk, path: string, file: JournalFile, uuid: string, offset: number, bytes: Buffer,
): void {
  if (bytes.length > 0) {
    const head = `{"anew":"${uuid}","offset":${offset},"bytes":${bytes.length}}\n`;
    const copy = Buffer.concat([Buffer.from(head), bytes]);
    disk.writeSideFile(`${path}.anew`, Buffer.concat([Buffer.from(`${checksum(copy)} `), copy]));
    disk.syncDirectory(path);
  }
  file.cut(offset);
  appendAll(file, bytes);
  if (bytes.length > 0) disk.remove(`${path}.anew`);
}

const copyForm = /^([\da-f]{8}) \{"anew":"([\da-f-]{36})","offset":(\d+),"bytes":\d+\}\n/;

/** Finishes what a killed opening has begun. */
function finishRewrite(disk: Disk, path: string, file: JournalFile): void {
  const name = `${path}.anew`;
  const copy = attempt("unreadable", name, () => disk.readSideFile(name));
  if (!copy) return;
  const [head, crc, uuid = "", at = ""] = copyForm.exec(copy.toString("latin1", 0, 120)) ?? [];
  // A copy that is not whole was never built upon: the journal's end is still in place.
  if (head !== undefined && checksum(copy.subarray(9)) === crc) {
    const bytes = copy.subarray(head.length);
    const offset = Number(at);
    const start = attempt("unreadable", path, () => file.read(0, 45 + uuid.length));
    const isOurs = offset === 0 || start.toString("latin1").endsWith(uuid);
    if (!isOurs || file.size() < offset) {
      const reason = `${name} holds the end of another file: move it beside that, as its .anew`;
      throw new JournalError("damaged", path, reason);
    }
    const there = file.read(offset, bytes.length);
    if (!there.equals(bytes)) {
      if (file.size() > offset + bytes.length) {
        throw new JournalError("damaged", path, `differs from its copy in ${name}`, offset);
      }
      file.cut(offset);
      appendAll(file, bytes);
    }
  }
  disk.remove(name);
}

function appendAll(file: JournalFile, bytes: Buffer): void {
  for (let at = 0; at < bytes.length;) at += file.append(bytes.subarray(at));
}
