/** The tokens that are accepted, of all their sources: environment, tokens file, or made here. */
import { BearerTokens, makeToken } from "../http/bearer.ts";
import type { Host } from "./host.ts";
import { readTokensFile } from "./secrets.ts";
import type { Config } from "./settings.ts";

export class Tokens {
  /** Made where none is configured, and else empty: the server never runs open. */
  readonly made: string;
  readonly accepted: BearerTokens;
  readonly #config: Config;
  readonly #host: Host;
  readonly #warned = new Set<string>();

  /** @throws ConfigError for a tokens file that is refused */
  constructor(config: Config, host: Host) {
    this.#config = config;
    this.#host = host;
    this.made = config.token === "" && config.tokensFile === "" ? makeToken() : "";
    this.accepted = new BearerTokens(this.#all());
  }

  /** Reads the tokens file again. Where that throws, the old tokens stay: a bad edit must not
   * shut everybody out. */
  read(): void {
    this.accepted.replace(this.#all());
  }

  #all(): readonly string[] {
    const { token, tokensFile } = this.#config;
    const ofFile = tokensFile === "" ? [] : readTokensFile(tokensFile, (text) => this.#warn(text));
    return [this.made, token, ...ofFile].filter((each) => each !== "");
  }

  /** Once is enough, however often the file is read. */
  #warn(message: string): void {
    if (!this.#warned.has(message)) this.#host.warn(message);
    this.#warned.add(message);
  }
}
