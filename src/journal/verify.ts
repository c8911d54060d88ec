/** Verifies whole journals. */
import { checkedLines } from "./read.ts";
import type { OpeningPlan } from "./rewrite.ts";

/**
 * Reads a file once, from its beginning; the end that FILE.rewrite holds is read from there.
 *
 * Memory grows with the longest line, up to 64 MiB, not with the file.
 *
 * @param isOpen whether a server has the file open: it may still truncate the end
 * @param onProgress called with the bytes read, and their total
 * @returns the verdict, which is `torn` if an opening repairs all that is wrong; the records that
 * an opening keeps, the times of the first and the last, and what it does; the first damage
 */
export function verifyJournal(
  plan: OpeningPlan,
  isOpen: boolean,
  onProgress: (read: number, all: number) => void
) {
  const bytes = plan.completed.size();
  let lines = 0;
  let records = 0;
  let first: string | undefined;
  let last: string | undefined;
  let badLines = 0;
  let damage: { readonly offset: number; readonly reason: string } | undefined;
  for (const { offset, record, problem } of checkedLines(plan, isOpen)) {
    if (++lines % 1_000 === 0) onProgress(offset, bytes);
    if (problem !== undefined) {
      badLines++;
      damage ??= { offset, reason: problem };
    }
    if (!record) continue;
    records++;
    first ??= record.at;
    last = record.at;
  }
  onProgress(bytes, bytes);
  return {
    verdict: verdictOf(plan, isOpen, damage !== undefined),
    records,
    bytes,
    first,
    last,
    opening: isOpen ? undefined : openingOf(plan),
    isOpen,
    badLines,
    damage
  };
}

/** Returns the verdict. An empty file is no whole journal: a journal has a header. */
function verdictOf(
  { copy, verdict }: OpeningPlan,
  isOpen: boolean,
  isDamaged: boolean
): "empty" | "whole" | "damaged" | "torn" {
  if (verdict.kind === "new") return "empty";
  if (isDamaged) return "damaged";

  // A live server completes its write, or truncates it.
  const isLeft = verdict.kind === "clean" && copy.kind !== "pending";
  return isOpen || isLeft ? "whole" : "torn";
}

/** Says what an opening does; damage before the end does not matter to it. */
function openingOf({ copy, verdict }: OpeningPlan) {
  if (verdict.kind === "damaged")
    return `refuses it at offset ${verdict.offset}`;
  if (verdict.kind === "new") return "creates a new journal";
  if (copy.kind === "pending")
    return `rewrites it from offset ${copy.offset} as in .rewrite`;
  return verdict.kind === "clean"
    ? "uses it as it is"
    : `repairs it from offset ${verdict.end}`;
}
