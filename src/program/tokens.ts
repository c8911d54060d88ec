/** The tokens that are accepted, of all their sources: environment, tokens file, or made here. */
import { BearerTokens, makeToken, tokenDigest } from "../http/bearer.ts";
import { readTokensFile } from "./secrets.ts";
import { tokenVariable, type Config } from "./settings.ts";

export class Tokens {
  /** Made where none is configured, and else empty: the server never runs open. */
  readonly made: string;
  readonly accepted: BearerTokens;
  readonly #all: () => ReadonlyMap<string, string>;

  /** By digest: of what the file names, and of the others where they come from. */
  #names: ReadonlyMap<string, string>;

  /** @throws ExitError for a tokens file that is refused */
  constructor({ token, tokensFile }: Config, warn: (message: string) => void) {
    this.made = token === "" && tokensFile === "" ? makeToken() : "";
    this.#all = () => {
      const names = new Map<string, string>();
      if (this.made !== "") names.set(tokenDigest(this.made), "made");
      if (token !== "") names.set(tokenDigest(token), tokenVariable);
      return tokensFile === "" ? names : new Map([...names, ...readTokensFile(tokensFile, warn)]);
    };
    this.#names = this.#all();
    this.accepted = new BearerTokens([...this.#names.keys()]);
  }

  get names(): readonly string[] {
    return [...this.#names.values()];
  }

  /** The name of the token in a value of Authorization; undefined where none is known. */
  nameOf(authorization = ""): string | undefined {
    return this.#names.get(tokenDigest(authorization.slice(authorization.lastIndexOf(" ") + 1)));
  }

  /**
   * Reads the tokens file again. Where that throws, the old tokens stay: a bad edit must not
   * shut everybody out.
   */
  read(): void {
    const names = this.#all();
    this.accepted.replace([...names.keys()]);
    this.#names = names;
  }
}
