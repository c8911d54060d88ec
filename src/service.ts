/** The journey of a request, from the head to the answer, in the order of the interface:
 * one unambiguous request, bearer, route, head checks, body, JSON, schema, store, answer. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import { limitsWith, type Limits } from "./config.ts";
import { BearerTokens } from "./http/bearer.ts";
import { discardBody, readBody } from "./http/body.ts";
import { checkContent } from "./http/content.ts";
import { ApiError, must } from "./http/errors.ts";
import { readHead, type Head } from "./http/head.ts";
import { closeGently, reply, replyUnended } from "./http/reply.ts";
import { checkRoute } from "./http/router.ts";
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
  /** The answer to the request that came last; answers leave in the order of requests. */
  last?: ServerResponse;
  /** An answer says `Connection: close`: no request behind it is executed. */
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
  readonly #connections = new WeakMap<Duplex, Connection>();
  readonly #inFlight = { bytes: 0 };

  constructor(options: PlantOptions) {
    const { tokens, limits } = options;
    this.limits = limitsWith(limits);
    this.#options = options;
    this.#tokens = tokens instanceof BearerTokens ? tokens : new BearerTokens(tokens);
  }

  /** @param askContinue the client waits for a 100 that nobody has sent yet */
  handle(request: IncomingMessage, response: ServerResponse, askContinue: boolean): void {
    const connection = this.connection(request.socket);
    if (connection.closing) return void request.socket.pause();
    connection.last = response;
    const isLate = this.draining;
    try {
      checkContent(this.admit(request), this.limits.bodyBytesMax);
      must(!request.readableDidRead && request.readableEncoding === null, "bodyTaken",
        "The body was read before: the plants' handler must come first.");
    } catch (error) {
      return this.refuse(response, error);
    }
    if (askContinue) response.writeContinue();
    readBody(request, this.limits, this.#inFlight, (body) => {
      if (response.headersSent) return;
      try {
        if (body instanceof ApiError) throw body;
        must(request.rawTrailers.length <= 2 * this.limits.headFieldsMax, "headFields",
          `The trailer must not have over ${this.limits.headFieldsMax} fields.`);
        const plant = this.#readPlant(body);
        must(!isLate, "closed", storeMessages.closed);
        this.#options.store.append(plant).then(
          () => reply(response, answerOf(plant), this.#closes(response)),
          (error: unknown) => this.refuse(response, error),
        );
      } catch (error) {
        this.refuse(response, error);
      }
    });
  }

  /** One unambiguous request, a good token, and the route; throws ApiError. */
  admit(request: IncomingMessage): Head {
    const head = readHead(request, this.limits);
    this.#tokens.check(head.authorization);
    checkRoute(request.method, head.path, this.#options.basePath ?? "");
    return head;
  }

  connection(socket: Duplex): Connection {
    const connection = this.#connections.get(socket) ?? { closing: false };
    this.#connections.set(socket, connection);
    return connection;
  }

  #readPlant(body: Buffer): NewPlant {
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
    const { req: request } = response;
    const { socket, method, headers: { expect, "content-length": length = "0" } } = request;
    if (response.headersSent || socket.destroyed) return;
    const hasBody = length !== "0" || request.headers["transfer-encoding"] !== undefined;
    const isWhole = request.complete || !hasBody;
    // Who was not told to continue may send the body or not: the framing is in doubt.
    const isInDoubt = expect !== undefined || Number(length) > this.limits.discardBytesMax;
    const mustClose = !isWhole && (isInDoubt || method === "HEAD");
    const close = this.#closes(response, error.close || mustClose);
    if (method === "HEAD" || (isWhole && !close)) return reply(response, error, close);
    const left = replyUnended(response, error, close).then(() => {
      const isEnd = close || this.connection(socket).broken === response;
      if (isEnd) closeGently(socket, this.limits.discardMillis);
    });
    void discardBody(request, this.limits).then((isEnded) => {
      if (!isEnded) void left.then(() => socket.destroySoon());
      else if (!close) response.end();
    });
  }

  /** Whether this answer is the connection's last; then nothing behind it is executed. */
  #closes(response: ServerResponse, isAsked = false): boolean {
    const connection = this.connection(response.req.socket);
    const isLast = isAsked || (this.draining && connection.last === response);
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
