/** What the end of a journal means: sound, torn by a crash, or damaged.
 *
 * Two offsets decide. C, the highest `synced` that a sound line claims: all before it was on
 * stable storage. X, the first offset from the last certified line on that does not continue the
 * file rightly. A crash can only tear what nobody certified: X >= C.
 */
import { find, linesOf, type Bytes, type PlacedLine } from "./lines.ts";
import {
  decodeCopy,
  decodeHeader,
  decodeRecord,
  headerBytes,
  isPartOfHeader,
  lineBytesMax,
  lineFeed,
  type Copy,
  type DecodedRecord
} from "./record.ts";

export type Plan = ReturnType<typeof planOpening>;

/** Records of a few hundred bytes, certified by each other: the end of nearly every journal. */
const windowBytesMin = 64 * 1024;

/** A certified line, a write that nobody certified, a torn one, and NULs behind that. */
const windowBytesMax = 4 * lineBytesMax;

const noHeader = "expected the header of a journal, version 1";

/** FILE.rewrite holds no more than that, and its first line. */
export const copyBytesMax = windowBytesMax + 1024;

/**
 * What an opening does: with FILE.rewrite first, then with the end of what that leaves, `file`.
 *
 * Reads only, so that `verify` can tell it.
 */
export function planOpening(found: Bytes, bytes: Buffer | undefined) {
  const copy = examineCopy(found, bytes);
  const file = copy.kind === "due" ? withEnd(found, copy) : found;
  return { copy, file, end: copy.kind === "damaged" ? copy : examine(file) };
}

/**
 * What the end of a file is; `new`: nothing is there that anybody was told of.
 *
 * Reads that end only: as fast for a hundred million records as for one.
 */
export function examine(file: Bytes) {
  const size = file.size();
  const head = file.read(0, Math.min(size, headerBytes + 1));
  if (isPartOfHeader(head)) return { kind: "new" } as const;

  // Looked for where a header ends only: the first line of another file may have no end.
  const [header] = linesOf(file, 0, head.length);
  const uuid = header?.text && decodeHeader(header.text);
  if (!header || uuid === undefined) return damaged(0, noHeader);

  const known = findCertified(file, header.end, size);
  if (!known)
    return damaged(
      size - windowBytesMax,
      "expected a record somewhere from here on"
    );
  const { from, certified } = known;

  // The line that ends at C was on stable storage: no crash can tear it.
  let before: PlacedLine | undefined;
  for (const placed of linesOf(file, from, Math.min(certified, size)))
    before = placed;
  let last = before
    ? certifiedRecordOf(before, certified)
    : { seq: 0, synced: header.end };
  if (!last) {
    const reason = `what stands before offset ${certified} was on stable storage, and is damaged`;
    return damaged(before?.offset ?? header.end, reason, certified);
  }

  // X is the end, or where the first line stands that does not continue the file.
  let end = size;
  for (const placed of linesOf(file, certified, size)) {
    const problem = problemOf(placed, last);
    if (problem !== undefined) {
      end = placed.offset;
      if (isTorn(placed, problem, file, size)) break;
      return damaged(end, problem, certified);
    }
    if (typeof placed.line === "object") last = placed.line;
  }

  return {
    kind: "sound",
    /** The header's UUID. */
    file: uuid,
    /** The last record's, or 0. */
    seq: last.seq,
    /** C, or 0 where nothing certifies the header. */
    certified: last.seq === 0 ? 0 : certified,
    /** X. */
    end,
    /** The last line is whole but for its LF. */
    unterminated: file.read(end - 1, 1)[0] !== lineFeed
  } as const;
}

/** What of a record the next one is to continue. */
export type Position = Pick<DecodedRecord, "seq" | "synced">;

/** Why a line can't stand where it does, if it can't; `last`: the record before, where known. */
export function problemOf(
  { line, text, offset }: PlacedLine,
  last?: Position
): string | undefined {
  if (offset === 0 && text && decodeHeader(text) !== undefined)
    return undefined;
  if (offset === 0) return "expected a plant-store journal's header, version 1";

  if (!text) return `the line has over ${lineBytesMax} bytes`;
  if (text.length === 0) return "the line is blank";
  if (line === "unsound") {
    const isCrlf =
      text.at(-1) === 0x0d && decodeRecord(text.subarray(0, -1)) !== "unsound";
    return isCrlf ? "the line ends in CRLF" : wrongChecksum;
  }
  if (line === "foreign")
    return "the line has a good checksum, but is no record";
  if (!last) return undefined;

  const { seq, synced } = line;
  if (seq !== last.seq + 1) return `expected seq ${last.seq + 1}, found ${seq}`;

  // A line belongs to the write of the one before, or begins a write.
  if (synced === last.synced || synced === offset) return undefined;
  return `synced must be ${last.synced} or ${offset}, found ${synced}`;
}

const wrongChecksum = "the line's checksum is wrong";

/** What FILE.rewrite means: there is none; it is no use any more; the end is written from it. */
function examineCopy(file: Bytes, bytes: Buffer | undefined) {
  const copy = bytes && decodeCopy(bytes);
  // A copy that is not whole was never built upon: the journal's end is still in place.
  if (!copy) return { kind: bytes ? "spent" : "none" } as const;

  const size = file.size();
  const header = decodeHeader(file.read(0, headerBytes - 1));
  if ((header ?? copy.file) !== copy.file || size < copy.offset) {
    return damaged(
      0,
      "its .rewrite is the end of another file: move it beside that, as its .rewrite"
    );
  }

  // One that begins at 0 has the header itself, which the file may have lost.
  if (header === undefined && copy.offset > 0) return damaged(0, noHeader);

  const there = file.read(copy.offset, copy.bytes.length);
  const isBuiltUpon = size > copy.offset + copy.bytes.length;
  if (isBuiltUpon && there.equals(copy.bytes))
    return { kind: "spent" } as const;

  // All that a cut and a write leave, killed or without power: the copy's own bytes, and NULs.
  // Others are records that were acknowledged since, as under another name of the file; where the
  // header is lost, too, none can have been.
  const isLeft =
    header === undefined ||
    there.every((byte, index) => byte === 0 || byte === copy.bytes[index]);

  // Not even bytes that are the same are known to be on stable storage, or the copy's to be. With
  // the old size, a crash has undone the cut.
  if (!isLeft || (isBuiltUpon && size !== copy.size)) {
    return damaged(copy.offset, "it differs from its copy in .rewrite");
  }
  const reason = "an opening was cut short: .rewrite has what follows";
  return { kind: "due", reason, ...copy } as const;
}

/** The file as it is once its end is written anew. */
const withEnd = (file: Bytes, { offset, bytes }: Copy): Bytes => ({
  size: () => offset + bytes.length,
  read: (from, length) =>
    Buffer.concat([
      file.read(from, Math.max(0, Math.min(length, offset - from))),
      bytes.subarray(
        Math.max(0, from - offset),
        Math.max(0, from + length - offset)
      )
    ])
});

/** C, and where a line begins, the last certified one or one before it; no such line: undefined. */
function findCertified(file: Bytes, start: number, size: number) {
  for (let length = windowBytesMin; length <= windowBytesMax; length *= 4) {
    const window = Math.max(start, size - length);
    const from =
      window === start ? start : find(file, lineFeed, window, size) + 1;

    let certified = start;
    for (const { line, isWhole } of linesOf(file, from, size)) {
      if (isWhole && typeof line === "object")
        certified = Math.max(certified, line.synced);
    }
    if (from === start || from < certified) return { from, certified };
  }
  return undefined;
}

/** The record that ends at C and stands behind what it claims; undefined: the line is none. */
function certifiedRecordOf(
  { line, isWhole, offset, end }: PlacedLine,
  certified: number
) {
  const isCertified = isWhole && end === certified;
  return isCertified && typeof line === "object" && line.synced <= offset
    ? line
    : undefined;
}

/** A crash leaves cut ends and NULs, never another bad line. */
function isTorn(
  { line, isWhole, offset }: PlacedLine,
  problem: string,
  file: Bytes,
  size: number
) {
  if (line !== "unsound") return false;
  return (
    !isWhole ||
    (problem === wrongChecksum && find(file, 0, offset, size) < size)
  );
}

/** `certified` is C, or Infinity where nothing tells. */
const damaged = (offset: number, reason: string, certified = Infinity) =>
  ({ kind: "damaged", offset, reason, certified }) as const;
