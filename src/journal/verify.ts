/** Reads a whole journal and reports every damaged spot; opening looks at its end only. */
import { decodeHeader, decodeRecord, lineFeed } from "./record.ts";
import { examine, problemOf, type Bytes, type Verdict } from "./recover.ts";

const spotsMax = 1_000;
const blockBytes = 64 * 1024;
/** No record: the first continues it. */
const none = { seq: 0, synced: -1 };
/** Reads the file once, from its beginning, in memory that grows with its longest line only.
 * @param isLive a server is writing: what follows the last LF is not looked at
 * @param onProgress told how many bytes of how many are read
 * @returns counts, first and last time, range of ids, what opening does, the first 1,000 spots */
export function verifyJournal(
  file: Bytes, isLive: boolean, onProgress: (read: number, all: number) => void = () => undefined,
) {
  const bytes = file.size();
  const spots: { offset: number; line: number; reason: string }[] = [];
  let before: typeof none | undefined = none;
  let [offset, line, records, spotsTotal] = [0, 1, 0, 0];
  const seen: { first?: string; last?: string; idMin?: bigint; idMax?: bigint } = {};
  const report = (reason: string): void => {
    if (++spotsTotal <= spotsMax) spots.push({ offset, line, reason });
  };
  const checkRecord = (text: Buffer): void => {
    const record = decodeRecord(text);
    // Nothing is known of what a good record behind a damaged spot should follow.
    const isHeld = before !== undefined || typeof record === "string";
    const problem = isHeld ? problemOf(record, text, offset, before ?? none) : undefined;
    if (problem !== undefined) report(problem);
    before = typeof record === "object" ? record : undefined;
    if (typeof record !== "object") return;
    const { at, id } = record;
    const { idMin = id, idMax = id } = seen;
    records++;
    seen.first ??= at;
    seen.last = at;
    seen.idMin = id < idMin ? id : idMin;
    seen.idMax = id > idMax ? id : idMax;
  };
  for (let length = blockBytes, isEnd = !bytes; !isEnd; onProgress(isEnd ? bytes : offset, bytes)) {
    const block = file.read(offset, Math.min(length, bytes - offset));
    isEnd = block.length < Math.min(length, bytes - offset) || offset + block.length >= bytes;
    // What follows the last LF is read again with the next block; a long line needs a longer one.
    length = block.includes(lineFeed) ? blockBytes : 2 * length;
    for (let at = 0, lf = block.indexOf(lineFeed); lf >= 0; lf = block.indexOf(lineFeed, at)) {
      const text = block.subarray(at, lf);
      if (line > 1) checkRecord(text);
      else if (!decodeHeader(text)) report("expected a plant-store journal's header, version 1");
      line++;
      offset += lf + 1 - at;
      at = lf + 1;
    }
  }
  if (offset < bytes && !isLive) report(`the last ${bytes - offset} bytes are no whole line`);
  const opening = isLive ? undefined : openingOf(examine(file), bytes);
  return { bytes, records, ...seen, opening, spotsTotal, spots };
}

/** What an opening does; damage before the end is not its business. */
function openingOf(verdict: Verdict, bytes: number): string {
  if (verdict.kind === "new") return "makes a new journal";
  if (verdict.kind === "damaged") return `refuses it at offset ${verdict.offset}`;
  const { end, unterminated } = verdict;
  return end === bytes && !unterminated ? "goes on" : `mends it from offset ${end}`;
}
