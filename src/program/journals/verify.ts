/** `verify`: reports on whole journals, as text for people and as JSON for programs. */
import { verifyJournal } from "../../journal/verify.ts";
import { exitCodes } from "../../failure.ts";
import { reportError } from "../exit.ts";
import type { Host } from "../host.ts";
import { readJournal } from "./read-journal.ts";

type Report = Awaited<ReturnType<typeof reportOn>>;

/** Called with the number of bytes or records that are done, and with that of all. */
export type OnProgress = (done: number, all: number) => void;

/**
 * Reports on each file. Resolves with the smallest exit code, if there is one: that of damage is
 * smaller than those of files that could not be read.
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
    let report;
    try {
      report = await reportOn(path, host);
    } catch (error) {
      codes.push(reportError(error, host));
      continue;
    }

    // A report that cannot be printed ends the command.
    await host.print(format(path, report));
    if (report.verdict !== "whole") codes.push(exitCodes.damaged);
  }
  return codes.sort()[0];
}

/** Verifies a journal. `isOpen`: whether a server has it open. */
export const reportOn = (path: string, host: Host) =>
  readJournal(path, host, (file, beside) => {
    const onProgress = progressOf(path, host);
    const report = verifyJournal(file, { ...beside, onProgress });
    return { ...report, isOpen: beside.isOpen };
  });

/** Returns one line of JSON. Its ids are strings: many readers round numbers beyond 2^53. */
const jsonOf = (path: string, report: Report) =>
  JSON.stringify({ path, ...report }, (_, value: unknown) =>
    typeof value === "bigint" ? `${value}` : value
  );

/** Returns lines that begin with the path, for grep; the last one is the verdict. */
function textOf(path: string, { spots, verdict, isOpen, ...totals }: Report) {
  const lines = Object.entries(totals).map(
    ([name, value = "-"]) => `${name} ${value}`
  );
  const damage = spots.map(
    ({ offset, line, reason }) => `at offset ${offset}, line ${line}: ${reason}`
  );
  const details = {
    whole: "",
    empty: ": opening creates a new journal",
    torn: ": opening repairs it",
    damaged: `, spots: ${totals.spotsTotal}`
  };
  const holder = isOpen ? "; a server has it open" : "";
  return [...lines, ...damage, `${verdict}${details[verdict]}${holder}`]
    .map((line) => `${path}: ${line}`)
    .join("\n");
}

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
