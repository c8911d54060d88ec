/** `cat`: prints the plants of journals, each as one line of JSON, exactly as it is stored. */
import { JournalError } from "../journal/error.ts";
import { blockBytes, linesOf, type Bytes } from "../journal/lines.ts";
import { plantIn } from "../journal/record.ts";
import { problemOf } from "../journal/recover.ts";
import { planOpening } from "../journal/rewrite.ts";
import type { Command } from "./command.ts";
import { exitCodes } from "./exit.ts";
import type { Host } from "./host.ts";
import { readJournal } from "./report.ts";

type CatCommand = Extract<Command, { readonly command: "cat" }>;

/** Prints the plants of each file, as an opening would leave it. A closed pipe ends the command. */
export async function cat(command: CatCommand, host: Host) {
  for (const path of command.files) {
    const stdout = await readJournal(path, ({ file, copy }) => {
      const plan = planOpening(file, copy);
      if (plan.copy.kind !== "damaged")
        return printPlants(path, plan.file, command, host);
      const { reason, offset } = plan.copy;
      throw new JournalError("damaged", path, reason, offset);
    });
    if (stdout === "closed") break;
  }
  return exitCodes.done;
}

/**
 * Prints the plants of a journal. Warns of a last line that is not whole, as beside a live server.
 *
 * @throws JournalError `damaged` at the first damaged line, once the plants before it are printed
 */
async function printPlants(
  path: string,
  file: Bytes,
  { hasSeq, hasAt }: CatCommand,
  host: Host
) {
  let last = { seq: 0, synced: 0 };
  let plants: string[] = [];
  let printedEnd = 0;
  for (const line of linesOf(file, 0, file.size())) {
    const { offset, end, isWhole, text, record } = line;
    const problem = isWhole && problemOf(line, last);
    if (problem || !isWhole || end - printedEnd > blockBytes) {
      if (plants[0] && (await host.print(plants.join("\n"))) === "closed")
        return "closed";
      plants = [];
      printedEnd = end;
    }
    if (problem) throw new JournalError("damaged", path, problem, offset);
    if (!isWhole)
      host.warn(
        `${path}: left out the last ${end - offset} bytes: not a whole line`
      );
    if (!isWhole || !text || typeof record !== "object") continue;

    const { seq, at } = (last = record);
    const members = `${hasSeq ? `"seq":${seq},` : ""}${hasAt ? `"at":"${at}",` : ""}`;
    plants.push(`{${members}${plantIn(text).toString().slice(1)}`);
  }
  return plants[0] ? host.print(plants.join("\n")) : "written";
}
