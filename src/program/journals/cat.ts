/** `cat`: prints the plants of journals, each as one line of JSON, exactly as it is stored. */
import { JournalError } from "../../journal/error.ts";
import { blockBytes, linesOf, type Line } from "../../journal/lines.ts";
import { decodeRecord, lineBytesMax, plantIn } from "../../journal/record.ts";
import { noHeader, problemOf } from "../../journal/recover.ts";
import { planOpening, type OpeningPlan } from "../../journal/rewrite.ts";
import type { Host } from "../host.ts";
import { readJournal } from "./read-journal.ts";

/**
 * Prints the plants of each file, as an opening would leave it; `-` is standard input. A closed
 * pipe ends the command.
 */
export async function cat(
  files: readonly string[],
  flags: ReadonlyMap<string, unknown>,
  host: Host
) {
  for (const path of files) {
    const print = (lines: Lines) => printPlants(path, lines, flags, host);
    const stdout = await (path === "-"
      ? print(linesOfStream(host.stdin()))
      : readJournal(path, host, (file, { copy, isSettled }) => {
          const plan = planOpening(file, copy);
          return print(linesAsOpened(path, plan, isSettled, host));
        }));
    if (stdout === "closed") break;
  }
}

type Lines = Iterable<Line> | AsyncIterable<Line>;

/**
 * Yields the lines that an opening keeps; all of them if what it would repair is damage.
 *
 * @throws JournalError if an opening would refuse the file
 */
function* linesAsOpened(
  path: string,
  { copy, completed, verdict }: OpeningPlan,
  isDamaged: boolean | undefined,
  host: Host
): Generator<Line, void> {
  const isTorn = verdict.kind === "torn" && !isDamaged;
  const size =
    copy.kind === "damaged" ? 0 : isTorn ? verdict.end : completed.size();
  yield* linesOf(completed, 0, size);
  if (isTorn)
    host.warn(`${path}: left out the end, from offset ${size}: it is torn`);
  if (verdict.kind === "damaged")
    throw new JournalError("damaged", path, verdict.reason, verdict.offset);
}

/**
 * Yields the lines of a stream as they come. They end in LF alone, as in a file. A line that is too
 * long ends the stream. Latin-1 keeps every byte as it is.
 */
async function* linesOfStream(
  input: NodeJS.ReadableStream
): AsyncGenerator<Line, void> {
  let offset = 0;
  let unfinished = "";
  const next = (latin1: string) => {
    const text = Buffer.from(latin1, "latin1");
    const end = offset + text.length + 1;
    const line = {
      offset,
      end,
      isWhole: true,
      text,
      record: decodeRecord(text)
    };
    offset = end;
    return line;
  };
  for await (const chunk of input.setEncoding("latin1")) {
    // A string that grows is not copied until it is split.
    unfinished += chunk;
    const lines = chunk.includes("\n") ? unfinished.split("\n") : [unfinished];
    unfinished = lines.pop() ?? "";
    for (const line of lines) yield next(line);
    if (unfinished.length > lineBytesMax) break;
  }
  if (unfinished !== "") yield next(unfinished);
}

/**
 * Prints the plants of a journal's lines.
 *
 * @throws JournalError `damaged` at the first damaged line, once the plants before it are printed;
 * also if there is no line: a journal has a header, and gzip prints nothing of a file that is lost
 */
async function printPlants(
  path: string,
  lines: Lines,
  flags: ReadonlyMap<string, unknown>,
  host: Host
) {
  let last = { seq: 0, synced: 0 };
  let plants = "";
  let stdout = "written";
  let line: Line | undefined;
  const print = async () => {
    const text = plants.slice(0, -1);
    plants = "";
    if (text !== "") stdout = await host.print(text);
  };
  try {
    for await (line of lines) {
      const { offset, text, record } = line;
      const problem = problemOf(line, last);
      if (problem !== undefined || plants.length > blockBytes) await print();
      if (stdout === "closed") break;
      if (problem !== undefined)
        throw new JournalError("damaged", path, problem, offset);

      // The first line is the header.
      if (!text || !record) continue;
      last = record;
      const seq = flags.has("seq") ? `"seq":${record.seq},` : "";
      const at = flags.has("at") ? `"at":"${record.at}",` : "";
      plants += `{${seq}${at}${plantIn(text).toString().slice(1)}\n`;
    }
  } finally {
    await print();
  }
  if (!line) throw new JournalError("damaged", path, `is empty: ${noHeader}`);
  return stdout;
}
