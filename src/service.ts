/**
 * The way of a request, in the order of the checks: one unambiguous request, bearer token, path,
 * method, Expect, Idempotency-Key, media type, content coding, size, body, JSON, schema, store.
 */
import type { IncomingMessage } from "node:http";
import { limitsWith } from "./config.ts";
import { BearerTokens, scopedDigest } from "./http/bearer.ts";
import { checkUnread, BodyBudget, readBody } from "./http/body.ts";
import { Connections } from "./http/connection.ts";
import { checkContent, checkExpect } from "./http/content.ts";
import { ApiError, apiErrorOf, must } from "./http/errors.ts";
import { checkCount, readHead } from "./http/head.ts";
import { readIdempotencyKey } from "./http/idempotency-key.ts";
import type { Answer } from "./http/reply.ts";
import { checkRoute, plantsPath } from "./http/router.ts";
import type { Application } from "./http/strict-server.ts";
import { checkOptions, type PlantOptions } from "./options.ts";
import { plantJson, readNewPlant } from "./plant.ts";
import { appendJsonOf } from "./append.ts";
import type { AppendJson, Outcome } from "./store.ts";

/** The plant store as an application: one operation, POST {basePath}/plants. */
export class PlantService implements Application {
  readonly connections: Connections;
  readonly #tokens: BearerTokens;
  readonly #path: string;
  readonly #bodies: BodyBudget;
  readonly #append: AppendJson;

  // Not the options: they may hold tokens, of which only digests are kept.
  readonly #onFault: PlantOptions["onFault"];

  /** Whether the store keeps keys. If not, the server does not look at Idempotency-Key. */
  readonly #keepsKeys: boolean;

  /** @throws RangeError for an invalid limit, TypeError for any other invalid option */
  constructor(
    options: PlantOptions,
    otherOptions?: Readonly<Record<string, string>>
  ) {
    checkOptions(options, otherOptions);
    const { store, tokens, basePath = "", onFault, onResponse } = options;
    const limits = limitsWith(options.limits);
    this.#onFault = onFault;
    this.#tokens =
      tokens instanceof BearerTokens ? tokens : new BearerTokens(tokens);
    this.#path = basePath + plantsPath;
    this.#bodies = new BodyBudget(limits.bodiesBytesMax);
    this.#append = appendJsonOf(store);
    this.#keepsKeys = store.appendOnce !== undefined;
    this.connections = new Connections(limits, onResponse);
  }

  readonly handle: Application["handle"] = (request, response, next) => {
    const connection = this.connections.of(request.socket);
    if (!connection.begin(response)) return;

    // A request whose head arrives before the shutdown is stored, even if its body arrives later.
    const { limits, isDraining: arrivedDuringDrain } = this.connections;

    const refuse = (thrown: unknown) =>
      connection.refuse(response, this.#errorOf(thrown));

    // Checks all that needs only the head before it reads a byte of the body or sends 100.
    let key: string | undefined;
    try {
      const scope = this.#admit(request);
      checkExpect(request.headers);

      // The key of the record is a digest, so that the store does not hold what the client sent.
      const { "idempotency-key": value } = request.headers;
      if (this.#keepsKeys && value !== undefined)
        key = scopedDigest(scope, readIdempotencyKey(String(value)));

      checkContent(request.headers, limits.bodyBytesMax);
      checkUnread(request);
    } catch (error) {
      return refuse(error);
    }

    // Asks the client to send its body (RFC 9110, 10.1.1).
    if (next === "continue") response.writeContinue();

    readBody(request, limits.bodyBytesMax, this.#bodies, (body) => {
      // A host application or a timeout may have responded meanwhile.
      if (response.headersSent) return;
      try {
        if (body instanceof ApiError) throw body;

        // Nothing else reads the trailer.
        checkCount(request.rawTrailers, limits);
        must(body.length > 0, "empty");
        const plant = readNewPlant(body, limits.nestingMax);
        must(!arrivedDuringDrain, "closed");

        // A 200 means that the plant is on stable storage: it waits for the store. Meanwhile the
        // store alone has the text, once for all equal requests.
        void this.#append(plant, key).then(
          (outcome) => connection.answer(response, answerOf(outcome)),
          refuse
        );
      } catch (error) {
        refuse(key === undefined ? error : inDoubt(error));
      }
    });
  };

  readonly refuseConnect: Application["refuseConnect"] = (request) => {
    try {
      this.#admit(request);
    } catch (error) {
      const connection = this.connections.of(request.socket);
      connection.refuseConnect(this.#errorOf(error));
    }
  };

  /**
   * Checks that a request is unambiguous, then its token, path and method.
   *
   * @returns what a key is scoped to: the token's digest
   * @throws ApiError of the first check that fails; always for CONNECT
   */
  #admit(request: IncomingMessage) {
    const path = readHead(request, this.connections.limits, this.#keepsKeys);
    const scope = this.#tokens.check(request.headers.authorization);
    checkRoute(request.method, path, this.#path);
    return scope;
  }

  /** Returns the response to a thrown value. Reports internal errors to the host. */
  #errorOf(thrown: unknown) {
    const error = apiErrorOf(thrown);
    if (error) return error;

    // Called later: what the host's function throws must not prevent the response.
    queueMicrotask(() => this.#onFault?.(thrown));
    return new ApiError("fault");
  }
}

/**
 * Returns the refusal of a request with a key before the store has looked for the key: an equal
 * request may be in progress, or may have stored the plant. What the store itself refuses, thrown
 * or as a rejection, stays as it is.
 */
const inDoubt = (refusal: unknown) =>
  refusal instanceof ApiError && refusal.status === 503
    ? new ApiError(
        "unknown",
        `an equal one may have stored it, and this one has error ${refusal.error}`
      )
    : refusal;

/** Returns the response to a stored NewPlant: a Plant, which has no `id`. */
function answerOf({ json, isReplay, receipt }: Outcome): Answer {
  const body = `${plantJson(json)}\n`;
  return isReplay
    ? { status: 200, headers: replayedHeader, body, replayed: true }
    : { status: 200, headers: {}, body, receipt };
}

const replayedHeader = { "Idempotency-Replayed": "true" };
