/**
 * Messages in flight: sends each one, sends it again where that is safe, and settles it once.
 *
 *   sent -> response: a result, an error, or "again" -> sent …
 *
 * A lost connection fails nothing: the next one sends everything again, unchanged and in order. The
 * message's id makes that safe. A message that is given up counts as not stored in two cases: it
 * was never sent, or after each attempt the server reported that nobody took it.
 */
import { setTimeout as pause } from "node:timers/promises";
import type { NatsLimits } from "../config.ts";
import { StoreError, type EngineError } from "../store.ts";
import type { Settings } from "./address.ts";
import { duplicateWindowMillis } from "./checks.ts";
import type { Frame, JsonObject } from "./protocol.ts";
import { Session } from "./session.ts";

/**
 * The meaning of a response: a result, or an error. "again": send the message once more, a little
 * later. "not taken": the same, and this attempt has stored nothing.
 */
export type Verdict = JsonObject | "again" | "not taken" | StoreError;

interface Message {
  readonly subject: string;

  /** With an id in them, a stream stores the message once, however often it is sent. */
  readonly headers: string;
  readonly payload: Buffer;

  /**
   * The time to give up, in milliseconds of performance.now(). Undefined: `appendMillis` after the
   * last progress of any message; such a message must be safe to send at any later time.
   */
  readonly deadline: number | undefined;

  /** What may be, or is needed for, a replay has as much room again: a full queue replays, too. */
  readonly room: "for plants" | "for replays";

  /** Called with a response, and the number of attempts that may have stored the message. */
  readonly judge: (reply: Frame, unanswered: number) => Verdict;
}

interface Entry extends Message {
  readonly token: string;
  readonly resolve: (result: JsonObject) => void;
  readonly reject: (error: Error) => void;

  /** The time of its arrival, by the clock that a suspended machine does not stop. */
  readonly begunAtDate: number;

  /** The number of the attempt that has no response yet. */
  attempt: number | undefined;

  /** The earliest time of the next attempt. */
  dueAt: number;

  /** The number of attempts that may have stored it. */
  unanswered: number;
}

export class InFlight {
  readonly session: Session;
  readonly #limits: NatsLimits;
  readonly #entries = new Map<string, Entry>();
  #records = 0;
  #bytes = 0;

  /** Numbers messages and attempts, and the latest attempt that has a response. */
  #number = 0;
  #answered = 0;

  /** The time of the last progress, or of the first message after an idle time. */
  #progressAt = 0;
  #readyAt = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(settings: Settings) {
    this.#limits = settings.limits;
    this.session = new Session(settings, {
      onReady: () => this.#onReady(),
      onReply: (token, reply) => this.#onReply(token, reply),
      onDenied: (error) => this.#onDenied(error)
    });
  }

  /** The messages in flight and the requests that share an outcome, with their bytes. */
  get queue() {
    return { records: this.#records, bytes: this.#bytes };
  }

  /**
   * Returns the outcome of a plant in flight for a second request, which counts as much.
   *
   * @throws StoreError `unknown` without room: the plant may be stored for the first request
   */
  async share<T>(outcome: Promise<T>, bytes: number): Promise<T> {
    if (!this.#hasRoom(bytes, "for replays"))
      throw new StoreError("unknown", tooMuch);
    this.#count(bytes);
    return outcome.finally(() => this.#uncount(bytes));
  }

  /** Sends a message; resolves with the result of its response, or rejects with a StoreError. */
  send(message: Message): Promise<JsonObject> {
    return new Promise((resolve, reject) => {
      const entry: Entry = {
        ...message,
        token: String(++this.#number),
        resolve,
        reject,
        begunAtDate: Date.now(),
        attempt: undefined,
        dueAt: 0,
        unanswered: 0
      };
      this.#admit(entry);
      if (this.#entries.size === 0) this.#progressAt = performance.now();
      this.#entries.set(entry.token, entry);
      this.#count(bytesOf(entry));
      this.#timer ??= setInterval(() => this.#tick(), this.#limits.retryMillis);
      this.#transmit(entry);
    });
  }

  /** Resolves when nothing is in flight: each message is settled by its deadline at the latest. */
  async drain(): Promise<void> {
    while (this.#entries.size > 0) await pause(this.#limits.retryMillis);
  }

  /** @throws StoreError if the message cannot be sent, or has no room */
  #admit(entry: Entry) {
    const { messageBytesMax } = this.#limits;
    const bytes = bytesOf(entry);

    // While no server can be reached, messages would fill the memory and keep clients waiting.
    if (!this.session.isReachable) throw unreachable();

    // A stored message must be readable: it comes back as base64, within other members of JSON.
    if (bytes > ((messageBytesMax - 1024) * 3) / 4) throw tooLarge();
    if (!this.#hasRoom(bytes, entry.room))
      throw new StoreError("busy", tooMuch);
  }

  #hasRoom(bytes: number, room: Message["room"]) {
    const { inFlightRecordsMax, inFlightBytesMax } = this.#limits;
    const factor = room === "for replays" ? 2 : 1;
    return (
      this.#records < factor * inFlightRecordsMax &&
      this.#bytes + bytes <= factor * inFlightBytesMax
    );
  }

  #count(bytes: number) {
    this.#records++;
    this.#bytes += bytes;
  }

  #uncount(bytes: number) {
    this.#records--;
    this.#bytes -= bytes;
  }

  /** Sends everything in the order of its arrival, which a Map keeps. */
  #onReady() {
    this.#readyAt = performance.now();
    for (const entry of this.#entries.values()) this.#transmit(entry);
  }

  #onReply(token: string, reply: Frame) {
    const entry = this.#entries.get(token);
    if (!entry) return;
    const verdict = entry.judge(reply, entry.unanswered);
    this.#answered = Math.max(this.#answered, entry.attempt ?? 0);
    const now = performance.now();
    if (typeof verdict === "string") {
      entry.attempt = undefined;
      entry.dueAt = now + this.#limits.retryMillis * (1 + Math.random() / 2);

      // With another attempt unanswered, it is not known which one was not taken.
      if (verdict === "not taken" && entry.unanswered === 1)
        entry.unanswered = 0;
      return;
    }
    this.#progressAt = now;
    if (verdict instanceof StoreError && verdict.code === "unknown")
      this.session.report(verdict.message);

    // The response is about one attempt. Another one may have been stored.
    entry.unanswered = Math.max(entry.unanswered - 1, 0);
    this.#settle(entry, verdict);
  }

  /** Fails as unknown what was sent: the server does not say which message the error is about. */
  #onDenied(error: EngineError) {
    for (const entry of this.#entries.values()) {
      if (entry.unanswered > 0) this.#settle(entry, error);
    }
  }

  #transmit(entry: Entry) {
    const { token, subject, headers, payload, deadline, unanswered } = entry;
    const connection = this.session.ready;
    if (!connection) return;
    const now = performance.now();
    const age = Date.now() - entry.begunAtDate;

    // Compares both clocks: a suspended machine stops the deadline's, while the stream forgets ids.
    const isTooOld =
      deadline !== undefined &&
      (now >= deadline || age >= duplicateWindowMillis(this.#limits));
    if (unanswered > 0 && isTooOld)
      return this.#settle(entry, new Error("too old to be sent again"));

    // A larger message would make the server close the connection, for everything in flight.
    if (bytesOf(entry) > Number(connection.info["max_payload"]))
      return this.#settle(entry, tooLarge());
    entry.attempt = ++this.#number;
    entry.unanswered++;
    entry.dueAt = now + this.#limits.ackTimeoutMillis;
    connection.publish(subject, token, headers, payload);
  }

  /** Runs every `retryMillis` while a message is in flight. */
  #tick() {
    const { noProgressMillis, bytesPerMilliMin } = this.#limits;
    const now = performance.now();
    const { ready } = this.session;
    if (ready?.isReceiving) this.#progressAt = now;
    for (const entry of this.#entries.values()) this.#giveUp(entry, now);
    if (this.#entries.size === 0) {
      clearInterval(this.#timer);
      this.#timer = undefined;
      return;
    }

    // A server that takes messages and acknowledges none may be cut off from the others: it still
    // responds to PING. A slow link gets the time to carry what is in flight.
    const since = Math.max(this.#progressAt, this.#readyAt);
    const patienceMillis = noProgressMillis + this.#bytes / bytesPerMilliMin;

    // Leaves before it sends: an attempt on a connection that closes has no response, and would
    // turn "not stored" into "unknown".
    if (now - since > patienceMillis) ready?.close("it acknowledges nothing");
    for (const entry of this.#entries.values()) {
      if (this.#isDue(entry, now)) this.#transmit(entry);
    }
  }

  /** Fails a message after its deadline, or one that waits for a server in vain. */
  #giveUp(entry: Entry, now: number) {
    const { appendMillis, retryMillis } = this.#limits;
    const { deadline = this.#progressAt + appendMillis, unanswered } = entry;

    // Gives up one turn early: a drain that began together with the message must not last longer.
    const isOver = now >= deadline - retryMillis;
    if (unanswered === 0 && (isOver || !this.session.isReachable))
      this.#settle(entry, unreachable());
    else if (isOver)
      this.#settle(entry, new Error("no acknowledgement in time"));
  }

  /**
   * Whether to send a message again on the same connection. Until a later attempt has a response,
   * this one may still be on its way: a copy would only wait behind it. Responses to requests
   * without a deadline keep no order: these are not sent again.
   */
  #isDue({ attempt, dueAt, deadline }: Entry, now: number) {
    const isLost = deadline !== undefined && Number(attempt) < this.#answered;
    return now >= dueAt && (attempt === undefined || isLost);
  }

  /** Settles a message. An error becomes `unknown` if an attempt may have stored the message. */
  #settle(entry: Entry, outcome: JsonObject | Error) {
    if (!this.#entries.delete(entry.token))
      throw new Error("a message was settled twice");
    this.#uncount(bytesOf(entry));
    if (!(outcome instanceof Error)) entry.resolve(outcome);
    else if (entry.unanswered === 0) entry.reject(outcome);
    else {
      const { message } = outcome;
      entry.reject(new StoreError("unknown", message, { cause: outcome }));
    }
  }
}

const bytesOf = ({ headers, payload }: Entry) =>
  headers.length + payload.length;
const tooMuch = "too much is in flight";
const tooLarge = () =>
  new StoreError("tooLarge", "the servers take no message of this size");
const unreachable = () =>
  new StoreError("unreachable", "no server is connected");
