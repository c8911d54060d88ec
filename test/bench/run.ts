/** The benchmark: `npm run bench -- --help`. Tables go to stdout, progress to stderr. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { chartOf } from "./chart.ts";
import { isPinned, killAll, pinSelf } from "./child.ts";
import { measureGrowth } from "./growth.ts";
import { installPeers } from "./install.ts";
import { measureLatency } from "./latency.ts";
import { generator } from "./load.ts";
import { doubtsOf, factsOf } from "./machine.ts";
import { Quiet, type Bench } from "./measure.ts";
import { help, readOptions, type Options, type Part } from "./options.ts";
import { measureMemory, measureStart } from "./process.ts";
import { reportOf, type Results } from "./report.ts";
import { measureRounds, samplesOf } from "./rounds.ts";
import { measureSlow } from "./slow.ts";
import { median } from "./statistics.ts";
import { reasonWithoutSqlite, variantsWith } from "./variants.ts";

const began = Date.now();
const log = (text: string): void => {
  const seconds = String(Math.round((Date.now() - began) / 1000));
  process.stderr.write(`${seconds.padStart(5)} s  ${text}\n`);
};

async function main(options: Options): Promise<void> {
  installPeers(log);
  pinSelf();
  const folder = mkdtempSync(join(options.folder, "plant-bench-"));
  // Children first, so that none writes into the folder any more; also on Ctrl-C.
  process.on("exit", () => {
    killAll();
    rmSync(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
  });
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    process.once(signal, () => process.exit(130));
  }
  const facts = factsOf(folder, generator, isPinned);
  const bench: Bench = {
    options, folder, log, quiet: new Quiet(options.quick), variants: variantsWith(reasonWithoutSqlite()),
  };
  for (const { key, name, skipped } of bench.variants) {
    if (skipped !== undefined) log(`SKIPPED ${key}, ${name}: ${skipped}`);
  }
  const results = await measureAll(bench);
  const { repeats, disturbed, othersMost, waitedMillis } = bench.quiet;
  const all: Results = {
    facts: {
      ...facts, "this run": `${options.rounds} rounds of ${options.seconds} s after `
        + `${options.warmup} s of warm-up, ${Math.round((Date.now() - began) / 1000)} s in all`,
      neighbours: `${repeats} runs were repeated because others used over `
        + `${100 * Quiet.othersMax} % of a core, after ${Math.round(waitedMillis / 1000)} s of `
        + `waiting for silence; ${disturbed} stayed disturbed `
        + `(others used at most ${Math.round(100 * othersMost)} %)`,
    },
    doubts: [...(options.quick ? ["A SMOKE RUN: too short for figures to rely on."] : []),
      ...doubtsOf(facts)],
    ...results,
  };
  process.stdout.write(`${reportOf(all, bench.variants)}\n`);
  if (all.failures.length > 0) process.exitCode = 1;
  writeFileSync(options.out, `${JSON.stringify(all, undefined, 2)}\n`);
  log(`all figures: ${options.out}`);
  const hasChart = options.chart !== "" && results.rounds && options.connections.includes(64);
  if (!hasChart || !results.rounds) return;
  const { cpu, node, date } = facts;
  const note = `${cpu ?? ""}, one core, Node ${node ?? ""}, ${date?.slice(0, 10) ?? ""}`;
  writeFileSync(options.chart, chartOf(results.rounds, bench.variants, note));
  log(`chart: ${options.chart}`);
}

type Measured = Omit<Results, "facts" | "doubts"> & { readonly failures: readonly string[] };

/** A part that fails is told, and the others are measured nevertheless. */
async function measureAll(bench: Bench): Promise<Measured> {
  const failures: string[] = [];
  const attempt = async <T>(part: Part, measure: () => Promise<T>): Promise<T | undefined> => {
    if (!bench.options.only.has(part)) return undefined;
    try {
      return await measure();
    } catch (error) {
      failures.push(`${part}: ${error instanceof Error ? error.message : String(error)}`);
      log(`FAILED ${failures.at(-1) ?? ""}`);
      return undefined;
    }
  };
  const rounds = await attempt("rounds", () => measureRounds(bench));
  const rates = rounds ? samplesOf(rounds, "g", 64).map(({ perSecond }) => perSecond) : [];
  const capacity = rates.length > 0 ? median(rates) : undefined;
  const latency = await attempt("latency", () => measureLatency(bench, capacity));
  const growth = await attempt("growth", () => measureGrowth(bench));
  const memory = await attempt("memory", () => measureMemory(bench, rounds));
  const start = await attempt("start", () => measureStart(bench));
  const slow = await attempt("slow", () => measureSlow(bench));
  return {
    failures, ...(rounds && { rounds }), ...(latency && { latency }), ...(growth && { growth }),
    ...(memory && { memory }), ...(start && { start }), ...(slow && { slow }),
  };
}

const options = readOptions(process.argv.slice(2));
if (options === "help") process.stdout.write(`${help}\n`);
else {
  await main(options).catch((error: unknown) => {
    log(`FAILED: ${error instanceof Error ? error.message : String(error)}`);
    process.exit(1);
  });
  // A slow connection's timer, or a socket, must not keep a finished benchmark alive.
  process.exit();
}
