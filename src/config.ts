/**
 * Every limit with its unit, default, bounds and reason. Settings of the program alone are in
 * program/settings.ts.
 *
 * A number that is not in a table of limits limits nothing.
 */

/** A limit: a whole number within bounds. */
export interface Limit {
  /** The name on the command line, without the dashes. */
  readonly flag: string;
  readonly unit: string;

  readonly defaultValue: number;
  readonly min: number;
  readonly max: number;

  /** The quantity, and after a colon the reason for its limit, which `help` alone shows. */
  readonly meaning: string;
}

/** Version of the package; a test compares it with package.json. */
export const version = "1.0.0";

const kib = 1024;
const mib = 1024 * kib;
const minute = 60_000;

/** The limits by their names in the library. Each name ends with its unit. */
export const limitTable = {
  bodyBytesMax: {
    flag: "max-body",
    unit: "bytes",
    defaultValue: mib,
    min: 1,
    max: 16 * mib,
    meaning:
      "the largest body: one takes up to 16 times its size in memory, several in a row up to 40 times"
  },
  headBytesMax: {
    flag: "max-head",
    unit: "bytes",
    defaultValue: 16 * kib,
    min: 256,
    max: mib,
    meaning:
      "request line and fields: they stay in memory before the sender is known"
  },
  headFieldsMax: {
    flag: "max-fields",
    unit: "fields",
    defaultValue: 100,
    min: 8,
    max: 900,
    meaning:
      "header fields: each costs memory and time; Node 20 loses fields after about the thousandth"
  },
  nestingMax: {
    flag: "max-nesting",
    unit: "levels",
    defaultValue: 64,
    min: 1,
    max: 512,
    meaning:
      "the deepest JSON: it is read recursively, and the stack is bounded"
  },
  headMillis: {
    flag: "head-timeout",
    unit: "milliseconds",
    defaultValue: 10_000,
    min: 100,
    max: 60 * minute,
    meaning: "how long a TLS handshake or a header section may take to arrive"
  },
  requestMillis: {
    flag: "request-timeout",
    unit: "milliseconds",
    defaultValue: 30_000,
    min: 100,
    max: 60 * minute,
    meaning:
      "how long a whole request, with its body, may take to arrive, also if nothing moves"
  },
  idleMillis: {
    flag: "idle-timeout",
    unit: "milliseconds",
    defaultValue: 65_000,
    min: 1_000,
    max: 60 * minute,
    meaning:
      "how long a connection may be silent, unless a request is arriving: most proxies close at 60 s"
  },
  checkMillis: {
    flag: "timeout-check",
    unit: "milliseconds",
    defaultValue: 500,
    min: 10,
    max: 1_000,
    meaning: "how often the timeouts are checked"
  },
  discardBytesMax: {
    flag: "max-discard",
    unit: "bytes",
    defaultValue: 16 * mib,
    min: 0,
    max: 1024 * mib,
    meaning:
      "what is discarded after an early or last response: the client must see the response"
  },
  discardMillis: {
    flag: "discard-timeout",
    unit: "milliseconds",
    defaultValue: 5_000,
    min: 10,
    max: minute,
    meaning:
      "how long a body is discarded, and how long a closing connection waits for its client"
  },
  connectionsMax: {
    flag: "max-connections",
    unit: "connections",
    defaultValue: 1_024,
    min: 1,
    max: 1_000_000,
    meaning:
      "open connections: each needs a descriptor; one more is closed without a response"
  },
  pipelinedMax: {
    flag: "max-pipelined",
    unit: "responses",
    defaultValue: 128,
    min: 1,
    max: 1_000_000,
    meaning:
      "responses that wait for earlier ones on a connection, and then close it: each takes a few KiB"
  },
  bodiesBytesMax: {
    flag: "max-bodies",
    unit: "bytes",
    defaultValue: 64 * mib,
    min: 1,
    max: 4096 * mib,
    meaning: "all bodies in memory together: beyond it the largest is refused"
  },
  queueRecordsMax: {
    flag: "max-queue",
    unit: "records",
    defaultValue: 4_096,
    min: 1,
    max: 1_000_000,
    meaning:
      "what waits for the store: a disk that stalls must not fill the memory"
  },
  queueBytesMax: {
    flag: "max-queue-bytes",
    unit: "bytes",
    defaultValue: 16 * mib,
    min: kib,
    max: 1024 * mib,
    meaning: "the same in bytes; a single record of any size is accepted"
  },
  batchBytesMax: {
    flag: "max-batch",
    unit: "bytes",
    defaultValue: mib,
    min: kib,
    max: 64 * mib,
    meaning:
      "records that share a write, which a crash may tear; a larger record has its own write"
  },
  keysBytesMax: {
    flag: "key-window",
    unit: "bytes",
    defaultValue: 64 * mib,
    min: 0,
    max: 1024 * mib,
    meaning:
      "the end of the journal whose Idempotency-Keys are remembered; 0 disables keys"
  },
  rotationMillis: {
    flag: "rotation-timeout",
    unit: "milliseconds",
    defaultValue: 2_000,
    min: 10,
    max: minute,
    meaning:
      "how long a renamed journal waits for the SIGHUP that creates a new one"
  },
  drainMillis: {
    flag: "drain-timeout",
    unit: "milliseconds",
    defaultValue: 10_000,
    min: 10,
    max: 10 * minute,
    meaning: "how long a shutdown waits for requests and for clients to close"
  }
} as const satisfies Readonly<Record<string, Limit>>;

/** pchar = unreserved / pct-encoded / sub-delims / ":" / "@" (RFC 3986, 3.3) */
const pchar = String.raw`[\w.~!$&'()*+,;=:@%-]`;

/** The path before `/plants`: segments as they are sent, none of them empty. */
export const basePathForm = new RegExp(`^(?:/${pchar}+)*$`);
export const basePathExpected = "a path such as /v1, with no / at its end";

/** A number for each limit, in its unit. */
export type Limits = { readonly [name in keyof typeof limitTable]: number };

/**
 * Checks options or limits as JavaScript may give them, so that a mistake fails at once.
 *
 * @param types what `typeof` may say of each that is set
 * @throws TypeError that names the option, or the known ones for an unknown name
 */
export function checkTypes(
  what: "options" | "limits",
  values: unknown,
  types: Readonly<Record<string, string>>
) {
  if (typeof values !== "object" || values === null)
    throw new TypeError(`the ${what} must be an object`);
  for (const [name, value] of Object.entries(values)) {
    const type = Object.hasOwn(types, name) && types[name];
    if (!type)
      throw new TypeError(
        `the ${what} are ${Object.keys(types).join(", ")}; there is no ${name}`
      );
    const found = value === null ? "null" : typeof value;
    if (value !== undefined && !type.split(" or ").includes(found))
      throw new TypeError(`${name} must be of type ${type}`);
  }
}

/**
 * Returns all limits, frozen: those that are set, and the defaults of the others.
 *
 * @throws TypeError for an unknown name, RangeError for a value outside its bounds
 */
export function limitsWith(settings: Partial<Limits> = {}): Limits {
  // Reads each value once: a getter may return something else the second time.
  const given: Readonly<Record<string, number | undefined>> = { ...settings };
  const table = Object.entries(limitTable);
  const types = Object.fromEntries(table.map(([name]) => [name, "number"]));
  checkTypes("limits", given, types);
  const values = table.map(([name, limit]) => {
    const value = given[name] ?? limit.defaultValue;
    if (isWithin(limit, value)) return [name, value];
    throw new RangeError(`${name} must be ${describeBounds(limit)}`);
  });
  const limits: Limits = Object.fromEntries(values);
  if (limits.bodyBytesMax > limits.bodiesBytesMax)
    throw new RangeError(
      "--max-body (bodyBytesMax) must be at most --max-bodies (bodiesBytesMax)"
    );
  return Object.freeze(limits);
}

/** Returns whether a limit, or a port, may have this value. */
export const isWithin = (
  { min, max }: Pick<Limit, "min" | "max">,
  value = NaN
) => Number.isInteger(value) && value >= min && value <= max;

/** Returns what a limit must be, in words. */
export const describeBounds = ({ unit, min, max }: Limit) =>
  `a whole number of ${unit}, ${min} to ${max}`;
