/** The store on a replicated log: one stream of NATS JetStream, for any number of processes. */
import { EventEmitter } from "node:events";
import type { NatsLimits } from "../config.ts";
import type { JournalError } from "../journal/error.ts";
import { appendPlant } from "../journal/record.ts";
import type { NewPlant } from "../plant.ts";
import {
  appendJson,
  EngineError,
  StoreError,
  type AppendJson,
  type PlantStore,
  type StoreEvents
} from "../store.ts";
import { settingsOf, type NatsOptions, type Settings } from "./address.ts";
import { InFlight, type Verdict } from "./in-flight.ts";
import { encodeMessage } from "./message.ts";
import {
  headersOf,
  objectOf,
  randomId,
  readObject,
  type Frame,
  type JsonObject
} from "./protocol.ts";

/**
 * Opens the store at nats://host:port,host:port/STREAM?replicas=3 (see address.ts).
 *
 * Resolves when the stream has passed its check. If no host can be reached, it resolves, too: the
 * store keeps trying, and refuses plants meanwhile.
 *
 * @throws EngineError if address, credentials, servers or stream have to be corrected, RangeError
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
  readonly #settings: Settings;
  readonly #inFlight: InFlight;
  #isClosed = false;

  /** The start of every message's id; another one after a collision. */
  #idPrefix = randomId();
  #count = 0;

  /** The number of the message that was acknowledged last, of those that were new. */
  #lastSeq = 0;

  constructor(settings: Settings, inFlight: InFlight) {
    super();
    this.#settings = settings;
    this.#inFlight = inFlight;
  }

  /** The address without credentials. */
  get address(): string {
    return this.#settings.shown;
  }

  get limits(): NatsLimits {
    return this.#settings.limits;
  }

  /** What is in flight; and whether a server is reachable, or was a moment ago. */
  get stats() {
    return {
      queue: this.#inFlight.queue,
      isReachable: this.#inFlight.session.isReachable
    };
  }

  /** Resolves once a quorum has the plant on stable storage; rejects with a StoreError. */
  async append(plant: NewPlant): Promise<void> {
    await appendPlant(plant, this.#append);
  }

  readonly #append: AppendJson = (json, settle) => {
    const begunAt = performance.now();
    const payload = encodeMessage(new Date().toISOString(), json);
    const deadline = begunAt + this.limits.appendMillis;
    this.#publish(payload, "", deadline).then(
      () => {
        settle();
        this.#inFlight.session.reportRecovery();
        this.emit("batch", 1, performance.now() - begunAt);
      },
      (error: unknown) => {
        if (error instanceof StoreError && error.code === "full")
          this.emit("full");
        settle(error);
      }
    );
  };

  readonly [appendJson] = {
    append: NatsStore.prototype.append,
    variant: this.#append
  };

  /** Adds a message as the one after number `last`, and only there, however often it is sent. */
  async publishAfter(last: number, payload: Buffer): Promise<void> {
    const lines = `Nats-Expected-Last-Sequence: ${last}\r\n`;
    await this.#publish(payload, lines);
  }

  /** The number of the stream's messages, and the last one's number. */
  async state() {
    const { state } = await this.#ask("STREAM.INFO");
    const { messages, last_seq: lastSeq } = objectOf(state);
    return { messages: Number(messages), lastSeq: Number(lastSeq) };
  }

  /** Reads a message by its number from the leader: another replica's copy may lag behind. */
  async messageAt(seq: number): Promise<Buffer | undefined> {
    const { message } = await this.#ask("STREAM.MSG.GET", `{"seq":${seq}}`);
    const { seq: found, data } = objectOf(message);
    return found === seq
      ? Buffer.from(String(data ?? ""), "base64")
      : undefined;
  }

  /** Takes no more; resolves when everything in flight is settled. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#inFlight.drain();
    this.#inFlight.session.close();
  }

  readonly [Symbol.asyncDispose] = (): Promise<void> => this.close();

  async #publish(
    payload: Buffer,
    lines: string,
    deadline?: number
  ): Promise<void> {
    if (this.#isClosed) throw new StoreError("closed", "the store is closed");
    const { stream } = this.#settings;
    const prefix = this.#idPrefix;
    const id = `${prefix}.${++this.#count}`;
    const { seq, duplicate } = await this.#inFlight.send({
      subject: stream,
      headers: headersOf(
        `Nats-Msg-Id: ${id}\r\nNats-Expected-Stream: ${stream}\r\n`,
        lines
      ),
      payload,
      deadline,
      judge: ({ status, payload: response }, unanswered) => {
        // A status, 503: nobody leads the stream, or there is none.
        const ack = status === "" ? readObject(response) : { seq: 0 };

        // A message is its own duplicate only if an earlier attempt may have been stored. A copy of
        // this process, made by a snapshot of its machine, uses the same ids.
        const canBeOwn = unanswered > 1 && prefix === this.#idPrefix;
        if (canBeOwn || !isDuplicate(ack)) return judgeAck(ack, this.#settings);
        this.#idPrefix = randomId();
        return new StoreError("unknown", collision);
      }
    });
    if (duplicate === true) return;

    // Numbers only grow, unless another stream has taken the place of this one.
    if (Number(seq) <= this.#lastSeq) this.#inFlight.session.checkNow();
    this.#lastSeq = Number(seq);
  }

  /** Asks the stream's leader. */
  #ask(request: string, body = ""): Promise<JsonObject> {
    return this.#inFlight.send({
      subject: `${this.#settings.api}.${request}.${this.#settings.stream}`,
      headers: headersOf(),
      payload: Buffer.from(body),
      deadline: undefined,
      judge: judgeAnswer
    });
  }
}

/**
 * 10008: JetStream is away for now. 10071: the message before is not there yet. 10158: an earlier
 * attempt is in process. 10167: the server is overloaded.
 */
const passing: ReadonlySet<unknown> = new Set([10008, 10071, 10158, 10167]);

/** 10054: the message. 10097: its headers. */
const tooLarge: ReadonlySet<unknown> = new Set([10054, 10097]);

/** Other texts under this number report an error that may come after the message was stored. */
const full: ReadonlySet<unknown> = new Set([
  "10077 maximum messages exceeded",
  "10077 maximum bytes exceeded"
]);

/** 10158: the earlier message with this id is still in process. */
const isDuplicate = ({ duplicate, error }: JsonObject): boolean =>
  duplicate === true || objectOf(error)["err_code"] === 10158;

const collision =
  "another process has used the same message ids: was this one cloned?";

/**
 * Only a number above 0 of the expected stream is an acknowledgement. A response that this program
 * does not know never counts as "not stored".
 */
function judgeAck(
  ack: JsonObject,
  { stream: expected, allowsOldServer }: Settings
): Verdict<JsonObject> {
  const { stream, seq, error } = ack;
  const { err_code: code, description = "no acknowledgement of this stream" } =
    objectOf(error);
  const reason = String(description);

  // 2.10 gives number 0 to a message that only a leader without a quorum has.
  if (passing.has(code) || (error === undefined && seq === 0)) return "again";
  const isStored =
    stream === expected && Number.isSafeInteger(seq) && Number(seq) > 0;
  if (error === undefined && isStored) return { result: ack };

  // 10023: a server's storage is full. 2.11 responds with it after the message was stored.
  const isFull =
    full.has(`${Number(code)} ${reason}`) ||
    (code === 10023 && !allowsOldServer);
  if (isFull) return new StoreError("full", reason);
  return new StoreError(tooLarge.has(code) ? "tooLarge" : "unknown", reason);
}

/** Any response of the leader's is a result, and so is 10037: there is no such message. */
function judgeAnswer({ status, payload }: Frame): Verdict<JsonObject> {
  if (status !== "") return "again";
  const result = readObject(payload);
  const { err_code: code = 10037 } = objectOf(result["error"]);
  return code === 10037 ? { result } : "again";
}

export { EngineError, type NatsLimits, type NatsOptions };
