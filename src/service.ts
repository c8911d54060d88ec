/**
 * The journey of a request, in the order of the interface: one unambiguous request, bearer, path,
 * method, Expect, media type and coding, size, body, JSON, schema, capacity, store, answer.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { limitsWith, type Limits } from "./config.ts";
import { BearerTokens } from "./http/bearer.ts";
import { checkUnread, BodyBudget, readBody } from "./http/body.ts";
import { Connections, type Connection } from "./http/connection.ts";
import { checkContent } from "./http/content.ts";
import { ApiError, apiErrorOf, must } from "./http/errors.ts";
import { checkTrailer, readHead } from "./http/head.ts";
import type { Answer } from "./http/reply.ts";
import { checkRoute, plantsPath } from "./http/router.ts";
import type { Application } from "./http/strict-server.ts";
import { checkOptions, type PlantOptions } from "./options.ts";
import { isPlain, plantJson, readNewPlant } from "./plant.ts";
import {
  appendJson,
  appendJsonTo,
  StoreError,
  type AppendJson
} from "./store.ts";

/** The plant store as an application: one operation, POST {basePath}/plants. */
export class PlantService implements Application {
  readonly connections: Connections;
  readonly #options: PlantOptions;
  readonly #limits: Limits;
  readonly #tokens: BearerTokens;
  readonly #path: string;
  readonly #bodies: BodyBudget;
  readonly #append: AppendJson;

  /** @throws RangeError for a bad limit, TypeError for any other bad option */
  constructor(options: PlantOptions) {
    checkOptions(options);
    const { store, tokens, limits, basePath = "" } = options;
    this.#options = options;
    this.#limits = limitsWith(limits);
    this.#tokens =
      tokens instanceof BearerTokens ? tokens : new BearerTokens(tokens);
    this.#path = basePath + plantsPath;
    this.#bodies = new BodyBudget(this.#limits.bodiesBytesMax);
    const own = store[appendJson];
    this.#append = own?.of === store.append ? own.append : appendJsonTo(store);
    this.connections = new Connections(this.#limits, options.onResponse);
  }

  handle(
    request: IncomingMessage,
    response: ServerResponse,
    next: "continue" | "body"
  ): void {
    const connection = this.connections.of(request.socket);
    // Behind a last answer nothing is executed.
    if (!connection.begin(response)) return;

    // The head tells whether it comes in time: its body may well come during the shutdown.
    const isLate = this.connections.isDraining;

    // What can be checked on the head is, before a byte of the body and before `100 Continue`.
    try {
      this.admit(request);
      checkContent(request.headers, this.#limits.bodyBytesMax);
      checkUnread(request);
    } catch (error) {
      return this.#refuse(connection, response, error);
    }

    // Only now: who is told so sends its body (RFC 9110, 10.1.1).
    if (next === "continue") response.writeContinue();

    readBody(request, this.#limits, this.#bodies, (body) => {
      // A host application, or a time-out, may have answered meanwhile.
      if (response.headersSent) return;
      try {
        if (body instanceof ApiError) throw body;
        connection.onBody(response);
        const plant = this.#readPlant(request, body);
        if (isLate)
          throw new StoreError("closed", "the server is shutting down");

        // A 200 means durable: nothing is said before the store has settled.
        this.#append(plant, (error) => {
          if (error === undefined) connection.answer(response, answerOf(plant));
          else this.#refuse(connection, response, error);
        });
      } catch (error) {
        this.#refuse(connection, response, error);
      }
    });
  }

  /**
   * One unambiguous request, a good token, then path and method.
   *
   * @throws ApiError of the first that it is not
   */
  admit(request: IncomingMessage): void {
    const path = readHead(request, this.#limits);
    this.#tokens.check(request.headers.authorization);
    checkRoute(request.method, path, this.#path);
  }

  /**
   * The body as JSON, and that as a NewPlant, in the text in which it is kept.
   *
   * @throws ApiError, JsonError or PlantError where it is neither
   */
  #readPlant(request: IncomingMessage, body: Buffer): string {
    checkTrailer(request, this.#limits);
    must(body.length > 0, "empty", "The body is empty, expected a NewPlant.");

    // Most clients send that text: all that the strict way would find is known by its form.
    const text = body.toString("latin1");
    if (isPlain(text)) return text;
    return readNewPlant(body, this.#limits.nestingMax);
  }

  #refuse(
    connection: Connection,
    response: ServerResponse,
    thrown: unknown
  ): void {
    // Told later: what the host's function throws does not get into the way of the answer.
    const onFault = (fault: unknown): void =>
      queueMicrotask(() => this.#options.onFault?.(fault));
    connection.refuse(response, apiErrorOf(thrown, onFault));
  }
}

/** A Plant: without the `id` of the NewPlant. */
const answerOf = (newPlant: string): Answer => ({
  status: 200,
  headers: [],
  body: `${plantJson(newPlant)}\n`
});
