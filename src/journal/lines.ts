/** The lines of a file, a block or one line of it in memory at a time, whatever the file holds. */
import type { JournalFile } from "./files.ts";
import { decodeRecord, lineBytesMax, lineFeed } from "./record.ts";

export type Bytes = Pick<JournalFile, "size" | "read">;

export type PlacedLine = ReturnType<typeof placed>;

/** What one read takes into memory, of a file of any size. */
const blockBytes = 64 * 1024;

/** The lines from an offset on, at which one begins; the last may have no LF. */
export function* linesOf(
  file: Bytes,
  from: number,
  size: number
): Generator<PlacedLine, void> {
  for (let start = from; start < size;) {
    const block = file.read(start, Math.min(blockBytes, size - start));

    // Another process may truncate the file meanwhile.
    if (block.length === 0) return;

    // Lines are cut out of the block where it is: nothing is copied.
    let index = 0;
    for (
      let lf = block.indexOf(lineFeed);
      lf >= 0;
      lf = block.indexOf(lineFeed, index)
    ) {
      yield placed(start + index, start + lf, size, block.subarray(index, lf));
      index = lf + 1;
    }

    // A line longer than a block: its end is looked for, and it is read if it can be a line.
    if (index === 0) {
      const lf = find(file, lineFeed, start + block.length, size);
      const text =
        lf - start < lineBytesMax ? file.read(start, lf - start) : undefined;
      yield placed(start, lf, Math.min(size, file.size()), text);
      index = lf + 1 - start;
    }
    start += index;
  }
}

/** A line, from an offset to its LF, or to the end of the file, which `size` is. */
const placed = (
  offset: number,
  lf: number,
  size: number,
  text: Buffer | undefined
) => ({
  offset,
  /** Behind its LF, or where the file ends. */
  end: Math.min(lf + 1, size),
  /** Whether it has its LF. */
  isWhole: lf < size,
  /** Without its LF; undefined where it is too long to be a line. */
  text,
  line: text ? decodeRecord(text) : ("unsound" as const)
});

/** Where a byte stands first, from an offset on; `size`, or where the file ends by now: it stands nowhere. */
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
