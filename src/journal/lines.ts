/** The lines of a file, a block or one line of it in memory at a time, whatever the file holds. */
import type { JournalFile } from "./disk.ts";
import { decodeRecord, lineBytesMax, lineFeed, type Line } from "./record.ts";

export type Bytes = Pick<JournalFile, "size" | "read">;

export interface PlacedLine {
  readonly offset: number;
  /** Behind its LF, or where the file ends. */
  readonly end: number;
  /** Whether it has its LF. */
  readonly isWhole: boolean;
  /** Without its LF; undefined where it is too long to be a line. */
  readonly text: Buffer | undefined;
  readonly line: Line;
}

/** What one read takes into memory, of a file of any size. */
const blockBytes = 64 * 1024;

/** The lines from an offset on, at which one begins; the last may have no LF. */
export function* linesOf(file: Bytes, from: number, size: number): Generator<PlacedLine, void> {
  for (let start = from; start < size;) {
    const block = file.read(start, Math.min(blockBytes, size - start));

    // Lines are cut out of the block where it is: nothing is copied.
    let index = 0;
    for (let lf = block.indexOf(lineFeed); lf >= 0; lf = block.indexOf(lineFeed, index)) {
      yield placed(start + index, start + lf, start + lf + 1, block.subarray(index, lf));
      index = lf + 1;
    }
    start += index;
    if (index > 0) continue;

    const long = longLine(file, start, start + block.length, size);
    yield long;
    start = long.end;
  }
}

/** A line longer than a block: its end is looked for first, and it is read if it can be a line. */
function longLine(file: Bytes, offset: number, searched: number, size: number): PlacedLine {
  const lf = find(file, lineFeed, searched, size);
  const textEnd = lf ?? size;
  const end = lf === undefined ? size : lf + 1;
  const bytes = textEnd - offset;
  const text = bytes < lineBytesMax ? file.read(offset, bytes) : undefined;
  return placed(offset, textEnd, end, text);
}

function placed(offset: number, textEnd: number, end: number, text?: Buffer): PlacedLine {
  const line = text ? decodeRecord(text) : "unsound";
  return { offset, end, isWhole: textEnd < end, text, line };
}

/** Where a byte stands first, from an offset on; undefined: nowhere. */
export function find(file: Bytes, byte: number, from: number, size: number): number | undefined {
  for (let offset = from; offset < size; offset += blockBytes) {
    const index = file.read(offset, Math.min(blockBytes, size - offset)).indexOf(byte);
    if (index >= 0) return offset + index;
  }
  return undefined;
}
