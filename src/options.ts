/** The options of a service, from an embedder or from the program. */
import {
  basePathExpected,
  basePathForm,
  checkOptionTypes,
  isPlain,
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

/** What `typeof` says of an option that is set; undefined: it is checked below. */
const types = {
  store: undefined,
  tokens: undefined,
  basePath: "string",
  limits: undefined,
  onFault: "function",
  onResponse: "function"
} as const satisfies Record<keyof PlantOptions, string | undefined>;

/**
 * Checks options as JavaScript may give them, so that a mistake fails before the first request.
 *
 * @param others further options that the caller takes
 * @throws TypeError that names the option and what was expected
 */
export function checkOptions(
  options: PlantOptions & { readonly tls?: unknown },
  others: Readonly<Record<string, undefined>> = {}
) {
  checkOptionTypes(options, { ...types, ...others });

  const { store, tls, limits, basePath = "" } = options;
  if (limits !== undefined && !isPlain(limits))
    throw new TypeError("limits must be a plain object");
  if (tls !== undefined && !canServe(tls))
    throw new TypeError(
      "tls must be a plain object with cert and key, pfx, SNICallback or pskCallback"
    );

  if (typeof store?.append !== "function")
    throw new TypeError("store must be a PlantStore, with append and close");

  if (!basePathForm.test(basePath))
    throw new TypeError(`basePath must be ${basePathExpected}`);
}

/** Returns whether a TLS handshake can succeed with these options. */
function canServe(tls: unknown) {
  if (!isPlain(tls)) return false;
  const has = (name: string) => name in tls && Reflect.get(tls, name);
  return Boolean(
    (has("cert") && (has("key") || has("privateKeyIdentifier"))) ||
    has("pfx") ||
    has("SNICallback") ||
    has("pskCallback")
  );
}
