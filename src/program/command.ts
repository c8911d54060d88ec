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
export function readCommand(host: Pick<Host, "args" | "environment" | "pid">) {
  const mistakes: string[] = [];
  const line = readLine(host.args, mistakes);
  const isLineWrong = mistakes.length > 0;
  const config = readConfig({ ...host, ...line, mistakes });
  if (mistakes.length === 0) return { ...line, config };
  const message = mistakes.join("\n");
  const isUsage =
    isLineWrong ||
    [...line.flags.keys()].some((flag) => message.includes(`--${flag}`));
  throw new ExitError(isUsage ? "usage" : "config", message);
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

/** Flags with a value. */
const valued = serveFlags.filter((flag) => flag !== "log-requests");

/** Flags without a value, which a file may follow. */
const switches = ["json", "seq", "at"];

/** A flag as it is on the line. */
interface Flag {
  readonly name: string;
  readonly rawName: string;

  /** Its place on the line. */
  readonly index: number;
  value: string | undefined;
}

/** Reads the line, and adds its mistakes. */
function readLine(args: readonly string[], mistakes: string[]) {
  const { words, given } = split(args);
  const [command = "serve", ...operands] = words;
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

  // The value of a flag that lacks one is empty.
  const flags = new Map<string, string>();
  const known = [...allowed, "help", "version"].map((flag) => `--${flag}`);
  for (const { name: flag, rawName, value } of given) {
    const isValued = valued.includes(flag);
    if (!allowed.includes(flag))
      mistakes.push(
        `${command} has no option ${quoted(rawName)}: ${hintFor(rawName, known)}`
      );
    else if (!isValued && value !== undefined)
      mistakes.push(`${rawName} takes no value, found ${quoted(value)}`);
    else if (isValued && !value) mistakes.push(`${rawName} needs a value`);
    else if (flags.has(flag)) mistakes.push(`${rawName} is given twice`);
    flags.set(flag, isValued ? (value ?? "") : "yes");
  }
  return { command, operands, flags, allowed };
}

/**
 * Splits the line into flags, with their values, and other words.
 *
 * A word after a flag that is unknown, or has no value, is reported as its value: it is no mistake
 * of its own. The name of a command is never taken for such a value.
 */
function split(args: readonly string[]) {
  const words: string[] = [];
  const given: Flag[] = [];

  // In strict mode parseArgs would throw at the first mistake.
  const { tokens } = parseArgs({
    args: [...args],
    strict: false,
    tokens: true
  });
  for (const token of tokens) {
    const last = given.at(-1);

    // Several letters after one dash are one flag: the first alone is reported.
    if (token.kind === "option" && token.index !== last?.index)
      given.push(token);
    if (token.kind !== "positional") continue;
    const { index, value } = token;
    const isValue =
      last?.index === index - 1 &&
      last.value === undefined &&
      !switches.includes(last.name) &&
      (valued.includes(last.name) || !forms.has(value));
    if (isValue) last.value = value;
    else words.push(value);
  }
  return { words, given };
}
