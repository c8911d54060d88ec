/** `cat`: prints the plants of journals, each as one line of JSON, exactly as it is stored. */
import { JournalError } from "../journal/error.ts";
import { blockBytes, linesOf, type Bytes } from "../journal/lines.ts";
import { plantIn } from "../journal/record.ts";
import { problemOf } from "../journal/recover.ts";
import { planOpening } from "../journal/rewrite.ts";
import type { Host } from "./host.ts";
import { readJournal } from "./report.ts";

/** Prints the plants of each file, as an opening would leave it. A closed pipe ends the command. */
export async function cat(
  files: readonly string[],
  flags: ReadonlyMap<string, unknown>,
  host: Host
) {
  for (const path of files) {
    const stdout = await readJournal(path, (file, { copy }) => {
      const plan = planOpening(file, copy);
      if (plan.copy.kind !== "damaged")
        return printPlants(path, plan.whole, flags, host);
      const { reason, offset } = plan.copy;
      throw new JournalError("damaged", path, reason, offset);
    });
    if (stdout === "closed") break;
  }
}

/**
 * Prints the plants of a journal. Warns of a last line that is not whole, as beside a live server.
 *
 * @throws JournalError `damaged` at the first damaged line, once the plants before it are printed
 */
async function printPlants(
  path: string,
  file: Bytes,
  flags: ReadonlyMap<string, unknown>,
  host: Host
) {
  let last = { seq: 0, synced: 0 };
  let plants = "";
  const print = async () => {
    const text = plants.slice(0, -1);
    plants = "";
    return text === "" ? "written" : host.print(text);
  };
  for (const line of linesOf(file, 0, file.size())) {
    const { offset, end, isWhole, text, record } = line;
    if (!isWhole) {
      host.warn(
        `${path}: left out the last ${end - offset} bytes: not a whole line`
      );
      break;
    }
    const problem = problemOf(line, last);
    if (problem !== undefined || plants.length > blockBytes)
      if ((await print()) === "closed") return "closed";
    if (problem !== undefined)
      throw new JournalError("damaged", path, problem, offset);

    // The first line is the header.
    if (!text || !record) continue;
    last = record;
    const seq = flags.has("seq") ? `"seq":${record.seq},` : "";
    const at = flags.has("at") ? `"at":"${record.at}",` : "";
    plants += `{${seq}${at}${plantIn(text).toString().slice(1)}\n`;
  }
  return print();
}
