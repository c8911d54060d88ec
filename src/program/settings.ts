/** What `serve` needs, of flags and environment: read once, and frozen. */
import { bounds, isWithin, limitsWith, limitTable, type Limit, type Limits } from "../config.ts";
import { isToken } from "../http/bearer.ts";
import { ConfigError, messageOf } from "./exit.ts";
import type { Environment } from "./host.ts";

const portForm = String.raw`(?:\d{1,4}|[1-5]\d{4}|6[0-4]\d{3}|65[0-4]\d\d|655[0-2]\d|6553[0-5])`;
const hostForm = String.raw`(?:[\w.-]+|\[[\w:.%]+\])`;

/** [HOST:]PORT, an IPv6 address in brackets; or a path, which a slash tells from a name. */
const adminForm = new RegExp(`^(?:(?:${hostForm}:)?${portForm}|(?=.*/)[\x01-\x7f]{1,107})?$`);

/** The flags besides the limits' own; what has not the form, or is not within, is a mistake. */
export const settingTable = {
  host: { environment: "HOST", standard: "127.0.0.1", form: /^[\w.:%-]+$/,
    wanted: "a host name or an address", meaning: "address to listen on" },
  port: { environment: "PORT", standard: 8080, min: 0, max: 65_535, wanted: "a port",
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

/** The flags of a command line by their names, and what is wrong with the line already. */
export interface Flags {
  readonly flags: ReadonlyMap<string, string>;
  readonly mistakes: readonly string[];
}

/** A flag wins over its variable; an empty variable counts as none.
 * @throws ConfigError that tells all that is wrong at once, the line's mistakes first */
export function readConfig(given: Flags, environment: Environment) {
  const sources = new Sources(given, environment);
  const read = (flag: keyof typeof settingTable): string =>
    sources.read(flag, settingTable[flag]);

  // In this order mistakes are told. What a limit may be beside another comes last: that is
  // looked at when each is good by itself.
  const numbers = Object.entries(limitTable).map(([name, limit]) =>
    [name, Number(sources.read(limit.flag, limit))] as const);
  const settings = {
    token: sources.readToken(),
    host: read("host"),
    port: Number(read("port")),
    socket: read("socket"),
    basePath: read("base-path"),
    store: read("store"),
    tokensFile: read("tokens"),
    admin: read("admin"),
    failedLinesMax: Number(read("max-failed-lines")),
    logRequests: read("log-requests") === "yes",
  };
  const limits = sources.readTogether(Object.fromEntries(numbers));
  sources.throwMistakes();
  return Object.freeze({ ...settings, limits });
}

/** A short, escaped excerpt of what was given. */
export const quoted = (text: string): string => JSON.stringify(text.slice(0, 80));

/** Flags and environment, and what was found to be wrong with them. */
class Sources {
  readonly #flags: ReadonlyMap<string, string>;
  readonly #environment: Environment;
  readonly #mistakes: string[];
  /** One mistake on the command line makes all of them `usage`. */
  #exit: "usage" | "config";

  constructor({ flags, mistakes }: Flags, environment: Environment) {
    this.#flags = flags;
    this.#environment = environment;
    this.#mistakes = [...mistakes];
    this.#exit = mistakes.length > 0 ? "usage" : "config";
  }

  /** The flag, or else the variable, or else the default; that in the place of a bad one, too. */
  read(flag: string, entry: Entry): string {
    const variable = "environment" in entry ? entry.environment : environmentOf(entry);
    const standard = String(entry.standard);
    const given = this.#flags.get(flag);
    // A flag without its value is told already.
    if (given === "") return standard;

    const text = given ?? (this.#environment[variable] || standard);
    if (isGood(entry, text)) return text;
    const source = given === undefined ? variable : `--${flag}`;
    if (given !== undefined) this.#exit = "usage";
    this.#mistakes.push(`${source} must be ${wantedOf(entry)}, found ${quoted(text)}`);
    return standard;
  }

  /** Told without what was found: it may be a token all the same. */
  readToken(): string {
    const token = this.#environment[tokenVariable] ?? "";
    if (token !== "" && !isToken(token)) {
      const wanted = "a b64token: letters, digits and -._~+/, = at its end";
      this.#mistakes.push(`${tokenVariable} must be ${wanted}`);
    }
    return token;
  }

  /** Which of two limits is to blame, or whether a flag is, can't be known. */
  readTogether(numbers: Partial<Limits>): Limits {
    try {
      return limitsWith(numbers);
    } catch (error) {
      this.#mistakes.push(messageOf(error));
      if (this.#flags.size > 0) this.#exit = "usage";
      return limitsWith();
    }
  }

  throwMistakes(): void {
    if (this.#mistakes.length > 0) throw new ConfigError(this.#exit, this.#mistakes);
  }
}

/** A row of one of the two tables: a text of some form, or a whole number within bounds. */
type Entry = Limit | (typeof settingTable)[keyof typeof settingTable];

/** No sign, no fraction, no exponent, no white space: what is not plainly a number is a mistake. */
function isGood(entry: Entry, text: string): boolean {
  if ("form" in entry) return entry.form.test(text);
  return /^\d+$/.test(text) && isWithin(entry, Number(text));
}

function wantedOf(entry: Entry): string {
  if ("unit" in entry) return bounds(entry);
  return "form" in entry ? entry.wanted : `${entry.wanted}, ${entry.min} to ${entry.max}`;
}
