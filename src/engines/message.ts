/**
 * A record as a message of a stream.
 *
 *   message = {"at":TIME,"plant":NEWPLANT,"crc":CRC}
 *
 * at      when its append began
 * plant   the same bytes as in a journal
 * crc     CRC-32 of the bytes before `,"crc"`
 *
 * TIME, NEWPLANT and CRC are those of record.ts. A message has no seq and no offset: the stream
 * numbers it.
 */
import {
  decodeRecord,
  fillChecksums,
  placeholderCrc,
  recordText,
  timeOf
} from "../journal/record.ts";

/** Time and plant, of a message or of a journal's line. */
const form =
  /"at":"([^"]{24})",(?:"synced":\d+,)?"plant":(.*),"crc":"[^"]{8}"}$/s;

/** @throws RangeError for a time that a record cannot have */
export const encodeMessage = (at: string, plant: string): Buffer =>
  fillChecksums(
    `{"at":"${timeOf(at)}","plant":${plant}${placeholderCrc}\n`
  ).subarray(0, -1);

/** Returns a journal's line, without its LF, as a message; undefined if it is not a record. */
export function toMessage(line: Buffer): Buffer | undefined {
  const [, at, plant = ""] = form.exec(line.toString()) ?? [];
  return at && typeof decodeRecord(line) === "object"
    ? encodeMessage(at, plant)
    : undefined;
}

/**
 * Returns a message as a journal's line, for `fillChecksums`; undefined if its bytes are not those
 * of a message, or its plant is not valid.
 */
export function fromMessage(
  message: Buffer,
  seq: number,
  offset: number
): string | undefined {
  const [, at, plant = ""] = form.exec(message.toString()) ?? [];
  if (!at || !encodeMessage(at, plant).equals(message)) return undefined;
  const line = recordText(seq, at, offset, plant);
  return typeof decodeRecord(fillChecksums(line).subarray(0, -1)) === "object"
    ? line
    : undefined;
}
