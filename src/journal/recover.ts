/** What the end of a journal means: sound, torn by a crash, or damaged.
 * Two offsets decide. C, the highest `synced` that a sound line claims: all before it was on
 * stable storage. X, the first offset from the last certified line on that does not continue the
 * file rightly. A crash can only tear what nobody certified: X >= C. */
import type { JournalFile } from "./disk.ts";
import {
  decodeHeader, decodeRecord, headerBytes, isPartOfHeader, lineBytesMax, lineFeed,
  type Line,
} from "./record.ts";

export type Bytes = Pick<JournalFile, "size" | "read">;

export type Verdict =
  /** Nothing is there that anybody was told of. */
  | { readonly kind: "new" }
  | { readonly kind: "damaged"; readonly offset: number; readonly reason: string }
  /** `file`: the header's UUID; `seq`: the last record's, or 0; `certified`: C, or 0 where nothing
   * certifies the header; `end`: X; `unterminated`: the last line is whole but for its LF. */
  | { readonly kind: "sound"; readonly file: string; readonly seq: number;
    readonly certified: number; readonly end: number; readonly unterminated: boolean };

const windowBytesMin = 64 * 1024;
/** A certified line, a write that nobody certified, a torn one, and NULs behind that. */
const windowBytesMax = 4 * lineBytesMax;
/** Reads the end of the file only: as fast for a hundred million records as for one. */
export function examine(bytes: Bytes): Verdict {
  const size = bytes.size();
  const head = bytes.read(0, Math.min(size, headerBytes + 1));
  if (isPartOfHeader(head)) return { kind: "new" };
  const lf = head.indexOf(lineFeed);
  const file = decodeHeader(lf < 0 ? head : head.subarray(0, lf));
  if (file === undefined) return damaged(0, "expected the header of a journal, version 1");
  if (lf < 0) return { kind: "sound", file, seq: 0, certified: 0, end: size, unterminated: true };
  const start = lf + 1;
  for (let length = windowBytesMin; length <= windowBytesMax; length *= 4) {
    const from = Math.max(start, size - length);
    const lines = linesOf(bytes.read(from, size - from), from, from === start);
    const certified = lines.reduce((highest, { line, isWhole }) =>
      isWhole && typeof line === "object" ? Math.max(highest, line.synced) : highest, start);
    const hasCertified = from === start || lines.some(({ offset }) => offset < certified);
    if (hasCertified) return judge(lines, certified, start, size, file);
  }
  return damaged(size, `expected a record within the last ${windowBytesMax} bytes`);
}

/** Why a line can't stand at an offset, behind a record with this seq and synced, if it can't. */
export function problemOf(
  line: Line, bytes: Buffer, offset: number, last: { seq: number; synced: number },
): string | undefined {
  if (line === "foreign") return "the line has a good checksum, but is no record";
  if (line === "unsound") {
    if (bytes.length === 0) return "the line is blank";
    const isCrlf = bytes.at(-1) === 0x0d && decodeRecord(bytes.subarray(0, -1)) !== "unsound";
    if (isCrlf) return "the line ends in CRLF";
    return bytes.length < lineBytesMax ? wrongChecksum : `the line has over ${lineBytesMax} bytes`;
  }
  const { seq, synced } = line;
  if (seq !== last.seq + 1) return `expected seq ${last.seq + 1}, found ${seq}`;
  if (synced === last.synced || synced === offset) return undefined;
  return `synced must be ${last.synced} or ${offset}, found ${synced}`;
}

const wrongChecksum = "the line's checksum is wrong";
type PlacedLine = ReturnType<typeof linesOf>[number];
/** The lines of the file's end with their offsets; the first only where it is whole. */
function linesOf(bytes: Buffer, from: number, isAtLine: boolean) {
  const lines = [];
  for (let at = isAtLine ? 0 : bytes.indexOf(lineFeed) + 1; at < bytes.length;) {
    const lf = bytes.indexOf(lineFeed, at);
    const text = bytes.subarray(at, lf < 0 ? bytes.length : lf);
    lines.push({ offset: from + at, bytes: text, isWhole: lf >= 0, line: decodeRecord(text) });
    at += text.length + 1;
  }
  return lines;
}

function judge(
  lines: readonly PlacedLine[], certified: number, start: number, size: number, file: string,
): Verdict {
  const before = lines.findLast(({ offset }) => offset < certified);
  const isSound = before === undefined
    || (before.isWhole && typeof before.line === "object" && before.line.synced <= before.offset);
  if (!isSound || (before ? before.offset + before.bytes.length + 1 : start) !== certified) {
    const reason = `what stands before offset ${certified} was on stable storage, and is damaged`;
    return damaged(before?.offset ?? start, reason);
  }
  let last = typeof before?.line === "object" ? before.line : { seq: 0, synced: start };
  const sound = (end: number, unterminated: boolean): Verdict => {
    const from = last.seq === 0 ? 0 : certified;
    return { kind: "sound", file, seq: last.seq, certified: from, end, unterminated };
  };
  for (const { line, bytes, offset, isWhole } of lines) {
    if (offset < certified) continue;
    const problem = problemOf(line, bytes, offset, last);
    if (typeof line === "object" && problem === undefined) {
      last = line;
      if (isWhole) continue;
      return sound(size, true);
    }
    // A crash leaves cut ends and NULs, never another bad line.
    const hasNul = lines.some((each) => each.offset >= offset && each.bytes.includes(0));
    const isTorn = line === "unsound" && (!isWhole || (problem === wrongChecksum && hasNul));
    return isTorn ? sound(offset, false) : damaged(offset, problem ?? "");
  }
  return sound(size, false);
}

const damaged = (offset: number, reason: string): Verdict => ({ kind: "damaged", offset, reason });
