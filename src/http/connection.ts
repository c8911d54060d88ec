/**
 * The life of one connection (RFC 9112, 9): the order of responses, the last response, what is
 * discarded after it, and when the connection closes.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Limits } from "../config.ts";
import { parserErrorOf, type ApiError } from "./errors.ts";
import { rawReply, reply, type Answer, type ResponseSummary } from "./reply.ts";

/**
 * Called with each response just before it leaves. The listener may set headers on `response`, but
 * not Connection: later requests may be in progress. It is absent for a CONNECT, and where node's
 * parser refuses what arrived. An exception that the listener throws is not caught, but does not
 * prevent the response.
 */
export type ResponseListener = (
  summary: ResponseSummary,
  socket: Socket,
  response?: ServerResponse
) => void;

/** The connections of an application. Each is found by its socket. */
export class Connections {
  readonly limits: Limits;
  readonly #onResponse: ResponseListener | undefined;

  /** During a shutdown the response to the latest request of each connection closes it. */
  isDraining = false;

  readonly #bySocket = new WeakMap<Socket, Connection>();

  constructor(limits: Limits, onResponse?: ResponseListener) {
    this.limits = limits;
    this.#onResponse = onResponse;
  }

  of(socket: Socket) {
    const known = this.#bySocket.get(socket);
    if (known) return known;

    const connection = new Connection(socket, this);
    this.#bySocket.set(socket, connection);
    return connection;
  }

  /** Calls the listener. What it throws is thrown later: it must not prevent the response. */
  report(
    { status, error, message, replayed, receipt }: Answer,
    socket: Socket,
    response?: ServerResponse
  ) {
    try {
      this.#onResponse?.(
        { status, error, message, replayed, receipt },
        socket,
        response
      );
    } catch (thrown) {
      queueMicrotask(() => {
        throw thrown;
      });
    }
  }
}

/** A connection's state: `open`, then perhaps `closing`, then perhaps `unparsed`. */
type State =
  /** Every request is executed. */
  | "open"

  /** One response is, or will be, the last. No request after its own is executed. */
  | "closing"

  /** What arrives is discarded: node's parser does not get it. */
  | "unparsed";

/** The progress of a socket. All handlers of a host's server share it. */
interface Progress {
  state: State;

  /** The response to the latest request. The responses to all requests before it leave first. */
  latest?: ServerResponse;

  /** The responses that have begun, and of which the kernel does not have all. */
  unfinished: number;
}

/** Connection = #connection-option, with `close` among them (RFC 9110, 7.6.1) */
const closeOption = /(?:^|[\s,])close(?:$|[\s,])/i;

const progressBySocket = new WeakMap<Socket, Progress>();

/** Returns whether a response of the socket is, or will be, the last: no later request is executed. */
export const hasLastResponse = (socket: Socket) =>
  socket.destroyed || progressOf(socket).state !== "open";

function progressOf(socket: Socket) {
  const known = progressBySocket.get(socket);
  if (known) return known;

  const progress: Progress = { state: "open", unfinished: 0 };
  progressBySocket.set(socket, progress);

  // Node does not end a body after its response has left: a reader would wait for ever. One
  // listener serves all handlers: from the eleventh on, node would write a warning.
  socket.once("close", () => {
    const request = progress.latest?.req;
    if (request?.complete === false) request.destroy();
  });
  return progress;
}

/** One socket and its requests in turn, as far as one application gets them. */
export class Connection {
  readonly #socket: Socket;
  readonly #connections: Connections;
  readonly #progress: Progress;

  constructor(socket: Socket, connections: Connections) {
    this.#socket = socket;
    this.#connections = connections;
    this.#progress = progressOf(socket);

    // Node calls `destroySoon` after a last response, whether we, a host or its listener made it
    // the last. Node would destroy the socket. The client's unread bytes would then reset the
    // connection before the client sees the response. Node does not document which method it
    // calls: the tests of early responses pin it on each Node.
    socket.destroySoon = () => this.#closeGently();
  }

  /**
   * Begins the next request.
   *
   * @returns whether to execute it. If not, neither it nor any later request gets a response.
   */
  begin(response: ServerResponse) {
    if (hasLastResponse(this.#socket)) return false;
    this.#progress.latest = response;
    const waiting = this.#progress.unfinished++;
    response.on("finish", () => this.#progress.unfinished--);

    // Node loses the bytes after an Upgrade in its segment: what follows is not a whole request.
    // It keeps HTTP/1.0 alive for `keep-alive, close`, and Node 20 does HTTP/1.1 for a close and a
    // tab, but close wins (RFC 9112, 9.3).
    const { upgrade, connection = "" } = response.req.headers;
    if (
      upgrade !== undefined ||
      closeOption.test(connection) ||
      waiting >= this.#connections.limits.pipelinedMax
    )
      this.#makeLast(response);
    return true;
  }

  /** Responds to a whole request, unless a host application or a timeout has done so. */
  answer(response: ServerResponse, answer: Answer) {
    if (response.headersSent) return;
    const isDrained =
      this.#connections.isDraining && this.#progress.latest === response;
    if (isDrained || !response.shouldKeepAlive) this.#makeLast(response);

    this.#connections.report(answer, this.#socket, response);
    reply(response, answer);
  }

  /** Responds with an error, before the body is read, while it arrives or after it. */
  refuse(response: ServerResponse, error: ApiError) {
    if (this.#socket.destroyed || response.headersSent) return;
    const request = response.req;
    const { expect = "", "content-length": length } = request.headers;

    // A client that expects 100 and does not get it may send the body or not. Node closes then,
    // whatever our headers say.
    const isUnread = request.readableFlowing !== true;
    const isEndInDoubt =
      expect !== "" ||
      Number(length) > this.#connections.limits.discardBytesMax;
    if ("Connection" in error.headers || (isUnread && isEndInDoubt))
      response.shouldKeepAlive = false;
    this.answer(response, error);

    // Node reports the end of a request a moment after its last byte. Discarding nothing is safe.
    if (!request.complete) this.#discardBody(request);
  }

  /**
   * Responds to a CONNECT after all responses before it, unless one of them is the last. Node makes
   * no ServerResponse for it.
   */
  refuseConnect(error: ApiError) {
    // Node has removed its own listener.
    this.#socket.on("timeout", () => this.onTimeout());
    this.#discardRest();
    this.#answerRaw(error);
  }

  /** Responds to what node's parser refuses. Every request before it keeps its own response. */
  onParserError(code: string, packet = "") {
    if (code === "ECONNRESET" || code === "EPIPE")
      return void this.#socket.destroy();
    if (this.#progress.state === "unparsed") return;

    // No client has asked for a response to silence.
    if (this.#socket.bytesRead === 0) return this.#closeGently();
    this.#discardRest();

    // An error within a body is the response to its request, unless that has one. An error
    // between requests gets a response of its own.
    const error = parserErrorOf(code, packet, this.#connections.limits);
    const { latest } = this.#progress;
    if (latest === undefined || latest.req.complete) this.#answerRaw(error);
    else if (latest.headersSent) this.#afterLatest(() => this.#closeGently());
    else this.refuse(latest, error);
  }

  /**
   * Closes a connection on which no byte has come or gone for `idleMillis`.
   *
   * A client that waits for our response is not idle: the response starts the time again. What has
   * begun to arrive has timeouts of its own. A client that does not read its response is idle.
   */
  onTimeout() {
    if (this.#socket.writableLength > 0) this.#socket.destroy();
    else if (this.isAnswered() && !this.#isArriving()) this.#closeGently();
  }

  /**
   * Returns whether a part of a request has arrived. Node documents nothing that says so. This asks
   * its parser, as node does when a client half-closes: within a request, `finish` returns an Error.
   * Without an argument it changes nothing. A test on each Node pins it.
   */
  #isArriving() {
    const { parser } = this.#socket as Socket & {
      parser?: { finish(): unknown } | null;
    };
    return parser?.finish() instanceof Error;
  }

  /** Returns whether the kernel has the whole response to each request whose head has arrived. */
  isAnswered() {
    return this.#progress.unfinished === 0;
  }

  /** Closes, unless a request whose head has arrived is in progress. */
  closeIfIdle() {
    const { state, latest } = this.#progress;

    // Any other state closes by itself, after its last response.
    if (state !== "open") return;

    // Nothing was ever written that could be lost.
    if (latest === undefined) this.#socket.destroy();
    else if (this.isAnswered() && latest.req.complete) this.#closeGently();
  }

  /** Writes a response after all others, then closes as gently as after an early response. */
  #answerRaw(error: ApiError) {
    this.#afterLatest(() => {
      // The response before it may have become the last one.
      if (
        !this.#socket.writable ||
        this.#progress.latest?.shouldKeepAlive === false
      )
        return;
      this.#connections.report(error, this.#socket);
      this.#socket.write(rawReply(error));
      this.#socket.resume();
      this.#closeGently();
    });
  }

  /** Calls `act` when the latest response has left. */
  #afterLatest(act: () => void) {
    // Runs before node's own listener, which ends the connection of a client that has half-closed.
    if (this.isAnswered()) act();
    else this.#progress.latest?.prependOnceListener("finish", act);
  }

  /**
   * Closes for a client that may still send: ends our side now, destroys the socket when the
   * client closes or after `discardMillis`.
   *
   * Closing at once would make the kernel answer unread bytes with a reset. The client would lose
   * a response that it has not read yet (RFC 9112, 9.6).
   */
  #closeGently() {
    if (this.#progress.state === "open") this.#progress.state = "closing";
    if (!this.#socket.writable) return;
    this.#socket.end();
    const timer = setTimeout(
      () => this.#socket.destroy(),
      this.#connections.limits.discardMillis
    );
    this.#socket.once("close", () => clearTimeout(timer));
  }

  /**
   * Discards the rest of a body, so that a client that is still sending sees the early response.
   * Closes after `discardMillis`, or beyond `discardBytesMax`.
   */
  #discardBody(request: IncomingMessage) {
    const { discardMillis, discardBytesMax } = this.#connections.limits;
    const giveUp = () => {
      request.pause();
      this.#afterLatest(() => this.#socket.end(() => this.#socket.destroy()));
    };
    const timer = setTimeout(giveUp, discardMillis);
    request.once("close", () => clearTimeout(timer));

    let bytes = 0;
    request.on("data", (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes > discardBytesMax) giveUp();
    });

    // A host application may have paused it.
    request.resume();
  }

  /** Makes a response the last one. What follows its request is discarded. */
  #makeLast(response: ServerResponse) {
    response.shouldKeepAlive = false;
    if (this.#progress.state !== "open") return;
    this.#progress.state = "closing";
    if (response.req.readableEnded) this.#discardRest();
    else response.req.once("end", () => this.#discardRest());
  }

  /**
   * Discards what arrives from now on, up to `discardBytesMax`.
   *
   * Pausing does not help, because node resumes. Without node's listener nothing more reaches the
   * parser.
   */
  #discardRest() {
    if (this.#progress.state === "unparsed") return;
    this.#progress.state = "unparsed";
    const socket = this.#socket;
    const endBytes =
      socket.bytesRead + this.#connections.limits.discardBytesMax;
    socket.removeAllListeners("data");
    socket.on("data", () => {
      if (socket.bytesRead <= endBytes) return;

      // A request that was accepted gets its response first. Node resumes whenever one has left.
      if (this.isAnswered()) socket.destroy();
      else socket.pause();
    });
  }
}
