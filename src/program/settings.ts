/** What `serve` needs, of flags and environment: read once, and frozen. */
import {
  basePathForm, basePathWanted, bounds, isWithin, limitsWith, limitTable, type Limit, type Limits,
} from "../config.ts";
import { isToken } from "../http/bearer.ts";
import { ExitError } from "./exit.ts";
import type { Host } from "./host.ts";

/** The form of a path, where none need be given. */
const path = /^[^\0]*$/;

const portForm = String.raw`(?:\d{1,4}|[1-5]\d{4}|6[0-4]\d{3}|65[0-4]\d\d|655[0-2]\d|6553[0-5])`;
const hostForm = String.raw`(?:[\w.-]+|\[[\w:.%]+\])`;

/** [HOST:]PORT, an IPv6 address in brackets; or a path, which a slash tells from a name. */
const adminForm = new RegExp(`^(?:(?:${hostForm}:)?${portForm}|(?=.*/)[\x01-\x7f]{1,107})?$`);

/** The flags besides the limits' own; what has not the form, or is not within, is a mistake. */
export const settingTable = {
  host: { environment: "HOST", standard: "127.0.0.1", form: /^[\w.:%-]+$/,
    wanted: "a host name or an address", meaning: "address to listen on" },
  port: { environment: "PORT", standard: 8080, min: 0, max: 65_535, wanted: "a port, 0 to 65535",
    meaning: "port to listen on; 0: any free one" },
  socket: { environment: "PLANTS_SOCKET", standard: "", form: /^[\x01-\x7f]{0,107}$/,
    wanted: "a path of at most 107 ASCII characters", meaning: "Unix socket to listen on instead" },
  "base-path": { environment: "PLANTS_BASE_PATH", standard: "", form: basePathForm,
    wanted: basePathWanted, meaning: "what stands before /plants in the path" },
  store: { environment: "PLANTS_STORE", standard: "plants.ndjson",
    form: /^(?:(?:nats|tls):\/\/|(?!file:|[\w+.-]+:\/\/))[^\0]+$/,
    wanted: "a path, or nats:// or tls:// with hosts and a stream",
    meaning: "path of the journal; or a stream, nats://HOSTS/STREAM" },
  tokens: { environment: "PLANTS_TOKENS_FILE", standard: "", form: path, wanted: "a path",
    meaning: "file of lines NAME sha256:HEX, read again on SIGHUP" },
  "tls-cert": { environment: "PLANTS_TLS_CERT", standard: "", form: path, wanted: "a path",
    meaning: "PEM file of the certificate and its chain: serves https; read again on SIGHUP" },
  "tls-key": { environment: "PLANTS_TLS_KEY", standard: "", form: path, wanted: "a path",
    meaning: "PEM file of its private key, read again on SIGHUP" },
  admin: { environment: "PLANTS_ADMIN", standard: "", form: adminForm,
    wanted: "a port, HOST:PORT, or a path with a / of at most 107 ASCII characters",
    meaning: "port, HOST:PORT or Unix socket for /livez, /readyz and /metrics" },
  "max-failed-lines": { environment: "PLANTS_MAX_FAILED_LINES", standard: 10, min: 0, max: 100_000,
    wanted: "a number of lines",
    meaning: "lines a second for failed requests: a flood of them must not fill a disk" },
  "log-requests": { environment: "PLANTS_LOG_REQUESTS", standard: "", form: /^(?:yes)?$/,
    wanted: "yes", meaning: "log every request, and how long it took" },
} as const;

/** The variable that holds one token itself: never a flag, for `ps` shows flags. */
export const tokenVariable = "PLANTS_TOKEN";

/** The variable of a limit, made from its flag. */
export const environmentOf = (limit: { readonly flag: string }): string =>
  `PLANTS_${limit.flag.toUpperCase().replaceAll("-", "_")}`;

/** Of its texts, an empty one means none. */
export type Config = ReturnType<typeof readConfig>;

/** All that `serve` is given, and what is found to be wrong with it. */
export interface Given extends Pick<Host, "environment" | "pid"> {
  /** The flags of the command line by their names. */
  readonly flags: ReadonlyMap<string, string>;
  readonly mistakes: Mistakes;
}

/** A line each: of the command line, and of the rest. One of the first makes the end `usage`. */
export type Mistakes = Readonly<Record<"usage" | "config", string[]>>;

/**
 * A flag wins over its variable; an empty variable counts as none.
 *
 * @throws ExitError that tells all that is wrong at once, the line's mistakes first
 */
export function readConfig(given: Given) {
  const read = (flag: keyof typeof settingTable): string =>
    readText(flag, settingTable[flag], given);
  const numbers = Object.entries(limitTable).map(([name, limit]) =>
    [name, Number(readText(limit.flag, limit, given))] as const);

  const config = {
    token: readToken(given),
    host: read("host"),
    port: Number(read("port")),
    socket: read("socket"),
    basePath: read("base-path"),
    store: read("store"),
    tokensFile: read("tokens"),
    tlsCert: read("tls-cert"),
    tlsKey: read("tls-key"),
    isHandedIn: readHandedIn(given),
    admin: read("admin"),
    failedLinesMax: Number(read("max-failed-lines")),
    logRequests: read("log-requests") === "yes",
  };
  const limits = Object.fromEntries(numbers) as Limits;
  findUnknown(given);
  findConflicts(limits, given);
  throwMistakes(given.mistakes);
  return Object.freeze({ ...config, limits: limitsWith(limits) });
}

/** @throws ExitError where there is any */
export function throwMistakes({ usage, config }: Mistakes): void {
  const all = [...usage, ...config];
  if (all.length > 0) throw new ExitError(usage[0] ? "usage" : "config", all.join("\n"));
}

/** A short, escaped excerpt of what was given; of what may be an address with a password, nothing
 * that may be a part of it. */
export const quoted = (text: string): string =>
  JSON.stringify(text.replace(/:\/\/.*/s, "://***").replace(/^.*@/s, "***@").slice(0, 80));

/** What a message says of a name that does not exist: one of those that do is near, or none. */
export function hintFor(name: string, known: readonly string[]): string {
  const near = known.find((each) => lettersApart(name, each) <= 2);
  return near === undefined ? "see --help" : `did you mean ${near}?`;
}

/** How many letters one has that the other has not: a slip of the finger makes one or two. */
function lettersApart(one: string, other: string): number {
  const [a, b] = [one, other].map((name) => name.toLowerCase().replace(/^plants_|[^a-z]/g, ""));
  const without = (letters = "", taken = ""): string =>
    [...taken].reduce((rest, letter) => rest.replace(letter, ""), letters);
  return without(a, b).length + without(b, a).length;
}

/** A row of one of the two tables: a text of some form, or a whole number within bounds. */
type Entry = Limit | (typeof settingTable)[keyof typeof settingTable];

/** The variables of all flags. */
const variables: ReadonlyMap<string, string> = new Map([
  ...Object.entries(settingTable).map(([flag, { environment }]) => [flag, environment] as const),
  ...Object.values(limitTable).map((limit) => [limit.flag, environmentOf(limit)] as const),
]);

/** The flags of `serve`, of both tables. */
export const serveFlags = [...variables.keys()];

/** The flag, or else the variable, or else the default; that in the place of a bad one, too. */
function readText(flag: string, entry: Entry, given: Given): string {
  const text = textOf(flag, given) ?? `${entry.standard}`;
  if (isGood(entry, text)) return text;

  // A flag without its value is told already.
  if (text !== "") {
    const wanted = "unit" in entry ? bounds(entry) : entry.wanted;
    tell([flag], `${sourceOf(flag, given)} must be ${wanted}, found ${quoted(text)}`, given);
  }
  return `${entry.standard}`;
}

/** What the flag says, or else its variable. */
const textOf = (flag: string, { flags, environment }: Given): string | undefined =>
  flags.get(flag) ?? (environment[variables.get(flag) ?? ""] || undefined);

/** Who says it; where nobody does, the flag could. */
function sourceOf(flag: string, given: Given): string {
  const isOfLine = given.flags.has(flag) || textOf(flag, given) === undefined;
  return isOfLine ? `--${flag}` : `${variables.get(flag)}`;
}

/** Tells a mistake: one of the command line, where one of these flags stands there. */
function tell(flags: readonly string[], mistake: string, given: Given): void {
  const isOfLine = flags.some((flag) => given.flags.has(flag));
  given.mistakes[isOfLine ? "usage" : "config"].push(mistake);
}

/** Told without what was found: it may be a token all the same. */
function readToken(given: Given): string {
  const token = given.environment[tokenVariable] ?? "";
  const wanted = "a b64token: letters, digits and -._~+/, = at its end";
  if (token !== "" && !isToken(token)) tell([], `${tokenVariable} must be ${wanted}`, given);
  return token;
}

/** Whether a socket to listen on was handed in, as by systemd (sd_listen_fds(3)). */
function readHandedIn(given: Given): boolean {
  const { LISTEN_PID: pid, LISTEN_FDS: sockets = "0" } = given.environment;
  if (pid !== `${given.pid}` || sockets === "0") return false;

  if (sockets !== "1") tell([], `LISTEN_FDS must be 1, found ${quoted(sockets)}`, given);
  for (const flag of ["host", "port", "socket"].filter((each) => textOf(each, given))) {
    const source = sourceOf(flag, given);
    tell([flag], `${source} can't be set where a socket is handed in (LISTEN_FDS)`, given);
  }
  return true;
}

/** What Kubernetes sets for a service named plants (service links), with its value. */
const serviceLink = /^PLANTS_(?:\w+_)?(?:SERVICE_(?:HOST|PORT)|PORT_\d+_|PORT=\w+:\/\/)/;

/** A misspelt variable would be as good as none: told without what it holds, maybe a token. */
function findUnknown(given: Given): void {
  const known = [...variables.values(), tokenVariable];
  for (const [name, value = ""] of Object.entries(given.environment)) {
    const isOurs = name.startsWith("PLANTS_") && !serviceLink.test(`${name}=${value}`);
    if (!isOurs || value === "" || known.includes(name)) continue;
    tell([], `there is no variable ${quoted(name)}: ${hintFor(name, known)}`, given);
  }
}

/** What is good by itself, and not beside another. */
function findConflicts(limits: Limits, given: Given): void {
  for (const [flag, other] of [["tls-cert", "tls-key"], ["tls-key", "tls-cert"]] as const) {
    const isAlone = textOf(flag, given) && !textOf(other, given);
    if (isAlone) tell([flag], `${sourceOf(flag, given)} needs --${other}`, given);
  }

  if (limits.headMillis > limits.requestMillis) {
    const both = ["head-timeout", "request-timeout"];
    const [part, whole] = both.map((flag) => sourceOf(flag, given));
    tell(both, `${part} must not be above ${whole}, of which it is a part: `
      + `${limits.headMillis} and ${limits.requestMillis} milliseconds`, given);
  }
}

/** No sign, no fraction, no exponent, no white space: what is not plainly a number is a mistake. */
function isGood(entry: Entry, text: string): boolean {
  if ("form" in entry) return entry.form.test(text);
  return /^\d+$/.test(text) && isWithin(entry, Number(text));
}
