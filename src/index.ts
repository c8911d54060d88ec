/** The library's face: what is exported here is the public API. Importing it does nothing. */
import type { RequestListener } from "node:http";
import type { ServerOptions as TlsOptions } from "node:https";
import {
  createStrictServer,
  type DrainableServer
} from "./http/strict-server.ts";
import type { PlantOptions } from "./options.ts";
import { PlantService } from "./service.ts";

/** `tls`: certificate, key and the like, as node:https takes them. */
export type PlantServerOptions = PlantOptions & {
  readonly tls?: TlsOptions | undefined;
};

/**
 * A node:http server, or https with `tls`, with everything set; to `listen` is the caller's.
 *
 * @throws RangeError for a bad limit, TypeError that names any other bad option
 */
export function createPlantServer(
  options: PlantServerOptions
): DrainableServer {
  return createStrictServer(new PlantService(options), options.tls);
}

/**
 * A listener for a server that exists already: what its parser refuses, and time, stay its own.
 *
 * @throws as createPlantServer
 */
export function createPlantHandler(options: PlantOptions): RequestListener {
  const service = new PlantService(options);
  return (request, response) => service.handle(request, response, "body");
}

export type { ResponseSummary, ResponseListener } from "./http/connection.ts";
export { BearerTokens, tokenDigest } from "./http/bearer.ts";
export {
  openJournal,
  type Journal,
  type JournalOptions
} from "./journal/journal.ts";
export { JournalError, type JournalErrorCode } from "./journal/error.ts";
export { StoreError, type StoreErrorCode, type PlantStore } from "./store.ts";
export type { DrainableServer, PlantOptions };
export type { Limits } from "./config.ts";
export type { NewPlant, Plant } from "./plant.ts";
