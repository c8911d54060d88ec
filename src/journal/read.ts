/** Reads whole journals, also beside a live server: an opening reads the end alone. */
import { setImmediate } from "node:timers/promises";
import { ifPossible } from "../failure.ts";
import { newPlantOf, type NewPlant } from "../plant.ts";
import { checkFlushed, findClosedMark } from "./closed.ts";
import { asJournalError, attempt, JournalError } from "./error.ts";
import { openToRead, pathOf, realDisk } from "./files.ts";
import { blockBytes, linesOf, type Bytes } from "./lines.ts";
import { isLocked } from "./lock.ts";
import { findFile, readCopy } from "./open.ts";
import type { DecodedRecord } from "./record.ts";
import { lineChecker, noHeader } from "./recover.ts";
import { planOpening, type OpeningPlan } from "./rewrite.ts";

/** A plant as a journal keeps it. */
export interface JournalRecord {
  /** The number of the record in its file: 1, 2, 3 … */
  readonly seq: number;

  /** When the write that holds the record began, RFC 3339, UTC. */
  readonly at: string;

  /** Digest of the client's token and `Idempotency-Key`, if it sent one. */
  readonly key?: string | undefined;
  readonly plant: NewPlant;
}

/**
 * Yields the records that an opening of the journal keeps; a server may have it open. Reads every
 * plant that was acknowledged before the first record is asked for, or throws.
 *
 * @throws JournalError `damaged` for the first damage, after all records; `locked` if another
 * process changed the file meanwhile, and it must be read again
 */
export async function* readJournal(
  location: string | URL
): AsyncGenerator<JournalRecord, void> {
  const path = pathOf(location);
  let pauseOffset = blockBytes;
  for await (const { offset, record } of recordsOf(path)) {
    const { seq, at, key, plant } = record;
    yield { seq, at, key, plant: plantOf(path, offset, plant) };

    // Reading waits for nothing: without a pause, a server in this process would stand still.
    if (offset < pauseOffset) continue;
    pauseOffset = offset + blockBytes;
    await setImmediate();
  }
}

function plantOf(path: string, offset: number, plant: Buffer) {
  try {
    return newPlantOf(plant.toString());
  } catch (error) {
    throw new JournalError("damaged", path, error, offset);
  }
}

/** Yields the records of a file as `recordsIn` does. */
export async function* recordsOf(path: string) {
  const { plan, isOpen, close } = await openWhole(path);
  try {
    yield* recordsIn(path, checkedLines(plan, isOpen));
  } finally {
    close();
  }
}

/**
 * Opens a file, and plans an opening of the journal. Every record that was acknowledged before is in
 * its `checkedLines`, or reading them throws, whatever other processes do.
 *
 * @throws JournalError also for a file that is not regular: a pipe may be endless, or never begin;
 * and for one of which a flush has failed
 */
export async function openWhole(path: string) {
  const { path: resolved } = findFile({ disk: realDisk, path });
  const file = attempt("failed", path, () => openToRead(resolved));
  try {
    // The marks in a directory that cannot be listed are unknown.
    const place = { disk: realDisk, path: resolved };
    if (ifPossible(() => realDisk.listEmpty(resolved, /$/)))
      checkFlushed(place, file);

    // The open file's identity: a rotation may have put another file at the path since.
    const { identity } = file.look();
    const isOpen = await isLocked(resolved, identity);

    // A start may truncate the file and write its end again, once, while FILE.rewrite is there. So
    // without a copy, at least one of two sizes around the look for it is not the truncated one.
    const size = file.size();
    const copy = readCopy(place);
    const bytes = upTo(Math.max(size, file.size()), file, path);
    if (copy && realDisk.look(resolved)?.identity !== identity)
      throw readAgain(path);

    // A server may have written more meanwhile, and closed the file.
    const mark = ifPossible(() => findClosedMark(place, file));
    const isSame = file.size() === bytes.size();
    const plan = planOpening(bytes, copy, isSame ? mark : undefined);
    if (isOpen && plan.verdict.kind === "new") throw readAgain(path);
    return { plan, isOpen, close: () => file.close() };
  } catch (error) {
    file.close();
    throw asJournalError("unreadable", path, error);
  }
}

/** Returns a file as it is up to a size; reading throws a JournalError if it has become shorter. */
const upTo = (size: number, file: Bytes, path: string): Bytes => ({
  size: () => size,
  read(offset, length) {
    const bytes = attempt("unreadable", path, () => file.read(offset, length));
    if (offset + bytes.length < Math.min(offset + length, size))
      throw readAgain(path);
    return bytes;
  }
});

const readAgain = (path: string) =>
  new JournalError("locked", path, "changed while it was read: read it again");

export interface CheckedLine {
  readonly offset: number;
  readonly record?: DecodedRecord | undefined;

  /** What is wrong with the line; undefined for a good one. */
  readonly problem: string | undefined;
}

/**
 * Yields each line that an opening keeps, or all if it refuses the file. The last one may have a
 * problem of the whole file, and no record.
 *
 * Where a server has the file open, a bad line that no line certifies may be one that it writes or
 * truncates, so the lines end there.
 */
export function* checkedLines(
  { completed, verdict }: OpeningPlan,
  isOpen: boolean
): Generator<CheckedLine, void> {
  const certified =
    isOpen && verdict.kind !== "new" ? verdict.certified : undefined;
  const isWritten = (offset: number) => offset >= (certified ?? Infinity);
  const size = verdict.kind === "torn" ? verdict.end : completed.size();
  const check = lineChecker({ areJoined: false });
  let isDamaged = false;
  for (const line of linesOf(completed, 0, size)) {
    const { offset, record } = line;
    const problem = check(line);
    if (problem !== undefined && isWritten(offset)) return;
    isDamaged ||= problem !== undefined;
    yield { offset, record, problem };
  }

  if (isDamaged) return;
  if (verdict.kind === "new") yield { offset: 0, problem: noHeader };
  if (verdict.kind === "damaged" && !isWritten(verdict.offset))
    yield { offset: verdict.offset, problem: verdict.reason };
}

/**
 * Yields the records of lines, also those after a bad line.
 *
 * @throws JournalError `damaged` at the end, for the first bad line
 */
export async function* recordsIn(
  path: string,
  lines: Iterable<CheckedLine> | AsyncIterable<CheckedLine>
) {
  let first: CheckedLine | undefined;
  let badLines = 0;
  for await (const checked of lines) {
    const { record, offset } = checked;
    if (checked.problem !== undefined) {
      first ??= checked;
      badLines++;
    }
    if (record) yield { offset, record };
  }
  if (!first) return;
  const reason = `${first.problem}; bad lines: ${badLines}`;
  throw new JournalError("damaged", path, reason, first.offset);
}
