/**
 * The life of one connection: whose answer is next, which is the last, what is discarded, who
 * closes, and when (RFC 9112, 9).
 */
import type { ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Limits } from "../config.ts";
import { discardBody } from "./body.ts";
import { parserErrorOf, type ApiError } from "./errors.ts";
import { endReplies, rawReply, reply, type Answer } from "./reply.ts";

/** An answer as its listener is told of it: an Error has its number and its message, too. */
export type ResponseSummary = Pick<ApiError, "status"> &
  Partial<Pick<ApiError, "error" | "message">>;

/**
 * Told of each answer just before it leaves; `response`, whose head is not written yet, is absent
 * where node's parser refuses what came, and for CONNECT. What it throws is not caught.
 */
export type ResponseListener = (
  answer: ResponseSummary,
  socket: Socket,
  response?: ServerResponse
) => void;

/** The connections of an application, each found by its socket for as long as that lives. */
export class Connections {
  readonly limits: Limits;
  readonly onResponse: ResponseListener | undefined;

  /** While the application shuts down, the last answer of each connection closes it. */
  isDraining = false;

  readonly #bySocket = new WeakMap<Socket, Connection>();

  constructor(limits: Limits, onResponse?: ResponseListener) {
    this.limits = limits;
    this.onResponse = onResponse;
  }

  of(socket: Socket): Connection {
    const known = this.#bySocket.get(socket);
    if (known) return known;

    const connection = new Connection(socket, this);
    this.#bySocket.set(socket, connection);
    return connection;
  }
}

/** Where a connection is in its life: it only ever goes forward, and then is gone. */
type State =
  /** Every request that comes is executed. */
  | "open"

  /** An answer is, or will be, the last one: no request behind it is executed. */
  | "closing"

  /** Node's parser has given up, with so many bytes read: nothing that comes is a request. */
  | number;

/** One socket and its requests in turn. */
export class Connection {
  readonly #socket: Socket;
  readonly #all: Connections;
  #state: State = "open";

  /** The answer to the last request: the answers to all before it leave first. */
  #last: ServerResponse | undefined;

  /** The answer whose request's body is whole: node tells its end a moment later. */
  #read: ServerResponse | undefined;

  constructor(socket: Socket, all: Connections) {
    this.#socket = socket;
    this.#all = all;

    // Node has forgotten a request whose answer has left: nobody would wait for its body in vain.
    socket.once("close", () => {
      if (this.#last?.req.complete === false) this.#last.req.destroy();
    });

    // Node calls this when a last answer has left, whoever made it the last: us, a host, or its
    // listener. It would destroy the connection, and the client's unread bytes would reset it
    // before the answer is seen. Node does not document whom it calls: the tests of early answers
    // hold it, on each.
    socket.destroySoon = () => {
      if (this.#state === "open") this.#state = "closing";
      this.#closeGently();
    };
  }

  /**
   * Takes up the next request.
   *
   * @returns whether it is to be executed; otherwise nobody answers it, nor anything behind it
   */
  begin(response: ServerResponse): boolean {
    if (this.#state !== "open" || this.#socket.destroyed) {
      this.#discardRest();
      return false;
    }
    this.#last = response;

    // Node loses what stands behind an Upgrade in its segment: the rest is no request of its own.
    if (response.req.headers.upgrade !== undefined) {
      this.#state = "closing";
      response.shouldKeepAlive = false;
    }
    return true;
  }

  /** The body of a request has been read to its end: its answer can be a whole one. */
  onBody(response: ServerResponse): void {
    this.#read = response;
  }

  /**
   * Answers, unless a host application or a time-out has done so.
   *
   * @param mustClose whether nothing may follow this answer; else that is for the request to say
   */
  answer(response: ServerResponse, answer: Answer, mustClose = false): void {
    if (response.headersSent) return;
    const isDrained = this.#all.isDraining && this.#last === response;
    if (mustClose || isDrained) response.shouldKeepAlive = false;
    if (!response.shouldKeepAlive && this.#state === "open")
      this.#state = "closing";

    this.#all.onResponse?.(answer, this.#socket, response);
    reply(response, answer);
    if (this.#isWhole(response)) return;
    discardBody(response.req, this.#all.limits, () => {
      response.req.pause();
      this.#behindLast(() => this.#socket.end(() => this.#socket.destroy()));
    });
  }

  /** Answers with an error, whether the request is complete or its body still arrives. */
  refuse(response: ServerResponse, error: ApiError): void {
    if (this.#socket.destroyed) return;
    const request = response.req;
    const { expect, "content-length": length } = request.headers;

    // Who was not told to continue may send the body or not: then node closes, whatever we say.
    const isUntold = expect !== undefined && request.readableFlowing !== true;
    const isTooLong =
      !this.#isWhole(response) &&
      Number(length) > this.#all.limits.discardBytesMax;

    this.answer(response, error, error.close || isUntold || isTooLong);
  }

  /** Answers a CONNECT, for which node makes no ServerResponse, behind all answers before it. */
  refuseConnect(error: ApiError): void {
    // Node has taken its own listeners off: a reset, or a client that reads nothing, is ours now.
    this.#socket.on("error", () => undefined);
    this.#socket.on("timeout", () => this.onTimeout());

    this.#state = "closing";
    this.#answerRaw(error);
  }

  /** Answers what node's parser refuses; every request before it keeps its own answer. */
  onParserError(code: string): void {
    if (code === "ECONNRESET" || code === "EPIPE")
      return void this.#socket.destroy();

    // The parser says so again with every piece that still comes.
    if (typeof this.#state === "number") {
      const bytes = this.#socket.bytesRead - this.#state;
      if (bytes > this.#all.limits.discardBytesMax) this.#socket.destroy();
      return;
    }

    const last = this.#last;
    const within = last && !last.req.complete ? last : undefined;
    this.#state = this.#socket.bytesRead;

    // An error in a body is the answer to its request, unless that has one. One between requests
    // is answered by itself.
    const error = parserErrorOf(code);
    if (within === undefined) this.#answerRaw(error);
    else if (!within.headersSent) this.refuse(within, error);
    else this.#behindLast(() => this.#closeGently());
  }

  /** Waiting for our answer is no idleness of theirs; not taking one is. */
  onTimeout(): void {
    const isOurs = !this.isAnswered() && this.#socket.writableLength === 0;
    if (isOurs) this.#socket.setTimeout(this.#all.limits.idleMillis);
    else this.#socket.destroy();
  }

  /** Whether every request, as far as its head has come, has its whole answer. */
  isAnswered(): boolean {
    const last = this.#last;
    // The kernel has all of it, for it was written as a whole.
    return (
      last === undefined || (last.headersSent && last.writableLength === 0)
    );
  }

  /** Closes where nothing is under way: no whole head has come, or its answer is done with. */
  closeIfIdle(): void {
    // One that is not open closes by itself, behind its last answer.
    if (this.#state !== "open") return;
    endReplies();

    if (this.#last === undefined) {
      // Nothing was ever written that could be lost.
      this.#socket.destroy();
    } else if (
      this.isAnswered() &&
      this.#last.writableEnded &&
      this.#last.req.complete
    ) {
      this.#state = "closing";
      this.#closeGently();
    }
  }

  /** Whether nothing more comes of its request. */
  #isWhole(response: ServerResponse): boolean {
    if (this.#read === response || response.req.complete) return true;

    // Where no body is declared, node tells it later.
    const { "content-length": length = "0", "transfer-encoding": coding } =
      response.req.headers;
    return length === "0" && coding === undefined;
  }

  /** Writes an answer behind all others; then closes as gently as after an early answer. */
  #answerRaw(error: ApiError): void {
    this.#behindLast(() => {
      // The answer before it may have turned out to be the last one.
      if (!this.#socket.writable || this.#last?.shouldKeepAlive === false)
        return;
      this.#all.onResponse?.(error, this.#socket);
      this.#socket.write(rawReply(error));
      this.#socket.resume();
      this.#closeGently();
    });
  }

  /** Does it when the last answer has left. */
  #behindLast(act: () => void): void {
    // Before node's own listener, which ends the connection of who has half-closed.
    if (this.#last?.writableFinished === false)
      this.#last.prependOnceListener("finish", act);
    else act();
  }

  /**
   * Closes as who still sends expects: FIN now, and gone when the client closes, or in time.
   *
   * Closed at once, its unread bytes would make the kernel send a reset, and the client would
   * lose the answer that it has not read yet (RFC 9112, 9.6).
   */
  #closeGently(): void {
    if (!this.#socket.writable) return;
    this.#socket.end();
    const timer = setTimeout(
      () => this.#socket.destroy(),
      this.#all.limits.discardMillis
    );
    this.#socket.once("close", () => clearTimeout(timer));
  }

  /**
   * Discards what stands behind a last answer, within the limit.
   *
   * A pause would not last, for node reads on: so nothing more gets to its parser.
   */
  #discardRest(): void {
    const socket = this.#socket;
    const end = socket.bytesRead + this.#all.limits.discardBytesMax;
    socket.removeAllListeners("data");
    socket.on("data", () => {
      if (socket.bytesRead > end) socket.destroy();
    });
  }
}
