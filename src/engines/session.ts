/**
 * A connection that comes back: each host in turn, and its stream checked before it is used.
 *
 *   host -> handshake -> check -> ready -> lost -> the next host …
 */
import { randomBytes } from "node:crypto";
import { EventEmitter } from "node:events";
import { setTimeout } from "node:timers/promises";
import type { ConnectionOptions } from "node:tls";
import { natsLimits, type NatsLimits } from "../config.ts";
import { type StoreEvents, EngineError } from "../store.ts";
import type { JournalError } from "../journal/error.ts";
import { Connection } from "./server-connection.ts";
import type { Frame } from "./protocol.ts";
import { checkServers, checkStream } from "./checks.ts";
import { parseNatsUrl, type Host, type Target } from "./address.ts";

export interface NatsOptions {
  /** Replaces defaults of config.ts. */
  readonly limits?: Partial<NatsLimits>;

  /** Certificates and the like, as node:tls takes them. Default: what Node trusts. */
  readonly tls?: ConnectionOptions;

  /**
   * Told, a line each, what is not verified, what is lost, and that plants are acknowledged again.
   * Default: nobody is.
   */
  readonly warn?: (message: string) => void;
}

export abstract class Link extends EventEmitter<StoreEvents<JournalError>> {
  readonly target: Target;
  readonly limits: NatsLimits;
  readonly options: NatsOptions;

  /** Random: the start of every id, and where all replies to this process go. */
  readonly inbox = `_INBOX.${randomBytes(12).toString("hex")}`;
  protected connection: Connection | undefined;

  /** The same, while it may be published on. */
  protected ready: Connection | undefined;
  protected state: "open" | "closing" | "closed" = "open";

  /** Infinity: a server is there; -Infinity: no check has passed yet; below 0: the last has not. */
  #absentSince = -Infinity;

  /** A check is under way, and the loss no longer ago than an election may take. */
  #isInCheck = false;

  /** What was told since a plant was acknowledged last. */
  readonly #told = new Set<string>();

  /** @throws EngineError `config`, RangeError for a limit */
  constructor(url: string, options: NatsOptions) {
    super();
    this.target = parseNatsUrl(url);
    this.limits = { ...natsLimits, ...options.limits };
    for (const [name, value] of Object.entries(this.limits)) {
      if (!(value >= 1 && value < 2 ** 31))
        throw new RangeError(`${name} must be 1 to 2^31 - 1`);
    }
    this.options = options;
  }

  /** Told that a connection may be published on. */
  protected abstract onReady(): void;

  /** Told of every message to the inbox. */
  abstract onReply(token: string, reply: Frame): void;

  /** Told that something is not permitted; the server does not say which message it was. */
  protected abstract onDenied(error: EngineError): void;

  /** Whether to wait makes sense: a server is there, or was a moment ago. */
  protected get isReachable(): boolean {
    return (
      this.#isInCheck ||
      performance.now() - this.#absentSince < this.limits.absentMillis
    );
  }

  /**
   * For as long as the store is open. The first turn through the hosts is the start: it resolves
   * when the stream has passed its check, or no host is there, and goes on trying then; it rejects
   * with an EngineError that time does not mend.
   */
  async run(
    resolve: () => void,
    reject: (error: EngineError) => void
  ): Promise<void> {
    const { hosts } = this.target;
    let refusals = 0;

    // Connections that have not lasted, one after the other.
    let failures = 0;
    for (let turn = 0; this.state !== "closed"; turn++) {
      const host = hosts[turn % hosts.length];
      if (!host) return;
      const begunAt = performance.now();
      const error = await this.#use(host, resolve);
      failures =
        performance.now() - begunAt < this.limits.isolationMillis
          ? failures + 1
          : 0;
      if (error.code === "refused") refusals++;

      // A wrong stream is wrong on all hosts; credentials and certificates need not be.
      const isFinal = error.code === "config" || refusals === hosts.length;
      const isStart = turn < hosts.length && this.#absentSince === -Infinity;
      if (isFinal && isStart) return reject(error);
      this.tell(error.message);
      if (turn >= hosts.length - 1) resolve();

      // Each host once quickly, then longer with each round.
      const { reconnectMillisMin: min, reconnectMillisMax: max } = this.limits;
      const millis = Math.min(
        min * 2 ** (Math.floor(failures / hosts.length) - 1),
        max
      );

      // While it starts somebody waits for it; later it keeps no process from ending.
      const ref = this.#absentSince === -Infinity;
      await setTimeout(millis * (0.5 + Math.random() / 2), undefined, { ref });
    }
  }

  /** Serves by one connection until it ends; returns why it did. */
  async #use(host: Host, onChecked: () => void): Promise<EngineError> {
    const connection = new Connection(host, this);
    this.connection = connection;

    // What fails in there ends the connection, whose reason it then is.
    this.#take(host, connection, onChecked).catch(
      ({ message, code }: EngineError) => connection.close(message, code)
    );
    const reason = await connection.talk();
    this.connection = undefined;
    this.ready = undefined;
    this.#isInCheck = false;

    // What has to be put right need not be waited for.
    const since =
      reason.code === "config" ? Number.MIN_SAFE_INTEGER : performance.now();
    this.#absentSince = Math.min(this.#absentSince, since);
    if (reason.code === "config") this.onDenied(reason);
    return new EngineError(reason.code, `${host.shown}: ${reason.message}`);
  }

  /** Makes it the one to publish on, once its stream has passed the check. */
  async #take(
    host: Host,
    connection: Connection,
    onChecked: () => void
  ): Promise<void> {
    await connection.next("PONG");
    const isStart = this.#absentSince === -Infinity;

    // From here on appends wait: an election is no outage. Before a check has passed none is taken.
    this.#isInCheck =
      performance.now() - this.#absentSince < this.limits.appendMillis;
    await checkStream(connection, this);
    const { hosts, monitor } = this.target;
    if (isStart || monitor !== 0)
      await checkServers(isStart ? hosts : [host], host, this);

    // It may have ended meanwhile.
    if (connection !== this.connection) return;
    this.#absentSince = Infinity;
    this.ready = connection;
    onChecked();
    this.onReady();
  }

  /** What was told is over. */
  protected onAcknowledged(): void {
    if (this.#told.size > 0)
      this.options.warn?.("plants are acknowledged again");
    this.#told.clear();
  }

  /** The same trouble is told once; what a server says does not forge a second line. */
  tell(text: string): void {
    const isNew = !this.#told.has(text) && this.state !== "closed";
    if (isNew) this.options.warn?.(text.replace(/\s+/g, " "));
    this.#told.add(text);
  }
}
