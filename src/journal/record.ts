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
 * Two lines, in pieces, each with its offset in the file:
 *
 *     0  {"journal":"plant-store","version":1,"file":"4dbac23b-be23-439e-9377-269255362075"
 *    82  ,"at":"2026-11-21T10:47:01.516Z"
 *   114  ,"crc":"3d821a4e"} LF
 *   133  {"seq":1,"at":"2026-11-21T10:47:01.578Z","synced":133
 *   186  ,"plant":{"id":9007199254740993,"name":"Fern","tag":"shade"}
 *   246  ,"crc":"a06b479e"} LF
 *   265
 *
 * While opening writes a file's end anew, a copy of that end stands beside it in FILE.rewrite:
 *
 *   copy    = CRC SP {"rewrite":UUID,"offset":N,"size":N} LF bytes
 *
 * UUID    the journal's;  offset  where the bytes stand;  size  of the file before
 * CRC     of all that follows its SP
 */
import { crc32 } from "node:zlib";
import {
  newPlantJson,
  plainForm,
  readNewPlant,
  type NewPlant
} from "../plant.ts";
import { checkPlant, StoreError, type AppendJson } from "../store.ts";

/**
 * No line is longer, with its LF, and no write: a reader that holds a line, or an end, needs no
 * more. Four times the largest body that can be set: only a library's plant can be too long.
 */
export const lineBytesMax = 64 * 1024 * 1024;

export const lineFeed = 0x0a;

/** As long as every other TIME. */
export const epoch = "1970-01-01T00:00:00.000Z";

/** How a line ends before its checksum is known. */
export const emptySeal = ',"crc":"00000000"}';
const digitsIndex = emptySeal.indexOf("0");

export const headerText = (file: string, at: string): string =>
  `{"journal":"plant-store","version":1,"file":"${file}","at":"${timeOf(at)}"${emptySeal}\n`;

export const recordText = (
  seq: number,
  at: string,
  synced: number,
  plant: string
): string =>
  `{"seq":${seq},"at":"${timeOf(at)}","synced":${synced},"plant":${plant}${emptySeal}\n`;

/** @throws RangeError for what no reader takes: Date writes the year 10000 as "+010000" */
export function timeOf(at: string): string {
  if (at.length === epoch.length) return at;
  throw new RangeError(`the clock says ${at}: expected a year of four digits`);
}

const emptyHeader = headerText("00000000-0000-0000-0000-000000000000", epoch);

/** A header has one length, with its LF, as UUID, TIME and CRC have. */
export const headerBytes = emptyHeader.length;

/** Whatever the numbers of its line are. */
const plantBytesMax =
  lineBytesMax -
  recordText(Number.MAX_SAFE_INTEGER, epoch, Number.MAX_SAFE_INTEGER, "")
    .length;

const time = String.raw`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`;

const headerStart = String.raw`^{"journal":"plant-store","version":1,"file":"([\da-f-]{36})"`;
const headerForm = new RegExp(
  `${headerStart},"at":"${time}","crc":"[\\da-f]{8}"}$`
);

const recordStart = String.raw`^{"seq":([1-9]\d*),"at":"(${time})","synced":([1-9]\d*),"plant":`;
/** Its last groups are those of a plain plant, where it holds one. */
const recordForm = new RegExp(`${recordStart}(?:${plainForm}$)?`);

const copyForm =
  /^([\da-f]{8}) \{"rewrite":"([\da-f-]{36})","offset":(\d+),"size":(\d+)\}\n/;

/**
 * A plant as its record holds it: encoded once, before seq, time and offset are known.
 *
 * @throws StoreError `invalid` where its line could be too long
 */
export function plantText(plant: NewPlant): string {
  // Asked before it is encoded, too: six times as long, it may be more than a string can be.
  if (plant.name.length + (plant.tag?.length ?? 0) <= plantBytesMax) {
    const text = newPlantJson(plant);

    // A UTF-16 unit has at most three bytes in UTF-8: nearly all need not be counted.
    if (
      3 * text.length <= plantBytesMax ||
      Buffer.byteLength(text) <= plantBytesMax
    )
      return text;
  }
  throw new StoreError(
    "invalid",
    `a plant has at most ${plantBytesMax} bytes in the journal`
  );
}

/**
 * Appends a plant of a library's caller; resolves and rejects as `append` settles.
 *
 * @throws StoreError `invalid`, as a rejection
 */
export const appendPlant = (
  plant: NewPlant,
  append: AppendJson
): Promise<void> =>
  new Promise((resolve, reject) => {
    const json = plantText(checkPlant(plant));
    append(json, (error) => (error === undefined ? resolve() : reject(error)));
  });

/** The bytes of lines as `headerText` and `recordText` give them, each with its checksum. */
export function seal(lines: string): Buffer {
  const bytes = Buffer.from(lines);
  let start = 0;
  while (start < bytes.length) {
    const end = bytes.indexOf(lineFeed, start);
    const sealIndex = end - emptySeal.length;
    writeDigits(
      bytes,
      sealIndex + digitsIndex,
      crc32(bytes.subarray(start, sealIndex))
    );
    start = end + 1;
  }
  return bytes;
}

/** The journal's UUID, or undefined when the line is no header of this version. */
export function decodeHeader(line: Buffer): string | undefined {
  return isSound(line)
    ? headerForm.exec(line.toString("latin1"))?.[1]
    : undefined;
}

/**
 * Whether a file can be what a crash left of its header: a part of one, and then NULs.
 *
 * Together they are no longer than a header. A longer file may have held a record: nobody may take
 * that for nothing.
 */
export function isPartOfHeader(file: Buffer): boolean {
  if (file.length > headerBytes) return false;
  const part = file.toString("latin1").replace(/\0+$/, "");
  const missing = emptyHeader.slice(part.length, -1);
  if (missing !== "") return headerForm.test(part + missing);

  // With a NUL in the place of its LF it is a part; it is kept where only the LF is missing.
  return (
    part.length < file.length &&
    decodeHeader(file.subarray(0, part.length)) !== undefined
  );
}

export type DecodedRecord = Exclude<ReturnType<typeof decodeRecord>, string>;

/** Reads a line without its LF; `foreign` has a good checksum over what is no record. */
export function decodeRecord(line: Buffer) {
  if (!isSound(line)) return "unsound" as const;

  const text = line.toString("latin1", 0, line.length - emptySeal.length);
  const [start, seq, at = "", synced, digits] = recordForm.exec(text) ?? [];
  if (start === undefined) return "foreign" as const;

  const id =
    digits === undefined
      ? idOf(line.subarray(start.length, text.length))
      : BigInt(digits);
  if (id === undefined) return "foreign" as const;
  return { seq: Number(seq), at, synced: Number(synced), id };
}

/** The id of a plant's JSON, or undefined where it is not as `plantText` writes it. */
function idOf(json: Buffer): bigint | undefined {
  try {
    const plant = readNewPlant(json, 1);
    return Buffer.from(plantText(plant)).equals(json) ? plant.id : undefined;
  } catch {
    return undefined;
  }
}

/** The end of a file, as FILE.rewrite holds it. */
export type Copy = NonNullable<ReturnType<typeof decodeCopy>>;

export function encodeCopy({ file, offset, size, bytes }: Copy): Buffer {
  const start = `00000000 {"rewrite":"${file}","offset":${offset},"size":${size}}\n`;
  const copy = Buffer.concat([Buffer.from(start), bytes]);
  copy.write(checksum(copy.subarray(9)));
  return copy;
}

/** Undefined for what is not a whole copy. */
export function decodeCopy(copy: Buffer) {
  const [head, crc, file = "", offset, size] =
    copyForm.exec(copy.toString("latin1", 0, 160)) ?? [];
  if (head === undefined || checksum(copy.subarray(9)) !== crc)
    return undefined;
  const bytes = copy.subarray(head.length);
  return { file, offset: Number(offset), size: Number(size), bytes };
}

export const checksum = (bytes: Buffer): string =>
  crc32(bytes).toString(16).padStart(8, "0");

/** Whether a line ends with its checksum. */
function isSound(line: Buffer): boolean {
  const sealIndex = line.length - emptySeal.length;
  if (sealIndex <= 0) return false;
  writeDigits(expectedSeal, digitsIndex, crc32(line.subarray(0, sealIndex)));
  return expectedSeal.equals(line.subarray(sealIndex));
}

/** Where `isSound` writes what it expects: a buffer made for each line would cost more than it. */
const expectedSeal = Buffer.from(emptySeal);

/** A CRC's eight digits, in ASCII: for a line this is faster than its checksum's text. */
function writeDigits(bytes: Buffer, index: number, crc: number): void {
  for (let digit = 0; digit < 8; digit++) {
    const value = (crc >>> (28 - 4 * digit)) & 0xf;
    bytes[index + digit] = value + (value < 10 ? 0x30 : 0x57);
  }
}
