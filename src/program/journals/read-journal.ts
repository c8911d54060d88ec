/** Opens journals for the commands that read them, also beside a live server. */
import { setTimeout as pause } from "node:timers/promises";
import { checkFlushed } from "../../journal/closed.ts";
import { attempt, JournalError } from "../../journal/error.ts";
import { ifPossible } from "../../failure.ts";
import { openToRead, realDisk } from "../../journal/files.ts";
import { linesOf, type Bytes } from "../../journal/lines.ts";
import { isLocked } from "../../journal/lock.ts";
import { readCopy } from "../../journal/open.ts";
import { refuseCompressed } from "../../journal/recover.ts";
import { planOpening } from "../../journal/rewrite.ts";
import type { VerifyOptions } from "../../journal/verify.ts";
import type { Host } from "../host.ts";

/**
 * What the program puts beside FILE, after that name; `.part` ends the name of each of these, and
 * of an export, while it is written.
 */
const besideForm =
  /^\.(?:lock|lock-[\d-]+-\w+|rewrite|(?:closed|unflushed)-[\d-]+|torn-[\da-f-]+|(?:\S+\.)?part)$/;

/**
 * For how long a bad line must stay the same beside a live server, in milliseconds: longer than a
 * write and a truncation take on a slow disk.
 */
const pauseMillis = 1_000;

/**
 * Returns the files without those that stand beside another of them: a pattern as `FILE*` gives
 * these, too. A file given without its journal is not passed over: no success may mean that nothing
 * was read.
 */
export const withoutBeside = (
  files: readonly string[],
  host: Pick<Host, "warn">
) =>
  files.filter((path) => {
    const journal = files.find(
      (other) =>
        path.startsWith(other) && besideForm.test(path.slice(other.length))
    );
    if (journal !== undefined)
      host.warn(`${path}: passed over: it belongs to ${journal}`);
    return journal === undefined;
  });

/**
 * Opens a journal for a function that reads it, with its copy in FILE.rewrite.
 *
 * Reads every record that was acknowledged before, or fails, whatever other processes do meanwhile.
 *
 * @throws JournalError also for a file that is not regular: a pipe may be endless, or never begin;
 * and for one of which a flush has failed
 */
export async function readJournal<T>(
  path: string,
  { userId }: Pick<Host, "userId">,
  read: (file: Bytes, beside: VerifyOptions) => T
) {
  const stat = realDisk.look(path);
  if (!stat?.isFile)
    throw new JournalError(
      "failed",
      path,
      stat ? "is not a regular file" : "does not exist"
    );
  const resolved = attempt("failed", path, () =>
    realDisk.resolve(path, userId)
  );
  const file = openToRead(resolved);
  try {
    // The notes in a directory that cannot be listed are unknown.
    if (ifPossible(() => realDisk.listBeside(resolved, "")))
      attempt("unreadable", path, () => checkFlushed(realDisk, resolved, file));

    // The open file's identity: a rotation may have put another file at the path since.
    const isOpen = await isLocked(resolved, file.look().identity);

    // A start may truncate the file and write its end again, once, while FILE.rewrite is there. So
    // without a copy, at least one of two sizes around the look for it is not the truncated one.
    const size = file.size();
    const copy = readCopy(realDisk, resolved);
    const snapshot = upTo(Math.max(size, file.size()), file, path);
    attempt("unreadable", path, () => refuseCompressed(snapshot));
    const isSettled = isOpen && (await hasSettledDamage(snapshot, copy));
    return await read(snapshot, { copy, isOpen, isSettled });
  } finally {
    file.close();
  }
}

/**
 * Whether a file that a server writes has a bad whole line at its end that stays the same. Reading
 * beside a truncation and the next write meets one as well, but not twice.
 */
async function hasSettledDamage(file: Bytes, copy: Buffer | undefined) {
  const before = badLineOf(file, copy);
  if (!before) return false;
  await pause(pauseMillis);
  const now = badLineOf(file, copy);
  return now?.end === before.end && `${now.text}` === `${before.text}`;
}

/** Returns the first bad line that an opening would meet, if it is whole. */
function badLineOf(file: Bytes, copy: Buffer | undefined) {
  const { completed, verdict } = planOpening(file, copy);
  const offset =
    verdict.kind === "torn"
      ? verdict.end
      : verdict.kind === "damaged"
        ? verdict.offset
        : completed.size();
  const [line] = linesOf(completed, offset, completed.size());
  return line?.isWhole ? line : undefined;
}

/** Returns a file as it is up to a size; reading throws a JournalError if it has become shorter. */
const upTo = (size: number, file: Bytes, path: string): Bytes => ({
  size: () => size,
  read(offset, length) {
    const bytes = file.read(offset, length);
    if (offset + bytes.length < Math.min(offset + length, size)) {
      const reason = "was truncated while it was read: read it again";
      throw new JournalError("unreadable", path, reason);
    }
    return bytes;
  }
});
