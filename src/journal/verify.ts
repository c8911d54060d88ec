/** Reads a whole journal and reports every damaged spot; opening looks at its end only. */
import { decodeHeader, decodeRecord } from "./record.ts";
import { examine, lineFeed, problemOf, type Bytes } from "./recover.ts";

const spotsMax = 1_000;
const blockBytes = 1024 * 1024;
/** No record: the first continues it. */
const none = { seq: 0, synced: -1 };
/** Reads the file once, from its beginning, in memory that grows with its longest line only.
 * @param isLive a server is writing: what follows the last LF is not looked at
 * @returns counts, the records' first and last time and range of ids, the first 1,000 bad spots
 */
export function verifyJournal(file: Bytes, isLive: boolean) {
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
    records++;
    const { at, plant: { id } } = record;
    const { idMin = id, idMax = id } = seen;
    seen.first ??= at;
    seen.last = at;
    seen.idMin = id < idMin ? id : idMin;
    seen.idMax = id > idMax ? id : idMax;
  };
  let parts: Buffer[] = [];
  for (let read = 0; read < bytes;) {
    const block = file.read(read, Math.min(blockBytes, bytes - read));
    if (block.length === 0) break;
    read += block.length;
    parts.push(block);
    if (!block.includes(lineFeed)) continue;
    const rest = Buffer.concat(parts);
    let at = 0;
    for (let lf = rest.indexOf(lineFeed); lf >= 0; lf = rest.indexOf(lineFeed, at)) {
      const text = rest.subarray(at, lf);
      if (line > 1) checkRecord(text);
      else if (!decodeHeader(text)) report("expected a plant-store journal's header, version 1");
      line++;
      offset += text.length + 1;
      at = lf + 1;
    }
    parts = [rest.subarray(at)];
  }
  const rest = Buffer.concat(parts);
  if (rest.length > 0 && !isLive) {
    const help = examine(file).kind === "damaged" ? "opening refuses it" : "opening mends it";
    report(`the last ${rest.length} bytes are no whole line: ${help}`);
  }
  return { bytes, records, ...seen, spots, spotsTotal };
}
