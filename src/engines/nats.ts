/**
 * The store on a replicated log: one stream of NATS JetStream, for any number of processes.
 *
 *   waits -> sent -> answered: done, or refused, or "again" -> sent …
 *
 * A lost connection is no error of an append: what is in flight is sent again, unchanged and in
 * order, on the next one; its id makes that safe. Who gives up says "not stored" only of what
 * never left, or of what nobody was there to take.
 */
import { EventEmitter } from "node:events";
import { setTimeout as pause } from "node:timers/promises";
import { looseRecord } from "./message.ts";
import type { NatsLimits } from "../config.ts";
import { appendPlant } from "../journal/record.ts";
import {
  appendJson,
  EngineError,
  StoreError,
  type AppendJson,
  type PlantStore,
  type StoreEvents
} from "../store.ts";
import type { NewPlant } from "../plant.ts";
import type { JournalError } from "../journal/error.ts";
import { settingsOf, type NatsOptions, type Settings } from "./address.ts";
import {
  headersOf,
  objectOf,
  randomId,
  readObject,
  type Frame
} from "./protocol.ts";
import { Session } from "./session.ts";

/**
 * Opens the store at nats://user:password@host:port,host:port/STREAM?replicas=3 (see address.ts).
 * Resolves when the stream has passed its check; or when no host is there: it goes on trying, and
 * refuses plants meanwhile. Rejects with an EngineError where address, credentials, servers or
 * stream have to be put right, and with a RangeError for a limit.
 */
export async function openNats(
  url: string,
  options: NatsOptions = {}
): Promise<NatsStore> {
  const store = new NatsStore(settingsOf(url, options));
  await store.start();
  return store;
}

/** What an answer means: the one awaited, or not yet, or that there will be none. */
export type Verdict = "done" | "again" | StoreError;

interface InFlight {
  readonly subject: string;
  readonly token: string;

  /** They include the message's id: a stream stores an id once. */
  readonly headers: string;
  readonly payload: Buffer;

  /** When it is given up. */
  readonly endsAt: number;
  readonly judge: (reply: Frame) => Verdict;
  readonly settle: (outcome: Frame | StoreError) => void;

  /** When it is sent again, should no answer come. */
  dueAt: number;

  /** Attempts of which nothing is known. */
  unanswered: number;
}

export class NatsStore
  extends EventEmitter<StoreEvents<JournalError>>
  implements PlantStore
{
  readonly #settings: Settings;
  readonly #session: Session;

  /** The start of every message's id. */
  readonly #idPrefix = randomId();
  #state: "open" | "closing" | "closed" = "open";
  readonly #inFlight = new Map<string, InFlight>();
  #bytes = 0;
  #count = 0;

  /** When an answer settled something last, or there was nothing to settle. */
  #progressAt = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(settings: Settings) {
    super();
    this.#settings = settings;
    this.#session = new Session(settings, {
      onReady: () => this.#onReady(),
      onReply: (token, reply) => this.#onReply(token, reply),
      onDenied: (error) => this.#onDenied(error)
    });
  }

  /** Resolves and rejects as `openNats` does. */
  start(): Promise<void> {
    return this.#session.start();
  }

  /** The stream's name; also the subject that plants are published to. */
  get stream(): string {
    return this.#settings.stream;
  }

  /** The address without credentials. */
  get address(): string {
    return this.#settings.shown;
  }

  get limits(): NatsLimits {
    return this.#settings.limits;
  }

  /** What is in flight; and whether a server is there, or was a moment ago. */
  get stats() {
    return {
      queue: { records: this.#inFlight.size, bytes: this.#bytes },
      isReachable: this.#session.isReachable
    };
  }

  /** Resolves when a quorum has it on stable storage; rejects with a StoreError. */
  append(plant: NewPlant): Promise<void> {
    return appendPlant(plant, this.#append);
  }

  readonly #append: AppendJson = (json, settle) => {
    const begun = performance.now();
    this.publish(looseRecord(new Date().toISOString(), json)).then(() => {
      settle();
      this.#session.reportRecovery();
      this.emit("batch", 1, performance.now() - begun);
    }, settle);
  };

  readonly [appendJson] = {
    of: NatsStore.prototype.append,
    append: this.#append
  };

  /** Adds a message, once; `place` is a header that says where, or nothing. */
  publish(payload: Buffer, place = ""): Promise<Frame> {
    const { stream } = this.#settings;
    const headers = `Nats-Expected-Stream: ${stream}\r\n${place}`;
    return this.send(stream, headers, payload, (reply) => judge(reply, stream));
  }

  /**
   * Sends a message with header lines; resolves with the response that is "done", within
   * `appendMillis`; rejects with a StoreError.
   */
  send(
    subject: string,
    lines: string,
    payload: Buffer,
    judge: InFlight["judge"]
  ) {
    return new Promise<Frame>((resolve, reject) => {
      const {
        appendMillis,
        inFlightRecordsMax,
        inFlightBytesMax,
        retryMillis
      } = this.limits;
      if (this.#state !== "open")
        throw new StoreError("closed", "the store is closed");

      // To hold what nobody may ever take would only fill the memory, and keep clients waiting.
      if (!this.#session.isReachable) throw unreachable();
      const token = String(++this.#count);
      const id = `Nats-Msg-Id: ${this.#idPrefix}.${token}\r\n`;
      const headers = headersOf(id, lines);
      const bytes = headers.length + payload.length;
      const isFull = this.#inFlight.size >= inFlightRecordsMax;
      if (isFull || this.#bytes + bytes > inFlightBytesMax) throw busy();
      const now = performance.now();
      if (this.#inFlight.size === 0) this.#progressAt = now;
      const settle = (outcome: Frame | StoreError): void => {
        this.#inFlight.delete(token);
        this.#bytes -= bytes;
        if (outcome instanceof StoreError) reject(outcome);
        else resolve(outcome);
      };
      const request = {
        subject,
        token,
        headers,
        payload,
        judge,
        settle,
        endsAt: now + appendMillis,
        dueAt: 0,
        unanswered: 0
      };
      this.#inFlight.set(token, request);
      this.#bytes += bytes;
      this.#timer ??= setTimeout(() => this.#tick(), retryMillis);
      this.#transmit(request);
    });
  }

  /** Takes no more; resolves when all in flight is settled, after its deadline at most. */
  async close(): Promise<void> {
    if (this.#state === "open") this.#state = "closing";

    // Each is settled by its deadline, whatever the cluster does.
    while (this.#inFlight.size > 0) await pause(this.limits.retryMillis);
    this.#state = "closed";
    this.#session.close();
  }

  readonly [Symbol.asyncDispose] = (): Promise<void> => this.close();

  /** The order is that of the appends: a Map keeps it. */
  #onReady(): void {
    this.#progressAt = performance.now();
    for (const request of this.#inFlight.values()) this.#transmit(request);
  }

  #onReply(token: string, reply: Frame): void {
    const request = this.#inFlight.get(token);
    if (!request) return;
    const verdict = request.judge(reply);
    if (verdict === "again") {
      request.dueAt =
        performance.now() + this.limits.retryMillis * (1 + Math.random() / 2);

      // Where nobody was there to take it, this attempt did nothing; of two, nobody knows which.
      if (reply.status === "503" && request.unanswered === 1)
        request.unanswered = 0;
      return;
    }
    this.#progressAt = performance.now();
    if (verdict === "done") return request.settle(reply);

    // With two attempts unanswered, it may have been the other that was stored.
    if (verdict.code === "unknown") this.#session.report(verdict.message);
    if (verdict.code === "full") this.emit("full");
    request.settle(request.unanswered > 1 ? unknown(verdict) : verdict);
  }

  /** Of what was sent nothing is known: the server does not say which message it was. */
  #onDenied(error: EngineError): void {
    for (const { unanswered, settle } of this.#inFlight.values()) {
      if (unanswered > 0) settle(unknown(error));
    }
  }

  #transmit(request: InFlight): void {
    const { subject, token, headers, payload, unanswered, settle } = request;
    const connection = this.#session.ready;
    if (!connection) return;

    // A longer one would make the server close the connection, for all that is in flight.
    if (headers.length + payload.length > connection.maxPayload) {
      const tooLarge = new StoreError(
        "tooLarge",
        "the server takes no message of this size"
      );
      return settle(unanswered > 0 ? unknown(tooLarge) : tooLarge);
    }
    request.unanswered++;
    request.dueAt = performance.now() + this.limits.ackTimeoutMillis;
    connection.publish(subject, token, headers, payload);
  }

  /** While something is in flight, ten times a second: who waits idle wakes nobody. */
  #tick(): void {
    const now = performance.now();
    for (const request of this.#inFlight.values()) {
      // Before, not behind: a drain that began with it lasts no longer.
      const isOver = now >= request.endsAt - this.limits.retryMillis;
      if (request.unanswered === 0 && (isOver || !this.#session.isReachable))
        request.settle(unreachable());
      else if (isOver)
        request.settle(unknown(new Error("no acknowledgement in time")));
      else if (now >= request.dueAt) this.#transmit(request);
    }

    // A server that is cut off from the others answers PING, and acknowledges nothing.
    const isBusy = this.#inFlight.size > 0;
    const isStuck = now - this.#progressAt > this.limits.noProgressMillis;
    if (isBusy && isStuck) this.#session.leave("it acknowledges nothing");
    this.#timer = isBusy
      ? setTimeout(() => this.#tick(), this.limits.retryMillis)
      : undefined;
  }
}

/**
 * 10008, JetStream is away for now; 10071, the message before is not there yet; 10158, an earlier
 * attempt is under way; 10167, the server has too much to do.
 */
const passing: ReadonlySet<unknown> = new Set([10008, 10071, 10158, 10167]);

/** 10077, the stream's limits; 10023, 10002 and 10047, the server's and the account's. */
const full: ReadonlySet<unknown> = new Set([10002, 10023, 10047, 10077]);

/** 10054, the message; 10097, its headers. */
const tooLarge: ReadonlySet<unknown> = new Set([10054, 10097]);

/**
 * Only a number above 0, for the right stream, is an acknowledgement. What this program does not
 * know the meaning of is not called "not stored".
 */
function judge({ status, payload }: Frame, wanted: string): Verdict {
  // 503: nobody leads the stream, or there is none.
  const { stream, seq, error } =
    status === "" ? readObject(payload) : { seq: 0 };
  const { err_code: code, description = "no acknowledgement of this stream" } =
    objectOf(error);
  const reason = String(description);

  // 2.10 gives number 0 to what only a leader without a quorum has.
  if (passing.has(code) || (error === undefined && seq === 0)) return "again";
  const isStored =
    stream === wanted && Number.isSafeInteger(seq) && Number(seq) > 0;
  if (error === undefined && isStored) return "done";
  if (full.has(code) || /no space left/.test(reason))
    return new StoreError("full", reason);
  return new StoreError(tooLarge.has(code) ? "tooLarge" : "unknown", reason);
}

const busy = (): StoreError => new StoreError("busy", "too much is in flight");
const unreachable = (): StoreError =>
  new StoreError("unreachable", "no server is connected");
const unknown = (cause: Error): StoreError =>
  new StoreError("unknown", cause.message, { cause });

export { EngineError, type NatsOptions };
export type { NatsLimits };
