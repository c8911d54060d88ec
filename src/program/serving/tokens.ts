/** The accepted tokens of all sources: environment, tokens file, or generated here. */
import { BearerTokens, generateToken, tokenDigest } from "../../http/bearer.ts";
import { readTls, readTokensFile } from "../secrets.ts";
import { tokenVariable, type Config } from "../settings.ts";
import type { Host } from "../host.ts";

export type Secrets = ReturnType<typeof openSecrets>;

/** Reads the secret files. @throws ExitError if one is refused */
export const openSecrets = (config: Config, host: Host) => ({
  tokens: openTokens(config, host),

  /** The current certificate and key, if the server has them. */
  tls: readTls(config, host),

  /** Whether the last reading of the files succeeded, and when one last did. */
  isLoaded: true,
  loadedAt: Date.now()
});

export type Tokens = ReturnType<typeof openTokens>;

/**
 * Collects the tokens. Nothing in the result shows a token when it is inspected.
 *
 * @throws ExitError if the tokens file is refused
 */
export function openTokens({ tokensFile }: Config, host: Host) {
  const { [tokenVariable]: given } = host.environment;

  // The server never runs open: without a configured token it generates one.
  const generated = given || tokensFile ? "" : generateToken();
  if (generated && given === "")
    host.log("warn", `${tokenVariable} is empty: a token is generated`);
  const single = given || generated;
  const source = generated ? "generated" : tokenVariable;
  const own = single ? [[tokenDigest(single), source] as const] : [];

  /** Names by digest: those of the file, and the source of the other token. */
  const readAll = () =>
    new Map([...own, ...(tokensFile ? readTokensFile(tokensFile, host) : [])]);
  let names = readAll();
  const accepted = new BearerTokens([...names.keys()]);

  return {
    accepted,

    /** The generated token; empty if one is configured. */
    generated: () => generated,
    names: () => [...names.values()],

    /** Returns the name of the token in an Authorization field; undefined for an unknown one. */
    nameOf: (authorization = "") =>
      names.get(tokenDigest(/^bearer +(\S+)$/i.exec(authorization)?.[1] ?? "")),

    /**
     * Reads the tokens file again, and returns the names. The old tokens stay if it is refused: a
     * bad edit must not lock everybody out.
     *
     * @throws ExitError as at the start
     */
    reload() {
      names = readAll();
      accepted.replace([...names.keys()]);
      return [...names.values()];
    }
  };
}
