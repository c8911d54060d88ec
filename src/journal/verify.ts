/** Reads a whole journal and reports every damaged spot; opening looks at its end only. */
import { linesOf, type Bytes } from "./lines.ts";
import { decodeHeader } from "./record.ts";
import { certifiedEnd, planOpening, problemOf, type Plan } from "./recover.ts";

const spotsMax = 1_000;
/** No record: the first continues it. */
const none = { seq: 0, synced: -1 };

export interface VerifyOptions {
  /** What FILE.anew holds, where there is one. */
  readonly copy?: Buffer | undefined;
  /** A server is writing: nothing is told of an opening, nor of the end that it may still cut. */
  readonly isLive?: boolean;
  /** Told how many bytes of how many are read. */
  readonly onProgress?: (read: number, all: number) => void;
}

/** Reads the file once, from its beginning, in memory that grows with its longest line only, up to
 * 64 MiB. An end that FILE.anew holds is read from there, as the next opening puts it in place.
 * @returns counts, first and last time, range of ids, what opening does, the first 1,000 spots */
export function verifyJournal(found: Bytes, options: VerifyOptions = {}) {
  const { copy, isLive = false, onProgress } = options;
  const plan = isLive ? undefined : planOpening(found, copy);
  const file = plan?.file ?? found;
  // Beyond this a server cuts what it had no space for, and writes other lines there.
  const certain = isLive ? certifiedEnd(found) : Infinity;
  const bytes = file.size();
  const spots: { offset: number; line: number; reason: string }[] = [];
  let before: typeof none | undefined = none;
  let [line, records, spotsTotal] = [0, 0, 0];
  const seen: { first?: string; last?: string; idMin?: bigint; idMax?: bigint } = {};
  const report = (offset: number, reason: string): void => {
    if (++spotsTotal <= spotsMax) spots.push({ offset, line, reason });
  };
  let copySpot = plan && copySpotOf(plan);
  for (const placed of linesOf(file, 0, bytes, (read) => onProgress?.(read, bytes))) {
    const { offset, text, line: record, isWhole } = placed;
    line++;
    if (copySpot && offset >= copySpot.offset) {
      report(copySpot.offset, copySpot.reason);
      copySpot = undefined;
    }
    if (!isWhole) {
      if (!isLive) report(offset, `the last ${bytes - offset} bytes are no whole line`);
      break;
    }
    if (line === 1) {
      const isHeader = text !== undefined && decodeHeader(text) !== undefined;
      if (!isHeader) report(offset, "expected a plant-store journal's header, version 1");
      continue;
    }
    // Nothing is known of what a good record behind a damaged spot should follow.
    const isHeld = before !== undefined || typeof record === "string";
    const problem = isHeld ? problemOf(placed, before ?? none) : undefined;
    if (problem !== undefined && offset >= certain) break;
    if (problem !== undefined) report(offset, problem);
    before = typeof record === "object" ? record : undefined;
    if (typeof record !== "object") continue;
    const { at, id } = record;
    const { idMin = id, idMax = id } = seen;
    records++;
    seen.first ??= at;
    seen.last = at;
    seen.idMin = id < idMin ? id : idMin;
    seen.idMax = id > idMax ? id : idMax;
  }
  onProgress?.(bytes, bytes);
  line++;
  if (copySpot) report(copySpot.offset, copySpot.reason);
  return { bytes, records, ...seen, opening: plan && openingOf(plan, bytes), spotsTotal, spots };
}

/** What a FILE.anew that is more than a leftover says of the file. */
function copySpotOf({ copy }: Plan): { offset: number; reason: string } | undefined {
  if (copy.kind === "damaged") return copy;
  if (copy.kind !== "due") return undefined;
  return { offset: copy.offset, reason: "an opening was cut short: .anew has what follows" };
}

/** What an opening does; damage before the end is not its business. */
function openingOf({ copy, end: verdict }: Plan, bytes: number): string {
  if (verdict.kind === "damaged") return `refuses it at offset ${verdict.offset}`;
  const first = copy.kind === "due" ? `writes it anew from offset ${copy.offset} as in .anew, then `
    : copy.kind === "spent" ? "removes .anew, then " : "";
  if (verdict.kind === "new") return `${first}makes a new journal`;
  const { end, unterminated } = verdict;
  const isSound = end === bytes && !unterminated;
  return first + (isSound ? "goes on" : `mends it from offset ${end}`);
}
