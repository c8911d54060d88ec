/**
 * `import` and `export`: journals into a stream, and a stream into a journal. Both may be stopped
 * anywhere.
 *
 * Into the stream: record k is published as the one behind k-1, which the stream refuses wherever
 * k is there already. So each gets in once, in order, with no window of time; who was stopped
 * begins again, and goes on behind the last that is there.
 */
import { randomUUID } from "node:crypto";
import { natsLimits } from "../config.ts";
import { openNats, type NatsStore, type Verdict } from "../engines/nats.ts";
import {
  objectOf,
  readObject,
  type Frame,
  type JsonObject
} from "../engines/protocol.ts";
import { appendAll, link, openToRead, realDisk } from "../journal/files.ts";
import { linesOf } from "../journal/lines.ts";
import { loosened, placedText } from "../engines/message.ts";
import { JournalError } from "../journal/error.ts";
import { headerText, fillChecksums } from "../journal/record.ts";
import { EngineError, StoreError } from "../store.ts";
import type { Command } from "./command.ts";
import { exitCodes } from "./exit.ts";
import type { Host } from "./host.ts";
import { progressOf, reportOn, type OnProgress } from "./report.ts";

type Given = Extract<Command, { readonly command: "import" | "export" }>;

/** Does either, and tells what was done; the exit code. */
export async function transfer(
  { command, store, files }: Given,
  host: Host
): Promise<number> {
  let records = 0;
  if (command === "import")
    for (const path of files) records += await recordsOf(path, host);

  // Where a cluster elects a leader, or comes back, the work goes on.
  const { moveMillis } = natsLimits;
  const limits = { appendMillis: moveMillis, unreachableMillis: moveMillis };
  const stream = await openNats(store, { warn: host.warn, limits });
  const onProgress = progressOf(command, host);
  try {
    if (command === "import") {
      const imported = await importJournals(stream, files, records, onProgress);
      await host.print(
        `the stream has all ${records} records, ${imported} of them from now`
      );
    } else {
      const [path = ""] = files;
      records = await exportStream(stream, path, onProgress);
      await host.print(`${path} has all ${records} records of the stream`);
    }
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
    if (error.cause instanceof EngineError) throw error.cause;
    if (error.code === "tooLarge") throw data(error.message);
    throw new EngineError("unreachable", `${error.message}; run it again`);
  } finally {
    await stream.close();
  }
  return exitCodes.done;
}

/** How many records a journal has, which must be sound: what opening mends, it mends first. */
async function recordsOf(path: string, host: Host): Promise<number> {
  const {
    records,
    spots: [spot],
    opening
  } = await reportOn(path, host);
  if (spot)
    throw data(
      `${path}: at offset ${spot.offset}: ${spot.reason}; verify tells all`
    );

  // It would grow behind what is read, or cut what was read.
  const isOpen = opening === undefined;
  if (isOpen) throw new JournalError("locked", path, "is written by a server");
  if (opening !== "uses it as it is")
    throw data(`${path}: opening ${opening}: serve it once before`);
  return records;
}

/**
 * Puts the records of sound journals, so many, into a stream, behind each other, where they are
 * not there yet.
 *
 * @returns how many were put there now
 * @throws EngineError `data` where the stream holds something else
 */
export async function importJournals(
  stream: NatsStore,
  paths: readonly string[],
  records: number,
  onProgress: OnProgress
): Promise<number> {
  const { inFlightRecordsMax, inFlightBytesMax } = stream.limits;
  const { lastSeq: known } = await stateOf(stream);
  const sending: Promise<unknown>[] = [];
  let seq = 0;
  for (const message of messagesOf(paths)) {
    seq++;

    // Each that is there is compared: where a stranger's message took the place of one, those that
    // were sent behind it may be right again.
    const isThere = seq <= known;
    // Nothing is sent before all that is there was found right.
    if (seq === known + 1) await Promise.all(sending);
    const sent = isThere
      ? expectSame(stream, seq, message)
      : stream.publish(message, `Nats-Expected-Last-Sequence: ${seq - 1}\r\n`);

    // Of many that fail the first to be waited for is told.
    sent.catch(() => undefined);
    sending.push(sent);

    // Who waits for the oldest keeps the others in flight, and their number bounded.
    const recordsMax = isThere
      ? natsLimits.fetchRecordsMax
      : inFlightRecordsMax / 2;
    const isMuch = () => stream.stats.queue.bytes > inFlightBytesMax / 2;
    while (sending.length >= recordsMax || (sending[0] && isMuch()))
      await sending.shift();
    onProgress(seq, records);
  }
  await Promise.all(sending);
  if (seq !== records)
    throw data(`the journals had ${records} records, and now have ${seq}`);
  return Math.max(0, records - known);
}

async function expectSame(
  stream: NatsStore,
  seq: number,
  message: Buffer
): Promise<void> {
  if ((await messageAt(stream, seq))?.equals(message)) return;
  throw data(
    `message ${seq} of the stream is another than record ${seq} of the journals`
  );
}

/** Every record as a message. */
function* messagesOf(paths: readonly string[]): Generator<Buffer, void> {
  for (const path of paths) {
    const file = openToRead(path);
    for (const { text } of linesOf(file, 0, file.size())) {
      const message = text && loosened(text);
      if (message) yield message;
    }
    file.close();
  }
}

/**
 * Writes the whole stream as a journal, at a path where nothing is.
 *
 * @returns how many records it has
 * @throws EngineError `data` where the stream has holes, or holds what is no record
 */
export async function exportStream(
  stream: NatsStore,
  path: string,
  onProgress: OnProgress
): Promise<number> {
  const { messages, lastSeq } = await stateOf(stream);
  if (messages !== lastSeq) {
    throw data(
      `the stream has ${messages} of the messages 1 to ${lastSeq}: others are deleted`
    );
  }
  if (realDisk.look(path)) throw data(`${path} is there already`);

  // Under another name until it is whole: half a journal would be a sound one.
  const part = `${path}.${randomUUID()}.part`;
  const file = realDisk.openBeside(part);
  try {
    let offset = 0;
    const append = async (lines: string): Promise<void> => {
      const bytes = fillChecksums(lines);
      await appendAll(file, bytes);
      offset += bytes.length;
    };
    await append(headerText(randomUUID(), new Date().toISOString()));

    for (let first = 1; first <= lastSeq; first += natsLimits.fetchRecordsMax) {
      const length = Math.min(natsLimits.fetchRecordsMax, lastSeq + 1 - first);
      const seqs = Array.from({ length }, (_, index) => first + index);
      const found = await Promise.all(
        seqs.map((seq) => messageAt(stream, seq))
      );
      await append(
        found
          .map((message, index) => {
            const text = message && placedText(message, first + index, offset);
            if (text !== undefined) return text;
            throw data(
              `message ${first + index} of the stream is no record, or is not there`
            );
          })
          .join("")
      );
      onProgress(first, lastSeq);
    }

    // What has come there meanwhile may be a journal in use: this refuses to replace it.
    link(part, path);
  } finally {
    file.close();
    realDisk.remove(part);
  }
  realDisk.syncDirectory(path);
  onProgress(lastSeq, lastSeq);
  return lastSeq;
}

async function stateOf(stream: NatsStore) {
  const { messages, last_seq: lastSeq } = objectOf(
    (await ask(stream, "STREAM.INFO"))["state"]
  );
  return { messages: Number(messages), lastSeq: Number(lastSeq) };
}

/** The leader's copy: another replica's may lag behind. */
async function messageAt(
  stream: NatsStore,
  seq: number
): Promise<Buffer | undefined> {
  const { message } = await ask(stream, "STREAM.MSG.GET", `{"seq":${seq}}`);
  const { seq: found, data: base64 } = objectOf(message);
  return found === seq
    ? Buffer.from(String(base64 ?? ""), "base64")
    : undefined;
}

/** The leader's answer; that a message is not there is one. */
async function ask(
  stream: NatsStore,
  request: string,
  body = ""
): Promise<JsonObject> {
  const noMessage = 10037;
  const judge = ({ status, payload }: Frame): Verdict => {
    const { err_code: code } = objectOf(
      readObject(status === "" ? payload : "{}")["error"]
    );
    const isAnswer =
      status === "" && (code === undefined || code === noMessage);
    return isAnswer ? "done" : "again";
  };
  const subject = `$JS.API.${request}.${stream.stream}`;
  const { payload } = await stream.send(subject, "", Buffer.from(body), judge);
  return readObject(payload);
}

const data = (message: string): EngineError => new EngineError("data", message);
