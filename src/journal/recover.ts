/**
 * What the end of a journal means: sound, torn by a crash, or damaged.
 *
 * Two offsets decide. C, the highest `synced` that a sound line claims: all before it was
 * acknowledged or may have been. X, the first offset from the last certified line on that does
 * not continue the file rightly. A crash can only tear what nobody certified: X >= C.
 */
import { decodeHeader, decodeRecord, headerBytesMax, isPartOfHeader } from "./record.ts";
import type { Line } from "./record.ts";

export interface Bytes {
  size(): number;
  /** Exactly these bytes; fewer only where the file ends. */
  read(offset: number, length: number): Buffer;
}

export type Verdict =
  /** Nothing is there that anybody was told of. */
  | { readonly kind: "new" }
  | {
    readonly kind: "sound";
    /** The header's UUID. */
    readonly file: string;
    /** The last record's; 0: none. */
    readonly seq: number;
    /** C, or 0 where no record certifies the header: from here on only the page cache may hold it. */
    readonly certified: number;
    /** X: where the records end, and what is behind them is torn. */
    readonly end: number;
    /** The last line is whole but for its LF. */
    readonly unterminated: boolean;
  }
  | { readonly kind: "damaged"; readonly offset: number; readonly reason: string };

/** Reads the end of the file only: as fast for a hundred million records as for one. */
export function examine(bytes: Bytes): Verdict {
  const size = bytes.size();
  const head = bytes.read(0, Math.min(size, headerBytesMax + 1));
  if (isPartOfHeader(head)) return { kind: "new" };
  const lf = head.indexOf(lineFeed);
  const file = decodeHeader(lf < 0 ? head : head.subarray(0, lf));
  if (file === undefined) {
    return damaged(0, "expected the header of a plant-store journal, version 1");
  }
  if (lf < 0) return { kind: "sound", file, seq: 0, certified: 0, end: size, unterminated: true };
  const start = lf + 1;
  for (let length = firstBytes; ; length *= 4) {
    const from = Math.max(start, size - length);
    const tail = readTail(bytes.read(from, size - from), from, start);
    if (tail) return judge(tail, file);
    if (length > lastBytes) return damaged(from, "expected a sound record, found none");
  }
}

/** A line, and what is wrong with it where something is. */
interface PlacedLine {
  readonly offset: number;
  readonly bytes: Buffer;
  readonly isWhole: boolean;
  readonly line: Line;
}

interface Tail {
  readonly lines: readonly PlacedLine[];
  /** C */
  readonly certified: number;
  /** Where the first record of the file begins. */
  readonly start: number;
  readonly size: number;
}

const lineFeed = 0x0a;
const carriageReturn = 0x0d;
const firstBytes = 64 * 1024;
const lastBytes = 256 * 1024 * 1024;

/** The lines of the file's end, or undefined when its last certified line is not among them. */
function readTail(bytes: Buffer, from: number, start: number): Tail | undefined {
  const lines: PlacedLine[] = [];
  let at = from === start ? 0 : bytes.indexOf(lineFeed) + 1;
  let certified = start;
  let isClaimed = from === start;
  while (at < bytes.length) {
    const lf = bytes.indexOf(lineFeed, at);
    const text = bytes.subarray(at, lf < 0 ? bytes.length : lf);
    const line = decodeRecord(text);
    lines.push({ offset: from + at, bytes: text, isWhole: lf >= 0, line });
    if (lf >= 0 && typeof line === "object") {
      isClaimed = true;
      certified = Math.max(certified, line.synced);
    }
    at += text.length + 1;
  }
  const reaches = from === start || (lines[0]?.offset ?? Infinity) < certified;
  return isClaimed && reaches
    ? { lines, certified, start, size: from + bytes.length } : undefined;
}

function judge({ lines, certified, start, size }: Tail, file: string): Verdict {
  const last = lines.findLast((line) => line.offset < certified);
  let seq = 0;
  if (last) {
    const end = last.offset + last.bytes.length + 1;
    if (typeof last.line !== "object" || !last.isWhole || end !== certified) {
      return damaged(last.offset, `the records before offset ${certified} were on stable storage`);
    }
    seq = last.line.seq;
  } else if (certified !== start) {
    return damaged(start, `the records before offset ${certified} were on stable storage`);
  }
  for (const placed of lines) {
    const { offset, isWhole, line } = placed;
    if (offset < certified) continue;
    const isNext = typeof line === "object" && line.seq === seq + 1 && line.synced === certified;
    if (isNext) seq++;
    if (isNext && isWhole) continue;
    const reason = isNext ? undefined : damageOf(placed, lines);
    if (reason !== undefined) return damaged(offset, reason);
    return sound(file, seq, certified, isNext ? size : offset, isNext);
  }
  return sound(file, seq, certified, size, false);
}

const sound = (
  file: string, seq: number, certified: number, end: number, unterminated: boolean,
): Verdict =>
  ({ kind: "sound", file, seq, certified: seq === 0 ? 0 : certified, end, unterminated });

/** Why a line was not left by a crash; undefined: it was. Only NULs and cut ends are. */
function damageOf(placed: PlacedLine, lines: readonly PlacedLine[]): string | undefined {
  const { bytes, isWhole, line, offset } = placed;
  if (typeof line === "object") {
    return `the record's seq ${line.seq} or synced ${line.synced} does not continue the file`;
  }
  if (line === "foreign") return "the line has a good checksum, but is no record";
  if (!isWhole) return undefined;
  if (bytes.length === 0) return "the line is blank";
  if (bytes.at(-1) === carriageReturn && decodeRecord(bytes.subarray(0, -1)) !== "unsound") {
    return "the line ends in CRLF";
  }
  const hasNul = lines.some((each) => each.offset >= offset && each.bytes.includes(0));
  return hasNul ? undefined : "the line's checksum is wrong";
}

const damaged = (offset: number, reason: string): Verdict => ({ kind: "damaged", offset, reason });
