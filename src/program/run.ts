/** Runs the command of the command line. */
import { generateToken, tokenDigest } from "../http/bearer.ts";
import { describeApi } from "../openapi.ts";
import { cat } from "./cat.ts";
import { readCommand } from "./command.ts";
import { exitCodes, reportError } from "./exit.ts";
import { help, version } from "./help.ts";
import type { Host } from "./host.ts";
import { serve } from "./serve.ts";
import { verify } from "./report.ts";

/** Runs the command; resolves with the exit code. Never rejects: it reports every error. */
export async function run(host: Host) {
  // Without a listener, SIGUSR1 opens the debugger's port to the whole machine, and SIGUSR2 ends
  // the process.
  for (const signal of ["SIGUSR1", "SIGUSR2"] as const)
    host.onSignal(signal, () => undefined);
  try {
    const command = readCommand(host);
    if (command.command === "serve") return await serve(command.config, host);
    if (command.command === "verify") return await verify(command, host);
    if (command.command === "cat") return await cat(command, host);
    if (command.command === "import" || command.command === "export")
      return await (await import("./transfer.ts")).transfer(command, host);
    if (command.command === "token") await printToken(command.name, host);
    else if (command.command === "openapi")
      await host.print(JSON.stringify(describeApi(command), undefined, 2));
    else await host.print(texts[command.command]());
    return exitCodes.done;
  } catch (error) {
    return reportError(error, host);
  }
}

/**
 * Prints the line of a new token to stdout, so that it can be appended to a tokens file. The token
 * comes first: no line is printed for a token that nobody can have seen. On a terminal each has a
 * label.
 */
async function printToken(name: string, host: Host) {
  const token = generateToken();
  if (host.stderr.isTTY) await host.printError("the token, shown only now:");
  await host.printError(token);
  if (host.isTerminal) await host.print("its line for a tokens file:");
  await host.print(`${name} ${tokenDigest(token)}`);
}

/** Texts of the commands that only print. */
const texts = {
  help,
  version: () => version
};
