/** Does a long journal slow the server down? Its rate, memory and start with old records. */
import {
  closeSync,
  fsyncSync,
  openSync,
  rmSync,
  statSync,
  writeSync
} from "node:fs";
import { join } from "node:path";
import {
  headerText,
  recordText,
  fillChecksums
} from "../../src/journal/record.ts";

import { settings } from "./child.ts";
import { freeGiB, memoryOf } from "./machine.ts";
import { root } from "./options.ts";
import {
  loadOnce,
  takeTurns,
  variantOf,
  warmUp,
  withServer,
  withServers,
  type Bench,
  type Sample
} from "./turns.ts";
import { countJournal, plantStore, type Variant } from "./variants.ts";

export interface GrowthResult {
  /** The samples of each, round by round. */
  readonly journals: readonly {
    readonly records: number;
    readonly bytes: number;
    /** From the spawn to the first valid response. */
    readonly startMillis: readonly number[];
    readonly samples: readonly Sample[];
    /** Resident, at the end of all rounds. */
    readonly rssMiB: number;
  }[];
  readonly skipped: readonly string[];
}

const connections = 64;

export async function measureGrowth(bench: Bench): Promise<GrowthResult> {
  const { rounds, seconds, quick } = bench.options;
  const [{ servers, load }] = settings;
  const { journals, skipped } = writeJournals(bench);
  const variants = journals.map(({ path, records, bytes }): Variant => ({
    ...variantOf(bench, "plant-store"),
    start: plantStore(root, ["--store", path]),
    count: async () => countJournal(path, bytes, records)
  }));

  const starts = await takeTurns(quick ? 2 : 11, variants, (variant) =>
    withServer(bench, variant, servers, async ({ startMillis }) => startMillis)
  );

  const loaded = await withServers(bench, variants, servers, async (all) => {
    await warmUp(bench, all, connections, load);
    const runs = await takeTurns(rounds, all, (live) =>
      loadOnce(live, connections, seconds, load)
    );
    return runs.map(({ one, samples }) => ({
      samples,
      rssMiB: memoryOf(one.server.pid).rssMiB
    }));
  });

  for (const { path } of journals) rmSync(path, { force: true });
  bench.log(`growth: ${rounds} rounds`);
  return {
    skipped,
    journals: journals.map(({ records, bytes }, index) => ({
      records,
      bytes,
      startMillis: starts[index]?.samples ?? [],
      samples: loaded[index]?.samples ?? [],
      rssMiB: loaded[index]?.rssMiB ?? NaN
    }))
  };
}

/** One of each size for which the disk has room, with more for what the load adds. */
function writeJournals(bench: Bench) {
  const skipped: string[] = [];
  const journals = bench.options.journals.flatMap((records) => {
    const gibNeeded = (2 * records * 150) / 2 ** 30 + 1;
    if (freeGiB(bench.folder) < gibNeeded) {
      skipped.push(
        `${records} records: they need ${gibNeeded.toFixed(1)} GiB free`
      );
      return [];
    }
    const path = join(bench.folder, `grown-${records}.ndjson`);
    bench.log(`growth: writing ${records} records`);
    if (records > 0) writeJournal(path, records);
    return [{ path, records, bytes: records > 0 ? statSync(path).size : 0 }];
  });
  return { journals, skipped };
}

/** A valid journal, as if sixty plants had shared each write. */
function writeJournal(path: string, records: number): void {
  const at = new Date().toISOString();
  const plant = '{"id":9007199254740993,"name":"Fern","tag":"shade"}';
  const file = openSync(path, "w");
  let text = headerText("f47ac10b-58cc-4372-a567-0e02b2c3d479", at);
  let [end, begun] = [text.length, text.length];
  for (let seq = 1; seq <= records; seq++) {
    if (seq % 60 === 1) begun = end;
    const line = recordText(seq, at, begun, plant);
    end += line.length;
    text += line;
    if (text.length < 2 ** 20) continue;
    writeSync(file, fillChecksums(text));
    text = "";
  }
  writeSync(file, fillChecksums(text));
  fsyncSync(file); // its flush must not fall into a measurement
  closeSync(file);
}
