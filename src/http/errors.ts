/** Every answer that is not a success, in one table. */
import { JsonError } from "../json/parse.ts";
import { PlantError } from "../plant.ts";
import { StoreError, type StoreErrorCode } from "../store.ts";

/** What the catalogue says of one cause. */
interface Row {
  /** The status times 100, plus the number of the cause. It never changes its meaning. */
  readonly error: number;
  /** When it is answered, as the README and the description tell it. */
  readonly when: string;
  /** Whether the connection can't be used after it; others may close it, too: see connection.ts. */
  readonly close?: boolean;
  /** Names and values in turn, besides those of every answer. */
  readonly headers?: readonly string[];
}

/** The challenges of RFC 6750, 3: bare where no credentials came, else with what is wrong. */
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

/** A row for each cause, in the order of the numbers: laid out so that it reads as a table. */
export const catalogue = {
  malformed: {
    error: 40001,
    close: true,
    when: "no HTTP message as RFC 9112 defines it"
  },
  target: {
    error: 40002,
    close: true,
    when: "a target of no known form, or with a fragment"
  },
  host: {
    error: 40003,
    close: true,
    when: "no Host, more than one, or no valid one"
  },
  framing: {
    error: 40004,
    close: true,
    when: "a length that is in doubt (RFC 9112, 6.1)"
  },
  repeated: {
    error: 40005,
    close: true,
    when: "a field that may stand once stands twice"
  },
  credentials: {
    error: 40006,
    headers: invalidRequest,
    when: "no Bearer and one b64token"
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
  duplicate: { error: 40011, when: "an object that has a member name twice" },
  surrogate: { error: 40012, when: "an escaped half of a surrogate pair" },
  nesting: { error: 40013, when: "arrays and objects nested over the limit" },
  schema: { error: 40014, when: "JSON that is no NewPlant" },
  truncated: {
    error: 40015,
    close: true,
    when: "a request that ended before its length"
  },
  anonymous: {
    error: 40101,
    headers: challenge,
    when: "no Authorization, or none with Bearer"
  },
  token: {
    error: 40102,
    headers: invalidToken,
    when: "a token that is not known"
  },
  path: { error: 40401, when: "a path that does not exist" },
  method: { error: 40501, headers: allow, when: "a method other than POST" },
  connect: {
    error: 40502,
    close: true,
    headers: allow,
    when: "CONNECT: this is no proxy"
  },
  timeout: {
    error: 40801,
    close: true,
    when: "a head or a body that did not arrive in time"
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
    when: "a plant that is too large for the store's engine"
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
  headBytes: {
    error: 43101,
    close: true,
    when: "a head over the limit in bytes"
  },
  headFields: {
    error: 43102,
    close: true,
    when: "more header fields than the limit"
  },
  fault: { error: 50001, when: "a fault of this server" },
  bodyTaken: {
    error: 50002,
    close: true,
    when: "embedded only: the host has read the body"
  },
  transferCoding: {
    error: 50101,
    close: true,
    when: "a transfer coding other than one chunked"
  },
  full: {
    error: 50301,
    headers: retryAfter,
    when: "no space: nothing was stored"
  },
  unknown: {
    error: 50302,
    headers: retryAfter,
    when: "failing: not known whether it was stored"
  },
  busy: {
    error: 50303,
    headers: retryAfter,
    when: "too many records wait: nothing was stored"
  },
  bodies: {
    error: 50304,
    close: true,
    headers: retryAfter,
    when: "all bodies together are over their limit, this is the largest: nothing was stored"
  },
  closed: {
    error: 50305,
    close: true,
    headers: retryAfter,
    when: "shutdown: nothing was stored"
  },
  unreachable: {
    error: 50306,
    headers: retryAfter,
    when: "out of reach: nothing was stored"
  },
  version: {
    error: 50501,
    close: true,
    when: "an HTTP version other than 1.0 and 1.1"
  }
} as const satisfies Readonly<Record<string, Row>>;

/** The name of what is wrong. */
export type Cause = keyof typeof catalogue;

/** A message is one sentence for a person: longer ones are cut. */
export const messageCharactersMax = 500;

/** An answer that is not a success. Its message is for the client: nothing of the inside. */
export class ApiError extends Error {
  readonly status: number;

  /** The catalogue's number. */
  readonly error: number;

  /** Whether the connection can't be used after this answer. */
  readonly close: boolean;

  /** Names and values in turn. */
  readonly headers: readonly string[];

  /** The Error of the interface, as JSON; its LF leaves a terminal's prompt a line of its own. */
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
 * Throws an ApiError unless it holds.
 *
 * @param message where a % stands in it, that is `value`: it is put together only where it is told
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
 * The answer to whatever was thrown.
 *
 * @param onFault told of what is a fault of ours: its answer says nothing of the inside
 */
export function apiErrorOf(
  thrown: unknown,
  onFault: (fault: unknown) => void
): ApiError {
  if (thrown instanceof ApiError) return thrown;
  if (thrown instanceof JsonError) {
    return new ApiError(
      thrown.code,
      `The body is not I-JSON: ${thrown.message}.`
    );
  }
  if (thrown instanceof PlantError) {
    return new ApiError(
      "schema",
      `The body is no NewPlant: ${thrown.message}.`
    );
  }

  // A host's store may reject with anything, a code that we do not know included.
  const isKnown =
    thrown instanceof StoreError && Object.hasOwn(storeReasons, thrown.code);
  const [cause, message] = isKnown ? storeReasons[thrown.code] : fault;
  if (cause === "fault") onFault(thrown);
  return new ApiError(cause, message);
}

/** What others' errors are answered with. */
type Reason = readonly [cause: Cause, message: string];

const fault: Reason = [
  "fault",
  "The server failed; the plant may have been stored or not."
];

/** A StoreError's own message may tell of the inside: of paths, of the system's errors. */
const storeReasons: Readonly<Record<StoreErrorCode, Reason>> = {
  conflict: fault,
  invalid: ["fault", "The store took it for no plant; nothing was stored."],
  full: ["full", "The store has no space left; nothing was stored."],
  busy: ["busy", "Too many records wait for the store; nothing was stored."],
  closed: ["closed", "The server is shutting down; nothing was stored."],
  tooLarge: [
    "tooLarge",
    "The plant is too large for the store; nothing was stored."
  ],
  unreachable: [
    "unreachable",
    "The store is out of reach; nothing was stored."
  ],
  unknown: [
    "unknown",
    "The store is failing; it is unknown whether the plant was stored."
  ]
};

/** The answer to what node's parser (llhttp) refuses, by the code of its error. */
export const parserErrorOf = (code: string): ApiError =>
  new ApiError(...(parserReasons.get(code) ?? malformed));

const malformed: Reason = [
  "malformed",
  "This is no HTTP message as RFC 9112 defines it."
];
const framing: Reason = [
  "framing",
  "Content-Length or Transfer-Encoding must give one length."
];

/** By the parser's codes; what is not in it is malformed. */
const parserReasons: ReadonlyMap<string, Reason> = new Map([
  // Node's own: its time-outs for the head and the request come the parser's way.
  [
    "ERR_HTTP_REQUEST_TIMEOUT",
    ["timeout", "The request did not arrive in time."]
  ],
  ["HPE_HEADER_OVERFLOW", ["headBytes", "The head is over its limit."]],
  [
    "HPE_CHUNK_EXTENSIONS_OVERFLOW",
    ["chunkExtensions", "The chunk extensions are too long."]
  ],
  ["HPE_INVALID_VERSION", ["version", "The HTTP version must be 1.0 or 1.1."]],
  [
    "HPE_INVALID_EOF_STATE",
    ["truncated", "The connection was half-closed within a request."]
  ],

  // Where both fields stand, the parser names the second (Nodes 20 to 26).
  ["HPE_INVALID_TRANSFER_ENCODING", framing],
  ["HPE_INVALID_CONTENT_LENGTH", framing],
  ["HPE_UNEXPECTED_CONTENT_LENGTH", framing]
]);
