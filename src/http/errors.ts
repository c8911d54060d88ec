/** The catalogue: every response that is not a success. */
import { JsonError } from "../json/parse.ts";
import { StoreError, type StoreErrorCode } from "../store.ts";

/** One cause of an unsuccessful response. */
interface Row {
  /** The status times 100, plus the number of the cause. Its meaning never changes. */
  readonly error: number;

  /** When the response is sent: text for the README and the OpenAPI description. */
  readonly when: string;

  /** Whether the connection closes after it. Default: connection.ts decides. */
  readonly close?: boolean;

  /** Names and values in turn, in addition to those of every response. */
  readonly headers?: readonly string[];
}

/** Challenges (RFC 6750, 3): without an error if the request has no Bearer credentials. */
const bearer = 'Bearer realm="plant-store"';
const challenge = ["WWW-Authenticate", bearer] as const;
const invalidRequest = [
  "WWW-Authenticate",
  `${bearer}, error="invalid_request"`
] as const;
const invalidToken = [
  "WWW-Authenticate",
  `${bearer}, error="invalid_token"`
] as const;

const retryAfter = ["Retry-After", "1"] as const;
const allow = ["Allow", "POST"] as const;
const acceptEncoding = ["Accept-Encoding", "identity"] as const;

/** One row for each cause, in the order of the numbers. */
export const catalogue = {
  malformed: {
    error: 40001,
    close: true,
    when: "not an HTTP message as RFC 9112 defines it"
  },
  target: {
    error: 40002,
    close: true,
    when: "a target of an unknown form, or with a fragment"
  },
  host: {
    error: 40003,
    close: true,
    when: "no Host, more than one, or an invalid one"
  },
  framing: {
    error: 40004,
    close: true,
    when: "an ambiguous length (RFC 9112, 6.1)"
  },
  repeated: {
    error: 40005,
    close: true,
    when: "a repeated field that must be single"
  },
  credentials: {
    error: 40006,
    headers: invalidRequest,
    when: "credentials other than Bearer and one b64token"
  },
  manyCredentials: {
    error: 40007,
    close: true,
    headers: invalidRequest,
    when: "more than one Authorization"
  },
  empty: { error: 40008, when: "an empty body" },
  utf8: { error: 40009, when: "a body that is not UTF-8" },
  json: { error: 40010, when: "a body that is not JSON" },
  duplicate: { error: 40011, when: "an object with a repeated member name" },
  surrogate: { error: 40012, when: "an unpaired surrogate, escaped" },
  nesting: { error: 40013, when: "arrays and objects nested beyond the limit" },
  schema: { error: 40014, when: "JSON that is not a NewPlant" },
  truncated: {
    error: 40015,
    close: true,
    when: "a request that ended before its length"
  },
  idempotencyKey: {
    error: 40016,
    when: "an invalid Idempotency-Key"
  },
  anonymous: {
    error: 40101,
    headers: challenge,
    when: "no Authorization, or another scheme than Bearer"
  },
  token: {
    error: 40102,
    headers: invalidToken,
    when: "an unknown token"
  },
  path: { error: 40401, when: "a path that does not exist" },
  method: { error: 40501, headers: allow, when: "a method other than POST" },
  connect: {
    error: 40502,
    close: true,
    headers: allow,
    when: "CONNECT: the server is not a proxy"
  },
  timeout: {
    error: 40801,
    close: true,
    when: "a header section or a body that did not arrive in time"
  },
  declaredSize: { error: 41301, when: "a Content-Length over the limit" },
  size: {
    error: 41302,
    close: true,
    when: "a body over the limit, as counted"
  },
  chunkExtensions: {
    error: 41303,
    close: true,
    when: "chunk extensions over the limit"
  },
  tooLarge: {
    error: 41304,
    when: "a plant that is too large for the replicated store"
  },
  mediaType: { error: 41501, when: "a media type other than application/json" },
  charset: {
    error: 41502,
    when: "a charset other than utf-8, or a repeated one"
  },
  contentCoding: {
    error: 41503,
    headers: acceptEncoding,
    when: "a coding other than identity"
  },
  expectation: { error: 41701, when: "an Expect other than 100-continue" },
  conflict: {
    error: 42201,
    when: "an Idempotency-Key that was used for a different plant"
  },
  headBytes: {
    error: 43101,
    close: true,
    when: "a header section over the limit in bytes"
  },
  headFields: {
    error: 43102,
    close: true,
    when: "more header fields than the limit"
  },
  fault: { error: 50001, when: "an internal error" },
  bodyTaken: {
    error: 50002,
    close: true,
    when: "embedded only: the host application has read the body"
  },
  transferCoding: {
    error: 50101,
    close: true,
    when: "a transfer coding other than one chunked"
  },
  full: {
    error: 50301,
    headers: retryAfter,
    when: "the store has no space: nothing was stored"
  },
  unknown: {
    error: 50302,
    headers: retryAfter,
    when: "the store is failing: unknown whether the plant was stored"
  },
  busy: {
    error: 50303,
    headers: retryAfter,
    when: "too many records wait for the store: nothing was stored"
  },
  bodies: {
    error: 50304,
    close: true,
    headers: retryAfter,
    when: "all bodies together exceed their limit, and this one is the largest: nothing was stored"
  },
  closed: {
    error: 50305,
    close: true,
    headers: retryAfter,
    when: "the server is shutting down: nothing was stored"
  },
  unreachable: {
    error: 50306,
    headers: retryAfter,
    when: "the store is unreachable: nothing was stored"
  },
  version: {
    error: 50501,
    close: true,
    when: "an HTTP version other than 1.0 and 1.1"
  }
} as const satisfies Readonly<Record<string, Row>>;

/** The name of what is wrong. */
export type Cause = keyof typeof catalogue;

/** The longest message. A longer one is truncated. */
export const messageCharactersMax = 500;

/** A response that is not a success. Its message is for the client and reveals nothing internal. */
export class ApiError extends Error {
  readonly status: number;

  /** The catalogue's number. */
  readonly error: number;

  /** Whether the connection closes after this response. */
  readonly close: boolean;

  /** Names and values in turn. */
  readonly headers: readonly string[];

  /** An Error as JSON. Its LF keeps a terminal's prompt on a line of its own. */
  readonly body: string;

  /** @param message one sentence: what is wrong, where, and what was expected */
  constructor(cause: Cause, message: string) {
    super(message);
    const { error, close = false, headers = [] }: Row = catalogue[cause];
    const isLong = message.length > messageCharactersMax;
    const sentence = isLong
      ? `${message.slice(0, messageCharactersMax - 1)}…`
      : message;
    this.status = Math.floor(error / 100);
    this.close = close;
    this.headers = headers;
    this.error = error;
    this.body = `${JSON.stringify({ error, message: sentence })}\n`;
  }
}

/**
 * Throws an ApiError unless `holds`.
 *
 * @param message its % is replaced by `value`, only if the error is thrown
 */
export function must(
  holds: boolean,
  cause: Cause,
  message: string,
  value: string | number = ""
): asserts holds {
  if (!holds)
    throw new ApiError(
      cause,
      message.replace("%", () => String(value))
    );
}

/**
 * Returns the response to a thrown value.
 *
 * @param onFault called with an internal error, whose response reveals nothing of it
 */
export function apiErrorOf(
  thrown: unknown,
  onFault: (fault: unknown) => void
): ApiError {
  if (thrown instanceof ApiError) return thrown;
  if (thrown instanceof JsonError) {
    const { code, message } = thrown;
    const expected = code === "schema" ? "a NewPlant" : "I-JSON";
    return new ApiError(code, `The body is not ${expected}: ${message}.`);
  }

  // A host's store may reject with anything, such as a StoreError with an unknown code.
  const code = thrown instanceof StoreError && thrown.code;
  const message = code && storeMessages.get(code);
  if (code && code !== "invalid" && message) return new ApiError(code, message);
  onFault(thrown);
  const unknown =
    "The server failed; it is unknown whether the plant was stored.";
  return new ApiError("fault", message || unknown);
}

/** Replaces a StoreError's own message, which may contain paths and system errors. */
const storeMessages: ReadonlyMap<StoreErrorCode, string> = new Map([
  ["invalid", "The store refused the plant as invalid; nothing was stored."],
  ["full", "The store has no space left; nothing was stored."],
  ["busy", "Too many records wait for the store; nothing was stored."],
  ["closed", "The server is shutting down; nothing was stored."],
  ["tooLarge", "The plant is too large for the store; nothing was stored."],
  [
    "conflict",
    "The Idempotency-Key was used for a different plant; nothing was stored."
  ],
  ["unreachable", "The store is unreachable; nothing was stored."],
  [
    "unknown",
    "The store is failing; it is unknown whether the plant was stored."
  ]
]);

/** A cause with its message. */
type Reason = readonly [cause: Cause, message: string];

/** Returns the response to what node's parser (llhttp) refuses with this code. */
export const parserErrorOf = (code: string): ApiError =>
  new ApiError(...(parserReasons.get(code) ?? malformed));

const malformed: Reason = [
  "malformed",
  "This is not an HTTP message as RFC 9112 defines it."
];
const framing: Reason = [
  "framing",
  "Content-Length or Transfer-Encoding must give one length."
];

/** Responses by the parser's codes. Any other code is `malformed`. */
const parserReasons: ReadonlyMap<string, Reason> = new Map([
  // Node's own code for both of its timeouts, of the head and of the request.
  [
    "ERR_HTTP_REQUEST_TIMEOUT",
    ["timeout", "The request did not arrive in time."]
  ],
  [
    "HPE_HEADER_OVERFLOW",
    ["headBytes", "The header section exceeds its limit."]
  ],
  [
    "HPE_CHUNK_EXTENSIONS_OVERFLOW",
    ["chunkExtensions", "The chunk extensions are too long."]
  ],
  ["HPE_INVALID_VERSION", ["version", "The HTTP version must be 1.0 or 1.1."]],
  [
    "HPE_INVALID_EOF_STATE",
    ["truncated", "The client half-closed the connection within a request."]
  ],

  // If both fields are present, the code names the second one (Nodes 20 to 26).
  ["HPE_INVALID_TRANSFER_ENCODING", framing],
  ["HPE_INVALID_CONTENT_LENGTH", framing],
  ["HPE_UNEXPECTED_CONTENT_LENGTH", framing]
]);
