/** The library's face: what is exported here is the public API. Importing it does nothing. */
import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import type { ServerOptions as TlsOptions } from "node:https";
import { limitsWith } from "./config.ts";
import type { Limits } from "./config.ts";
import { BearerTokens } from "./http/bearer.ts";
import { createStrictServer } from "./http/server.ts";
import type { DrainableServer } from "./http/server.ts";
import type { PlantStore } from "./plant.ts";
import { PlantService } from "./service.ts";

export interface PlantOptions {
  readonly store: PlantStore;
  /** Each a b64token or `sha256:HEX`; a BearerTokens can be replaced while serving. */
  readonly tokens: BearerTokens | readonly string[];
  /** What stands before `/plants` in the path, such as `/v1`. Default: nothing. */
  readonly basePath?: string;
  /** Replaces defaults of config.ts. */
  readonly limits?: Partial<Limits>;
  /** Told of every fault that was answered with a 500. Default: nobody is. */
  readonly onFault?: (error: unknown) => void;
}

export interface PlantServerOptions extends PlantOptions {
  /** With these the server speaks HTTPS. */
  readonly tls?: TlsOptions;
}

/**
 * A node:http server, or https with `tls`, with everything set; `listen` is the caller's.
 * @throws RangeError for a bad limit, TypeError for no or bad tokens
 */
export function createPlantServer(options: PlantServerOptions): DrainableServer {
  const limits = limitsWith(options.limits);
  return createStrictServer(createService(options, limits), limits, options.tls);
}

/**
 * A `(request, response)` listener for a server that exists already. What the parser itself
 * refuses, and time-outs, stay that server's.
 * @throws as createPlantServer
 */
export function createPlantHandler(options: PlantOptions): RequestListener {
  const service = createService(options, limitsWith(options.limits));
  return (request: IncomingMessage, response: ServerResponse) => {
    service.handle(request, response, false);
  };
}

function createService(options: PlantOptions, limits: Limits): PlantService {
  const { store, tokens, basePath = "", onFault = () => undefined } = options;
  return new PlantService({
    store, basePath, limits, onFault,
    tokens: tokens instanceof BearerTokens ? tokens : new BearerTokens(tokens),
  });
}

export { BearerTokens, tokenDigest } from "./http/bearer.ts";
export { openJournal } from "./journal/journal.ts";
export { JournalError } from "./journal/open.ts";
export { StoreError } from "./plant.ts";
export type { DrainableServer } from "./http/server.ts";
export type { Journal, JournalOptions } from "./journal/journal.ts";
export type { JournalErrorCode } from "./journal/open.ts";
export type { Limits } from "./config.ts";
export type { NewPlant, Plant, PlantStore, StoreErrorCode } from "./plant.ts";
