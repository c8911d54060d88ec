/** The catalogue of errors: every response that is not a success. */
import type { Limits } from "../config.ts";
import { JsonError } from "../json/parse.ts";
import { StoreError, storeErrorCodes } from "../store.ts";

/** One cause of an unsuccessful response. */
export type Row = readonly [
  /** The status times 100, plus the number of the cause. Its meaning never changes. */
  error: number,

  /** What is wrong, for the documents. The message says it, too, and may add a detail. */
  what: string,

  /** In addition to those of every response. */
  ...fields: (readonly [name: string, value: string])[]
];

/** Challenges (RFC 6750, 3): without an error if the request has no Bearer credentials. */
const bearer = 'Bearer realm="plant-store"';
const invalidRequest = [
  "WWW-Authenticate",
  `${bearer}, error="invalid_request"`
] as const;

const retryAfter = ["Retry-After", "1"] as const;
const allow = ["Allow", "POST"] as const;

/** Always closes the connection. Without it, connection.ts decides. */
const close = ["Connection", "close"] as const;

/** One row for each cause, in the order of the numbers. */
export const catalogue = {
  malformed: [
    40001,
    "This is not an HTTP message as RFC 9112 defines it",
    close
  ],
  target: [
    40002,
    "The target must be a path or an http URI, without a fragment",
    close
  ],
  host: [
    40003,
    "Host must be one name or address without a zone, with or without a port",
    close
  ],
  framing: [
    40004,
    "Content-Length or Transfer-Encoding must give one length",
    close
  ],
  repeated: [40005, "A field that must be single is repeated", close],
  credentials: [
    40006,
    "Authorization must be Bearer, a space and a token of letters, digits and -._~+/, with = at the end only",
    invalidRequest
  ],
  manyCredentials: [
    40007,
    "Authorization must be single",
    invalidRequest,
    close
  ],
  empty: [
    40008,
    "The body is empty, expected a NewPlant, with Content-Length or in chunks"
  ],
  utf8: [40009, "The body is not UTF-8"],
  json: [40010, "The body is not JSON"],
  duplicate: [40011, "An object has a repeated member name"],
  surrogate: [40012, "An escaped surrogate is unpaired"],
  nesting: [40013, "Arrays and objects are nested beyond the limit"],
  schema: [40014, "The body is not a NewPlant"],
  truncated: [
    40015,
    "The client half-closed the connection within a request",
    close
  ],
  idempotencyKey: [40016, "The Idempotency-Key is invalid"],
  anonymous: [
    40101,
    "Authorization must be present, as Bearer, a space and a token",
    ["WWW-Authenticate", bearer]
  ],
  token: [
    40102,
    "The bearer token is unknown",
    ["WWW-Authenticate", `${bearer}, error="invalid_token"`]
  ],
  path: [40401, "There is nothing at this path"],
  method: [40501, "The method must be POST", allow],
  connect: [
    40502,
    "CONNECT is not supported: the server is not a proxy",
    allow,
    close
  ],
  timeout: [40801, "The request did not arrive in time", close],
  declaredSize: [41301, "Content-Length is over the limit"],
  size: [41302, "The body is over the limit in bytes, as counted", close],
  chunkExtensions: [
    41303,
    "The extensions of a chunk have more than 16384 bytes",
    close
  ],
  tooLarge: [41304, "The plant is too large for the store; nothing was stored"],
  mediaType: [41501, "Content-Type must be application/json"],
  charset: [
    41502,
    "The charset of Content-Type must be utf-8, once, or absent"
  ],
  contentCoding: [
    41503,
    "Content-Encoding must be identity or absent",
    ["Accept-Encoding", "identity"]
  ],
  expectation: [41701, "Expect must be 100-continue"],
  conflict: [
    42201,
    "The Idempotency-Key was used for a different plant; nothing was stored"
  ],
  headBytes: [43101, "The header section exceeds its limit in bytes", close],
  headFields: [43102, "There are more header fields than the limit", close],
  fault: [50001, "Internal error: it is unknown whether the plant was stored"],
  bodyTaken: [
    50002,
    "The host application has read the body: call the plant handler first",
    close
  ],
  transferCoding: [50101, "Transfer-Encoding must be one chunked", close],
  full: [50301, "The store has no space left; nothing was stored", retryAfter],
  unknown: [
    50302,
    "The request was not completed; it is unknown whether the plant was stored",
    retryAfter
  ],
  busy: [
    50303,
    "Too many records wait for the store; nothing was stored",
    retryAfter
  ],
  bodies: [
    50304,
    "All bodies together exceed their limit, and this one is the largest; nothing was stored",
    retryAfter,
    close
  ],
  closed: [
    50305,
    "The server is shutting down; nothing was stored",
    retryAfter,
    close
  ],
  unreachable: [
    50306,
    "The store is unreachable; nothing was stored",
    retryAfter
  ],
  version: [
    50501,
    "The HTTP version must be 1.0 or 1.1, and CRLF must follow",
    close
  ]
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

  /** All but those of every response. With `Connection`, the connection closes. */
  readonly headers: Readonly<Record<string, string>>;

  /** An Error as JSON. Its LF keeps a terminal's prompt on a line of its own. */
  readonly body: string;

  /** @param detail what more can be said: the limit, the place, what was expected */
  constructor(cause: Cause, detail?: string | number) {
    const [error, what, ...fields]: Row = catalogue[cause];
    const message = detail === undefined ? `${what}.` : `${what}: ${detail}.`;
    super(message);
    const sentence =
      message.length > messageCharactersMax
        ? `${message.slice(0, messageCharactersMax - 1)}…`
        : message;
    this.status = Math.floor(error / 100);
    this.error = error;
    this.headers = Object.fromEntries(fields);
    this.body = `${JSON.stringify({ error, message: sentence })}\n`;
  }
}

/**
 * Throws an ApiError unless `holds`.
 *
 * @param detail a constant: a text that is made for the request would be made for every request
 */
export function must(
  holds: boolean,
  cause: Cause,
  detail?: string | number
): asserts holds {
  if (!holds) throw new ApiError(cause, detail);
}

/** Returns the response to a thrown value, or undefined for an internal error. */
export function apiErrorOf(thrown: unknown) {
  if (thrown instanceof ApiError) return thrown;
  if (thrown instanceof JsonError)
    return new ApiError(thrown.code, thrown.message);

  // A host's store may reject with anything, such as a StoreError with an unknown code. Its own
  // message stays inside: it may contain paths and system errors.
  const storeCode = thrown instanceof StoreError && thrown.code;
  const code = storeErrorCodes.find((each) => each === storeCode);

  // Every plant that the service appends is valid: a store that refuses it as invalid is wrong.
  return code && code !== "invalid" ? new ApiError(code) : undefined;
}

/**
 * Returns the response to what node's parser (llhttp) refuses.
 *
 * @param packet the bytes in which the error is
 */
export function parserErrorOf(code: string, packet: string, limits: Limits) {
  const cause = parserCauses.get(code) ?? "malformed";
  return new ApiError(cause, detailOf(cause, packet, limits));
}

function detailOf(cause: Cause, packet: string, limits: Limits) {
  const { headBytesMax, headMillis, requestMillis } = limits;
  switch (cause) {
    case "headBytes":
      return headBytesMax;
    case "timeout":
      return `${headMillis} ms for the header section, ${requestMillis} ms in all`;
    case "malformed":
      return prefaces.find(([form]) => form.test(packet))?.[1];
    default:
      return undefined;
  }
}

/** How other protocols begin that a load balancer or a client may be set to. */
const prefaces = [
  [/^\x16\x03/, "found TLS"],
  [/^PRI \* HTTP\/2\.0\r\n/, "found HTTP/2"],
  [/^PROXY |^\r\n\r\n\0\r\nQUIT\n/, "found the PROXY protocol"]
] as const;

/** Causes by the parser's codes. Any other code is `malformed`. */
const parserCauses: ReadonlyMap<string, Cause> = new Map([
  // Node's own code for both of its timeouts, of the head and of the request.
  ["ERR_HTTP_REQUEST_TIMEOUT", "timeout"],
  ["HPE_HEADER_OVERFLOW", "headBytes"],
  ["HPE_CHUNK_EXTENSIONS_OVERFLOW", "chunkExtensions"],
  ["HPE_INVALID_VERSION", "version"],
  ["HPE_INVALID_EOF_STATE", "truncated"],

  // If both fields are present, the code names the second one (Nodes 20 to 26).
  ["HPE_INVALID_TRANSFER_ENCODING", "framing"],
  ["HPE_INVALID_CONTENT_LENGTH", "framing"],
  ["HPE_UNEXPECTED_CONTENT_LENGTH", "framing"]
]);
