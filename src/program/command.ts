/** The command line: which command, with which words and flags. All that is wrong is told at once:
 * so nothing is thrown before the end. */
import { parseArgs } from "node:util";
import { limitTable } from "../config.ts";
import { settingTable } from "./settings.ts";
import { isTokenName } from "../http/bearer.ts";
import { ConfigError } from "./exit.ts";
import type { Environment } from "./host.ts";
import { quoted, readConfig, type Config, type Flags } from "./settings.ts";

export type Command =
  | { readonly command: "serve"; readonly config: Config }
  | { readonly command: "verify"; readonly files: readonly string[]; readonly format: Format }
  | { readonly command: "token"; readonly name: string }
  | { readonly command: "openapi" | "help" | "version" };

type Format = "text" | "json";

/** Reads `[serve] [options]`, `verify FILE...`, `token [NAME]`, `openapi`, `--help`, `--version`.
 * A flag wins over its environment variable; an empty one counts as none. Throws ConfigError. */
export function readCommand(args: readonly string[], environment: Environment): Command {
  if (args.includes("--help")) return { command: "help" };
  if (args.includes("--version")) return { command: "version" };

  const line = readLine(args);
  const { command, words, flags, mistakes } = line;
  // What is wrong with serve's settings is told together with what is wrong with its line.
  if (command === "serve") return { command, config: readConfig(line, environment) };

  const [name = "token"] = words;
  if (command === "token" && !isTokenName(name)) {
    mistakes.push(`a token's name must be one word without # in front, found ${quoted(name)}`);
  }
  if (mistakes.length > 0) throw new ConfigError("usage", mistakes);
  if (command === "verify") {
    return { command, files: words, format: flags.has("json") ? "json" : "text" };
  }
  return command === "token" ? { command, name } : { command: "openapi" };
}

/** What may stand behind a command: flags by their names, and how many words. */
interface Form {
  readonly flags: readonly string[];
  readonly wordsMin: number;
  readonly wordsMax: number;
}

const serveFlags = [
  ...Object.keys(settingTable),
  ...Object.values(limitTable).map((limit) => limit.flag),
];
const forms: ReadonlyMap<string, Form> = new Map([
  ["serve", { flags: serveFlags, wordsMin: 0, wordsMax: 0 }],
  ["verify", { flags: ["json"], wordsMin: 1, wordsMax: Infinity }],
  ["token", { flags: [], wordsMin: 0, wordsMax: 1 }],
  ["openapi", { flags: [], wordsMin: 0, wordsMax: 0 }],
]);
/** Where the command is none, its flags and words are not to blame. */
const unknownForm: Form = { flags: serveFlags, wordsMin: 0, wordsMax: Infinity };

/** They have no value on the command line. */
const switches = ["json", "log-requests"];

/** parseArgs is told which flags have a value; what is wrong is found here, and all at once. */
const options = Object.fromEntries([
  ...serveFlags.map((flag) => [flag, { type: "string" }] as const),
  ...switches.map((flag) => [flag, { type: "boolean" }] as const),
]);

interface Line extends Flags {
  readonly command: string;
  readonly words: readonly string[];
  readonly mistakes: string[];
}

function readLine(args: readonly string[]): Line {
  // Not strict: its own errors tell the first mistake only, and in words of their own.
  const { tokens, positionals } = parseArgs({
    args: [...args],
    options,
    strict: false,
    allowPositionals: true,
    tokens: true,
  });
  const [command = "serve", ...words] = positionals;

  // Words that are missing, or too many.
  const form = forms.get(command) ?? unknownForm;
  const mistakes: string[] = [];

  if (!forms.has(command)) mistakes.push(`there is no command ${quoted(command)}: see --help`);
  if (words.length < form.wordsMin) mistakes.push(`${command} needs the path of a journal`);
  for (const word of words.slice(form.wordsMax)) {
    mistakes.push(`${command} takes no ${quoted(word)}`);
  }

  // parseArgs takes a flag that follows for the value, and the last of two: neither is meant.
  const flags = new Map<string, string>();
  for (const token of tokens) {
    if (token.kind !== "option") continue;
    const { name: flag, rawName, value = "", inlineValue = false } = token;
    const isSwitch = switches.includes(flag);
    const hasValue = value !== "" && (inlineValue || !value.startsWith("-"));
    if (!form.flags.includes(flag)) {
      mistakes.push(`${command} has no option ${quoted(rawName)}: see --help`);
    } else if (isSwitch && inlineValue) {
      mistakes.push(`${rawName} takes no value`);
    } else if (!isSwitch && !hasValue) {
      mistakes.push(`${rawName} needs a value`);
    } else if (flags.has(flag)) {
      mistakes.push(`${rawName} stands twice`);
    }
    flags.set(flag, isSwitch ? "yes" : value);
  }
  return { command, words, flags, mistakes };
}
