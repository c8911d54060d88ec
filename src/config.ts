/**
 * Every limit with its unit, default and reason; what only the program can be set to is in
 * program/settings.ts.
 *
 * A number that is not in the table of limits limits nothing.
 */

/** A whole number within bounds. */
export interface Limit {
  /** Its name on the command line, without the dashes. */
  readonly flag: string;
  readonly unit:
    "bytes" | "milliseconds" | "fields" | "levels" | "connections" | "records";

  /** What holds where nothing is given. */
  readonly defaultValue: number;
  readonly min: number;
  readonly max: number;

  /** What it limits, and why, or why so; the README and `--help` show it. */
  readonly reason: string;
}

const kib = 1024;
const mib = 1024 * kib;
const minute = 60_000;

/** The name is the library's; the entries are laid out so that they read as a table. */
export const limitTable = {
  bodyBytesMax: {
    flag: "max-body",
    unit: "bytes",
    defaultValue: mib,
    min: 1,
    max: 16 * mib,
    reason: "the largest body: it is held in memory while it is read and parsed"
  },
  headBytesMax: {
    flag: "max-head",
    unit: "bytes",
    defaultValue: 16 * kib,
    min: 256,
    max: mib,
    reason:
      "request line and fields: held in memory before anything is known of their sender"
  },
  headFieldsMax: {
    flag: "max-fields",
    unit: "fields",
    defaultValue: 100,
    min: 8,
    max: 900,
    reason:
      "header fields: each costs memory and time; Node 20 loses those past about 1,000"
  },
  nestingMax: {
    flag: "max-nesting",
    unit: "levels",
    defaultValue: 64,
    min: 1,
    max: 512,
    reason: "the deepest JSON: it is read recursively, and the stack is bounded"
  },
  headMillis: {
    flag: "head-timeout",
    unit: "milliseconds",
    defaultValue: 10_000,
    min: 100,
    max: 60 * minute,
    reason: "how long a TLS handshake, or a request's head, may take to come"
  },
  requestMillis: {
    flag: "request-timeout",
    unit: "milliseconds",
    defaultValue: 30_000,
    min: 100,
    max: 60 * minute,
    reason: "how long a whole request, with its body, may take to come"
  },
  idleMillis: {
    flag: "idle-timeout",
    unit: "milliseconds",
    defaultValue: 65_000,
    min: 100,
    max: 60 * minute,
    reason: "how long a connection may rest: most proxies close first, at 60 s"
  },
  checkMillis: {
    flag: "timeout-check",
    unit: "milliseconds",
    defaultValue: 500,
    min: 10,
    max: 1_000,
    reason: "how often the head's and the request's time-outs are looked at"
  },
  discardBytesMax: {
    flag: "max-discard",
    unit: "bytes",
    defaultValue: 16 * mib,
    min: 0,
    max: 1024 * mib,
    reason: "what an early answer goes on reading, so that its client sees it"
  },
  discardMillis: {
    flag: "discard-timeout",
    unit: "milliseconds",
    defaultValue: 5_000,
    min: 10,
    max: minute,
    reason:
      "how long an early answer, or a connection that ends, goes on reading"
  },
  connectionsMax: {
    flag: "max-connections",
    unit: "connections",
    defaultValue: 1_024,
    min: 1,
    max: 1_000_000,
    reason: "at once: each holds a descriptor; one more is closed unanswered"
  },
  bodiesBytesMax: {
    flag: "max-bodies",
    unit: "bytes",
    defaultValue: 64 * mib,
    min: 1,
    max: 4096 * mib,
    reason: "all bodies in memory together; over it the largest is refused"
  },
  queueRecordsMax: {
    flag: "max-queue",
    unit: "records",
    defaultValue: 4_096,
    min: 1,
    max: 1_000_000,
    reason: "what waits for the disk: one that stalls must not fill the memory"
  },
  queueBytesMax: {
    flag: "max-queue-bytes",
    unit: "bytes",
    defaultValue: 16 * mib,
    min: kib,
    max: 1024 * mib,
    reason: "the same in bytes; a record alone is taken whatever its size"
  },
  batchBytesMax: {
    flag: "max-batch",
    unit: "bytes",
    defaultValue: mib,
    min: kib,
    max: 64 * mib,
    reason:
      "plants that share a write, which a crash may tear; one alone is written whole"
  },
  keysBytesMax: {
    flag: "key-window",
    unit: "bytes",
    defaultValue: 16 * mib,
    min: 0,
    max: 1024 * mib,
    reason:
      "the end of the journal whose Idempotency-Keys are remembered; 0: none are"
  },
  rotationMillis: {
    flag: "rotation-timeout",
    unit: "milliseconds",
    defaultValue: 2_000,
    min: 10,
    max: minute,
    reason:
      "how long a renamed journal waits for the SIGHUP that makes a new one"
  },
  drainMillis: {
    flag: "drain-timeout",
    unit: "milliseconds",
    defaultValue: 10_000,
    min: 10,
    max: 10 * minute,
    reason: "how long a shutdown waits for requests and for clients to close"
  }
} as const satisfies Readonly<Record<string, Limit>>;

/** What may stand before `/plants` in the path: segments as they are sent (RFC 3986, 3.3). */
export const basePathForm = /^(?:\/[\w.~!$&'()*+,;=:@%-]+)*$/;
export const basePathWanted = "a path such as /v1, with no / at its end";

/** A number for each limit, in its unit. */
export type Limits = { readonly [name in keyof typeof limitTable]: number };

/**
 * The limits' defaults, with some of them replaced; frozen.
 *
 * @throws RangeError for an unknown name, or a value outside of the table's bounds
 */
export function limitsWith(given: Partial<Limits> = {}): Limits {
  const table = new Map<string, Limit>(Object.entries(limitTable));
  const numbers = new Map(
    [...table].map(([name, limit]) => [name, limit.defaultValue])
  );

  // Each is read once: a getter may answer twice differently.
  for (const [name, value] of Object.entries(given)) {
    const limit = table.get(name);
    if (!limit) throw new RangeError(`there is no limit ${name}`);
    if (!isWithin(limit, value))
      throw new RangeError(`${name} must be ${describeBounds(limit)}`);
    numbers.set(name, value);
  }

  const limits = Object.fromEntries(numbers) as Limits;
  // The parser's own rule: the head is a part of the request.
  if (limits.headMillis > limits.requestMillis) {
    throw new RangeError(
      "the head's time-out must not be above the whole request's"
    );
  }
  return Object.freeze(limits);
}

/** Whether a limit, or a port, may be this number. */
export const isWithin = (
  limit: Pick<Limit, "min" | "max">,
  value: number
): boolean =>
  Number.isInteger(value) && value >= limit.min && value <= limit.max;

/** What a limit must be, in words. */
export const describeBounds = (limit: Limit): string =>
  `a whole number of ${limit.unit}, ${limit.min} to ${limit.max}`;

/** The limits of the engine in engines/, where one is asked for; the unit is last in each name. */
export const natsLimits = {
  /** How long an append may take: an election of the stream's leader takes 4 to 9 s. */
  appendMillis: 10_000,

  /** The same for import and export, counted from the last progress. */
  moveMillis: 30_000,

  /** Messages that an export asks for at once: each may be as long as `messageBytesMax`. */
  fetchRecordsMax: 32,

  /** Appends that are not settled: a cluster that stalls must not fill the memory. */
  inFlightRecordsMax: 1_024,
  inFlightBytesMax: 16 * mib,

  /** From connecting to a host until it has taken the credentials, TLS included. */
  handshakeMillis: 2_000,

  /** How long appends wait for a connection before they are refused, as not stored. */
  unreachableMillis: 2_000,

  /** The time without a response after which a message is sent again, once a later one has one. */
  ackTimeoutMillis: 2_000,

  /** No acknowledgement by then: to the next host. An isolated server still answers PING. */
  noProgressMillis: 4_000,

  /** While a connection is used, its stream and the servers are checked again after so long. */
  checkMillis: 10_000,

  /** The slowest link that works, 1 MiB/s: the time to send what is in flight counts extra. */
  bytesPerMilliMin: 1_048,

  /** What was answered with "not now" waits for so long; by chance, half as much again. */
  retryMillis: 100,
  pingMillis: 2_000,
  pingsMissedMax: 3,

  /** Pauses between rounds of all hosts double; half of each is chance, or all clients of a
   * cluster that comes back would knock at the same instant. */
  reconnectMillisMin: 50,
  reconnectMillisMax: 2_000,

  /** A line of the protocol: the longest is a large cluster's INFO. */
  lineBytesMax: 64 * kib,

  /** One message: a record of 1 MiB comes back as 1.4 MiB of base64. */
  messageBytesMax: 8 * mib
} as const;

export type NatsLimits = { readonly [name in keyof typeof natsLimits]: number };
