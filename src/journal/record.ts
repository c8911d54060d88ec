/** The journal's format: NDJSON, whole lines that end in LF, each with a checksum of its own.
 *
 *   journal = header *record
 *   header  = {"journal":"plant-store","version":1,"file":UUID,"at":TIME,"crc":CRC} LF
 *   record  = {"seq":N,"at":TIME,"synced":N,"plant":NEWPLANT,"crc":CRC} LF
 *
 * seq     1, 2, 3 … in this file, no gaps
 * at      when the write that holds the line was begun, RFC 3339, UTC, milliseconds: a year has
 *         four digits
 * synced  the offset at which that write begins: all before it was on stable storage by then
 * plant   id in plain digits, name, and tag where there is one; no space, no other member
 * crc     CRC-32 (zlib's), 8 lower-case hex digits, of the line's bytes before `,"crc"`
 *
 * While opening writes a file's end anew, a copy of that end stands beside it in FILE.anew:
 *
 *   copy    = CRC SP {"anew":UUID,"offset":N,"size":N} LF bytes
 *
 * UUID    the journal's;  offset  where the bytes stand;  size  of the file before
 * CRC     of all that follows its SP */
import { crc32 } from "node:zlib";
import { parseJson } from "../json/parse.ts";
import { readNewPlant, StoreError, type NewPlant } from "../plant.ts";

/** No line is longer, with its LF, and no write: so a reader that holds a line, or an end, needs
 * no more. Four times the largest body that can be set: only a library's plant can be too long. */
export const lineBytesMax = 64 * 1024 * 1024;
export const lineFeed = 0x0a;
const headerStart = '{"journal":"plant-store","version":1,"file":"';
const time = "0000-00-00T00:00:00.000Z";
const timeForm = time.replaceAll("0", "\\d").replaceAll(".", "\\.");
const headerForm = new RegExp(
  `^${headerStart}([\\da-f-]{36})","at":"${timeForm}","crc":"[\\da-f]{8}"}$`);
const emptySeal = ',"crc":"00000000"}';
const emptyHeader = `${headerStart}${"0".repeat(36)}","at":"${time}"${emptySeal}\n`;
/** A header has one length, with its LF, as UUID, TIME and CRC have. */
export const headerBytes = emptyHeader.length;
const digitsAt = emptySeal.indexOf("0");
const lineStart = String.raw`^{"seq":([1-9]\d*),"at":"(${timeForm})","synced":([1-9]\d*),"plant":`;
/** Nearly all plants are ASCII without escapes: what has this form needs no parsing. */
const plainText = String.raw`"[ !#-[\]-~]*"`;
const plainForm = new RegExp(
  `${lineStart}{"id":(0|-?[1-9]\\d{0,17}),"name":${plainText}(?:,"tag":${plainText})?}$`);
const startForm = new RegExp(lineStart);
/** What a line without its LF is; `foreign` has a good checksum over what is no record. */
export type Line = "unsound" | "foreign" | {
  readonly seq: number; readonly at: string; readonly synced: number; readonly id: bigint;
};

export const headerText = (file: string, at: string): string =>
  `${headerStart}${file}","at":"${timeOf(at)}"${emptySeal}\n`;
/** A plant as its record holds it: encoded once, before seq, time and offset are known.
 * @throws StoreError `invalid` where its line could be too long */
export function plantText({ id, name, tag }: NewPlant): string {
  // Asked before it is encoded, too: six times as long, it may be more than a string can be.
  if (name.length + (tag?.length ?? 0) <= plantBytesMax) {
    const end = tag === undefined ? "}" : `,"tag":${JSON.stringify(tag)}}`;
    const text = `{"id":${id},"name":${JSON.stringify(name)}${end}`;
    // A UTF-16 unit has at most three bytes in UTF-8: nearly all need not be counted.
    if (3 * text.length <= plantBytesMax || Buffer.byteLength(text) <= plantBytesMax) return text;
  }
  throw new StoreError("invalid", `a plant has at most ${plantBytesMax} bytes in the journal`);
}

export const recordText = (seq: number, at: string, synced: number, plant: string): string =>
  `{"seq":${seq},"at":"${timeOf(at)}","synced":${synced},"plant":${plant}${emptySeal}\n`;
/** @throws RangeError for what no reader takes: Date writes the year 10000 as "+010000" */
function timeOf(at: string): string {
  if (at.length === time.length) return at;
  throw new RangeError(`the clock says ${at}: expected a year of four digits`);
}

const { MAX_SAFE_INTEGER } = Number;
/** Whatever a line's numbers are. */
const plantBytesMax =
  lineBytesMax - recordText(MAX_SAFE_INTEGER, time, MAX_SAFE_INTEGER, "").length;
/** The bytes of lines as `headerText` and `recordText` give them, each with its checksum. */
export function seal(lines: string): Buffer {
  const bytes = Buffer.from(lines);
  for (let start = 0, end = 0; start < bytes.length; start = end + 1) {
    end = bytes.indexOf(lineFeed, start);
    const at = end - emptySeal.length;
    const crc = crc32(bytes.subarray(start, at));
    for (let digit = 0; digit < 8; digit++) bytes[at + digitsAt + digit] = hexDigit(crc, digit);
  }
  return bytes;
}

/** The journal's UUID, or undefined when the line is no header of this version. */
export function decodeHeader(line: Buffer): string | undefined {
  return isSound(line) ? headerForm.exec(line.toString("latin1"))?.[1] : undefined;
}

/** Whether a file can be what a crash left of its header: a part of one, and then NULs, together no
 * longer than a header. A longer one may have held a record: nobody may take that for nothing. */
export function isPartOfHeader(file: Buffer): boolean {
  if (file.length > headerBytes) return false;
  const part = file.toString("latin1").replace(/\0+$/, "");
  const missing = emptyHeader.slice(part.length, -1);
  if (missing !== "") return headerForm.test(part + missing);
  // With a NUL in the place of its LF it is a part; it is kept where only the LF is missing.
  return part.length < file.length && decodeHeader(file.subarray(0, part.length)) !== undefined;
}

export function decodeRecord(line: Buffer): Line {
  if (!isSound(line)) return "unsound";
  const text = line.toString("latin1", 0, line.length - emptySeal.length);
  const match = plainForm.exec(text) ?? startForm.exec(text);
  if (!match) return "foreign";
  const [at = "", seq, synced] = [match[2], Number(match[1]), Number(match[3])];
  if (match[4] !== undefined) return { seq, at, synced, id: BigInt(match[4]) };
  try {
    const json = line.subarray(match[0].length, text.length);
    const plant = readNewPlant(parseJson(json, 1));
    const isOurs = Buffer.from(plantText(plant)).equals(json);
    return isOurs ? { seq, at, synced, id: plant.id } : "foreign";
  } catch {
    return "foreign";
  }
}

function isSound(line: Buffer): boolean {
  const at = line.length - emptySeal.length;
  const crc = at > 0 ? crc32(line.subarray(0, at)) : 0;
  for (let index = 0; index < emptySeal.length; index++) {
    const isDigit = emptySeal[index] === "0";
    const wanted = isDigit ? hexDigit(crc, index - digitsAt) : emptySeal.charCodeAt(index);
    if (line[at + index] !== wanted) return false;
  }
  return at > 0;
}

const copyForm = /^([\da-f]{8}) \{"anew":"([\da-f-]{36})","offset":(\d+),"size":(\d+)\}\n/;

export function encodeCopy(file: string, offset: number, size: number, bytes: Buffer): Buffer {
  const copy = Buffer.concat([
    Buffer.from(`00000000 {"anew":"${file}","offset":${offset},"size":${size}}\n`), bytes,
  ]);
  copy.write(checksum(copy.subarray(9)));
  return copy;
}

/** Undefined for what is not a whole copy. */
export function decodeCopy(copy: Buffer) {
  const [head = "", crc, file = "", offset, size] =
    copyForm.exec(copy.toString("latin1", 0, 160)) ?? [];
  if (checksum(copy.subarray(9)) !== crc) return undefined;
  return { file, offset: Number(offset), size: Number(size), bytes: copy.subarray(head.length) };
}

export const checksum = (bytes: Buffer): string => crc32(bytes).toString(16).padStart(8, "0");
/** One of the eight digits, in ASCII: for a line this is faster than its checksum's text. */
function hexDigit(crc: number, index: number): number {
  const value = (crc >>> (28 - 4 * index)) & 0xf;
  return value + (value < 10 ? 0x30 : 0x57);
}
