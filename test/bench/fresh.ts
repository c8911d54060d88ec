/** The server as a process, fresh in every round: its start and its memory. */
import { settings } from "./child.ts";
import { memoryOf, type Memory } from "./machine.ts";
import type { Key } from "./options.ts";
import { loadOnce, takeTurns, withServer, type Bench } from "./turns.ts";
import type { Variant } from "./variants.ts";

export interface FreshSample {
  /** From the spawn to the first valid response. */
  readonly startMillis: number;
  /** After the first response. */
  readonly idle: Memory;
  /** After a load of 64 connections. */
  readonly loaded: Memory;
}

/** Each one's samples, round by round. */
export type FreshResult = readonly {
  readonly key: Key;
  readonly samples: readonly FreshSample[];
}[];

const keysMeasured: readonly Key[] = [
  "bar",
  "fastify",
  "plant-store",
  "against"
];

export async function measureFresh(bench: Bench): Promise<FreshResult> {
  const rounds = bench.options.quick ? 2 : 11;
  const variants = bench.variants.filter(({ key }) =>
    keysMeasured.includes(key)
  );
  const runs = await takeTurns(rounds, variants, (variant) =>
    measureOnce(bench, variant)
  );
  bench.log(`fresh: ${rounds} rounds`);
  return runs.map(({ one: { key }, samples }) => ({ key, samples }));
}

function measureOnce(bench: Bench, variant: Variant): Promise<FreshSample> {
  const [{ servers, load }] = settings;
  const seconds = bench.options.quick ? 1 : 5;
  return withServer(bench, variant, servers, async (live) => {
    const { startMillis, server } = live;
    const idle = memoryOf(server.pid);
    await loadOnce(live, 64, seconds, load);
    return { startMillis, idle, loaded: memoryOf(server.pid) };
  });
}
