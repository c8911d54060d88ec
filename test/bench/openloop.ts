/** An open loop: requests are due at a fixed rate, whatever the server does, and each one's
 * latency counts from when it was due. So a server that stalls can't slow down its own exam. */
import { setImmediate } from "node:timers/promises";
import { Client } from "./client.ts";
import { quantile } from "./statistics.ts";

export interface OpenLoop {
  readonly sent: number;
  readonly failed: number;
  /** Microseconds. */
  readonly p50: number;
  readonly p99: number;
  readonly p999: number;
  readonly max: number;
  /** How late the generator itself noticed that a request was due. It is part of the latency. */
  readonly lagP99: number;
  readonly lagMax: number;
  /** The most requests that waited for a free connection. */
  readonly waitingMax: number;
}

export async function runOpenLoop(
  port: number,
  perSecond: number,
  seconds: number,
  connections: number
): Promise<OpenLoop> {
  const clients = Array.from({ length: connections }, () => new Client(port));
  const free = [...clients];
  const sent = Math.max(1, Math.round(perSecond * seconds));
  const latencies = new Float64Array(sent);
  const lags = new Float64Array(sent);
  const waiting: number[] = [];
  const start = performance.now() + 50;
  const dueAt = (index: number): number => start + (1000 * index) / perSecond;
  let [next, first, ended, failed, waitingMax] = [0, 0, 0, 0, 0];
  const deadline = start + 1000 * (seconds + 30);
  // A busy loop: timers are exact to a millisecond only, which is longer than an answer takes.
  while (ended < sent && performance.now() < deadline) {
    const now = performance.now();
    for (; next < sent && dueAt(next) <= now; next++) {
      lags[next] = 1000 * (now - dueAt(next));
      waiting.push(next);
    }
    for (; first < waiting.length; first++) {
      const [client, index] = [free.pop(), waiting[first]];
      if (!client || index === undefined) break;
      client.send(({ status }) => {
        latencies[index] = 1000 * (performance.now() - dueAt(index));
        ended++;
        if (status !== 200) failed++;
        free.push(client);
      });
    }
    waitingMax = Math.max(waitingMax, waiting.length - first);
    await setImmediate();
  }
  for (const { socket } of clients) socket.destroy();
  return {
    sent,
    failed: failed + sent - ended,
    p50: quantile(latencies, 0.5),
    p99: quantile(latencies, 0.99),
    p999: quantile(latencies, 0.999),
    max: quantile(latencies, 1),
    lagP99: quantile(lags, 0.99),
    lagMax: quantile(lags, 1),
    waitingMax
  };
}
