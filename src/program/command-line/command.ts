/** The command line: the command, its positionals and flags. All mistakes are reported at once. */
import { parseArgs } from "node:util";
import { limitTable } from "../../config.ts";
import { ExitError } from "../../failure.ts";
import type { Host } from "../host.ts";
import { isTokenName } from "../secrets.ts";
import { entries, hintFor, quoted, readConfig } from "../settings.ts";

/**
 * Reads `[serve] [options]`, `check [options]`, `verify FILE...`, `cat FILE...`, `token [NAME]`,
 * `openapi`. A setting that the command does not take has its default.
 *
 * @returns also the `refusal`, undefined without a mistake, with a line for each: `usage` if the
 * command line is wrong, or any mistake names a flag that is on it; else `config`
 */
export function readCommand(host: Pick<Host, "args" | "environment" | "pid">) {
  const mistakes: string[] = [];
  const line = readLine(host.args, mistakes);
  const isLineWrong = mistakes.length > 0;
  const config = readConfig({ ...host, ...line, mistakes });
  const message = mistakes.join("\n");
  const isUsage =
    isLineWrong ||
    [...line.flags.keys()].some((flag) => message.includes(`--${flag}`));
  const refusal =
    message === ""
      ? undefined
      : new ExitError(isUsage ? "usage" : "config", message);
  return { ...line, config, refusal };
}

const serveFlags = entries.map(({ flag }) => flag);

/** Flags of each command, and the least and the greatest number of positionals. */
const commands = new Map<
  string,
  readonly [flags: readonly string[], least: number, most: number]
>([
  ["serve", [serveFlags, 0, 0]],
  ["check", [serveFlags, 0, 0]],
  ["verify", [["json"], 1, Infinity]],
  ["cat", [["seq", "at"], 1, Infinity]],
  ["token", [[], 0, 1]],
  ["openapi", [[limitTable.keysBytesMax.flag], 0, 0]]
]);

/** The flags that have a value: parseArgs takes all others for switches. */
const options = Object.fromEntries(
  serveFlags
    .filter((flag) => flag !== "log-requests")
    .map((flag) => [flag, { type: "string" } as const])
);

/** Reads the line, and adds its mistakes. */
function readLine(args: readonly string[], mistakes: string[]) {
  // In strict mode parseArgs would throw at the first mistake.
  const { tokens, positionals } = parseArgs({
    args: [...args],
    options,
    strict: false,
    tokens: true
  });
  const [command = "serve", ...operands] = positionals;
  const [allowed] = commands.get(command) ?? [serveFlags];
  const known = [...allowed, "help", "version"].map((flag) => `--${flag}`);

  const flags = new Map<string, string>();
  let refusedAt = -1;
  for (const token of tokens) {
    if (token.kind !== "option") continue;
    const { name: flag, rawName, value, inlineValue } = token;
    const isSwitch = !options[flag];

    // parseArgs takes a flag that follows for the value.
    const isMissing = !value || (!inlineValue && value.startsWith("-"));
    if (!allowed.includes(flag)) {
      // Each letter after one dash is an option, and may be a secret's: the first is named.
      if (token.index !== refusedAt)
        mistakes.push(
          `there is no option ${quoted(rawName)} here: ${hintFor(rawName, known)}`
        );
      refusedAt = token.index;
    } else if (isSwitch && value !== undefined)
      mistakes.push(`${rawName} takes no value, found ${quoted(value)}`);
    else if (!isSwitch && isMissing)
      mistakes.push(`${rawName} needs a value, as in ${rawName}=VALUE`);
    else if (flags.has(flag)) mistakes.push(`${rawName} is given twice`);
    flags.set(flag, isSwitch ? "yes" : isMissing ? "" : value);
  }

  // After a mistake a word may be the value of a flag, and a secret.
  if (mistakes.length === 0) checkOperands(command, operands, mistakes);
  return { command, operands, flags, allowed };
}

/** Checks the positionals of a line whose flags are good. */
function checkOperands(
  command: string,
  operands: readonly string[],
  mistakes: string[]
) {
  const known = commands.get(command);
  if (!known) {
    const hint = hintFor(command, [...commands.keys()]);
    mistakes.push(`there is no command ${quoted(command)}: ${hint}`);
    return;
  }
  const [, least, most] = known;
  if (operands.length < least)
    mistakes.push(`${command} needs the path of a journal`);
  for (const extra of operands.slice(most))
    mistakes.push(`${command} takes no ${quoted(extra)}`);
  const [name = "token"] = operands;
  if (command === "token" && !isTokenName(name))
    mistakes.push(
      `expected a word without # as the name, found ${quoted(name)}`
    );
}
