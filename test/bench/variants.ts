/** Who is measured, how each is started, and how what it kept is counted. */
import {
  closeSync, existsSync, mkdirSync, openSync, readFileSync, readSync, writeFileSync,
} from "node:fs";
import { createServer } from "node:net";
import { once } from "node:events";
import { join } from "node:path";
import { startServer, run, type Server } from "./child.ts";
import { token } from "./client.ts";
import { here, root } from "./options.ts";

export type Key = "raw" | "a" | "b" | "c" | "d" | "e" | "f" | "g" | "h";

export interface Variant {
  readonly key: Key;
  readonly name: string;
  /** What a good answer means. */
  readonly keeps: string;
  readonly status: number;
  /** Why it can't be measured here. */
  readonly skipped?: string;
  start(folder: string, args?: readonly string[]): Promise<Server>;
  /** How many plants it kept; throws where they are not sound. Without: it keeps nothing. */
  count?(folder: string): Promise<number>;
}

const node = process.execPath;
const file = (name: string): string => join(here, "servers", name);
const peer = (name: string, withStore = false): Variant["start"] => (folder) =>
  startServer([node, file(name)], {
    PLANTS_TOKEN: token, ...(withStore && { BENCH_STORE: join(folder, "plants.db") }),
  }, folder);
const countRows = async (folder: string): Promise<number> =>
  Number(await run("1", [node, file("count.mjs"), join(folder, "plants.db")]));

const journalIn = (folder: string): string => join(folder, "plants.ndjson");

/** The plant store as its README starts it; a second `--store` or limit may follow. */
const startPlantStore: Variant["start"] = (folder, args = []) =>
  startServer([node, join(root, "dist", "server.js"), "--port", "0", ...args],
    { PLANTS_TOKEN: token }, folder);

async function startJsonServer(folder: string): Promise<Server> {
  const database = join(folder, "db.json");
  mkdirSync(join(folder, "public")); // it needs one, to serve files from
  writeFileSync(database, '{"plants":[]}');
  // It does not tell which port it got for 0: one that was free a moment ago.
  const probe = createServer().listen(0, "127.0.0.1");
  await once(probe, "listening");
  const address = probe.address();
  const port = typeof address === "object" && address ? String(address.port) : "3000";
  await new Promise((resolve) => probe.close(resolve));
  const program = join(here, "node_modules", "json-server", "lib", "bin.js");
  return startServer([node, program, "--host", "127.0.0.1", "--port", port, database], {}, folder);
}

async function countJson(folder: string): Promise<number> {
  const value: unknown = JSON.parse(readFileSync(join(folder, "db.json"), "utf8"));
  const plants: unknown = Object(value).plants;
  return Array.isArray(plants) ? plants.length : 0;
}

/** Records of a journal from an offset on: whole lines, and `seq` without a gap. */
export function countJournal(path: string, offset: number, seqBefore: number): number {
  const source = openSync(path, "r");
  const chunk = Buffer.alloc(2 ** 22);
  let [seq, rest, at] = [seqBefore, "", offset];
  for (;;) {
    const got = readSync(source, chunk, 0, chunk.length, at);
    if (got === 0) break;
    at += got;
    const lines = (rest + chunk.toString("latin1", 0, got)).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) {
      const found = /^{"seq":(\d+),.*"}$/.exec(line)?.[1];
      if (found === undefined && line.startsWith('{"journal":') && seq === 0) continue;
      if (Number(found) !== ++seq) throw new Error(`${path}: record ${seq} is ${line}`);
    }
  }
  closeSync(source);
  if (rest !== "") throw new Error(`${path}: the last line is torn: ${rest}`);
  return seq - seqBefore;
}

/** @param sqlite why better-sqlite3 is not there, or empty */
export function variantsWith(sqlite: string): readonly Variant[] {
  const withoutSqlite = sqlite === "" ? {} : { skipped: sqlite };
  return [
    { key: "raw", name: "node:net, fixed bytes: the generator's limit", keeps: "nothing",
      status: 200, start: peer("raw.mjs") },
    { key: "a", name: "node:http, constant answer", keeps: "nothing", status: 200,
      start: peer("constant.mjs") },
    { key: "b", name: "node:http, reads and answers JSON: the bar", keeps: "nothing", status: 200,
      start: peer("bar.mjs") },
    { key: "c", name: "Fastify 5, schema and bearer", keeps: "nothing", status: 200,
      start: peer("fastify.mjs") },
    { key: "d", name: "Fastify 5 + better-sqlite3", keeps: "durable", status: 200, ...withoutSqlite,
      start: peer("fastify.mjs", true), count: countRows },
    { key: "e", name: "Express 5 + better-sqlite3", keeps: "durable", status: 200, ...withoutSqlite,
      start: peer("express.mjs", true), count: countRows },
    { key: "f", name: "json-server", keeps: "a file, not flushed", status: 201,
      start: startJsonServer, count: countJson },
    { key: "g", name: "plant-store", keeps: "durable", status: 200, start: startPlantStore,
      count: async (folder) => countJournal(journalIn(folder), 0, 0) },
    { key: "h", name: "plant-store's library, no store", keeps: "nothing", status: 200,
      start: peer("library.mjs") },
  ];
}

export function reasonWithoutSqlite(): string {
  const reason = join(here, "node_modules", ".no-sqlite");
  return existsSync(reason) ? readFileSync(reason, "utf8").trim() : "";
}
