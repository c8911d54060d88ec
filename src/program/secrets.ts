/** The one reader of secret files: the tokens' digests. */
import { closeSync, constants, fstatSync, openSync, readFileSync } from "node:fs";
import { parseTokensFile } from "../http/bearer.ts";
import { ConfigError, messageOf } from "./exit.ts";

/** A named pipe without a writer must not hold up the start: its opening does not wait. */
const openFlags = constants.O_RDONLY | constants.O_NONBLOCK;

/** Permissions of group and others. */
const readable = 0o044;
const writable = 0o022;

/** Reads a tokens file that group and others can't write, for who can write it can let themselves
 * in; digests as BearerTokens takes them, with their names.
 * @param warn told where they can read it: it holds digests only, and systemd, Kubernetes and
 *   Docker hand files over that way
 * @throws ConfigError that names the file, and the line where one is wrong */
export function readTokensFile(
  path: string,
  warn: (message: string) => void,
): ReadonlyMap<string, string> {
  try {
    const { mode, text } = readRegular(path);
    const shown = (mode & 0o777).toString(8).padStart(3, "0");
    if ((mode & writable) !== 0) {
      throw new TypeError(`expected that group and others can't write it, found mode ${shown}`);
    }
    const digests = parseTokensFile(text);
    if ((mode & readable) !== 0) {
      warn(`tokens file ${path}: group or others can read its digests, mode ${shown}`);
    }
    return digests;
  } catch (error) {
    throw new ConfigError("config", [`tokens file ${path}: ${messageOf(error)}`]);
  }
}

/** What is looked at is what is read, whatever the path names meanwhile. */
function readRegular(path: string): { readonly mode: number; readonly text: string } {
  const fd = openSync(path, openFlags);
  try {
    const stat = fstatSync(fd);
    if (!stat.isFile()) throw new TypeError("expected a regular file");
    return { mode: stat.mode, text: readFileSync(fd, "utf8") };
  } finally {
    closeSync(fd);
  }
}
