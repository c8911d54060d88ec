/**
 * What the end of a journal means: sound, torn by a crash, or damaged.
 *
 * Two offsets decide. C, the highest `synced` that a sound line claims: all before it was on
 * stable storage. X, the first offset from the last certified line on that does not continue the
 * file rightly. A crash can only tear what nobody certified: X >= C.
 */
import { decodeHeader, decodeRecord, headerBytesMax, isPartOfHeader, type Line } from "./record.ts";

export interface Bytes {
  size(): number;
  /** Exactly these bytes; fewer only where the file ends. */
  read(offset: number, length: number): Buffer;
}

export type Verdict =
  /** Nothing is there that anybody was told of. */
  | { readonly kind: "new" }
  | { readonly kind: "damaged"; readonly offset: number; readonly reason: string }
  | {
    readonly kind: "sound";
    /** The header's UUID. */
    readonly file: string;
    /** The last record's number; 0: none. */
    readonly seq: number;
    /** C, or 0 where no record certifies the header: from here on only a cache may hold it. */
    readonly certified: number;
    /** X: what is behind it is torn. */
    readonly end: number;
    /** The last line is whole but for its LF. */
    readonly unterminated: boolean;
  };

const lineFeed = 0x0a;
const windowBytesMin = 64 * 1024;
const windowBytesMax = 256 * 1024 * 1024;

/** Reads the end of the file only: as fast for a hundred million records as for one. */
export function examine(bytes: Bytes): Verdict {
  const size = bytes.size();
  const head = bytes.read(0, Math.min(size, headerBytesMax + 1));
  if (isPartOfHeader(head)) return { kind: "new" };
  const lf = head.indexOf(lineFeed);
  const file = decodeHeader(lf < 0 ? head : head.subarray(0, lf));
  if (file === undefined) return damaged(0, "expected a plant-store journal's header, version 1");
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

/** Walks records and tells what does not continue the file. */
export class Chain {
  seq: number;
  #synced: number;
  constructor(seq: number, synced: number) {
    this.seq = seq;
    this.#synced = synced;
  }

  /** Why a line can't stand at this offset; undefined: it does, and the chain goes on behind it. */
  problem(line: Line, bytes: Buffer, offset: number): string | undefined {
    if (line === "foreign") return "the line has a good checksum, but is no record";
    if (line === "unsound") return bytes.length === 0 ? "the line is blank" : badChecksum(bytes);
    const { seq, synced } = line;
    if (seq !== this.seq + 1) return `expected seq ${this.seq + 1}, found ${seq}`;
    if (synced !== this.#synced && synced !== offset) {
      return `synced must be ${this.#synced} or ${offset}, found ${synced}`;
    }
    this.goOn(seq, synced);
    return undefined;
  }

  goOn(seq: number, synced: number): void {
    this.seq = seq;
    this.#synced = synced;
  }
}

const wrongChecksum = "the line's checksum is wrong";

const badChecksum = (bytes: Buffer): string =>
  bytes.at(-1) === 0x0d && decodeRecord(bytes.subarray(0, -1)) !== "unsound"
    ? "the line ends in CRLF" : wrongChecksum;

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
  const last = lines.findLast(({ offset }) => offset < certified);
  const isSound = last === undefined || (last.isWhole && typeof last.line === "object");
  if (!isSound || (last ? last.offset + last.bytes.length + 1 : start) !== certified) {
    const reason = `what stands before offset ${certified} was on stable storage, and is damaged`;
    return damaged(last?.offset ?? start, reason);
  }
  const { seq, synced } = typeof last?.line === "object" ? last.line : { seq: 0, synced: start };
  const chain = new Chain(seq, synced);
  const sound = (end: number, unterminated: boolean): Verdict => ({
    kind: "sound", file, seq: chain.seq, certified: chain.seq === 0 ? 0 : certified,
    end, unterminated,
  });
  for (const { line, bytes, offset, isWhole } of lines) {
    if (offset < certified) continue;
    const problem = chain.problem(line, bytes, offset);
    if (problem === undefined && isWhole) continue;
    if (problem === undefined) return sound(size, true);
    // A crash leaves cut ends and NULs, never another bad line.
    const hasNul = lines.some((each) => each.offset >= offset && each.bytes.includes(0));
    const isTorn = line === "unsound" && (!isWhole || (problem === wrongChecksum && hasNul));
    return isTorn ? sound(offset, false) : damaged(offset, problem);
  }
  return sound(size, false);
}

const damaged = (offset: number, reason: string): Verdict => ({ kind: "damaged", offset, reason });
