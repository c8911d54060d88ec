/** The one reader of secret files: the tokens' digests. */
import { closeSync, constants, fstatSync, openSync, readFileSync } from "node:fs";
import { ConfigError } from "./exit.ts";
import { parseTokensFile } from "../http/bearer.ts";

/** A named pipe without a writer must not hold up the start: its opening does not wait. */
const openFlags = constants.O_RDONLY | constants.O_NONBLOCK;
const groupAndOthers = { read: 0o044, write: 0o022 };

/** Reads a tokens file that group and others can't write; digests as BearerTokens takes them.
 * @param warn told where they can read it: it holds digests only, and systemd, Kubernetes and
 *   Docker hand files over that way
 * @throws ConfigError that names the file, and the line where one is wrong */
export function readTokensFile(path: string, warn: (message: string) => void): readonly string[] {
  try {
    // What is looked at is what is read, whatever the path names meanwhile.
    const fd = openSync(path, openFlags);
    try {
      const stat = fstatSync(fd);
      const mode = (stat.mode & 0o777).toString(8).padStart(3, "0");
      if (!stat.isFile()) throw new TypeError("expected a regular file");
      if (stat.mode & groupAndOthers.write) {
        throw new TypeError(`expected that group and others can't write it, found mode ${mode}`);
      }
      const digests = parseTokensFile(readFileSync(fd, "utf8"));
      if (stat.mode & groupAndOthers.read) {
        warn(`tokens file ${path}: group or others can read its digests, mode ${mode}`);
      }
      return digests;
    } finally {
      closeSync(fd);
    }
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new ConfigError("config", [`tokens file ${path}: ${reason}`]);
  }
}
