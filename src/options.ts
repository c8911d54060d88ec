/** The options of a service, from an embedder or from the program. */
import {
  basePathExpected,
  basePathForm,
  checkTypes,
  type Limits
} from "./config.ts";
import type { BearerTokens } from "./http/bearer.ts";
import type { ResponseListener } from "./http/connection.ts";
import type { PlantStore } from "./store.ts";

export interface PlantOptions {
  /** The store. The caller opens and closes it. */
  readonly store: PlantStore;

  /** b64tokens or `sha256:HEX`. The tokens of a BearerTokens can be replaced while serving. */
  readonly tokens: BearerTokens | readonly string[];

  /** The path before `/plants`, such as `/v1`. Default: empty. */
  readonly basePath?: string | undefined;

  /** Limits other than the defaults of config.ts. */
  readonly limits?: Partial<Limits> | undefined;

  /** Called with each internal error: each had the response 50001. Default: none. */
  readonly onFault?: ((error: unknown) => void) | undefined;

  /** Called with each response before it leaves, for logs and metrics. Default: none. */
  readonly onResponse?: ResponseListener | undefined;
}

const types: Readonly<Record<keyof PlantOptions, string>> = {
  store: "object",
  tokens: "object",
  basePath: "string",
  limits: "object",
  onFault: "function",
  onResponse: "function"
};

/**
 * Checks options as JavaScript may give them, so that a mistake fails before the first request.
 *
 * @param others the types of further options that the caller takes
 * @throws TypeError that names the option and what was expected
 */
export function checkOptions(
  options: PlantOptions,
  others: Readonly<Record<string, string>> = {}
) {
  checkTypes("options", options, { ...types, ...others });

  const { store, basePath = "" } = options;
  const methods = [store?.append, store?.close];
  if (!methods.every((method) => typeof method === "function"))
    throw new TypeError("store must be a PlantStore, with append and close");

  if (!basePathForm.test(basePath))
    throw new TypeError(`basePath must be ${basePathExpected}`);
}
