/** The settings of `serve`, from flags and environment: read once. */
import { resolve } from "node:path";
import {
  basePathForm,
  basePathExpected,
  describeBounds,
  isWithin,
  limitTable,
  limitsWith,
  type Limit
} from "../config.ts";
import { ExitError, messageOf } from "../failure.ts";
import { tokenExpected, tokenForm } from "../http/bearer.ts";
import type { Host } from "./host.ts";

const pathExpected = "a path without control characters";

/** A path, or none. */
const path = {
  defaultValue: "",
  form: /^\P{Cc}+$/u,
  expected: pathExpected
} as const;

/** The path of a Unix socket. Node before 24 does not refuse a longer one: it binds its start. */
const socketForm = String.raw`(?=[^]{1,107}$)\P{Cc}+`;
const socketExpected = `${pathExpected} of at most 107 characters`;

const portForm = String.raw`(?:\d{1,4}|[1-5]\d{4}|6[0-4]\d{3}|65[0-4]\d\d|655[0-2]\d|6553[0-5])`;
const hostForm = String.raw`(?:([\w.-]+)|\[([\w:.%]+)\])`;

/**
 * [HOST:]PORT, or a path, which has a slash. The groups are the name, or the IPv6 address that is
 * in brackets, and the port.
 */
export const adminForm = new RegExp(
  `^(?:(?:${hostForm}:)?(${portForm})|(?=.*/)${socketForm})$`,
  "u"
);

/** The address of a stream, without credentials and hence without @; or a path that is no URL. */
const storeForm =
  /^(?:(?:nats|tls):\/\/[^@\p{Cc}]+|(?!(?:nats|tls):|.*:\/\/)\P{Cc}+)$/u;

/** The settings besides the limits. A value without the form, or out of bounds, is a mistake. */
export const settingTable = {
  host: {
    flag: "host",
    environment: "HOST",
    defaultValue: "127.0.0.1",
    form: /^(?:[\w.-]+|(?=.*:.*:)[\w.:%-]+)$/,
    expected: "a host name or an address, without a port or brackets",
    meaning: "address to listen on"
  },
  port: {
    flag: "port",
    environment: "PORT",
    defaultValue: 8080,
    min: 0,
    max: 65_535,
    expected: "a port, 0 to 65535",
    meaning: "port to listen on; 0: any free one"
  },
  socket: {
    flag: "socket",
    defaultValue: "",
    form: new RegExp(`^${socketForm}$`, "u"),
    expected: socketExpected,
    meaning:
      "Unix socket to listen on instead: under umask 022 its owner alone can connect"
  },
  basePath: {
    flag: "base-path",
    defaultValue: "",
    form: basePathForm,
    expected: basePathExpected,
    meaning: "prefix of /plants in the path, such as /v1"
  },
  store: {
    flag: "store",
    defaultValue: "plants.ndjson",
    form: storeForm,
    expected: `${pathExpected}, or nats://HOSTS/STREAM or tls:// without credentials`,
    meaning: "path of the journal; or a stream, nats://HOSTS/STREAM"
  },
  storeCredentials: {
    ...path,
    flag: "store-credentials",
    meaning: "file of the credentials for a stream, read at each connection"
  },
  storeTlsCert: {
    ...path,
    flag: "store-tls-cert",
    meaning:
      "PEM file of the client certificate for a stream, read at each connection"
  },
  storeTlsKey: {
    ...path,
    flag: "store-tls-key",
    meaning: "PEM file of the client's private key, read at each connection"
  },
  storeTlsCa: {
    ...path,
    flag: "store-tls-ca",
    meaning:
      "PEM file of the authority of a stream's servers, read at each connection"
  },
  storeHandshakeMillis: {
    flag: "store-handshake-timeout",
    unit: "milliseconds",
    defaultValue: 2_000,
    min: 100,
    max: 60_000,
    meaning:
      "milliseconds to connect to a stream's server: five round trips, with TLS"
  },
  storeAppendMillis: {
    flag: "store-append-timeout",
    unit: "milliseconds",
    defaultValue: 10_000,
    min: 1_000,
    max: 600_000,
    meaning:
      "milliseconds until an append to a stream fails: an election takes 4 to 9 s"
  },
  tokensFile: {
    ...path,
    flag: "tokens",
    environment: "PLANTS_TOKENS_FILE",
    meaning: "file of lines NAME sha256:HEX, read again on SIGHUP"
  },
  tlsCert: {
    ...path,
    flag: "tls-cert",
    meaning:
      "PEM file of the certificate and its chain: serves https; read again on SIGHUP"
  },
  tlsKey: {
    ...path,
    flag: "tls-key",
    meaning: "PEM file of the certificate's private key, read again on SIGHUP"
  },
  admin: {
    flag: "admin",
    defaultValue: "",
    form: adminForm,
    expected: `a port, HOST:PORT, or with a / ${socketExpected}`,
    meaning: "port, HOST:PORT or Unix socket for /livez, /readyz and /metrics"
  },
  logFormat: {
    flag: "log-format",
    defaultValue: "",
    form: /^(?:text|json)$/,
    expected: "text or json",
    meaning:
      "format of the log, text or json: by default text on a terminal alone"
  },
  failedLinesMax: {
    flag: "max-failed-lines",
    unit: "lines",
    defaultValue: 10,
    min: 0,
    max: 100_000,
    meaning:
      "log lines a second for failed requests and connections: a flood must not fill a disk"
  },
  logRequests: {
    flag: "log-requests",
    defaultValue: "",
    form: /^(?:yes|1|true|no|0|false)$/,
    expected: "yes, 1 or true; or no, 0 or false",
    meaning:
      "log requests with a valid token, timed; the variable is yes, 1 or true: the flag has none"
  }
} as const;

/** An entry of either table: a text of some form, or a whole number within bounds. */
type Entry = Limit | (typeof settingTable)[keyof typeof settingTable];

/** Everything that has a flag. */
export const entries: readonly Entry[] = [
  ...Object.values(settingTable),
  ...Object.values(limitTable)
];

/** The variable that holds one token itself. It has no flag, because `ps` shows flags. */
export const tokenVariable = "PLANTS_TOKEN";

/** Returns the variable of an entry: its own, or one made from the flag. */
export const environmentOf = (entry: Entry) =>
  "environment" in entry
    ? entry.environment
    : `PLANTS_${entry.flag.toUpperCase().replaceAll("-", "_")}`;

/** Values by flag, as Node's parseArgs returns them: true for a flag without a value. */
export type Flags = Readonly<Record<string, string | boolean | undefined>>;

/** An empty text means none. No member is a secret. */
export type Config = ReturnType<typeof readConfig>;

/**
 * Reads the settings.
 *
 * @throws ExitError with a line for each mistake: `usage` if one names a flag that is given, else
 * `config`. No line repeats a value, which may be a secret.
 */
export function readConfig(flags: Flags, { environment, pid }: Host) {
  const given = givenValues(flags, environment);
  const mistakes: string[] = [];
  const settings = readTable(settingTable, given, mistakes);
  const limits = readTable(limitTable, given, mistakes);
  const { [tokenVariable]: token, LISTEN_PID, LISTEN_FDS = "0" } = environment;
  if (token && !tokenForm.test(token))
    mistakes.push(`${tokenVariable} must be ${tokenExpected}`);

  // A server may inherit a socket to listen on, as from systemd (sd_listen_fds(3)).
  const isInherited = LISTEN_PID === `${pid}` && LISTEN_FDS !== "0";
  if (isInherited && LISTEN_FDS !== "1") mistakes.push("LISTEN_FDS must be 1");
  checkCompanions(given, mistakes);
  try {
    limitsWith(limits);
  } catch (error) {
    mistakes.push(messageOf(error));
  }
  if (mistakes.length > 0) {
    const words = mistakes.join(" ").split(" ");
    const isUsage = Object.keys(flags).some((flag) =>
      words.includes(`--${flag}`)
    );
    throw new ExitError(isUsage ? "usage" : "config", mistakes.join("\n"));
  }
  const { logRequests, store } = settings;
  return {
    ...settings,
    logRequests: ["yes", "1", "true"].includes(logRequests),
    store: isStream(store) ? store : resolve(store),
    isInherited,
    limits
  };
}

/** Warns of each unknown PLANTS_ variable, which may be a slip. */
export function warnOfUnknown({ environment, log }: Host) {
  const known = [...entries.map(environmentOf), tokenVariable];
  for (const [name, value] of Object.entries(environment))
    if (name.startsWith("PLANTS_") && value && !known.includes(name))
      log("warn", `${name} is ignored: there is no such setting`);
}

/** Whether a value of `--store` is meant as the address of a stream, be it good or bad. */
export const isStream = (address: string) => /^(?:nats|tls):/.test(address);

type Given = ReturnType<typeof givenValues>;

/**
 * Returns each value that is given, by its flag, with the flag or variable that it comes from. A flag
 * wins over its variable, and an empty variable counts as none.
 */
function givenValues(flags: Flags, environment: Host["environment"]) {
  const given = new Map<string, Record<"source" | "text", string>>();
  for (const entry of entries) {
    const { flag } = entry;
    const source = environmentOf(entry);
    const { [flag]: value } = flags;
    const { [source]: text } = environment;
    if (text) given.set(flag, { source, text });
    if (value !== undefined)
      given.set(flag, { source: `--${flag}`, text: `${value}` });
  }
  return given;
}

/** Reads each entry of a table. The result has the table's names: texts, and numbers in bounds. */
const readTable = <Table extends Readonly<Record<string, Entry>>>(
  table: Table,
  given: Given,
  mistakes: string[]
) =>
  Object.fromEntries(
    Object.entries(table).map(([name, entry]) => [
      name,
      readValue(entry, given, mistakes)
    ])
  ) as {
    readonly [Name in keyof Table]: Table[Name] extends { readonly min: number }
      ? number
      : string;
  };

/** Returns the value of an entry. If it is bad, adds a mistake and returns the default. */
function readValue(entry: Entry, given: Given, mistakes: string[]) {
  const found = given.get(entry.flag);
  if (!found) return entry.defaultValue;
  const { source, text } = found;

  if ("form" in entry && entry.form.test(text)) return text;

  // Digits alone are a number: no sign, fraction, exponent or white space.
  if ("min" in entry && /^\d+$/.test(text) && isWithin(entry, Number(text)))
    return Number(text);
  const expected = "unit" in entry ? describeBounds(entry) : entry.expected;
  mistakes.push(`${source} must be ${expected}`);
  return entry.defaultValue;
}

/** The flags that need each other. */
const companions: Readonly<Record<string, string>> = {
  "tls-cert": "tls-key",
  "tls-key": "tls-cert",
  "store-tls-cert": "store-tls-key",
  "store-tls-key": "store-tls-cert"
};

/** Checks the settings that need one another. */
function checkCompanions(given: Given, mistakes: string[]) {
  const hasStream = isStream(given.get("store")?.text ?? "");
  for (const [flag, { source }] of given) {
    if (flag.startsWith("store-") && !hasStream)
      mistakes.push(`${source} must be left out without a stream as --store`);
    const { [flag]: companion } = companions;
    if (companion && !given.has(companion))
      mistakes.push(`${source} must be given with --${companion}`);
  }
}
