/** The numbers as Markdown tables. */
import type { FreshResult, FreshSample } from "./fresh.ts";
import type { GrowthResult } from "./growth.ts";
import type { LatencyResult } from "./latency.ts";
import type { Facts } from "./machine.ts";
import type { Key } from "./options.ts";
import type { OpenLoop } from "./openloop.ts";
import {
  comparisonAt,
  numbersOf,
  type Comparison,
  type RoundsResult
} from "./rounds.ts";
import type { SlowResult } from "./slow.ts";
import { median, ratioOf, spreadOf, type Spread } from "./statistics.ts";
import type { Sample } from "./turns.ts";
import type { Variant } from "./variants.ts";

export interface Results {
  readonly facts: Facts;
  readonly doubts: readonly string[];
  /** Parts that did not come to an end, and why. */
  readonly failures: readonly string[];
  readonly rounds?: RoundsResult;
  readonly latency?: LatencyResult;
  readonly growth?: GrowthResult;
  readonly fresh?: FreshResult;
  readonly slow?: SlowResult;
}

export function reportOf(
  results: Results,
  variants: readonly Variant[]
): string {
  const { facts, doubts, failures, rounds, latency, growth, fresh, slow } =
    results;
  return [
    "# Benchmark\n",
    ...Object.entries(facts).map(([name, value]) => `- ${name}: ${value}`),
    "\nDoubts:\n",
    ...doubts.map((doubt) => `- ${doubt}`),
    ...failures.map((failure) => `\n**FAILED: ${failure}**`),
    ...(rounds ? reportRounds(rounds, variants) : []),
    ...(latency ? reportLatency(latency) : []),
    ...(growth ? reportGrowth(growth) : []),
    ...(fresh ? reportFresh(fresh) : []),
    ...(slow ? reportSlow(slow) : [])
  ].join("\n");
}

/** The pairs that are compared: the goals of this project, and its last build with another. */
const pairs: readonly { readonly over: Key; readonly under: Key }[] = [
  { over: "plant-store", under: "bar" },
  { over: "library", under: "bar" },
  { over: "plant-store", under: "fastify" },
  { over: "plant-store", under: "fastify-sqlite" },
  { over: "plant-store-keys", under: "plant-store" },
  { over: "plant-store", under: "against" },
  { over: "library", under: "against-library" }
];

function reportRounds(
  rounds: RoundsResult,
  variants: readonly Variant[]
): readonly string[] {
  return [
    title("Ratios"),
    "Made within a round, where both met the same machine. The median of all rounds, how far off " +
      "it may be (95 % confidence; more rounds make it smaller), and between which values 80 of " +
      "100 rounds lie. One: the server on one core, the load on the other; both: server and load " +
      "on both.\n",
    reportRatios(rounds),
    ...rounds.flatMap((comparison) => reportComparison(comparison, variants))
  ];
}

function reportRatios(rounds: RoundsResult): string {
  const settings = [...new Set(rounds.map(({ setting }) => setting))];
  const counts = [...new Set(rounds.map(({ connections }) => connections))];
  const rowOf = (
    name: string,
    ratioIn: (comparison: Comparison) => Spread,
    count: number
  ) => {
    const cells = settings.map((setting) => {
      const comparison = comparisonAt(rounds, count, setting);
      return comparison ? withError(ratioIn(comparison)) : "-";
    });
    return cells.every((cell) => cell === "-")
      ? []
      : [[name, String(count), ...cells]];
  };
  const rows = counts.flatMap((count) => [
    ...pairs.flatMap(({ over, under }) => [
      ...rowOf(
        `requests/s: ${over} / ${under}`,
        ratioBy("perSecond", over, under),
        count
      ),
      ...rowOf(
        `CPU a request: ${over} / ${under}`,
        ratioBy("cpuMicros", over, under),
        count
      )
    ]),
    ...rowOf(
      "latency: plant-store / (bar + one durable write)",
      latencyRatio,
      count
    )
  ]);
  const head = ["ratio", "connections", ...settings.map(({ key }) => key)];
  return table(head, rows);
}

const ratioBy =
  (pick: keyof Sample, over: Key, under: Key) =>
  (comparison: Comparison): Spread =>
    ratioOf(
      numbersOf(comparison, over, pick),
      numbersOf(comparison, under, pick)
    );

/** A write alone takes its turn at one connection only. */
function latencyRatio(comparison: Comparison): Spread {
  const writes = numbersOf(comparison, "write", "p50");
  const sums = numbersOf(comparison, "bar", "p50").map(
    (micros, round) => micros + (writes[round] ?? NaN)
  );
  return ratioOf(numbersOf(comparison, "plant-store", "p50"), sums);
}

function reportComparison(
  comparison: Comparison,
  variants: readonly Variant[]
): readonly string[] {
  const { connections, setting, others, runs } = comparison;
  const rows = runs.map(({ key, samples }) => {
    const spread = (pick: keyof Sample): Spread =>
      spreadOf(samples.map((sample) => sample[pick]));
    const ofBar = (pick: keyof Sample): Spread =>
      ratioOf(
        numbersOf(comparison, key, pick),
        numbersOf(comparison, "bar", pick)
      );
    const variant = variants.find((one) => one.key === key);
    const name = variant
      ? `${key}: ${variant.name}`
      : "write: one durable write, no server";
    return [
      name,
      variant?.keeps ?? "durable",
      withSpread(spread("perSecond")),
      withSpread(ofBar("perSecond"), fixed),
      withSpread(spread("cpuMicros")),
      withSpread(ofBar("cpuMicros"), fixed),
      withSpread(spread("p50")),
      withSpread(spread("p99"))
    ];
  });
  const missing = variants.flatMap(({ key, name, skipped }) =>
    skipped === undefined ? [] : [`\n**SKIPPED ${key}, ${name}: ${skipped}**`]
  );
  return [
    title(
      `${connections} ${connections === 1 ? "connection" : "connections"}: ${setting.title}`
    ),
    `Others used ${percent(others)} of a core meanwhile.\n`,
    table(
      [
        "server",
        "keeps",
        "requests/s",
        "of the bar",
        "CPU µs a request",
        "of the bar's",
        "p50 µs",
        "p99 µs"
      ],
      rows
    ),
    ...(connections === 64 ? missing : [])
  ];
}

function reportLatency({ perSecond, runs }: LatencyResult): readonly string[] {
  const picks = [
    "p50",
    "p99",
    "p999",
    "max",
    "lagP99",
    "lagMax",
    "waitingMax"
  ] as const;
  const middle = (
    samples: readonly OpenLoop[],
    pick: (typeof picks)[number]
  ): string => whole(median(samples.map((sample) => sample[pick])));
  const rows = runs.map(({ key, samples }) => [
    key,
    ...picks.map((pick) => middle(samples, pick))
  ]);
  return [
    title(`Latency, open loop of ${whole(perSecond)} requests/s`),
    "Half of what plant-store does at 64 connections. Microseconds from when a request was due; " +
      "medians of the rounds. The generator's own lag is part of every figure.\n",
    table(
      [
        "server",
        "p50",
        "p99",
        "p99.9",
        "max",
        "lag p99",
        "lag max",
        "waiting, most"
      ],
      rows
    )
  ];
}

function reportGrowth({ journals, skipped }: GrowthResult): readonly string[] {
  const rates = (index: number): readonly number[] =>
    journals[index]?.samples.map(({ perSecond }) => perSecond) ?? [];
  const rows = journals.map(
    ({ records, bytes, startMillis, rssMiB }, index) => [
      whole(records),
      whole(bytes / 2 ** 20),
      withSpread(spreadOf(rates(index))),
      withSpread(ratioOf(rates(index), rates(0)), fixed),
      whole(rssMiB),
      withSpread(spreadOf(startMillis))
    ]
  );
  return [
    title("Growth"),
    "plant-store at 64 connections, on journals that hold records already, in turn. Start: from " +
      "the spawn to the first good answer; the file is in the page cache.\n",
    table(
      [
        "records before",
        "MiB",
        "requests/s",
        "of the first",
        "RSS MiB",
        "start ms"
      ],
      rows
    ),
    ...skipped.map((reason) => `\n**SKIPPED: ${reason}**`)
  ];
}

function reportFresh(fresh: FreshResult): readonly string[] {
  const numbers: readonly { readonly pick: (sample: FreshSample) => number }[] =
    [
      { pick: ({ startMillis }) => startMillis },
      { pick: ({ idle }) => idle.rssMiB },
      { pick: ({ loaded }) => loaded.rssMiB },
      { pick: ({ loaded }) => loaded.peakMiB }
    ];
  const ofBar = fresh.find(({ key }) => key === "bar")?.samples ?? [];
  const rows = fresh.map(({ key, samples }) => [
    key,
    ...numbers.flatMap(({ pick }) => [
      withSpread(spreadOf(samples.map(pick))),
      fixed(ratioOf(samples.map(pick), ofBar.map(pick)).median)
    ])
  ]);
  return [
    title("Start and memory"),
    `A fresh server in each of ${ofBar.length} rounds. Start: from the spawn to the first good ` +
      "answer. Idle: resident MiB behind it; loaded: after 64 connections' load; peak.\n",
    table(
      [
        "server",
        "start ms",
        "of the bar's",
        "idle",
        "of the bar's",
        "loaded",
        "of the bar's",
        "peak",
        "of the bar's"
      ],
      rows
    )
  ];
}

function reportSlow(slow: SlowResult): readonly string[] {
  const loads = [slow.without[0], slow.with, slow.without[1]];
  const rows = ["before", "with them", "after"].map((name, index) => {
    const load = loads[index];
    return [
      name,
      whole(load?.perSecond ?? NaN),
      whole(load?.p50 ?? NaN),
      whole(load?.p99 ?? NaN),
      whole(load?.p999 ?? NaN),
      whole(load?.max ?? NaN)
    ];
  });
  const closed = slow.closed.map(
    ({ kind, count, status408, slowest, late }) => [
      kind,
      whole(count),
      kind === "head" ? `${slow.headSeconds}` : `${slow.requestSeconds}`,
      fixed(slowest),
      whole(late),
      whole(status408)
    ]
  );
  return [
    title(`${whole(slow.connections)} slow connections`),
    `${slow.honest} honest connections post beside them, and no request of theirs failed. RSS: ` +
      `${whole(slow.rssMiB.without)} MiB before, ${whole(slow.rssMiB.with)} MiB with them. Others ` +
      `used ${percent(slow.others)} of a core meanwhile.\n`,
    table(
      [
        "slow connections",
        "requests/s",
        "p50 µs",
        "p99 µs",
        "p99.9 µs",
        "max µs"
      ],
      rows
    ),
    "",
    table(
      [
        "dribbles its",
        "closed",
        "limit s",
        "slowest s",
        "over limit + 1 s",
        "with 408"
      ],
      closed
    ),
    ...(slow.neverClosed > 0
      ? [`\n**${slow.neverClosed} WERE NEVER CLOSED**`]
      : [])
  ];
}

const title = (text: string): string => `\n## ${text}\n`;

const whole = (value: number): string =>
  Number.isFinite(value) ? Math.round(value).toLocaleString("en-US") : "-";

const fixed = (value: number): string =>
  Number.isFinite(value) ? value.toFixed(2) : "-";

const percent = (part: number): string =>
  Number.isFinite(part) ? `${whole(100 * part)} %` : "-";

const withSpread = (
  { median: middle, low, high }: Spread,
  show = whole
): string =>
  Number.isFinite(middle)
    ? `${show(middle)} (${show(low)} to ${show(high)})`
    : "-";

/** The error with its sign between the median and the spread. */
const withError = (spread: Spread): string =>
  withSpread(spread, fixed).replace(" ", ` ± ${fixed(spread.error)} `);

function table(
  head: readonly string[],
  rows: readonly (readonly string[])[]
): string {
  const line = (cells: readonly string[]): string => `| ${cells.join(" | ")} |`;
  // The first column is words; the others are numbers.
  const rule = head.map((_, index) => (index === 0 ? "---" : "---:"));
  return [line(head), line(rule), ...rows.map(line)].join("\n");
}
