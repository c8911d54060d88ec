/** `verify`: reports on whole journals, as text for people and as JSON for programs. */
import { verifyJournal } from "../../journal/verify.ts";
import { noHeader } from "../../journal/recover.ts";
import { ExitError, exitCodes } from "../../failure.ts";
import { reportError, worstOf } from "../exit.ts";
import type { Host } from "../host.ts";
import { readJournal, withoutBeside } from "./read-journal.ts";

type Report = Awaited<ReturnType<typeof reportOn>>;

/** Called with the number of bytes or records that are done, and with that of all. */
export type OnProgress = (done: number, all: number) => void;

/**
 * Reports on each file. Resolves with the exit code of the worst: damage, then what could not be
 * read, then an end that opening repairs.
 */
export async function verify(
  files: readonly string[],
  isJson: boolean,
  host: Host
) {
  if (files.includes("-"))
    throw new ExitError(
      "usage",
      'verify reads files: use "plant-store cat - > /dev/null" for standard input'
    );
  const format = isJson ? jsonOf : textOf;
  const codes: number[] = [];
  for (const path of withoutBeside(files, host)) {
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

/** Returns lines that begin with the path, for grep: the verdict, then each damaged spot. */
function textOf(path: string, report: Report) {
  const { verdict, records, bytes, first, last, opening, isOpen } = report;
  const spots = report.spots.map(
    ({ offset, line, reason }) => `at offset ${offset}, line ${line}: ${reason}`
  );
  const lines =
    records === 0 &&
    report.spots[0]?.reason === noHeader &&
    verdict === "damaged"
      ? [`not a journal: ${spots[0]}`]
      : [
          [
            `${verdict}, ${counted(records, "record")}, ${counted(bytes, "byte")}`,
            ...(first === undefined ? [] : [`from ${first} to ${last}`]),
            ...(verdict === "whole" || !opening ? [] : [`opening ${opening}`]),
            ...(isOpen ? ["a server has it open"] : []),
            ...(verdict === "damaged"
              ? [counted(report.spotsTotal, "damaged spot")]
              : [])
          ].join("; "),
          ...spots
        ];
  return lines.map((line) => `${path}: ${line}`).join("\n");
}

const counted = (count: number, what: string) =>
  `${count} ${what}${count === 1 ? "" : "s"}`;

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
