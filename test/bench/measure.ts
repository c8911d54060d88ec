/** One measurement: a fresh server, a warm-up, a load, and a look at what was kept. */
import { mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import type { Server } from "./child.ts";
import { askOnce } from "./client.ts";
import { applyLoad, type Load } from "./load.ts";
import { cpuBetween, memoryOf, readCpu, type CpuUse, type Memory } from "./machine.ts";
import type { Options } from "./options.ts";
import type { Key, Variant } from "./variants.ts";

/** What all parts share. */
export interface Bench {
  readonly options: Options;
  /** Where the stores are; removed at the end. */
  readonly folder: string;
  readonly variants: readonly Variant[];
  readonly quiet: Quiet;
  log(text: string): void;
}

export interface Sample extends Load {
  readonly idle: Memory;
  readonly loaded: Memory;
  readonly cpu: CpuUse | undefined;
}

/** Neighbours: how much of a core they may take, and how often a run is repeated for them. */
export class Quiet {
  static readonly othersMax = 0.1;
  static readonly triesMax = 3;
  /** How often a whole run of the benchmark may repeat something, and wait for silence. */
  readonly #repeatsMax: number;
  readonly #waitMillisMax: number;
  repeats = 0;
  disturbed = 0;
  othersMost = 0;
  waitedMillis = 0;

  constructor(quick: boolean) {
    [this.#repeatsMax, this.#waitMillisMax] = quick ? [5, 15_000] : [40, 240_000];
  }

  /** Repeats what neighbours disturbed, at once; the quietest try counts. */
  async measure<T extends { readonly cpu: CpuUse | undefined }>(
    once: () => Promise<T>, log: (text: string) => void,
  ): Promise<T> {
    await this.#silence();
    let best = await once();
    for (let tries = 1; othersIn(best) > Quiet.othersMax; tries++) {
      if (tries >= Quiet.triesMax || this.repeats >= this.#repeatsMax) {
        this.disturbed++;
        break;
      }
      this.repeats++;
      log(`  others used ${Math.round(100 * othersIn(best))} % of a core: again`);
      await this.#silence();
      const next = await once();
      if (othersIn(next) < othersIn(best)) best = next;
    }
    this.othersMost = Math.max(this.othersMost, othersIn(best));
    return best;
  }

  /** Waits for a quiet moment, but not for ever. */
  async #silence(): Promise<void> {
    const began = performance.now();
    for (let isQuiet = false; !isQuiet;) {
      const before = readCpu();
      await wait(250);
      const { others } = cpuBetween(before, readCpu()) ?? { others: 0 };
      const waited = performance.now() - began;
      isQuiet = others < Quiet.othersMax || waited > 20_000
        || this.waitedMillis + waited > this.#waitMillisMax;
    }
    this.waitedMillis += performance.now() - began - 250;
  }
}

const othersIn = ({ cpu }: { readonly cpu: CpuUse | undefined }): number => cpu?.others ?? 0;

export function variantOf(bench: Bench, key: Key): Variant {
  const found = bench.variants.find((variant) => variant.key === key);
  if (!found) throw new Error(`there is no variant ${key}`);
  return found;
}

/** A folder that is there while a measurement lasts. */
export async function inFolder<T>(bench: Bench, use: (folder: string) => Promise<T>): Promise<T> {
  const folder = mkdtempSync(join(bench.folder, "run-"));
  try {
    return await use(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** A server's first answer must be the right one: nothing else is worth measuring. */
export async function assertAnswers(variant: Variant, server: Server): Promise<void> {
  const { status, body } = await askOnce(server.port);
  if (status === variant.status && /"name": ?"Fern", ?\s*"tag": ?"shade"/.test(body)) return;
  throw new Error(`${variant.name} answered ${status}: ${body}`);
}

/** What was acknowledged must be there; more may be: answers that the load did not wait for. */
export async function assertKept(
  variant: Variant, folder: string, acknowledged: number,
): Promise<void> {
  const kept = await variant.count?.(folder);
  if (kept === undefined || kept >= acknowledged) return;
  throw new Error(`${variant.name} acknowledged ${acknowledged} plants, and kept ${kept}`);
}

/** Fresh each time: no server carries a heap, a file or a database from one round to the next.
 * The warm-up is for its compiled code: V8's compilers share the server's core, and in its first
 * second or two every server here answers at half its rate. */
export function measure(bench: Bench, variant: Variant, connections: number): Promise<Sample> {
  const { seconds, warmup } = bench.options;
  return bench.quiet.measure(() => inFolder(bench, async (folder) => {
    const server = await variant.start(folder);
    try {
      await assertAnswers(variant, server);
      const sample = await loadServer(server, connections, warmup, seconds);
      await server.end();
      await assertKept(variant, folder, 1 + sample.warmed + sample.acknowledged);
      return sample;
    } finally {
      await server.end();
    }
  }), bench.log);
}

export async function loadServer(
  server: Server, connections: number, warmup: number, seconds: number,
): Promise<Sample & { readonly warmed: number }> {
  const idle = memoryOf(server.pid);
  const warmed = warmup > 0 ? await applyLoad(server.port, connections, warmup) : undefined;
  const before = readCpu();
  const load = await applyLoad(server.port, connections, seconds);
  const cpu = cpuBetween(before, readCpu());
  const loaded = memoryOf(server.pid);
  return { ...load, idle, loaded, cpu, warmed: warmed?.acknowledged ?? 0 };
}
