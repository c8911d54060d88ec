/** The journal's format: NDJSON, whole lines that end in LF, each with a checksum of its own.
 *
 *   journal = header *record
 *   header  = {"journal":"plant-store","version":1,"file":UUID,"at":TIME,"crc":CRC} LF
 *   record  = {"seq":N,"at":TIME,"synced":N,"plant":NEWPLANT,"crc":CRC} LF
 *
 * seq     1, 2, 3 … in this file, no gaps
 * at      when the write that holds the line was begun, RFC 3339, UTC, milliseconds
 * synced  the offset at which that write begins: all before it was on stable storage by then
 * plant   id in plain digits, name, and tag where there is one; no space, no other member
 * crc     CRC-32 (zlib's), 8 lower-case hex digits, of the line's bytes before `,"crc"` */
import { crc32 } from "node:zlib";
import { parseJson } from "../json/parse.ts";
import { readNewPlant, type NewPlant } from "../plant.ts";

/** No header is longer; it has one length, as UUID, TIME and CRC have. */
export const headerBytesMax = 256;
const headerStart = '{"journal":"plant-store","version":1,"file":"';
const time = String.raw`(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)`;
const headerEnd = `","at":"${time}","crc":"[\\da-f]{8}"}`;
const headerForm = new RegExp(`^${headerStart}([\\da-f-]{36})${headerEnd}$`);
const recordStart = new RegExp(`^{"seq":([1-9]\\d*),"at":"${time}","synced":(\\d+),"plant":`);
const seal = ',"crc":"';
const sealBytes = seal.length + '00000000"}'.length;

/** What a line without its LF is; `foreign` has a good checksum over what is no record. */
export type Line = "unsound" | "foreign" | {
  readonly seq: number; readonly at: string; readonly synced: number; readonly plant: NewPlant;
};

export const encodeHeader = (file: string, at: string): string =>
  sealed(`${headerStart}${file}","at":"${at}"`);
/** A plant as its record holds it: encoded once, before seq, time and offset are known. */
export function encodePlant({ id, name, tag }: NewPlant): string {
  const end = tag === undefined ? "}" : `,"tag":${JSON.stringify(tag)}}`;
  return `{"id":${id},"name":${JSON.stringify(name)}${end}`;
}

export const encodeRecord = (seq: number, at: string, synced: number, plant: string): string =>
  sealed(`{"seq":${seq},"at":"${at}","synced":${synced},"plant":${plant}`);
/** The journal's UUID, or undefined when the line is no header of this version. */
export function decodeHeader(line: Buffer): string | undefined {
  return isSound(line) ? headerForm.exec(line.toString("latin1"))?.[1] : undefined;
}

/** Whether the bytes can be what a crash left of a header: a part of one, and then NULs. */
export function isPartOfHeader(bytes: Buffer): boolean {
  if (bytes.length > headerBytesMax) return false;
  const text = bytes.toString("latin1").replace(/\0+$/, "");
  const whole = encodeHeader("0".repeat(36), "0".repeat(24)).trimEnd();
  const shape = (part: string): string => part.replace(/[\dA-Fa-f:.TZ-]/g, "0");
  if (text.length === whole.length) return text.length < bytes.length && headerForm.test(text);
  return (headerStart.startsWith(text) || text.startsWith(headerStart))
    && shape(whole).startsWith(shape(text));
}

export function decodeRecord(line: Buffer): Line {
  if (!isSound(line)) return "unsound";
  const start = recordStart.exec(line.toString("latin1", 0, 100));
  if (!start) return "foreign";
  const [{ length }, seq, at = "", synced] = start;
  try {
    const text = line.subarray(length, line.length - sealBytes);
    const plant = readNewPlant(parseJson(text, 1));
    if (encodePlant(plant) !== text.toString()) return "foreign";
    return { seq: Number(seq), at, synced: Number(synced), plant };
  } catch {
    return "foreign";
  }
}

const sealed = (text: string): string => `${text}${seal}${checksum(text)}"}\n`;
export const checksum = (bytes: string | Buffer): string =>
  crc32(bytes).toString(16).padStart(8, "0");

function isSound(line: Buffer): boolean {
  const at = line.length - sealBytes;
  return at > 0 && line.toString("latin1", at) === `${seal}${checksum(line.subarray(0, at))}"}`;
}
