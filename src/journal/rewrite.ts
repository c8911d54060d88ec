/**
 * The rewrite copy, FILE.rewrite: the journal's end, kept durably while opening rewrites that end.
 *
 *   copy = CRC SP {"rewrite":UUID,"offset":N,"size":N} LF bytes
 *
 * CRC     of everything after its SP
 * UUID    the journal's, from its header
 * offset  where the bytes stand in the journal
 * size    of the journal before it was rewritten
 *
 * After a crash, lines that no later line certifies may exist only in the page cache, and a
 * retried flush reports success for lost pages. So opening rewrites them: it makes the copy
 * durable, truncates the journal at `offset`, appends the bytes durably, and removes the copy.
 * If opening is killed, the next one finds the copy:
 *
 *   stale    it is not whole, or the journal has grown beyond it: it is removed
 *   pending  the journal has a part of its bytes: the rewrite is finished
 *   damaged  it is another journal's, or the journal has other records in its place
 */
import { crc32 } from "node:zlib";
import type { ClosedMark } from "./closed.ts";
import type { Bytes } from "./lines.ts";
import { decodeHeader, headerBytes, writeDigits } from "./record.ts";
import {
  damaged,
  damagedBefore,
  examine,
  noHeader,
  windowBytesMax
} from "./recover.ts";

export type OpeningPlan = ReturnType<typeof planOpening>;

export interface Copy {
  /** The UUID of the journal. */
  readonly file: string;

  /** Where the bytes stand in the journal. */
  readonly offset: number;

  /** The size of the journal before it was rewritten. */
  readonly size: number;
  readonly bytes: Buffer;
}

type ExaminedCopy =
  | { readonly kind: "none" | "stale" }
  | ReturnType<typeof damaged>
  | (Copy & { readonly kind: "pending" });

/** The most bytes of a copy: an end, as long as opening reads one, and the copy's first line. */
export const copyBytesMax = windowBytesMax + 1024;

export const copyPath = (path: string) => `${path}.rewrite`;

/**
 * Plans an opening: what it does with the copy, then with the end of the file that results.
 *
 * Only reads, so that `verify` can report the plan.
 *
 * @param file the journal as it is
 * @param copyBytes the copy, if there is one
 * @param mark what is known of it since it was closed
 * @returns also the journal as it will be once a pending rewrite is completed, and as it will be
 * left once its end is repaired
 */
export function planOpening(
  file: Bytes,
  copyBytes: Buffer | undefined,
  mark?: ClosedMark
) {
  const copy = examineCopy(file, copyBytes);
  const completed = copy.kind === "pending" ? withEnd(file, copy) : file;
  const verdict = copy.kind === "damaged" ? copy : examine(completed);
  const repair = checkRepair(completed, verdict);
  return { copy, completed, ...checkMark(completed, repair, mark) };
}

/**
 * Examines what an opening would leave of a file: that must be clean.
 *
 * A torn write may have the only line that certifies the lines before it. Once it is truncated,
 * damage among them would look torn, and the next opening would truncate them, too.
 */
function checkRepair(file: Bytes, verdict: ReturnType<typeof examine>) {
  if (verdict.kind !== "torn") return { verdict, left: file };

  const { end, certified } = verdict;
  const bytes = Buffer.from(end < file.size() ? "" : "\n");
  const left = withEnd(file, { offset: end, bytes });
  const after = examine(left);
  if (after.kind === "clean") return { verdict, left };

  const offset =
    "end" in after ? after.end : "offset" in after ? after.offset : end;
  const reason = damagedBefore(certified);
  return { verdict: damaged(offset, reason, certified), left: file };
}

/** Refuses a file that has lost what its process closed: its end was clean, and all was durable. */
function checkMark(
  file: Bytes,
  repair: ReturnType<typeof checkRepair>,
  mark: ClosedMark | undefined
) {
  const { verdict } = repair;
  const size = file.size();
  if (!mark || verdict.kind === "damaged") return repair;
  if (mark.bytes > size) {
    const reason =
      `a server closed it with ${mark.bytes} bytes, found ${size}: ` +
      `to go on with what is left, remove ${mark.path}`;
    return { verdict: damaged(size, reason), left: file };
  }
  if (!mark.isCurrent || verdict.kind === "clean") return repair;
  const offset = verdict.kind === "new" ? 0 : verdict.end;
  return { verdict: damaged(offset, damagedBefore(size)), left: file };
}

function examineCopy(file: Bytes, bytes: Buffer | undefined): ExaminedCopy {
  const copy = bytes && decodeCopy(bytes);
  // Nothing was truncated before the copy was whole: the journal still has its end.
  if (!copy) return { kind: bytes ? "stale" : "none" };

  const size = file.size();
  const header = decodeHeader(file.read(0, headerBytes - 1));
  if ((header ?? copy.file) !== copy.file || size < copy.offset) {
    return damaged(
      0,
      "its .rewrite is the end of another file: move it beside that, as its .rewrite"
    );
  }

  // A copy that begins at 0 has the header itself, which the file may have lost.
  if (header === undefined && copy.offset > 0) return damaged(0, noHeader);

  const there = file.read(copy.offset, copy.bytes.length);
  const hasGrown = size > copy.offset + copy.bytes.length;
  if (hasGrown && there.equals(copy.bytes)) return { kind: "stale" };

  // A truncation or a write that was interrupted leaves bytes of the copy, NULs, or a part of an
  // earlier header. Any other bytes are a foreign file's, or records that were acknowledged later,
  // perhaps under another name of the file.
  const isLeftover =
    examine(file).kind === "new" ||
    there.every((byte, index) => byte === 0 || byte === copy.bytes[index]);

  // Equal bytes may be in the page cache alone, so they are written again. A crash can undo the
  // truncation: then the file has its old size.
  if (!isLeftover || (hasGrown && size !== copy.size)) {
    return damaged(copy.offset, "it differs from its copy in .rewrite");
  }
  return { kind: "pending", ...copy };
}

/** The file as it will be once its end is rewritten. */
const withEnd = (
  file: Bytes,
  { offset, bytes }: Pick<Copy, "offset" | "bytes">
): Bytes => ({
  size: () => offset + bytes.length,
  read(from, length) {
    const start = Math.max(0, from - offset);
    const end = Math.max(0, from + length - offset);
    const before = file.read(from, length - (end - start));
    return Buffer.concat([before, bytes.subarray(start, end)]);
  }
});

export function encodeCopy({ file, offset, size, bytes }: Copy): Buffer {
  const start = `00000000 {"rewrite":"${file}","offset":${offset},"size":${size}}\n`;
  const copy = Buffer.concat([Buffer.from(start), bytes]);
  writeDigits(copy, 0, crc32(copy.subarray(9)));
  return copy;
}

const copyForm =
  /^[\da-f]{8} \{"rewrite":"([\da-f-]{36})","offset":(\d+),"size":(\d+)\}\n/;

/** Returns undefined if the copy is not whole. */
function decodeCopy(bytes: Buffer) {
  const [head, file = "", offset, size] =
    copyForm.exec(bytes.toString("latin1", 0, 160)) ?? [];
  if (head === undefined) return undefined;
  const copy = {
    file,
    offset: Number(offset),
    size: Number(size),
    bytes: bytes.subarray(head.length)
  };
  return encodeCopy(copy).equals(bytes) ? copy : undefined;
}
