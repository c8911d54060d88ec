/** The commands: what each takes, its line of the help, and what it does. */
import { parseArgs } from "node:util";
import { version } from "../config.ts";
import { ExitError, exitCodes, messageOf } from "../failure.ts";
import { generateToken, tokenDigest } from "../http/bearer.ts";
import { describeApi } from "../openapi.ts";
import { reportError } from "./exit.ts";
import type { Host } from "./host.ts";
import { cat } from "./journals/cat.ts";
import { verify } from "./journals/verify.ts";
import { check, serve } from "./serving/serve.ts";
import { entries, readConfig, tokenVariable } from "./settings.ts";

interface Command {
  readonly meaning: string;
  readonly flags?: readonly string[];
  readonly operands?: "FILE..." | "[NAME]";

  /** Resolves with the exit code, unless that is 0. */
  run(line: Line, host: Host): unknown;
}

type Line = ReturnType<typeof parse>;

const serveFlags = entries.map(({ flag }) => flag);

const commands: ReadonlyMap<string, Command> = new Map(
  Object.entries<Command>({
    serve: {
      meaning:
        "serve POST /plants; SIGTERM ends it; SIGHUP reloads tokens and certificate, and begins " +
        "a new journal if the old one was renamed",
      flags: serveFlags,
      run: ({ flags }, host) => serve(readConfig(flags, host), host)
    },
    check: {
      meaning:
        "check the settings of serve, secret files and paths; open no store or port",
      flags: serveFlags,
      run: ({ flags }, host) => check(readConfig(flags, host), host)
    },
    verify: {
      meaning: "check whole journals; --json for programs",
      flags: ["json"],
      operands: "FILE...",
      run: ({ operands, flags }, host) =>
        verify(operands, "json" in flags, host)
    },
    cat: {
      meaning:
        "print each plant as a line of JSON; --seq and --at add its number and time",
      flags: ["seq", "at"],
      operands: "FILE...",
      run: ({ operands, flags }, host) => cat(operands, flags, host)
    },
    token: {
      meaning:
        "generate a token: the token on stderr, its line for a tokens file on stdout",
      operands: "[NAME]",
      run: ({ operands }, host) => printToken(operands, host)
    },
    openapi: {
      meaning: "print the OpenAPI description of serve with these options",
      flags: serveFlags,
      run({ flags }, host) {
        const { limits } = readConfig(flags, host);
        return host.print(JSON.stringify(describeApi(limits), undefined, 2));
      }
    },
    help: {
      meaning: "print this; also --help, -h",
      run: (_, host) => host.print(help())
    },
    version: {
      meaning: "print the version; also --version, -v",
      run: (_, host) => host.print(version)
    }
  })
);

/** Runs the command; resolves with the exit code. Never rejects: it reports every error. */
export async function run(host: Host) {
  // Without a listener, SIGUSR1 opens the debugger's port to the whole machine, and SIGUSR2 ends
  // the process.
  for (const signal of ["SIGUSR1", "SIGUSR2"] as const)
    host.onSignal(signal, () => undefined);
  try {
    const { command, ...line } = readLine(host.args);
    const code = await command.run(line, host);
    return typeof code === "number" ? code : exitCodes.done;
  } catch (error) {
    return reportError(error, host);
  }
}

/**
 * Reads `[COMMAND] [options] [operands]`.
 *
 * @throws ExitError with Node's message, which names an option and repeats no value; a message about
 * another word does not repeat it: it may be the value of a flag that was left out, and a secret
 */
function readLine(args: readonly string[]) {
  const [first = "serve", ...others] = args;
  const isNamed = !first.startsWith("-");
  const name = isNamed ? first : "serve";
  const command = commandOf(name);
  const { flags, operands } = parse(isNamed ? others : args, command);
  for (const word of ["help", "version"])
    if (word in flags) return { command: commandOf(word), flags, operands };

  const isFit =
    command.operands === "FILE..."
      ? operands.length > 0
      : operands.length <= (command.operands ? 1 : 0);
  if (!isFit)
    throw new ExitError("usage", `expected ${usageOf(name, command)}`);
  return { command, flags, operands };
}

function commandOf(name: string) {
  const command = commands.get(name);
  if (command) return command;
  const names = [...commands.keys()].join(", ");
  throw new ExitError("usage", `expected one of the commands ${names}`);
}

/** The flags without a value of some command. */
const switches = new Set(["log-requests", "json", "seq", "at"]);

function parse(args: readonly string[], { flags = [] }: Command) {
  const typeOf = (flag: string) => (switches.has(flag) ? "boolean" : "string");
  const options = {
    ...Object.fromEntries(flags.map((flag) => [flag, { type: typeOf(flag) }])),
    help: { type: "boolean", short: "h" },
    version: { type: "boolean", short: "v" }
  } as const;
  try {
    const { values, positionals } = parseArgs({
      args: [...args],
      options,
      allowPositionals: true
    });
    return { flags: values, operands: positionals };
  } catch (error) {
    throw new ExitError("usage", messageOf(error));
  }
}

const usageOf = (name: string, { flags, operands }: Command) =>
  ["plant-store", name, flags && "[options]", operands]
    .filter(Boolean)
    .join(" ");

/** Returns the table of commands, and every setting. */
function help() {
  const usages = Array.from(commands, ([name, command]) =>
    lineOf(usageOf(name, command), command.meaning)
  );
  const settings = entries.map(({ flag, meaning, defaultValue, ...entry }) => {
    const variable = "environment" in entry ? `, ${entry.environment}` : "";
    const value = defaultValue === "" ? "" : ` (${defaultValue})`;
    return lineOf(`--${flag}${variable}`, meaning + value);
  });
  return `plant-store ${version}: takes plants over HTTP and keeps them

${usages.join("\n")}

Options of serve, with their defaults. An option without a variable beside it has one like
PLANTS_MAX_BODY for --max-body.

${settings.join("\n")}
${lineOf(tokenVariable, "one token itself; no flag, because ps shows flags")}`;
}

const lineOf = (name: string, meaning: string) =>
  `  ${name.padEnd(38)} ${meaning}`;

/**
 * Prints the line of a new token to stdout, so that it can be appended to a tokens file. The token
 * comes first: no line is printed for a token that nobody can have seen.
 */
async function printToken([name = "token"]: readonly string[], host: Host) {
  if (!/^[^\s#]\S*$/.test(name))
    throw new ExitError(
      "usage",
      "the name must be a word without # at its start"
    );
  const token = generateToken();
  await host.printError(token);
  await host.print(`${name} ${tokenDigest(token)}`);
}
