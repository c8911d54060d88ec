/** What `serve` needs, of flags and environment: read once, and frozen. */
import {
  basePathForm,
  basePathWanted,
  describeBounds,
  isWithin,
  limitTable,
  type Limit,
  type Limits
} from "../config.ts";
import { isToken } from "../http/bearer.ts";
import type { Host } from "./host.ts";

/** What looks like an address, which may have a password: where a path is shown, it is refused. */
const address = String.raw`(?![./\\]|[A-Za-z]:\\).*(?:://|:.*@|@[^/]*:\d)`;
const noAddress = `(?!${address})`;
export const isAddress = (text: string): boolean =>
  new RegExp(`^${address}`, "s").test(text);

/** One of the characters of a socket's path, at its start. */
const ofSocket = `${noAddress}[\x01-\x7f]`;

/** The form of a path, where none need be given. */
const path = {
  defaultValue: "",
  form: new RegExp(`^${noAddress}[^\\0]*$`, "s"),
  wanted: "a path"
} as const;

const portForm = String.raw`(?:\d{1,4}|[1-5]\d{4}|6[0-4]\d{3}|65[0-4]\d\d|655[0-2]\d|6553[0-5])`;
const hostForm = String.raw`(?:[\w.-]+|\[[\w:.%]+\])`;

/** [HOST:]PORT, an IPv6 address in brackets; or a path, which a slash tells from a name. */
const adminForm = new RegExp(
  `^(?:(?:${hostForm}:)?${portForm}|(?=.*/)${ofSocket}{1,107})?$`
);

/** What can be set besides the limits; what has not the form, or is not within, is a mistake. */
export const settingTable = {
  host: {
    flag: "host",
    environment: "HOST",
    defaultValue: "127.0.0.1",
    form: /^[\w.:%-]+$/,
    wanted: "a host name or an address",
    meaning: "address to listen on"
  },
  port: {
    flag: "port",
    environment: "PORT",
    defaultValue: 8080,
    min: 0,
    max: 65_535,
    wanted: "a port, 0 to 65535",
    meaning: "port to listen on; 0: any free one"
  },
  socket: {
    flag: "socket",
    defaultValue: "",
    form: new RegExp(`^${ofSocket}{0,107}$`),
    wanted: "a path of at most 107 ASCII characters",
    meaning: "Unix socket to listen on instead"
  },
  basePath: {
    flag: "base-path",
    defaultValue: "",
    form: basePathForm,
    wanted: basePathWanted,
    meaning: "what stands before /plants in the path"
  },
  store: {
    flag: "store",
    defaultValue: "plants.ndjson",
    form: new RegExp(`^(?:(?:nats|tls)://|(?!file:)${noAddress})[^\\0]+$`, "s"),
    wanted: "a path, or nats:// or tls:// with hosts and a stream",
    meaning: "path of the journal; or a stream, nats://HOSTS/STREAM"
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
    meaning: "PEM file of its private key, read again on SIGHUP"
  },
  admin: {
    flag: "admin",
    defaultValue: "",
    form: adminForm,
    wanted:
      "a port, HOST:PORT, or a path with a / of at most 107 ASCII characters",
    meaning: "port, HOST:PORT or Unix socket for /livez, /readyz and /metrics"
  },
  failedLinesMax: {
    flag: "max-failed-lines",
    defaultValue: 10,
    min: 0,
    max: 100_000,
    wanted: "a number of lines",
    meaning:
      "lines a second for failed requests: a flood of them must not fill a disk"
  },
  logRequests: {
    flag: "log-requests",
    defaultValue: "",
    form: /^(?:yes)?$/,
    wanted: "yes",
    meaning: "log every request, and how long it took"
  }
} as const;

/** An entry of either table: a text of some form, or a whole number within bounds. */
type Entry = Limit | (typeof settingTable)[keyof typeof settingTable];

/** All that has a flag. */
export const entries: readonly Entry[] = [
  ...Object.values(settingTable),
  ...Object.values(limitTable)
];

/** The variable that holds one token itself: never a flag, for `ps` shows flags. */
export const tokenVariable = "PLANTS_TOKEN";

/** The variable of an entry: made from its flag, where it has none of its own. */
export const environmentOf = (entry: Entry): string =>
  "environment" in entry
    ? entry.environment
    : `PLANTS_${entry.flag.toUpperCase().replaceAll("-", "_")}`;

/** All that `serve` is given, and what is found to be wrong with it. */
export interface Given extends Pick<Host, "environment" | "pid"> {
  /** The flags of the command line by their names. */
  readonly flags: ReadonlyMap<string, string>;

  /** A line each: of the command line, and of the rest. */
  readonly mistakes: Readonly<Record<"usage" | "config", string[]>>;
}

/** Of its texts, an empty one means none. */
export type Config = ReturnType<typeof readConfig>;

/** A flag wins over its variable; an empty variable counts as none. What is wrong is put to the
 * mistakes, and a default in its place. */
export function readConfig(given: Given) {
  const texts = readTable(settingTable, (entry) => readText(entry, given));
  const limits: Limits = readTable(limitTable, (entry) =>
    Number(readText(entry, given))
  );
  findMistakes(limits, given);
  return Object.freeze({
    ...texts,
    port: Number(texts.port),
    failedLinesMax: Number(texts.failedLinesMax),
    logRequests: texts.logRequests === "yes",
    token: given.environment[tokenVariable] ?? "",
    isHandedIn: isHandedIn(given),
    limits: Object.freeze(limits)
  });
}

/** A short, escaped excerpt of what was given; of what may be an address with a password, nothing
 * that may be a part of it. */
export const quoted = (text: string): string =>
  JSON.stringify(
    text
      .replace(/:\/\/.*/s, "://***")
      .replace(/^.*@/s, "***@")
      .slice(0, 80)
  );

/** What a message says of a name that does not exist: the nearest of those that do, or none. */
export function hintFor(name: string, known: readonly string[]): string {
  const [nearest = ""] = known.toSorted(
    (a, b) => lettersApart(name, a) - lettersApart(name, b)
  );
  return lettersApart(name, nearest) <= 2
    ? `did you mean ${nearest}?`
    : "see --help";
}

/** How many letters one has that the other has not: a slip of the finger makes one or two. */
function lettersApart(one: string, other: string): number {
  const [a, b] = [one, other].map((name) =>
    name.toLowerCase().replace(/^plants_|[^a-z]/g, "")
  );
  const without = (letters = "", taken = ""): string =>
    [...taken].reduce((rest, letter) => rest.replace(letter, ""), letters);
  return without(a, b).length + without(b, a).length;
}

/** What is read for each entry of a table, by the same names. */
const readTable = <Name extends string, Value>(
  table: Readonly<Record<Name, Entry>>,
  read: (entry: Entry) => Value
) =>
  Object.fromEntries(
    Object.entries<Entry>(table).map(([name, entry]) => [name, read(entry)])
  ) as Readonly<Record<Name, Value>>;

/** The flag, or else the variable, or else the default; that in the place of a bad one, too. */
function readText(entry: Entry, given: Given): string {
  const text = textOf(entry, given) ?? `${entry.defaultValue}`;
  // No sign, no fraction, no exponent, no white space: what is not plainly a number is a mistake.
  const isGood =
    "form" in entry
      ? entry.form.test(text)
      : /^\d+$/.test(text) && isWithin(entry, Number(text));
  if (isGood) return text;

  // A flag without its value is told already.
  const wanted = "unit" in entry ? describeBounds(entry) : entry.wanted;
  if (text !== "")
    blame([entry], `must be ${wanted}, found ${quoted(text)}`, given);
  return `${entry.defaultValue}`;
}

/** What the flag says, or else its variable. */
export const textOf = (
  entry: Entry,
  { flags, environment }: Given
): string | undefined =>
  flags.get(entry.flag) ?? (environment[environmentOf(entry)] || undefined);

/** Who says it; where nobody does, the flag could. */
const sourceOf = (entry: Entry, { flags, environment }: Given): string =>
  !flags.has(entry.flag) && environment[environmentOf(entry)]
    ? environmentOf(entry)
    : `--${entry.flag}`;

/** Tells a mistake of the first: one of the command line, where one of them stands there. */
function blame(
  of: readonly [Entry, ...Entry[]],
  mistake: string,
  given: Given
): void {
  const isOfLine = of.some(({ flag }) => given.flags.has(flag));
  given.mistakes[isOfLine ? "usage" : "config"].push(
    `${sourceOf(of[0], given)} ${mistake}`
  );
}

/** Whether sockets to listen on were handed in, as by systemd (sd_listen_fds(3)). */
const isHandedIn = ({
  environment: { LISTEN_PID, LISTEN_FDS = "0" },
  pid
}: Given): boolean => LISTEN_PID === `${pid}` && LISTEN_FDS !== "0";

/** What Kubernetes sets for a service named plants (service links), with its value. */
const serviceLink =
  /^PLANTS_(?:\w+_)?(?:SERVICE_(?:HOST|PORT)|PORT_\d+_|PORT=\w+:\/\/)/;

/** What is wrong besides the form of each: with other variables, or of one beside another. */
function findMistakes(
  { headMillis: part, requestMillis: whole }: Limits,
  given: Given
): void {
  const {
    environment,
    mistakes: { config }
  } = given;
  const { host, port, socket, tlsCert, tlsKey } = settingTable;

  // Told without what was found: it may be a token all the same.
  const token = environment[tokenVariable];
  const wanted = "a b64token: letters, digits and -._~+/, = at its end";
  if (token && !isToken(token))
    config.push(`${tokenVariable} must be ${wanted}`);

  // A misspelt variable would be as good as none. It may hold a token, too.
  const known = [...entries.map(environmentOf), tokenVariable];
  for (const [name, value] of Object.entries(environment)) {
    const isOurs =
      name.startsWith("PLANTS_") && !serviceLink.test(`${name}=${value}`);
    if (!isOurs || !value || known.includes(name)) continue;
    config.push(
      `there is no variable ${quoted(name)}: ${hintFor(name, known)}`
    );
  }

  if (isHandedIn(given)) {
    const { LISTEN_FDS: sockets } = environment;
    if (sockets !== "1")
      config.push(`LISTEN_FDS must be 1, found ${quoted(`${sockets}`)}`);

    // Of two places to listen one would be silently closed.
    for (const place of [host, port, socket].filter((each) =>
      textOf(each, given)
    )) {
      blame(
        [place],
        "can't be set where a socket is handed in (LISTEN_FDS)",
        given
      );
    }
  }

  // What is good by itself, and not beside another.
  for (const [one, other] of [
    [tlsCert, tlsKey],
    [tlsKey, tlsCert]
  ] as const) {
    const isAlone = textOf(one, given) && !textOf(other, given);
    if (isAlone) blame([one], `needs --${other.flag}`, given);
  }
  if (part > whole) {
    const both = [limitTable.headMillis, limitTable.requestMillis] as const;
    blame(
      both,
      `must not be above ${sourceOf(both[1], given)}, of which it is a part: ` +
        `${part} and ${whole} milliseconds`,
      given
    );
  }
}
