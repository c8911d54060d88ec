/** Does a long journal slow the server down? Its rate, memory and start with old records. */
import { closeSync, fsyncSync, openSync, rmSync, statSync, truncateSync, writeSync } from "node:fs";
import { join } from "node:path";
import { headerText, plantText, recordText, seal } from "../../src/journal/record.ts";
import { assertAnswers, loadServer, variantOf, type Bench, type Sample } from "./measure.ts";
import { freeGiB } from "./machine.ts";
import { countJournal } from "./variants.ts";

export interface GrowthSample extends Sample {
  /** From the spawn to the line that says it listens. */
  readonly openingMillis: number;
}

export interface GrowthResult {
  readonly journals: readonly {
    readonly records: number; readonly bytes: number; readonly samples: readonly GrowthSample[];
  }[];
  readonly skipped: readonly string[];
}

/** A sound journal, as if sixty plants had shared each write. */
function writeJournal(path: string, records: number): void {
  const at = new Date().toISOString();
  const plant = plantText({ id: 9007199254740993n, name: "Fern", tag: "shade" });
  const file = openSync(path, "w");
  let text = headerText("f47ac10b-58cc-4372-a567-0e02b2c3d479", at);
  let [end, begun] = [text.length, text.length];
  for (let seq = 1; seq <= records; seq++) {
    if (seq % 60 === 1) begun = end;
    const line = recordText(seq, at, begun, plant);
    end += line.length;
    text += line;
    if (text.length < 2 ** 20) continue;
    writeSync(file, seal(text));
    text = "";
  }
  writeSync(file, seal(text));
  fsyncSync(file); // its flush must not fall into a measurement
  closeSync(file);
}

async function measureGrown(bench: Bench, path: string, records: number): Promise<GrowthSample> {
  const { seconds, warmup } = bench.options;
  const variant = variantOf(bench, "g");
  const bytes = records === 0 ? 0 : statSync(path).size;
  const once = async (): Promise<GrowthSample> => {
    const server = await variant.start(bench.folder, ["--store", path]);
    try {
      await assertAnswers(variant, server);
      const sample = await loadServer(server, 64, warmup, seconds);
      await server.end();
      const kept = countJournal(path, bytes, records);
      const { acknowledged, warmed } = sample;
      if (kept < 1 + warmed + acknowledged) throw new Error(`${path} lost what was acknowledged`);
      return { ...sample, openingMillis: server.listeningAt - server.spawnedAt };
    } finally {
      await server.end();
      // Every round finds the same journal.
      if (records === 0) rmSync(path, { force: true });
      else truncateSync(path, bytes);
    }
  };
  return bench.quiet.measure(once, bench.log);
}

export async function measureGrowth(bench: Bench): Promise<GrowthResult> {
  const skipped: string[] = [];
  const journals = bench.options.journals.flatMap((records) => {
    const gib = (records * 150) / 2 ** 30;
    const free = freeGiB(bench.folder);
    if (free > 2 * gib + 1) {
      return [{ records, path: join(bench.folder, `grown-${records}.ndjson`),
        samples: new Array<GrowthSample>() }];
    }
    skipped.push(`${records} records: ${free.toFixed(1)} GiB free are too few`);
    return [];
  });
  for (const { path, records } of journals) {
    bench.log(`growth: writing ${records} records`);
    if (records > 0) writeJournal(path, records);
  }
  const bytes = journals.map(({ path, records }) => (records === 0 ? 0 : statSync(path).size));
  for (let round = 1; round <= bench.options.rounds; round++) {
    for (const { records, path, samples } of journals) {
      const sample = await measureGrown(bench, path, records);
      samples.push(sample);
      bench.log(`round ${round}, ${records} records: ${Math.round(sample.perSecond)} requests/s, `
        + `open in ${Math.round(sample.openingMillis)} ms`);
    }
  }
  for (const { path } of journals) rmSync(path, { force: true });
  return {
    journals: journals.map(({ records, samples }, index) =>
      ({ records, bytes: bytes[index] ?? 0, samples })),
    skipped,
  };
}
