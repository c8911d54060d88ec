/** The lines of a file, with one block or one line of it in memory at a time. */
import type { JournalFile } from "./files.ts";
import { decodeRecord, lineBytesMax, lineFeed } from "./record.ts";

/** The part of a file that reading needs. */
export type Bytes = Pick<JournalFile, "size" | "read">;

export type Line = ReturnType<typeof lineAt>;

/** The bytes of one read. */
export const blockBytes = 64 * 1024;

/**
 * Yields the lines from an offset on, at which one begins; the last may have no LF.
 *
 * @param decode decodes a line; one that decodes fewer lines is faster. Default: decodes all
 */
export function* linesOf(
  file: Bytes,
  from: number,
  size: number,
  decode: typeof decodeRecord = decodeRecord
): Generator<Line, void> {
  for (let start = from; start < size;) {
    const block = file.read(start, Math.min(blockBytes, size - start));

    // Another process may truncate the file meanwhile.
    if (block.length === 0) return;

    // The lines are views of the block: nothing is copied.
    let index = 0;
    for (let lf; (lf = block.indexOf(lineFeed, index)) >= 0;) {
      const text = block.subarray(index, lf);
      yield lineAt(start + index, start + lf, size, text, decode);
      index = lf + 1;
    }

    // A line longer than a block is read once its end is found, unless it is too long.
    if (index === 0) {
      const lf = find(file, "\n", start + block.length, size);
      const text =
        lf - start < lineBytesMax ? file.read(start, lf - start) : undefined;
      yield lineAt(start, lf, size, text, decode);
      index = lf + 1 - start;
    }
    start += index;
  }
}

/** A line from an offset to its LF, or to the end of a file of this size. */
const lineAt = (
  offset: number,
  lf: number,
  size: number,
  text: Buffer | undefined,
  decode: typeof decodeRecord
) => ({
  offset,

  /** The offset after its LF, or the end of the file. */
  end: Math.min(lf + 1, size),

  /** Whether it has its LF. */
  isWhole: lf < size,

  /** Without its LF; undefined if it is too long for a line. */
  text,

  /** Undefined if it is not one. */
  record: text && decode(text)
});

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
