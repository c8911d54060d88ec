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

/** What helps, whatever is damaged. */
export const advice = "restore it from a backup, or go on with what cat prints";

/**
 * Examines the end of a file.
 *
 * `new`: it holds nothing that was ever acknowledged; `torn`: also if only the last LF is missing.
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
  if (uuid === undefined) return damaged(0, noHeader);

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
      if (isTorn(line, file, size)) break;
      return damaged(end, problem, certified);
    }
    last = line.record ?? last;
  }

  const hasLf = file.read(end - 1, 1)[0] === lineFeed;
  return {
    kind: end === size && hasLf ? "clean" : "torn",

    /** The header's UUID. */
    uuid,

    /** The last record's, or 0. */
    seq: last.seq,

    /** C, or 0 if no record certifies the header. */
    certified: last.seq === 0 ? 0 : certified,

    /** X; of a torn file without its last LF alone, the end. */
    end
  } as const;
}

/**
 * Returns a function that returns what is wrong with each line of a file, called in their order.
 *
 * @param areJoined whether the file may be several journals, one after another
 */
export function lineChecker({ areJoined }: { readonly areJoined: boolean }) {
  // The record before; undefined if it is unknown.
  let last: Position | undefined;

  // Where the journal begins.
  let start = 0;

  return (line: Line) => {
    const { offset, record, isHeader } = line;
    if (isHeader && areJoined) start = offset;
    const problem = problemOf({ ...line, offset: offset - start }, last);

    // No record precedes the first one: its own offset is the only valid `synced`.
    last = isHeader ? { seq: 0, synced: -1 } : record;
    return problem;
  };
}

/** The part of a record that the next one must continue. */
type Position = Pick<DecodedRecord, "seq" | "synced">;

/**
 * Returns why a line cannot stand where it does; undefined if it can.
 *
 * @param last the record before; undefined if that is unknown
 */
function problemOf({ record, isHeader, offset }: Line, last?: Position) {
  if (offset === 0) return isHeader ? undefined : noHeader;
  if (!record) return isHeader ? "another journal begins here" : noRecord;
  if (!last) return undefined;

  const { seq, synced } = record;
  if (seq !== last.seq + 1) return `expected seq ${last.seq + 1}, found ${seq}`;

  // A line belongs to the write of the one before, or begins a write.
  if (synced === last.synced || synced === offset) return undefined;
  return `expected synced ${last.synced} or ${offset}, found ${synced}`;
}

const noRecord = "expected a record with its checksum";

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
function isTorn({ text, isWhole, offset }: Line, file: Bytes, size: number) {
  if (!isWhole) return !text || !hasValidChecksum(text);
  return (
    text &&
    text.length > 0 &&
    !hasValidChecksum(text) &&
    find(file, "\0", offset, size) < size
  );
}

/** The verdict on a file that no crash can leave; `certified` is C, undefined if unknown. */
export const damaged = (offset: number, reason: string, certified?: number) =>
  ({ kind: "damaged", offset, reason, certified }) as const;
