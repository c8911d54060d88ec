/** Journals for tests: lines made and read without the code under test, plants, and outcomes. */
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { crc32 } from "node:zlib";
import type { Limits } from "../../src/config.ts";
import {
  realDisk,
  type Disk,
  type JournalFile
} from "../../src/journal/files.ts";
import {
  openJournal as openWithDefaults,
  type Journal,
  type JournalOptions
} from "../../src/journal/journal.ts";
import type { Bytes } from "../../src/journal/lines.ts";
import type { NewPlant } from "../../src/plant.ts";
import { StoreError } from "../../src/store.ts";
import { SimulatedDisk } from "./simdisk.ts";

export const at = "2026-11-21T02:56:07.123Z";
export const uuid = "5f0c1d2e-3b4a-4c5d-8e6f-7a8b9c0d1e2f";
export const headerBytes = 133;
/** Linux's numbers; libuv has no name for EDQUOT. */
export const [EIO, EACCES, EFBIG, ENOSPC, EDQUOT] = [5, 13, 27, 28, 122];

/** The real disk, whose files have other operations. */
export const diskWith = (
  change: (file: JournalFile) => Partial<JournalFile>
): Disk => ({
  ...realDisk,
  open(path) {
    const file = realDisk.open(path);
    return { ...file, ...change(file) };
  }
});

/** Returns a file in memory as the readers of journals take it. */
export const bytesIn = (file: Buffer): Bytes => ({
  size: () => file.length,
  read: (from, length) => file.subarray(from, from + length)
});

export const crcOf = (bytes: Buffer | string): string =>
  crc32(bytes).toString(16).padStart(8, "0");

/** A line with its checksum, or with another, and its LF. */
export const lineOf = (start: string, crc = crcOf(start)): string =>
  `${start},"crc":"${crc}"}\n`;
export const headerStart = (file = uuid): string =>
  `{"journal":"plant-store","version":1,"file":"${file}","at":"${at}"`;
export const recordStart = (
  seq: number,
  synced: number,
  plant = '{"id":7,"name":"Fern"}'
): string => `{"seq":${seq},"at":"${at}","synced":${synced},"plant":${plant}`;
export const header = lineOf(headerStart());
export const record = (...given: Parameters<typeof recordStart>): string =>
  lineOf(recordStart(...given));

/** A journal of at least so many bytes, each record of which has a key of its own. */
export function journalWithKeys(bytes: number): string {
  const lines = [header];
  let offset = header.length;
  while (offset < bytes) {
    const seq = lines.length;
    const key = Buffer.from(`${seq}`.padStart(16, "0")).toString("base64url");
    const start = `{"seq":${seq},"at":"${at}","synced":${offset},"key":"${key}"`;
    const line = lineOf(`${start},"plant":{"id":${seq},"name":"Fern"}`);
    lines.push(line);
    offset += line.length;
  }
  return lines.join("");
}

interface Found {
  readonly seq: number;
  readonly synced: number;
  readonly key?: string;
  readonly plant: { readonly id: number };
  /** Where its line begins. */
  readonly offset: number;
}

/** The records of a journal up to its first bad line, and that line's fault, if there is one. */
export function read(bytes: Buffer) {
  const records: Found[] = [];
  let offset = 0;
  const result = (fault: string) => ({
    records,
    ids: records.map(({ plant }) => plant.id),
    fault: fault && `${fault} at ${offset}`
  });
  while (offset < bytes.length) {
    const lf = bytes.indexOf("\n", offset);
    if (lf < 0) return result("no LF");
    const line = bytes.toString("utf8", offset, lf + 1);
    if (lineOf(line.slice(0, -19)) !== line) return result("a wrong checksum");
    if (offset === 0) {
      if (!line.startsWith('{"journal":"plant-store","version":1,'))
        return result("no header");
    } else {
      const found = { ...(JSON.parse(line) as Found), offset };
      const last = records.at(-1) ?? { seq: 0, synced: headerBytes };
      if (found.seq !== last.seq + 1) return result(`seq ${found.seq}`);
      if (found.synced !== offset && found.synced !== last.synced) {
        return result(`synced ${found.synced}`);
      }
      records.push(found);
    }
    offset = lf + 1;
  }
  return result(offset === 0 ? "no header" : "");
}

/** The paths of the marks of closed journals in a folder. */
export const marksIn = (folder: string): readonly string[] =>
  readdirSync(folder)
    .filter((name) => name.includes(".closed-"))
    .map((name) => join(folder, name));

/** The ids in a file, which must be a valid journal. */
export function idsIn(path: string): readonly number[] {
  const { ids, fault } = read(readFileSync(path));
  assert.equal(fault, "", path);
  return ids;
}

export const fern: NewPlant = { id: 1n, name: "Fern" };

/** A small window of keys: the default's takes 29 MB and milliseconds at each opening. */
const keysBytesMax = 65_536;

/** Opens a journal, by default with a small window of keys. */
export const openJournal = (
  path: string,
  { limits, ...options }: JournalOptions = {}
): Promise<Journal> =>
  openWithDefaults(path, { ...options, limits: { keysBytesMax, ...limits } });

/** Makes a closed journal of these plants, or adds them to one; returns its path. */
export async function journalWith(
  path: string,
  ...plants: readonly NewPlant[]
): Promise<string> {
  const journal = await openJournal(path);
  for (const plant of plants) await journal.append(plant);
  await journal.close();
  return path;
}

/** A plant whose JSON has so many bytes. */
export const plantOf = (bytes: number): NewPlant => ({
  id: 1n,
  name: "a".repeat(bytes - '{"id":1,"name":""}'.length)
});

/** "stored", or the StoreError's code. */
export const outcomeOf = (stored: Promise<unknown>): Promise<string> =>
  stored.then(
    () => "stored",
    (error: unknown) =>
      error instanceof StoreError ? error.code : String(error)
  );

/** Appends plants in one turn: the outcome of each. */
export const append = (
  journal: Journal,
  ...plants: readonly NewPlant[]
): Promise<string[]> =>
  Promise.all(plants.map((plant) => outcomeOf(journal.append(plant))));

/** A new journal on a simulated disk. */
export async function simulated(given: Partial<Limits> = {}) {
  const path = "/plants.ndjson";
  const disk = new SimulatedDisk();
  const warnings: string[] = [];
  const failures: string[] = [];
  const warn = (text: string): void => void warnings.push(text);
  const journal = await openJournal(path, { disk, limits: given, warn });
  journal.on("failed", ({ code, exitCode }) =>
    failures.push(`${code} ${exitCode}`)
  );
  disk.calls.length = 0;
  return {
    path,
    disk,
    journal,
    warnings,
    failures,
    writes: () => disk.calls.filter((call) => call === "append").length,
    bytes: () => disk.bytes(path) ?? assert.fail("no file"),
    records: () => read(disk.bytes(path) ?? assert.fail("no file")).records,
    /** The outcomes of plants that are appended while a write is in flight. */
    async during(act: () => void, ...plants: readonly NewPlant[]) {
      const begun = disk.stall();
      const first = append(journal, fern);
      await begun;
      const later = append(journal, ...plants);
      act();
      disk.resume();
      return [...(await first), ...(await later)];
    }
  };
}
