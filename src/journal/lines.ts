/** The lines of a file, with one block or one line of it in memory at a time. */
import type { JournalFile } from "./files.ts";
import { decodeRecord, lineBytesMax, lineFeed } from "./record.ts";

/** The part of a file that reading needs. */
export type Bytes = Pick<JournalFile, "size" | "read">;

export type Line = ReturnType<typeof lineAt>;

/** The bytes of one read. */
export const blockBytes = 64 * 1024;

/** Yields the lines from an offset on, at which one begins; the last may have no LF. */
export function* linesOf(
  file: Bytes,
  from: number,
  size: number
): Generator<Line, void> {
  for (let start = from; start < size;) {
    const block = file.read(start, Math.min(blockBytes, size - start));

    // Another process may truncate the file meanwhile.
    if (block.length === 0) return;

    // The lines are views of the block: nothing is copied.
    let index = 0;
    for (let lf; (lf = block.indexOf(lineFeed, index)) >= 0;) {
      yield lineAt(start + index, start + lf, size, block.subarray(index, lf));
      index = lf + 1;
    }

    // A line longer than a block is read once its end is found, unless it is too long.
    if (index === 0) {
      const lf = find(file, lineFeed, start + block.length, size);
      const text =
        lf - start < lineBytesMax ? file.read(start, lf - start) : undefined;
      yield lineAt(start, lf, Math.min(size, file.size()), text);
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
  text: Buffer | undefined
) => ({
  offset,

  /** The offset after its LF, or the end of the file. */
  end: Math.min(lf + 1, size),

  /** Whether it has its LF. */
  isWhole: lf < size,

  /** Without its LF; undefined if it is too long for a line. */
  text,
  record: text ? decodeRecord(text) : ("bad checksum" as const)
});

/** Returns the offset of the first such byte from an offset on; the end of the file if none. */
export function find(
  file: Bytes,
  byte: number,
  from: number,
  size: number
): number {
  for (let offset = from; offset < size; offset += blockBytes) {
    const block = file.read(offset, Math.min(blockBytes, size - offset));
    const index = block.indexOf(byte);
    if (index >= 0) return offset + index;
    if (block.length === 0) break;
  }
  return Math.min(size, file.size());
}
