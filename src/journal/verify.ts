/** Reads a whole journal and reports every damaged spot; opening looks at its end only. */
import { decodeHeader, decodeRecord } from "./record.ts";
import { Chain, examine, type Bytes } from "./recover.ts";

/** `line` is counted from 1, the header's. */
export type Spot = { readonly offset: number; readonly line: number; readonly reason: string };

const spotsMax = 1_000;
const blockBytes = 1024 * 1024;
const lineFeed = 0x0a;

/**
 * Reads the file once, from its beginning, in memory that does not grow with it.
 * @param isLive a server is writing: what follows the last LF is not looked at
 * @param onProgress told now and then how many bytes were read
 * @returns counts, the first and the last record's time, the ids' range, and the first 1,000 spots
 */
export function verifyJournal(file: Bytes, isLive: boolean, onProgress: (bytes: number) => void) {
  const bytes = file.size();
  const chain = new Chain(0, 0);
  const spots: Spot[] = [];
  let [offset, line, records, spotsTotal] = [0, 1, 0, 0];
  let [first, last, idMin, idMax]: [string?, string?, bigint?, bigint?] = [];
  const report = (reason: string): void => {
    if (++spotsTotal <= spotsMax) spots.push({ offset, line, reason });
  };
  const checkRecord = (text: Buffer): void => {
    const record = decodeRecord(text);
    const problem = chain.problem(record, text, offset);
    if (problem !== undefined) report(problem);
    if (typeof record !== "object") return;
    // What follows a damaged spot is held against the next good record.
    chain.goOn(record.seq, record.synced);
    records++;
    const { at, plant: { id } } = record;
    first ??= at;
    last = at;
    idMin = idMin === undefined || id < idMin ? id : idMin;
    idMax = idMax === undefined || id > idMax ? id : idMax;
  };
  let rest: Buffer = Buffer.alloc(0);
  for (let read = 0; read < bytes;) {
    const block = file.read(read, Math.min(blockBytes, bytes - read));
    if (block.length === 0) break;
    read += block.length;
    rest = Buffer.concat([rest, block]);
    let at = 0;
    for (let lf = rest.indexOf(lineFeed); lf >= 0; lf = rest.indexOf(lineFeed, at)) {
      const text = rest.subarray(at, lf);
      if (line > 1) checkRecord(text);
      else if (!decodeHeader(text)) report("expected a plant-store journal's header, version 1");
      line++;
      offset += text.length + 1;
      at = lf + 1;
    }
    rest = rest.subarray(at);
    onProgress(read);
  }
  if (rest.length > 0 && !isLive) {
    const help = examine(file).kind === "damaged" ? "opening refuses it" : "opening mends it";
    report(`the last ${rest.length} bytes are no whole line: ${help}`);
  }
  return { bytes, records, first, last, idMin, idMax, spots, spotsTotal };
}
