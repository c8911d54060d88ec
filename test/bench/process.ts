/** The server as a process: its memory, and its start. */
import { assertAnswers, inFolder, measure, variantOf, type Bench } from "./measure.ts";
import { cpuBetween, readCpu, type Memory } from "./machine.ts";
import { samplesOf, type RoundsResult } from "./rounds.ts";

export const processKeys = ["b", "c", "g"] as const;
type ByKey<T> = Readonly<Record<(typeof processKeys)[number], readonly T[]>>;

/** After the first answer, and under 64 connections. */
export type MemoryResult = ByKey<{ readonly idle: Memory; readonly loaded: Memory }>;
/** Milliseconds from the spawn to the first good answer. */
export type StartResult = ByKey<number>;

/** @param rounds where they were measured already, with the same load on fresh servers */
export async function measureMemory(
  bench: Bench, rounds: RoundsResult | undefined,
): Promise<MemoryResult> {
  type One = MemoryResult["b"][number];
  const result = { b: new Array<One>(), c: new Array<One>(), g: new Array<One>() };
  for (let round = 0; round < bench.options.rounds; round++) {
    for (const key of processKeys) {
      const { idle, loaded } = rounds && samplesOf(rounds, key, 64)[round]
        || await measure(bench, variantOf(bench, key), 64);
      result[key].push({ idle, loaded });
    }
  }
  bench.log("memory: done");
  return result;
}

export async function measureStart(bench: Bench): Promise<StartResult> {
  const result = { b: new Array<number>(), c: new Array<number>(), g: new Array<number>() };
  const { quick, rounds } = bench.options;
  for (let round = 1; round <= Math.max(quick ? 3 : 11, rounds); round++) {
    for (const key of processKeys) {
      const variant = variantOf(bench, key);
      const { millis } = await bench.quiet.measure(() => inFolder(bench, async (folder) => {
        const before = readCpu();
        const server = await variant.start(folder);
        try {
          await assertAnswers(variant, server);
          const taken = performance.now() - server.spawnedAt;
          return { millis: taken, cpu: cpuBetween(before, readCpu()) };
        } finally {
          await server.end();
        }
      }), bench.log);
      result[key].push(millis);
    }
  }
  bench.log("start: done");
  return result;
}
