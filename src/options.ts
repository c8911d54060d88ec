/** What a service is made of: given by an embedder, or by the program. */
import { basePathForm, basePathWanted, type Limits } from "./config.ts";
import { BearerTokens } from "./http/bearer.ts";
import type { ResponseListener } from "./http/connection.ts";
import type { PlantStore } from "./store.ts";

export interface PlantOptions {
  readonly store: PlantStore;

  /** Each a b64token or `sha256:HEX`; a BearerTokens can be replaced while serving. */
  readonly tokens: BearerTokens | readonly string[];

  /** What stands before `/plants` in the path, such as `/v1`. Default: nothing. */
  readonly basePath?: string | undefined;

  /** Replaces defaults of config.ts. */
  readonly limits?: Partial<Limits> | undefined;

  /** Told of every fault that was answered with 50001. Default: nobody is. */
  readonly onFault?: ((error: unknown) => void) | undefined;

  /** Told of every answer before it leaves, for logs and figures. Default: nobody is. */
  readonly onResponse?: ResponseListener | undefined;
}

/** JavaScript gives anything: what is no option fails here, not at somebody's first request. */
export function checkOptions({
  store,
  tokens,
  basePath = ""
}: PlantOptions): void {
  const isList =
    Array.isArray(tokens) && tokens.every((token) => typeof token === "string");
  expect(
    "store",
    typeof store?.append === "function",
    "a PlantStore, with append and close"
  );
  expect(
    "tokens",
    isList || tokens instanceof BearerTokens,
    "a list of texts, or a BearerTokens"
  );
  expect("basePath", basePathForm.test(basePath), basePathWanted);
}

/** @throws TypeError that names the option, and what was expected */
function expect(option: string, isGood: boolean, expected: string): void {
  if (!isGood) throw new TypeError(`${option} must be ${expected}`);
}
