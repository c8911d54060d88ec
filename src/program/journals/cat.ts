/** `cat`: prints the plants of journals, each as one line of JSON, exactly as it is stored. */
import { exitCodes } from "../../failure.ts";
import { JournalError } from "../../journal/error.ts";
import { blockBytes, linesOf, type Line } from "../../journal/lines.ts";
import { decodeRecord, lineBytesMax, plantIn } from "../../journal/record.ts";
import { lineChecker, noHeader } from "../../journal/recover.ts";
import { planOpening, type OpeningPlan } from "../../journal/rewrite.ts";
import { reportError, worstOf } from "../exit.ts";
import type { Host } from "../host.ts";
import { readJournal, withoutBeside } from "./read-journal.ts";

/**
 * Prints the plants of each file, as an opening would leave it; `-` is standard input. A file that
 * cannot be read is reported, and a closed pipe ends the command. Resolves with the exit code.
 */
export async function cat(
  files: readonly string[],
  flags: ReadonlyMap<string, unknown>,
  host: Host
) {
  const codes: number[] = [];
  for (const path of withoutBeside(files, host)) {
    const print = (lines: Lines, verdict?: OpeningPlan["verdict"]) =>
      printPlants(path, lines, verdict, flags, host);
    try {
      const outcome = await (path === "-"
        ? print(linesOfStream(host.stdin()))
        : readJournal(path, host, (file, { copy, isSettled }) => {
            const plan = planOpening(file, copy);
            const lines = linesAsOpened(path, plan, isSettled, host);
            return print(lines, plan.verdict);
          }));
      if (outcome === "closed") break;
      if (outcome === "damaged") codes.push(exitCodes.damaged);
    } catch (error) {
      // A file that cannot be read does not keep the others from being printed.
      if (!(error instanceof JournalError)) throw error;
      codes.push(reportError(error, host));
    }
  }
  return worstOf(codes);
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
  if (unfinished !== "" || droppedBytes > 0)
    yield { ...next(unfinished), isWhole: false };
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
  const spots = new Spots(path, host);
  const check = lineChecker({ areJoined: path === "-" });
  let plants = "";
  const print = async () => {
    const text = plants.slice(0, -1);
    plants = "";
    return text === "" ? "written" : host.print(text);
  };
  let isEmpty = true;
  for await (const line of lines) {
    isEmpty = false;
    const problem = check(line);
    if (problem !== undefined || plants.length > blockBytes)
      if ((await print()) === "closed") return "closed";
    if (problem !== undefined) spots.add(line, problem);
    plants += printed(line, flags);
  }
  const outcome = await print();
  if (outcome === "closed") return outcome;
  spots.end();
  if (spots.count === 0 && verdict?.kind === "damaged")
    spots.report(verdict.reason, verdict.offset);
  else if (isEmpty) spots.report(`is empty: ${noHeader}`);
  return spots.count > 0 ? "damaged" : outcome;
}

/** Returns a line's plant as it is printed, with its LF; nothing of a header or of a bad line. */
function printed(
  { text, record }: Line,
  flags: ReadonlyMap<string, unknown>
): string {
  if (!text || !record) return "";
  const seq = flags.has("seq") ? `"seq":${record.seq},` : "";
  const at = flags.has("at") ? `"at":"${record.at}",` : "";
  return `{${seq}${at}${plantIn(text).toString().slice(1)}\n`;
}

/** Reports the damaged spots of a file: bad lines that follow each other are one. */
class Spots {
  /** The spots that were reported. */
  count = 0;

  readonly #path: string;
  readonly #host: Host;

  /** The spot that the next bad line belongs to, if it begins at `end`: none does after a record. */
  #spot:
    { offset: number; end: number; reason: string; more: number } | undefined;

  constructor(path: string, host: Host) {
    this.#path = path;
    this.#host = host;
  }

  /** Adds a line; one that is a record, but not the expected one, is a spot of its own. */
  add({ offset, end, record }: Line, reason: string) {
    if (this.#spot?.end === offset && !record) {
      this.#spot.end = end;
      this.#spot.more++;
      return;
    }
    this.end();
    this.#spot = { offset, end: record ? -1 : end, reason, more: 0 };
  }

  /** Reports the last spot. */
  end() {
    if (!this.#spot) return;
    const { offset, reason, more } = this.#spot;
    this.#spot = undefined;
    this.report(
      more === 0 ? reason : `${reason}; bad lines after it: ${more}`,
      offset
    );
  }

  report(reason: string, offset?: number) {
    this.count++;
    const error = new JournalError("damaged", this.#path, reason, offset);
    reportError(error, this.#host);
  }
}
