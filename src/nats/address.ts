/**
 * The address of a stream, and the settings of an engine: address, options and limits together.
 *
 *   nats://h1:4222,h2:4222,h3:4222/STREAM?replicas=3
 *
 *   address = ("nats" / "tls") "://" hosts "/" STREAM ["?" option *("&" option)]
 *   hosts   = host *("," host)
 *   host    = (name / IPv4 / "[" IPv6 "]") [":" port]                    ; default port: 4222
 *   option  = "replicas=" 1-5 / "servers=" subject / "tls-first" / "domain=" name
 *           / "inbox=" prefix / "subject=" subject
 *
 * It never contains credentials. A message never quotes a wrong address: it may contain some.
 */
import { isIP } from "node:net";
import type { ConnectionOptions } from "node:tls";
import { checkTypes } from "../config.ts";
import { isError, messageOf, ExitError } from "../failure.ts";
import { loginOf } from "./credentials.ts";
import { natsLimits, type NatsLimits } from "./limits.ts";

export interface NatsOptions {
  /**
   * The user's credentials (see credentials.ts for the form), or a function that returns them,
   * called for every connection. Default: none.
   */
  readonly credentials?: string | (() => string | undefined);

  /** Whether plants may have keys: reading the stream must be permitted then. Default: true. */
  readonly keys?: boolean;

  /** Limits that replace the defaults of limits.ts. */
  readonly limits?: Partial<NatsLimits>;

  /**
   * Certificates and the like, as node:tls takes them, or a function that returns them, called for
   * every connection. Default: what Node trusts.
   */
  readonly tls?: ConnectionOptions | (() => ConnectionOptions);

  /**
   * Called with a line for each problem, such as a lost server or a setting that is not verified.
   * Also called when plants are acknowledged again. Default: not called.
   */
  readonly warn?: (message: string) => void;
}

export type StreamSettings = ReturnType<typeof settingsOf>;

/** A host, as node:net and node:tls take it. */
export type Endpoint = StreamSettings["hosts"][number];

/**
 * Checks an address and options, credentials and certificates included.
 *
 * @throws ExitError `config` with a line for each mistake in address, credentials and
 * certificates; RangeError for a limit, TypeError for an unknown option or limit
 */
export function settingsOf(address: string, options: NatsOptions) {
  checkTypes("options", options, {
    credentials: "string or function",
    keys: "boolean",
    limits: "object",
    tls: "object or function",
    warn: "function"
  });
  const limits = { ...natsLimits, ...options.limits };
  const types = Object.keys(natsLimits).map((name) => [name, "number"]);
  checkTypes("limits", limits, Object.fromEntries(types));
  for (const [name, value] of Object.entries(limits))
    if (!(value >= 1 && value < 2 ** 31))
      throw new RangeError(`${name} must be 1 to 2^31 - 1`);
  const { credentials, keys = true, tls, warn } = options;
  const login = (nonce: string) =>
    orRefused("credentials", () =>
      loginOf(
        typeof credentials === "function" ? credentials() : credentials,
        nonce
      )
    );
  const tlsOptions = () =>
    orRefused("certificates", () => (typeof tls === "function" ? tls() : tls));

  const mistakes: string[] = [];
  for (const read of [() => parseAddress(address), () => login(""), tlsOptions])
    try {
      read();
    } catch (error) {
      mistakes.push(messageOf(error));
    }
  if (mistakes.length > 0) throw new ExitError("config", mistakes.join("\n"));
  const target = parseAddress(address);
  return { ...target, limits, login, keys, tlsOptions, warn };
}

/** Returns what a function returns. @throws ExitError `refused` with its error's message */
function orRefused<T>(what: string, get: () => T) {
  try {
    return get();
  } catch (error) {
    const reason = isError(error) ? error.message : "cannot be read";
    throw new ExitError("refused", `the store's ${what}: ${reason}`);
  }
}

/** A subject without wildcards. */
const subjectForm = /^[\w-]+(?:\.[\w-]+)*$/;

const option =
  "(?:replicas=[1-5]|tls-first|domain=[\\w-]+|inbox=\\w[\\w.-]*" +
  `|(?:servers|subject)=${subjectForm.source.slice(1, -1)})`;
const addressForm = new RegExp(
  `^(nats|tls)://([^/]+)/([\\w-]{1,64})(?:\\?(${option}(?:&${option})*))?$`
);

/** @throws ExitError `config` with the expected form */
function parseAddress(address: string) {
  const [, protocol, hosts = "", stream = "", query] =
    addressForm.exec(address) ?? [];
  const options = new URLSearchParams(query);
  const domain = options.get("domain");
  try {
    return {
      hosts: hosts.split(",").map(endpointOf),

      stream,

      /** The subject that plants are published to. */
      subject: options.get("subject") ?? stream,
      needsTls: protocol === "tls",
      replicas: Number(options.get("replicas") ?? 3),

      /** The subject that all servers respond to with their settings. Null: none is asked. */
      servers: options.get("servers"),
      isTlsFirst: options.has("tls-first"),

      /** The subjects of JetStream's interface, and of the inbox. */
      api: domain === null ? "$JS.API" : `$JS.${domain}.API`,
      inbox: options.get("inbox") ?? "_INBOX"
    };
  } catch {
    throw new ExitError(
      "config",
      "the store's address: expected nats:// or tls://HOST:PORT,HOST:PORT/STREAM" +
        "?replicas=1-5&servers=SUBJECT&tls-first" +
        "&domain=NAME&inbox=PREFIX&subject=NAME, without credentials"
    );
  }
}

/** @throws TypeError for a text that is not a host, or has more than a host and a port */
function endpointOf(shown: string) {
  const url = new URL(`nats://${shown}`);
  const host = url.hostname.replace(/[[\]]/g, "");
  if (host === "" || url.host !== shown) throw new TypeError("not a host");

  // A server name in TLS is never an IP address (RFC 6066, section 3).
  const servername = isIP(host) === 0 ? host : "";
  return { host, port: Number(url.port || 4222), servername, shown };
}
