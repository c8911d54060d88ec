/** Which command is run, and the exit code that comes of it. */
import { makeToken, tokenDigest } from "../http/bearer.ts";
import { describeApi } from "../openapi.ts";
import { readCommand } from "./command.ts";
import { exitCodes, tell } from "./exit.ts";
import { help, version } from "./help.ts";
import type { Host } from "./host.ts";
import { serve } from "./serve.ts";
import { verify } from "./report.ts";

/** Runs what the command line says; the exit code. It never rejects: what goes wrong is told. */
export async function run(host: Host): Promise<number> {
  // Unheard, the first opens the debugger's port to all of the machine, and the second is deadly.
  for (const signal of ["SIGUSR1", "SIGUSR2"] as const)
    host.onSignal(signal, () => undefined);
  try {
    const command = readCommand(host);
    if (command.command === "serve") return await serve(command.config, host);
    if (command.command === "verify") return await verify(command, host);
    if (command.command === "import" || command.command === "export") {
      return await (await import("./transfer.ts")).transfer(command, host);
    }
    if (command.command === "token") {
      // What goes into the tokens file goes to stdout, so that it can be appended. The token is
      // shown before: no line is made for one that nobody has seen.
      const made = makeToken();
      await host.printError(made);
      await host.print(`${command.name} ${tokenDigest(made)}`);
    } else await host.print(texts[command.command]());

    // Only what was printed is done: an answer that did not leave is no success.
    return exitCodes.done;
  } catch (error) {
    return tell(error, host);
  }
}

/** The commands that print, and do no more. */
const texts = {
  openapi: () => JSON.stringify(describeApi(), undefined, 2),
  help,
  version: () => version
};
