/** `verify`: reports on whole journals, as text for people and as JSON for programs. */
import { exitCodes } from "../../failure.ts";
import { openWhole } from "../../journal/read.ts";
import { advice } from "../../journal/recover.ts";
import { verifyJournal } from "../../journal/verify.ts";
import { printable, reportError, worstOf } from "../exit.ts";
import type { Host } from "../host.ts";

type Report = ReturnType<typeof verifyJournal>;

/**
 * Reports on each file. Resolves with the exit code of the worst: damage, then what could not be
 * read, then an end that opening repairs.
 */
export async function verify(
  files: readonly string[],
  isJson: boolean,
  host: Host
) {
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
    await host.print(
      isJson ? JSON.stringify({ path, ...report }) : textOf(path, report)
    );
    codes.push(codeOf[report.verdict]);
  }
  return worstOf(codes);
}

const codeOf = {
  whole: exitCodes.done,
  torn: exitCodes.torn,
  empty: exitCodes.damaged,
  damaged: exitCodes.damaged
};

async function reportOn(path: string, host: Host) {
  const { plan, isOpen, close } = await openWhole(path);
  try {
    return verifyJournal(plan, isOpen, progressOf(path, host));
  } finally {
    close();
  }
}

/** Returns a line that begins with the path, for grep, and one with what helps. */
function textOf(file: string, report: Report) {
  const path = printable(file);
  const { verdict, records, bytes, first, last } = report;
  const { opening, isOpen, badLines, damage } = report;
  const parts = [
    `${path}: ${verdict}, records: ${records}, bytes: ${bytes}`,
    first && `from ${first} to ${last}`,
    verdict !== "whole" && opening && `opening ${opening}`,
    isOpen && "a server has it open",
    damage &&
      `at offset ${damage.offset}, ${damage.reason}; bad lines: ${badLines}`
  ];
  const line = parts.filter(Boolean).join("; ");
  return verdict === "damaged" ? `${line}\n${path}: ${advice}` : line;
}

/**
 * Returns a function that draws a progress bar on a terminal, and nothing elsewhere. It draws only
 * changes: a journal of gigabytes has many more blocks than the bar has cells.
 */
function progressOf(file: string, host: Host) {
  const path = printable(file);
  const cells = 25;
  let drawn = "";
  return (read: number, all: number) => {
    const full = "#".repeat((cells * read) / all);
    const bar = read < all ? `${path} [${full.padEnd(cells, ".")}]` : "";
    if (bar !== drawn && host.stderr.isTTY) host.stderr.write(`\r${bar}\x1b[K`);
    drawn = bar;
  };
}
