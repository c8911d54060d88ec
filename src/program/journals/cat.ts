/** `cat`: prints the plants of journals, each as one line of JSON, exactly as it is stored. */
import { exitCodes } from "../../failure.ts";
import { JournalError } from "../../journal/error.ts";
import { blockBytes, linesOf, type Line } from "../../journal/lines.ts";
import { decodeRecord, lineBytesMax, plantIn } from "../../journal/record.ts";
import { noHeader, problemOf, type Position } from "../../journal/recover.ts";
import { planOpening, type OpeningPlan } from "../../journal/rewrite.ts";
import { reportError } from "../exit.ts";
import type { Host } from "../host.ts";
import { readJournal, withoutBeside } from "./read-journal.ts";

/**
 * Prints the plants of each file, as an opening would leave it; `-` is standard input. A closed
 * pipe ends the command. Resolves with the exit code.
 */
export async function cat(
  files: readonly string[],
  flags: ReadonlyMap<string, unknown>,
  host: Host
) {
  let code: number = exitCodes.done;
  for (const path of withoutBeside(files, host)) {
    const print = (lines: Lines, verdict?: OpeningPlan["verdict"]) =>
      printPlants(path, lines, verdict, flags, host);
    const outcome = await (path === "-"
      ? print(linesOfStream(host.stdin()))
      : readJournal(path, host, (file, { copy, isSettled }) => {
          const plan = planOpening(file, copy);
          const lines = linesAsOpened(path, plan, isSettled, host);
          return print(lines, plan.verdict);
        }));
    if (outcome === "closed") break;
    if (outcome === "damaged") code = exitCodes.damaged;
  }
  return code;
}

type Lines = Iterable<Line> | AsyncIterable<Line>;

/** Yields the lines that an opening keeps; all of them if what it would repair is damage. */
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
}

/**
 * Yields the lines of a stream as they come. They end in LF alone, as in a file. Of a line that is
 * too long nothing is kept. Latin-1 keeps every byte as it is.
 */
async function* linesOfStream(
  input: NodeJS.ReadableStream
): AsyncGenerator<Line, void> {
  let offset = 0;
  let unfinished = "";
  let droppedBytes = 0;
  const next = (latin1: string) => {
    const length = droppedBytes + latin1.length;
    const text =
      length < lineBytesMax ? Buffer.from(latin1, "latin1") : undefined;
    const end = offset + length + 1;
    const record = text && decodeRecord(text);
    const line = { offset, end, isWhole: true, text, record };
    offset = end;
    droppedBytes = 0;
    return line;
  };
  for await (const chunk of input.setEncoding("latin1")) {
    // A string that grows is not copied until it is split.
    unfinished += chunk;
    const lines = chunk.includes("\n") ? unfinished.split("\n") : [unfinished];
    unfinished = lines.pop() ?? "";
    for (const line of lines) yield next(line);
    if (unfinished.length > lineBytesMax) {
      droppedBytes += unfinished.length;
      unfinished = "";
    }
  }
  if (unfinished !== "" || droppedBytes > 0) yield next(unfinished);
}

/**
 * Prints the plants of a journal's lines, also those after a damaged spot. Reports each spot: bad
 * lines that follow each other are one.
 *
 * Input without a line is damaged, too: a journal has a header, and gzip prints nothing of a file
 * that is lost.
 *
 * @param verdict an opening's, which may refuse a file for what none of its lines shows
 */
async function printPlants(
  path: string,
  lines: Lines,
  verdict: OpeningPlan["verdict"] | undefined,
  flags: ReadonlyMap<string, unknown>,
  host: Host
): Promise<"written" | "closed" | "damaged"> {
  let plants = "";
  const print = async () => {
    const text = plants.slice(0, -1);
    plants = "";
    return text === "" ? "written" : host.print(text);
  };
  const report = (reason: string, offset?: number) =>
    reportError(new JournalError("damaged", path, reason, offset), host);

  // After a damaged spot, the position that the next record must continue is unknown.
  let last: Position | undefined = { seq: 0, synced: 0 };
  let spot: Spot | undefined;
  let isDamaged = false;
  let isEmpty = true;
  const endSpot = () => {
    if (spot) report(describe(spot), spot.offset);
    spot = undefined;
  };
  for await (const line of lines) {
    isEmpty = false;
    const { offset, text, record } = line;
    const problem = problemOf(line, last);
    if (problem !== undefined) {
      isDamaged = true;
      if ((await print()) === "closed") return "closed";
      if (!spot || record) {
        endSpot();
        spot = { offset, reason: problem, moreLines: 0 };
      } else spot.moreLines++;
    }
    if (problem === undefined || record) endSpot();

    // The first line is the header.
    if (offset > 0 || problem !== undefined) last = record;
    if (!text || !record) continue;
    const seq = flags.has("seq") ? `"seq":${record.seq},` : "";
    const at = flags.has("at") ? `"at":"${record.at}",` : "";
    plants += `{${seq}${at}${plantIn(text).toString().slice(1)}\n`;
    if (plants.length > blockBytes && (await print()) === "closed")
      return "closed";
  }
  const outcome = await print();
  if (outcome === "closed") return outcome;
  endSpot();
  if (isDamaged) return "damaged";
  if (verdict?.kind === "damaged") report(verdict.reason, verdict.offset);
  else if (isEmpty) report(`is empty: ${noHeader}`);
  else return outcome;
  return "damaged";
}

/** Bad lines that follow each other: where the first one is, what it has, and how many follow. */
interface Spot {
  readonly offset: number;
  readonly reason: string;
  moreLines: number;
}

const describe = ({ reason, moreLines }: Spot) =>
  moreLines === 0 ? reason : `${reason}; bad lines after it: ${moreLines}`;
