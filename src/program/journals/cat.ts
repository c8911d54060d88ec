/** `cat`: prints the plants of journals, each as one line of JSON, exactly as it is stored. */
import { JournalError } from "../../journal/error.ts";
import { blockBytes, lineAt } from "../../journal/lines.ts";
import { recordsIn, recordsOf, type CheckedLine } from "../../journal/read.ts";
import { lineBytesMax } from "../../journal/record.ts";
import { lineChecker, noHeader } from "../../journal/recover.ts";
import { reportError, worstOf } from "../exit.ts";
import type { Host } from "../host.ts";
import type { Flags } from "../settings.ts";

/**
 * Prints the plants of each file, as an opening would leave it; `-` is standard input. Damage is
 * reported after the plants of its file. A file that cannot be read is reported, and a closed pipe
 * ends the command. Resolves with the exit code.
 */
export async function cat(files: readonly string[], flags: Flags, host: Host) {
  const codes: number[] = [];
  for (const path of files) {
    try {
      const records =
        path === "-"
          ? recordsIn(path, linesOfStream(host.stdin()))
          : recordsOf(path);
      if ((await print(records, flags, host)) === "closed") break;
    } catch (error) {
      // A file that cannot be read does not keep the others from being printed.
      if (!(error instanceof JournalError)) throw error;
      codes.push(reportError(error, host));
    }
  }
  return worstOf(codes);
}

/**
 * Yields the lines of a stream as they come: one journal, or several. They end in LF alone, as in a
 * file. Of a line that is too long nothing is kept. Latin-1 keeps every byte as it is.
 *
 * A stream without a line is damaged: gzip prints nothing of a file that is lost.
 */
async function* linesOfStream(
  input: NodeJS.ReadableStream
): AsyncGenerator<CheckedLine, void> {
  const check = lineChecker({ areJoined: true });
  let offset = 0;
  let unfinished = "";
  let droppedBytes = 0;
  const next = (latin1: string, isWhole: boolean) => {
    const length = droppedBytes + latin1.length;
    const text =
      length < lineBytesMax ? Buffer.from(latin1, "latin1") : undefined;
    const lf = offset + length;
    const line = lineAt(offset, lf, isWhole ? Infinity : lf, text);
    offset = lf + 1;
    droppedBytes = 0;
    return { ...line, problem: check(line) };
  };
  for await (const chunk of input.setEncoding("latin1")) {
    // A string that grows is not copied until it is split.
    unfinished += chunk;
    const lines = chunk.includes("\n") ? unfinished.split("\n") : [unfinished];
    unfinished = lines.pop() ?? "";
    for (const line of lines) yield next(line, true);
    if (unfinished.length > lineBytesMax) {
      droppedBytes += unfinished.length;
      unfinished = "";
    }
  }
  if (unfinished !== "" || droppedBytes > 0) yield next(unfinished, false);
  if (offset === 0) yield { offset, problem: noHeader };
}

/** Prints plants in blocks of whole lines. */
async function print(
  records: ReturnType<typeof recordsIn>,
  flags: Flags,
  host: Host
) {
  let lines = "";
  const flush = async () => {
    const text = lines.slice(0, -1);
    lines = "";
    return text === "" ? "written" : host.print(text);
  };
  try {
    for await (const { record } of records) {
      const members = [
        "seq" in flags && `"seq":${record.seq}`,
        "at" in flags && `"at":"${record.at}"`,
        record.plant.toString("utf8", 1, record.plant.length - 1)
      ];
      lines += `{${members.filter(Boolean).join(",")}}\n`;
      if (lines.length > blockBytes && (await flush()) === "closed")
        return "closed";
    }
  } finally {
    // An error is reported after the plants before it.
    await flush();
  }
  return "written";
}
