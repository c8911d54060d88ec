/** The tokens that are accepted, of all their sources: environment, tokens file, or made here. */
import { BearerTokens, makeToken } from "../http/bearer.ts";
import { readTokensFile } from "./secrets.ts";
import type { Config } from "./settings.ts";

export class Tokens {
  /** Made where none is configured, and else empty: the server never runs open. */
  readonly made: string;
  readonly accepted: BearerTokens;
  readonly #all: () => readonly string[];

  /** @throws ConfigError for a tokens file that is refused */
  constructor({ token, tokensFile }: Config, warn: (message: string) => void) {
    this.made = token === "" && tokensFile === "" ? makeToken() : "";
    this.#all = () => {
      const ofFile = tokensFile === "" ? [] : readTokensFile(tokensFile, warn);
      return [this.made, token, ...ofFile].filter((each) => each !== "");
    };
    this.accepted = new BearerTokens(this.#all());
  }

  /**
   * Reads the tokens file again. Where that throws, the old tokens stay: a bad edit must not
   * shut everybody out.
   */
  read(): void {
    this.accepted.replace(this.#all());
  }
}
