#!/usr/bin/env node
/** The program: arguments, store, listen, drain.
 * The only file that knows the process: its signals, exit status, stdout and stderr. */
import { once } from "node:events";
import { ConfigError, readCommand, type Config } from "./command.ts";
import { environmentOf, limitTable, settingTable, tokenVariable } from "./config.ts";
import { BearerTokens, makeToken, tokenDigest } from "./http/bearer.ts";
import type { DrainableServer } from "./http/server.ts";
import { createPlantServer } from "./index.ts";
import { isLocked, openToRead, realDisk, removeAbandoned } from "./journal/disk.ts";
import { openJournal } from "./journal/journal.ts";
import { JournalError, readCopy } from "./journal/open.ts";
import { verifyJournal } from "./journal/verify.ts";
import { describeApi } from "./openapi.ts";
import { readTokensFile } from "./secrets.ts";

const exitCodes = { done: 0, data: 65, unavailable: 69, fault: 70, io: 74 }; // sysexits
const version = "1.0.0";
const print = (text: string): void => void process.stdout.write(`${text}\n`);
const warn = (text: string): void => void process.stderr.write(`plant-store: ${text}\n`);
const messageOf = (error: unknown): string => (error instanceof Error ? error.message : `${error}`);

// A reader that goes away, as in `| head -1`, does not end the server.
for (const stream of [process.stdout, process.stderr]) stream.on("error", () => undefined);
const onFault = (error: unknown): void => warn(`a fault of ours: ${messageOf(error)}`);
process.on("uncaughtException", (error) => {
  onFault(error);
  process.exit(exitCodes.fault);
});
process.exitCode = await run().catch(failed);

async function run(): Promise<number> {
  const command = readCommand(process.argv.slice(2), process.env);
  switch (command.command) {
    case "serve": return serve(command.config);
    case "verify": return verify(command.files, command.json);
    case "token": {
      // What goes into the tokens file goes to stdout, so that it can be appended.
      const made = makeToken();
      process.stderr.write(`${made}\n`);
      print(`${command.name} ${tokenDigest(made)}`);
      break;
    }
    case "openapi": print(JSON.stringify(describeApi(), undefined, 2)); break;
    case "help": print(help()); break;
    case "version": print(version); break;
  }
  return exitCodes.done;
}

/** Tells what went wrong; the exit status for it. */
function failed(error: unknown): number {
  for (const line of messageOf(error).split("\n")) warn(line);
  if (error instanceof ConfigError || error instanceof JournalError) return error.exitCode;
  return error instanceof Error && "errno" in error ? exitCodes.io : exitCodes.fault;
}

async function serve(config: Config): Promise<number> {
  const { store, limits, basePath, tokensFile } = config;
  process.on("SIGHUP", () => undefined); // not deadly while it starts
  const made = config.token === "" && tokensFile === "" ? makeToken() : "";
  const readTokens = (): readonly string[] =>
    [made, config.token, ...(tokensFile === "" ? [] : readTokensFile(tokensFile))].filter(Boolean);
  const tokens = new BearerTokens(readTokens());
  const journal = await openJournal(store, { limits, warn });
  const server = createPlantServer({ store: journal, tokens, basePath, limits, onFault });
  try {
    await listen(server, config);
  } catch (error) {
    warn(`can't listen: ${messageOf(error)}`);
    await journal.close();
    return exitCodes.unavailable;
  }
  server.on("error", (error) => warn(messageOf(error)));
  process.on("SIGHUP", () => {
    try {
      tokens.replace(readTokens());
    } catch (error) {
      warn(`${messageOf(error)}; the old tokens stay`);
    }
    journal.rotate().then(
      (isNew) => isNew && warn(`goes on in a new file at ${store}`),
      (error: unknown) => warn(`${messageOf(error)}; the old file stays in use`),
    );
  });
  let code: number = exitCodes.done;
  const ended = new Promise<unknown>((resolve) => {
    process.once("SIGTERM", resolve).once("SIGINT", resolve);
    journal.once("failed", (error) => {
      warn(error.message);
      code = error.exitCode;
      resolve(code);
    });
  });
  announce(server, config, made);
  await ended;
  for (const signal of ["SIGTERM", "SIGINT"]) {
    process.on(signal, () => process.exit(exitCodes.unavailable));
  }
  if (!await server.drain()) {
    warn(`requests were cut off after ${limits.drainMillis} ms`);
    process.exit(code || exitCodes.unavailable);
  }
  await journal.close();
  return code;
}

async function listen(server: DrainableServer, { socket, host, port }: Config): Promise<void> {
  if (socket !== "") await removeAbandoned(socket);
  server.listen(socket === "" ? { port, host } : { path: socket });
  await once(server, "listening");
}

function announce(server: DrainableServer, { host, socket, basePath }: Config, made: string): void {
  const address = server.address();
  const isIp = typeof address === "object" && address !== null;
  const name = host.includes(":") ? `[${host}]` : host;
  const base = isIp ? `http://${name}:${address.port}` : `unix:${socket}`;
  print(`plant-store listening on ${base}`);
  if (made === "") return;
  const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;
  const option = isIp ? "" : `--unix-socket ${quoted(socket)} `;
  const url = quoted(`${isIp ? base : "http://localhost"}${basePath}/plants`);
  print(`No token is configured: this one is made for now, and gone when this process ends.\n
  curl ${option}${url} -H 'Authorization: Bearer ${made}' \\
    -H 'Content-Type: application/json' -d '{"id":1,"name":"Fern","tag":"shade"}'\n`);
}

async function verify(paths: readonly string[], isJson: boolean): Promise<number> {
  let code: number = exitCodes.done;
  for (const path of paths) {
    try {
      if (!await verifyOne(path, isJson)) code = exitCodes.data;
    } catch (error) {
      code ||= failed(error); // the other files are read all the same
    }
  }
  return code;
}

async function verifyOne(path: string, isJson: boolean): Promise<boolean> {
  const { isFile = true, identity = "" } = realDisk.look(path) ?? {};
  if (!isFile) throw new JournalError("failed", path, "is no regular file");
  const file = openToRead(path);
  const isLive = await isLocked(path, identity);
  const copy = isLive ? undefined : readCopy(realDisk, realDisk.resolve(path));
  const onProgress = progressOf(path);
  const { spots, ...totals } = verifyJournal(file, { copy, isLive, onProgress });
  file.close();
  const ids = { idMin: totals.idMin?.toString(), idMax: totals.idMax?.toString() };
  if (isJson) print(JSON.stringify({ path, ...totals, ...ids, spots }));
  else {
    for (const [name, value = "-"] of Object.entries(totals)) print(`${path}: ${name} ${value}`);
    for (const { offset, line, reason } of spots) {
      print(`${path}: at offset ${offset}, line ${line}: ${reason}`);
    }
  }
  return spots.length === 0;
}

/** Draws on a terminal how far it is; nothing elsewhere. */
function progressOf(path: string): (read: number, all: number) => void {
  let drawn = "";
  return (read, all) => {
    const bar = read < all ? `${path} [${"#".repeat((25 * read) / all).padEnd(25, ".")}]` : "";
    if (process.stderr.isTTY && bar !== drawn) process.stderr.write(`\r${bar}\x1b[K`);
    drawn = bar;
  };
}

function help(): string {
  const settings = Object.entries(settingTable).map(([flag, setting]) =>
    [flag, setting.environment, setting.meaning, setting.standard || "none"] as const);
  const limits = Object.values(limitTable).map((limit) =>
    [limit.flag, environmentOf(limit), limit.reason, `${limit.standard} ${limit.unit}`] as const);
  const rows = [...settings, ...limits].map(([flag, variable, meaning, standard]) =>
    `  --${flag.padEnd(18)} ${variable.padEnd(25)} ${meaning} (${standard})`);
  return `plant-store ${version}: takes plants over HTTP and keeps them

  plant-store [serve] [options]   serve POST /plants; SIGTERM ends it, SIGHUP reads tokens anew
                                  and goes on in a new journal where the old one was renamed
  plant-store verify FILE...      check whole journals; --json for programs
  plant-store token [NAME]        make a token: itself on stderr, its tokens file's line on stdout
  plant-store openapi             print the OpenAPI description
  plant-store --help, --version

${rows.join("\n")}
  ${"".padEnd(20)} ${tokenVariable.padEnd(25)} one token itself: never a flag, for ps shows flags`;
}
