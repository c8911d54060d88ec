/**
 * One connection to one server: INFO, TLS, credentials, then messages and pings until it ends.
 * It goes to a listed host only: the addresses in INFO's `connect_urls` are ignored.
 */
import { Socket } from "node:net";
import { hostname } from "node:os";
import { pid } from "node:process";
import { connect as connectTls } from "node:tls";
import { version } from "../config.ts";
import { isError, ExitError } from "../failure.ts";
import type { Endpoint, StreamSettings } from "./address.ts";
import {
  expectedOf,
  framesOf,
  headersOf,
  objectOf,
  protocolError,
  randomId,
  readObject,
  type Frame,
  type JsonObject
} from "./protocol.ts";

/** `name` tells processes apart in the servers' lists of connections. `protocol` 1: the server may
 * send INFO at any time, as one does that is about to leave. */
const introduction = {
  name: `plant-store ${hostname()} ${pid}`,
  lang: "node",
  version,
  verbose: false,
  pedantic: false,
  protocol: 1,
  headers: true,
  no_responders: true
};

/**
 * The members of a response, or a status without one: 503 says that no server took what was
 * published.
 */
export type Response = JsonObject | number;

export interface ResponseHandler {
  /** Called with each response to a message that was published, and its token. */
  onResponse(token: string, response: Response): void;
}

export class ServerConnection {
  readonly #settings: StreamSettings;
  readonly #handler: ResponseHandler;

  /** The start of the subjects that responses are sent to. Each connection has its own, so that a
   * clone of this process gets no response to another's messages. */
  readonly #inbox: string;

  /** What takes the responses to a request of `ask`, by the token. */
  readonly #asked = new Map<string, (response: Response) => void>();

  /** The number of the latest census. */
  #census = 0;

  /** The latest INFO: a server sends it again when `max_payload` changes, or before it leaves. */
  info: JsonObject = {};

  /** Whether the latest bytes belong to a message that is still incomplete. */
  isReceiving = false;

  /** Its errors are thrown by the loop over its bytes. Under TLS it has no such loop, and its errors
   * are those of the TLS socket: ignoring them here is safe. A half-open socket can be reset: one
   * that node ends because the server did cannot. */
  readonly #tcp = new Socket({ allowHalfOpen: true }).on(
    "error",
    () => undefined
  );

  /** The TCP socket, or the TLS socket on it. */
  #socket = this.#tcp;

  /** Why the connection ends. */
  #reason: unknown;

  /** The pings since the server has sent anything. */
  #pingsMissed = 0;

  constructor(settings: StreamSettings, handler: ResponseHandler) {
    this.#settings = settings;
    this.#handler = handler;
    this.#inbox = `${settings.inbox}.${randomId()}`;
  }

  /** Whether messages can be published on it. */
  get isOpen() {
    return this.#socket.writable;
  }

  /**
   * Connects, and reads until the connection ends; resolves with the reason.
   *
   * @param onOpen called once, when the server has taken the credentials; its failure is the end
   */
  async talk(endpoint: Endpoint, onOpen: () => Promise<void>) {
    const { limits, needsTls, isTlsFirst } = this.#settings;
    let pings: NodeJS.Timeout | undefined;
    setTimeout(() => {
      if (!pings) this.close("no handshake in time");
    }, limits.handshakeMillis).unref();
    try {
      this.#socket.connect(endpoint);
      if (isTlsFirst) this.#startTls(endpoint);
      let frames = framesOf(this.#chunks(), limits);
      const greeting = await frames.next();
      if (greeting.value) this.#onFrame(greeting.value);
      this.#checkServer();
      if (!isTlsFirst && (needsTls || this.info["tls_required"])) {
        // Bytes after INFO in the clear may come from anybody: they stay in the old frames, unread.
        this.#startTls(endpoint);
        frames = framesOf(this.#chunks(), limits);
      }

      // No secret has been sent before this line: over TLS, node handshakes before it sends this.
      const nonce = String(this.info["nonce"] ?? "");
      const login = this.#settings.login(nonce);
      const hello = JSON.stringify({ ...introduction, ...login });
      this.#write(`CONNECT ${hello}\r\nSUB ${this.#inbox}.* 1\r\n`);
      this.#askPermissions();
      for await (const frame of frames) {
        this.#onFrame(frame);
        if (frame.line !== "PONG" || pings) continue;
        pings = setInterval(() => this.#ping(), limits.pingMillis);
        onOpen().catch((error) => this.#end(error));
      }
      this.close("the server closed the connection");
    } catch (error) {
      this.#end(error);
    }
    clearInterval(pings);
    return this.#errorOf(this.#reason);
  }

  /** Publishes what must be permitted: the server refuses it before it answers PING. */
  #askPermissions() {
    const { api, keys, stream } = this.#settings;
    if (keys) this.publish(`${api}.STREAM.MSG.GET.${stream}`, "0");
    this.countStreams();
    this.#write("PING\r\n");
  }

  #startTls(endpoint: Endpoint) {
    this.#socket = connectTls({
      ...this.#settings.tlsOptions(),
      ...endpoint,
      socket: this.#socket
    });
  }

  async *#chunks() {
    // Otherwise the end of this loop would close the socket, and the kernel would send the rest.
    const chunks = this.#socket.iterator({ destroyOnReturn: false });
    for await (const chunk of chunks) {
      this.#pingsMissed = 0;
      this.isReceiving = true;
      yield chunk;
    }
  }

  /** Publishes a message; `onResponse` is called with each response. */
  publish(
    subject: string,
    token: string,
    headers = headersOf(),
    payload: Buffer | string = ""
  ) {
    const total = headers.length + payload.length;
    const line = `HPUB ${subject} ${this.#inbox}.${token} ${headers.length} ${total}`;
    this.#write(`${line}\r\n${headers}`);
    this.#write(payload);
    this.#write("\r\n");
  }

  /**
   * Publishes a request of a check. `onResponse` is called with each response, also with a late one
   * to an earlier request of the same token.
   */
  ask(
    token: string,
    subject: string,
    onResponse: (response: Response) => void
  ) {
    this.#asked.set(token, onResponse);
    this.publish(subject, token);
  }

  /**
   * Takes a census: a message that expects a stream of another name is refused by each stream on
   * the subject, with its name, and stored by none. Two streams of the expected name end the
   * connection: nobody can tell which of them has acknowledged a plant.
   */
  countStreams() {
    const { stream, subject } = this.#settings;
    const token = `census${++this.#census}`;
    let streams = 0;

    // The three before still count: a leaf node may be far away or busy, and respond late.
    this.#asked.delete(`census${this.#census - 4}`);
    this.#asked.set(token, (response) => {
      if (objectOf(response)["stream"] === stream && ++streams > 1)
        throw new ExitError(
          "config",
          `two streams named ${stream} take the subject ${subject}: one may be a leaf node's`
        );
    });
    this.publish(subject, token, headersOf("Nats-Expected-Stream: .\r\n"));
  }

  /** Ends the connection. Only the first call's reason counts. */
  close(reason: string) {
    this.#end(new ExitError("unreachable", reason));
  }

  /** Ends the connection, and sends nothing more: what the kernel still has could arrive minutes
   * later, when the stream has forgotten the ids in it. */
  #end(reason: unknown) {
    this.#reason ??= reason;
    this.#tcp.resetAndDestroy();
    this.#socket.destroy();
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

  /** Runs at intervals. A PONG comes after everything that the server has sent before: any bytes
   * are a sign of life. They show that the server runs, not that it acknowledges anything. */
  #ping() {
    if (this.#pingsMissed++ === this.#settings.limits.pingsMissedMax)
      this.close("it does not answer PING");
    this.#write("PING\r\n");
  }

  /** @throws ExitError for a server that is not safe, or that lacks what this client needs */
  #checkServer() {
    const { version, headers, tls_required, tls_available } = this.info;
    if (version === undefined) throw protocolError("no INFO");
    const { needsTls } = this.#settings;
    const lacks =
      expectedOf(version) ||
      (!headers && "headers") ||
      (needsTls && !tls_required && !tls_available && "TLS");
    if (lacks)
      throw new ExitError("refused", `expected a server with ${lacks}`);
  }

  #onFrame(frame: Frame) {
    const {
      line,
      words: [name, subject = ""]
    } = frame;
    this.isReceiving = false;
    switch (name) {
      case "MSG":
      case "HMSG": {
        const [, token = ""] = subject.split(`${this.#inbox}.`);
        const response = frame.status || readObject(frame.payload);
        const onAsked = this.#asked.get(token);
        if (onAsked) onAsked(response);
        else this.#handler.onResponse(token, response);
        return;
      }
      case "PING":
        if (!this.#socket.writableNeedDrain) this.#write("PONG\r\n");
        return;
      case "PONG":
        return;
      case "INFO":
        this.info = readObject(line.slice(5));

        // Leaves now, while all hosts can be chosen, rather than when the server cuts off.
        if (this.info["ldm"]) this.close("it is about to leave (lame duck)");
        return;
      case "-ERR":
        // A random part would make the same problem another one on each connection.
        throw serverError(
          line
            .replaceAll(this.#inbox, this.#settings.inbox)
            .slice(5, 205)
            .replace(/[^ -~]/g, "?")
        );
      default:
        throw protocolError("an unknown operation");
    }
  }

  /** @throws what is neither an error of the connection nor of the server: an internal error */
  #errorOf(error: unknown) {
    if (error instanceof ExitError) return error;
    if (!(isError(error) && "code" in error)) throw error;

    // An error of the system names its call. Any other error over TLS is about trust.
    const isTrust = "authorized" in this.#socket && !("syscall" in error);

    // The message of OpenSSL is a record of its own over two lines: its reason is the text in it.
    const text = "reason" in error ? String(error.reason) : error.message;
    return new ExitError(
      isTrust ? "refused" : "unreachable",
      text || "cannot connect"
    );
  }
}

/** Returns the end of the connection. A denied message gets no other response, so this is its end,
 * too. */
function serverError(text: string) {
  if (/permissions violation/i.test(text)) return new ExitError("config", text);
  const code = /authori/i.test(text) ? "refused" : "unreachable";
  return new ExitError(code, text);
}
