/** What can be set: every limit with its unit, default and reason, and every other setting.
 * A number that is not in the table of limits limits nothing. */
export interface Limit {
  readonly flag: string;
  readonly unit: "bytes" | "milliseconds" | "fields" | "levels" | "connections" | "records";
  readonly standard: number; readonly min: number; readonly max: number;
  readonly reason: string;
}

const [kib, mib, minute] = [1024, 1024 * 1024, 60_000];
export const limitTable = {
  bodyBytesMax: { flag: "max-body", unit: "bytes", standard: mib, min: 1, max: 16 * mib,
    reason: "a body is held in memory while it is read and parsed" },
  headBytesMax: { flag: "max-head", unit: "bytes", standard: 16 * kib, min: 256, max: mib,
    reason: "request line and fields are held in memory before anything is known of their sender" },
  headFieldsMax: { flag: "max-fields", unit: "fields", standard: 100, min: 8, max: 900,
    reason: "each field costs memory and time; Node 20 loses fields past about the thousandth" },
  nestingMax: { flag: "max-nesting", unit: "levels", standard: 64, min: 1, max: 512,
    reason: "JSON is read recursively, and the stack is bounded" },
  headMillis: { flag: "head-timeout", unit: "milliseconds", standard: 10_000, min: 100,
    max: 60 * minute,
    reason: "a connection that does not get its TLS handshake, or its head, across is given up" },
  requestMillis: { flag: "request-timeout", unit: "milliseconds", standard: 30_000, min: 100,
    max: 60 * minute, reason: "a request that does not get its body across is given up" },
  idleMillis: { flag: "idle-timeout", unit: "milliseconds", standard: 65_000, min: 100,
    max: 60 * minute, reason: "longer than the 60 s of most proxies, so that they close first" },
  checkMillis: { flag: "timeout-check", unit: "milliseconds", standard: 500, min: 10, max: 1_000,
    reason: "how often the head's and the request's time-outs are looked at" },
  discardBytesMax: { flag: "max-discard", unit: "bytes", standard: 16 * mib, min: 0,
    max: 1024 * mib, reason: "what an early answer goes on reading, so that its client sees it" },
  discardMillis: { flag: "discard-timeout", unit: "milliseconds", standard: 5_000, min: 10,
    max: minute, reason: "how long an early answer, or a connection that ends, goes on reading" },
  connectionsMax: { flag: "max-connections", unit: "connections", standard: 1_024, min: 1,
    max: 1_000_000, reason: "each holds a descriptor and memory; one more is closed unanswered" },
  bodiesBytesMax: { flag: "max-bodies", unit: "bytes", standard: 64 * mib, min: 1,
    max: 4096 * mib,
    reason: "all bodies that are being read: memory of strangers; over it the largest is refused" },
  queueRecordsMax: { flag: "max-queue", unit: "records", standard: 4_096, min: 1, max: 1_000_000,
    reason: "a disk that stalls must not fill the memory with waiting records" },
  queueBytesMax: { flag: "max-queue-bytes", unit: "bytes", standard: 16 * mib, min: kib,
    max: 1024 * mib, reason: "the same in bytes; a record alone is taken whatever its size" },
  batchBytesMax: { flag: "max-batch", unit: "bytes", standard: mib, min: kib, max: 64 * mib,
    reason: "plants that share a write, which a crash may tear; one alone is written whole" },
  rotationMillis: { flag: "rotation-timeout", unit: "milliseconds", standard: 2_000, min: 10,
    max: minute, reason: "how long a renamed journal waits for the SIGHUP that makes a new one" },
  drainMillis: { flag: "drain-timeout", unit: "milliseconds", standard: 10_000, min: 10,
    max: 10 * minute, reason: "how long a shutdown waits for requests and for clients to close" },
} as const satisfies Readonly<Record<string, Limit>>;

export type Limits = { readonly [name in keyof typeof limitTable]: number };
/** The limits' defaults, with some of them replaced; frozen.
 * @throws RangeError for an unknown name, or a value outside of the table's bounds */
export function limitsWith(given: Partial<Limits> = {}): Limits {
  const table = new Map<string, Limit>(Object.entries(limitTable));
  const standard = Object.fromEntries([...table].map(([name, limit]) => [name, limit.standard]));
  for (const [name, value] of Object.entries(given)) {
    const limit = table.get(name);
    if (!limit) throw new RangeError(`there is no limit ${name}`);
    if (!isWithin(limit, value)) throw new RangeError(`${name} must be ${bounds(limit)}`);
  }
  const limits = { ...standard, ...given } as Limits;
  if (limits.headMillis > limits.requestMillis) {
    throw new RangeError("the head's time-out must not be above the whole request's");
  }
  return Object.freeze(limits);
}

export const isWithin = (limit: Limit, value: number): boolean =>
  Number.isInteger(value) && value >= limit.min && value <= limit.max;
export const bounds = (limit: Limit): string =>
  `a whole number of ${limit.unit}, ${limit.min} to ${limit.max}`;

/** The flags besides the limits' own; what does not have the form is a mistake. */
export const settingTable = {
  host: { environment: "HOST", standard: "127.0.0.1", form: /^[\w.:%-]+$/,
    wanted: "a host name or an address", meaning: "address to listen on" },
  port: { environment: "PORT", standard: "8080", wanted: "a port, 0 to 65535",
    form: /^(?:\d{1,4}|[1-5]\d{4}|6[0-4]\d{3}|65[0-4]\d{2}|655[0-2]\d|6553[0-5])$/,
    meaning: "port to listen on; 0: any free one" },
  socket: { environment: "PLANTS_SOCKET", standard: "", form: /^[\x01-\x7f]{0,107}$/,
    wanted: "a path of at most 107 ASCII characters", meaning: "Unix socket to listen on instead" },
  "base-path": { environment: "PLANTS_BASE_PATH", standard: "",
    form: /^(?:\/[\w.~!$&'()*+,;=:@%-]+)*$/, wanted: "a path such as /v1, with no / at its end",
    meaning: "what stands before /plants in the path" },
  store: { environment: "PLANTS_STORE", standard: "plants.ndjson", wanted: "a path, no URL",
    form: /^(?!file:|[\w+.-]+:\/\/)[^\0]+$/, meaning: "path of the journal" },
  tokens: { environment: "PLANTS_TOKENS_FILE", standard: "", form: /^[^\0]*$/, wanted: "a path",
    meaning: "file of lines NAME sha256:HEX, read again on SIGHUP" },
} as const;
/** The variable that holds one token itself: never a flag, for `ps` shows flags. */
export const tokenVariable = "PLANTS_TOKEN";
export const environmentOf = (limit: { readonly flag: string }): string =>
  `PLANTS_${limit.flag.toUpperCase().replaceAll("-", "_")}`;
