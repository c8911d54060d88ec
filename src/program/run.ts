/** Runs the command of the command line. */
import { version } from "../config.ts";
import { generateToken, tokenDigest } from "../http/bearer.ts";
import { describeApi } from "../openapi.ts";
import { exitCodes } from "../failure.ts";
import { cat } from "./journals/cat.ts";
import { readCommand } from "./command-line/command.ts";
import { reportError } from "./exit.ts";
import { help } from "./command-line/help.ts";
import type { Host } from "./host.ts";
import { check, serve } from "./serving/serve.ts";
import { verify } from "./journals/verify.ts";

/** Runs the command; resolves with the exit code. Never rejects: it reports every error. */
export async function run(host: Host) {
  // Without a listener, SIGUSR1 opens the debugger's port to the whole machine, and SIGUSR2 ends
  // the process.
  for (const signal of ["SIGUSR1", "SIGUSR2"] as const)
    host.onSignal(signal, () => undefined);
  const code = await runCommand(host).catch((error: unknown) =>
    reportError(error, host)
  );
  return typeof code === "number" ? code : exitCodes.done;
}

/** Resolves with the exit code, unless that is 0. */
async function runCommand(host: Host): Promise<unknown> {
  const { args } = host;
  const asksFor = (word: string) =>
    args[0] === word ||
    args.includes(`--${word}`) ||
    args.includes(`-${word[0]}`);
  if (asksFor("help"))
    return host.print(help(args.includes("all") ? "all" : "first"));
  if (asksFor("version")) return host.print(version);

  const { command, operands, flags, config, refusal } = readCommand(host);
  if (command === "check") return check(config, refusal, host);
  if (refusal) throw refusal;
  if (command === "serve") return serve(config, host);
  if (command === "verify") return verify(operands, flags.has("json"), host);
  if (command === "cat") return cat(operands, flags, host);
  if (command === "token") return printToken(operands, host);
  return host.print(JSON.stringify(describeApi(config.limits), undefined, 2));
}

/**
 * Prints the line of a new token to stdout, so that it can be appended to a tokens file. The token
 * comes first: no line is printed for a token that nobody can have seen. On a terminal each has a
 * label.
 */
async function printToken([name = "token"]: readonly string[], host: Host) {
  const token = generateToken();
  if (host.stderr.isTTY) await host.printError("the token, shown only now:");
  await host.printError(token);
  if (host.isTerminal) await host.print("its line for a tokens file:");
  await host.print(`${name} ${tokenDigest(token)}`);
}
