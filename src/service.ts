/** The journey of a request, in the order of the interface: one unambiguous request, bearer,
 * route, head checks, body, JSON, schema, store, answer. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import { limitsWith, type Limits } from "./config.ts";
import { BearerTokens } from "./http/bearer.ts";
import { discardBody, HeldBodies, readBody } from "./http/body.ts";
import { checkContent } from "./http/content.ts";
import { ApiError, must } from "./http/errors.ts";
import { readHead } from "./http/head.ts";
import { closeGently, reply, replyUnended, type Answer } from "./http/reply.ts";
import { checkRoute, plantsPath } from "./http/router.ts";
import { JsonError, parseJson } from "./json/parse.ts";
import {
  PlantError, readNewPlant, StoreError, type NewPlant, type PlantStore, type StoreErrorCode,
} from "./plant.ts";

export interface PlantOptions {
  readonly store: PlantStore;
  /** Each a b64token or `sha256:HEX`; a BearerTokens can be replaced while serving. */
  readonly tokens: BearerTokens | readonly string[];
  /** What stands before `/plants` in the path, such as `/v1`. Default: nothing. */
  readonly basePath?: string;
  /** Replaces defaults of config.ts. */
  readonly limits?: Partial<Limits>;
  /** Told of every fault that was answered with 50001. Default: nobody is. */
  readonly onFault?: (error: unknown) => void;
}

/** What has to be remembered of a connection between its requests. */
export interface Connection {
  /** The answer to the last request: the answers to all before it leave first. */
  last?: ServerResponse;
  /** An answer says or will say `Connection: close`: no request behind it is executed. */
  closing: boolean;
  /** When the parser gave up: how much had been read, and the answer to whose body that was. */
  brokenAt?: number;
  broken?: ServerResponse;
}

export class PlantService {
  /** While shutting down, the last answer of each connection closes it, and new plants get 503. */
  draining = false;
  readonly limits: Limits;
  readonly #options: PlantOptions;
  readonly #tokens: BearerTokens;
  readonly #path: string;
  readonly #connections = new WeakMap<Duplex, Connection>();
  readonly #bodies: HeldBodies;

  constructor(options: PlantOptions) {
    const { tokens, limits, basePath = "" } = options;
    this.limits = limitsWith(limits);
    this.#bodies = new HeldBodies(this.limits.bodiesBytesMax);
    this.#options = options;
    this.#path = basePath + plantsPath;
    this.#tokens = tokens instanceof BearerTokens ? tokens : new BearerTokens(tokens);
  }
  /** @param askContinue the client waits for a 100 that nobody has sent yet */
  handle(request: IncomingMessage, response: ServerResponse, askContinue: boolean): void {
    const { socket } = request;
    const connection = this.connection(socket);
    // A pause would not last, for node reads on: so nothing that follows gets to its parser.
    if (connection.closing || socket.destroyed) {
      const end = socket.bytesRead + this.limits.discardBytesMax;
      const onData = (): unknown => socket.bytesRead > end && socket.destroy();
      return void socket.removeAllListeners("data").on("data", onData);
    }
    connection.last = response;
    // Node loses what stands behind an Upgrade in its segment: the rest is no request of its own.
    connection.closing = request.headers.upgrade !== undefined;
    if (connection.closing) response.shouldKeepAlive = false;
    const isLate = this.draining;
    try {
      this.admit(request);
      checkContent(request.headers, this.limits.bodyBytesMax);
      const { readableDidRead, readableEnded, readableEncoding } = request;
      must(!readableDidRead && !readableEnded && readableEncoding === null, "bodyTaken",
        "The body was read before: the plants' handler must come first.");
    } catch (error) {
      return this.refuse(response, error);
    }
    if (askContinue) response.writeContinue();
    readBody(request, this.limits, this.#bodies, (body) => {
      if (response.headersSent) return;
      try {
        if (body instanceof ApiError) throw body;
        const plant = this.#readPlant(request, body);
        must(!isLate, "closed", storeMessages.closed);
        this.#options.store.append(plant).then(
          () => this.#answer(connection, response, answerOf(plant)),
          (error: unknown) => this.refuse(response, error),
        );
      } catch (error) {
        this.refuse(response, error);
      }
    });
  }
  /** One unambiguous request, a good token, and the route; throws ApiError. */
  admit(request: IncomingMessage): void {
    const path = readHead(request, this.limits);
    this.#tokens.check(request.headers.authorization);
    checkRoute(request.method, path, this.#path);
  }

  connection(socket: Duplex): Connection {
    const known = this.#connections.get(socket);
    if (known) return known;
    const connection = { closing: false };
    this.#connections.set(socket, connection);
    return connection;
  }

  #readPlant({ rawTrailers }: IncomingMessage, body: Buffer): NewPlant {
    const { headFieldsMax } = this.limits;
    must(rawTrailers.length <= 2 * headFieldsMax, "headFields",
      () => `The trailer must not have over ${headFieldsMax} fields.`);
    must(body.length > 0, "empty", "The body is empty, expected a NewPlant.");
    try {
      return readNewPlant(parseJson(body, this.limits.nestingMax));
    } catch (error) {
      if (error instanceof JsonError) {
        throw new ApiError(error.code, `The body is not I-JSON: ${error.message}.`);
      }
      if (error instanceof PlantError) {
        throw new ApiError("schema", `The body is no NewPlant: ${error.message}.`);
      }
      throw error;
    }
  }
  /** Answers with an error, whether the request is complete or its body still arrives. */
  refuse(response: ServerResponse, thrown: unknown): void {
    const error = this.#apiError(thrown);
    const { req: request, req: { socket, headers } } = response;
    if (response.headersSent || socket.destroyed) return;
    // Who was not told to continue may send the body or not: then node closes, whatever we say.
    const isUntold = headers.expect !== undefined && request.readableFlowing !== true;
    const isLong = Number(headers["content-length"]) > this.limits.discardBytesMax;
    const mustClose = error.close || isUntold || (isLong && !request.complete);
    this.#answer(this.connection(socket), response, error, mustClose);
  }
  #answer(connection: Connection, response: ServerResponse, answer: Answer, mustClose = false) {
    const { req: request, req: { socket, headers }, headersSent } = response;
    if (headersSent) return; // by a host application, or a time-out
    const close = this.#closes(connection, response, mustClose);
    const { "content-length": length = "0", "transfer-encoding": coding } = headers;
    const isWhole = request.complete || (length === "0" && coding === undefined);
    if (isWhole && !close) return reply(response, answer);
    const left = replyUnended(response, answer, close).then(() => {
      if (close || connection.broken === response) closeGently(socket, this.limits.discardMillis);
    });
    if (request.readableEnded) return;
    void discardBody(request, this.limits).then((isEnded) => {
      if (!isEnded) void left.then(() => socket.destroySoon());
      else if (!close) response.end();
    });
  }
  /** Whether this answer is the connection's last; then nothing behind it is executed. */
  #closes(connection: Connection, response: ServerResponse, isAsked: boolean): boolean {
    const isLast = isAsked || !response.shouldKeepAlive
      || (this.draining && connection.last === response);
    connection.closing ||= isLast;
    return isLast;
  }

  #apiError(thrown: unknown): ApiError {
    if (thrown instanceof ApiError) return thrown;
    const isKnown = thrown instanceof StoreError && Object.hasOwn(storeMessages, thrown.code);
    const message = isKnown ? storeMessages[thrown.code] : faultMessage;
    if (isKnown && thrown.code !== "invalid") return new ApiError(thrown.code, message);
    queueMicrotask(() => this.#options.onFault?.(thrown));
    return new ApiError("fault", message);
  }
}

const faultMessage = "The server failed; the plant may have been stored or not.";
const answerOf = ({ name, tag }: NewPlant) =>
  ({ status: 200, headers: [], body: JSON.stringify({ name, tag }) });
const storeMessages: Readonly<Record<StoreErrorCode, string>> = {
  invalid: "The store took it for no plant; nothing was stored.",
  full: "The store has no space left; nothing was stored.",
  busy: "Too many records wait for the store; nothing was stored.",
  closed: "The server is shutting down; nothing was stored.",
  unknown: "The store is failing; it is unknown whether the plant was stored.",
};
