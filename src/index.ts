/** The public API for embedding. Importing it has no effect. */
import type { RequestListener } from "node:http";
import type { ServerOptions as TlsOptions } from "node:https";
import {
  createStrictServer,
  type DrainableServer
} from "./http/strict-server.ts";
import type { PlantOptions } from "./options.ts";
import { PlantService } from "./service.ts";

export type PlantServerOptions = PlantOptions & {
  /** Certificate, key and other options of node:https. Default: none, which means node:http. */
  readonly tls?: TlsOptions | undefined;
};

/**
 * Returns a fully configured server. The caller calls `listen` and `drain`.
 *
 * @throws RangeError for an invalid limit, TypeError that names any other invalid option
 */
export function createPlantServer(
  options: PlantServerOptions
): DrainableServer {
  return createStrictServer(
    new PlantService(options, { tls: "object" }),
    options.tls
  );
}

/**
 * Returns a listener for an existing server, whose parser and timeouts stay its own.
 *
 * @throws as createPlantServer does
 */
export function createPlantHandler(options: PlantOptions): RequestListener {
  const { handle } = new PlantService(options);
  return (request, response) => handle(request, response);
}

export type { ResponseListener } from "./http/connection.ts";
export type { ResponseSummary } from "./http/reply.ts";
export { BearerTokens, tokenDigest } from "./http/bearer.ts";
export {
  openJournal,
  type Journal,
  type JournalOptions
} from "./journal/journal.ts";
export { readJournal, type JournalRecord } from "./journal/read.ts";
export { JournalError, type JournalErrorCode } from "./journal/error.ts";
export {
  StoreError,
  type StoreErrorCode,
  type PlantStore,
  type Receipt
} from "./store.ts";
export type { DrainableServer, PlantOptions };
export type { Limits } from "./config.ts";
export type { NewPlant, Plant } from "./plant.ts";
