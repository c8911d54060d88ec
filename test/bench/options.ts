/** The command line of the benchmark. */
import { existsSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { settings, type Setting } from "./child.ts";

export const here = dirname(fileURLToPath(import.meta.url));
export const root = dirname(dirname(here));

export const parts = ["rounds", "latency", "growth", "fresh", "slow"] as const;
export type Part = (typeof parts)[number];

/** All servers that can be measured; the last two only with `--against`. */
export const keys = [
  "raw",
  "constant",
  "bar",
  "fastify",
  "fastify-sqlite",
  "express-sqlite",
  "json-server",
  "plant-store",
  "plant-store-keys",
  "library",
  "against",
  "against-library"
] as const;
export type Key = (typeof keys)[number];

export interface Options {
  readonly only: readonly Part[];
  /** The servers that take part in the rounds. */
  readonly servers: readonly Key[];
  /** Another checkout of this project, with its `dist`, or undefined. */
  readonly against: string | undefined;
  readonly rounds: number;
  readonly seconds: number;
  readonly warmup: number;
  readonly connections: readonly number[];
  readonly settings: readonly Setting[];
  /** Sizes of the growth's journals, in records. */
  readonly journals: readonly number[];
  /** The folder of all stores: it decides which disk is measured. */
  readonly folder: string;
  readonly out: string;
  /** The path of the chart; empty for none. */
  readonly chart: string;
  readonly quick: boolean;
}

export const help = `npm run bench -- [options]
  --only PARTS         some of ${parts.join(",")} (all)
  --servers LIST       who takes part in the rounds, some of (all)
                         ${keys.slice(0, 5).join(",")},
                         ${keys.slice(5).join(",")}
  --against FOLDER     another checkout of this project, built: its servers take part, too
  --rounds N           rounds, in each of which every server is loaded once (20)
  --seconds N          measured seconds of each turn (1)
  --warmup N           seconds of load after a server's start, not counted (3)
  --connections LIST   for the rounds (1,64,256)
  --cores LIST         one: servers on one core, load on the other; both: all on both (one,both)
  --journals LIST      records of the journals that growth opens (0,1000000,10000000)
  --folder FOLDER      where the stores are, for the choice of disk (the temporary folder)
  --out FILE           all numbers as JSON (test/bench/results.json)
  --chart FILE         the chart (test/bench/chart.svg; none with --quick, --servers, --against)
  --quick              a smoke run of three minutes: its numbers mean little`;

export function readOptions(argv: readonly string[]): Options | "help" {
  const text = { type: "string" } as const;
  const { values } = parseArgs({
    args: [...argv],
    options: {
      only: text,
      servers: text,
      against: text,
      rounds: text,
      seconds: text,
      warmup: text,
      connections: text,
      cores: text,
      journals: text,
      folder: text,
      out: text,
      chart: text,
      quick: { type: "boolean" },
      help: { type: "boolean" }
    }
  });
  if (values.help === true) return "help";

  const quick = values.quick === true;
  const isWhole =
    !quick && values.servers === undefined && values.against === undefined;
  const cores = namesOf("cores", values.cores, ["one", "both"] as const);
  return {
    only: namesOf("only", values.only, parts),
    servers: namesOf("servers", values.servers, keys),
    against:
      values.against === undefined ? undefined : checkoutIn(values.against),
    rounds: numberOf("rounds", values.rounds ?? (quick ? "2" : "20"), 1, 1000),
    seconds: numberOf("seconds", values.seconds ?? "1", 1, 60),
    warmup: numberOf("warmup", values.warmup ?? (quick ? "1" : "3"), 0, 60),
    connections: numbersOf(
      "connections",
      values.connections ?? "1,64,256",
      1,
      1000
    ),
    settings: settings.filter(({ key }) => cores.includes(key)),
    journals: numbersOf(
      "journals",
      values.journals ?? (quick ? "0,100000" : "0,1000000,10000000"),
      0,
      100_000_000
    ),
    folder: values.folder ?? tmpdir(),
    out: values.out ?? join(here, "results.json"),
    chart: values.chart ?? (isWhole ? join(here, "chart.svg") : ""),
    quick
  };
}

function numberOf(
  flag: string,
  given: string,
  min: number,
  max: number
): number {
  const value = Number(given);
  if (Number.isInteger(value) && value >= min && value <= max) return value;
  throw new Error(
    `--${flag}: found ${given}, expected a whole number from ${min} to ${max}`
  );
}

const numbersOf = (
  flag: string,
  given: string,
  min: number,
  max: number
): readonly number[] =>
  given.split(",").map((item) => numberOf(flag, item, min, max));

/** Some of the names that there are, in their own order; all where nothing is given. */
function namesOf<T extends string>(
  flag: string,
  given: string | undefined,
  names: readonly T[]
): readonly T[] {
  const wanted = given?.split(",") ?? names;
  const strange = wanted.find((name) => !names.some((known) => known === name));
  if (strange === undefined)
    return names.filter((name) => wanted.includes(name));
  throw new Error(
    `--${flag}: found ${strange}, expected some of ${names.join(",")}`
  );
}

function checkoutIn(folder: string): string {
  const path = resolve(folder);
  if (existsSync(join(path, "dist", "server.js"))) return path;
  throw new Error(
    `--against: there is no dist/server.js in ${folder}: build it there first`
  );
}
