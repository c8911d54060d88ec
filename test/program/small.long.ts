/** Small machines: the recipe's memory does not grow with the journal, nor that of cat with a line. */
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { limitTable } from "../../src/config.ts";
import { tokenDigest } from "../../src/http/bearer.ts";
import { lineBytesMax } from "../../src/journal/record.ts";
import { run } from "../support/in-process.ts";
import {
  header,
  headerBytes,
  journalWithKeys,
  record
} from "../support/journals.ts";
import { store } from "../support/operator.ts";
import { bundled, commandOf } from "../support/recipes.ts";
import { startProcess, temporaryFolder, token } from "../support/support.ts";
import { memoryOf, unless } from "../support/tools.ts";

const noProc = unless(process.platform === "linux", "memory is read in /proc");

/** Starts the recipe's command beside a journal, and returns the peak of its memory in KiB. */
async function peakOf(
  program: string,
  journal: string,
  others: readonly string[] = []
) {
  const cwd = temporaryFolder();
  if (journal) writeFileSync(join(cwd, "plants.ndjson"), journal);
  const tokens = `alice ${tokenDigest(token)}\n`;
  writeFileSync(join(cwd, "tokens"), tokens, { mode: 0o600 });
  const { nodeArgs, args } = commandOf("small.conf", cwd);
  const server = await startProcess({
    program,
    nodeArgs,
    args: [...args, ...others]
  });
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
    const grown = journalWithKeys(70 * 2 ** 20);
    const empty = await peakOf(program, "");
    const full = await peakOf(program, grown);
    assert.ok(full < empty + 4_096, `${full} KiB, ${empty} with none`);

    // The default window of keys: the control.
    const window = ["--key-window", `${limitTable.keysBytesMax.defaultValue}`];
    const more = await peakOf(program, grown, window);
    assert.ok(more > empty + 12_288, `${more} KiB, ${empty} with none`);
  }
);

test("cat - keeps nothing of a line that is too long, and prints the others", async () => {
  const long = `${"x".repeat(lineBytesMax + 1)}\n`;
  const [first, second] = [record(1, headerBytes), record(2, headerBytes)];
  const input = header + first + long + second;
  const found = await run(["cat", "-"], {}, temporaryFolder(), input);
  const offset = headerBytes + first.length;
  assert.deepEqual(found, {
    code: 65,
    stdout: '{"id":7,"name":"Fern"}\n'.repeat(2),
    stderr: `plant-store: -: at offset ${offset}, expected a record with its checksum; bad lines: 1\n`
  });
});
