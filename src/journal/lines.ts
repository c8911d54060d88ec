/** The lines of a file, with one block or one line of it in memory at a time. */
import type { JournalFile } from "./files.ts";
import {
  decodeHeader,
  decodeRecord,
  lineBytesMax,
  lineFeed,
  type DecodedRecord
} from "./record.ts";

/** The part of a file that reading needs. */
export type Bytes = Pick<JournalFile, "size" | "read">;

export interface Line {
  readonly offset: number;

  /** The offset after its LF, or the end of the file. */
  readonly end: number;

  /** Whether it has its LF. */
  readonly isWhole: boolean;

  /** Without its LF; undefined if it is too long for a line. */
  readonly text: Buffer | undefined;

  /** Undefined if it is not one. */
  readonly record: DecodedRecord | undefined;
  readonly isHeader: boolean | undefined;
}

/** The bytes of one read. */
export const blockBytes = 64 * 1024;

/**
 * Yields the lines from an offset on, at which one begins; the last may have no LF.
 *
 * The lines are views of a block: nothing is copied.
 */
export function* linesOf(
  file: Bytes,
  from: number,
  size: number
): Generator<Line, void> {
  for (let offset = from; offset < size;) {
    const block = file.read(offset, Math.min(blockBytes, size - offset));

    // Another process may truncate the file meanwhile.
    if (block.length === 0) return;

    let start = 0;
    for (;;) {
      const lf = block.indexOf(lineFeed, start);
      if (lf < 0) break;
      const text = block.subarray(start, lf);
      yield lineAt(offset + start, offset + lf, size, text);
      start = lf + 1;
    }
    offset += start;
    if (start > 0) continue;

    // A line longer than a block is read once its end is found, unless it is too long.
    const lf = find(file, "\n", offset + block.length, size);
    const isTooLong = lf - offset >= lineBytesMax;
    const text = isTooLong ? undefined : file.read(offset, lf - offset);
    yield lineAt(offset, lf, size, text);
    offset = lf + 1;
  }
}

/** Returns the line from an offset to its LF, or to the end of a file of this size. */
export function lineAt(
  offset: number,
  lf: number,
  size: number,
  text: Buffer | undefined
): Line {
  const record = text && decodeRecord(text);
  const isHeader = text && !record && decodeHeader(text) !== undefined;
  const end = Math.min(lf + 1, size);
  return { offset, end, isWhole: lf < size, text, record, isHeader };
}

/** Returns the offset of the first such text from an offset on; the given size if there is none. */
export function find(file: Bytes, text: string, from: number, size: number) {
  for (let offset = from; offset < size; offset += blockBytes) {
    // The text may begin in one block and end in the next.
    const length = Math.min(blockBytes + text.length - 1, size - offset);
    const block = file.read(offset, length);
    const index = block.indexOf(text);
    if (index >= 0) return offset + index;
    if (block.length === 0) break;
  }
  return size;
}
