/**
 * The journey of a request, from the head to the answer, in the order of the interface:
 * one unambiguous request, bearer, route, head checks, body, JSON, schema, store, answer.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Limits } from "./config.ts";
import type { BearerTokens } from "./http/bearer.ts";
import { discardBody, readBody } from "./http/body.ts";
import type { BodyBudget } from "./http/body.ts";
import { Connections } from "./http/connection.ts";
import { checkContent } from "./http/content.ts";
import { ApiError } from "./http/errors.ts";
import { readHead } from "./http/head.ts";
import type { Head } from "./http/head.ts";
import { reply, replyUnended } from "./http/reply.ts";
import { checkRoute } from "./http/router.ts";
import { JsonError, parseJson } from "./json/parse.ts";
import { PlantError, readNewPlant, StoreError } from "./plant.ts";
import type { NewPlant, PlantStore } from "./plant.ts";

export interface ServiceOptions {
  readonly store: PlantStore;
  readonly tokens: BearerTokens;
  readonly basePath: string;
  readonly limits: Limits;
  /** Told of every fault of ours, the cause of a 500. */
  readonly onFault: (error: unknown) => void;
}

export class PlantService {
  readonly connections = new Connections();
  /** While shutting down, the last answer of each connection closes it, and new plants get 503. */
  draining = false;
  readonly #options: ServiceOptions;
  readonly #bodies: BodyBudget = { bytes: 0 };

  constructor(options: ServiceOptions) {
    this.#options = options;
  }

  /** @param askContinue the client waits for a 100 that nobody has sent yet */
  handle(request: IncomingMessage, response: ServerResponse, askContinue: boolean): void {
    const connection = this.connections.of(request.socket);
    if (connection.closing) return;
    connection.last = response;
    const late = this.draining;
    try {
      checkContent(this.admit(request), this.#options.limits.bodyBytesMax);
      if (request.readableDidRead) {
        throw new ApiError("bodyTaken", "The body was read before: put the plants' handler first.");
      }
    } catch (error) {
      this.refuse(response, error);
      return;
    }
    if (askContinue) response.writeContinue();
    readBody(request, this.#options.limits, this.#bodies, (body) => {
      try {
        if (body instanceof ApiError) throw body;
        this.#store(this.#newPlant(body), late, response);
      } catch (error) {
        this.refuse(response, error);
      }
    });
  }

  /**
   * What holds for any method and path: one unambiguous request, a good token, and the route.
   * @throws ApiError
   */
  admit(request: IncomingMessage): Head {
    const head = readHead(request, this.#options.limits);
    this.#options.tokens.check(head.authorization);
    checkRoute(request.method, head.path, this.#options.basePath);
    return head;
  }

  #newPlant(body: Buffer): NewPlant {
    if (body.length === 0) throw new ApiError("empty", "The body is empty, expected a NewPlant.");
    try {
      return readNewPlant(parseJson(body, this.#options.limits.nestingMax));
    } catch (error) {
      if (error instanceof JsonError) {
        const cause = error.code === "syntax" ? "json" : error.code;
        throw new ApiError(cause, `The body is not I-JSON: ${error.message}.`);
      }
      if (error instanceof PlantError) {
        throw new ApiError("schema", `The body is no NewPlant: ${error.message}.`);
      }
      throw error;
    }
  }

  #store(plant: NewPlant, late: boolean, response: ServerResponse): void {
    if (late) throw new ApiError("closed", "The server is shutting down; nothing was stored.");
    this.#options.store.append(plant).then(
      () => this.#answer(response, plant),
      (error: unknown) => this.refuse(response, error),
    );
  }

  #answer(response: ServerResponse, { name, tag }: NewPlant): void {
    reply(response, 200, JSON.stringify({ name, tag }), this.#closes(response));
  }

  /** Answers with an error, be the request complete or not. */
  refuse(response: ServerResponse, thrown: unknown): void {
    const error = this.#apiError(thrown);
    const { req: request } = response;
    const { socket } = request;
    if (response.headersSent || socket.destroyed) return;
    if (request.complete) {
      reply(response, error.status, error.body, this.#closes(response, error.close), error.headers);
      return;
    }
    const { limits } = this.#options;
    const { expect, "content-length": length } = request.headers;
    // Who was not told to continue may send the body or not: the framing is in doubt.
    const isEndless = expect !== undefined || Number(length) > limits.discardBytesMax;
    const close = this.#closes(response, error.close || isEndless);
    let steps = 0;
    const settle = (): void => {
      if (++steps === 2) socket.destroySoon();
    };
    replyUnended(response, error, close, () => {
      if (close) socket.end();
      settle();
    });
    discardBody(request, limits, (ended) => {
      if (ended && !close) response.end();
      else settle();
    });
  }

  /** Whether this answer is the connection's last; then nothing behind it is executed. */
  #closes(response: ServerResponse, must = false): boolean {
    const connection = this.connections.of(response.req.socket);
    const close = must || (this.draining && connection.last === response);
    connection.closing ||= close;
    return close;
  }

  #apiError(thrown: unknown): ApiError {
    if (thrown instanceof ApiError) return thrown;
    if (thrown instanceof StoreError && thrown.code !== "invalid") {
      return new ApiError(thrown.code, storeMessages[thrown.code]);
    }
    this.#options.onFault(thrown);
    return new ApiError("fault", "The server failed; it is not known whether the plant was stored.");
  }
}

const storeMessages = {
  full: "The store has no space left; nothing was stored.",
  busy: "Too many records wait for the store; nothing was stored.",
  closed: "The store is closed; nothing was stored.",
  unknown: "The store is failing; it is not known whether the plant was stored.",
} as const;
