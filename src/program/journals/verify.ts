/** `verify`: reports on whole journals, as text for people and as JSON for programs. */
import { exitCodes } from "../../failure.ts";
import { openWhole } from "../../journal/read.ts";
import { advice } from "../../journal/recover.ts";
import { verifyJournal } from "../../journal/verify.ts";
import { printable, reportEach } from "../exit.ts";
import type { Host } from "../host.ts";

type Report = ReturnType<typeof verifyJournal>;

/** Reports on each file. Resolves with the exit code. */
export const verify = (files: readonly string[], isJson: boolean, host: Host) =>
  reportEach(
    files,
    async (path) => {
      const { plan, isOpen, close } = await openWhole(path);
      try {
        const report = verifyJournal(plan, isOpen, progressOn(host));
        await host.print(
          isJson ? JSON.stringify({ path, ...report }) : textOf(path, report)
        );
        return codeOf[report.verdict];
      } finally {
        close();
      }
    },
    host
  );

const codeOf = {
  whole: exitCodes.done,
  torn: exitCodes.torn,
  empty: exitCodes.damaged,
  damaged: exitCodes.damaged
};

/** Returns a line that begins with the path, for grep, and one with what helps. */
function textOf(file: string, report: Report) {
  const path = printable(file);
  const {
    verdict,
    records,
    bytes,
    first,
    last,
    opening,
    isOpen,
    badLines,
    damage
  } = report;
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

/** Returns a function that draws a progress bar on a terminal, and nothing elsewhere. */
function progressOn({ stderr }: Host) {
  const cells = 25;
  return (read: number, all: number) => {
    const full = "#".repeat((cells * read) / all);
    const bar = read < all ? `[${full.padEnd(cells, ".")}]` : "";
    if (stderr.isTTY) stderr.write(`\r${bar}\x1b[K`);
  };
}
