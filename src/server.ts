#!/usr/bin/env node
/** The program's entry: the only file that knows the process, its streams, signals and exit
 * status. The rest is handed what it may use of them: see `program/host.ts`. */
import { ExitError, exitCodes, faultMessage } from "./program/exit.ts";
import type { Host } from "./program/host.ts";
import { run } from "./program/run.ts";

const { stdout, stderr } = process;

const host: Host = {
  args: process.argv.slice(2),
  environment: process.env,
  pid: process.pid,
  print: (line) => write(stdout, "stdout", line),
  printError: (line) => write(stderr, "stderr", line),
  warn: (message) => void stderr.write(`plant-store: ${message}\n`),
  stderr,
  nodeVersion: process.version,
  usage: () => ({ ...process.cpuUsage(), rss: process.memoryUsage.rss() }),
  onSignal: (signal, listener) => void process.on(signal, listener),
  exit: (code) => process.exit(code)
};

/** A reader that goes away, as in `| head -1`, has had what it wanted: that is no error. */
function write(
  stream: NodeJS.WriteStream,
  name: string,
  line: string
): Promise<void> {
  return new Promise((resolve, reject) => {
    stream.write(`${line}\n`, (error?: NodeJS.ErrnoException | null) => {
      if (!error || error.code === "EPIPE") resolve();
      else
        reject(new ExitError("io", `can't write to ${name}: ${error.message}`));
    });
  });
}

// Without a listener, what can't be written would end the server.
for (const stream of [stdout, stderr]) stream.on("error", () => undefined);

process.on("uncaughtException", (error) => {
  host.warn(faultMessage(error), "error");
  process.exit(exitCodes.fault);
});

// What never comes to its end is no success.
process.exitCode = exitCodes.fault;

// No top-level await: so that one file, CommonJS, can be made of the program.
void run(host).then((code) => {
  process.exitCode = code;

  // All that is for stdout has left; who does not read stderr does not hold up the end.
  setTimeout(() => process.exit(code), 1_000).unref();

  // A worker of node:cluster ends with its work, not with the channel to its primary.
  process.channel?.unref();
});
