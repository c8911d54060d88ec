/** The store on a replicated log: one stream of NATS JetStream, for any number of processes. */
import { EventEmitter } from "node:events";
import type { JournalError } from "../journal/error.ts";
import type { NewPlant } from "../plant.ts";
import { methodsOf, shareOutcomes } from "../append.ts";
import {
  conflict,
  StoreError,
  type Outcome,
  type PlantStore,
  type Receipt,
  type StoreEvents
} from "../store.ts";
import { ExitError } from "../failure.ts";
import {
  settingsOf,
  type NatsOptions,
  type StreamSettings
} from "./address.ts";
import { InFlight, type Verdict } from "./in-flight.ts";
import type { NatsLimits } from "./limits.ts";
import { decodeMessage, encodeMessage } from "./message.ts";
import {
  errorOf,
  headersOf,
  objectOf,
  randomId,
  type JsonObject
} from "./protocol.ts";

/**
 * Opens the store at nats://host:port,host:port/STREAM?replicas=3 (see address.ts).
 *
 * Resolves when the stream has passed its check. If no host can be reached, it resolves, too: the
 * store keeps trying, and refuses plants meanwhile.
 *
 * @throws ExitError if address, credentials, servers or stream have to be corrected, RangeError
 * for a limit
 */
export async function openNats(
  url: string,
  options: NatsOptions = {}
): Promise<NatsStore> {
  const settings = settingsOf(url, options);
  const inFlight = new InFlight(settings);
  await inFlight.session.start();
  return new NatsStore(settings, inFlight);
}

export class NatsStore
  extends EventEmitter<StoreEvents<JournalError>>
  implements PlantStore
{
  readonly #settings: StreamSettings;
  readonly #inFlight: InFlight;
  #isClosed = false;

  /** The start of the ids of this process's messages. */
  readonly #idPrefix = randomId();
  #count = 0;

  /** The highest number of an acknowledged message that was new, on the stream that is used now. */
  #lastSeq = 0;

  /** Resolves once a quorum has the plant on stable storage; rejects with a StoreError. */
  readonly append: (plant: NewPlant) => Promise<Receipt>;

  /**
   * Stores a plant unless the stream has the key, within its duplicate window. A second call while
   * the first one is in progress shares its outcome. Undefined if the option `keys` is false.
   */
  readonly appendOnce: PlantStore["appendOnce"];

  constructor(settings: StreamSettings, inFlight: InFlight) {
    super();
    this.#settings = settings;
    this.#inFlight = inFlight;
    const methods = methodsOf(this.#append, settings.keys);
    this.append = methods.append;
    this.appendOnce = methods.appendOnce;
  }

  /** The messages in flight, and whether a server is reachable, or was a moment ago. */
  get stats() {
    return this.#inFlight.stats;
  }

  readonly #append = shareOutcomes(
    (json, key) => this.#store(json, key),
    () => this.#inFlight.room
  );

  /** Reads a message by its number from the leader: another replica's copy may lag behind. One that
   * is not there is empty. */
  async #messageAt(seq: number, deadline: number) {
    const { api, stream } = this.#settings;
    const { message } = await this.#inFlight.send({
      subject: `${api}.STREAM.MSG.GET.${stream}`,
      headers: headersOf(),
      payload: Buffer.from(`{"seq":${seq}}`),
      deadline,
      limitFactor: 2,
      judge: (result) => {
        // Any response of the leader's is a result, and so is 10037: there is no such message.
        const { err_code: code = 10037 } = objectOf(result["error"]);
        return code === 10037 ? result : "again";
      }
    });
    const { data = "", hdrs = "" } = objectOf(message);
    const decode = (text: unknown) => Buffer.from(String(text), "base64");
    return { payload: decode(data), headers: decode(hdrs) };
  }

  /** Takes no more; resolves when everything in flight is settled. */
  async close() {
    this.#isClosed = true;
    await this.#inFlight.drain();
    this.#inFlight.session.close();
  }

  readonly [Symbol.asyncDispose] = () => this.close();

  async #store(json: string, key?: string): Promise<Outcome> {
    if (this.#isClosed) throw new StoreError("closed", "the store is closed");
    const begunAt = performance.now();
    const seqBefore = this.#lastSeq;
    const deadline = begunAt + this.#settings.limits.appendMillis;
    const payload = encodeMessage(new Date().toISOString(), json, key);

    // A snapshot of the machine copies this process, and the copy counts the same numbers. An id
    // ends with the record's checksum, so that no copy takes another plant's acknowledgement.
    const id = `${this.#idPrefix}.${++this.#count}.${payload.subarray(-10, -2)}`;
    const ack = await this.#publish(payload, deadline, id, key);
    const seq = Number(ack["seq"]);
    if (ack["duplicate"] !== true) {
      // A message gets a higher number than all that were acknowledged before it was sent, unless
      // another stream has taken the place of this one. Acknowledgements of messages that are in
      // flight together may arrive in any order, as after a change of the leader. `#lastSeq` is the
      // lower number if another stream was already found while the message was in flight.
      const isPassed = seq <= Math.min(seqBefore, this.#lastSeq);
      if (isPassed)
        this.#inFlight.session.ready?.close(
          "it acknowledged a number that was passed before: the stream may be another"
        );
      this.#lastSeq = isPassed ? seq : Math.max(seq, this.#lastSeq);
    } else if (key !== undefined) {
      // Never trusts an id alone: reads what the stream has under that number.
      const stored = await this.#messageAt(seq, deadline).catch(
        () => undefined
      );
      const record = stored && decodeMessage(stored.payload);
      if (record?.key !== key)
        throw unknown("cannot read the message that has the key");
      if (record.plant !== json) throw conflict();

      // With this id, the message is an earlier attempt of this very call.
      if (!stored?.headers.includes(id)) return { json, isReplay: true };
    }
    this.#inFlight.session.reportRecovery();

    // A listener that throws does not change the outcome.
    const millis = performance.now() - begunAt;
    queueMicrotask(() => this.emit("batch", 1, millis));
    return { json, receipt: { seq } };
  }

  /**
   * Publishes a record; resolves with the acknowledgement.
   *
   * @param id an id that no other message has
   * @param key a client's key: the stream stores one message with it
   */
  #publish(payload: Buffer, deadline: number, id: string, key?: string) {
    const { stream, subject } = this.#settings;
    return this.#inFlight.send({
      subject,
      headers: headersOf(
        `Nats-Msg-Id: ${key ?? id}\r\n`,
        `Nats-Expected-Stream: ${stream}\r\n`,
        key === undefined ? "" : `Plant-Message-Id: ${id}\r\n`
      ),
      payload,
      deadline,
      limitFactor: key === undefined ? 1 : 2,

      // A message is its own duplicate only if an earlier attempt may have been stored. Requests of
      // many processes may have the same key.
      judge: (response, isRepeated) => {
        const { domain } = this.#inFlight.session;
        const mayBeKnown = key !== undefined || isRepeated;
        const verdict = judgeAck(response, stream, domain, mayBeKnown);
        if (verdict instanceof StoreError && verdict.code === "full")
          queueMicrotask(() => this.emit("full"));
        return verdict;
      }
    });
  }
}

const unknown = (reason: string) => new StoreError("unknown", reason);

/** The stream is storing another message with this id. */
const inProcess = 10158;

/** The meanings of a server's errors. Any other error may come after the message was stored. */
const meanings = new Map<unknown, "again" | "full" | "tooLarge">([
  // JetStream is away for now; the message before is not there yet; the server is overloaded.
  [10008, "again"],
  [10071, "again"],
  [10167, "again"],
  [inProcess, "again"],

  // The message; its headers.
  [10054, "tooLarge"],
  [10097, "tooLarge"],

  // The quota of the account; the storage of a server; the limits of the stream. 10077 has other
  // texts, too.
  [10002, "full"],
  [10023, "full"],
  ["10077 maximum messages exceeded", "full"],
  ["10077 maximum bytes exceeded", "full"]
]);

/**
 * Only a number above 0 of the expected stream is an acknowledgement. A response that this program
 * does not know never counts as "not stored".
 *
 * A response of another stream settles nothing: a leaf node may keep a copy of the subject. An
 * acknowledgement also names the stream's domain.
 *
 * @param mayBeKnown whether the stream may have, or be storing, a message with the same id
 */
function judgeAck(
  ack: JsonObject,
  expected: string,
  domain: unknown,
  mayBeKnown: boolean
): Verdict {
  const { stream, seq, duplicate, error } = ack;
  if (stream !== expected || (error === undefined && ack["domain"] !== domain))
    return "ignored";
  const { code, text } = errorOf(ack);
  if (!mayBeKnown && (duplicate === true || code === inProcess))
    return unknown("another process has used the same message id");

  if (error === undefined) {
    // Not committed: only a leader without a quorum has the message.
    if (seq === 0) return "again";
    if (Number.isSafeInteger(seq) && Number(seq) > 0) return ack;
  }
  const meaning = meanings.get(code) ?? meanings.get(`${Number(code)} ${text}`);
  return meaning === "again"
    ? meaning
    : new StoreError(meaning ?? "unknown", error ? text : "no acknowledgement");
}

export { ExitError, type NatsLimits, type NatsOptions };
