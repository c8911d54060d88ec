/**
 * The journal's format: NDJSON, whole lines that end in LF, each with its own checksum.
 *
 *   journal = header *record
 *   header  = {"journal":"plant-store","version":1,"file":UUID,"at":TIME,"crc":CRC} LF
 *   record  = {"seq":N,"at":TIME,"synced":N[,"key":KEY],"plant":NEWPLANT,"crc":CRC} LF
 *
 * seq     1, 2, 3 … in this file, no gaps
 * at      when the write that holds the line began, RFC 3339, UTC, milliseconds, a year of four
 *         digits
 * synced  the offset at which that write begins: everything before it was on stable storage then
 * key     digest of the client's Idempotency-Key, if there was one: 16 bytes in base64url without
 *         padding, so 22 characters, the last of which is A, Q, g or w
 * plant   the text of a checked NewPlant: id in plain digits, name, tag if there is one; no space
 * crc     CRC-32 (zlib's), 8 lower-case hex digits, of the line's bytes before `,"crc"`
 *
 * Three lines, in pieces, each with its offset in the file:
 *
 *     0  {"journal":"plant-store","version":1,"file":"4dbac23b-be23-439e-9377-269255362075"
 *    82  ,"at":"2026-11-21T10:47:01.516Z"
 *   114  ,"crc":"3d821a4e"} LF
 *   133  {"seq":1,"at":"2026-11-21T10:47:01.578Z","synced":133
 *   186  ,"plant":{"id":9007199254740993,"name":"Fern","tag":"shade"}
 *   246  ,"crc":"a06b479e"} LF
 *   265  {"seq":2,"at":"2026-11-21T10:47:02.006Z","synced":265
 *   318  ,"key":"GZvgPTXzRR2v5tOmMDnAFg"
 *   349  ,"plant":{"id":7,"name":"Moss"}
 *   380  ,"crc":"f7145ec0"} LF
 *   399
 */
import { crc32 } from "node:zlib";
import { keyForm, textBytesMax } from "../append.ts";

/** More bytes than a line has besides its plant, whatever seq and synced are: at most 140. */
export const frameBytesMax = 160;

/** The most bytes of a line, with its LF, and of a write: a bound for every reader's memory. */
export const lineBytesMax = textBytesMax + frameBytesMax;

export const lineFeed = 0x0a;

/** A TIME for measuring: all have the same length. */
const epoch = "1970-01-01T00:00:00.000Z";

/** The end of a line before `fillChecksums`. */
export const placeholderCrc = ',"crc":"00000000"}';
const digitsIndex = placeholderCrc.indexOf("0");
const crcDigits = 8;

/** A header with its LF, and a placeholder for its checksum. */
export const headerText = (file: string, at: string) =>
  `{"journal":"plant-store","version":1,"file":"${file}","at":"${timeOf(at)}"${placeholderCrc}\n`;

/** A record with its LF, and a placeholder for its checksum. */
export const recordText = (
  seq: number,
  at: string,
  synced: number,
  plant: string,
  key?: string
) =>
  `{"seq":${seq},"at":"${timeOf(at)}","synced":${synced}${keyText(key)},` +
  `"plant":${plant}${placeholderCrc}\n`;

/** The member of a key, with the comma before it. */
export const keyText = (key?: string) =>
  key === undefined ? "" : `,"key":"${key}"`;

/** @throws RangeError for a TIME that no reader accepts: Date writes the year 10000 as "+010000" */
export function timeOf(at: string) {
  if (at.length === epoch.length) return at;
  throw new RangeError(`the clock says ${at}: expected a year of four digits`);
}

const emptyHeader = headerText("00000000-0000-0000-0000-000000000000", epoch);

/** The length of every header, with its LF. */
export const headerBytes = emptyHeader.length;

const time = String.raw`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`;

const headerForm = new RegExp(
  String.raw`^{"journal":"plant-store","version":1,"file":"([\da-f-]{36})",` +
    String.raw`"at":"${time}","crc":"[\da-f]{8}"}$`
);

/** The start of a record, up to its plant. */
const recordForm = new RegExp(
  String.raw`^{"seq":([1-9]\d*),"at":"(${time})","synced":([1-9]\d*)` +
    `(?:,"key":"(${keyForm})")?,"plant":{`
);

/** Encodes lines of `headerText` and `recordText`; replaces each placeholder by the checksum. */
export function fillChecksums(lines: string): Buffer {
  const bytes = Buffer.from(lines);
  let start = 0;
  while (start < bytes.length) {
    const end = bytes.indexOf(lineFeed, start);
    const crcIndex = end - placeholderCrc.length;
    const crc = crc32(bytes.subarray(start, crcIndex));
    writeDigits(bytes, crcIndex + digitsIndex, crc);
    start = end + 1;
  }
  return bytes;
}

/** Returns the journal's UUID; undefined if the line is not a header of this version. */
export function decodeHeader(line: Buffer) {
  return hasValidChecksum(line)
    ? headerForm.exec(line.toString("latin1"))?.[1]
    : undefined;
}

/**
 * Whether a file can be what a crash left of its header: a part of one, then NULs.
 *
 * Part and NULs are at most as long as a header: a longer file may have held a record.
 */
export function isPartOfHeader(file: Buffer) {
  if (file.length > headerBytes) return false;
  const part = file.toString("latin1").replace(/\0+$/, "");
  const missing = emptyHeader.slice(part.length, -1);
  if (missing !== "") return headerForm.test(part + missing);

  // A whole header that a NUL follows, not an LF, is a part. One that ends the file is kept.
  return (
    part.length < file.length &&
    decodeHeader(file.subarray(0, part.length)) !== undefined
  );
}

/** A line that was read: its members, as the journal's page describes them. */
export interface DecodedRecord {
  readonly seq: number;
  readonly at: string;
  readonly synced: number;
  readonly key: string | undefined;

  /** The plant's JSON: a view of the line. */
  readonly plant: Buffer;
}

/**
 * Reads a line without its LF; undefined if it has a bad checksum, or is not a record.
 *
 * Of its plant only the braces are looked at: a valid checksum shows that the plant is what was
 * checked and written, whatever a plant must be by now.
 */
export function decodeRecord(line: Buffer): DecodedRecord | undefined {
  const end = line.length - placeholderCrc.length;
  if (!hasValidChecksum(line) || line[end - 1] !== closingBrace)
    return undefined;
  const [start, seq, at = "", synced, key] =
    recordForm.exec(line.toString("latin1", 0, frameBytesMax)) ?? [];
  if (start === undefined) return undefined;
  const plant = line.subarray(start.length - 1, end);
  return { seq: Number(seq), at, synced: Number(synced), key, plant };
}

const closingBrace = 0x7d;

/** What a line with a key contains, and no other: within a string the quotes would be escaped. */
export const keyMark = ',"key":"';

/** Whether a line ends with its checksum. */
export function hasValidChecksum(line: Buffer) {
  const crcIndex = line.length - placeholderCrc.length;
  if (crcIndex <= 0) return false;
  writeDigits(expectedCrc, digitsIndex, crc32(line.subarray(0, crcIndex)));
  return expectedCrc.equals(line.subarray(crcIndex));
}

/**
 * Scratch space for the end of a line: bytes are compared, not texts, because a start checks each
 * line of the window of keys. Sharing it is safe: it is written and compared in one call.
 */
const expectedCrc = Buffer.from(placeholderCrc);

/** Writes the hex digits of a CRC. */
export function writeDigits(bytes: Buffer, start: number, crc: number) {
  for (let index = 0; index < crcDigits; index++) {
    const digit = (crc >>> (28 - 4 * index)) & 15;
    bytes[start + index] = digit + (digit < 10 ? 0x30 : 0x57);
  }
}
