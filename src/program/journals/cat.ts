/** `cat`: prints the plants of journals, each as one line of JSON, exactly as it is stored. */
import { blockBytes, lineAt } from "../../journal/lines.ts";
import { recordsIn, recordsOf, type CheckedLine } from "../../journal/read.ts";
import { lineBytesMax } from "../../journal/record.ts";
import { lineChecker, noHeader } from "../../journal/recover.ts";
import { reportEach } from "../exit.ts";
import type { Host } from "../host.ts";
import type { Flags } from "../settings.ts";

/**
 * Prints the plants of each file, as an opening would leave it; `-` is standard input. Damage is
 * reported after the plants of its file. Resolves with the exit code.
 */
export const cat = (files: readonly string[], flags: Flags, host: Host) =>
  reportEach(
    files,
    (path) =>
      print(
        path === "-"
          ? recordsIn(path, linesOfStream(host.stdin()))
          : recordsOf(path),
        flags,
        host
      ),
    host
  );

/**
 * Yields the lines of a stream as they come: one journal, or several. They end in LF alone, as in a
 * file. Of a line that is too long nothing is kept.
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
  const next = (latin1: string, lineFeed: "" | "\n") => {
    const length = droppedBytes + latin1.length;
    const text =
      length < lineBytesMax ? Buffer.from(latin1, "latin1") : undefined;
    const lf = offset + length;
    const line = lineAt(offset, lf, lf + lineFeed.length, text);
    offset = line.end;
    droppedBytes = 0;
    return { ...line, problem: check(line) };
  };
  for await (const chunk of input.setEncoding("latin1")) {
    // A string that grows is not copied until it is split.
    unfinished += chunk;
    const lines = chunk.includes("\n") ? unfinished.split("\n") : [unfinished];
    unfinished = lines.pop() ?? "";
    for (const line of lines) yield next(line, "\n");
    if (unfinished.length < lineBytesMax) continue;
    droppedBytes += unfinished.length;
    unfinished = "";
  }
  if (unfinished !== "" || droppedBytes > 0) yield next(unfinished, "");
  if (offset === 0) yield { offset, problem: noHeader };
}

/** Prints plants in blocks of whole lines, which takes half the time of single ones. */
async function print(
  records: ReturnType<typeof recordsIn>,
  flags: Flags,
  host: Host
) {
  let block = "";
  try {
    for await (const { record } of records) {
      const members = [
        "seq" in flags && `"seq":${record.seq}`,
        "at" in flags && `"at":"${record.at}"`,
        record.plant.toString("utf8", 1, record.plant.length - 1)
      ];
      block += `${block && "\n"}{${members.filter(Boolean).join(",")}}`;
      if (block.length < blockBytes) continue;
      const full = block;
      block = "";
      if ((await host.print(full)) === "closed") return "closed";
    }
  } finally {
    // An error is reported after the plants before it.
    if (block) await host.print(block);
  }
  return undefined;
}
