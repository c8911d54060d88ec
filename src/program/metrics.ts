/** Figures of the process for Prometheus, in its text format 0.0.4. */
import type { Server } from "node:http";
import type { Socket } from "node:net";
import type { ResponseSummary } from "../index.ts";
import { version } from "./help.ts";
import type { Host } from "./host.ts";
import type { Store } from "./open-store.ts";

/** A figure that is asked for when it is read, and left out where the store has none; without that
 * it is counted as it happens. */
type Read = (
  store: Store["stats"],
  usage: ReturnType<Host["usage"]>
) => number | undefined;

const counter = (help: string, read?: Read) => ({
  type: "counter",
  help,
  read
});
const gauge = (help: string, read?: Read) => ({ type: "gauge", help, read });
const histogram = (help: string, read?: Read) => ({
  type: "histogram",
  help,
  read
});

/** Every figure, laid out so that it reads as a table; the README shows it. */
export const metricTable = {
  plant_store_http_requests_total: counter(
    "answers by status and error, the parser's own, too"
  ),
  plant_store_http_received_bytes_total: counter(
    "bytes read, counted when a connection closes"
  ),
  plant_store_http_sent_bytes_total: counter(
    "bytes written, counted when a connection closes"
  ),
  plant_store_connections_refused_total: counter(
    "connections over the limit, closed unanswered"
  ),
  plant_store_append_seconds: histogram(
    "from the begin of a batch's write until it is durable"
  ),
  plant_store_batch_records: histogram("records that shared a write"),
  plant_store_queue_records: gauge(
    "records not written yet",
    ({ queue }) => queue.records
  ),
  plant_store_queue_bytes: gauge(
    "their plants' bytes",
    ({ queue }) => queue.bytes
  ),
  plant_store_journal_bytes: gauge(
    "size of the file in use",
    ({ bytes }) => bytes
  ),
  plant_store_journal_records: gauge(
    "records in that file",
    ({ records }) => records
  ),
  plant_store_journal_rotations_total: counter("new files gone on in"),
  plant_store_engine_reachable: gauge(
    "1 while a stream's server is there, 0 when none is",
    ({ isReachable }) =>
      isReachable === undefined ? undefined : Number(isReachable)
  ),
  plant_store_build_info: gauge("1, with the versions of program and Node"),
  process_cpu_seconds_total: counter(
    "CPU time",
    (_, { user, system }) => (user + system) / 1e6
  ),
  process_resident_memory_bytes: gauge("resident memory", (_, { rss }) => rss),
  process_start_time_seconds: gauge(
    "when it began, Unix time",
    () => performance.timeOrigin / 1e3
  )
} as const;

/** Upper bounds of the histograms' buckets; the last has none. */
const bucketBounds = {
  plant_store_append_seconds: [
    0.0005,
    0.001,
    0.002,
    0.005,
    0.01,
    0.05,
    0.1,
    0.5,
    1,
    5,
    "+Inf"
  ],
  plant_store_batch_records: [
    1,
    2,
    4,
    8,
    16,
    32,
    64,
    128,
    256,
    512,
    1024,
    4096,
    "+Inf"
  ]
};

/** Counts what happens from now on. */
export function makeMetrics({ nodeVersion, usage }: Host, store: Store) {
  /** By name and labels, which are bounded: statuses and causes are the catalogue's. */
  const samples = new Map<string, number>();

  /** @param sample a name of the table, and its labels */
  const add = (sample: string, count = 1): void =>
    void samples.set(sample, (samples.get(sample) ?? 0) + count);
  const observe = (
    name: keyof typeof bucketBounds,
    value: number,
    count = 1
  ): void => {
    for (const bound of bucketBounds[name]) {
      const isWithin = typeof bound === "string" || value <= bound;
      add(`${name}_bucket{le="${bound}"}`, isWithin ? count : 0);
    }
    add(`${name}_sum`, value);
    add(`${name}_count`, count);
  };
  store.on("batch", (records, millis) => {
    observe("plant_store_batch_records", records);
    observe("plant_store_append_seconds", millis / 1_000);
  });

  // What has not happened yet is 0: a rate begins with the first.
  add('plant_store_http_requests_total{status="200",error=""}', 0);
  observe("plant_store_batch_records", 0, 0);
  observe("plant_store_append_seconds", 0, 0);
  add(`plant_store_build_info{version="${version}",node="${nodeVersion}"}`);

  return {
    add,
    count: ({ status, error }: ResponseSummary): void =>
      add(
        `plant_store_http_requests_total{status="${status}",error="${error ?? ""}"}`
      ),

    /** Of TLS, what it carries is counted. */
    watch(server: Server): void {
      server.on("drop", () => add("plant_store_connections_refused_total"));
      const event =
        "setSecureContext" in server ? "secureConnection" : "connection";
      server.on(event, (socket: Socket) =>
        socket.once("close", () => {
          add("plant_store_http_received_bytes_total", socket.bytesRead);
          add("plant_store_http_sent_bytes_total", socket.bytesWritten);
        })
      );
    },

    text(): string {
      const used = usage();
      return Object.entries(metricTable)
        .map(([name, { type, help, read }]) => {
          const value = read ? read(store.stats, used) : 0;
          if (value === undefined) return "";
          const counted = [...samples].filter(([sample]) =>
            sample.startsWith(name)
          );
          const lines = (counted[0] ? counted : [[name, value]]).map((sample) =>
            sample.join(" ")
          );
          return `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n${lines.join("\n")}\n`;
        })
        .join("");
    }
  };
}
