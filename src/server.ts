#!/usr/bin/env node
/**
 * The entry point of the program: the only file that has the process, its streams, its signals and
 * its exit status. The other files get what they may use of these: see `program/host.ts`.
 */
import { closeSync } from "node:fs";
import { isatty } from "node:tty";
import type { Host } from "./program/host.ts";

// A SIGHUP before `serve` listens to it would end the process: so this file listens before it imports
// another one. Nothing is lost, because the start reads all files later. Other commands end, as at a
// closed terminal.
const [, , command = "serve"] = process.argv;
if (command === "serve" || command.startsWith("-"))
  process.on("SIGHUP", () => undefined);

const { cpuUsage, exit, memoryUsage, pid, stderr, stdout, version } = process;

/** The standard streams that are terminals: none under nohup. */
const terminals = [0, 1, 2].filter(isatty);
const closedTerminals = () => terminals.filter((fd) => !isatty(fd));

const host: Host = {
  args: process.argv.slice(2),
  environment: process.env,
  pid,
  version,
  cpuUsage,
  memoryUsage,
  exit,
  isHungUp: () => closedTerminals().length > 0,
  stdin: () => process.stdin,
  print: (line) => write("stdout", line),
  printError: (line) => write("stderr", line),
  log: () => undefined,
  logged: new Set(),
  stderr,
  onSignal: (signal, listener) => void process.on(signal, listener)
};

/**
 * Writes a line in two parts. If a file takes a part of the bytes only, as on a full disk, Node
 * does not report it. Then the line feed, which comes second, fails. A closed pipe is no failure of
 * stdout: its reader, as `head`, has read enough.
 */
function write(name: "stdout" | "stderr", line: string) {
  const stream = process[name];
  return new Promise<"written" | "closed">((resolve, reject) => {
    // Corking sends both parts of the line to a pipe in one write.
    stream.cork();
    stream.write(line);
    stream.write("\n", (error?: NodeJS.ErrnoException | null) => {
      if (!error) resolve("written");
      else if (name === "stdout" && error.code === "EPIPE") resolve("closed");
      else {
        error.message = `cannot write to ${name}: ${error.message}`;
        reject(error);
      }
    });
    stream.uncork();
  });
}

// Without a listener, a line that cannot be written would end the server.
for (const stream of [stdout, stderr]) stream.on("error", () => undefined);

// Node 20 aborts at its end if it cannot restore a terminal. Nothing is written or opened after this.
process.on("exit", () => closedTerminals().forEach(closeSync));

void start();

/** Loads the other files and runs them: an older Node lacks a function that some of them import. */
async function start() {
  const { exitCodes } = await import("./failure.ts");
  const { internalErrorMessage, printable } = await import("./program/exit.ts");
  host.log = (_, message) =>
    void stderr.write(`plant-store: ${printable(message)}\n`);
  const { node } = process.versions;
  const [major = 0, minor = 0] = node.split(".").map(Number);
  if (major < 20 || (major === 20 && minor < 19)) {
    host.log("error", `this is Node ${node}; expected 20.19 or later`);
    process.exitCode = exitCodes.config;
    return;
  }

  // A program that runs out of work before `run` resolves has not succeeded.
  process.exitCode = exitCodes.internal;
  process.on("uncaughtException", (error) => {
    host.log("error", internalErrorMessage(error));
    exit(exitCodes.internal);
  });

  const { run } = await import("./program/run.ts");
  const code = await run(host);
  process.exitCode = code;

  // All output for stdout is written. Neither a reader that does not read stderr, nor the channel
  // of a worker of node:cluster to its primary, delays the end any longer.
  setTimeout(() => exit(code), 1_000).unref();
}
