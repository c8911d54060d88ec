#!/usr/bin/env node
/**
 * The program: arguments, store, listen, drain.
 *
 * The only file that knows the process: its signals, exit status, stdout and stderr.
 */
import { fileURLToPath } from "node:url";
import { ConfigError, readCommand } from "./command.ts";
import type { Config } from "./command.ts";
import { environmentOf, limitTable, settingTable, tokenVariable } from "./config.ts";
import { BearerTokens, makeToken, tokenDigest } from "./http/bearer.ts";
import { isSocketAbandoned } from "./http/server.ts";
import type { DrainableServer } from "./http/server.ts";
import { createPlantServer } from "./index.ts";
import { openToRead, realDisk } from "./journal/disk.ts";
import { openJournal } from "./journal/journal.ts";
import type { Journal } from "./journal/journal.ts";
import { JournalError } from "./journal/open.ts";
import { verifyJournal } from "./journal/verify.ts";
import type { Report } from "./journal/verify.ts";
import { describeApi } from "./openapi.ts";
import { readTokensFile } from "./secrets.ts";

/** sysexits */
const exitCodes = { done: 0, data: 65, unavailable: 69, fault: 70, ioError: 74, config: 78 } as const;
export const version = "1.0.0";

const print = (text: string): void => void process.stdout.write(`${text}\n`);
const warn = (text: string): void => void process.stderr.write(`plant-store: ${text}\n`);
const messageOf = (error: unknown): string => error instanceof Error ? error.message : String(error);

// A reader that goes away, as in `| head -1`, does not end the server.
process.stdout.on("error", () => undefined);
process.stderr.on("error", () => undefined);
process.exitCode = await run().catch((error: unknown) => {
  for (const line of messageOf(error).split("\n")) warn(line);
  const isOurs = error instanceof ConfigError || error instanceof JournalError;
  return isOurs ? error.exitCode : exitCodes.fault;
});

async function run(): Promise<number> {
  const command = readCommand(process.argv.slice(2), process.env);
  switch (command.command) {
    case "serve": return await serve(command.config);
    case "verify": return await verify(command.files, command.json);
    case "token": token(command.name); break;
    case "openapi": print(JSON.stringify(describeApi(""), undefined, 2)); break;
    case "help": print(help()); break;
    case "version": print(version); break;
  }
  return exitCodes.done;
}

async function serve(config: Config): Promise<number> {
  const { store, limits, basePath } = config;
  const made = config.token === "" && config.tokensFile === "" ? makeToken() : undefined;
  const readTokens = (): readonly string[] => [
    ...[made ?? config.token].filter((text) => text !== ""),
    ...(config.tokensFile === "" ? [] : readTokensFile(config.tokensFile)),
  ];
  let tokens: BearerTokens;
  try {
    tokens = new BearerTokens(readTokens());
  } catch (error) {
    warn(messageOf(error));
    return exitCodes.config;
  }
  const path = store.startsWith("file:") ? fileURLToPath(store) : store;
  const journal = await openJournal(path, { limits, warn });
  const onFault = (error: unknown): void => warn(`a fault of ours: ${messageOf(error)}`);
  const server = createPlantServer({ store: journal, tokens, basePath, limits, onFault });
  try {
    await listen(server, config);
  } catch (error) {
    warn(`can't listen: ${messageOf(error)}`);
    await journal.close();
    return exitCodes.unavailable;
  }
  process.on("SIGHUP", () => {
    try {
      tokens.replace(readTokens());
    } catch (error) {
      warn(`${messageOf(error)}; the old tokens stay`);
    }
    journal.rotate().then(
      (isNew) => isNew && warn(`goes on in a new file at ${path}`),
      (error: unknown) => warn(`${messageOf(error)}; the old file stays in use`),
    );
  });
  const end = ending(journal);
  announce(server, config, made);
  const code = await end;
  process.on("SIGTERM", () => process.exit(exitCodes.unavailable));
  process.on("SIGINT", () => process.exit(exitCodes.unavailable));
  if (!await server.drain()) {
    warn(`requests were cut off after ${limits.drainMillis} ms`);
    process.exit(exitCodes.unavailable);
  }
  await journal.close();
  return code;
}

/** Resolves to the exit status when there is a reason to end. */
function ending(journal: Journal): Promise<number> {
  return new Promise((resolve) => {
    process.once("SIGTERM", () => resolve(exitCodes.done));
    process.once("SIGINT", () => resolve(exitCodes.done));
    journal.once("failed", (error) => {
      warn(error.message);
      resolve(error.exitCode);
    });
  });
}

async function listen(server: DrainableServer, { socket, host, port }: Config): Promise<void> {
  const attempt = (): Promise<void> => new Promise((resolve, reject) => {
    server.once("error", reject);
    const onListening = (): void => {
      server.off("error", reject);
      resolve();
    };
    if (socket === "") server.listen(port, host, onListening);
    else server.listen(socket, onListening);
  });
  try {
    await attempt();
  } catch (error) {
    if (socket === "" || !await isSocketAbandoned(socket)) throw error;
    realDisk.remove(socket);
    await attempt();
  }
}

function announce(server: DrainableServer, config: Config, made: string | undefined): void {
  const address = server.address();
  const isIp = typeof address === "object" && address !== null;
  const host = isIp && address.family === "IPv6" ? `[${address.address}]` : config.host;
  const base = isIp ? `http://${host}:${address.port}` : `unix:${config.socket}`;
  print(`plant-store listening on ${base}`);
  if (made === undefined) return;
  const target = isIp ? base : `--unix-socket '${config.socket}' http://localhost`;
  print(`No token is configured: this one is made for now, and gone when this process ends.\n
  curl ${target}${config.basePath}/plants -H 'Authorization: Bearer ${made}' \\
    -H 'Content-Type: application/json' -d '{"id":1,"name":"Fern","tag":"shade"}'\n`);
}

async function verify(paths: readonly string[], asJson: boolean): Promise<number> {
  let code: number = exitCodes.done;
  for (const path of paths) {
    const file = openToRead(path);
    const lock = await realDisk.lock(path, file.look().identity);
    const report = verifyJournal(file, !lock, () => undefined);
    lock?.release();
    file.close();
    if (report.spotsTotal > 0) code = exitCodes.data;
    const bigints = (_: string, value: unknown): unknown =>
      typeof value === "bigint" ? String(value) : value;
    if (asJson) print(JSON.stringify({ path, ...report }, bigints));
    else printReport(path, report);
  }
  return code;
}

function printReport(path: string, report: Report): void {
  const { records, bytes, first = "-", last = "-", idMin = "-", idMax = "-", spots } = report;
  print(`${path}: ${records} records, ${bytes} bytes, ${first} to ${last}, id ${idMin} to ${idMax}`);
  for (const { offset, line, reason } of spots) {
    print(`${path}: at offset ${offset}, line ${line}: ${reason}`);
  }
  const more = report.spotsTotal - spots.length;
  print(`${path}: ${report.spotsTotal} damaged spots${more > 0 ? `, ${more} of them not shown` : ""}`);
}

/** The line for a tokens file goes to stdout, so that it can be appended; the token to stderr. */
function token(name: string): void {
  const made = makeToken();
  process.stderr.write(`${made}\n`);
  print(`${name} ${tokenDigest(made)}`);
}

function help(): string {
  const settings = Object.entries(settingTable).map(([flag, setting]) =>
    [`--${flag}`, setting.environment, setting.meaning, setting.standard || "none"]);
  const limits = Object.values(limitTable).map((limit) =>
    [`--${limit.flag}`, environmentOf(limit), limit.reason, `${limit.standard} ${limit.unit}`]);
  const rows = [...settings, ...limits].map(([flag = "", variable = "", meaning, standard]) =>
    `  ${flag.padEnd(20)} ${variable.padEnd(26)} ${meaning} (${standard})`);
  return `plant-store ${version}: takes plants over HTTP and keeps them

  plant-store [serve] [options]   serve POST /plants; SIGTERM ends it, SIGHUP rotates
  plant-store verify FILE...      check whole journals; --json for programs
  plant-store token [NAME]        make a token: it is shown, its line for a tokens file is printed
  plant-store openapi             print the OpenAPI description
  plant-store --help, --version

${rows.join("\n")}
  ${"".padEnd(20)} ${tokenVariable.padEnd(26)} one token itself (never a flag: ps shows flags)`;
}
