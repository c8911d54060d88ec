/** What the end of a journal means: sound, torn by a crash, or damaged.
 * Two offsets decide. C, the highest `synced` that a sound line claims: all before it was on
 * stable storage. X, the first offset from the last certified line on that does not continue the
 * file rightly. A crash can only tear what nobody certified: X >= C. */
import { find, linesOf, type Bytes, type PlacedLine } from "./lines.ts";
import {
  decodeCopy, decodeHeader, decodeRecord, headerBytes, isPartOfHeader, lineBytesMax, lineFeed,
} from "./record.ts";

export type Verdict =
  /** Nothing is there that anybody was told of. */
  | { readonly kind: "new" }
  | Damaged
  /** `file`: the header's UUID; `seq`: the last record's, or 0; `certified`: C, or 0 where nothing
   * certifies the header; `end`: X; `unterminated`: the last line is whole but for its LF. */
  | { readonly kind: "sound"; readonly file: string; readonly seq: number;
    readonly certified: number; readonly end: number; readonly unterminated: boolean };

interface Damaged { readonly kind: "damaged"; readonly offset: number; readonly reason: string }
/** What FILE.anew means: there is none; it is no use any more; the end is written from it. */
export type CopyVerdict =
  | { readonly kind: "none" | "spent" }
  | { readonly kind: "due"; readonly offset: number; readonly bytes: Buffer }
  | Damaged;

/** What an opening does: with FILE.anew first, then with the end of what that leaves, `file`. */
export interface Plan {
  readonly copy: CopyVerdict;
  readonly file: Bytes;
  readonly end: Verdict;
}

const windowBytesMin = 64 * 1024;
/** A certified line, a write that nobody certified, a torn one, and NULs behind that. */
const windowBytesMax = 4 * lineBytesMax;
/** FILE.anew holds no more than that, and its first line. */
export const copyBytesMax = windowBytesMax + 1024;
/** Reads only, so that `verify` can tell what opening does. */
export function planOpening(file: Bytes, bytes: Buffer | undefined): Plan {
  const copy = examineCopy(file, bytes);
  if (copy.kind === "damaged") return { copy, file, end: copy };
  const then = copy.kind === "due" ? withEnd(file, copy.offset, copy.bytes) : file;
  return { copy, file: then, end: examine(then) };
}

/** Reads the end of the file only: as fast for a hundred million records as for one. */
export function examine(file: Bytes): Verdict {
  const end = findEnd(file);
  return end.kind === "end" ? judge(file, end) : end;
}

/** All before this offset was on stable storage; Infinity where nothing tells. */
export function certifiedEnd(file: Bytes): number {
  const end = findEnd(file);
  return end.kind === "end" ? end.certified : Infinity;
}

function examineCopy(file: Bytes, bytes: Buffer | undefined): CopyVerdict {
  if (!bytes) return { kind: "none" };
  const copy = decodeCopy(bytes);
  // A copy that is not whole was never built upon: the journal's end is still in place.
  if (!copy) return { kind: "spent" };
  const size = file.size();
  const header = decodeHeader(file.read(0, headerBytes - 1));
  if ((header ?? copy.file) !== copy.file || size < copy.offset) {
    return damaged(0, "its .anew is the end of another file: move it beside that, as its .anew");
  }
  // One that begins at 0 has the header itself, which the file may have lost.
  if (header === undefined && copy.offset > 0) return damaged(0, noHeader);
  const { offset, bytes: lines } = copy;
  const due = { kind: "due", offset, bytes: lines } as const;
  // Not even bytes that are the same are known to be on stable storage, or the copy's to be.
  if (size <= offset + lines.length) return due;
  if (file.read(offset, lines.length).equals(lines)) return { kind: "spent" };
  // A crash has undone the cut: the old size is back, with NULs in the place of the end.
  return size === copy.size ? due : damaged(offset, "it differs from its copy in .anew");
}

/** The file as it is once its end is written anew. */
const withEnd = (file: Bytes, offset: number, end: Buffer): Bytes => ({
  size: () => offset + end.length,
  read: (from, length) => Buffer.concat([
    file.read(from, Math.max(0, Math.min(length, offset - from))),
    end.subarray(Math.max(0, from - offset), Math.max(0, from + length - offset)),
  ]),
});

/** Where the last certified line and all behind it is. */
interface End {
  readonly kind: "end";
  readonly file: string;
  /** Where the file's first record begins. */
  readonly start: number;
  /** Where a line begins, the last certified one or one before it. */
  readonly from: number;
  readonly certified: number;
  readonly size: number;
}

/** A verdict where there is no such end. */
function findEnd(file: Bytes): End | Verdict {
  const size = file.size();
  const head = file.read(0, Math.min(size, headerBytes + 1));
  if (isPartOfHeader(head)) return { kind: "new" };
  const lf = head.indexOf(lineFeed);
  const uuid = decodeHeader(lf < 0 ? head : head.subarray(0, lf));
  if (uuid === undefined) return damaged(0, noHeader);
  if (lf < 0) {
    return { kind: "sound", file: uuid, seq: 0, certified: 0, end: size, unterminated: true };
  }
  const start = lf + 1;
  for (let length = windowBytesMin; length <= windowBytesMax; length *= 4) {
    const window = Math.max(start, size - length);
    const from = window === start ? start : (find(file, lineFeed, window, size) ?? size) + 1;
    let certified = start;
    for (const { line, isWhole } of linesOf(file, from, size)) {
      if (isWhole && typeof line === "object") certified = Math.max(certified, line.synced);
    }
    const hasCertified = from === start || from < certified;
    if (hasCertified) return { kind: "end", file: uuid, start, from, certified, size };
  }
  return damaged(size - windowBytesMax, "expected a record somewhere from here on");
}

const noHeader = "expected the header of a journal, version 1";
/** Why a line can't stand where it does, behind a record with this seq and synced, if it can't. */
export function problemOf(
  { line, text, offset }: PlacedLine, last: { seq: number; synced: number },
): string | undefined {
  if (line === "foreign") return "the line has a good checksum, but is no record";
  if (line === "unsound") {
    if (!text) return `the line has over ${lineBytesMax} bytes`;
    if (text.length === 0) return "the line is blank";
    const isCrlf = text.at(-1) === 0x0d && decodeRecord(text.subarray(0, -1)) !== "unsound";
    return isCrlf ? "the line ends in CRLF" : wrongChecksum;
  }
  const { seq, synced } = line;
  if (seq !== last.seq + 1) return `expected seq ${last.seq + 1}, found ${seq}`;
  if (synced === last.synced || synced === offset) return undefined;
  return `synced must be ${last.synced} or ${offset}, found ${synced}`;
}

const wrongChecksum = "the line's checksum is wrong";
function judge(file: Bytes, { file: uuid, start, from, certified, size }: End): Verdict {
  let before: PlacedLine | undefined;
  for (const line of linesOf(file, from, Math.min(certified, size))) before = line;
  const isSound = before === undefined || (before.isWhole && before.end === certified
    && typeof before.line === "object" && before.line.synced <= before.offset);
  if (!isSound) {
    const reason = `what stands before offset ${certified} was on stable storage, and is damaged`;
    return damaged(before?.offset ?? start, reason);
  }
  let last = typeof before?.line === "object" ? before.line : { seq: 0, synced: start };
  const sound = (end: number, unterminated: boolean): Verdict => {
    const stable = last.seq === 0 ? 0 : certified;
    return { kind: "sound", file: uuid, seq: last.seq, certified: stable, end, unterminated };
  };
  for (const placed of linesOf(file, certified, size)) {
    const { line, offset, isWhole } = placed;
    const problem = problemOf(placed, last);
    if (typeof line === "object" && problem === undefined) {
      last = line;
      if (isWhole) continue;
      return sound(size, true);
    }
    // A crash leaves cut ends and NULs, never another bad line.
    const isTorn = line === "unsound" && (!isWhole
      || (problem === wrongChecksum && find(file, 0, offset, size) !== undefined));
    return isTorn ? sound(offset, false) : damaged(offset, problem ?? "");
  }
  return sound(size, false);
}

const damaged = (offset: number, reason: string): Damaged => ({ kind: "damaged", offset, reason });
