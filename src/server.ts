#!/usr/bin/env node
/** The program: arguments, store, listen, drain.
 * The only file that knows the process: its signals, exit status, stdout and stderr. */
import { once } from "node:events";
import { readCommand, type Config } from "./program/command.ts";
import { environmentOf, limitTable, settingTable, tokenVariable } from "./config.ts";
import { ExitError, exitCodes } from "./program/exit.ts";
import { BearerTokens, makeToken, tokenDigest } from "./http/bearer.ts";
import type { DrainableServer } from "./http/server.ts";
import { createPlantServer } from "./index.ts";
import { isLocked, openToRead, realDisk, removeAbandoned } from "./journal/disk.ts";
import { openJournal } from "./journal/journal.ts";
import { JournalError } from "./journal/open.ts";
import { verifyJournal } from "./journal/verify.ts";
import { describeApi } from "./openapi.ts";
import { readTokensFile } from "./program/secrets.ts";

const version = "1.0.0";
/** npm repeats to its child the Ctrl-C that the terminal has sent to both. */
const sameWishMillis = 1_000;
/** Writes a line; rejects where stdout can't be written. */
const print = (text: string): Promise<void> => write(process.stdout, "stdout", text);
const warn = (text: string): void => void process.stderr.write(`plant-store: ${text}\n`);
const messageOf = (error: unknown): string => (error instanceof Error ? error.message : `${error}`);

// A reader that goes away, as in `| head -1`, does not end the server.
for (const stream of [process.stdout, process.stderr]) stream.on("error", () => undefined);
const onFault = (error: unknown): void => warn(`a fault of ours: ${messageOf(error)}`);
process.on("uncaughtException", (error) => {
  onFault(error);
  process.exit(exitCodes.fault);
});

/** A reader that goes away, as in `| head -1`, has had what it wanted: that is no error. */
function write(stream: NodeJS.WriteStream, name: string, text: string): Promise<void> {
  return new Promise((resolve, reject) => {
    stream.write(`${text}\n`, (error?: NodeJS.ErrnoException | null) => {
      if (!error || error.code === "EPIPE") resolve();
      else reject(new ExitError("io", `can't write to ${name}: ${error.message}`));
    });
  });
}

process.exitCode = await run().catch(failed);

async function run(): Promise<number> {
  const command = readCommand(process.argv.slice(2), process.env);
  switch (command.command) {
    case "serve": return serve(command.config);
    case "verify": return verify(command.files, command.json);
    case "token": {
      // What goes into the tokens file goes to stdout, so that it can be appended.
      const made = makeToken();
      await write(process.stderr, "stderr", made);
      await print(`${command.name} ${tokenDigest(made)}`);
      break;
    }
    case "openapi": await print(JSON.stringify(describeApi(), undefined, 2)); break;
    case "help": await print(help()); break;
    case "version": await print(version); break;
  }
  return exitCodes.done;
}

/** Tells what went wrong; the exit status for it. */
function failed(error: unknown): number {
  for (const line of messageOf(error).split("\n")) warn(line);
  if (error instanceof ExitError || error instanceof JournalError) return error.exitCode;
  return error instanceof Error && "errno" in error ? exitCodes.io : exitCodes.fault;
}

async function serve(config: Config): Promise<number> {
  const { limits } = config;
  let code: number = exitCodes.done;

  // No signal is lost from here on: what comes during the start is done when the start is.
  process.on("SIGHUP", () => void starting.then(({ reload }) => reload(), () => undefined));
  let end = (): void => undefined;
  const ended = new Promise<void>((resolve) => { end = resolve; });
  onEndSignal(end, () => process.exit(code || exitCodes.unavailable));
  const starting = start(config, (error) => {
    warn(error.message);
    code = error.exitCode;
    end();
  });

  const { server, journal, made } = await starting;
  // Where nobody can read it, it is served all the same.
  print(announcement(server, config, made)).catch((error: unknown) => warn(messageOf(error)));
  await ended;
  if (!await server.drain()) {
    warn(`requests were cut off after ${limits.drainMillis} ms`);
    process.exit(code || exitCodes.unavailable);
  }
  await journal.close();
  return code;
}

/** The first SIGTERM or SIGINT asks for the end; the same within a second is the same wish, the
 * other one or a later one is another. */
function onEndSignal(ask: () => void, insist: () => void): void {
  let first: { readonly signal: string; readonly at: number } | undefined;
  for (const signal of ["SIGTERM", "SIGINT"]) {
    process.on(signal, () => {
      const at = performance.now();
      if (!first) {
        first = { signal, at };
        ask();
      } else if (signal !== first.signal || at - first.at >= sameWishMillis) insist();
    });
  }
}

/** Reads the tokens, opens the journal, and listens. */
async function start(config: Config, onFailed: (error: JournalError) => void) {
  const { store, limits, basePath, tokensFile } = config;
  const made = config.token === "" && tokensFile === "" ? makeToken() : "";
  const told = new Set<string>();
  const warnOnce = (text: string): void => void (told.has(text) || (told.add(text), warn(text)));
  const readTokens = (): readonly string[] => {
    const ofFile = tokensFile === "" ? [] : readTokensFile(tokensFile, warnOnce);
    return [made, config.token, ...ofFile].filter(Boolean);
  };
  const tokens = new BearerTokens(readTokens());
  const journal = await openJournal(store, { limits, warn });
  journal.once("failed", onFailed);
  const server = createPlantServer({ store: journal, tokens, basePath, limits, onFault });
  try {
    await listen(server, config);
  } catch (error) {
    await journal.close();
    throw new ExitError("unavailable", `can't listen: ${messageOf(error)}`);
  }
  server.on("error", (error) => warn(messageOf(error)));
  const reload = (): void => {
    try {
      tokens.replace(readTokens());
    } catch (error) {
      warn(`${messageOf(error)}; the old tokens stay`);
    }
    journal.rotate().then(
      (isNew) => isNew && warn(`goes on in a new file at ${store}`),
      (error: unknown) => warn(`${messageOf(error)}; the old file stays in use`),
    );
  };
  return { server, journal, made, reload };
}

async function listen(server: DrainableServer, { socket, host, port }: Config): Promise<void> {
  if (socket !== "") await removeAbandoned(socket);
  server.listen(socket === "" ? { port, host } : { path: socket });
  await once(server, "listening");
}

/** The first line is what scripts rely on; behind it stands a token that was made. */
function announcement(server: DrainableServer, config: Config, made: string): string {
  const { host, socket, basePath } = config;
  const address = server.address();
  const isIp = typeof address === "object" && address !== null;
  const name = host.includes(":") ? `[${host}]` : host;
  const base = isIp ? `http://${name}:${address.port}` : `unix:${socket}`;
  const first = `plant-store listening on ${base}`;
  if (made === "") return first;
  const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;
  const option = isIp ? "" : `--unix-socket ${quoted(socket)} `;
  const url = quoted(`${isIp ? base : "http://localhost"}${basePath}/plants`);
  return `${first}
No token is configured: this one is made for now, and gone when this process ends.\n
  curl ${option}${url} -H 'Authorization: Bearer ${made}' \\
    -H 'Content-Type: application/json' -d '{"id":1,"name":"Fern","tag":"shade"}'\n`;
}

/** Damage in any of the files counts most, then the first that could not be read. */
async function verify(paths: readonly string[], isJson: boolean): Promise<number> {
  const codes: number[] = [];
  for (const path of paths) {
    // The other files are read all the same.
    const report = await reportOf(path).catch(failed);
    if (typeof report === "number") codes.push(report);
    else {
      await print(isJson ? forPrograms(path, report) : forPeople(path, report));
      if (report.spots.length > 0) codes.push(exitCodes.data);
    }
  }
  return codes.includes(exitCodes.data) ? exitCodes.data : codes[0] ?? exitCodes.done;
}

type Report = ReturnType<typeof verifyJournal>;

async function reportOf(path: string): Promise<Report> {
  const { isFile = true, identity = "" } = realDisk.look(path) ?? {};
  if (!isFile) throw new JournalError("unreadable", path, "is no regular file");
  const file = openToRead(path);
  try {
    return verifyJournal(file, await isLocked(path, identity), progressOf(path));
  } finally {
    file.close();
  }
}

function forPrograms(path: string, { spots, ...totals }: Report): string {
  const ids = { idMin: totals.idMin?.toString(), idMax: totals.idMax?.toString() };
  return JSON.stringify({ path, ...totals, ...ids, spots });
}

function forPeople(path: string, { spots, ...totals }: Report): string {
  return [
    ...Object.entries(totals).map(([name, value = "-"]) => `${name} ${value}`),
    ...spots.map(({ offset, line, reason }) => `at offset ${offset}, line ${line}: ${reason}`),
  ].map((text) => `${path}: ${text}`).join("\n");
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
