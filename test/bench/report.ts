/** The figures as Markdown tables. */
import type { GrowthResult } from "./growth.ts";
import type { LatencyResult } from "./latency.ts";
import type { Facts } from "./machine.ts";
import { Quiet, type Sample } from "./measure.ts";
import type { MemoryResult, StartResult } from "./process.ts";
import { samplesOf, type RoundsResult } from "./rounds.ts";
import type { SlowResult } from "./slow.ts";
import { median, rangeOf, ratioOf, type Range } from "./statistics.ts";
import type { Variant } from "./variants.ts";

export interface Results {
  readonly facts: Facts;
  readonly doubts: readonly string[];
  /** Parts that did not come to an end, and why. */
  readonly failures: readonly string[];
  readonly rounds?: RoundsResult;
  readonly latency?: LatencyResult;
  readonly growth?: GrowthResult;
  readonly memory?: MemoryResult;
  readonly start?: StartResult;
  readonly slow?: SlowResult;
}

const whole = (value: number): string =>
  Number.isFinite(value) ? Math.round(value).toLocaleString("en-US") : "-";
const fixed = (value: number, digits = 2): string =>
  Number.isFinite(value) ? value.toFixed(digits) : "-";
const percent = (part: number | undefined): string =>
  part === undefined ? "-" : `${Math.round(100 * part)} %`;
const withRange = ({ median: middle, min, max }: Range, show = whole): string =>
  Number.isFinite(min) ? `${show(middle)} (${show(min)}–${show(max)})` : "-";
const names = { b: "b: the bar", c: "c: Fastify", g: "g: plant-store" } as const;

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string => `| ${cells.join(" | ")} |`;
  // The first column is words; the others are figures.
  const rule = head.map((_, index) => (index === 0 ? "---" : "---:"));
  const padded = rows.map((row) => head.map((_, index) => row[index] ?? "-"));
  return [line(head), line(rule), ...padded.map(line)].join("\n");
}

export function reportOf(results: Results, variants: readonly Variant[]): string {
  const { facts, doubts, failures, rounds, latency, growth, memory, start, slow } = results;
  return [
    "# Benchmark\n",
    ...Object.entries(facts).map(([name, value]) => `- ${name}: ${value}`),
    "\nDoubts:\n", ...doubts.map((doubt) => `- ${doubt}`),
    ...failures.map((failure) => `\n**FAILED: ${failure}**`),
    ...(rounds ? reportRounds(rounds, variants) : []),
    ...(latency ? reportLatency(latency) : []),
    ...(growth ? reportGrowth(growth) : []),
    ...(memory ? reportMemory(memory) : []),
    ...(start ? reportStart(start) : []),
    ...(slow ? reportSlow(slow) : []),
  ].join("\n");
}

const disturbedOf = (samples: readonly Sample[]): string => {
  const { length } = samples.filter(({ cpu }) => (cpu?.others ?? 0) > Quiet.othersMax);
  return length > 0 ? `${length} of ${samples.length}` : "none";
};

const title = (text: string): string => `\n## ${text}\n`;

function reportRounds(rounds: RoundsResult, variants: readonly Variant[]): readonly string[] {
  const rates = (key: Variant["key"], connections: number): readonly number[] =>
    samplesOf(rounds, key, connections).map(({ perSecond }) => perSecond);
  const connections = [...new Set(rounds.runs.map((run) => run.connections))];
  const has64 = connections.includes(64);
  const rows = variants.map(({ key, name, keeps, skipped }) => {
    if (skipped !== undefined) return [`${key}: ${name}: **SKIPPED: ${skipped}**`, keeps];
    const samples = samplesOf(rounds, key, 64);
    const micros = (pick: "p50" | "p99"): number => median(samples.map((one) => one[pick]));
    const busy = (who: "server" | "generator"): string =>
      percent(median(samples.flatMap(({ cpu }) => (cpu ? [cpu[who]] : []))));
    return [`${key}: ${name}`, keeps, withRange(rangeOf(rates(key, 64))),
      withRange(ratioOf(rates(key, 64), rates("b", 64)), fixed),
      withRange(ratioOf(rates("g", 64), rates(key, 64)), fixed),
      whole(micros("p50")), whole(micros("p99")), busy("server"), busy("generator"),
      disturbedOf(samples)];
  });
  const others = (["b", "c", "g", "h"] as const).map((key) => [
    key, ...connections.map((count) => withRange(rangeOf(rates(key, count)))),
    ...connections.map((count) => fixed(ratioOf(rates(key, count), rates("b", count)).median)),
  ]);
  const perConnection = [title("Requests per second by connections"),
    table(["server", ...connections.map(String), ...connections.map((n) => `${n}: of b`)], others)];
  if (!has64) return perConnection;
  return [title("Requests per second, 64 connections"),
    "Medians (and range) of the rounds; ratios are made within a round. `of b`: against the bar; "
    + "`g is`: how many times it the plant store is. CPU: parts of one core; server and its own "
    + "threads, and the load generator, which is the limit where it is near 100 %. "
    + "Disturbed: runs in which others used too much CPU, and no repeat was quiet.\n",
    table(["server", "keeps", "requests/s", "of b", "g is", "p50 µs", "p99 µs", "server CPU",
      "generator CPU", "disturbed"], rows),
    `\nThe generator reached ${withRange(rangeOf(rates("raw", 64)))} requests/s of a server that `
    + `only writes fixed bytes, ${fixed(ratioOf(rates("raw", 64), rates("b", 64)).median)} times `
    + "the bar.",
    ...perConnection];
}

function reportLatency({ one, ratio, perSecond, open }: LatencyResult): readonly string[] {
  const rows = (["b", "g"] as const).map((key) => {
    const middle = (pick: (loop: (typeof open)["b"][number]) => number): string =>
      whole(median(open[key].map(pick)));
    return [names[key], middle(({ p50 }) => p50), middle(({ p99 }) => p99),
      middle(({ p999 }) => p999), middle(({ max }) => max), middle(({ lagP99 }) => lagP99),
      middle(({ lagMax }) => lagMax), middle(({ waitingMax }) => waitingMax)];
  });
  return [title("Latency, one connection"),
    "Microseconds, medians of the rounds' medians.\n",
    table(["b: the bar", "one durable write of 100 bytes", "g: plant-store", "g / (b + write)"],
      [[withRange(rangeOf(one.b)), withRange(rangeOf(one.write)), withRange(rangeOf(one.g)),
        withRange(ratio, fixed)]]),
    title(`Latency, open loop of ${whole(perSecond)} requests/s`),
    "Half of what g does at 64 connections. Microseconds from when a request was due; medians of "
    + "the rounds. The generator's own lag is part of every figure.\n",
    table(["server", "p50", "p99", "p99.9", "max", "lag p99", "lag max", "waiting, most"], rows)];
}

function reportGrowth({ journals, skipped }: GrowthResult): readonly string[] {
  const rates = (index: number): readonly number[] =>
    journals[index]?.samples.map(({ perSecond }) => perSecond) ?? [];
  const rows = journals.map(({ records, bytes, samples }, index) => [
    whole(records), whole(bytes / 2 ** 20), withRange(rangeOf(rates(index))),
    withRange(ratioOf(rates(index), rates(0)), fixed),
    withRange(rangeOf(samples.map(({ loaded }) => loaded.rssMiB))),
    withRange(rangeOf(samples.map(({ openingMillis }) => openingMillis))), disturbedOf(samples),
  ]);
  return [title("Growth"),
    "g at 64 connections, on a journal that holds records already. Opening: from the spawn to the "
    + "line that says it listens; the file is in the page cache.\n",
    table(["records before", "MiB", "requests/s", "of the first", "RSS MiB", "opening ms",
      "disturbed"], rows),
    ...skipped.map((reason) => `\n**SKIPPED: ${reason}**`)];
}

function reportMemory(memory: MemoryResult): readonly string[] {
  const rows = (["b", "c", "g"] as const).map((key) => {
    const range = (pick: (one: MemoryResult["b"][number]) => number): string =>
      withRange(rangeOf(memory[key].map(pick)));
    return [names[key], range(({ idle }) => idle.rssMiB), range(({ loaded }) => loaded.rssMiB),
      range(({ loaded }) => loaded.peakMiB)];
  });
  return [title("Memory"), "MiB: after the first answer, and at the end of 64 connections' load.\n",
    table(["server", "idle RSS", "loaded RSS", "peak"], rows)];
}

function reportStart(start: StartResult): readonly string[] {
  const rows = (["b", "c", "g"] as const).map((key) =>
    [names[key], withRange(rangeOf(start[key])), fixed(ratioOf(start[key], start.b).median)]);
  return [title("Start"), `From the spawn to the first good answer; ${start.b.length} rounds.\n`,
    table(["server", "ms", "of b"], rows)];
}

function reportSlow(slow: SlowResult): readonly string[] {
  const loads = [slow.without[0], slow.with, slow.without[1]];
  const rows = ["before", "with them", "after"].map((name, index) => {
    const load = loads[index];
    return [name, whole(load?.perSecond ?? NaN), whole(load?.p50 ?? NaN), whole(load?.p99 ?? NaN),
      whole(load?.p999 ?? NaN), whole(load?.max ?? NaN)];
  });
  const closed = slow.closed.map(({ kind, count, status408, slowest, late }) => [kind, whole(count),
    kind === "head" ? `${slow.headSeconds}` : `${slow.requestSeconds}`, fixed(slowest),
    whole(late), whole(status408)]);
  return [title(`${whole(slow.connections)} slow connections`),
    `${slow.honest} honest connections post beside them, and no request of theirs failed. RSS: `
    + `${whole(slow.rssMiB.without)} MiB before, ${whole(slow.rssMiB.with)} MiB with them. Other `
    + `processes used ${percent(slow.cpu?.others)} of a core meanwhile.\n`,
    table(["slow connections", "requests/s", "p50 µs", "p99 µs", "p99.9 µs", "max µs"], rows), "",
    table(["dribbles its", "closed", "limit s", "slowest s", "over limit + 1 s", "with 408"],
      closed),
    ...(slow.neverClosed > 0 ? [`\n**${slow.neverClosed} WERE NEVER CLOSED**`] : [])];
}
