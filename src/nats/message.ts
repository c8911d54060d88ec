/**
 * A record as a message of a stream.
 *
 *   message = {"at":TIME,["key":KEY,]"plant":NEWPLANT,"crc":CRC}
 *
 * at      when its append began
 * key     the digest of a client's Idempotency-Key
 * plant   the same bytes as in a journal
 * crc     CRC-32 of the bytes before `,"crc"`
 *
 * TIME, KEY, NEWPLANT and CRC are those of record.ts. A message has no seq and no offset: the
 * stream numbers it.
 */
import {
  fillChecksums,
  keyText,
  placeholderCrc,
  timeOf
} from "../journal/record.ts";

/** Time, key and plant in a message; also in others, which are not equal to what these become. */
const messageForm =
  /"at":"(.{24})"(?:,"key":"(.{22})")?,"plant":([^\n]*),"crc"/;

/** @throws RangeError for a time that a record cannot have */
export const encodeMessage = (
  at: string,
  plant: string,
  key?: string
): Buffer =>
  fillChecksums(
    `{"at":"${timeOf(at)}"${keyText(key)},"plant":${plant}${placeholderCrc}\n`
  ).subarray(0, -1);

/** Returns the members of a message; undefined if its bytes are not those of a message. */
export function decodeMessage(message: Buffer) {
  const [, at, key, plant = ""] = messageForm.exec(message.toString()) ?? [];
  return at && encodeMessage(at, plant, key).equals(message)
    ? { at, key, plant }
    : undefined;
}
