/**
 * One connection to one server: INFO, TLS, credentials, then messages and pings until it ends.
 * It goes to a listed host only: the addresses in INFO's `connect_urls` are ignored.
 */
import { Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import { EngineError } from "../store.ts";
import type { Endpoint, Settings } from "./address.ts";
import { readCredentials } from "./credentials.ts";
import {
  framesOf,
  isOldVersion,
  newVersion,
  protocolError,
  publication,
  randomId,
  readObject,
  type Frame,
  type JsonObject
} from "./protocol.ts";

/** `protocol` 1: the server may send INFO at any time, as one does that is about to leave. */
const introduction = {
  name: "plant-store",
  verbose: false,
  pedantic: false,
  protocol: 1,
  headers: true,
  no_responders: true
};

/** The token of `ask`. Those of `publish` are numbers. */
const askedToken = "asked";

const forKeys = ": keys of plants, import and export need this permission";

/** Called with each response to a message that was published, and its token. */
export type OnReply = (token: string, reply: Frame) => void;

export class Connection {
  readonly #endpoint: Endpoint;
  readonly #settings: Settings;
  readonly #onReply: OnReply;

  /** The start of the subjects that responses are sent to. Each connection has its own, so that a
   * clone of this process gets no response to another's messages. */
  readonly #inbox: string;

  /** Resolves the latest call of `ask`. */
  #onAnswer: ((reply: JsonObject) => void) | undefined;

  /** The latest INFO: a server sends it again when `max_payload` changes, or before it leaves. */
  #info: JsonObject = {};

  /** Its errors are thrown by the loop over its bytes. A socket under TLS has no such loop, and its
   * errors are those of the TLS socket: ignoring them here is safe. */
  #socket = new Socket().on("error", () => undefined);

  /** The time limit of the handshake, then the interval of the pings. */
  #timer: NodeJS.Timeout | undefined;
  #pingsMissed = 0;

  /** The socket's bytes at the last look at them, for pings and for `isReceiving`. */
  #bytesAtPing = 0;
  #bytesSeen = 0;
  #hasFrame = false;
  #onOpen: (() => void) | undefined;

  constructor(endpoint: Endpoint, settings: Settings, onReply: OnReply) {
    this.#endpoint = endpoint;
    this.#settings = settings;
    this.#onReply = onReply;
    this.#inbox = `${settings.inbox}.${randomId()}`;
  }

  /** The most bytes that the server takes in one message. */
  get maxPayload(): number {
    return Number(this.#info["max_payload"]);
  }

  /** The server's id, which is another one after each start. */
  get serverId(): string {
    return String(this.#info["server_id"]);
  }

  /** Whether messages can be published on it. */
  get isOpen(): boolean {
    return this.#socket.writable;
  }

  /** Whether bytes have arrived since the last call, of a message that is still incomplete. */
  isReceiving(): boolean {
    const { bytesRead } = this.#socket;
    const isReceiving = bytesRead > this.#bytesSeen && !this.#hasFrame;
    this.#bytesSeen = bytesRead;
    this.#hasFrame = false;
    return isReceiving;
  }

  /**
   * Connects, and reads until the connection ends; resolves with the reason.
   *
   * @param onOpen called once, when the server has taken the credentials
   */
  async talk(onOpen: () => void): Promise<EngineError> {
    const { api, keys, limits, needsTls, isTlsFirst, stream, credentials } =
      this.#settings;
    this.#onOpen = onOpen;
    this.#timer = setTimeout(
      () => this.close("no handshake in time"),
      limits.handshakeMillis
    );
    try {
      const login = readCredentials(credentials);
      this.#socket.connect(this.#endpoint.port, this.#endpoint.address);
      if (isTlsFirst) this.#startTls();
      let frames = framesOf(this.#socket, limits);
      const greeting = await frames.next();
      if (greeting.value) this.#onFrame(greeting.value);
      this.#checkServer();
      const isDemanded = needsTls || this.#info["tls_required"] === true;
      if (isDemanded && !isTlsFirst) {
        // Bytes after INFO in the clear may come from anybody: they stay in the old frames, unread.
        this.#startTls();
        frames = framesOf(this.#socket, limits);
      }

      // No secret has been sent before this line: over TLS, node handshakes before it sends this.
      const nonce = String(this.#info["nonce"] ?? "");
      const hello = JSON.stringify({ ...introduction, ...login(nonce) });
      this.#write(`CONNECT ${hello}\r\nSUB ${this.#inbox}.* 1\r\n`);

      // If this is not permitted, the server says so before it answers PING.
      const read = `${api}.STREAM.MSG.GET.${stream}`;
      if (keys) this.publish(read, "0");
      this.#write("PING\r\n");
      for await (const frame of frames) this.#onFrame(frame);
      return new EngineError("unreachable", "the server closed the connection");
    } catch (error) {
      return this.#reasonOf(error);
    } finally {
      this.close("it has ended");
    }
  }

  #startTls() {
    const { tls } = this.#settings;
    const options = typeof tls === "function" ? tls() : tls;
    const { tls: names } = this.#endpoint;
    this.#socket = connectTls({ ...options, ...names, socket: this.#socket });
  }

  /** Publishes a message; `onReply` is called with each response, unless `ask` published it. */
  publish(
    subject: string,
    token: string,
    headers?: string,
    payload?: Buffer
  ): void {
    this.#write(
      publication(subject, `${this.#inbox}.${token}`, headers, payload)
    );
  }

  /**
   * Publishes a request; resolves with the members of the response, or with none after `millis`.
   * The response may be a late one to an earlier call: all calls ask the same, one after another.
   */
  ask(subject: string, millis: number): Promise<JsonObject> {
    return new Promise((resolve) => {
      this.#onAnswer = resolve;
      setTimeout(() => resolve({}), millis).unref();
      this.publish(subject, askedToken);
    });
  }

  /** Ends the connection. Only the first call's reason counts. */
  close(reason: string, code: EngineError["code"] = "unreachable"): void {
    clearTimeout(this.#timer);
    this.#socket.destroy(new EngineError(code, reason));
  }

  /**
   * Writes. One system call sends all that is written in a turn of the event loop. That is safe: no
   * later turn begins before `setImmediate` has run.
   */
  #write(bytes: Buffer | string) {
    const socket = this.#socket;

    // Appends come in the same turn as the requests that the loop has just read.
    if (socket.writableCorked === 0) {
      socket.cork();
      setImmediate(() => socket.uncork());
    }
    socket.write(bytes);
  }

  /** @throws EngineError for a server that is not safe, or that lacks what this client needs */
  #checkServer() {
    const { version, headers, tls_required, tls_available } = this.#info;
    if (version === undefined) throw protocolError("no INFO");
    const { needsTls, allowsOldServer } = this.#settings;
    const hasTls = tls_required === true || tls_available === true;
    const lacks =
      isOldVersion(version) && !allowsOldServer
        ? newVersion
        : headers !== true
          ? "headers"
          : needsTls && !hasTls
            ? "TLS"
            : "";
    if (lacks !== "")
      throw new EngineError("refused", `expected a server with ${lacks}`);
  }

  #onFrame(frame: Frame) {
    const {
      line,
      words: [name = "", subject = ""]
    } = frame;
    this.#hasFrame = true;
    switch (name) {
      case "MSG":
      case "HMSG": {
        const [, token = ""] = subject.split(`${this.#inbox}.`);
        if (token !== askedToken) return this.#onReply(token, frame);

        // A status says that no server took the request.
        if (frame.status === "") this.#onAnswer?.(readObject(frame.payload));
        return;
      }
      case "PING":
        return this.#socket.writableNeedDrain
          ? undefined
          : this.#write("PONG\r\n");
      case "-ERR":
        return this.#onError(line.slice(5, 205).replace(/[^ -~]/g, "?"));
      case "INFO":
        this.#info = readObject(line.slice(5));
        break;
      case "PONG":
        this.#onPong();
        break;
      default:
        throw protocolError("an unknown operation");
    }

    // Leaves now, while all hosts can be chosen, rather than when the server cuts the connection.
    if (this.#info["ldm"] === true)
      this.close("it is about to leave (lame duck)");
  }

  /**
   * Ends the handshake at the first PONG. A later PONG shows that the server runs, not that it
   * acknowledges anything.
   */
  #onPong() {
    const { pingMillis, pingsMissedMax } = this.#settings.limits;
    clearTimeout(this.#timer);
    this.#pingsMissed = 0;
    this.#timer = setInterval(() => {
      // A PONG comes after everything that the server has sent before: bytes are a sign of life.
      const { bytesRead } = this.#socket;
      if (bytesRead > this.#bytesAtPing) this.#pingsMissed = 0;
      this.#bytesAtPing = bytesRead;
      if (this.#pingsMissed === pingsMissedMax)
        this.close("it does not answer PING");
      this.#pingsMissed++;
      this.#write("PING\r\n");
    }, pingMillis);
    this.#onOpen?.();
    this.#onOpen = undefined;
  }

  /** Ends the connection. A denied message gets no other response, so this is its end, too. */
  #onError(text: string) {
    const isDenied = /permissions violation/i.test(text);
    const hint = text.includes("STREAM.MSG.GET") ? forKeys : "";
    this.close(
      text + hint,
      isDenied ? "config" : /authori/i.test(text) ? "refused" : undefined
    );
  }

  /** @throws what is neither an error of the connection nor of the server: an internal error */
  #reasonOf(error: unknown) {
    if (error instanceof EngineError) return error;

    // A RangeError is JSON that is nested too deeply to be read.
    if (error instanceof SyntaxError || error instanceof RangeError)
      return protocolError("bad JSON");
    if (!(error instanceof Error && "code" in error)) throw error;

    // An error of the system names its call. Any other error over TLS is about trust.
    const isTrust = "authorized" in this.#socket && !("syscall" in error);
    return new EngineError(
      isTrust ? "refused" : "unreachable",
      error.message || "cannot connect"
    );
  }
}
