/** The one reader of secret files: the tokens' digests. */
import { readFileSync, statSync } from "node:fs";
import { ConfigError } from "./exit.ts";
import { parseTokensFile } from "./http/bearer.ts";

/** Reads a tokens file that only its owner can read; returns digests as BearerTokens takes them.
 * @throws ConfigError that names the file, and the line where one is wrong */
export function readTokensFile(path: string): readonly string[] {
  try {
    const stat = statSync(path);
    if (!stat.isFile()) throw new TypeError("expected a regular file");
    const mode = (stat.mode & 0o777).toString(8);
    if (!mode.endsWith("00")) {
      throw new TypeError(`expected no access for group and others, found mode ${mode}`);
    }
    return parseTokensFile(readFileSync(path, "utf8"));
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new ConfigError("config", [`tokens file ${path}: ${reason}`]);
  }
}
