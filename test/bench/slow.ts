/** Valid clients beside a thousand slow ones, which send a byte a second and never finish. */
import { connect } from "node:net";
import { setTimeout as wait } from "node:timers/promises";
import { settings } from "./child.ts";
import { token } from "./client.ts";
import type { Load } from "./load.ts";
import { memoryOf, othersBetween, readUse } from "./machine.ts";
import { root } from "./options.ts";
import { loadOnce, variantOf, withServer, type Bench } from "./turns.ts";
import { plantStore } from "./variants.ts";

const kinds = ["head", "body", "chunks"] as const;
type Kind = (typeof kinds)[number];

interface Closed {
  readonly kind: Kind;
  readonly seconds: number;
  /** The status line's number; 0: closed without a response. */
  readonly status: number;
}

export interface SlowResult {
  readonly connections: number;
  readonly honest: number;
  readonly headSeconds: number;
  readonly requestSeconds: number;
  /** CPU of other processes meanwhile, in parts of one core. */
  readonly others: number;
  readonly without: readonly Load[];
  readonly with: Load;
  readonly rssMiB: { readonly without: number; readonly with: number };
  readonly closed: readonly {
    readonly kind: Kind;
    readonly count: number;
    readonly status408: number;
    readonly slowest: number;
    readonly late: number;
  }[];
  readonly neverClosed: number;
}

const start = `POST /plants HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ${token}\r\n`;
/** The bytes that are sent at once, and those that follow every second. */
const plans: Readonly<Record<Kind, readonly [string, string]>> = {
  head: ["POST /plants HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ", "a"],
  body: [
    `${start}Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n`,
    " "
  ],
  chunks: [
    `${start}Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n`,
    "1\r\n \r\n"
  ]
};

/** Its time counts from when the connection was made. */
function beSlow(port: number, kind: Kind): Promise<Closed> {
  return new Promise((resolve) => {
    const socket = connect({ port, host: "127.0.0.1", noDelay: true });
    const [first, then] = plans[kind];
    let [began, text] = [NaN, ""];
    socket.once("connect", () => {
      began = performance.now();
    });
    socket.write(first);
    // The first byte of the dribble after a part of a second: not all at the same instant.
    let timer = setTimeout(() => {
      timer = setInterval(() => socket.write(then), 1000);
    }, 1000 * Math.random());
    socket.setEncoding("latin1").on("data", (part: string) => {
      text += part;
    });
    socket
      .on("error", () => undefined)
      .on("end", () => socket.destroy())
      .on("close", () => {
        clearTimeout(timer);
        const status = Number(/^HTTP\/1\.1 (\d+)/.exec(text)?.[1] ?? 0);
        resolve({ kind, seconds: (performance.now() - began) / 1000, status });
      });
  });
}

export function measureSlow(bench: Bench): Promise<SlowResult> {
  const { quick } = bench.options;
  const [headSeconds, requestSeconds, honestSeconds] = quick
    ? [2, 4, 1]
    : [10, 30, 4];
  const flags = quick
    ? ["--head-timeout", "2000", "--request-timeout", "4000"]
    : [];
  const variant = {
    ...variantOf(bench, "plant-store"),
    start: plantStore(root, flags)
  };
  const [connections, honest] = [1000, 16];
  const [setting] = settings;

  return withServer(bench, variant, setting.servers, async (live) => {
    const load = (seconds: number): Promise<Load> =>
      loadOnce(live, honest, seconds, setting.load);
    await load(honestSeconds);
    const before = await load(honestSeconds);
    const rssBefore = memoryOf(live.server.pid).rssMiB;

    bench.log(
      `slow: ${connections} slow connections for ${requestSeconds + 3} s`
    );
    const closed: Closed[] = [];
    const slow: Promise<number>[] = [];
    for (let index = 0; index < connections; index++) {
      const kind = kinds[index % kinds.length] ?? "head";
      slow.push(beSlow(live.server.port, kind).then((one) => closed.push(one)));
      // All at once would overflow the kernel's queue, and try again a second later.
      if (index % 50 === 49) await wait(25);
    }
    const useBefore = readUse();
    const beside = load(requestSeconds + 2);
    // Half of the time that the first of them are given up after: all are still there.
    await wait(500 * headSeconds);
    const rssWith = memoryOf(live.server.pid).rssMiB;
    const withSlow = await beside;
    const others = othersBetween(useBefore, readUse());
    await Promise.race([Promise.all(slow), wait(1000)]);
    const neverClosed = connections - closed.length;

    const after = await load(honestSeconds);
    return {
      connections,
      honest,
      headSeconds,
      requestSeconds,
      others,
      without: [before, after],
      with: withSlow,
      rssMiB: { without: rssBefore, with: rssWith },
      neverClosed,
      closed: kinds.map((kind) => {
        const limit = (kind === "head" ? headSeconds : requestSeconds) + 1;
        const those = closed.filter((one) => one.kind === kind);
        return {
          kind,
          count: those.length,
          status408: those.filter((one) => one.status === 408).length,
          slowest: Math.max(...those.map((one) => one.seconds)),
          late: those.filter((one) => one.seconds > limit).length
        };
      })
    };
  });
}
