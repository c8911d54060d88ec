/** The only reader of secret files: the tokens' digests, the TLS key, a stream's credentials. */
import { createPrivateKey, X509Certificate } from "node:crypto";
import {
  closeSync,
  constants,
  fstatSync,
  openSync,
  readFileSync
} from "node:fs";
import { createSecureContext } from "node:tls";
import { digestForm, emptyDigest } from "../http/bearer.ts";
import { codeOf, ExitError, messageOf } from "../failure.ts";
import { isWindows, userId } from "../system.ts";
import type { Host } from "./host.ts";
import type { Config } from "./settings.ts";

/**
 * Reads a tokens file; names by digest, and each digest as BearerTokens takes it.
 *
 * Others may read it, which one info line says: it holds digests only, and systemd, Kubernetes and
 * Docker provide files that way.
 *
 * @throws ExitError that names the file, and its first malformed line
 */
export const readTokensFile = (path: string, host: Host) =>
  readGuarded("tokens file", path, host, "info", (bytes) =>
    parseTokensFile(`${bytes}`)
  );

/**
 * Reads a certificate and its private key, as options of TLS, and the certificate's end.
 *
 * @throws ExitError that names the file, also if the two do not belong together
 */
export function readTlsPair(certPath: string, keyPath: string, host: Host) {
  const cert = readCertificates("TLS certificate", certPath, host);
  const leaf = new X509Certificate(cert);
  const key = readGuarded("TLS key", keyPath, host, "warn", (bytes) => {
    const own = fromPem("PRIVATE KEY", () => createPrivateKey(bytes));

    // OpenSSL accepts a key of another algorithm, and every handshake would fail.
    if (leaf.checkPrivateKey(own)) return bytes;
    throw new TypeError(
      `expected the key of the first certificate in ${certPath}`
    );
  });
  return { cert, key, notAfter: new Date(leaf.validTo) };
}

/** Reads the server's certificate and key, if it has them. */
export const readTls = ({ tlsCert, tlsKey }: Config, host: Host) =>
  tlsCert ? readTlsPair(tlsCert, tlsKey, host) : undefined;

/** Reads the credentials of a stream. @throws ExitError that names the file */
export const readCredentialsFile = (path: string, host: Host) =>
  readGuarded("credentials file", path, host, "warn", String);

/** Reads certificates, all of which TLS takes. @throws ExitError that names the file */
export const readCertificates = (kind: string, path: string, host: Host) =>
  readGuarded(kind, path, host, "public", (cert) => {
    fromPem("CERTIFICATE", () => createSecureContext({ cert }));
    return cert;
  });

/** Does a step of OpenSSL. @throws TypeError with its code, as ERR_OSSL_PEM_NO_START_LINE */
function fromPem<T>(kind: "CERTIFICATE" | "PRIVATE KEY", step: () => T) {
  try {
    return step();
  } catch (error) {
    throw new TypeError(
      `expected PEM of a ${kind}, whole and without a passphrase: ${codeOf(error)}`,
      { cause: error }
    );
  }
}

const writableByOthers = 0o022;
const readableByOthers = 0o004;

/**
 * Reads a file that nobody but root and the process's user can change: anyone who can write it can
 * grant themselves access. On Windows every file has owner 0 and mode 666 or 444.
 *
 * @param level of the line that says that others can read the file; `public` logs none
 */
function readGuarded<T>(
  kind: string,
  path: string,
  { log, logged }: Host,
  level: "info" | "warn" | "public",
  parse: (bytes: Buffer) => T
): T {
  let fd;
  try {
    // Opened so, a named pipe does not wait for a writer. The checks are of the open file: what
    // the path names may change meanwhile.
    fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
    const stat = fstatSync(fd);
    if (!stat.isFile()) throw new TypeError("expected a regular file");
    if (![0, userId()].includes(stat.uid))
      throw new TypeError(
        `expected root or user ${userId()} as the owner, found user ${stat.uid}`
      );
    const mode = `mode ${(stat.mode & 0o777).toString(8).padStart(3, "0")}`;
    if (!isWindows && (stat.mode & writableByOthers) !== 0)
      throw new TypeError(
        `expected that group and others cannot write it, found ${mode}`
      );
    const parsed = parse(readFileSync(fd));
    const message = isWindows
      ? "owner and mode of secret files are not checked on Windows"
      : `${kind} ${path}: others can read it, ${mode}`;
    const isReadable = (stat.mode & readableByOthers) !== 0;
    if (level !== "public" && isReadable && !logged.has(message))
      log(level, message);
    logged.add(message);
    return parsed;
  } catch (error) {
    throw new ExitError("config", `${kind} ${path}: ${messageOf(error)}`);
  } finally {
    if (fd !== undefined) closeSync(fd);
  }
}

/**
 * Parses lines `NAME sha256:HEX`, blank lines and # comments; returns the names by digest. White
 * space around a line is ignored. A client that changes its token has two lines.
 *
 * @throws TypeError with the number of the first malformed line
 */
export function parseTokensFile(text: string) {
  const names = new Map<string, string>();
  for (const [index, line] of text.split("\n").entries()) {
    // Windows writes CRLF and a byte order mark, which is white space, too.
    const [name = "", digest = "", ...others] = line.trim().split(/\s+/);
    if (/^(?:#|$)/.test(name)) continue;
    const isDigest = digestForm.test(digest) && digest !== emptyDigest;
    if (!isDigest || others.length > 0)
      throw new TypeError(
        `line ${index + 1}: expected NAME sha256:HEX with 64 lower-case digits, ` +
          "not those of an empty token"
      );
    names.set(digest, name);
  }
  if (names.size > 0) return names;
  throw new TypeError("expected at least one line NAME sha256:HEX");
}
