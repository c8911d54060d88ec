/** The command line and the environment, read once into a frozen command. */
import { parseArgs } from "node:util";
import {
  bounds, environmentOf, isWithin, limitsWith, limitTable, settingTable, tokenVariable,
} from "./config.ts";
import type { Limits } from "./config.ts";
import { isToken } from "./http/bearer.ts";

export interface Config {
  readonly host: string;
  readonly port: number;
  /** Empty: none. */
  readonly socket: string;
  readonly basePath: string;
  readonly store: string;
  /** Empty: none. */
  readonly tokensFile: string;
  /** Empty: none. */
  readonly token: string;
  readonly limits: Limits;
}

export type Command =
  | { readonly command: "serve"; readonly config: Config }
  | { readonly command: "verify"; readonly files: readonly string[]; readonly json: boolean }
  | { readonly command: "token"; readonly name: string }
  | { readonly command: "openapi" }
  | { readonly command: "help" }
  | { readonly command: "version" };

export type Environment = Readonly<Record<string, string | undefined>>;

/** Everything that is wrong with the command line and the environment, at once. */
export class ConfigError extends Error {
  override readonly name = "ConfigError";
  /** 64: the command line is wrong (EX_USAGE); 78: only the environment is (EX_CONFIG). */
  readonly exitCode: 64 | 78;
  constructor(exitCode: 64 | 78, mistakes: readonly string[]) {
    super(mistakes.join("\n"));
    this.exitCode = exitCode;
  }
}

/**
 * Reads `[serve] [options]`, `verify FILE...`, `token [NAME]`, `openapi`, `--help`, `--version`.
 * A flag wins over its environment variable; an empty variable counts as none.
 * @throws ConfigError
 */
export function readCommand(argv: readonly string[], environment: Environment): Command {
  const line = readLine(argv);
  if (line.flags.has("help")) return { command: "help" };
  if (line.flags.has("version")) return { command: "version" };
  switch (line.command) {
    case "serve":
      return { command: "serve", config: readConfig(line, environment) };
    case "verify":
      return { command: "verify", files: line.words, json: line.flags.has("json") };
    case "token":
      return { command: "token", name: line.words[0] ?? "token" };
    case "openapi":
      return { command: "openapi" };
  }
}

const serveFlags = [
  ...Object.keys(settingTable), ...Object.values(limitTable).map((limit) => limit.flag),
];

/** Which flags and how many words each command takes. */
const commands = {
  serve: { flags: serveFlags, wordsMin: 0, wordsMax: 0 },
  verify: { flags: ["json"], wordsMin: 1, wordsMax: Infinity },
  token: { flags: [], wordsMin: 0, wordsMax: 1 },
  openapi: { flags: [], wordsMin: 0, wordsMax: 0 },
} as const;
const switches: readonly string[] = ["help", "version", "json"];

interface Line {
  readonly command: keyof typeof commands;
  readonly words: readonly string[];
  readonly flags: ReadonlyMap<string, string>;
  readonly mistakes: readonly string[];
}

/** @throws ConfigError for all but serve's mistakes: those are told together with its values' */
function readLine(argv: readonly string[]): Line {
  const { tokens, positionals } = parseArgs({
    args: [...argv],
    options: Object.fromEntries([
      ...serveFlags.map((flag) => [flag, { type: "string" }] as const),
      ...switches.map((flag) => [flag, { type: "boolean" }] as const),
    ]),
    strict: false, allowPositionals: true, tokens: true,
  });
  const [name = "serve", ...words] = positionals;
  const command = Object.hasOwn(commands, name) ? name as keyof typeof commands : undefined;
  const mistakes: string[] = [];
  if (!command) mistakes.push(`there is no command ${quoted(name)}: see --help`);
  const { flags: own, wordsMin, wordsMax } = commands[command ?? "serve"];
  if (command && words.length < wordsMin) mistakes.push(`${name} needs the path of a journal`);
  if (command && words.length > wordsMax) {
    mistakes.push(`${name} takes no further word: ${words.slice(wordsMax).map(quoted).join(", ")}`);
  }
  const flags = new Map<string, string>();
  for (const token of tokens) {
    if (token.kind !== "option") continue;
    const { name: flag, rawName, value = "", inlineValue } = token;
    const isSwitch = switches.includes(flag);
    const follows = !isSwitch && !inlineValue && value.startsWith("-");
    if (!isSwitch && !serveFlags.includes(flag)) {
      mistakes.push(`there is no option ${quoted(rawName)}: see --help`);
    } else if (command && flag !== "help" && flag !== "version" && !own.some((o) => o === flag)) {
      mistakes.push(`${rawName} does not belong to ${command}`);
    } else if (isSwitch ? inlineValue === true : value === "" || follows) {
      mistakes.push(`${rawName} ${isSwitch ? "takes no" : "needs a"} value`);
    } else if (flags.has(flag)) {
      mistakes.push(`${rawName} stands twice`);
    }
    flags.set(flag, value);
  }
  const asks = flags.has("help") || flags.has("version");
  if (!command || (mistakes.length > 0 && (command !== "serve" || asks))) {
    throw new ConfigError(64, mistakes);
  }
  return { command, words, flags, mistakes };
}

/** A short, escaped excerpt of what was given. */
const quoted = (text: string): string => JSON.stringify(text.slice(0, 80));

function readConfig(line: Line, environment: Environment): Config {
  const mistakes = [...line.mistakes];
  let exitCode: 64 | 78 = mistakes.length > 0 ? 64 : 78;
  const read = (flag: string, variable: string, standard: string, wanted: string,
    isGood: (text: string) => boolean): string => {
    const given = line.flags.get(flag);
    const text = given ?? (environment[variable] || standard);
    if (isGood(text)) return text;
    if (given !== undefined) exitCode = 64;
    const source = given === undefined ? variable : `--${flag}`;
    mistakes.push(`${source} must be ${wanted}, found ${quoted(text)}`);
    return standard;
  };
  const setting = (name: keyof typeof settingTable, wanted: string, form: RegExp): string =>
    read(name, settingTable[name].environment, settingTable[name].standard, wanted,
      (text) => form.test(text));
  const values = Object.entries(limitTable).map(([name, limit]) => [name, Number(read(
    limit.flag, environmentOf(limit), String(limit.standard), bounds(limit),
    (text) => /^\d+$/.test(text) && isWithin(limit, Number(text)),
  ))]);
  const token = environment[tokenVariable] ?? "";
  if (token !== "" && !isToken(token)) {
    mistakes.push(`${tokenVariable} must be a b64token: letters, digits and -._~+/, = at its end`);
  }
  const config = {
    host: setting("host", "a host name or an address", /^[\w.:%-]+$/),
    port: Number(setting("port", "a port, 0 to 65535", portForm)),
    socket: setting("socket", "a path", pathForm),
    basePath: setting("base-path", "a path such as /v1, with no / at its end", basePathForm),
    store: setting("store", "a path or a file: URL", storeForm),
    tokensFile: setting("tokens", "a path", pathForm),
    token,
    limits: limitsOf(Object.fromEntries(values), mistakes),
  };
  if (mistakes.length > 0) throw new ConfigError(exitCode, mistakes);
  return Object.freeze(config);
}

const portForm = /^(?:\d{1,4}|[1-5]\d{4}|6[0-4]\d{3}|65[0-4]\d{2}|655[0-2]\d|6553[0-5])$/;
const pathForm = /^[^\0]*$/;
const basePathForm = /^(?:\/[\w.~!$&'()*+,;=:@%-]+)*$/;
const storeForm = /^(?:file:\/\/|(?![\w+.-]+:\/\/))[^\0]+$/;

function limitsOf(values: Partial<Limits>, mistakes: string[]): Limits {
  try {
    return limitsWith(values);
  } catch (error) {
    mistakes.push(error instanceof Error ? error.message : String(error));
    return limitsWith();
  }
}
