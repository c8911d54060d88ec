/**
 * The address of a stream.
 *
 *   nats://user:password@h1:4222,h2:4222,h3:4222/STREAM?replicas=3
 *
 *   url    = ("nats" / "tls") "://" [user [":" password] "@"] hosts "/" STREAM ["?" query]
 *   hosts  = host *("," host)
 *   host   = (name / IPv4 / "[" IPv6 "]") [":" port]                   ; 4222 where none stands
 *   query  = option *("&" option)
 *   option = "replicas=" 1-5 / "monitor=" port / "old-server=allow"
 *
 * User and password are percent-encoded; a user without a password is a token. A mistake is never
 * told by quoting: any part of the text may be a piece of a password that is not encoded.
 */
import { unescape } from "node:querystring";
import { EngineError } from "../store.ts";

export type Target = ReturnType<typeof parseNatsUrl>;
export type Host = ReturnType<typeof hostOf>;

const encoded = "[^/?#@:,\\s]";
const host = "(?:\\[[\\da-fA-F:.]+\\]|[\\w.-]+)(?::\\d{1,5})?";
const option = "(?:replicas=[1-5]|monitor=\\d{1,5}|old-server=allow)";
const urlForm = new RegExp(
  `^(nats|tls)://(?:(${encoded}+)(?::(${encoded}*))?@)?` +
    `(${host}(?:,${host})*)/([\\w-]{1,64})(?:\\?(${option}(?:&${option})*))?$`
);
const expected =
  "the store's address: expected nats:// or tls://USER:PASSWORD@HOST:PORT,HOST:PORT/" +
  "STREAM?replicas=1-5&monitor=PORT&old-server=allow, with / ? # @ : , of a password as %XX";

/** @throws EngineError `config` that says what was expected, and quotes nothing */
export function parseNatsUrl(url: string) {
  const [all, scheme, user, pass, hosts = "", stream = "", query] =
    urlForm.exec(url) ?? [];
  const options = new URLSearchParams(query);
  const target = {
    hosts: hosts.split(",").map(hostOf),

    /** Also the subject that plants are published to. */
    stream,

    /** As CONNECT has them; JSON leaves out what is undefined. */
    credentials:
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

  // A server name in TLS is no address.
  const tls = {
    host: address,
    servername: /^[\d.]+$|:/.test(address) ? "" : address
  };
  return { name, address, port: Number(port), shown, tls };
}
