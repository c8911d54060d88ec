/**
 * The life of one connection: whose answer is next, which is the last, what is discarded, who
 * closes, and when (RFC 9112, 9).
 */
import type { ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Limits } from "../config.ts";
import { discardBody } from "./body.ts";
import { parserErrorOf, type ApiError } from "./errors.ts";
import {
  endReplies, hasLeft, rawReply, reply, replyUnended, type Answer, type Persistence,
} from "./reply.ts";

/** An answer as its listener is told of it: an Error has its number and its message, too. */
export type Answered = Pick<ApiError, "status"> & Partial<Pick<ApiError, "error" | "message">>;

/**
 * Told of each answer just before it leaves; `response`, whose head is not written yet, is absent
 * where node's parser refuses what came, and for CONNECT. What it throws is not caught.
 */
export type AnswerListener = (answer: Answered, socket: Socket, response?: ServerResponse) => void;

/** The connections of an application, each found by its socket for as long as that lives. */
export class Connections {
  readonly limits: Limits;
  readonly onAnswer: AnswerListener | undefined;

  /** While the application shuts down, the last answer of each connection closes it. */
  isDraining = false;

  readonly #bySocket = new WeakMap<Socket, Connection>();

  constructor(limits: Limits, onAnswer?: AnswerListener) {
    this.limits = limits;
    this.onAnswer = onAnswer;
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

  /** Node's parser has given up: nothing that comes is a request. */
  | {
      /** How much had been read then. */
      readonly atBytes: number;

      /** The answer to the request in whose body that was; undefined: between two requests. */
      readonly within: ServerResponse | undefined;
    };

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
   * @param wanted what becomes of the connection, unless nothing may follow this answer anyhow
   */
  answer(
    response: ServerResponse,
    answer: Answer,
    wanted: Persistence = "persist",
  ): void {
    if (response.headersSent) return;
    const isLast = !response.shouldKeepAlive || (this.#all.isDraining && this.#last === response);
    const persistence = isLast ? "close" : wanted;
    if (persistence === "close" && this.#state === "open") this.#state = "closing";
    this.#all.onAnswer?.(answer, this.#socket, response);

    if (persistence === "persist" && this.#isWhole(response)) reply(response, answer);
    else this.#answerUnended(response, answer, persistence);
  }

  /** Answers with an error, whether the request is complete or its body still arrives. */
  refuse(response: ServerResponse, error: ApiError): void {
    if (this.#socket.destroyed) return;
    const request = response.req;
    const { expect, "content-length": length } = request.headers;

    // Who was not told to continue may send the body or not: then node closes, whatever we say.
    const isUntold = expect !== undefined && request.readableFlowing !== true;
    const isTooLong = !this.#isWhole(response) && Number(length) > this.#all.limits.discardBytesMax;

    const mustClose = error.close || isUntold || isTooLong;
    this.answer(response, error, mustClose ? "close" : "persist");
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
    if (code === "ECONNRESET" || code === "EPIPE") return void this.#socket.destroy();

    // The parser says so again with every piece that still comes.
    if (typeof this.#state === "object") {
      const bytes = this.#socket.bytesRead - this.#state.atBytes;
      if (bytes > this.#all.limits.discardBytesMax) this.#socket.destroy();
      return;
    }

    const last = this.#last;
    const within = last && !last.req.complete ? last : undefined;
    this.#state = { atBytes: this.#socket.bytesRead, within };

    // An error in a body is the answer to its request, unless that has one. One between requests
    // is answered by itself.
    const error = parserErrorOf(code);
    if (within === undefined) this.#answerRaw(error);
    else if (!within.headersSent) this.refuse(within, error);
    else if (hasLeft(within)) this.#closeGently();
  }

  /** Waiting for our answer is no idleness of theirs; not taking one is. */
  onTimeout(): void {
    const isOurs = !this.isAnswered() && this.#socket.writableLength === 0;
    if (isOurs) this.#socket.setTimeout(this.#all.limits.idleMillis);
    else this.#socket.destroy();
  }

  /** Whether every request, as far as its head has come, has its whole answer. */
  isAnswered(): boolean {
    return this.#last === undefined || hasLeft(this.#last);
  }

  /** Closes where nothing is under way: no whole head has come, or its answer is done with. */
  closeIfIdle(): void {
    // One that is not open closes by itself, behind its last answer.
    if (this.#state !== "open") return;
    endReplies();

    if (this.#last === undefined) {
      // Nothing was ever written that could be lost.
      this.#socket.destroy();
    } else if (this.#last.writableEnded && hasLeft(this.#last)) {
      this.#state = "closing";
      this.#closeGently();
    }
  }

  /** Whether nothing more comes of its request. */
  #isWhole(response: ServerResponse): boolean {
    if (this.#read === response || response.req.complete) return true;

    // Where no body is declared, node tells it later.
    const { "content-length": length = "0", "transfer-encoding": coding } = response.req.headers;
    return length === "0" && coding === undefined;
  }

  /** Answers while the body may still arrive, and discards what comes of it. */
  #answerUnended(
    response: ServerResponse,
    answer: Answer,
    persistence: Persistence,
  ): void {
    const left = replyUnended(response, answer, persistence).then(() => {
      const isBroken = typeof this.#state === "object" && this.#state.within === response;
      if (persistence === "close" || isBroken) this.#closeGently();
    });

    const request = response.req;
    if (request.readableEnded) return;
    void discardBody(request, this.#all.limits).then((end) => {
      if (end === "given up") void left.then(() => this.#socket.destroySoon());
      else if (persistence === "persist") response.end();
    });
  }

  /** Writes an answer behind all others; then closes as gently as after an early answer. */
  #answerRaw(error: ApiError): void {
    const last = this.#last;
    const write = (): void => {
      // The answer before it may have turned out to be the last one.
      if (!this.#socket.writable || last?.shouldKeepAlive === false) return;
      this.#all.onAnswer?.(error, this.#socket);
      this.#socket.write(rawReply(error));
      this.#socket.resume();
      this.#closeGently();
    };

    // Before node's own listener, which ends the connection of who has half-closed.
    if (last?.writableFinished === false) last.prependOnceListener("finish", write);
    else write();
  }

  /**
   * Closes as who still sends expects: FIN now, and gone when the client closes, or in time.
   *
   * Closed at once, its unread bytes would make the kernel send a reset, and the client would
   * lose the answer that it has not read yet (RFC 9112, 9.6).
   */
  #closeGently(): void {
    if (this.#socket.destroyed) return;
    this.#socket.end();
    const timer = setTimeout(() => this.#socket.destroy(), this.#all.limits.discardMillis);
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
