/** The lines of a file, a block or one line of it in memory at a time, whatever the file holds. */
import type { JournalFile } from "./disk.ts";
import { decodeRecord, lineBytesMax, lineFeed, type Line } from "./record.ts";

export type Bytes = Pick<JournalFile, "size" | "read">;

export interface PlacedLine {
  readonly offset: number;
  /** Behind its LF, or where the file ends. */
  readonly end: number;
  readonly isWhole: boolean;
  /** Without its LF; undefined where it is too long to be a line. */
  readonly text: Buffer | undefined;
  readonly line: Line;
}

const blockBytes = 64 * 1024;
/** The lines from an offset on, at which one begins; the last may have no LF.
 * @param onBlock told up to where the file is read */
export function* linesOf(
  file: Bytes, from: number, size: number, onBlock?: (offset: number) => void,
): Generator<PlacedLine, void> {
  for (let start = from; start < size;) {
    onBlock?.(start);
    const block = file.read(start, Math.min(blockBytes, size - start));
    let at = 0;
    for (let lf = block.indexOf(lineFeed); lf >= 0; lf = block.indexOf(lineFeed, at)) {
      yield placed(start + at, start + lf + 1, true, block.subarray(at, lf));
      at = lf + 1;
    }
    start += at;
    if (at > 0) continue;
    // A longer line is looked for first, and read when it is known to be one.
    const lf = find(file, lineFeed, start + block.length, size, onBlock);
    const textEnd = lf ?? size;
    const isLine = textEnd - start < lineBytesMax;
    const text = isLine ? file.read(start, textEnd - start) : undefined;
    const end = lf === undefined ? size : lf + 1;
    yield placed(start, end, lf !== undefined, text);
    start = end;
  }
}

/** Where a byte stands first, from an offset on; undefined: nowhere. */
export function find(
  file: Bytes, byte: number, from: number, size: number, onBlock?: (offset: number) => void,
): number | undefined {
  for (let offset = from; offset < size; offset += blockBytes) {
    onBlock?.(offset);
    const at = file.read(offset, Math.min(blockBytes, size - offset)).indexOf(byte);
    if (at >= 0) return offset + at;
  }
  return undefined;
}

const placed = (
  offset: number, end: number, isWhole: boolean, text: Buffer | undefined,
): PlacedLine => ({ offset, end, isWhole, text, line: text ? decodeRecord(text) : "unsound" });
