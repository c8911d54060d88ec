/**
 * Decides whether a journal's end is clean, torn or damaged.
 *
 * Two offsets decide. C is the highest `synced` of any whole line with a valid checksum:
 * everything before it was on stable storage. X is the first offset, from the last certified line
 * on, that does not continue the file correctly. A crash tears only what no line certifies: X >= C.
 */
import { find, linesOf, type Bytes, type Line } from "./lines.ts";
import {
  decodeHeader,
  hasValidChecksum,
  headerBytes,
  headerMark,
  isPartOfHeader,
  lineBytesMax,
  lineFeed,
  type DecodedRecord
} from "./record.ts";

/** The end that is read first: records of a few hundred bytes certify each other within it. */
const windowBytesMin = 64 * 1024;

/** The longest end that is read: a certified line, an uncertified write, a torn one, and NULs. */
export const windowBytesMax = 4 * lineBytesMax;

export const noHeader = "expected the header of a journal, version 1";

export const damagedBefore = (certified: number) =>
  `what stands before offset ${certified} was on stable storage, and is damaged`;

/** The first bytes of a compressed file, in Latin-1, and the program that reads it. */
const compressions = [
  ["\x1f\x8b", "gzip"],
  ["\x28\xb5\x2f\xfd", "zstd"],
  ["\xfd7zXZ\0", "xz"],
  ["BZh", "bzip2"],
  ["\x04\x22\x4d\x18", "lz4"]
] as const;

/** @throws Error for a compressed file: people compress rotated journals, and forget it */
export function refuseCompressed(file: Bytes) {
  const start = file.read(0, Math.min(file.size(), 6)).toString("latin1");
  for (const [mark, program] of compressions)
    if (start.startsWith(mark))
      throw new Error(
        `is compressed: use "${program} -dc FILE | plant-store cat -"`
      );
}

/**
 * Examines the end of a file.
 *
 * `new`: it holds nothing that was ever acknowledged; `unterminated`: only the last LF is missing.
 * The time does not depend on the number of records, for the end alone is read.
 */
export function examine(file: Bytes) {
  const size = file.size();
  const head = file.read(0, Math.min(size, headerBytes + 1));
  if (isPartOfHeader(head)) return { kind: "new" } as const;

  // The search ends where a header ends: the first line of another file may have no LF.
  const lf = head.indexOf(lineFeed);
  const header = lf < 0 ? head : head.subarray(0, lf);
  const uuid = decodeHeader(header);
  if (uuid === undefined)
    return damaged(0, headerProblemOf(header) ?? noHeader);

  const known = findCertified(file, size);
  if (!known)
    return damaged(
      size - windowBytesMax,
      "expected a record somewhere from here on"
    );
  const { from, certified } = known;

  // The line that ends at C was on stable storage: no crash can tear it.
  let before: Line | undefined;
  for (const line of linesOf(file, from, Math.min(certified, size)))
    before = line;
  if (before && !isCertified(before, certified)) {
    return damaged(before.offset, damagedBefore(certified), certified);
  }
  let last: Position = before?.record ?? { seq: 0, synced: headerBytes };

  // X is the end, or the offset of the first line that does not continue the file.
  let end = size;
  for (const line of linesOf(file, certified, size)) {
    const problem = problemOf(line, last);
    if (problem !== undefined) {
      end = line.offset;
      if (isTorn(line, problem, file, size)) break;
      return damaged(end, problem, certified);
    }
    last = line.record ?? last;
  }

  const hasLf = file.read(end - 1, 1)[0] === lineFeed;
  return {
    kind: end < size ? "torn" : hasLf ? "clean" : "unterminated",

    /** The header's UUID. */
    uuid,

    /** The last record's, or 0. */
    seq: last.seq,

    /** C, or 0 if no record certifies the header. */
    certified: last.seq === 0 ? 0 : certified,

    /** X. */
    end
  } as const;
}

/**
 * Returns a function that returns what is wrong with each line of a file, called in their order. A
 * header within begins another journal: its lines are checked from there on.
 *
 * Bytes that were lost or added are one damaged spot, although every later line stands elsewhere
 * than it says: the first write that begins after a spot shows by how much.
 *
 * @param areJoined whether the file may be several journals, one after another
 */
export function lineChecker({ areJoined }: { readonly areJoined: boolean }) {
  // No record precedes the first one: its own offset is the only valid `synced`.
  const beginning = { seq: 0, synced: -1 };

  /** The record before; undefined if it is unknown. */
  let last: Position | undefined;

  /** What to subtract from an offset, to compare it with `synced`; undefined if unknown. */
  let start: number | undefined = 0;

  return (line: Line) => {
    const { offset, text, record } = line;
    if (record && last && record.synced > last.synced)
      start ??= offset - record.synced;
    const placed = { ...line, offset: offset - (start ?? 0) };
    const problem = problemOf(placed, last);
    const headerIndex = record ? -1 : (text?.lastIndexOf(headerMark) ?? -1);
    if (text && headerIndex >= 0 && decodeHeader(text.subarray(headerIndex))) {
      // The journal before it may have ended within a line.
      start = offset + headerIndex;
      last = beginning;
      return areJoined && headerIndex === 0 ? undefined : problem;
    }
    last = record;
    if (problem !== undefined) start = undefined;
    return problem;
  };
}

/** The part of a record that the next one must continue. */
export type Position = Pick<DecodedRecord, "seq" | "synced">;

/**
 * Returns why a line cannot stand where it does; undefined if it can.
 *
 * @param last the record before; undefined if that is unknown
 */
export function problemOf(
  { record, text, offset, isWhole }: Line,
  last?: Position
) {
  if (offset === 0) return headerProblemOf(text);

  if (!text) return `the line has over ${lineBytesMax} bytes`;
  if (text.length === 0) return "the line is blank";
  if (!record) {
    if (decodeHeader(text)) return "another journal begins here";
    if (hasValidChecksum(text))
      return "the line has a valid checksum, but is not a record";
    if (!isWhole) return describeUnfinished(text.length);
    return isCrlf(text) ? endsInCrlf : wrongChecksum;
  }
  if (!last) return undefined;

  const { seq, synced } = record;
  if (seq !== last.seq + 1) return `expected seq ${last.seq + 1}, found ${seq}`;

  // A line belongs to the write of the one before, or begins a write.
  if (synced === last.synced || synced === offset) return undefined;
  return `expected synced ${last.synced} or ${offset}, found ${synced}`;
}

/** Returns why a file's first line is no header; undefined if it is one. */
function headerProblemOf(text: Buffer | undefined) {
  if (text && decodeHeader(text)) return undefined;
  return text && isCrlf(text) ? endsInCrlf : noHeader;
}

/** Says that a file, or an input, ends within a line. */
export const describeUnfinished = (bytes: number) =>
  `the last ${bytes} bytes are not a whole line`;

/** Whether a line would be valid without its CR, as a conversion of line ends leaves it. */
const isCrlf = (text: Buffer) =>
  text.at(-1) === 0x0d && hasValidChecksum(text.subarray(0, -1));

const endsInCrlf = "the line ends in CRLF";
const wrongChecksum = "the line's checksum is wrong";

/** Finds C, and the start of a line at or before the last certified one; undefined if too far. */
function findCertified(file: Bytes, size: number) {
  for (let length = windowBytesMin; length <= windowBytesMax; length *= 4) {
    const window = Math.max(headerBytes, size - length);
    const from =
      window === headerBytes ? window : find(file, "\n", window, size) + 1;

    let certified = headerBytes;
    for (const { record, isWhole } of linesOf(file, from, size)) {
      if (isWhole && record) certified = Math.max(certified, record.synced);
    }
    if (from === headerBytes || from < certified) return { from, certified };
  }
  return undefined;
}

/** Whether a line is a record that ends at C, after the write that it claims began. */
const isCertified = (
  { record, isWhole, offset, end }: Line,
  certified: number
) => isWhole && end === certified && record && record.synced <= offset;

/** Whether a crash can leave this line: it leaves unfinished lines and NULs, no other bad line. */
function isTorn(
  { text, isWhole, offset }: Line,
  problem: string,
  file: Bytes,
  size: number
) {
  if (text && hasValidChecksum(text)) return false;
  return (
    !isWhole ||
    (problem === wrongChecksum && find(file, "\0", offset, size) < size)
  );
}

/** The verdict on a file that no crash can leave; `certified` is C, undefined if unknown. */
export const damaged = (offset: number, reason: string, certified?: number) =>
  ({ kind: "damaged", offset, reason, certified }) as const;
