/** The one reader of secret files: the tokens' digests, and the certificate's key. */
import { createPrivateKey, X509Certificate } from "node:crypto";
import {
  closeSync,
  constants,
  fstatSync,
  openSync,
  readFileSync
} from "node:fs";
import { createSecureContext } from "node:tls";
import { digestForm } from "../http/bearer.ts";
import { ExitError, messageOf } from "./exit.ts";

/** A named pipe without a writer must not hold up the start: its opening does not wait. */
const openFlags = constants.O_RDONLY | constants.O_NONBLOCK;

/** Permissions of group and others. */
const readable = 0o044;
const writable = 0o022;

type Warn = (message: string) => void;

/**
 * Reads a tokens file; digests as BearerTokens takes them, with their names.
 *
 * @param warn told where group or others can read it: it holds digests only, and systemd,
 *   Kubernetes and Docker hand files over that way
 * @throws ExitError that names the file, and the line where one is wrong
 */
export const readTokensFile = (
  path: string,
  warn: Warn
): ReadonlyMap<string, string> =>
  readGuarded(
    "tokens file",
    path,
    (bytes) => parseTokensFile(`${bytes}`),
    "its digests",
    warn
  );

/**
 * Reads a certificate and its key, as options of TLS, and tries whether they belong together.
 *
 * @param warn told where group or others can read the key: it is handed over as a tokens file is
 * @throws ExitError that names the file
 */
export function readTlsPair(certPath: string, keyPath: string, warn: Warn) {
  const { cert, leaf } = readGuarded("TLS certificate", certPath, (bytes) => ({
    cert: bytes,
    leaf: new X509Certificate(bytes)
  }));
  const pairOf = (key: Buffer) => {
    createSecureContext({ cert, key });
    // Of two algorithms it does not tell, but every handshake would fail.
    if (leaf.checkPrivateKey(createPrivateKey(key))) return { cert, key };
    throw new TypeError(`expected the key of ${certPath}, found another`);
  };
  return readGuarded("TLS key", keyPath, pairOf, "it", warn);
}

/** Reads a file that group and others can't write: who can write it can let themselves in. */
function readGuarded<T>(
  kind: string,
  path: string,
  parse: (bytes: Buffer) => T,
  secret = "",
  warn?: Warn
): T {
  let fd;
  try {
    // What is looked at is what is read, whatever the path names meanwhile.
    fd = openSync(path, openFlags);
    const stat = fstatSync(fd);
    const mode = (stat.mode & 0o777).toString(8).padStart(3, "0");
    if (!stat.isFile()) throw new TypeError("expected a regular file");
    if ((stat.mode & writable) !== 0) {
      throw new TypeError(
        `expected that group and others can't write it, found mode ${mode}`
      );
    }
    const parsed = parse(readFileSync(fd));
    const isReadable = (stat.mode & readable) !== 0;
    if (isReadable)
      warn?.(
        `${kind} ${path}: group or others can read ${secret}, mode ${mode}`
      );
    return parsed;
  } catch (error) {
    throw new ExitError("config", `${kind} ${path}: ${messageOf(error)}`);
  } finally {
    if (fd !== undefined) closeSync(fd);
  }
}

export const isTokenName = (text: string): boolean => /^[^\s#]\S*$/.test(text);

/**
 * The names of the digests in a text of lines `NAME sha256:HEX`, blank ones and # comments.
 *
 * @throws TypeError with the number of the first bad line
 */
export function parseTokensFile(text: string): ReadonlyMap<string, string> {
  const names = new Map<string, string>();
  for (const [index, line] of text.split(/\r?\n/).entries()) {
    if (/^\s*(?:#|$)/.test(line)) continue;
    const [name = "", digest = "", ...rest] = line.split(" ");
    if (!isTokenName(name) || !digestForm.test(digest) || rest.length > 0) {
      throw new TypeError(
        `line ${index + 1}: expected NAME sha256:HEX with 64 lower-case digits`
      );
    }
    names.set(digest, name);
  }
  if (names.size === 0)
    throw new TypeError("line 1: expected at least one token, found none");
  return names;
}
