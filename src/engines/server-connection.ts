/**
 * One connection to one server: INFO, TLS, credentials, then messages and pings until it ends.
 * Only listed hosts are ever spoken to: the addresses that INFO offers are not looked at.
 */
import { EventEmitter, once } from "node:events";
import { connect, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import { EngineError } from "../store.ts";
import type { Link } from "./session.ts";
import { foreign, framesOf, readObject, type Frame } from "./protocol.ts";
import type { Host } from "./address.ts";

/** `protocol` 1: it may send INFO at any time, as one that is about to leave does. */
const introduction = {
  name: "plant-store",
  verbose: false,
  pedantic: false,
  protocol: 1,
  headers: true,
  no_responders: true
};

export class Connection {
  /**
   * What the server said of itself last: it says it again whenever something changes, such as
   * `max_payload`, or that it is about to leave.
   */
  info: ReturnType<typeof readObject> = {};
  readonly #host: Host;
  readonly #link: Link;
  #socket: Socket;

  /** The end of the handshake's time; afterwards the pings. */
  #timer: NodeJS.Timeout | undefined;
  #pingsMissed = 0;

  /** Emits every line by its name, but for the messages that are answers to appends. */
  readonly #heard = new EventEmitter();

  constructor(host: Host, link: Link) {
    this.#host = host;
    this.#link = link;

    // Who reads the socket hears of errors; a socket under TLS has no reader.
    this.#socket = connect(host.port, host.address).on(
      "error",
      () => undefined
    );
  }

  /** Talks until the connection ends; resolves with the reason. */
  async talk(): Promise<EngineError> {
    const { limits, target, options, inbox } = this.#link;
    this.#timer = setTimeout(
      () => this.close("no handshake in time"),
      limits.handshakeMillis
    );
    try {
      let frames = framesOf(this.#socket, limits);
      const greeting = await frames.next();
      if (greeting.value) this.#onFrame(greeting.value);
      this.#checkServer();
      if (target.needsTls || this.info["tls_required"] === true) {
        // What stands behind INFO in the clear may be anybody's: it is left with the old frames.
        this.#socket = connectTls({
          ...options.tls,
          ...this.#host.tls,
          socket: this.#socket
        });
        frames = framesOf(this.#socket, limits);
      }

      // Nothing secret has left before this line: over TLS the handshake comes first.
      const login = JSON.stringify({ ...introduction, ...target.credentials });
      this.write(`CONNECT ${login}\r\nSUB ${inbox}.* 1\r\nPING\r\n`);
      for await (const frame of frames) this.#onFrame(frame);
      return new EngineError("unreachable", "the server closed the connection");
    } catch (error) {
      // What is no error of a socket is a fault of ours.
      if (error instanceof EngineError) return error;

      // The second is JSON that is nested too deeply to be read.
      if (error instanceof SyntaxError || error instanceof RangeError)
        return foreign("bad JSON");
      if (!(error instanceof Error && "code" in error)) throw error;

      // What the system tells names its call; anything else, once there is TLS, is about trust.
      const isTrust = "authorized" in this.#socket && !("syscall" in error);
      return new EngineError(
        isTrust ? "refused" : "unreachable",
        error.message || "can't connect"
      );
    } finally {
      this.close("it has ended");
    }
  }

  /** Everything written within a turn of the event loop leaves with one system call. */
  write(bytes: Buffer | string): void {
    const socket = this.#socket;

    // Appends come in the same turn as the requests that the loop has just read.
    if (socket.writableCorked === 0) setImmediate(() => socket.uncork());
    if (socket.writableCorked === 0) socket.cork();
    socket.write(bytes);
  }

  /** Waits for a line of this name: for ever, where the connection ends before. */
  async next(name: string): Promise<Frame> {
    return (await once(this.#heard, name))[0];
  }

  /** The first reason is the one that counts. */
  close(reason: string, code: EngineError["code"] = "unreachable"): void {
    clearTimeout(this.#timer);
    this.#socket.destroy(new EngineError(code, reason));
  }

  /** @throws EngineError for one whose acknowledgements are worth nothing, or nothing to us */
  #checkServer(): void {
    if (this.info["version"] === undefined) throw foreign("no INFO");
    const {
      version,
      headers,
      tls_required: mustTls,
      tls_available: canTls
    } = this.info;
    const { needsTls, allowsOldServer } = this.#link.target;
    const [, major, minor] = /^(\d+)\.(\d+)\./.exec(String(version)) ?? [];

    // 2.10 acknowledges what is sent twice, and only a leader without a quorum has.
    const isNew = 1000 * Number(major) + Number(minor) >= 2011;
    const lacks =
      !isNew && !allowsOldServer
        ? "version 2.11 or later (old-server=allow takes any)"
        : headers !== true
          ? "headers"
          : needsTls && mustTls !== true && canTls !== true
            ? "TLS"
            : "";
    if (lacks !== "")
      throw new EngineError("refused", `expected a server with ${lacks}`);
  }

  #onFrame(frame: Frame): void {
    const {
      line,
      words: [name = "", subject = ""]
    } = frame;
    const [, token = ""] = subject.split(`${this.#link.inbox}.`);
    switch (name) {
      case "MSG":
      case "HMSG":
        if (token !== "0") return this.#link.onReply(token, frame);
        break;
      case "PING":
        return this.#socket.writableNeedDrain
          ? undefined
          : this.write("PONG\r\n");
      case "-ERR":
        return this.#onError(line.slice(5, 205).replace(/[^ -~]/g, "?"));
      case "INFO":
        this.info = readObject(line.slice(5));
        break;
      case "PONG":
        this.#onPong();
        break;
      default:
        throw foreign("an operation that it does not have");
    }

    // Better to go now, with all hosts to choose from, than to be cut off in the middle.
    if (this.info["ldm"] === true)
      this.close("it is about to leave (lame duck)");
    this.#heard.emit(name, frame);
  }

  /**
   * The first is the end of the handshake. Later ones show that the server lives, which is not
   * that it acknowledges.
   */
  #onPong(): void {
    const { pingMillis, pingsMissedMax } = this.#link.limits;
    clearTimeout(this.#timer);
    this.#pingsMissed = 0;
    this.#timer = setInterval(() => {
      if (this.#pingsMissed === pingsMissedMax)
        this.close("it does not answer PING");
      this.#pingsMissed++;
      this.write("PING\r\n");
    }, pingMillis);
  }

  /** Of what is not permitted no reply says more: so it ends the connection, too. */
  #onError(text: string): void {
    const isDenied = /permissions violation/i.test(text);
    this.close(
      text,
      isDenied ? "config" : /authori/i.test(text) ? "refused" : undefined
    );
  }
}
