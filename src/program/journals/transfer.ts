/**
 * `import` and `export`: copy journals into a stream, and a stream into a journal.
 *
 * Either can be stopped at any point and run again. An import publishes record k as the message
 * after number k-1; the stream refuses it if that place is taken. So each record is stored once and
 * in order, without a window of time, and a second run continues after the last message.
 */
import { randomUUID } from "node:crypto";
import { natsLimits, transferLimits } from "../../nats/limits.ts";
import type { NatsStore } from "../../nats/nats.ts";
import { appendAll, link, openToRead, realDisk } from "../../journal/files.ts";
import { linesOf } from "../../journal/lines.ts";
import { fromMessage, toMessage } from "../../nats/message.ts";
import { attempt, JournalError } from "../../journal/error.ts";
import { headerText, fillChecksums } from "../../journal/record.ts";
import { StoreError } from "../../store.ts";
import { ExitError } from "../../failure.ts";
import type { Host } from "../host.ts";
import { openStream } from "../open-store.ts";
import { progressOf, reportOn, type OnProgress } from "./verify.ts";
import { isStream, type Config } from "../settings.ts";

/** Does the command `import` or `export`, and prints what was done. */
export async function transfer(
  command: string,
  files: readonly string[],
  config: Config,
  host: Host
) {
  if (!isStream(config.store))
    throw new ExitError(
      "usage",
      `${command} needs a stream as --store or PLANTS_STORE`
    );
  let records = 0;
  for (const path of files)
    if (command === "import") records += await recordsOf(path, host);
    else attempt("failed", path, () => realDisk.resolve(path, host.userId));

  // Waits while a cluster elects a leader or restarts: no client waits for a single response.
  const { noProgressMillis } = transferLimits;
  const stream = await openStream(config, host, {
    isReadOnly: command === "export",
    limits: {
      appendMillis: Math.max(noProgressMillis, config.storeAppendMillis),
      unreachableMillis: noProgressMillis
    }
  });
  try {
    if (command === "import") {
      const onProgress = progressOf("import", host);
      const sent = await importJournals(stream, files, records, onProgress);
      await host.print(`the stream has all ${records} records, ${sent} new`);
    } else {
      const [path = ""] = files;
      records = await exportStream(stream, path, progressOf("export", host));
      await host.print(`${path} has all ${records} records of the stream`);
    }
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
    if (error.cause instanceof ExitError) throw error.cause;
    if (error.code === "tooLarge") throw data(error.message);
    throw new ExitError("unreachable", `${error.message}; run it again`);
  } finally {
    await stream.close();
  }
}

/**
 * Verifies a journal, and returns the number of its records.
 *
 * @throws ExitError `data` if it is damaged, or if opening would repair it; JournalError `locked`
 * for a journal that may grow, or be truncated, while it is read
 */
async function recordsOf(path: string, host: Host) {
  const {
    records,
    spots: [spot],
    isOpen,
    opening
  } = await reportOn(path, host);
  if (spot)
    throw data(
      `${path}: at offset ${spot.offset}: ${spot.reason}; verify reports more`
    );
  if (isOpen) throw new JournalError("locked", path, "is written by a server");
  if (opening !== "uses it as it is")
    throw data(`${path}: opening ${opening}: serve it once before`);
  return records;
}

/**
 * Puts the records of clean journals, `records` in all, into a stream as its first messages.
 * Compares the messages that the stream has already, then sends the others.
 *
 * @returns the number of records that were sent
 * @throws ExitError `data` if the stream or a journal has other content than expected
 */
export async function importJournals(
  stream: NatsStore,
  paths: readonly string[],
  records: number,
  onProgress: OnProgress
) {
  const { lastSeq } = await stream.state();
  const known = Math.min(lastSeq, records);
  const changed = data(
    `a journal changed during the import: expected ${records} records`
  );
  const messages = messagesOf(paths);
  let seq = 0;
  const proceedTo = async (
    end: number,
    step: (seq: number, message: Buffer) => Promise<void>
  ) => {
    while (seq < end) {
      const batch = nextBatch(messages, end - seq);
      if (batch.length === 0) throw changed;
      await Promise.all(batch.map((message) => step(++seq, message)));
      onProgress(seq, records);
    }
  };

  // Compares each message: if another client's message took the place of a record, the messages
  // after it may be right again. Nothing is sent before all of them have been compared.
  await proceedTo(known, async (place, message) => {
    if (!(await stream.messageAt(place)).payload.equals(message))
      throw data(
        `message ${place} of the stream is not record ${place} of the journals: ${advice}`
      );
  });
  await proceedTo(records, (place, message) =>
    stream.publishAfter(place - 1, message)
  );
  if (!messages.next().done) throw changed;
  if ((await stream.state()).lastSeq > records)
    throw data(
      `the stream has messages after the ${records} records: ${advice}`
    );
  return records - known;
}

const advice =
  "import into an empty stream, or continue an import of the same journals";

/** Returns the next messages, at most `most` and half of what a store may have in flight. */
function nextBatch(messages: Iterator<Buffer>, most: number) {
  const recordsMax = Math.min(most, natsLimits.inFlightRecordsMax / 2);
  const batch: Buffer[] = [];
  let bytes = 0;
  while (batch.length < recordsMax && bytes < natsLimits.inFlightBytesMax / 2) {
    const { value } = messages.next();
    if (!value) break;
    batch.push(value);
    bytes += value.length;
  }
  return batch;
}

/** Returns every record of the journals as a message. */
function* messagesOf(paths: readonly string[]) {
  for (const path of paths) {
    const file = openToRead(path);
    for (const { text } of linesOf(file, 0, file.size())) {
      const message = text && toMessage(text);
      if (message) yield message;
    }
    file.close();
  }
}

/**
 * Writes the whole stream as a journal, at a path where no file exists.
 *
 * @returns the number of its records
 * @throws ExitError `data` if the stream has holes, or a message that is not a record
 */
export async function exportStream(
  stream: NatsStore,
  path: string,
  onProgress: OnProgress
) {
  const { messages, lastSeq } = await stream.state();
  if (messages !== lastSeq)
    throw data(
      `the stream has ${messages} of the messages 1 to ${lastSeq}: others are deleted`
    );
  if (realDisk.look(path)) throw data(`${path} exists`);

  // Has another name until it is complete, because half a journal looks like a clean one.
  const part = `${path}.${randomUUID()}.part`;
  const file = realDisk.openBeside(part);
  try {
    const append = (lines: string) => appendAll(file, fillChecksums(lines));
    const lineAt = async (seq: number, synced: number) => {
      const { payload } = await stream.messageAt(seq);
      const line = fromMessage(payload, seq, synced);
      if (line !== undefined) return line;
      throw data(`message ${seq} of the stream is missing, or not a record`);
    };
    await append(headerText(randomUUID(), new Date().toISOString()));
    for (let seq = 0; seq < lastSeq;) {
      const synced = file.size();
      const length = Math.min(transferLimits.fetchRecordsMax, lastSeq - seq);
      const lines = await Promise.all(
        Array.from({ length }, () => lineAt(++seq, synced))
      );
      await append(lines.join(""));
      onProgress(seq, lastSeq);
    }

    // A file that has appeared at the path may be a journal in use: link does not replace it.
    link(part, path);
  } finally {
    file.close();
    realDisk.remove(part);
  }
  realDisk.syncDirectory(path);
  return lastSeq;
}

const data = (message: string) => new ExitError("data", message);
