/** Latency: on one connection against the bar and a bare durable write, and in an open loop. */
import { join } from "node:path";
import { run } from "./child.ts";
import { assertAnswers, assertKept, inFolder, measure, variantOf, type Bench } from "./measure.ts";
import { cpuBetween, readCpu, type CpuUse } from "./machine.ts";
import { runOpenLoop, type OpenLoop } from "./openloop.ts";
import { here } from "./options.ts";
import { median, ratioOf, type Range } from "./statistics.ts";
import type { Key } from "./variants.ts";

export interface LatencyResult {
  /** Medians of each round on one connection, microseconds. */
  readonly one: Readonly<Record<"b" | "g" | "write", readonly number[]>>;
  /** g / (b + write), within each round. */
  readonly ratio: Range;
  readonly perSecond: number;
  readonly open: Readonly<Record<"b" | "g", readonly OpenLoop[]>>;
}

async function measureWrite(bench: Bench): Promise<number> {
  const { seconds } = bench.options;
  const measureOnce = (): Promise<{ readonly p50: number; readonly cpu: CpuUse | undefined }> =>
    inFolder(bench, async (folder) => {
      const before = readCpu();
      const program = join(here, "servers", "write.mjs");
      const text = await run("0", [process.execPath, program, join(folder, "bytes"), `${seconds}`]);
      const told: unknown = JSON.parse(text);
      return { p50: Number(Object(told).p50), cpu: cpuBetween(before, readCpu()) };
    });
  return (await bench.quiet.measure(measureOnce, bench.log)).p50;
}

function measureOpen(bench: Bench, key: Key, perSecond: number): Promise<OpenLoop> {
  const variant = variantOf(bench, key);
  const { seconds, warmup } = bench.options;
  return bench.quiet.measure(() => inFolder(bench, async (folder) => {
    const server = await variant.start(folder);
    try {
      await assertAnswers(variant, server);
      const warmed = await runOpenLoop(server.port, perSecond, Math.max(1, warmup), 64);
      const before = readCpu();
      const loop = await runOpenLoop(server.port, perSecond, seconds, 64);
      const cpu = cpuBetween(before, readCpu());
      await server.end();
      if (warmed.failed + loop.failed > 0) throw new Error(`${variant.name}: a request failed`);
      await assertKept(variant, folder, 1 + warmed.sent + loop.sent);
      return { ...loop, cpu };
    } finally {
      await server.end();
    }
  }), bench.log);
}

/** @param capacity of g at 64 connections, where it is known already */
export async function measureLatency(
  bench: Bench, capacity: number | undefined,
): Promise<LatencyResult> {
  const one = { b: new Array<number>(), g: new Array<number>(), write: new Array<number>() };
  const open = { b: new Array<OpenLoop>(), g: new Array<OpenLoop>() };
  const full = capacity ?? (await measure(bench, variantOf(bench, "g"), 64)).perSecond;
  const perSecond = Math.round(full / 2);
  for (let round = 1; round <= bench.options.rounds; round++) {
    one.b.push((await measure(bench, variantOf(bench, "b"), 1)).p50);
    one.g.push((await measure(bench, variantOf(bench, "g"), 1)).p50);
    one.write.push(await measureWrite(bench));
    for (const key of ["b", "g"] as const) open[key].push(await measureOpen(bench, key, perSecond));
    bench.log(`round ${round}, latency: b ${Math.round(median(one.b))} µs, `
      + `g ${Math.round(median(one.g))} µs, a write ${Math.round(median(one.write))} µs`);
  }
  const sums = one.b.map((micros, round) => micros + (one.write[round] ?? NaN));
  return { one, ratio: ratioOf(one.g, sums), perSecond, open };
}
