/**
 * The address of a stream, and the settings that it makes together with the options.
 *
 *   nats://user:password@h1:4222,h2:4222,h3:4222/STREAM?replicas=3
 *
 *   url    = ("nats" / "tls") "://" [user [":" password] "@"] hosts "/" STREAM ["?" query]
 *   hosts  = host *("," host)
 *   host   = (name / IPv4 / "[" IPv6 "]") [":" port]                   ; default port: 4222
 *   query  = option *("&" option)
 *   option = "replicas=" 1-5 / "monitor=" port / "old-server=allow"
 *
 * User and password are percent-encoded; a user without a password is a token. A message never
 * quotes a wrong address: any part of it may belong to a password that is not encoded.
 */
import { unescape } from "node:querystring";
import type { ConnectionOptions } from "node:tls";
import { natsLimits, type NatsLimits } from "../config.ts";
import { EngineError } from "../store.ts";
import { readCredentials, type Credentials } from "./credentials.ts";

export interface NatsOptions {
  /** The user's credentials: see credentials.ts for the form. Default: none. */
  readonly credentials?: Credentials;

  /** Limits that replace the defaults of config.ts. */
  readonly limits?: Partial<NatsLimits>;

  /** Certificates and the like, as node:tls takes them. Default: what Node trusts. */
  readonly tls?: ConnectionOptions;

  /**
   * Called with a line for each problem: a server that is lost, a setting that is not verified;
   * and when plants are acknowledged again. Default: no call.
   */
  readonly warn?: (message: string) => void;
}

export type Settings = ReturnType<typeof settingsOf>;
export type Host = ReturnType<typeof hostOf>;

/**
 * Checks an address and options, credentials included.
 *
 * @throws EngineError `config`, RangeError for a limit
 */
export function settingsOf(address: string, options: NatsOptions) {
  const target = parseAddress(address);
  const limits = Object.freeze({ ...natsLimits, ...options.limits });
  for (const [name, value] of Object.entries(limits)) {
    if (!(value >= 1 && value < 2 ** 31))
      throw new RangeError(`${name} must be 1 to 2^31 - 1`);
  }
  const { credentials, tls, warn } = options;
  readCredentials(credentials);
  return Object.freeze({ ...target, limits, credentials, tls, warn });
}

const encoded = "[^/?#@:,\\s]";
const host = "(?:\\[[\\da-fA-F:.]+\\]|[\\w.-]+)(?::\\d{1,5})?";
const option = "(?:replicas=[1-5]|monitor=\\d{1,5}|old-server=allow)";
const addressForm = new RegExp(
  `^(nats|tls)://(?:(${encoded}+)(?::(${encoded}*))?@)?` +
    `(${host}(?:,${host})*)/([\\w-]{1,64})(?:\\?(${option}(?:&${option})*))?$`
);
const expected =
  "the store's address: expected nats:// or tls://USER:PASSWORD@HOST:PORT,HOST:PORT/" +
  "STREAM?replicas=1-5&monitor=PORT&old-server=allow, with / ? # @ : , of a password as %XX";

/** @throws EngineError `config` with the expected form; it quotes nothing */
export function parseAddress(address: string) {
  const [all, scheme, user, pass, hosts = "", stream = "", query] =
    addressForm.exec(address) ?? [];
  const options = new URLSearchParams(query);
  const target = {
    hosts: hosts.split(",").map(hostOf),

    /** Also the subject that plants are published to. */
    stream,

    /** Members of CONNECT; JSON leaves out an undefined member. */
    addressCredentials:
      pass === undefined
        ? { auth_token: user && unescape(user) }
        : { user: unescape(user ?? ""), pass: unescape(pass) },
    needsTls: scheme === "tls",
    replicas: Number(options.get("replicas") ?? 3),

    /** The port of the servers' /varz; 0: they are not asked. */
    monitor: Number(options.get("monitor") ?? 0),
    allowsOldServer: options.has("old-server"),

    /** The address without user and password. */
    shown: `${scheme}://${hosts}/${stream}`
  };
  const portMax = Math.max(
    target.monitor,
    ...target.hosts.map(({ port }) => port)
  );
  if (all === undefined || portMax > 65_535)
    throw new EngineError("config", expected);
  return target;
}

function hostOf(shown: string) {
  const [, name = "", port = "4222"] =
    /^(.*?\]?)(?::(\d+))?$/.exec(shown) ?? [];
  const address = name.replace(/[[\]]/g, "");

  // A server name in TLS is never an IP address (RFC 6066, section 3).
  const tls = {
    host: address,
    servername: /^[\d.]+$|:/.test(address) ? "" : address
  };
  return { name, address, port: Number(port), shown, tls };
}
