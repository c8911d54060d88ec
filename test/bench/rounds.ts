/** The speed of each server and its price: all servers in turn, at some numbers of connections, and
 * with one core or both. */
import { join } from "node:path";
import { run, type Setting } from "./child.ts";
import { numbersIn } from "./load.ts";
import { othersBetween, readUse } from "./machine.ts";
import { here, type Key } from "./options.ts";
import {
  loadOnce,
  takeTurns,
  warmUp,
  withServers,
  type Bench,
  type Live,
  type Sample
} from "./turns.ts";
import { journalIn } from "./variants.ts";

/** A server, or the bare durable write that takes its turn beside them at one connection. */
export type RunKey = Key | "write";

interface Contestant {
  readonly key: RunKey;
  measure(): Promise<Sample>;
}

export interface Comparison {
  readonly connections: number;
  readonly setting: Setting;
  /** CPU of other processes meanwhile, in parts of one core. */
  readonly others: number;
  /** Each one's samples, round by round. */
  readonly runs: readonly {
    readonly key: RunKey;
    readonly samples: readonly Sample[];
  }[];
}

export type RoundsResult = readonly Comparison[];

/** All servers at 64 connections; at other numbers those that show how this server behaves. */
const isAt = (connections: number, key: Key): boolean =>
  connections === 64 ||
  [
    "bar",
    "fastify",
    "plant-store",
    "library",
    "against",
    "against-library"
  ].includes(key);

export async function measureRounds(bench: Bench): Promise<RoundsResult> {
  const comparisons: Comparison[] = [];
  for (const connections of bench.options.connections) {
    for (const setting of bench.options.settings) {
      comparisons.push(await compare(bench, connections, setting));
    }
  }
  return comparisons;
}

function compare(
  bench: Bench,
  connections: number,
  setting: Setting
): Promise<Comparison> {
  const { rounds, seconds, servers } = bench.options;
  const variants = bench.variants.filter(
    ({ key, skipped }) =>
      skipped === undefined && servers.includes(key) && isAt(connections, key)
  );

  return withServers(bench, variants, setting.servers, async (live) => {
    await warmUp(bench, live, connections, setting.load);
    const contestants: Contestant[] = live.map((one) => ({
      key: one.variant.key,
      measure: () => loadOnce(one, connections, seconds, setting.load)
    }));
    const durable = live.find(({ variant }) => variant.key === "plant-store");
    if (connections === 1 && durable) {
      contestants.push({
        key: "write",
        measure: () => writeAlone(durable, seconds, setting)
      });
    }

    const before = readUse();
    const runs = await takeTurns(rounds, contestants, ({ measure }) =>
      measure()
    );
    const others = othersBetween(before, readUse());
    bench.log(`${connections} at once, ${setting.title}: ${rounds} rounds`);
    return {
      connections,
      setting,
      others,
      runs: runs.map(({ one: { key }, samples }) => ({ key, samples }))
    };
  });
}

/** The bytes of one record, written durably on the servers' cores, again and again. */
async function writeAlone(
  durable: Live,
  seconds: number,
  setting: Setting
): Promise<Sample> {
  const { folder } = durable;
  const program = join(here, "servers", "write.mjs");
  const text = await run(setting.servers, [
    process.execPath,
    program,
    join(folder, "write"),
    String(seconds),
    journalIn(folder)
  ]);
  const figure = numbersIn(JSON.parse(text));
  return {
    acknowledged: figure("acknowledged"),
    perSecond: figure("perSecond"),
    cpuMicros: figure("cpuMicros"),
    p50: figure("p50"),
    p99: figure("p99"),
    p999: figure("p999"),
    max: figure("max")
  };
}

/** One figure of a contestant, round by round; none where it was not measured. */
export const numbersOf = (
  { runs }: Comparison,
  key: RunKey,
  pick: keyof Sample
): readonly number[] =>
  runs.find((run) => run.key === key)?.samples.map((sample) => sample[pick]) ??
  [];

export const comparisonAt = (
  rounds: RoundsResult,
  connections: number,
  setting: Setting
): Comparison | undefined =>
  rounds.find(
    (one) => one.connections === connections && one.setting.key === setting.key
  );
