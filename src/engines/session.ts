/**
 * A session with a cluster: one connection at a time, to each address in turn. It is ready to use
 * once the stream and the servers are checked.
 *
 *   address -> handshake -> check -> ready -> lost -> the next address …
 */
import { setTimeout } from "node:timers/promises";
import { EngineError } from "../store.ts";
import { endpointsOf, type Endpoint, type Settings } from "./address.ts";
import { check } from "./checks.ts";
import { Connection, type OnReply } from "./server-connection.ts";

export interface SessionHandlers {
  /** Called when a connection is ready to publish on. */
  onReady(): void;

  readonly onReply: OnReply;

  /** Called when something is not permitted; the server does not say which message it was. */
  onDenied(error: EngineError): void;
}

type State =
  /** No check has passed yet. */
  | { readonly is: "starting" }

  /** A connection is ready. */
  | { readonly is: "ready" }

  /** `since`: a time in milliseconds. `isInCheck`: a new connection is being checked, and the loss
   * is more recent than an election may take. */
  | { readonly is: "lost"; readonly since: number; readonly isInCheck: boolean }

  /** An operator has to put something right. */
  | { readonly is: "misconfigured" }
  | { readonly is: "closed" };

export class Session {
  readonly #settings: Settings;
  readonly #handlers: SessionHandlers;
  #state: State = { is: "starting" };
  #connection: Connection | undefined;

  /** Aborted to end the pause before the next check. */
  #suspicion = new AbortController();

  /** The problems reported since the last acknowledgement. */
  readonly #reported = new Set<string>();

  /** The names of the servers that hold the stream and could not be asked at the last check. */
  #unasked: readonly string[] = [];

  constructor(settings: Settings, handlers: SessionHandlers) {
    this.#settings = settings;
    this.#handlers = handlers;
  }

  /** The connection to publish on, if there is one. */
  get ready(): Connection | undefined {
    const connection = this.#connection;
    return this.#state.is === "ready" && connection?.isOpen
      ? connection
      : undefined;
  }

  /** Whether an append may wait: a server is connected, or was a moment ago. */
  get isReachable(): boolean {
    const state = this.#state;
    if (state.is !== "lost") return state.is === "ready";
    const lostMillis = performance.now() - state.since;
    return (
      state.isInCheck || lostMillis < this.#settings.limits.unreachableMillis
    );
  }

  /**
   * Connects, and reconnects until `close`. Resolves once a connection has passed its check, or
   * every address was tried once. In the second case, the session keeps trying.
   *
   * @throws EngineError for a mistake that somebody has to correct
   */
  start(): Promise<void> {
    return new Promise((resolve, reject) => void this.#run(resolve, reject));
  }

  /** Checks the stream without waiting for the next interval. */
  checkNow(): void {
    this.#suspicion.abort();
  }

  close(): void {
    this.#state = { is: "closed" };
    this.#connection?.close("the store is closed");
    this.#connection = undefined;
  }

  /** Reports a problem once, until plants are acknowledged again. */
  report(problem: string): void {
    if (!this.#reported.has(problem)) this.#warn(problem);
    this.#reported.add(problem);
  }

  /** Reports that the problems are over, if there were any. */
  reportRecovery(): void {
    if (this.#reported.size > 0) this.#warn("plants are acknowledged again");
    this.#reported.clear();
  }

  /** Keeps each warning on one line: a server's text could contain a forged second one. */
  #warn(text: string) {
    if (this.#state.is !== "closed")
      this.#settings.warn?.(text.replace(/\s+/g, " "));
  }

  async #run(
    resolve: () => void,
    reject: (error: EngineError) => void
  ): Promise<void> {
    const { noProgressMillis, reconnectMillisMin, reconnectMillisMax } =
      this.#settings.limits;
    if (this.#settings.monitor === 0) this.#warn(unverified);

    // Connections in a row that ended early.
    let failures = 0;
    for (let round = 0; ; round++) {
      const endpoints = await endpointsOf(this.#settings);
      let refusals = 0;
      for (const endpoint of endpoints) {
        if (this.#state.is === "closed") return;
        const begunAt = performance.now();
        const error = await this.#use(endpoint, resolve);
        const isEarly = performance.now() - begunAt < noProgressMillis;
        failures = isEarly ? failures + 1 : 0;
        if (error.code === "refused") refusals++;

        // A wrong stream is wrong on all servers. One server alone may refuse credentials.
        const isFinal =
          error.code === "config" || refusals === endpoints.length;
        const isStarting = this.#state.is === "starting";
        if (isFinal && isStarting && round === 0) return reject(error);
        this.report(error.message);

        // A pause is short in the first round of servers, and doubles with each round. It keeps the
        // process running only while the caller of `start` waits.
        const rounds = Math.floor(failures / endpoints.length);
        const millis = reconnectMillisMin * 2 ** (rounds - 1);
        await setTimeout(
          Math.min(millis, reconnectMillisMax) * (0.5 + Math.random() / 2),
          undefined,
          { ref: isStarting }
        );
      }
      resolve();
    }
  }

  /** Uses one connection until it ends; returns the reason. */
  async #use(endpoint: Endpoint, onChecked: () => void): Promise<EngineError> {
    const { onReply, onDenied } = this.#handlers;
    const connection = new Connection(endpoint, this.#settings, onReply);
    this.#connection = connection;

    // A check that fails ends the connection with its reason.
    const { message, code } = await connection.talk(() =>
      this.#serve(connection, onChecked).catch((error: EngineError) =>
        connection.close(error.message, error.code)
      )
    );
    this.#connection = undefined;
    const state = this.#state;
    if (state.is === "ready" || state.is === "lost") {
      const since = performance.now();
      this.#state =
        code === "config"
          ? { is: "misconfigured" }
          : { since, ...state, is: "lost", isInCheck: false };
    }
    const error = new EngineError(code, `${endpoint.shown}: ${message}`);
    if (code === "config") onDenied(error);
    return error;
  }

  /** Checks a connection, makes it ready, and checks it again at intervals. */
  async #serve(connection: Connection, onChecked: () => void): Promise<void> {
    const { appendMillis, checkMillis, noProgressMillis } =
      this.#settings.limits;
    const state = this.#state;

    // Appends wait during this check: an election is not an outage.
    if (state.is === "lost") {
      const isInCheck = performance.now() - state.since < appendMillis;
      this.#state = { ...state, isInCheck };
    }
    await this.#check(connection, noProgressMillis);
    if (connection !== this.#connection) return;
    this.#state = { is: "ready" };
    onChecked();
    this.#handlers.onReady();
    for (;;) {
      const { signal } = this.#suspicion;
      const pause = setTimeout(checkMillis, undefined, { ref: false, signal });
      await pause.catch(() => undefined);
      if (connection !== this.#connection) return;
      this.#suspicion = new AbortController();

      // Waits without limit: a slow link may carry other messages before the response.
      await this.#check(connection, Infinity);
    }
  }

  /** @throws EngineError */
  async #check(connection: Connection, patienceMillis: number) {
    const unasked = await check(connection, this.#settings, patienceMillis);
    for (const name of unasked) {
      if (!this.#unasked.includes(name))
        this.#warn(`${name} is down: ${unverifiedOne}`);
    }
    this.#unasked = unasked;
  }
}

const unverified =
  "not verified: that the servers sync each write (monitor=PORT asks them)";
const unverifiedOne =
  "not verified that it syncs every write; it is asked when it is back";
