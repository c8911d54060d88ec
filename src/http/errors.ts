/** Every answer that is not a success, in one table. */

/** What the message's framing allows after the answer. */
interface Row {
  /** The status times 100, plus the number of the cause. It never changes its meaning. */
  readonly error: number;
  /** For the README: when this is the answer. */
  readonly when: string;
  /** The connection cannot be used after it. */
  readonly close?: true;
  readonly headers?: readonly string[];
}

const challenge = 'Bearer realm="plant-store"';
const invalidRequest = ["WWW-Authenticate", `${challenge}, error="invalid_request"`] as const;
const invalidToken = ["WWW-Authenticate", `${challenge}, error="invalid_token"`] as const;
const retryAfter = ["Retry-After", "1"] as const;

export const catalogue = {
  malformed: { error: 40001, when: "no HTTP message as RFC 9112 defines it", close: true },
  target: { error: 40002, when: "a request target of no known form, or with a fragment", close: true },
  host: { error: 40003, when: "no Host, more than one, or no valid one", close: true },
  framing: {
    error: 40004, close: true,
    when: "a length that is in doubt: Transfer-Encoding in HTTP/1.0 or beside Content-Length",
  },
  repeated: { error: 40005, when: "a field that may stand once stands twice", close: true },
  credentials: {
    error: 40006, when: "credentials that are not Bearer and one b64token", headers: invalidRequest,
  },
  manyCredentials: {
    error: 40007, when: "more than one Authorization", close: true, headers: invalidRequest,
  },
  empty: { error: 40008, when: "an empty body" },
  utf8: { error: 40009, when: "a body that is not UTF-8" },
  json: { error: 40010, when: "a body that is not JSON" },
  duplicate: { error: 40011, when: "an object that has a member name twice" },
  surrogate: { error: 40012, when: "an escaped half of a surrogate pair" },
  nesting: { error: 40013, when: "arrays and objects nested over the limit" },
  schema: { error: 40014, when: "JSON that is no NewPlant" },
  truncated: { error: 40015, when: "a body that ended before its length", close: true },
  anonymous: {
    error: 40101, when: "no Authorization, or another scheme than Bearer",
    headers: ["WWW-Authenticate", challenge],
  },
  token: { error: 40102, when: "a token that is not known", headers: invalidToken },
  path: { error: 40401, when: "a path that does not exist" },
  method: { error: 40501, when: "a method other than POST", headers: ["Allow", "POST"] },
  connect: {
    error: 40502, when: "CONNECT: this is no proxy", close: true, headers: ["Allow", "POST"],
  },
  timeout: { error: 40801, when: "a head or a body that did not arrive in time", close: true },
  declaredSize: { error: 41301, when: "a Content-Length over the limit" },
  size: { error: 41302, when: "a body over the limit, as counted", close: true },
  chunkExtensions: { error: 41303, when: "chunk extensions over the limit", close: true },
  mediaType: { error: 41501, when: "a media type other than application/json" },
  charset: { error: 41502, when: "a charset other than utf-8, or a repeated one" },
  contentCoding: {
    error: 41503, when: "a content coding other than identity",
    headers: ["Accept-Encoding", "identity"],
  },
  expectation: { error: 41701, when: "an Expect other than 100-continue" },
  headBytes: { error: 43101, when: "a header section over the limit in bytes", close: true },
  headFields: { error: 43102, when: "more header fields than the limit", close: true },
  fault: { error: 50001, when: "a fault of this server" },
  bodyTaken: {
    error: 50002, when: "embedded only: the host application has read the body before", close: true,
  },
  transferCoding: {
    error: 50101, when: "a transfer coding other than one chunked", close: true,
  },
  full: { error: 50301, when: "no space: nothing was stored", headers: retryAfter },
  unknown: {
    error: 50302, when: "the store is failing: it is not known whether the plant was stored",
    headers: retryAfter,
  },
  busy: { error: 50303, when: "too many records wait: nothing was stored", headers: retryAfter },
  bodies: {
    error: 50304, when: "all bodies together are over their limit: nothing was stored",
    close: true, headers: retryAfter,
  },
  closed: {
    error: 50305, when: "the server is shutting down: nothing was stored",
    close: true, headers: retryAfter,
  },
  version: { error: 50501, when: "an HTTP version other than 1.0 and 1.1", close: true },
} as const satisfies Readonly<Record<string, Row>>;

export type Cause = keyof typeof catalogue;

/** A message has at most this many characters (of UTF-16). */
export const messageCharactersMax = 500;

/** An answer that is not a success. Its message is for the client: nothing of the inside. */
export class ApiError extends Error {
  override readonly name = "ApiError";
  readonly #row: Row;

  /** @param message one sentence: what is wrong, where, and what was expected */
  constructor(cause: Cause, message: string, options?: ErrorOptions) {
    super(message, options);
    this.#row = catalogue[cause];
  }

  get status(): number {
    return Math.floor(this.#row.error / 100);
  }

  /** Whether the connection cannot be used after this answer. */
  get close(): boolean {
    return this.#row.close ?? false;
  }

  get headers(): readonly string[] {
    return this.#row.headers ?? [];
  }

  /** The Error of the interface. */
  get body(): string {
    const message = this.message.length > messageCharactersMax
      ? `${this.message.slice(0, messageCharactersMax - 1)}…`
      : this.message;
    return JSON.stringify({ error: this.#row.error, message });
  }
}
