#!/usr/bin/env node
/**
 * The entry point of the program: the only file that has the process, its streams, its signals and
 * its exit status. The other files get what they may use of these: see `program/host.ts`.
 */
import { ExitError, exitCodes, internalErrorMessage } from "./program/exit.ts";
import type { Host } from "./program/host.ts";
import { run } from "./program/run.ts";

const { stdout, stderr } = process;

const host: Host = {
  args: process.argv.slice(2),
  environment: process.env,
  pid: process.pid,
  userId: process.geteuid?.(),
  print: (line) =>
    write(stdout, line).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== "EPIPE") throw unwritable("stdout", error);
    }),
  printError: (line) =>
    write(stderr, line).catch((error: NodeJS.ErrnoException) => {
      throw unwritable("stderr", error);
    }),
  warn: (message) => void stderr.write(`plant-store: ${message}\n`),
  stderr,
  nodeVersion: process.version,
  openFilesMax,
  cpuUsage: () => process.cpuUsage(),
  residentBytes: () => process.memoryUsage.rss(),
  onSignal: (signal, listener) => void process.on(signal, listener),
  exit: (code) => process.exit(code)
};

/**
 * Writes a line in two parts. Node does not report that a file took a part of the bytes only, as
 * on a full disk: then the line feed, which comes second, fails.
 */
function write(stream: NodeJS.WriteStream, line: string): Promise<void> {
  return new Promise((resolve, reject) => {
    stream.write(line);
    stream.write("\n", (error) => (error ? reject(error) : resolve()));
  });
}

const unwritable = (name: string, { message }: Error): ExitError =>
  new ExitError("io", `cannot write to ${name}: ${message}`);

/**
 * Reads the limit from a diagnostic report, which takes some milliseconds: Node has no other way.
 * Nothing else of the report is kept. Called before the first connection, so that the report has no
 * address to look up.
 */
function openFilesMax(): number {
  const { userLimits } = process.report.getReport() as {
    readonly userLimits?: { readonly open_files: { readonly hard: unknown } };
  };
  return Number(userLimits?.open_files.hard);
}

// Without a listener, a line that cannot be written would end the server.
for (const stream of [stdout, stderr]) stream.on("error", () => undefined);

process.on("uncaughtException", (error) => {
  host.warn(internalErrorMessage(error), "error");
  process.exit(exitCodes.internal);
});

// A program that runs out of work before `run` resolves has not succeeded.
process.exitCode = exitCodes.internal;

// Not awaited at the top level: the program can then be bundled as one CommonJS file.
void run(host).then((code) => {
  process.exitCode = code;

  // Everything for stdout is written. A reader that does not read stderr delays the end no longer.
  setTimeout(() => process.exit(code), 1_000).unref();

  // Ends a worker of node:cluster too, whose channel to its primary is still open.
  process.channel?.unref();
});
