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
import { ExitError, ifPossible, messageOf } from "../failure.ts";
import { isWindows } from "../system.ts";
import type { Host, Log } from "./host.ts";
import type { Config } from "./settings.ts";

/**
 * Reads a tokens file; names by digest, and each digest as BearerTokens takes it.
 *
 * Others may read it, which one info line says: it holds digests only, and systemd, Kubernetes and
 * Docker provide files that way.
 *
 * @throws ExitError that names the file, and its malformed lines
 */
export const readTokensFile = (path: string, host: Host) =>
  readGuarded("tokens file", path, host, "info", (bytes) =>
    parseTokensFile(`${bytes}`, (level, message) =>
      host.log(level, `tokens file ${path}: ${message}`)
    )
  );

/**
 * Reads a certificate and its private key, as options of TLS, and the certificate's end.
 *
 * @throws ExitError that names the file, also if the two do not belong together
 */
export function readTlsPair(certPath: string, keyPath: string, host: Host) {
  const [cert, { key, own }] = readBoth(
    () => readCertificates("TLS certificate", certPath, host),
    () => readKey(keyPath, host)
  );

  // OpenSSL accepts a key of another algorithm, and every handshake would fail.
  const leaf = new X509Certificate(cert);
  if (!leaf.checkPrivateKey(own))
    throw new ExitError(
      "config",
      `TLS key ${keyPath}: expected the key of the first certificate in ${certPath}, found another`
    );
  const notAfter = new Date(leaf.validTo);
  const third = (+notAfter - Date.parse(leaf.validFrom)) / 3;
  const warnAfter = +notAfter - Math.min(third, 14 * dayMillis);
  return { cert, key, notAfter, warnAfter };
}

/** Reads a private key: its bytes, and what OpenSSL made of them. */
const readKey = (path: string, host: Host) =>
  readGuarded("TLS key", path, host, "warn", (key) => {
    const own = inPem("PRIVATE KEY", key, () => createPrivateKey(key));
    const { asymmetricKeyType: type = "", asymmetricKeyDetails } = own;
    const { namedCurve } = asymmetricKeyDetails ?? {};
    if (type === "dsa" || (namedCurve && !curves.includes(namedCurve)))
      throw new TypeError(
        `expected RSA, Ed25519, or EC with P-256, P-384 or P-521: clients of TLS take no other; ` +
          `found ${namedCurve ?? type}`
      );
    return { key, own };
  });

/** OpenSSL's names of the curves. With others it loads a key, and then refuses each handshake. */
const curves = ["prime256v1", "secp384r1", "secp521r1"];

/** Reads the server's certificate and key, if it has both: `check` reads on after a mistake. */
export const readTls = ({ tlsCert, tlsKey }: Config, host: Host) =>
  tlsCert && tlsKey ? readTlsPair(tlsCert, tlsKey, host) : undefined;

/**
 * Reads two things, and returns what the functions return.
 *
 * @throws ExitError with the mistakes of both
 */
export function readBoth<First, Second>(
  readFirst: () => First,
  readSecond: () => Second
): readonly [First, Second] {
  const mistakes: string[] = [];
  const first = readOrCollect(readFirst, mistakes);
  const second = readOrCollect(readSecond, mistakes);
  if (first && second) return [first.value, second.value];
  throw new ExitError("config", mistakes.join("\n"));
}

/** Returns what a function returns, as `value`; undefined if it has made a mistake, which it adds. */
function readOrCollect<T>(read: () => T, mistakes: string[]) {
  try {
    return { value: read() };
  } catch (error) {
    if (!(error instanceof ExitError)) throw error;
    mistakes.push(error.message);
    return undefined;
  }
}

/** Reads the credentials of a stream. @throws ExitError that names the file */
export const readCredentialsFile = (path: string, host: Host) =>
  readGuarded("credentials file", path, host, "warn", String);

/** Reads certificates, all of which TLS takes. @throws ExitError that names the file */
export const readCertificates = (kind: string, path: string, host: Host) =>
  readGuarded(kind, path, host, "public", (cert) => {
    inPem("CERTIFICATE", cert, () => createSecureContext({ cert }));
    return cert;
  });

/** Does a step of OpenSSL. @throws TypeError that says what was expected, and what the file has */
function inPem<T>(
  kind: "CERTIFICATE" | "PRIVATE KEY",
  bytes: Buffer,
  step: () => T
) {
  try {
    return step();
  } catch {
    throw new TypeError(
      `expected PEM of a ${kind}, whole, with real line ends, without a passphrase, ` +
        `and no weaker than RSA of 2048 bits; found ${faultIn(kind, `${bytes}`)}`
    );
  }
}

/** Returns what OpenSSL does not take in a file, as far as it can be told, and in which block. */
function faultIn(kind: "CERTIFICATE" | "PRIVATE KEY", text: string) {
  const blocks = text.match(/-----BEGIN [^]*?(?=-----BEGIN |$)/g) ?? [];
  if (blocks.some((block) => block.includes("\\n")))
    return "\\n spelled out in place of line ends";
  const labels = blocks.map((block) => /BEGIN ([A-Z ]+)/.exec(block)?.[1]);
  for (const [index, block] of blocks.entries()) {
    const label = labels[index] ?? "";
    if (!label.endsWith(kind)) continue;
    const which = `${label} in block ${index + 1} of ${blocks.length}`;
    if (!block.includes(`-----END ${label}-----`)) return `${which}, cut off`;
    if (/ENCRYPTED/.test(block)) return `${which}, with a passphrase`;
    const key = ifPossible(() =>
      kind === "CERTIFICATE"
        ? new X509Certificate(block).publicKey
        : createPrivateKey(block)
    );
    if (!key) return `${which}, broken`;
    const { modulusLength = Infinity } = key.asymmetricKeyDetails ?? {};
    if (modulusLength < 2048) return `${which}, RSA of ${modulusLength} bits`;
  }
  return labels[0] ?? "no PEM";
}

export const dayMillis = 86_400_000;

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
  { userId, log, logged }: Host,
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
    if (![0, userId].includes(stat.uid))
      throw new TypeError(
        `expected root or user ${userId} as the owner, found user ${stat.uid}`
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

export const isTokenName = (text: string) => /^[^\s#]\S*$/.test(text);

/** The most malformed lines that a message names: in another file every line is one. */
const linesNamedMax = 5;

/**
 * Parses lines `NAME sha256:HEX`, blank lines and # comments; returns the names by digest. White
 * space around a line is ignored.
 *
 * A name or a token that occurs again is only logged: a client that changes its token has two.
 *
 * @throws TypeError with the numbers of the malformed lines
 */
export function parseTokensFile(text: string, log: Log) {
  const names = new Map<string, string>();
  const known = new Set<string>();
  const malformed: number[] = [];
  for (const [index, line] of text.split("\n").entries()) {
    // Windows writes CRLF and a byte order mark, which is white space, too.
    const [name = "", digest = "", ...others] = line.trim().split(/[ \t]+/);
    if (/^(?:#|$)/.test(name)) continue;
    const place = `line ${index + 1}`;
    const isDigest = digestForm.test(digest) && digest !== emptyDigest;
    if (!isTokenName(name) || !isDigest || others.length > 0)
      malformed.push(index + 1);
    else if (names.has(digest))
      log(
        "warn",
        `${place}: the token occurs before: it counts until each is removed`
      );
    else if (known.has(name))
      log(
        "info",
        `${place}: the name occurs before: the log cannot tell the two apart`
      );
    names.set(digest, name);
    known.add(name);
  }
  if (malformed.length > 0)
    throw new TypeError(
      `${describeLines(malformed)}: expected NAME sha256:HEX with 64 lower-case digits` +
        (text.includes("\0") ? ", found UTF-16" : "") +
        (text.includes(emptyDigest) ? ", found that of an empty token" : "")
    );
  if (names.size > 0) return names;
  throw new TypeError("line 1: expected at least one token, found none");
}

/** Returns `line 3`, or `lines 3, 5 and 9`, or `lines 1, 2, 3, 4, 5 and 9 more`. */
function describeLines(numbers: readonly number[]) {
  const shown = numbers.slice(0, linesNamedMax);
  const last =
    numbers.length > linesNamedMax
      ? `${numbers.length - linesNamedMax} more`
      : shown.pop();
  return shown.length === 0
    ? `line ${last}`
    : `lines ${shown.join(", ")} and ${last}`;
}
