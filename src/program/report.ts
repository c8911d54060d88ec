/** `verify`: what is said of each journal, to people and to programs. */
import { isLocked, openToRead, realDisk } from "../journal/files.ts";
import { JournalError } from "../journal/error.ts";
import { readCopy } from "../journal/open.ts";
import { verifyJournal } from "../journal/verify.ts";
import type { Command } from "./command.ts";
import { exitCodes, tell } from "./exit.ts";
import type { Host } from "./host.ts";

type Report = ReturnType<typeof verifyJournal>;
/** Told how much of how much is done. */
export type OnProgress = (done: number, all: number) => void;

type Given = Extract<Command, { readonly command: "verify" }>;

/**
 * Reports on each file. The exit code is that of damage, in whichever it is; else that of the
 * first that could not be read.
 */
export async function verify(
  { files, format }: Given,
  host: Host
): Promise<number> {
  const print = format === "json" ? jsonOf : textOf;
  const codes: number[] = [];
  for (const path of files) {
    // The other files are read all the same.
    const report = await reportOn(path, host).catch((error: unknown) =>
      tell(error, host)
    );
    // What can't be printed ends the command: to read on would be for nobody.
    if (typeof report === "object") await host.print(print(path, report));
    if (typeof report === "number") codes.push(report);
    else if (report.spots.length > 0) codes.push(exitCodes.data);
  }
  return (
    codes.find((code) => code === exitCodes.data) ?? codes[0] ?? exitCodes.done
  );
}

/** Verifies a journal; refuses what is not a regular file: it may be endless, or never begin. */
export async function reportOn(path: string, host: Host): Promise<Report> {
  const onProgress = progressOf(path, host);
  const { isFile = true } = realDisk.look(path) ?? {};
  if (!isFile) throw new JournalError("failed", path, "is no regular file");
  const file = openToRead(path);
  try {
    // Of the file that is read: a rotation may have put another at the path since.
    const isLive = await isLocked(path, file.look().identity);
    // A live server is done with opening: no FILE.rewrite is due.
    const copy = isLive
      ? undefined
      : readCopy(realDisk, realDisk.resolve(path));
    return verifyJournal(file, { copy, isLive, onProgress });
  } finally {
    file.close();
  }
}

/**
 * Draws on a terminal how far it is; nothing elsewhere. Drawn is what has changed: a journal of
 * gigabytes has many more blocks than the bar has cells.
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

/** One line of JSON; an `id` in it is text, for many readers round numbers beyond 2^53. */
function jsonOf(path: string, { spots, ...totals }: Report): string {
  const ids = {
    idMin: totals.idMin?.toString(),
    idMax: totals.idMax?.toString()
  };
  return JSON.stringify({ path, ...totals, ...ids, spots });
}

/** Lines that grep finds by the file's name. */
function textOf(path: string, { spots, ...totals }: Report): string {
  const figures = Object.entries(totals).map(
    ([name, value = "-"]) => `${name} ${value}`
  );
  const damage = spots.map(
    ({ offset, line, reason }) => `at offset ${offset}, line ${line}: ${reason}`
  );
  return [...figures, ...damage].map((line) => `${path}: ${line}`).join("\n");
}
