/**
 * A record outside of a file, as a message of a replicated stream holds it.
 *
 *   loose = {"at":TIME,"plant":NEWPLANT,"crc":CRC}
 *
 * at      when its append was begun; the forms of at, plant and crc are those of record.ts
 * plant   byte for byte as in a file
 * crc     of the bytes before `,"crc"`
 *
 * It has no seq: the stream numbers it, when it is already written. Nor has it an offset.
 */
import {
  decodeRecord,
  fillChecksums,
  placeholderCrc,
  recordText,
  timeOf
} from "../journal/record.ts";

/** Time and plant of a record, in a file or outside of one. */
const form =
  /"at":"([^"]{24})",(?:"synced":\d+,)?"plant":(.*),"crc":"[^"]{8}"}$/s;

/** @throws RangeError for a time that no record can have */
export const looseRecord = (at: string, plant: string): Buffer =>
  fillChecksums(
    `{"at":"${timeOf(at)}","plant":${plant}${placeholderCrc}\n`
  ).subarray(0, -1);

/** A line of a file, without its LF and its place; undefined where it is no sound record. */
export function loosened(line: Buffer): Buffer | undefined {
  const [, at, plant = ""] = form.exec(line.toString()) ?? [];
  return at && typeof decodeRecord(line) === "object"
    ? looseRecord(at, plant)
    : undefined;
}

/**
 * The same with its place in a file, as `fillChecksums` takes it; undefined for what `looseRecord` does not
 * make, byte for byte, and for what is no plant.
 */
export function placedText(
  loose: Buffer,
  seq: number,
  offset: number
): string | undefined {
  const [, at, plant = ""] = form.exec(loose.toString()) ?? [];
  if (!at || !looseRecord(at, plant).equals(loose)) return undefined;
  const text = recordText(seq, at, offset, plant);
  return typeof decodeRecord(fillChecksums(text).subarray(0, -1)) === "object"
    ? text
    : undefined;
}
