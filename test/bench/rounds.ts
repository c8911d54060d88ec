/** Requests per second, everybody in turn in every round: a slow minute hits all alike. */
import { measure, type Bench, type Sample } from "./measure.ts";
import type { Key } from "./variants.ts";

export interface RoundsResult {
  /** The samples of all rounds, in order. */
  readonly runs: readonly {
    readonly connections: number; readonly key: Key; readonly samples: readonly Sample[];
  }[];
}

/** At 64 connections everybody; at the others who says how the server itself behaves. */
const keysAt = (connections: number): readonly Key[] =>
  connections === 64 ? ["raw", "a", "b", "c", "d", "e", "f", "g", "h"] : ["b", "c", "g", "h"];

export async function measureRounds(bench: Bench): Promise<RoundsResult> {
  const runs = bench.options.connections.flatMap((connections) =>
    bench.variants
      .filter(({ key, skipped }) => skipped === undefined && keysAt(connections).includes(key))
      .map((variant) => ({ connections, variant, samples: new Array<Sample>() })));
  for (let round = 1; round <= bench.options.rounds; round++) {
    for (const { connections, variant, samples } of runs) {
      const sample = await measure(bench, variant, connections);
      samples.push(sample);
      bench.log(`round ${round}, ${connections} connections, ${variant.key}: `
        + `${Math.round(sample.perSecond)} requests/s`);
    }
  }
  return {
    runs: runs.map(({ connections, variant: { key }, samples }) => ({ connections, key, samples })),
  };
}

/** A variant's samples, round by round; none where it was not measured. */
export const samplesOf = (
  { runs }: RoundsResult, key: Key, connections: number,
): readonly Sample[] =>
  runs.find((run) => run.key === key && run.connections === connections)?.samples ?? [];
