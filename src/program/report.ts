/** Reads journals; `verify` reports on them, as text for people and as JSON for programs. */
import { openToRead, realDisk } from "../journal/files.ts";
import { JournalError } from "../journal/error.ts";
import type { Bytes } from "../journal/lines.ts";
import { isLocked } from "../journal/lock.ts";
import { readCopy } from "../journal/rewrite.ts";
import { verifyJournal, type VerifyOptions } from "../journal/verify.ts";
import { exitCodes } from "../store.ts";
import { reportError } from "./exit.ts";
import type { Host } from "./host.ts";

type Report = ReturnType<typeof verifyJournal>;

/** Called with the number of bytes or records that are done, and with that of all. */
export type OnProgress = (done: number, all: number) => void;

/**
 * Reports on each file. Resolves with the exit code of damage if any file is damaged, else with the
 * code of the first file that could not be read, if there is one.
 */
export async function verify(
  files: readonly string[],
  isJson: boolean,
  host: Host
) {
  const format = isJson ? jsonOf : textOf;
  const codes: number[] = [];
  for (const path of files) {
    // A file that cannot be read does not keep the others from being read.
    const report = await reportOn(path, host).catch((error: unknown) =>
      reportError(error, host)
    );
    if (typeof report === "number") codes.push(report);
    else {
      // A report that cannot be printed ends the command.
      await host.print(format(path, report));
      if (report.spots[0]) codes.push(exitCodes.damaged);
    }
  }
  return codes.includes(exitCodes.damaged) ? exitCodes.damaged : codes[0];
}

/** Verifies a journal. */
export const reportOn = (path: string, host: Host) =>
  readJournal(path, (file, found) =>
    verifyJournal(file, { ...found, onProgress: progressOf(path, host) })
  );

/**
 * Opens a journal for a function that reads it, with its copy in FILE.rewrite.
 *
 * What was acknowledged before is read, or reading fails, whatever starts or truncates meanwhile.
 *
 * @throws JournalError also for a file that is not regular: a pipe may be endless, or never begin
 */
export async function readJournal<T>(
  path: string,
  read: (file: Bytes, found: VerifyOptions) => T
) {
  const found = realDisk.look(path);
  if (found?.isFile !== true)
    throw new JournalError(
      "failed",
      path,
      found ? "is not a regular file" : "does not exist"
    );
  const resolved = realDisk.resolve(path);
  const file = openToRead(resolved);
  try {
    // The open file's identity: a rotation may have put another file at the path since.
    const isLive = await isLocked(resolved, file.look().identity);
    // A start may truncate the file and write its end again, once, while FILE.rewrite is there. So
    // without a copy, at least one of two sizes around the look for it is not the truncated one.
    const size = file.size();
    const copy = readCopy(realDisk, resolved);
    const whole = fixed(file, path, Math.max(size, file.size()));
    if (whole.read(0, 2).toString("hex") === "1f8b")
      throw new JournalError(
        "unreadable",
        path,
        'is compressed: use "gzip -dc FILE | plant-store cat -"'
      );
    return await read(whole, { copy, isLive });
  } finally {
    file.close();
  }
}

/** Returns a file as it is up to a size; reading throws a JournalError if it has become shorter. */
const fixed = (file: Bytes, path: string, size: number): Bytes => ({
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

/**
 * Returns a function that draws a progress bar on a terminal, and nothing elsewhere. It draws only
 * changes: a journal of gigabytes has many more blocks than the bar has cells.
 */
export function progressOf(path: string, host: Host): OnProgress {
  const cells = 25;
  let drawn = "";
  return (done, all) => {
    const full = "#".repeat((cells * done) / all);
    const bar = done < all ? `${path} [${full.padEnd(cells, ".")}]` : "";
    if (bar !== drawn && host.stderr.isTTY) host.stderr.write(`\r${bar}\x1b[K`);
    drawn = bar;
  };
}

/** Returns one line of JSON. Its ids are strings: many readers round numbers beyond 2^53. */
const jsonOf = (path: string, report: Report) =>
  JSON.stringify({ path, ...report }, (_, value: unknown) =>
    typeof value === "bigint" ? `${value}` : value
  );

/** Returns lines that begin with the path, for grep. */
function textOf(path: string, { spots, ...totals }: Report) {
  const { opening, spotsTotal } = totals;

  // What opening repairs is the last spot.
  const isTorn =
    opening?.startsWith("repairs") &&
    (spotsTotal === 1 || opening.endsWith(` ${spots[0]?.offset}`));
  const verdict =
    spotsTotal === 0
      ? "whole"
      : isTorn
        ? "torn: opening repairs it"
        : `damaged, spots: ${spotsTotal}`;
  const holder = opening === undefined ? "; a server has it open" : "";

  const lines = Object.entries(totals).map(
    ([name, value = "-"]) => `${name} ${value}`
  );
  const damage = spots.map(
    ({ offset, line, reason }) => `at offset ${offset}, line ${line}: ${reason}`
  );
  return [...lines, ...damage, verdict + holder]
    .map((line) => `${path}: ${line}`)
    .join("\n");
}
