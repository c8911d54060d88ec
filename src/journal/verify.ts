/** Reads a whole journal and reports every damaged spot; opening looks at its end only. */
import { linesOf, type Bytes } from "./lines.ts";
import { decodeHeader, type DecodedRecord } from "./record.ts";
import { examine, planOpening, problemOf, type Plan, type Position } from "./recover.ts";

/** All are counted, and this many told: a file of another format is damaged in every line. */
const spotsMax = 1_000;

export interface VerifyOptions {
  /** What FILE.anew holds, where there is one. */
  readonly copy?: Buffer | undefined;
  /** A server is writing: nothing is told of an opening, nor of the end that it may still cut. */
  readonly isLive?: boolean;
  /** Told how many bytes of how many are read. */
  readonly onProgress?: Progress;
}

type Progress = (read: number, all: number) => void;

/**
 * Reads the file once, from its beginning, in memory that grows with its longest line only, up to
 * 64 MiB. An end that FILE.anew holds is read from there, as the next opening puts it in place.
 *
 * @returns counts, first and last time, range of ids, what opening does, the first 1,000 spots
 */
export function verifyJournal(found: Bytes, options: VerifyOptions = {}) {
  const { copy, isLive = false, onProgress = () => undefined } = options;
  const plan = isLive ? undefined : planOpening(found, copy);
  const file = plan?.file ?? found;
  const bytes = file.size();
  const certain = isLive ? certifiedIn(found) : Infinity;

  const totals: Totals = { records: 0 };
  const spots: { offset: number; line: number; reason: string }[] = [];
  let spotsTotal = 0;
  let line = 0;
  const report = (offset: number, reason: string): void => {
    spotsTotal++;
    if (spotsTotal <= spotsMax) spots.push({ offset, line, reason });
  };

  // Told where it stands, so that the spots are in the order of the file.
  let copySpot = plan && copySpotOf(plan);

  // The first record continues none: no write begins before the file, and its own is checked.
  let before: Position | undefined = { seq: 0, synced: -1 };
  for (const placed of linesOf(watched(file, bytes, onProgress), 0, bytes)) {
    const { offset, isWhole, text, line: record } = placed;
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

    const problem = problemOf(placed, before);
    if (problem !== undefined && offset >= certain) break;
    if (problem !== undefined) report(offset, problem);

    // Nothing is known of what a good record behind a damaged spot should follow.
    before = typeof record === "object" ? record : undefined;
    if (typeof record === "object") add(totals, record);
  }

  // What FILE.anew says of an end that is not there stands behind the last line.
  line++;
  if (copySpot) report(copySpot.offset, copySpot.reason);
  onProgress(bytes, bytes);
  return { bytes, ...totals, opening: plan && openingOf(plan, bytes), spotsTotal, spots };
}

/** A file that tells how far it is read; one that grows meanwhile keeps its size. */
const watched = (file: Bytes, size: number, onProgress: Progress): Bytes => ({
  size: () => size,
  read(offset, length) {
    const bytes = file.read(offset, length);
    onProgress(offset + bytes.length, size);
    return bytes;
  },
});

/** Where there is no record, there is only their number. */
interface Totals {
  records: number;
  first?: string;
  last?: string;
  idMin?: bigint;
  idMax?: bigint;
}

function add(totals: Totals, { at, id }: DecodedRecord): void {
  const { idMin = id, idMax = id } = totals;
  totals.records++;
  totals.first ??= at;
  totals.last = at;
  totals.idMin = id < idMin ? id : idMin;
  totals.idMax = id > idMax ? id : idMax;
}

/** Beyond this a live server cuts what it had no space for, and writes other lines there. */
function certifiedIn(file: Bytes): number {
  const end = examine(file);
  return end.kind === "new" ? Infinity : end.certified;
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
  const first = copy.kind === "due"
    ? `writes it anew from offset ${copy.offset} as in .anew, then `
    : copy.kind === "spent" ? "removes .anew, then " : "";
  if (verdict.kind === "new") return `${first}makes a new journal`;
  const { end, unterminated } = verdict;
  const isSound = end === bytes && !unterminated;
  return first + (isSound ? "goes on" : `mends it from offset ${end}`);
}
