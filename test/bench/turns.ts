/** Servers in turn: all of a comparison alive at once, loaded one at a time, everybody once in
 * every round. What a neighbour or a slow disk does for minutes falls on all of a round alike:
 * rates change threefold, their ratios within a round hardly. */
import { mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import type { Cores, Server } from "./child.ts";
import { askOnce } from "./client.ts";
import { applyLoad, type Load } from "./load.ts";
import { cpuMicrosOf } from "./machine.ts";
import type { Key, Options } from "./options.ts";
import type { Place, Variant } from "./variants.ts";

/** Shared by all parts. */
export interface Bench {
  readonly options: Options;
  /** The folder of the stores; removed at the end. */
  readonly folder: string;
  readonly variants: readonly Variant[];
  log(text: string): void;
}

export interface Sample extends Load {
  /** CPU of all threads of the server, for each response. */
  readonly cpuMicros: number;
}

/** A server that is up. */
export interface Live {
  readonly variant: Variant;
  readonly folder: string;
  readonly server: Server;
  /** From the spawn to the first valid response. */
  readonly startMillis: number;
  /** How many plants it must have kept at the end. */
  acknowledged: number;
}

export function variantOf(bench: Bench, key: Key): Variant {
  const found = bench.variants.find((variant) => variant.key === key);
  if (!found) throw new Error(`there is no variant ${key}`);
  return found;
}

/** A fresh server, alive while it is used. At the end it must have kept what it acknowledged. */
export async function withServer<T>(
  bench: Bench,
  variant: Variant,
  cores: Cores,
  use: (live: Live) => Promise<T>
): Promise<T> {
  const folder = mkdtempSync(join(bench.folder, "run-"));
  try {
    const live = await start(variant, { folder, cores });
    const result = await use(live).finally(() => live.server.end());
    await assertKept(live);
    return result;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** The same for some of them, all alive at once. */
export function withServers<T>(
  bench: Bench,
  [first, ...rest]: readonly Variant[],
  cores: Cores,
  use: (live: readonly Live[]) => Promise<T>
): Promise<T> {
  if (!first) return use([]);
  return withServer(bench, first, cores, (live) =>
    withServers(bench, rest, cores, (others) => use([live, ...others]))
  );
}

/** Starts a server. Its first response must be the right one. */
async function start(variant: Variant, place: Place): Promise<Live> {
  const server = await variant.start(place);
  const { status, body } = await askOnce(server.port);
  const startMillis = performance.now() - server.spawnedAt;
  if (
    status === variant.status &&
    /"name": ?"Fern", ?\s*"tag": ?"shade"/.test(body)
  ) {
    return {
      variant,
      folder: place.folder,
      server,
      startMillis,
      acknowledged: 1
    };
  }
  await server.end();
  throw new Error(`${variant.name} answered ${status}: ${body}`);
}

/** Acknowledged plants must be there. More may be: the load does not wait for its last responses. */
async function assertKept({
  variant,
  folder,
  acknowledged
}: Live): Promise<void> {
  const kept = await variant.count?.(folder);
  if (kept === undefined || kept >= acknowledged) return;
  throw new Error(
    `${variant.name} acknowledged ${acknowledged} plants, and kept ${kept}`
  );
}

/** Every one once in every round. The order is drawn for each odd round, and reversed for
 * the even round after it, so that neither a place in the order nor a slow drift of the machine
 * favours a server.
 * @returns what was measured of each, round by round */
export async function takeTurns<T, S>(
  rounds: number,
  all: readonly T[],
  measure: (one: T) => Promise<S>
): Promise<readonly { readonly one: T; readonly samples: readonly S[] }[]> {
  const runs = all.map((one) => ({ one, samples: new Array<S>() }));
  let order = runs;
  for (let round = 1; round <= rounds; round++) {
    order = round % 2 === 1 ? shuffled(runs) : order.toReversed();
    for (const { one, samples } of order) samples.push(await measure(one));
  }
  return runs;
}

const shuffled = <T>(all: readonly T[]): T[] =>
  all
    .map((one) => ({ one, place: Math.random() }))
    .sort((a, b) => a.place - b.place)
    .map(({ one }) => one);

/** A turn: one load of one server, and what it cost the server. */
export async function loadOnce(
  live: Live,
  connections: number,
  seconds: number,
  cores: Cores
): Promise<Sample> {
  const { pid, port } = live.server;
  const cpuBefore = cpuMicrosOf(pid);
  const load = await applyLoad(
    port,
    connections,
    seconds,
    cores,
    live.variant.keys ?? false
  );
  const cpuMicros = (cpuMicrosOf(pid) - cpuBefore) / load.acknowledged;
  live.acknowledged += load.acknowledged;

  // The server sees now that its connections have ended: that is no part of another's turn.
  await wait(100);
  return { ...load, cpuMicros };
}

/** For compiled code: V8's compilers share the server's core, and in its first second or two
 * every server here answers at half its rate. */
export async function warmUp(
  bench: Bench,
  all: readonly Live[],
  connections: number,
  cores: Cores
): Promise<void> {
  const { warmup } = bench.options;
  if (warmup === 0) return;
  for (const live of all) await loadOnce(live, connections, warmup, cores);
}
