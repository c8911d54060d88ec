/**
 * The command line: which command, with which words and flags.
 *
 * All that is wrong is told at once: so nothing is thrown before the end.
 */
import { parseArgs } from "node:util";
import { ExitError } from "./exit.ts";
import type { Host } from "./host.ts";
import { isTokenName } from "./secrets.ts";
import {
  entries,
  hintFor,
  isAddress,
  quoted,
  readConfig,
  settingTable,
  textOf,
  type Config
} from "./settings.ts";
import { isStream } from "./open-store.ts";

export type Command =
  | { readonly command: "serve"; readonly config: Config }
  | {
      readonly command: "verify";
      readonly files: readonly string[];
      readonly format: Format;
    }
  | {
      readonly command: "import" | "export";
      readonly files: readonly string[];
      readonly store: string;
    }
  | { readonly command: "token"; readonly name: string }
  | { readonly command: "openapi" | "help" | "version" };

type Format = "text" | "json";

/** How the program was called; `pid` is its own number. */
export type Invocation = Pick<Host, "args" | "environment" | "pid">;

/**
 * Reads `[serve] [options]`, `verify FILE...`, `import FILE...`, `export FILE`,
 * `token [NAME]`, `openapi`, `--help`, `--version`.
 *
 * A flag wins over its environment variable; an empty one counts as none.
 *
 * @throws ExitError that tells all mistakes, the line's first: one of them makes the end `usage`
 */
export function readCommand({ args, environment, pid }: Invocation): Command {
  if (args.includes("--help") || args.includes("-h"))
    return { command: "help" };
  if (args.includes("--version")) return { command: "version" };

  const { command, words, flags, mistakes } = readLine(args);
  const given = { flags, environment, pid, mistakes };
  // What is wrong with serve's settings is told together with what is wrong with its line.
  const config = command === "serve" ? readConfig(given) : undefined;

  const [name = "token"] = words;
  if (command === "token" && !isTokenName(name)) {
    mistakes.usage.push(
      `a token's name must be a word without # in front, found ${quoted(name)}`
    );
  }
  const store = textOf(settingTable.store, given) ?? "";
  const isMove = command === "import" || command === "export";
  if (isMove && !isStream(store)) {
    mistakes.usage.push(
      `${command} needs --store nats://HOSTS/STREAM or tls://, or PLANTS_STORE`
    );
  }
  const all = [...mistakes.usage, ...mistakes.config];
  if (all.length > 0)
    throw new ExitError(mistakes.usage[0] ? "usage" : "config", all.join("\n"));

  if (config) return { command: "serve", config };
  if (isMove) return { command, files: words, store };
  const format = flags.has("json") ? "json" : "text";
  if (command === "verify") return { command, files: words, format };
  return command === "token" ? { command, name } : { command: "openapi" };
}

const serveFlags = entries.map(({ flag }) => flag);

/** What may stand behind a command: flags by their names, and how many words. */
const forms = new Map<
  string,
  { flags: readonly string[]; wordsMin: number; wordsMax: number }
>([
  ["serve", { flags: serveFlags, wordsMin: 0, wordsMax: 0 }],
  ["verify", { flags: ["json"], wordsMin: 1, wordsMax: Infinity }],
  ["import", { flags: ["store"], wordsMin: 1, wordsMax: Infinity }],
  ["export", { flags: ["store"], wordsMin: 1, wordsMax: 1 }],
  ["token", { flags: [], wordsMin: 0, wordsMax: 1 }],
  ["openapi", { flags: [], wordsMin: 0, wordsMax: 0 }]
]);

/** Where the command is none, its flags and words are not to blame. */
const unknownForm = { flags: serveFlags, wordsMin: 0, wordsMax: Infinity };

/** They have no value on the command line. */
const switches = ["json", "log-requests"];

/** parseArgs is told which flags have a value; what is wrong is found here, and all at once. */
const options = Object.fromEntries(
  [...serveFlags, ...switches].map(
    (flag) =>
      [flag, { type: switches.includes(flag) ? "boolean" : "string" }] as const
  )
);

function readLine(args: readonly string[]) {
  // Not strict: its own errors tell the first mistake only, and in words of their own.
  const { tokens } = parseArgs({
    args: [...args],
    options,
    strict: false,
    tokens: true
  });

  // What follows a flag that does not exist, or that was taken for the value of one before it, is
  // taken for its value: that is not to blame.
  const [command = "serve", ...words] = tokens.flatMap((token, place) => {
    const before = tokens[place - 1];
    const isValue =
      before?.kind === "option" &&
      (!Object.hasOwn(options, before.name) || before.value?.startsWith("-"));
    return token.kind === "positional" && (!isValue || forms.has(token.value))
      ? [token.value]
      : [];
  });

  // Words that are missing, or too many, or that hold a password where a path is shown.
  const usage: string[] = [];
  const form = forms.get(command) ?? unknownForm;
  if (form === unknownForm) {
    usage.push(
      `there is no command ${quoted(command)}: ${hintFor(command, [...forms.keys()])}`
    );
  }
  if (words.length < form.wordsMin)
    usage.push(`${command} needs the path of a journal`);
  for (const word of command === "token" ? [] : words.filter(isAddress)) {
    usage.push(`${command} takes no address, found ${quoted(word)}`);
  }
  for (const word of words.slice(form.wordsMax))
    usage.push(`${command} takes no ${quoted(word)}`);

  // parseArgs takes a flag that follows for the value, and the last of two: neither is meant.
  const known = [...form.flags, "help", "version"].map((flag) => `--${flag}`);
  const flags = new Map<string, string>();
  // Of letters behind one dash, which may be a password's, the first alone is told.
  const given = tokens
    .filter((token) => token.kind === "option")
    .filter(({ index }, place, all) => index !== all[place - 1]?.index);
  for (const {
    name: flag,
    rawName,
    value = "",
    inlineValue = false
  } of given) {
    const isSwitch = switches.includes(flag);
    const hasValue = value !== "" && (inlineValue || !value.startsWith("-"));
    if (!form.flags.includes(flag)) {
      usage.push(
        `${command} has no option ${quoted(rawName)}: ${hintFor(rawName, known)}`
      );
    } else if (isSwitch && inlineValue) {
      usage.push(`${rawName} takes no value`);
    } else if (!isSwitch && !hasValue) {
      usage.push(`${rawName} needs a value`);
    } else if (flags.has(flag)) {
      usage.push(`${rawName} stands twice`);
    }
    flags.set(flag, isSwitch ? "yes" : value);
  }
  return {
    command,
    words,
    flags,
    mistakes: { usage, config: new Array<string>() }
  };
}
