/** The load generator: wrk where it is, else autocannon. Both closed loops of keep-alive
 * connections, one request at a time on each. */
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { run, type Cores } from "./child.ts";
import { body, token } from "./client.ts";
import { here } from "./options.ts";

export interface Load {
  /** Responses with a status below 400. */
  readonly acknowledged: number;
  readonly perSecond: number;
  /** Microseconds. */
  readonly p50: number;
  readonly p99: number;
  readonly p999: number;
  readonly max: number;
}

export const versionOfWrk = /^wrk (\S+)/.exec(
  spawnSync("wrk", ["-v"], { encoding: "utf8" }).stdout ?? ""
);
export const generator = versionOfWrk
  ? `wrk ${versionOfWrk[1] ?? ""}, 1 thread`
  : "autocannon 9.0.0 (no wrk here: install it, autocannon may be slower than the servers)";

/** @param cores where the generator runs
 * @param keys whether each request has an Idempotency-Key of its own: needs wrk
 * @throws Error if any request was refused or got no response */
export function applyLoad(
  port: number,
  connections: number,
  seconds: number,
  cores: Cores,
  keys: boolean
): Promise<Load> {
  const url = `http://127.0.0.1:${port}/plants`;
  return versionOfWrk
    ? runWrk(url, connections, seconds, cores, keys)
    : runAutocannon(url, connections, seconds, cores);
}

/** Numbers by name out of a program's JSON. */
export function numbersIn(value: unknown): (name: string) => number {
  return (name) => {
    const found: unknown = Object(value)[name];
    if (typeof found !== "number")
      throw new Error(`a program that measures told no ${name}`);
    return found;
  };
}

async function runWrk(
  url: string,
  connections: number,
  seconds: number,
  cores: Cores,
  keys: boolean
): Promise<Load> {
  const env = {
    PLANTS_TOKEN: token,
    BENCH_BODY: body,
    ...(keys && { BENCH_KEYS: "yes" })
  };
  const text = await run(
    cores,
    [
      "wrk",
      "-t1",
      `-c${connections}`,
      `-d${seconds}s`,
      "--timeout",
      "10s",
      "-s",
      join(here, "post.lua"),
      url
    ],
    env
  );
  const figure = numbersIn(
    JSON.parse(/^numbers (.*)$/m.exec(text)?.[1] ?? "{}")
  );
  assertClean(figure("refused"), figure("broken"), url);
  const acknowledged = figure("requests");
  return {
    acknowledged,
    perSecond: (1e6 * acknowledged) / figure("micros"),
    p50: figure("p50"),
    p99: figure("p99"),
    p999: figure("p999"),
    max: figure("max")
  };
}

async function runAutocannon(
  url: string,
  connections: number,
  seconds: number,
  cores: Cores
): Promise<Load> {
  const program = join(here, "node_modules", "autocannon", "autocannon.js");
  const text = await run(cores, [
    process.execPath,
    program,
    "--json",
    "--no-progress",
    "--connections",
    String(connections),
    "--duration",
    String(seconds),
    "--method",
    "POST",
    "--headers",
    `Authorization=Bearer ${token}`,
    "--headers",
    "Content-Type=application/json",
    "--body",
    body,
    url
  ]);
  const report: unknown = JSON.parse(text);
  const figure = numbersIn(report);
  const latency = numbersIn(Object(report).latency);
  assertClean(figure("non2xx"), figure("errors") + figure("timeouts"), url);
  const acknowledged = figure("2xx");
  // Its latencies are whole milliseconds.
  return {
    acknowledged,
    perSecond: acknowledged / figure("duration"),
    p50: 1000 * latency("p50"),
    p99: 1000 * latency("p99"),
    p999: 1000 * latency("p99_9"),
    max: 1000 * latency("max")
  };
}

function assertClean(refused: number, broken: number, url: string): void {
  if (refused + broken > 0)
    throw new Error(`${url}: ${refused} refused, ${broken} without answer`);
}
