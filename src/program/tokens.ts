/** The tokens that are accepted, of all their sources: environment, tokens file, or made here. */
import { BearerTokens, makeToken, tokenDigest } from "../http/bearer.ts";
import { readTokensFile } from "./secrets.ts";
import { tokenVariable, type Config } from "./settings.ts";

export type Tokens = ReturnType<typeof openTokens>;

/** @throws ExitError for a tokens file that is refused */
export function openTokens(
  { token, tokensFile }: Config,
  warn: (message: string) => void
) {
  // Where none is configured one is made: the server never runs open.
  const made = token === "" && tokensFile === "" ? makeToken() : "";
  const single = made || token;
  const own =
    single === ""
      ? []
      : [[tokenDigest(single), made ? "made" : tokenVariable] as const];

  /** By digest: of what the file names, and of the others where they come from. */
  const readAll = (): ReadonlyMap<string, string> =>
    new Map([
      ...own,
      ...(tokensFile === "" ? [] : readTokensFile(tokensFile, warn))
    ]);
  let names = readAll();
  const accepted = new BearerTokens([...names.keys()]);

  return {
    /** Empty where one is configured. */
    made,
    accepted,
    names: (): readonly string[] => [...names.values()],

    /** The name of the token in a value of Authorization; undefined where none is known. */
    nameOf: (authorization = ""): string | undefined =>
      names.get(
        tokenDigest(authorization.slice(authorization.lastIndexOf(" ") + 1))
      ),

    /**
     * Reads the tokens file again. Where that throws, the old tokens stay: a bad edit must not
     * shut everybody out.
     */
    read(): void {
      names = readAll();
      accepted.replace([...names.keys()]);
    }
  };
}
