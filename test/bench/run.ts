/** The benchmark: `npm run bench -- --help`. Tables go to stdout, progress to stderr. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { chartOf } from "./chart.ts";
import { isPinned, killAll, pinSelf, settings } from "./child.ts";
import { measureFresh } from "./fresh.ts";
import { measureGrowth } from "./growth.ts";
import { installPeers } from "./install.ts";
import { measureLatency } from "./latency.ts";
import { generator } from "./load.ts";
import { doubtsOf, factsOf, type Facts } from "./machine.ts";
import { help, readOptions, type Options, type Part } from "./options.ts";
import { reportOf, type Results } from "./report.ts";
import { comparisonAt, measureRounds } from "./rounds.ts";
import { measureSlow } from "./slow.ts";
import type { Bench } from "./turns.ts";
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
    rmSync(folder, {
      recursive: true,
      force: true,
      maxRetries: 5,
      retryDelay: 100
    });
  });
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    process.once(signal, () => process.exit(130));
  }
  const facts = factsOf(folder, generator, isPinned);
  const variants = variantsWith(reasonWithoutSqlite(), options.against);
  const bench: Bench = { options, folder, log, variants };
  for (const { key, name, skipped } of variants) {
    if (skipped !== undefined) log(`SKIPPED ${key}, ${name}: ${skipped}`);
  }
  const results = await measureAll(bench);
  const all: Results = {
    facts: {
      ...facts,
      "this run":
        `${options.rounds} rounds, ${options.seconds} s a turn after ${options.warmup} s ` +
        `of warm-up, ${Math.round((Date.now() - began) / 1000)} s in all`
    },
    doubts: [
      ...(options.quick
        ? ["A SMOKE RUN: too short for numbers to rely on."]
        : []),
      ...doubtsOf(facts)
    ],
    ...results
  };
  process.stdout.write(`${reportOf(all, variants)}\n`);
  if (all.failures.length > 0) process.exitCode = 1;
  writeFileSync(options.out, `${JSON.stringify(all, undefined, 2)}\n`);
  log(`all numbers: ${options.out}`);
  drawChart(bench, all, facts);
}

function drawChart(
  { options, variants, log }: Bench,
  { rounds }: Results,
  facts: Facts
): void {
  const [setting] = settings;
  const comparison = rounds && comparisonAt(rounds, 64, setting);
  if (options.chart === "" || !comparison) return;
  const { cpu, node, date } = facts;
  const note = `${setting.title}, ${cpu ?? ""}, Node ${node ?? ""}, ${date?.slice(0, 10) ?? ""}`;
  writeFileSync(options.chart, chartOf(comparison, variants, note));
  log(`chart: ${options.chart}`);
}

/** Logs a part that fails, and measures the others nevertheless. */
async function measureAll(
  bench: Bench
): Promise<Omit<Results, "facts" | "doubts">> {
  const failures: string[] = [];
  const attempt = async <T>(
    part: Part,
    measure: (bench: Bench) => Promise<T>
  ): Promise<T | undefined> => {
    if (!bench.options.only.includes(part)) return undefined;
    try {
      return await measure(bench);
    } catch (error) {
      const failure = `${part}: ${error instanceof Error ? error.message : String(error)}`;
      failures.push(failure);
      log(`FAILED ${failure}`);
      return undefined;
    }
  };
  const rounds = await attempt("rounds", measureRounds);
  const latency = await attempt("latency", measureLatency);
  const growth = await attempt("growth", measureGrowth);
  const fresh = await attempt("fresh", measureFresh);
  const slow = await attempt("slow", measureSlow);
  return {
    failures,
    ...(rounds && { rounds }),
    ...(latency && { latency }),
    ...(growth && { growth }),
    ...(fresh && { fresh }),
    ...(slow && { slow })
  };
}

try {
  const options = readOptions(process.argv.slice(2));
  if (options === "help") process.stdout.write(`${help}\n`);
  else await main(options);
} catch (error) {
  log(`FAILED: ${error instanceof Error ? error.message : String(error)}`);
  process.exitCode = 1;
}
// A slow connection's timer, or a socket, must not keep a finished benchmark alive.
process.exit();
