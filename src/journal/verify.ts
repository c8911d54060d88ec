/** Verifies a whole journal: reports every damaged spot, while opening looks at the end alone. */
import { linesOf, type Bytes } from "./lines.ts";
import { plantIn, type DecodedRecord } from "./record.ts";
import { describeUnfinished, lineChecker } from "./recover.ts";
import { planOpening, type OpeningPlan } from "./rewrite.ts";

/** The most spots listed; more are only counted: in a file of another format every line is one. */
const spotsMax = 1_000;

export interface VerifyOptions {
  /** The bytes of FILE.rewrite, if there is one. */
  readonly copy?: Buffer | undefined;

  /** Whether a server has the file open: its end may still be truncated, and is not reported. */
  readonly isOpen?: boolean;

  /** Whether the first bad line of that end stayed the same for a while: it is damage, then. */
  readonly isSettled?: boolean;

  /** Called with the bytes read, and their total. */
  readonly onProgress?: (read: number, all: number) => void;
}

/**
 * Reads a file once, from its beginning; the end that FILE.rewrite holds is read from there.
 *
 * Memory grows with the longest line, up to 64 MiB, not with the file.
 *
 * @returns counts, first and last time, range of ids, what opening does, the first 1,000 spots, and
 * the verdict: `torn` if opening repairs every spot
 */
export function verifyJournal(
  file: Bytes,
  { copy, isOpen = false, isSettled, onProgress }: VerifyOptions = {}
) {
  const plan = planOpening(file, copy);
  const { completed, verdict } = plan;

  // A server that has a file without a header open is still creating the journal.
  const isWritten = isOpen && verdict.kind !== "new";

  // After this offset a live server may still truncate a write that failed, and write other lines.
  const certifiedEnd = isWritten && !isSettled ? verdict.certified : undefined;
  const { range, badOffset, ...spots } = readLines(
    plan,
    isWritten,
    certifiedEnd,
    onProgress
  );

  // An opening repairs what is torn. It leaves every bad line before that.
  const tornOffset =
    !isWritten && verdict.kind === "torn" ? verdict.end : Infinity;
  const isDamaged = verdict.kind === "damaged" || badOffset < tornOffset;
  return {
    bytes: completed.size(),
    records: 0,
    ...range,
    opening: isWritten ? undefined : openingOf(plan),
    ...spots,
    verdict: verdictOf(plan, spots.spotsTotal, isDamaged)
  };
}

/** Reads the lines. Returns counts, spots, and the offset of the first bad whole line. */
function readLines(
  plan: OpeningPlan,
  isWritten: boolean,
  certifiedEnd = Infinity,
  onProgress?: VerifyOptions["onProgress"]
) {
  const { completed } = plan;
  const size = completed.size();
  let range: Range | undefined;
  let badOffset = Infinity;
  const spots: { offset: number; line: number; reason: string }[] = [];
  let spotsTotal = 0;
  let line = 0;
  const report = (offset: number, reason: string) => {
    if (++spotsTotal <= spotsMax) spots.push({ offset, line, reason });
  };

  // Reported at its offset, so that the spots are in the order of the file.
  let copySpot = spotOf(plan, isWritten);

  const check = lineChecker({ areJoined: false });
  for (const next of linesOf(completed, 0, size)) {
    const { offset, isWhole, text, record } = next;
    if (++line % 1_000 === 0) onProgress?.(offset, size);
    if (copySpot && offset >= copySpot.offset) {
      report(copySpot.offset, copySpot.reason);
      copySpot = undefined;
    }

    if (!isWhole && isWritten) break;
    const problem = isWhole
      ? check(next)
      : describeUnfinished(next.end - offset);
    if (problem !== undefined) {
      if (offset >= certifiedEnd) break;
      report(offset, problem);
      if (isWhole) badOffset = Math.min(badOffset, offset);
    }

    // A record that lacks only its LF is one: an opening keeps it.
    if (text && record) range = widened(record, idOf(text), range);
  }

  // The copy may belong after the end of the file.
  line++;
  if (copySpot) report(copySpot.offset, copySpot.reason);
  onProgress?.(size, size);
  return { range, badOffset, spotsTotal, spots };
}

/** Returns the verdict. An empty file is no whole journal: a journal has a header. */
function verdictOf(
  { verdict }: OpeningPlan,
  spotsTotal: number,
  isDamaged: boolean
): "empty" | "whole" | "damaged" | "torn" {
  if (verdict.kind === "new") return "empty";
  if (spotsTotal === 0) return "whole";
  return isDamaged ? "damaged" : "torn";
}

/** Returns what is wrong with the copy. Beside a live server, a start is using a pending copy. */
const spotOf = ({ copy }: OpeningPlan, isWritten: boolean) =>
  copy.kind === "damaged" || (copy.kind === "pending" && !isWritten)
    ? copy
    : undefined;

/** The number of records, first and last time, and the range of the ids that could be read. */
type Range = ReturnType<typeof widened>;

const widened = (
  { at }: DecodedRecord,
  id: bigint | undefined,
  { records, first, idMin, idMax } = {
    records: 0,
    first: at,
    idMin: id,
    idMax: id
  }
) => ({
  records: records + 1,
  first,
  last: at,
  idMin: id !== undefined && id < (idMin ?? id + 1n) ? id : idMin,
  idMax: id !== undefined && id > (idMax ?? id - 1n) ? id : idMax
});

/** Returns the id of the plant in a line; undefined if the plant does not begin with an integer. */
function idOf(line: Buffer) {
  const start = plantIn(line).toString("latin1", 0, 32);
  const [, id] = /^{"id":(-?\d+),/.exec(start) ?? [];
  return id === undefined ? undefined : BigInt(id);
}

/** Says what an opening does; damage before the end does not matter to it. */
function openingOf({ copy, verdict }: OpeningPlan) {
  if (verdict.kind === "damaged")
    return `refuses it at offset ${verdict.offset}`;
  const first =
    copy.kind === "pending"
      ? `rewrites it from offset ${copy.offset} as in .rewrite, then `
      : copy.kind === "stale"
        ? "removes .rewrite, then "
        : "";
  if (verdict.kind === "new") return `${first}creates a new journal`;
  return (
    first +
    (verdict.kind === "clean"
      ? "uses it as it is"
      : verdict.kind === "unterminated"
        ? "adds the LF that its last line lacks"
        : `repairs it from offset ${verdict.end}`)
  );
}
