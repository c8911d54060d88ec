/** The command line: the command, its positionals and flags. All mistakes are reported at once. */
import { parseArgs } from "node:util";
import { limitTable } from "../config.ts";
import { ExitError } from "./exit.ts";
import type { Host } from "./host.ts";
import { isTokenName } from "./secrets.ts";
import { entries, hintFor, quoted, readConfig } from "./settings.ts";

/**
 * Reads `[serve] [options]`, `verify FILE...`, `cat FILE...`, `import FILE...`, `export FILE`,
 * `token [NAME]`, `openapi`. A setting that the command does not take has its default.
 *
 * @throws ExitError with a line for each mistake: `usage` if the command line is wrong, or any
 *   mistake names a flag that is on it; else `config`
 */
export function readCommand({
  args,
  environment,
  pid
}: Pick<Host, "args" | "environment" | "pid">) {
  const mistakes: string[] = [];
  const line = readLine(args, mistakes);
  const isLineWrong = mistakes.length > 0;
  const config = readConfig({ ...line, environment, pid, mistakes });
  if (mistakes.length === 0) return { ...line, config };
  const given = [...line.flags.keys()].map((flag) => `--${flag}`);
  const isUsage =
    isLineWrong ||
    mistakes.some((mistake) => given.some((flag) => mistake.includes(flag)));
  throw new ExitError(isUsage ? "usage" : "config", mistakes.join("\n"));
}

const serveFlags = entries.map(({ flag }) => flag);
const storeFlags = serveFlags.filter((flag) => flag.startsWith("store"));

/** Flags of each command, and the least and the greatest number of positionals. */
const forms = new Map<string, readonly [readonly string[], number, number]>([
  ["serve", [serveFlags, 0, 0]],
  ["verify", [["json"], 1, Infinity]],
  ["cat", [["seq", "at"], 1, Infinity]],
  ["import", [storeFlags, 1, Infinity]],
  ["export", [storeFlags, 1, 1]],
  ["token", [[], 0, 1]],
  ["openapi", [[limitTable.keysBytesMax.flag], 0, 0]]
]);

/** Flags without a value. */
const switches = ["json", "seq", "at", "log-requests"];

const options = Object.fromEntries(
  [...serveFlags, ...switches].map(
    (flag) =>
      [flag, { type: switches.includes(flag) ? "boolean" : "string" }] as const
  )
);

type Tokens = ReturnType<typeof tokensOf>;

/** Parses without strict mode, in which parseArgs would throw at the first mistake. */
const tokensOf = (args: readonly string[]) =>
  parseArgs({ args: [...args], options, strict: false, tokens: true }).tokens;

/** Reads the line, and adds its mistakes. */
function readLine(args: readonly string[], mistakes: string[]) {
  const tokens = tokensOf(args);
  const [command = "serve", ...operands] = positionalsOf(tokens);
  const form = forms.get(command);
  if (!form) {
    const hint = hintFor(command, [...forms.keys()]);
    mistakes.push(`there is no command ${quoted(command)}: ${hint}`);
  }

  // After an unknown command, positionals and serve's flags are no mistakes of their own.
  const [allowed, least, most] = form ?? [serveFlags, 0, Infinity];
  if (operands.length < least)
    mistakes.push(`${command} needs the path of a journal`);
  for (const extra of operands.slice(most))
    mistakes.push(`${command} takes no ${quoted(extra)}`);
  const [name = "token"] = operands;
  if (command === "token" && !isTokenName(name))
    mistakes.push(
      `expected a word without # as the name, found ${quoted(name)}`
    );
  const flags = readFlags(tokens, command, allowed, mistakes);
  if (!form) throw new ExitError("usage", mistakes.join("\n"));
  return { command, operands, flags, allowed };
}

/** Returns the flags' values, and adds their mistakes; the value of a flag without one is empty. */
function readFlags(
  tokens: Tokens,
  command: string,
  allowed: readonly string[],
  mistakes: string[]
) {
  const flags = new Map<string, string>();
  const known = [...allowed, "help", "version"].map((flag) => `--${flag}`);
  for (const [position, token] of tokens.entries()) {
    // Several letters after one dash are one flag: the first alone is reported.
    const isSame = token.index === tokens[position - 1]?.index;
    if (token.kind !== "option" || isSame) continue;
    const { name, rawName, value, inlineValue = false } = token;
    const isSwitch = switches.includes(name);

    // parseArgs takes a flag that follows for the value.
    const lacksValue =
      !isSwitch && (!value || (!inlineValue && value.startsWith("-")));
    if (!allowed.includes(name))
      mistakes.push(
        `${command} has no option ${quoted(rawName)}: ${hintFor(rawName, known)}`
      );
    else if (isSwitch && inlineValue)
      mistakes.push(`${rawName} takes no value`);
    else if (lacksValue) mistakes.push(`${rawName} needs a value`);
    else if (flags.has(name)) mistakes.push(`${rawName} is given twice`);
    flags.set(name, lacksValue ? "" : (value ?? "yes"));
  }
  return flags;
}

/**
 * Returns the words that are not values. A word after an unknown flag, or after a flag that lacks
 * its value, is taken for that value: it is no mistake of its own. The name of a command is never
 * taken for a value.
 */
const positionalsOf = (tokens: Tokens) =>
  tokens.flatMap((token, position) => {
    const before = tokens[position - 1];
    const isValue =
      before?.kind === "option" &&
      (!Object.hasOwn(options, before.name) || before.value?.startsWith("-"));
    return token.kind === "positional" && (!isValue || forms.has(token.value))
      ? [token.value]
      : [];
  });
