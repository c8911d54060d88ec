/** The command line of the benchmark. */
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

export const here = dirname(fileURLToPath(import.meta.url));
export const root = dirname(dirname(here));

export const parts = ["rounds", "latency", "growth", "memory", "start", "slow"] as const;
export type Part = (typeof parts)[number];

export interface Options {
  readonly only: ReadonlySet<Part>;
  readonly rounds: number;
  readonly seconds: number;
  readonly warmup: number;
  readonly connections: readonly number[];
  /** Sizes of the growth's journals, in records. */
  readonly journals: readonly number[];
  /** The folder of all stores: it decides which disk is measured. */
  readonly folder: string;
  readonly out: string;
  /** Where the chart goes; empty: nowhere. */
  readonly chart: string;
  readonly quick: boolean;
}

export const help = `npm run bench -- [options]
  --only PARTS         some of ${parts.join(",")} (all)
  --rounds N           rounds, interleaved (5)
  --seconds N          measured seconds of each run (4)
  --warmup N           seconds before, not counted (3)
  --connections LIST   for the rounds (1,16,64,256)
  --journals LIST      records of the journals that growth opens (0,1000000,10000000)
  --folder FOLDER      where the stores are, for the choice of disk (the temporary folder)
  --out FILE           all figures as JSON (test/bench/results.json)
  --chart FILE         the chart (test/bench/chart.svg; with --quick none)
  --quick              a smoke run of about a minute: its figures mean little`;

export function readOptions(argv: readonly string[]): Options | "help" {
  const text = { type: "string" } as const;
  const { values } = parseArgs({
    args: [...argv],
    options: {
      only: text, rounds: text, seconds: text, warmup: text, connections: text, journals: text,
      folder: text, out: text, chart: text,
      quick: { type: "boolean" }, help: { type: "boolean" },
    },
  });
  if (values.help === true) return "help";
  const quick = values.quick === true;
  const number = (name: string, given: string, min = 0): number => {
    const value = Number(given);
    if (!Number.isInteger(value) || value < min) {
      throw new Error(`--${name}: a whole number from ${min} on`);
    };
    return value;
  };
  const list = (name: string, given: string, min = 0): readonly number[] =>
    given.split(",").map((item) => number(name, item, min));
  const only = values.only?.split(",") ?? parts;
  const strange = only.find((name) => !parts.some((part) => part === name));
  if (strange !== undefined) throw new Error(`--only: there is no part ${strange}`);
  return {
    only: new Set(parts.filter((part) => only.includes(part))),
    rounds: number("rounds", values.rounds ?? (quick ? "1" : "5"), 1),
    seconds: number("seconds", values.seconds ?? (quick ? "1" : "4"), 1),
    warmup: number("warmup", values.warmup ?? (quick ? "1" : "3")),
    connections: list("connections", values.connections ?? (quick ? "1,64" : "1,16,64,256"), 1),
    journals: list("journals", values.journals ?? (quick ? "0,100000" : "0,1000000,10000000")),
    folder: values.folder ?? tmpdir(),
    out: values.out ?? join(here, "results.json"),
    chart: values.chart ?? (quick ? "" : join(here, "chart.svg")),
    quick,
  };
}
