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
import { StoreError } from "../store.ts";
import { codeOf, type ExitError } from "../failure.ts";
import type { StreamSettings } from "./address.ts";
import { duplicateWindowMillis } from "./checks.ts";
import type { NatsLimits } from "./limits.ts";
import type { JsonObject } from "./protocol.ts";
import type { Response } from "./server-connection.ts";
import { Session, type SessionHandlers } from "./session.ts";

/** The meaning of a response: a result, an error, to send the message again a little later, or
 * nothing, since another stream may have sent it. */
export type Verdict = JsonObject | "again" | "ignored" | StoreError;

interface Message {
  readonly subject: string;

  /** With an id in them, a stream stores the message once, however often it is sent. */
  readonly headers: string;
  readonly payload: Buffer;

  /** The time to give up, in milliseconds of performance.now(). */
  readonly deadline: number;

  /** How many times the limits may be in flight for it: 2 for replays and what they need, so that
   * a full queue still replays. */
  readonly limitFactor: 1 | 2;

  /** Called with a response, and whether an earlier attempt may have stored the message. */
  readonly judge: (response: JsonObject, isRepeated: boolean) => Verdict;
}

interface Entry extends Message {
  readonly token: string;
  readonly resolve: (result: JsonObject) => void;
  readonly reject: (error: Error) => void;

  /** Headers and payload. */
  readonly bytes: number;

  /** The time from which the stream may have forgotten its id. The wall clock gives it: a
   * suspended machine stops the monotonic one. */
  readonly forgottenAtDate: number;

  /** The time of the latest attempt. */
  sentAt: number;

  /** Whether the latest attempt has a response that asks for another one. */
  mustResend: boolean;

  /** Whether any attempt may have stored it, and whether one before the latest may have. */
  mayBeStored: boolean;
  isRepeated: boolean;
}

export class InFlight implements SessionHandlers {
  readonly session: Session;
  readonly #limits: NatsLimits;
  readonly #entries = new Map<string, Entry>();
  #bytes = 0;

  /** The number of messages so far. */
  #number = 0;

  /** The time of the latest attempt that has a response. */
  #answeredAt = 0;

  /** The time of the last progress, or of the first message after an idle time. */
  #progressAt = 0;
  #readyAt = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(settings: StreamSettings) {
    this.#limits = settings.limits;
    this.session = new Session(settings, this);
  }

  /** The messages in flight, with their bytes; and whether a server is reachable, or was a moment
   * ago. */
  get stats() {
    return {
      queue: { records: this.#entries.size, bytes: this.#bytes },
      isReachable: this.session.isReachable
    } as const;
  }

  /** How many more messages with a key, whose `limitFactor` is 2, may be in flight. */
  get room() {
    return 2 * this.#limits.inFlightRecordsMax - this.#entries.size;
  }

  /**
   * Sends a message; resolves with the result of its response.
   *
   * @throws StoreError, as a rejection
   */
  send(message: Message): Promise<JsonObject> {
    return new Promise((resolve, reject) => {
      const { inFlightRecordsMax, inFlightBytesMax } = this.#limits;
      const { headers, payload, limitFactor } = message;
      const bytes = headers.length + payload.length;

      // While no server can be reached, messages would fill the memory and keep clients waiting.
      if (!this.session.isReachable) throw notCompleted();
      if (
        this.#entries.size >= limitFactor * inFlightRecordsMax ||
        this.#bytes + bytes > limitFactor * inFlightBytesMax
      )
        throw new StoreError("busy", "too much is in flight");
      this.#bytes += bytes;
      const entry: Entry = {
        ...message,
        token: String(++this.#number),
        resolve,
        reject,
        bytes,
        forgottenAtDate: Date.now() + duplicateWindowMillis(this.#limits),
        sentAt: 0,
        mustResend: false,
        mayBeStored: false,
        isRepeated: false
      };
      if (this.#entries.size === 0) this.#progressAt = performance.now();
      this.#entries.set(entry.token, entry);
      this.#timer ??= setInterval(() => this.#tick(), this.#limits.retryMillis);
      this.#transmit(entry);
    });
  }

  /** Resolves when nothing is in flight: each message is settled by its deadline at the latest. */
  async drain() {
    while (this.#entries.size > 0) await pause(this.#limits.retryMillis);
  }

  /** Sends everything in the order of its arrival, which a Map keeps. */
  onReady() {
    this.#readyAt = performance.now();
    for (const entry of this.#entries.values()) this.#transmit(entry);
  }

  onResponse(token: string, response: Response) {
    const entry = this.#entries.get(token);
    if (!entry) return;
    const verdict =
      typeof response === "number"
        ? "again"
        : entry.judge(response, entry.isRepeated);
    if (verdict === "ignored") return;
    this.#answeredAt = Math.max(this.#answeredAt, entry.sentAt);

    // The response is about one attempt. An earlier one may have been stored. With status 503
    // nobody leads the stream, or there is none.
    if (verdict !== "again" || response === 503)
      entry.mayBeStored = entry.isRepeated;
    if (verdict === "again") {
      entry.mustResend = true;
      return;
    }
    this.#progressAt = performance.now();
    this.#settle(entry, verdict);
  }

  /** Fails as unknown what was sent: the server does not say which message the error is about. */
  onDenied(error: ExitError) {
    for (const entry of this.#entries.values())
      if (entry.mayBeStored) this.#settle(entry, error);
  }

  #transmit(entry: Entry) {
    const { token, subject, headers, payload, mayBeStored } = entry;
    const connection = this.session.ready;
    if (!connection) return;

    if (mayBeStored && Date.now() >= entry.forgottenAtDate)
      return this.#settle(entry, notCompleted());

    // A larger message makes the server close the connection, on which all messages wait. A stored
    // message must fit into a response, too: there it is base64, within other members of JSON.
    const bytesMax = Math.min(
      Number(connection.info["max_payload"]),
      ((this.#limits.messageBytesMax - 1024) * 3) / 4
    );
    if (entry.bytes > bytesMax)
      return this.#settle(
        entry,
        new StoreError("tooLarge", "the servers take no message of this size")
      );
    entry.sentAt = performance.now();
    entry.mustResend = false;
    entry.isRepeated = mayBeStored;
    entry.mayBeStored = true;
    connection.publish(subject, token, headers, payload);
  }

  /** Runs every `retryMillis` while a message is in flight. */
  #tick() {
    const { bytesPerMilliMin, noProgressMillis, retryMillis } = this.#limits;
    const now = performance.now();
    const { ready, isReachable } = this.session;
    if (ready?.isReceiving) this.#progressAt = now;
    for (const entry of this.#entries.values()) {
      const { deadline, mayBeStored } = entry;

      // Gives up one turn early: a drain that began together with the message must not last longer.
      const isOver = now >= deadline - retryMillis;
      if (isOver || !(mayBeStored || isReachable))
        this.#settle(entry, notCompleted());
    }
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
    for (const entry of this.#entries.values())
      if (this.#isDue(entry, now)) this.#transmit(entry);
  }

  /**
   * Returns whether to send a message again on the same connection. Its response may still be on
   * its way until a later attempt, of any message, has one: a copy would only wait behind it.
   */
  #isDue({ sentAt, mustResend }: Entry, now: number) {
    const { retryMillis, ackTimeoutMillis } = this.#limits;
    const isLost = sentAt < this.#answeredAt;
    const pauseMillis = mustResend ? retryMillis : ackTimeoutMillis;
    return (mustResend || isLost) && now >= sentAt + pauseMillis;
  }

  /** Settles a message. An error becomes `unknown` if an attempt may have stored the message. */
  #settle(entry: Entry, outcome: JsonObject | Error) {
    if (!this.#entries.delete(entry.token))
      throw new Error("a message was settled twice");
    this.#bytes -= entry.bytes;
    if (!(outcome instanceof Error)) return entry.resolve(outcome);
    const error = entry.mayBeStored
      ? new StoreError("unknown", outcome.message, { cause: outcome })
      : outcome;
    if (codeOf(error) === "unknown") this.session.report(error.message);
    entry.reject(error);
  }
}

const notCompleted = () =>
  new StoreError(
    "unreachable",
    "no connected server has completed the request"
  );
