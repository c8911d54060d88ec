/** Reads a whole journal and reports every damaged spot; opening looks at its end only. */
import { linesOf, type Bytes } from "./lines.ts";
import type { DecodedRecord } from "./record.ts";
import { planOpening, problemOf, type Plan, type Position } from "./recover.ts";

/** All are counted, and this many told: a file of another format is damaged in every line. */
const spotsMax = 1_000;

export interface VerifyOptions {
  /** What FILE.rewrite holds, where there is one. */
  readonly copy?: Buffer | undefined;
  /** A server is writing: nothing is told of an opening, nor of the end that it may still cut. */
  readonly isLive?: boolean;
  /** Told how many bytes of how many are read. */
  readonly onProgress?: (read: number, all: number) => void;
}

/**
 * Reads the file once, from its beginning, in memory that grows with its longest line only, up to
 * 64 MiB. An end that FILE.rewrite holds is read from there, as the next opening puts it in place.
 *
 * @returns counts, first and last time, range of ids, what opening does, the first 1,000 spots
 */
export function verifyJournal(
  found: Bytes,
  { copy, isLive, onProgress }: VerifyOptions = {}
) {
  const plan = planOpening(found, copy);
  const { file, end } = plan;
  const size = file.size();

  // Beyond this a live server cuts what it had no space for, and writes other lines there.
  const certain = isLive && end.kind !== "new" ? end.certified : Infinity;

  let records = 0;
  let range: Range | undefined;
  const spots: { offset: number; line: number; reason: string }[] = [];
  let spotsTotal = 0;
  let line = 0;
  const report = (offset: number, reason: string): void => {
    if (++spotsTotal <= spotsMax) spots.push({ offset, line, reason });
  };

  // Told where it stands, so that the spots are in the order of the file.
  let copySpot = "reason" in plan.copy ? plan.copy : undefined;

  // The first record continues none: no write begins before the file, and its own is checked.
  let before: Position | undefined = { seq: 0, synced: -1 };
  for (const placed of linesOf(watched(file, size, onProgress), 0, size)) {
    const { offset, isWhole, line: record } = placed;
    line++;
    if (copySpot && offset >= copySpot.offset) {
      report(copySpot.offset, copySpot.reason);
      copySpot = undefined;
    }

    if (!isWhole) {
      if (!isLive)
        report(
          offset,
          `the last ${placed.end - offset} bytes are no whole line`
        );
      break;
    }
    const problem = problemOf(placed, before);
    if (problem !== undefined && offset >= certain) break;
    if (problem !== undefined) report(offset, problem);
    if (line === 1) continue;

    // Nothing is known of what a good record behind a damaged spot should follow.
    before = typeof record === "object" ? record : undefined;
    if (typeof record !== "object") continue;
    records++;
    range = widened(range ?? rangeOf(record), record);
  }

  // What FILE.rewrite says of an end that is not there stands behind the last line.
  line++;
  if (copySpot) report(copySpot.offset, copySpot.reason);
  const bytes = Math.min(size, file.size());
  onProgress?.(bytes, bytes);
  const opening = isLive ? undefined : openingOf(plan, bytes);
  return { bytes, records, ...range, opening, spotsTotal, spots };
}

/** A file that tells how far it is read; one that grows meanwhile keeps its size. */
const watched = (
  file: Bytes,
  size: number,
  onProgress: VerifyOptions["onProgress"]
): Bytes => ({
  size: () => Math.min(size, file.size()),
  read(offset, length) {
    const bytes = file.read(offset, length);
    onProgress?.(offset + bytes.length, size);
    return bytes;
  }
});

/** The first and the last time, and the range of ids; where there is no record, there is none. */
type Range = ReturnType<typeof rangeOf>;

const rangeOf = ({ at, id }: DecodedRecord) => ({
  first: at,
  last: at,
  idMin: id,
  idMax: id
});

function widened(
  { first, idMin, idMax }: Range,
  { at, id }: DecodedRecord
): Range {
  return {
    first,
    last: at,
    idMin: id < idMin ? id : idMin,
    idMax: id > idMax ? id : idMax
  };
}

/** What an opening does; damage before the end is not its business. */
function openingOf({ copy, end: verdict }: Plan, bytes: number): string {
  if (verdict.kind === "damaged")
    return `refuses it at offset ${verdict.offset}`;
  const first =
    copy.kind === "due"
      ? `writes it anew from offset ${copy.offset} as in .rewrite, then `
      : copy.kind === "spent"
        ? "removes .rewrite, then "
        : "";
  if (verdict.kind === "new") return `${first}makes a new journal`;
  const isSound = verdict.end === bytes && !verdict.unterminated;
  return first + (isSound ? "goes on" : `mends it from offset ${verdict.end}`);
}
