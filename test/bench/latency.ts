/** Latency in an open loop: requests that come when they are due, at half of what the plant store
 * can do. */
import { settings } from "./child.ts";
import type { Key } from "./options.ts";
import { runOpenLoop, type OpenLoop } from "./openloop.ts";
import {
  loadOnce,
  takeTurns,
  variantOf,
  warmUp,
  withServer,
  type Bench,
  type Live
} from "./turns.ts";

export interface LatencyResult {
  /** How many requests were due in a second. */
  readonly perSecond: number;
  /** Each one's, round by round. */
  readonly runs: readonly {
    readonly key: Key;
    readonly samples: readonly OpenLoop[];
  }[];
}

const connections = 64;

export function measureLatency(bench: Bench): Promise<LatencyResult> {
  const { rounds, seconds } = bench.options;
  const [{ servers, load }] = settings;
  return withServer(bench, variantOf(bench, "bar"), servers, (bar) =>
    withServer(
      bench,
      variantOf(bench, "plant-store"),
      servers,
      async (plantStore) => {
        await warmUp(bench, [bar, plantStore], connections, load);
        const capacity = await loadOnce(
          plantStore,
          connections,
          Math.max(3, seconds),
          load
        );
        const perSecond = Math.round(capacity.perSecond / 2);

        const runs = await takeTurns(rounds, [bar, plantStore], (live) =>
          loopOnce(live, perSecond, seconds)
        );
        bench.log(`latency: ${rounds} rounds at ${perSecond} requests/s`);
        return {
          perSecond,
          runs: runs.map(({ one, samples }) => ({
            key: one.variant.key,
            samples
          }))
        };
      }
    )
  );
}

async function loopOnce(
  live: Live,
  perSecond: number,
  seconds: number
): Promise<OpenLoop> {
  const loop = await runOpenLoop(
    live.server.port,
    perSecond,
    seconds,
    connections
  );
  if (loop.failed > 0)
    throw new Error(`${live.variant.name}: ${loop.failed} requests failed`);
  live.acknowledged += loop.sent;
  return loop;
}
