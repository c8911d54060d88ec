/** The servers that are measured: how each is started, and how its stored plants are counted. */
import {
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readFileSync,
  readSync,
  writeFileSync
} from "node:fs";
import { createServer } from "node:net";
import { once } from "node:events";
import { join } from "node:path";
import { startServer, run, type Cores, type Server } from "./child.ts";
import { token } from "./client.ts";
import { versionOfWrk } from "./load.ts";
import { here, root, type Key } from "./options.ts";

/** The place where a server is started. */
export interface Place {
  /** Of its own, for its store. */
  readonly folder: string;
  readonly cores: Cores;
}

export interface Variant {
  readonly key: Key;
  readonly name: string;
  /** What a response means for its plant. */
  readonly keeps: string;
  /** The status of its first response. */
  readonly status: number;
  /** Whether each request has an Idempotency-Key of its own. */
  readonly keys?: boolean;
  /** Why it can't be measured here. */
  readonly skipped?: string;
  start(place: Place): Promise<Server>;
  /** Counts the stored plants; throws if the store is damaged. Without it the server keeps nothing. */
  count?(folder: string): Promise<number>;
}

const node = process.execPath;
const file = (name: string): string => join(here, "servers", name);

/** One of the servers in `servers`; its environment says what to load or where to store. */
const peer =
  (
    name: string,
    env: Readonly<Record<string, string>> = {}
  ): Variant["start"] =>
  ({ folder, cores }) =>
    startServer(
      cores,
      [node, file(name)],
      { PLANTS_TOKEN: token, ...env },
      folder
    );

/** Relative: every server runs in a folder of its own. */
const database = { BENCH_STORE: "plants.db" };

const countRows = async (folder: string): Promise<number> =>
  Number(
    await run("1", [
      node,
      file("count.mjs"),
      join(folder, database.BENCH_STORE)
    ])
  );

export const journalIn = (folder: string): string =>
  join(folder, "plants.ndjson");

/** The plant store of a checkout, as its README starts it; more of its flags may follow. */
export const plantStore =
  (checkout: string, flags: readonly string[] = []): Variant["start"] =>
  ({ folder, cores }) =>
    startServer(
      cores,
      [node, join(checkout, "dist", "server.js"), "--port", "0", ...flags],
      { PLANTS_TOKEN: token },
      folder
    );

const libraryOf = (checkout: string): Variant["start"] =>
  peer("library.mjs", { BENCH_LIBRARY: join(checkout, "dist", "index.js") });

async function startJsonServer({ folder, cores }: Place): Promise<Server> {
  const plants = join(folder, "db.json");
  mkdirSync(join(folder, "public")); // it needs one, to serve files from
  writeFileSync(plants, '{"plants":[]}');
  // It does not tell which port it got for 0: one that was free a moment ago.
  const probe = createServer().listen(0, "127.0.0.1");
  await once(probe, "listening");
  const address = probe.address();
  const port =
    typeof address === "object" && address ? String(address.port) : "3000";
  await new Promise((resolve) => probe.close(resolve));
  const program = join(here, "node_modules", "json-server", "lib", "bin.js");
  const command = [
    node,
    program,
    "--host",
    "127.0.0.1",
    "--port",
    port,
    plants
  ];
  return startServer(cores, command, {}, folder);
}

async function countJson(folder: string): Promise<number> {
  const value: unknown = JSON.parse(
    readFileSync(join(folder, "db.json"), "utf8")
  );
  const plants: unknown = Object(value).plants;
  return Array.isArray(plants) ? plants.length : 0;
}

/** Records of a journal from an offset on: whole lines, and `seq` without a gap. */
export function countJournal(
  path: string,
  offset: number,
  seqBefore: number
): number {
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
      if (found === undefined && line.startsWith('{"journal":') && seq === 0)
        continue;
      if (Number(found) !== ++seq)
        throw new Error(`${path}: record ${seq} is ${line}`);
    }
  }
  closeSync(source);
  if (rest !== "") throw new Error(`${path}: the last line is torn: ${rest}`);
  return seq - seqBefore;
}

/** All that can be measured, in the order of the tables.
 * @param sqlite why better-sqlite3 is not there, or empty
 * @param against another checkout, or undefined */
export function variantsWith(
  sqlite: string,
  against: string | undefined
): readonly Variant[] {
  const keepsNothing = { keeps: "nothing", status: 200 };
  const durable = { keeps: "durable", status: 200 };
  const withSqlite = {
    ...durable,
    count: countRows,
    ...(sqlite !== "" && { skipped: sqlite })
  };
  const withJournal = {
    ...durable,
    count: async (folder: string) => countJournal(journalIn(folder), 0, 0)
  };
  const others: readonly Variant[] =
    against === undefined
      ? []
      : [
          {
            key: "against",
            name: `the plant-store of ${against}`,
            ...withJournal,
            start: plantStore(against)
          },
          {
            key: "against-library",
            name: `the library of ${against}, no store`,
            ...keepsNothing,
            start: libraryOf(against)
          }
        ];
  return [
    {
      key: "raw",
      name: "node:net, fixed bytes: the generator's limit",
      ...keepsNothing,
      start: peer("raw.mjs")
    },
    {
      key: "constant",
      name: "node:http, constant answer",
      ...keepsNothing,
      start: peer("constant.mjs")
    },
    {
      key: "bar",
      name: "node:http, reads and answers JSON: the bar",
      ...keepsNothing,
      start: peer("bar.mjs")
    },
    {
      key: "fastify",
      name: "Fastify 5, schema and bearer",
      ...keepsNothing,
      start: peer("fastify.mjs")
    },
    {
      key: "fastify-sqlite",
      name: "Fastify 5 + better-sqlite3",
      ...withSqlite,
      start: peer("fastify.mjs", database)
    },
    {
      key: "express-sqlite",
      name: "Express 5 + better-sqlite3",
      ...withSqlite,
      start: peer("express.mjs", database)
    },
    {
      key: "json-server",
      name: "json-server",
      keeps: "a file, not flushed",
      status: 201,
      start: startJsonServer,
      count: countJson
    },
    {
      key: "plant-store",
      name: "plant-store",
      ...withJournal,
      start: plantStore(root)
    },
    {
      key: "plant-store-keys",
      name: "plant-store, an Idempotency-Key on each request",
      ...withJournal,
      keys: true,
      ...(!versionOfWrk && {
        skipped: "autocannon sends one header for all requests: install wrk"
      }),
      start: plantStore(root)
    },
    {
      key: "library",
      name: "plant-store's library, no store",
      ...keepsNothing,
      start: libraryOf(root)
    },
    ...others
  ];
}

export function reasonWithoutSqlite(): string {
  const reason = join(here, "node_modules", ".no-sqlite");
  return existsSync(reason) ? readFileSync(reason, "utf8").trim() : "";
}
