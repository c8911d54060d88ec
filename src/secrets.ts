/** The one reader of secret files: the tokens' digests. */
import { readFileSync, statSync } from "node:fs";
import { parseTokensFile } from "./http/bearer.ts";

/**
 * Reads a tokens file that only its owner can read.
 * @returns the digests, as BearerTokens takes them
 * @throws Error that names the file, and the line where one is wrong
 */
export function readTokensFile(path: string): readonly string[] {
  try {
    const stat = statSync(path);
    if (!stat.isFile()) throw new TypeError("expected a regular file");
    const mode = stat.mode & 0o777;
    if ((mode & 0o077) !== 0) {
      throw new TypeError(`expected no access for group and others, found mode ${mode.toString(8)}`);
    }
    return parseTokensFile(readFileSync(path, "utf8"));
  } catch (error) {
    throw new Error(`tokens file ${path}: ${error instanceof Error ? error.message : ""}`);
  }
}
