/**
 * A session with a cluster: one connection at a time, to each address in a random order. It is
 * ready to use once the stream and the servers are checked.
 *
 *   address -> handshake -> check -> ready -> lost -> the next address …
 */
import { setTimeout } from "node:timers/promises";
import { ExitError } from "../failure.ts";
import type { Endpoint, StreamSettings } from "./address.ts";
import { check, pause, varzSubject } from "./checks.ts";
import { ServerConnection, type ResponseHandler } from "./server-connection.ts";

export interface SessionHandlers extends ResponseHandler {
  /** Called when a connection is ready to publish on. */
  onReady(): void;

  /** Called when something is not permitted; the server does not say which message it was. */
  onDenied(error: ExitError): void;
}

export class Session {
  readonly #settings: StreamSettings;
  readonly #handlers: SessionHandlers;
  #connection: ServerConnection | undefined;
  #isReady = false;
  #isClosed = false;

  /** The time at which the last connection that was ready ended. -Infinity: there was none, or an
   * operator has to put something right. */
  #lostAt = -Infinity;

  /** How long after that an append may wait. */
  #patienceMillis = 0;

  /** The problems reported since the last acknowledgement. */
  readonly #reported = new Set<string>();

  /** The JetStream domain of the checked stream; undefined: none. */
  domain: unknown;

  constructor(settings: StreamSettings, handlers: SessionHandlers) {
    this.#settings = settings;
    this.#handlers = handlers;
  }

  /** The connection to publish on, if there is one. */
  get ready() {
    return this.#isReady && this.#connection?.isOpen
      ? this.#connection
      : undefined;
  }

  /** Whether an append may wait: a server is connected, was a moment ago, or has been found since,
   * while the others may elect a leader. */
  get isReachable() {
    return (
      this.#isReady || performance.now() - this.#lostAt < this.#patienceMillis
    );
  }

  /**
   * Connects, and reconnects until `close`. Resolves once a connection has passed its check, or
   * every address was tried once. In the second case, the session keeps trying.
   *
   * @throws ExitError for a mistake that somebody has to correct
   */
  start(): Promise<void> {
    return new Promise((resolve, reject) => void this.#run(resolve, reject));
  }

  close() {
    this.#isClosed = true;
    this.#connection?.close("the store is closed");
  }

  /** Reports a problem once, until plants are acknowledged again. */
  report(text: string) {
    const { problemsMax, problemCharsMax } = this.#settings.limits;
    const { size } = this.#reported;
    if (size === problemsMax) return;
    const problem = text.slice(0, problemCharsMax);
    this.#reported.add(problem);
    if (this.#reported.size > size) this.#warn(problem);
  }

  /** Reports that the problems are over, if there were any. */
  reportRecovery() {
    if (this.#reported.size > 0) this.#warn("plants are acknowledged again");
    this.#reported.clear();
  }

  /** Keeps each warning on one line: a server's text could contain a forged second one. */
  #warn(text: string) {
    if (!this.#isClosed) this.#settings.warn?.(text.replace(/\s+/g, " "));
  }

  async #run(resolve: () => void, reject: (error: ExitError) => void) {
    const { hosts, limits, servers } = this.#settings;
    if (servers === null)
      this.#warn(
        `not verified: that the servers sync each write: import ${varzSubject} of the system ` +
          "account, and name its subject in the address (servers=SUBJECT)"
      );
    let isStarting = true;
    const endStart = () => {
      isStarting = false;
      resolve();
    };
    let lastUsed = "";
    let pauseMillis = limits.reconnectMillisMin;
    for (;;) {
      // In a random order: processes must not all choose the same. The one that was used last comes
      // last.
      const endpoints = hosts
        .map((endpoint) => ({
          ...endpoint,
          rank: Math.random() + Number(endpoint.shown === lastUsed)
        }))
        .sort((one, other) => one.rank - other.rank);
      let refusals = 0;
      for (const endpoint of endpoints) {
        lastUsed = endpoint.shown;
        if (this.#isClosed) return;
        const begunAt = performance.now();
        const error = await this.#use(endpoint, endStart);
        if (error.code === "refused") refusals++;

        // A wrong stream is wrong on all servers. One server alone may refuse credentials.
        const isFinal =
          error.code === "config" || refusals === endpoints.length;
        if (isFinal && isStarting) return reject(error);
        this.report(error.message);

        // Pauses double with each round while connections end early. A pause keeps the process
        // running only while the caller of `start` waits.
        if (performance.now() - begunAt > limits.noProgressMillis)
          pauseMillis = limits.reconnectMillisMin;
        await setTimeout(pauseMillis * (0.5 + Math.random() / 2), undefined, {
          ref: isStarting
        });
      }
      pauseMillis = Math.min(2 * pauseMillis, limits.reconnectMillisMax);
      endStart();
    }
  }

  /** Uses one connection until it ends; returns the reason. */
  async #use(endpoint: Endpoint, onChecked: () => void) {
    const connection = new ServerConnection(this.#settings, this.#handlers);
    this.#connection = connection;
    const { message, code } = await connection.talk(endpoint, () =>
      this.#serve(connection, onChecked)
    );
    if (this.#isReady) {
      this.#lostAt = performance.now();
      this.#patienceMillis = this.#settings.limits.unreachableMillis;
    }
    this.#isReady = false;
    const error = new ExitError(code, `${endpoint.shown}: ${message}`);
    if (code === "config") {
      this.#lostAt = -Infinity;
      this.#handlers.onDenied(error);
    }
    return error;
  }

  /**
   * Checks a connection at intervals, and makes it ready after the first check.
   *
   * @throws ExitError
   */
  async #serve(connection: ServerConnection, onChecked: () => void) {
    const { appendMillis, censusMillis, checkMillis, noProgressMillis } =
      this.#settings.limits;

    // Appends wait from now on, also while the next host is tried: an election is not an outage.
    this.#patienceMillis = appendMillis;

    // Later checks may wait: a slow link may carry other messages before the responses, and an
    // election is not an outage.
    let patienceMillis = noProgressMillis;
    for (; connection.isOpen; patienceMillis = 3 * checkMillis) {
      this.domain = await check(connection, this.#settings, patienceMillis);

      // A leaf node learns the connection's inbox a moment late, and then responds: asks again. After
      // a connection that was ready, its census still counts.
      if (this.#lostAt === -Infinity && !this.#isReady) {
        await pause(censusMillis);
        connection.countStreams();
        await pause(censusMillis);
      }
      if (connection.isOpen && !this.#isReady) {
        this.#isReady = true;
        onChecked();
        this.#handlers.onReady();
      }
      await pause(checkMillis);
    }
  }
}
