/** The program's metrics, in Prometheus' text format 0.0.4. */
import type { Server } from "node:http";
import { catalogue } from "../../http/errors.ts";
import type { ResponseSummary } from "../../index.ts";
import { ifPossible } from "../../failure.ts";
import { version } from "../../config.ts";
import type { Health } from "./health.ts";
import type { Host } from "../host.ts";
import type { Store } from "../open-store.ts";
import type { Secrets } from "./tokens.ts";

/** What the metrics read when they are scraped. */
export interface Sources {
  readonly store: Store;
  readonly host: Host;
  readonly health: Health;
  readonly secrets: Secrets;
}

type Metric = readonly [
  type: "counter" | "gauge" | "histogram",
  help: string,

  /**
   * What follows the name in each sample that is counted: by default nothing, in one sample. Or a
   * function that reads the metric: true is 1, false 0, and a text has labels, too. If the result is
   * undefined or the metric cannot be read, it is left out.
   */
  values?:
    | readonly string[]
    | ((
        stats: Store["stats"],
        sources: Sources
      ) => number | boolean | string | undefined)
];

/** Returns the labels of the responses with an error, or of those without one. */
const labelsOf = (error?: number) =>
  error === undefined
    ? '{status="200",error=""}'
    : `{status="${Math.floor(error / 100)}",error="${error}"}`;

/** Upper bounds of the histograms' buckets, as their labels have them. */
const secondsBounds = "0.0005 0.001 0.002 0.005 0.01 0.05 0.1 0.5 1 5 +Inf";
const recordsBounds = "1 2 4 8 16 32 64 128 256 512 1024 4096 +Inf";

const bucketsOf = (bounds: string) => [
  ...bounds.split(" ").map((bound) => `_bucket{le="${bound}"}`),
  "_sum",
  "_count"
];

/** Every metric, with its HELP text; the README lists the names. */
export const metricTable = {
  plant_store_http_requests_total: [
    "counter",
    "responses by status and error, the parser's included",
    [labelsOf(), ...Object.values(catalogue).map(([error]) => labelsOf(error))]
  ],
  plant_store_replays_total: [
    "counter",
    "responses 200 to a request whose plant was stored before"
  ],
  plant_store_http_received_bytes_total: [
    "counter",
    "bytes read, with TLS as they are encrypted, counted when a connection closes"
  ],
  plant_store_http_sent_bytes_total: [
    "counter",
    "bytes written, with TLS as they are encrypted, counted when a connection closes"
  ],
  plant_store_connections: ["gauge", "open connections"],
  plant_store_connections_refused_total: [
    "counter",
    "connections over the limit, closed without a response"
  ],
  plant_store_tls_handshakes_failed_total: [
    "counter",
    "TLS handshakes that failed, also of clients that went away"
  ],
  plant_store_append_seconds: [
    "histogram",
    "time from the start of a batch's write until it is durable",
    bucketsOf(secondsBounds)
  ],
  plant_store_batch_records: [
    "histogram",
    "records that shared a write",
    bucketsOf(recordsBounds)
  ],
  plant_store_queue_records: [
    "gauge",
    "records not written yet",
    (stats) => stats.queue.records
  ],
  plant_store_queue_bytes: [
    "gauge",
    "bytes of the plants not written yet",
    (stats) => stats.queue.bytes
  ],
  plant_store_journal_bytes: [
    "gauge",
    "size of the current file",
    (stats) => stats.bytes
  ],
  plant_store_journal_records: [
    "gauge",
    "records in the current file",
    (stats) => stats.records
  ],
  plant_store_journal_key_window_seconds: [
    "gauge",
    "for how long an Idempotency-Key is remembered at least, since the start at most",
    (stats) => stats.keysSeconds
  ],
  plant_store_journal_rotations_total: ["counter", "rotations to a new file"],
  plant_store_engine_reachable: [
    "gauge",
    "1 while a server of the stream is connected, else 0",
    (stats) => stats.isReachable
  ],
  plant_store_ready: [
    "gauge",
    "1 while /readyz is 200, else 0",
    (_, { health }) => !health.notReadyReason()
  ],
  plant_store_tls_not_after_timestamp_seconds: [
    "gauge",
    "end of the TLS certificate, Unix time",
    (_, { secrets: { tls } }) => tls && tls.notAfter.getTime() / 1e3
  ],
  plant_store_last_reload_successful: [
    "gauge",
    "0 if the last SIGHUP left old tokens or an old certificate in use, else 1",
    (_, { secrets }) => secrets.isLoaded
  ],
  plant_store_last_reload_success_timestamp_seconds: [
    "gauge",
    "last time that all of them were read, Unix time",
    (_, { secrets }) => secrets.loadedAt / 1e3
  ],
  plant_store_build_info: [
    "gauge",
    "1, with the versions of program and Node",
    (_, { host }) => `{version="${version}",node="${host.version}"} 1`
  ],
  process_cpu_seconds_total: [
    "counter",
    "CPU time",
    (_, { host }) => {
      const { user, system } = host.cpuUsage();
      return (user + system) / 1e6;
    }
  ],
  process_resident_memory_bytes: [
    "gauge",
    "resident memory",
    (_, { host }) => host.memoryUsage.rss()
  ],
  process_start_time_seconds: [
    "gauge",
    "start of the process, Unix time",
    () => performance.timeOrigin / 1e3
  ]
} satisfies Readonly<Record<string, Metric>>;

export type Metrics = ReturnType<typeof createMetrics>;

/** Creates the metrics, and counts from now on. */
export function createMetrics(sources: Sources) {
  /** Values by name and labels. Others are 0, so that the rate of a first event is seen. */
  const samples = new Map<string, number>();
  const add = (sample: string, count = 1) =>
    void samples.set(sample, (samples.get(sample) ?? 0) + count);

  const observe = (name: string, bounds: string, value: number) => {
    // "+Inf" is not a number, and no value is above it.
    for (const bound of bounds.split(" "))
      if (!(value > Number(bound))) add(`${name}_bucket{le="${bound}"}`);
    add(`${name}_sum`, value);
    add(`${name}_count`);
  };
  sources.store.on("batch", (records, millis) => {
    observe("plant_store_batch_records", recordsBounds, records);
    observe("plant_store_append_seconds", secondsBounds, millis / 1_000);
  });

  const linesOf = (name: string, values: Metric[2] = [""]) => {
    if (typeof values !== "function")
      return values
        .map((labels) => name + labels)
        .map((sample) => `${sample} ${samples.get(sample) ?? 0}\n`)
        .join("");
    const value = ifPossible(() => values(sources.store.stats, sources));
    if (value === undefined) return "";
    return `${name}${typeof value === "string" ? value : ` ${Number(value)}`}\n`;
  };
  return {
    add,

    onResponse({ error, replayed }: ResponseSummary) {
      add(`plant_store_http_requests_total${labelsOf(error)}`);
      if (replayed) add("plant_store_replays_total");
    },

    /** Counts a server's connections. */
    watch: (server: Server) => watch(server, add),

    /** Returns the page that Prometheus reads. */
    text: () =>
      Object.entries<Metric>(metricTable)
        .map(([name, [type, help, values]]) => {
          const lines = linesOf(name, values);
          return (
            lines && `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n${lines}`
          );
        })
        .join("")
  };
}

function watch(server: Server, add: Metrics["add"]) {
  server.on("drop", () => add("plant_store_connections_refused_total"));
  server.on("tlsClientError", () =>
    add("plant_store_tls_handshakes_failed_total")
  );
  server.on("connection", (socket) => {
    add("plant_store_connections");

    // With TLS, the encrypted bytes are counted.
    socket.once("close", () => {
      add("plant_store_connections", -1);
      add("plant_store_http_received_bytes_total", socket.bytesRead);
      add("plant_store_http_sent_bytes_total", socket.bytesWritten);
    });
  });
}
