/** The command line and the environment, read once into a frozen command. */
import { parseArgs } from "node:util";
import {
  bounds, environmentOf, isWithin, limitsWith, limitTable, settingTable, tokenVariable, type Limits,
} from "../config.ts";
import { ConfigError } from "./exit.ts";
import { isToken, isTokenName } from "../http/bearer.ts";

/** What `serve` needs; of its texts, an empty one means none. */
export type Config = ReturnType<typeof readConfig>;
export type Command =
  | { readonly command: "serve"; readonly config: Config }
  | { readonly command: "verify"; readonly files: readonly string[]; readonly json: boolean }
  | { readonly command: "token"; readonly name: string }
  | { readonly command: "openapi" | "help" | "version" };

/** Reads `[serve] [options]`, `verify FILE...`, `token [NAME]`, `openapi`, `--help`, `--version`.
 * A flag wins over its environment variable; an empty one counts as none. Throws ConfigError. */
export function readCommand(argv: readonly string[], environment: NodeJS.ProcessEnv): Command {
  if (argv.includes("--help")) return { command: "help" };
  if (argv.includes("--version")) return { command: "version" };
  const { command, words, flags, mistakes } = readLine(argv);
  if (command === "serve") return { command, config: readConfig(flags, environment, mistakes) };
  const [name = "token"] = words;
  if (command === "token" && !isTokenName(name)) {
    mistakes.push(`a token's name must be one word without # in front, found ${quoted(name)}`);
  }
  if (mistakes.length > 0) throw new ConfigError("usage", mistakes);
  if (command === "verify") return { command, files: words, json: flags.has("json") };
  return command === "token" ? { command, name } : { command: "openapi" };
}

const serveFlags =
  [...Object.keys(settingTable), ...Object.values(limitTable).map((limit) => limit.flag)];
const texts = Object.fromEntries(serveFlags.map((flag) => [flag, { type: "string" } as const]));
/** Flags, and how many words. */
const commands: ReadonlyMap<string, readonly [flags: readonly string[], min: number, max: number]> =
  new Map([["serve", [serveFlags, 0, 0]], ["verify", [["json"], 1, Infinity]],
    ["token", [[], 0, 1]], ["openapi", [[], 0, 0]]]);

function readLine(argv: readonly string[]) {
  const { tokens, positionals } = parseArgs({
    args: [...argv], strict: false, allowPositionals: true, tokens: true,
    options: { ...texts, json: { type: "boolean" } },
  });
  const [command = "serve", ...words] = positionals;
  const mistakes: string[] = [];
  const [allowed, wordsMin, wordsMax] = commands.get(command) ?? [serveFlags, 0, Infinity];
  if (!commands.has(command)) mistakes.push(`there is no command ${quoted(command)}: see --help`);
  if (words.length < wordsMin) mistakes.push(`${command} needs the path of a journal`);
  for (const word of words.slice(wordsMax)) mistakes.push(`${command} takes no ${quoted(word)}`);
  const flags = new Map<string, string>();
  for (const token of tokens) {
    if (token.kind !== "option") continue;
    const { name: flag, rawName, value = "", inlineValue = false } = token;
    const hasValue = value !== "" && (inlineValue || !value.startsWith("-"));
    if (!allowed.includes(flag)) {
      mistakes.push(`${command} has no option ${quoted(rawName)}: see --help`);
    } else if (flag === "json" ? inlineValue : !hasValue) {
      mistakes.push(`${rawName} ${flag === "json" ? "takes no" : "needs a"} value`);
    } else if (flags.has(flag)) mistakes.push(`${rawName} stands twice`);
    flags.set(flag, value);
  }
  return { command, words, flags, mistakes };
}

const quoted = (text: string): string => JSON.stringify(text.slice(0, 80));

function readConfig(
  flags: ReadonlyMap<string, string>, environment: NodeJS.ProcessEnv, ofLine: readonly string[],
) {
  const mistakes = [...ofLine];
  let isUsage = mistakes.length > 0;
  const read = (flag: string, variable: string, standard: string, wanted: string,
    isGood: (text: string) => boolean): string => {
    const given = flags.get(flag);
    const text = given ?? (environment[variable] || standard);
    // A flag without its value is told already.
    if (given === "" || isGood(text)) return given === "" ? standard : text;
    isUsage ||= given !== undefined;
    const source = given === undefined ? variable : `--${flag}`;
    mistakes.push(`${source} must be ${wanted}, found ${quoted(text)}`);
    return standard;
  };
  const setting = (name: keyof typeof settingTable): string => {
    const { environment: variable, standard, wanted, form } = settingTable[name];
    return read(name, variable, standard, wanted, (text) => form.test(text));
  };
  const limits: Partial<Limits> = Object.fromEntries(
    Object.entries(limitTable).map(([name, limit]) => [name, Number(read(
      limit.flag, environmentOf(limit), String(limit.standard), bounds(limit),
      (text) => /^\d+$/.test(text) && isWithin(limit, Number(text)),
    ))]),
  );
  const token = environment[tokenVariable] ?? "";
  if (token !== "" && !isToken(token)) {
    mistakes.push(`${tokenVariable} must be a b64token: letters, digits and -._~+/, = at its end`);
  }
  const config = {
    host: setting("host"), port: Number(setting("port")), socket: setting("socket"),
    basePath: setting("base-path"), store: setting("store"), tokensFile: setting("tokens"), token,
  };
  try {
    const all = { ...config, limits: limitsWith(limits) };
    if (mistakes.length === 0) return Object.freeze(all);
  } catch (error) {
    mistakes.push(error instanceof Error ? error.message : String(error));
    isUsage ||= flags.size > 0;
  }
  throw new ConfigError(isUsage ? "usage" : "config", mistakes);
}
