/** Metrics of the process in Prometheus' text format 0.0.4. */
import type { Server } from "node:http";
import type { Socket } from "node:net";
import { catalogue } from "../http/errors.ts";
import type { ResponseSummary } from "../index.ts";
import { ifPossible } from "../journal/error.ts";
import { version } from "./help.ts";
import type { Health } from "./health.ts";
import type { Host } from "./host.ts";
import type { Store } from "./open-store.ts";

/**
 * Reads a metric when it is scraped. If the result is undefined or the metric cannot be read, it is
 * left out. Samples, if there are any, replace the result. A metric without this function begins at
 * 0. True is 1, false 0.
 */
type Read = (
  stats: Store["stats"],
  sources: Sources
) => number | boolean | undefined;

/** What the metrics read besides the store. */
export interface Sources {
  readonly host: Host;
  readonly health: Health;

  /** The current certificate, if there is one. */
  readonly secrets: { readonly tls: { readonly notAfter: Date } | undefined };
}

type Metric = readonly [
  type: "counter" | "gauge" | "histogram",
  help: string,
  read?: Read
];

/** Every metric; the README shows this table. */
export const metricTable = {
  plant_store_http_requests_total: [
    "counter",
    "responses by status and error, the parser's included"
  ],
  plant_store_replays_total: [
    "counter",
    "responses 200 to a request whose plant was stored before"
  ],
  plant_store_http_received_bytes_total: [
    "counter",
    "bytes read, counted when a connection closes"
  ],
  plant_store_http_sent_bytes_total: [
    "counter",
    "bytes written, counted when a connection closes"
  ],
  plant_store_connections: ["gauge", "open connections"],
  plant_store_connections_refused_total: [
    "counter",
    "connections over the limit, closed without a response"
  ],
  plant_store_append_seconds: [
    "histogram",
    "time from the start of a batch's write until it is durable"
  ],
  plant_store_batch_records: ["histogram", "records that shared a write"],
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
  plant_store_build_info: ["gauge", "1, with the versions of program and Node"],
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
    (_, { host }) => host.residentBytes()
  ],
  process_start_time_seconds: [
    "gauge",
    "start of the process, Unix time",
    () => performance.timeOrigin / 1e3
  ]
} satisfies Readonly<Record<string, Metric>>;

/** Upper bounds of the histograms' buckets, as their labels have them. */
const bucketBounds = {
  plant_store_append_seconds:
    "0.0005 0.001 0.002 0.005 0.01 0.05 0.1 0.5 1 5 +Inf",
  plant_store_batch_records: "1 2 4 8 16 32 64 128 256 512 1024 4096 +Inf"
};

export type Metrics = ReturnType<typeof createMetrics>;

/** Creates the metrics, and counts from now on. */
export function createMetrics(store: Store, sources: Sources) {
  const { add, observe, linesOf } = createSamples();
  store.on("batch", (records, millis) => {
    observe("plant_store_batch_records", records);
    observe("plant_store_append_seconds", millis / 1_000);
  });
  const count = (status: number, error: number | "" = "", times = 1) =>
    add(
      "plant_store_http_requests_total",
      times,
      `{status="${status}",error="${error}"}`
    );

  // Samples begin at 0, so that the rate of the first event is seen.
  observe("plant_store_batch_records", 0, 0);
  observe("plant_store_append_seconds", 0, 0);
  count(200, "", 0);
  for (const { error } of Object.values(catalogue))
    count(Math.floor(error / 100), error, 0);
  const { nodeVersion } = sources.host;
  add(
    "plant_store_build_info",
    1,
    `{version="${version}",node="${nodeVersion}"}`
  );

  return {
    add,

    onResponse({ status, error, replayed }: ResponseSummary) {
      count(status, error);
      if (replayed) add("plant_store_replays_total");
    },

    /** Counts a server's connections. */
    watch: (server: Server) => watch(server, add),

    /** Returns the page that Prometheus reads. */
    text: () =>
      Object.entries<Metric>(metricTable)
        .map(([name, [type, help, read]]) => {
          const value = read ? ifPossible(() => read(store.stats, sources)) : 0;
          const lines = linesOf(name, value);
          return (
            lines && `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n${lines}`
          );
        })
        .join("")
  };
}

function createSamples() {
  /** Values by name, then by suffix and labels, which are bounded: the catalogue's causes. */
  const samples = new Map<string, Map<string, number>>();

  const add = (name: keyof typeof metricTable, count = 1, labels = "") => {
    const values = samples.get(name) ?? new Map<string, number>();
    values.set(labels, (values.get(labels) ?? 0) + count);
    samples.set(name, values);
  };
  return {
    add,

    /** Adds a value to a histogram so many times. */
    observe(name: keyof typeof bucketBounds, value: number, count = 1) {
      for (const bound of bucketBounds[name].split(" ")) {
        const isWithin = bound === "+Inf" || value <= Number(bound);
        add(name, isWithin ? count : 0, `_bucket{le="${bound}"}`);
      }
      add(name, value, "_sum");
      add(name, count, "_count");
    },

    /** Returns the lines of a metric: its samples, or else a value; empty without both. */
    linesOf(name: string, value: ReturnType<Read>) {
      const own = value === undefined ? [] : [["", Number(value)] as const];
      return [...(samples.get(name) ?? own)]
        .map(([labels, count]) => `${name}${labels} ${count}\n`)
        .join("");
    }
  };
}

function watch(server: Server, add: Metrics["add"]) {
  server.on("drop", () => add("plant_store_connections_refused_total"));
  server.on("connection", (socket: Socket) => {
    add("plant_store_connections");
    socket.once("close", () => add("plant_store_connections", -1));
  });

  // With TLS, the decrypted bytes are counted.
  const event =
    "setSecureContext" in server ? "secureConnection" : "connection";
  server.on(event, (socket: Socket) =>
    socket.once("close", () => {
      add("plant_store_http_received_bytes_total", socket.bytesRead);
      add("plant_store_http_sent_bytes_total", socket.bytesWritten);
    })
  );
}
