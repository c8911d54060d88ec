/** The recipe for small machines: its memory does not grow with the journal. Linux only. */
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { journalWithKeys } from "../support/journals.ts";
import { store } from "../support/operator.ts";
import { bundled, recipeOf } from "../support/recipes.ts";
import { startProcess, temporaryFolder } from "../support/support.ts";
import { memoryOf, unless } from "../support/tools.ts";

const noProc = unless(process.platform === "linux", "memory is read in /proc");

/** Starts the recipe's command beside a journal, and returns the peak of its memory in KiB. */
async function peakOf(command: string, program: string, journal?: string) {
  const cwd = temporaryFolder();
  if (journal) writeFileSync(join(cwd, "plants.ndjson"), journal);
  const [before = "", after = ""] = command.split(" plant-store.cjs ");
  const nodeArgs = before.split(" ").slice(1);
  const args = after.split(" ").filter(Boolean);
  const server = await startProcess({ cwd, program, nodeArgs, args });
  await store(server, "7");
  const peak = memoryOf(server, "VmHWM");
  assert.equal(await server.end(), 0);
  return peak;
}

test(
  "the recipe for small machines needs no more memory with a journal of 70 MiB than with none",
  { skip: noProc },
  async () => {
    const program = join(bundled("--minify"), "plant-store.cjs");
    const command = recipeOf("small")
      .trim()
      .replace(/\s+(?:\\\n\s*)?/g, " ");
    const withDefault = command.replace(/ --key-window \d+/, "");
    assert.notEqual(withDefault, command);

    const grown = journalWithKeys(70 * 2 ** 20);
    const empty = await peakOf(command, program);
    const full = await peakOf(command, program, grown);
    assert.ok(full < empty + 4_096, `${full} KiB, ${empty} with none`);

    // The default window of keys: the control.
    const more = await peakOf(withDefault, program, grown);
    assert.ok(more > empty + 12_288, `${more} KiB, ${empty} with none`);
  }
);
