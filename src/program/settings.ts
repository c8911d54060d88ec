/** The settings of `serve`, from flags and environment: read once. */
import { resolve } from "node:path";
import {
  basePathForm,
  basePathExpected,
  codeOf,
  describeBounds,
  isWithin,
  limitTable,
  orderedLimits,
  type Limit,
  type Limits
} from "../config.ts";
import { tokenExpected, tokenForm } from "../http/bearer.ts";
import { isWindows } from "../system.ts";
import type { Host } from "./host.ts";

/**
 * The start of the form of a path that is meant so: no white space or quotation mark around it, no
 * slash at its end, no comment of an env file after it, and not the `-` that stands for a stream.
 */
const pathStart = String.raw`(?!["'\s])(?!.*["'\s/]$)(?!.*\s#)(?!-$)`;

/** No control character, and none that is invisible: a file of nearly the same name is another. */
const pathCharacters = String.raw`[^\p{Cc}\p{Cf}]+`;
const pathExpected =
  "a path without quotes, spaces or a # comment around it and without invisible characters";

/** A path, or none. */
const path = {
  defaultValue: "",
  form: new RegExp(`^${pathStart}${pathCharacters}$`, "u"),
  expected: pathExpected
} as const;

/**
 * The path of a Unix socket: what every system but Windows can bind. An abstract name (@) and the
 * scheme of a URL are no part of a path.
 */
const socketForm = isWindows ? "(?!)" : `${pathStart}(?!@|[a-z]+:)[ -~]{1,107}`;
const socketExpected =
  "of at most 107 ASCII characters, without @ or unix: before it";

/** What is expected instead of a socket's path or descriptor on Windows. */
const noSocket = "left out on Windows";

const portForm = String.raw`(?:\d{1,4}|[1-5]\d{4}|6[0-4]\d{3}|65[0-4]\d\d|655[0-2]\d|6553[0-5])`;
const hostForm = String.raw`(?:([\w.-]+)|\[([\w:.%]+)\])`;

/**
 * [HOST:]PORT, or a path, which has a slash. The groups are the name, or the IPv6 address that is
 * in brackets, and the port.
 */
export const adminForm = new RegExp(
  `^(?:(?:${hostForm}:)?(${portForm})|(?=.*/)${socketForm})$`
);

const addressForm = "(?:nats|tls)://[^@\\0]+";

/** The address of a stream, without credentials and hence without @; or a path that is no URL. */
const storeForm = new RegExp(
  `^${pathStart}(?:${addressForm}|(?!(?:file|nats|tls):|:memory:|[^./].*://)${pathCharacters})$`,
  "u"
);

/** The settings besides the limits. A value without the form, or out of bounds, is a mistake. */
export const settingTable = {
  host: {
    flag: "host",
    environment: "HOST",
    defaultValue: "127.0.0.1",
    form: /^(?:[\w.-]+|(?=.*:.*:)(?:[\w.:%-]+|\[[\w.:%-]+\]))$/,
    expected: "a host name or an address, without a port",
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
    form: new RegExp(`^${socketForm}$`),
    expected: isWindows ? noSocket : `a path ${socketExpected}`,
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
    expected: isWindows
      ? "a port or HOST:PORT"
      : `a port, HOST:PORT, or a path with a / ${socketExpected}`,
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
  "environment" in entry ? entry.environment : variableOf(entry.flag);

const variableOf = (flag: string) =>
  `PLANTS_${flag.toUpperCase().replaceAll("-", "_")}`;

/** What a command reads its settings from, and the mistakes found so far. */
export interface Input extends Pick<Host, "environment" | "pid"> {
  /** Values by flag; empty for a flag that lacks its value. */
  readonly flags: ReadonlyMap<string, string>;

  /** The flags that the command takes, and whose variables it reads. */
  readonly allowed: readonly string[];

  /** One line for each. */
  readonly mistakes: string[];
}

type Settings = ReturnType<typeof readTable<typeof settingTable>>;

/** An empty text means none. No member is a secret. */
export type Config = ReturnType<typeof readConfig>;

/** Reads the settings. Adds each mistake to the list, and uses the default instead. */
export function readConfig(input: Input) {
  const settings = readTable(settingTable, input);
  const limits: Limits = readTable(limitTable, input);
  const isServe = input.allowed.includes("tokens");
  if (isServe) checkToken(input);
  checkCompanions(limits, input);
  const { host, logRequests, store } = settings;
  const isSocketInherited = isServe && isInherited(input);
  checkPlaces(settings, isSocketInherited, input);
  return {
    ...settings,

    // An IPv6 address may be in brackets, as in a URL.
    host: host.replace(/^\[|\]$/g, ""),
    logRequests: ["yes", "1", "true"].includes(logRequests),
    store: isStream(store) ? store : resolve(store),
    isInherited: isSocketInherited,

    /** The flag or variable that `host` is from. */
    hostSource: lookUp(settingTable.host, input).source,
    limits
  };
}

/** Whether a value of `--store` is meant as the address of a stream, be it good or bad. */
export const isStream = (address: string) => /^(?:nats|tls):/.test(address);

/**
 * Returns a short, escaped excerpt of what was given, with the code of each character that a reader
 * cannot see. A text with an @ is not quoted: it may be an address with a password.
 */
export const quoted = (text: string) =>
  /.@/s.test(text)
    ? "a text with an @"
    : JSON.stringify(text.replace(/(?<=^.{40}).+(?=.{40}$)/s, "...")).replace(
        /\p{Cf}|(?! )\p{Z}/gu,
        (character) => `<${codeOf(character)}>`
      );

/** Returns the known name that was probably meant, as a question; else where to look. */
export function hintFor(name: string, known: readonly string[]) {
  const typed = shortened(name);
  const near = known.find((each) =>
    shortened(each).some((form) => typed.includes(form))
  );
  return near === undefined ? "see --help" : `did you mean ${near}?`;
}

/**
 * Returns the forms of a flag or variable to compare: without prefix and in lower case, then also
 * without each one of its letters. So two names share a form if they differ by one letter that is
 * added, left out, replaced or moved.
 */
function shortened(name: string) {
  const form = name
    .toLowerCase()
    .replace(/^plants_|^-+/, "")
    .replaceAll("_", "-");
  const letters = Array.from(
    form,
    (_, at) => form.slice(0, at) + form.slice(at + 1)
  );
  return [form, ...letters];
}

/** Reads each entry of a table. The result has the table's names: texts, and numbers in bounds. */
const readTable = <Table extends Readonly<Record<string, Entry>>>(
  table: Table,
  input: Input
) =>
  Object.fromEntries(
    Object.entries(table).map(([name, entry]) => [
      name,
      readValue(entry, input)
    ])
  ) as {
    readonly [Name in keyof Table]: Table[Name] extends { readonly min: number }
      ? number
      : string;
  };

/** Returns the value of an entry. If it is bad, adds a mistake and returns the default. */
function readValue(entry: Entry, input: Input) {
  const { source, text } = lookUp(entry, input);
  if (!text) return entry.defaultValue;

  if ("form" in entry && entry.form.test(text)) return text;

  // Digits alone are a number: no sign, fraction, exponent or white space.
  if ("min" in entry && /^\d+$/.test(text) && isWithin(entry, Number(text)))
    return Number(text);
  const expected = "unit" in entry ? describeBounds(entry) : entry.expected;
  input.mistakes.push(`${source} must be ${expected}, found ${quoted(text)}`);
  return entry.defaultValue;
}

/**
 * Returns the value of an entry, and the flag or variable that it comes from; undefined if neither
 * is given. A flag wins over its variable, and an empty variable counts as none.
 */
function lookUp(entry: Entry, { flags, allowed, environment }: Input) {
  const ofFlag = flags.get(entry.flag);
  if (ofFlag !== undefined) return { source: `--${entry.flag}`, text: ofFlag };
  const source = environmentOf(entry);
  const text = allowed.includes(entry.flag) && environment[source];
  return { source, text: text || undefined };
}

/** Whether a server inherits a socket to listen on, as from systemd (sd_listen_fds(3)). */
function isInherited({ environment, pid, mistakes }: Input) {
  const { LISTEN_PID, LISTEN_FDS = "0" } = environment;
  if (LISTEN_PID !== `${pid}` || LISTEN_FDS === "0") return false;
  const expected = isWindows ? noSocket : "1";
  if (LISTEN_FDS !== expected)
    mistakes.push(
      `LISTEN_FDS must be ${expected}, found ${quoted(LISTEN_FDS)}`
    );
  return true;
}

/** Checks the token without quoting it: a mistyped token is still nearly a token. */
function checkToken({ environment, mistakes }: Input) {
  const { [tokenVariable]: token } = environment;
  if (token && !tokenForm.test(token))
    mistakes.push(`${tokenVariable} must be ${tokenExpected}`);
}

/** Checks the settings that need or bound one another. */
function checkCompanions(limits: Limits, input: Input) {
  const { mistakes } = input;
  const given = entries
    .filter((entry) => lookUp(entry, input).text !== undefined)
    .map(({ flag }) => flag);
  for (const prefix of ["", "store-"]) {
    const cert = `${prefix}tls-cert`;
    const key = `${prefix}tls-key`;
    if (given.includes(cert) !== given.includes(key))
      mistakes.push(`--${cert} and --${key} need each other`);
  }
  if (!isStream(lookUp(settingTable.store, input).text ?? ""))
    for (const flag of given)
      if (flag.startsWith("store-"))
        mistakes.push(`--${flag} needs a stream as --store`);
  for (const [lower, upper] of orderedLimits) {
    const { flag, unit } = limitTable[lower];
    if (limits[lower] > limits[upper])
      mistakes.push(
        `--${flag} must not be above --${limitTable[upper].flag}: ` +
          `${limits[lower]} and ${limits[upper]} ${unit}`
      );
  }
}

/** Checks that the listeners and the journal are at different places. */
function checkPlaces(
  { admin, host, port, socket, store }: Settings,
  isSocketInherited: boolean,
  { mistakes }: Input
) {
  const [, name, ipv6, adminPort] = adminForm.exec(admin) ?? [];
  const adminPath = adminPort === undefined ? admin : "";
  const paths = [
    ["--store", isStream(store) ? "" : store],
    ["--socket", socket],
    ["--admin", adminPath]
  ] as const;
  for (const [index, [flag, path]] of paths.entries())
    for (const [other, otherPath] of paths.slice(index + 1))
      if (path && otherPath && resolve(path) === resolve(otherPath))
        mistakes.push(`${other} must not be the path of ${flag}`);

  // An inherited socket, and one at a path, has no port. Port 0 is any free one.
  const hasPort = !isSocketInherited && socket === "" && port !== 0;
  const hosts = [host.replace(/^\[|\]$/g, ""), name ?? ipv6 ?? "127.0.0.1"];
  if (hasPort && port === Number(adminPort) && overlap(hosts))
    mistakes.push(`--admin must not have the port of --port, ${port}`);
}

/** Whether two hosts have an address in common: `::` has all, 0.0.0.0 all of IPv4. */
const overlap = (hosts: readonly string[]) =>
  hosts[0] === hosts[1] ||
  hosts.includes("::") ||
  (hosts.includes("0.0.0.0") && !hosts.some((host) => host.includes(":")));

/** Warns of all unknown PLANTS_ variables, without what they hold: each may be a slip. */
export function warnOfUnknown({
  environment,
  log
}: Pick<Host, "environment" | "log">) {
  const known = [...entries.map(environmentOf), tokenVariable];

  // A flag's name comes first: PLANTS_TOKENS is not meant as PLANTS_TOKEN, which would take the
  // path of the file for a token.
  const hintOf = (name: string) => {
    const entry = entries.find(({ flag }) => variableOf(flag) === name);
    return entry
      ? `did you mean ${environmentOf(entry)}?`
      : hintFor(name, known);
  };
  const names = Object.keys(environment)
    .filter(
      (name) =>
        name.startsWith("PLANTS_") && environment[name] && !known.includes(name)
    )
    .map((name) => `${name} (${hintOf(name)})`);
  if (names[0])
    log("warn", `unknown variables are ignored: ${names.join(", ")}`);
}
