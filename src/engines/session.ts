/**
 * A session: one connection at a time, to each host in turn, used once its stream is checked.
 *
 *   host -> handshake -> check -> ready -> lost -> the next host …
 */
import { setTimeout } from "node:timers/promises";
import { EngineError } from "../store.ts";
import type { Host, Settings } from "./address.ts";
import { checkServers, checkStream } from "./checks.ts";
import type { Frame } from "./protocol.ts";
import { Connection } from "./server-connection.ts";

export interface SessionHandlers {
  /** Called when a connection is ready to publish on. */
  onReady(): void;

  /** Called with each response to what was published, by its token. */
  onReply(token: string, reply: Frame): void;

  /** Called when something is not permitted; the server does not say which message it was. */
  onDenied(error: EngineError): void;
}

type State =
  /** No check has passed yet. */
  | { readonly is: "starting" }

  /** A connection is ready. */
  | { readonly is: "ready" }

  /** Since a time in milliseconds; `isInCheck`: a new connection's stream is being checked, and no
   * longer ago than an election may take. */
  | { readonly is: "lost"; readonly since: number; readonly isInCheck: boolean }

  /** An operator has to put something right. */
  | { readonly is: "misconfigured" }
  | { readonly is: "closed" };

export class Session {
  readonly #settings: Settings;
  readonly #handlers: SessionHandlers;
  #state: State = { is: "starting" };
  #connection: Connection | undefined;

  /** What was reported since a plant was acknowledged last. */
  readonly #reported = new Set<string>();

  constructor(settings: Settings, handlers: SessionHandlers) {
    this.#settings = settings;
    this.#handlers = handlers;
  }

  /** The connection to publish on, while there is one. */
  get ready(): Connection | undefined {
    const connection = this.#connection;
    return this.#state.is === "ready" && connection?.isOpen
      ? connection
      : undefined;
  }

  /** Whether an append may wait: a server is there, or was a moment ago. */
  get isReachable(): boolean {
    const state = this.#state;
    if (state.is !== "lost") return state.is === "ready";
    const lostMillis = performance.now() - state.since;
    return (
      state.isInCheck || lostMillis < this.#settings.limits.unreachableMillis
    );
  }

  /**
   * Connects, and reconnects until `close`. Resolves when the stream has passed its check, or when
   * every host was tried once without success; the session then keeps trying.
   *
   * @throws EngineError for a mistake that time does not correct
   */
  start(): Promise<void> {
    return new Promise((resolve, reject) => void this.#run(resolve, reject));
  }

  /** Leaves the current connection for the next host. */
  leave(reason: string): void {
    this.#connection?.close(reason);
  }

  /** Checks the stream again at once; leaves the connection if it does not pass. */
  checkNow(): void {
    const { ready } = this;
    if (!ready) return;
    checkStream(ready, this.#settings).catch((error: EngineError) =>
      ready.close(error.message, error.code)
    );
  }

  close(): void {
    this.#state = { is: "closed" };
    this.leave("the store is closed");
  }

  /** Reports a problem once; what a server sends cannot forge a second line. */
  report(problem: string): void {
    const isNew = !this.#reported.has(problem) && this.#state.is !== "closed";
    if (isNew) this.#settings.warn?.(problem.replace(/\s+/g, " "));
    this.#reported.add(problem);
  }

  /** Reports that the problems are over, if there were any. */
  reportRecovery(): void {
    if (this.#reported.size > 0)
      this.#settings.warn?.("plants are acknowledged again");
    this.#reported.clear();
  }

  async #run(
    resolve: () => void,
    reject: (error: EngineError) => void
  ): Promise<void> {
    const { hosts } = this.#settings;
    const { noProgressMillis } = this.#settings.limits;
    let refusals = 0;

    // Connections in a row that ended early.
    let failures = 0;
    for (let turn = 0; this.#state.is !== "closed"; turn++) {
      const host = hosts[turn % hosts.length];
      if (!host) return;
      const begunAt = performance.now();
      const error = await this.#use(host, resolve);
      const isEarly = performance.now() - begunAt < noProgressMillis;
      failures = isEarly ? failures + 1 : 0;
      if (error.code === "refused") refusals++;

      // A wrong stream is wrong on all hosts. Credentials and certificates may be wrong on one.
      const isFinal = error.code === "config" || refusals === hosts.length;
      const isStarting = this.#state.is === "starting";
      if (isFinal && isStarting && turn < hosts.length) return reject(error);
      this.report(error.message);
      if (turn >= hosts.length - 1) resolve();

      // While the session starts, its caller waits. Later it does not keep the process running.
      const ref = isStarting;
      await setTimeout(this.#pauseMillis(failures), undefined, { ref });
    }
  }

  /** Returns a pause that is short for the first round of hosts, and doubles with each round. */
  #pauseMillis(failures: number): number {
    const {
      hosts,
      limits: { reconnectMillisMin, reconnectMillisMax }
    } = this.#settings;
    const round = Math.floor(failures / hosts.length);
    const millis = reconnectMillisMin * 2 ** (round - 1);
    return Math.min(millis, reconnectMillisMax) * (0.5 + Math.random() / 2);
  }

  /** Serves by one connection until it ends; returns the reason. */
  async #use(host: Host, onChecked: () => void): Promise<EngineError> {
    const connection = new Connection(
      host,
      this.#settings,
      this.#handlers.onReply
    );
    this.#connection = connection;

    // A check that fails ends the connection with its reason.
    const { message, code } = await connection.talk(() =>
      this.#check(host, connection, onChecked).catch((error: EngineError) =>
        connection.close(error.message, error.code)
      )
    );
    this.#connection = undefined;
    this.#onLost(code);
    const error = new EngineError(code, `${host.shown}: ${message}`);
    if (code === "config") this.#handlers.onDenied(error);
    return error;
  }

  #onLost(code: EngineError["code"]): void {
    const state = this.#state;
    if (state.is === "ready" || state.is === "lost") {
      const since = state.is === "lost" ? state.since : performance.now();
      this.#state =
        code === "config"
          ? { is: "misconfigured" }
          : { is: "lost", since, isInCheck: false };
    }
  }

  /** Checks the stream and the servers; then the connection is ready. */
  async #check(
    host: Host,
    connection: Connection,
    onChecked: () => void
  ): Promise<void> {
    const { hosts, monitor, limits } = this.#settings;
    const state = this.#state;
    const isStart = state.is === "starting";

    // From here on appends wait: an election is no outage.
    if (state.is === "lost") {
      const isInCheck = performance.now() - state.since < limits.appendMillis;
      this.#state = { ...state, isInCheck };
    }
    await checkStream(connection, this.#settings);
    if (isStart || monitor !== 0) {
      const warnings = await checkServers(
        isStart ? hosts : [host],
        host,
        this.#settings
      );
      for (const warning of warnings) this.#settings.warn?.(warning);
    }

    // The connection may have ended meanwhile, or the session.
    if (connection !== this.#connection || this.#state.is === "closed") return;
    this.#state = { is: "ready" };
    onChecked();
    this.#handlers.onReady();
  }
}
