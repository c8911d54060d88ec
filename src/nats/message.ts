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
import { ifPossible } from "../failure.ts";
import {
  decodeRecord,
  fillChecksums,
  keyText,
  placeholderCrc,
  plantIn,
  recordText,
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

/** Returns a journal's line, without its LF, as a message; undefined if it is not a record. */
export function toMessage(line: Buffer): Buffer | undefined {
  const record = decodeRecord(line);
  return (
    record && encodeMessage(record.at, plantIn(line).toString(), record.key)
  );
}

/**
 * Returns a message as a journal's line, for `fillChecksums`; undefined if its bytes are not those
 * of a message, or its key or plant is not valid.
 */
export function fromMessage(message: Buffer, seq: number, offset: number) {
  const decoded = decodeMessage(message);
  if (!decoded) return undefined;
  const { at, key, plant } = decoded;

  // Any client of the stream may have sent it: a journal's line must stay JSON.
  if (ifPossible(() => JSON.parse(plant)) === undefined) return undefined;
  const line = recordText(seq, at, offset, plant, key);
  return decodeRecord(fillChecksums(line).subarray(0, -1)) ? line : undefined;
}
