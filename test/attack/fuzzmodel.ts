/**
 * A model of what the README promises, independent of src: a second, slow reader of HTTP and I-JSON. It returns
 * the right responses to each request in the bytes of one connection.
 *
 * Several responses are right where the README leaves a choice. A case is "wild" where the
 * README says nothing: then only what holds for every response can be checked.
 */
import { METHODS } from "node:http";

interface ModelLimits {
  readonly body: number;
  readonly head: number;
  readonly fields: number;
  readonly nesting: number;
}
export interface ModelPlant {
  readonly id: bigint;
  readonly name: string;
  readonly tag: string | undefined;
}
export interface Prediction {
  /** Numbers of the catalogue, any of which is right. */
  readonly errors: readonly number[];
  /** A 200 is right, too, or alone. */
  readonly plant: ModelPlant | undefined;
  readonly closes: "no" | "may" | "must";
  readonly mayContinue: boolean;
  readonly isHead: boolean;
}
export interface Forecast {
  readonly predictions: readonly Prediction[];
  /** `idle`: every request has a response, and the connection is open. `ended`: no more follow. */
  readonly end: "idle" | "ended" | "wild";
}

/** The errors that the parser may report for bytes that are not HTTP. */
const broken = [40001, 40002, 40004, 40015, 43101, 50501];
const token = "[!#$%&'*+.^_`|~0-9A-Za-z-]+";
const methods = [
  "GET",
  "HEAD",
  "POST",
  "PUT",
  "DELETE",
  "OPTIONS",
  "TRACE",
  "PATCH",
  "CONNECT"
];
const lineForm = new RegExp(
  `^(${token})( +)([!-~]+)( +)([A-Z]+)/(\\d)\\.(\\d)$`
);
const fieldForm = new RegExp(`^(${token}):[ \t]*([\t -~\x80-\xff]*)$`);

interface Head {
  readonly method: string;
  readonly target: string;
  readonly version: string;
  readonly values: ReadonlyMap<string, readonly string[]>;
  readonly next: number;
  /** The errors that refuse it; empty for one unambiguous request. */
  readonly faults: readonly number[];
  /** Errors that are right, too, where the README leaves a choice. */
  readonly doubts: readonly number[];
}

export function forecast(
  text: string,
  limits: ModelLimits,
  goodToken: string
): Forecast {
  const predictions: Prediction[] = [];
  for (let at = 0; ;) {
    while (text.startsWith("\r\n", at)) at += 2;
    if (at === text.length) return { predictions, end: "idle" };
    if (text[at] === "\r" || text[at] === "\n")
      return { predictions, end: "wild" };
    const head = readHead(text, at, limits);
    if (head === "wild") return { predictions, end: "wild" };
    const { prediction, next } = judge(text, head, limits, goodToken);
    predictions.push(prediction);
    if (next === undefined || prediction.closes === "must")
      return { predictions, end: "ended" };
    if (Number.isNaN(next)) return { predictions, end: "wild" };
    at = next;
  }
}

const closing = (errors: readonly number[]): Prediction => ({
  errors,
  plant: undefined,
  closes: "must",
  mayContinue: false,
  isHead: false
});

/** Returns undefined for bytes that are not HTTP. */
function readHead(
  text: string,
  start: number,
  limits: ModelLimits
): Head | "wild" | undefined {
  const lineEnd = text.indexOf("\r\n", start);
  const match = lineForm.exec(lineEnd < 0 ? "" : text.slice(start, lineEnd));
  if (!match) return undefined;
  const [, method = "", space, target = "", gap, protocol, major, minor] =
    match;
  if (protocol !== "HTTP")
    return /^(?:RTSP|ICE)$/.test(protocol ?? "") ? "wild" : undefined;
  if (!methods.includes(method))
    return METHODS.includes(method) ? "wild" : undefined;
  const values = new Map<string, string[]>();
  let at = lineEnd + 2;
  let count = 0;
  let bytes = method.length + target.length + 14;
  const doubts = space === " " && gap === " " ? [] : [40001, 50501];
  for (;;) {
    const end = text.indexOf("\r\n", at);
    if (end === at) break;
    const field = fieldForm.exec(end < 0 ? "" : text.slice(at, end));
    if (!field) return undefined;
    const name = (field[1] ?? "").toLowerCase();
    const value = (field[2] ?? "").replace(/[ \t]+$/, "");
    // The parser refuses a tab after these.
    if (
      /^(?:content-length|transfer-encoding|connection)$/.test(name) &&
      field[2] !== value &&
      /\t/.test(field[2] ?? "")
    )
      doubts.push(40001, 40004, 50101);
    values.set(name, [...(values.get(name) ?? []), value]);
    count++;
    bytes += name.length + value.length + 4;
    at = end + 2;
  }
  const faults: number[] = [];
  const version = `${major}.${minor}`;
  if (version !== "1.1" && version !== "1.0") faults.push(50501, 40001);
  if (count > limits.fields) faults.push(43102, 43101);
  if (bytes > limits.head) faults.push(43101);
  else if (at + 2 - start > limits.head) doubts.push(43101);
  for (const [name, number] of [
    ["host", 40003],
    ["authorization", 40007],
    ["content-type", 40005],
    ["content-length", 40005]
  ] as const) {
    if ((values.get(name)?.length ?? 0) > 1) faults.push(number, 40004);
  }
  faults.push(...hostFaults(values.get("host"), version, doubts));
  faults.push(
    ...framingFaults(values, version),
    ...targetFaults(target, method, doubts)
  );
  return { method, target, version, values, next: at + 2, faults, doubts };
}

type Values = Head["values"];
function hostFaults(
  hosts: readonly string[] = [],
  version: string,
  doubts: number[]
): number[] {
  const [host] = hosts;
  if (host === undefined) return version === "1.0" ? [] : [40003];
  if (/^(?:[\w.~!$&'()*+,;=-]|%[\da-f]{2})+(?::\d*)?$/i.test(host)) return [];
  if (
    /^\[[\da-fv:.]+\](?::\d*)?$/i.test(host) ||
    /^[^[\]]*%[^[\]]*$/.test(host)
  ) {
    doubts.push(40003);
    return [];
  }
  return [40003];
}

function framingFaults(values: Values, version: string): number[] {
  const codings = values.get("transfer-encoding");
  const [length] = values.get("content-length") ?? [];
  if (length !== undefined && !/^\d+$/.test(length)) return [40004, 40001];
  if (length !== undefined && BigInt(length) >= 2n ** 64n)
    return [40004, 40001];
  if (codings === undefined) return [];
  if (length !== undefined || version !== "1.1") return [40004, 40001, 50101];
  if (codings.length > 1 || !/^chunked$/i.test(codings[0] ?? ""))
    return [50101, 40004, 40001];
  return [];
}

const strictPath = String.raw`\/(?:[\w.~!$&'()*+,;=:@/-]|%[\da-fA-F]{2})*`;
const strictQuery = String.raw`(?:\?(?:[\w.~!$&'()*+,;=:@/?-]|%[\da-fA-F]{2})*)?`;
const strictTarget = new RegExp(
  `^(?:http://(?:[\\w.~-]+)(?::\\d*)?)?${strictPath}${strictQuery}$`,
  "i"
);
/** A target that is not a strict URI may be refused; one with a fragment must be. */
function targetFaults(
  target: string,
  method: string,
  doubts: number[]
): number[] {
  if (method === "CONNECT") {
    if (!/^[\w.-]+:\d+$/.test(target)) doubts.push(40001, 40002);
    return [];
  }
  if (method === "OPTIONS" && target === "*") return [];
  if (
    target.includes("#") ||
    !/^(?:\/|https?:\/\/[^@/?]+(?:[/?]|$))/i.test(target)
  ) {
    return [40002, 40001];
  }
  if (!strictTarget.test(target)) doubts.push(40002, 40001);
  return [];
}

interface Judged {
  readonly prediction: Prediction;
  readonly next: number | undefined;
}

function judge(
  text: string,
  head: Head | undefined,
  limits: ModelLimits,
  goodToken: string
): Judged {
  if (!head)
    return { prediction: closing([...broken, 43102]), next: undefined };
  const { method, values, faults, doubts } = head;
  const isHead = method === "HEAD";
  if (faults.length > 0) {
    return {
      prediction: { ...closing([...faults, ...doubts]), isHead },
      next: undefined
    };
  }
  const refusals = refusalsOf(head, limits, goodToken);
  if (method === "CONNECT") {
    return {
      prediction: closing([...doubts, ...(refusals ?? [])]),
      next: undefined
    };
  }
  const body = readBody(text, head, limits);
  const hasBody =
    values.has("content-length") || values.has("transfer-encoding");
  const base = { isHead, mayContinue: false, plant: undefined };
  if (refusals) {
    // A body that ends badly ends the connection, whether the response said so or not.
    const isEnd = body.kind !== "whole";
    const isOpen =
      isEnd || values.has("expect") || (isHead && hasBody) || doubts.length > 0;
    const closes =
      isOpen && (doubts.length > 0 || closesOf(head) !== "must")
        ? "may"
        : closesOf(head);
    const prediction = { ...base, errors: [...refusals, ...doubts], closes };
    // After a body that may be broken, the position of the next request is unknown.
    if (!isEnd && body.doubts.length > 0) return { prediction, next: NaN };
    return { prediction, next: isEnd ? undefined : body.next };
  }
  const mayContinue = values.has("expect");
  if (body.kind === "bad" || body.over.length > 0) {
    const errors = [
      ...(body.kind === "bad" ? body.errors : [...body.over, ...body.doubts]),
      ...doubts
    ];
    return {
      prediction: { ...closing(errors), isHead, mayContinue },
      next: undefined
    };
  }
  const verdict = judgeJson(Buffer.from(body.text, "latin1"), limits.nesting);
  const isOpen = doubts.length + body.doubts.length > 0;
  const closes =
    isOpen && (doubts.length > 0 || closesOf(head) !== "must")
      ? "may"
      : closesOf(head);
  const plant = "plant" in verdict ? verdict.plant : undefined;
  const errors = [
    ...doubts,
    ...body.doubts,
    ...("errors" in verdict ? verdict.errors : [])
  ];
  return {
    prediction: { ...base, errors, plant, closes, mayContinue },
    next: body.next
  };
}

function closesOf({ values, version }: Head): Prediction["closes"] {
  const said =
    values
      .get("connection")
      ?.join(",")
      .toLowerCase()
      .split(/[ \t]*,[ \t]*/) ?? [];
  if (said.includes("close"))
    return said.every((word) => /^[\w-]+$/.test(word)) ? "must" : "may";
  if (version === "1.0") return said.includes("keep-alive") ? "may" : "must";
  const isPlain = said.every((word) =>
    /^(?:keep-alive|upgrade|te|x-\w*)$/.test(word)
  );
  return isPlain && !values.has("proxy-connection") && !values.has("upgrade")
    ? "no"
    : "may";
}

/** Returns the errors of the first check that fails, in the order of the checks, or undefined. */
function refusalsOf(
  head: Head,
  limits: ModelLimits,
  goodToken: string
): number[] | undefined {
  const { method, target, values } = head;
  const one = (name: string): string | undefined =>
    values.get(name)?.join(", ");
  const authorization = one("authorization");
  if (authorization === undefined) return [40101];
  const [, given] = /^bearer +([\w.~+/-]+=*)$/i.exec(authorization) ?? [];
  if (given === undefined) {
    if (/^bearer(?:[ \t]|$)/i.test(authorization)) return [40006];
    return /^[\w-]+(?: |$)/.test(authorization) ? [40101] : [40101, 40006];
  }
  if (given !== goodToken) return [40102];
  if (method === "CONNECT") return [40502];
  if (target === "*") return [40401, 40501];
  if (
    target.replace(/^https?:\/\/[^/?]*/i, "").replace(/\?.*$/, "") !== "/plants"
  )
    return [40401];
  if (method !== "POST") return [40501];
  const expect = one("expect");
  if (expect !== undefined && !/^(?:100-continue)?$/i.test(expect))
    return [41701];
  const typed = judgeType(one("content-type"));
  if (typed) return typed;
  const coding = one("content-encoding");
  if (coding !== undefined && !/^identity$/i.test(coding)) return [41503];
  const length = Number(one("content-length") ?? 0);
  if (length > limits.body) return [41301];
  return length === 0 && !values.has("transfer-encoding") ? [40008] : undefined;
}

const quoted = String.raw`"(?:[\t !#-\[\]-~\x80-\xff]|\\[\t -~\x80-\xff])*"`;
const parameter = `[ \t]*;[ \t]*(?:(${token})=(${token}|${quoted}))?`;
const typeForm = new RegExp(`^application/json((?:${parameter})*)$`, "i");
function judgeType(type: string | undefined): number[] | undefined {
  const [, parameters] = typeForm.exec(type ?? "") ?? [];
  if (parameters === undefined) {
    return /^application\/json[ \t]*;/i.test(type ?? "")
      ? [41501, 41502]
      : [41501];
  }
  const charsets = [...parameters.matchAll(new RegExp(parameter, "g"))].flatMap(
    ([, name = "", value = ""]) =>
      name.toLowerCase() !== "charset"
        ? []
        : [
            value.replace(/^"(.*)"$/, (_, inner: string) =>
              inner.replace(/\\(.)/g, "$1")
            )
          ]
  );
  if (charsets.length === 0) return undefined;
  return charsets.length === 1 && /^utf-8$/i.test(charsets[0] ?? "")
    ? undefined
    : [41502];
}

/** `over`: the errors of a body over its limits; a discarded body has none. */
type Body =
  | {
      readonly kind: "whole";
      readonly text: string;
      readonly next: number;
      readonly doubts: readonly number[];
      readonly over: readonly number[];
    }
  | { readonly kind: "bad"; readonly errors: readonly number[] };

function readBody(
  text: string,
  { next, values }: Head,
  limits: ModelLimits
): Body {
  if (values.has("transfer-encoding")) return readChunks(text, next, limits);
  const end = next + Number(values.get("content-length")?.[0] ?? 0);
  if (end > text.length) return { kind: "bad", errors: [40015] };
  return {
    kind: "whole",
    text: text.slice(next, end),
    next: end,
    doubts: [],
    over: []
  };
}

const extension = `[ \t]*;[ \t]*${token}(?:[ \t]*=[ \t]*(?:${token}|${quoted}))?`;
const plainSize = new RegExp(
  `^([\\da-f]+)((?:;${token}(?:=(?:${token}|${quoted}))?)*)$`,
  "i"
);
const sizeForm = new RegExp(`^([\\da-f]+)((?:${extension})*)$`, "i");
function readChunks(text: string, start: number, limits: ModelLimits): Body {
  const parts: string[] = [];
  const doubts: number[] = [];
  let at = start;
  let total = 0;
  let extensions = 0;
  const bad = (...more: number[]): Body => {
    const errors = total > limits.body ? [41302] : [];
    return { kind: "bad", errors: [...errors, ...more, ...doubts] };
  };
  const stumble = (): Body =>
    total > limits.body ? bad() : bad(40001, 40004, 40015, 41303, 41302);
  for (;;) {
    const end = text.indexOf("\r\n", at);
    if (end < 0) return stumble();
    const line = text.slice(at, end);
    const [, digits = "", more = ""] = sizeForm.exec(line) ?? [];
    if (digits === "") {
      // No RFC says how much of an extension's grammar must be checked.
      if (!/^[\da-f]+[ \t]*;[\t -~\x80-\xff]*$/i.test(line)) return stumble();
      doubts.push(40001);
    } else if (!plainSize.test(line)) doubts.push(40001);
    extensions += more.length;
    if (extensions > 4_000) doubts.push(41303);
    const size = Number.parseInt(line, 16);
    at = end + 2;
    if (size === 0) break;
    if (digits.length > 14) return bad(40001, 40004, 41302, 40015);
    total += Math.min(size, Math.max(0, text.length - at));
    parts.push(text.slice(at, at + size));
    if (at + size > text.length) return stumble();
    if (!text.startsWith("\r\n", at + size)) return stumble();
    at += size + 2;
  }
  let fields = 0;
  let bytes = 0;
  for (;;) {
    const end = text.indexOf("\r\n", at);
    if (end === at) break;
    const field = fieldForm.exec(end < 0 ? "" : text.slice(at, end));
    if (!field)
      return total > limits.body
        ? bad()
        : bad(40001, 40004, 40015, 43101, 43102);
    // The README: a length or a coding in a trailer is a 400 here.
    if (/^(?:content-length|transfer-encoding)$/i.test(field[1] ?? ""))
      doubts.push(40001, 40004);
    fields++;
    bytes += end + 2 - at;
    at = end + 2;
  }
  if (bytes > limits.head / 2) doubts.push(43101);
  const over =
    total > limits.body
      ? [41302]
      : fields > limits.fields
        ? [43102, 43101]
        : [];
  return { kind: "whole", text: parts.join(""), next: at + 2, doubts, over };
}

type Verdict =
  { readonly plant: ModelPlant } | { readonly errors: readonly number[] };

/** JSON.parse knows the grammar. The tokens show what I-JSON forbids. */
function judgeJson(bytes: Buffer, nestingMax: number): Verdict {
  if (bytes.length === 0) return { errors: [40008] };
  let text: string;
  let value: unknown;
  try {
    text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(
      bytes
    );
  } catch {
    return { errors: bytes[0] === 0xef ? [40009, 40010] : [40009] };
  }
  try {
    value = JSON.parse(text);
  } catch {
    return { errors: [40010, 40011, 40012, 40013] };
  }
  const { faults, id } = scan(text, nestingMax);
  if (faults.length > 0) return { errors: faults };
  const isObject =
    typeof value === "object" && value !== null && !Array.isArray(value);
  if (!isObject) return { errors: [40014] };
  const member = (name: string): unknown =>
    Object.getOwnPropertyDescriptor(value, name)?.value;
  const name = member("name");
  const tag = member("tag");
  const integer = id === undefined ? id : integerOf(id);
  if (typeof integer !== "bigint" || typeof name !== "string")
    return { errors: [40014] };
  if (tag !== undefined && typeof tag !== "string") return { errors: [40014] };
  return { plant: { id: integer, name, tag } };
}

/** Returns the faults of a JSON text, from its tokens, and the number at `/id`. */
export function scan(
  text: string,
  nestingMax: number
): { faults: number[]; id: string | undefined } {
  const faults: number[] = [];
  const stack: (Set<string> | undefined)[] = [];
  let [id, key, isName]: [string | undefined, string | undefined, boolean] = [
    undefined,
    "",
    false
  ];
  for (const [word] of text.matchAll(
    /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g
  )) {
    const names = stack.at(-1);
    if (word === "{" || word === "[") {
      stack.push(word === "{" ? new Set() : undefined);
      isName = word === "{";
      if (stack.length > nestingMax) faults.push(40013);
    } else if (word === "}" || word === "]") {
      stack.pop();
    } else if (word === ",") {
      isName = names !== undefined;
    } else if (word === ":") {
      isName = false;
    } else if (word.startsWith('"')) {
      const inner = String(JSON.parse(word));
      if (!inner.isWellFormed()) faults.push(40012);
      if (!isName) continue;
      if (names?.has(inner)) faults.push(40011);
      names?.add(inner);
      key = inner;
    } else if (
      stack.length === 1 &&
      key === "id" &&
      names &&
      /^[-\d]/.test(word)
    ) {
      id = word;
    }
  }
  return { faults, id };
}

/** The int64 that a JSON number is, as the fraction of two BigInts, or why it is none. */
export function integerOf(
  text: string
): bigint | "has a fraction" | "is outside of it" {
  const match = /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]?\d+))?$/i.exec(text);
  const [, sign = "", whole = "", fraction = "", power = "0"] = match ?? [];
  const digits = BigInt(whole + fraction);
  if (digits === 0n) return 0n;
  const exponent = BigInt(power.replace(/^\+/, "")) - BigInt(fraction.length);
  // No number of a short body reaches int64, or an integer, over so many places.
  if (exponent > 100_000n) return "is outside of it";
  if (exponent < -100_000n) return "has a fraction";
  const up = digits * (exponent > 0n ? 10n ** exponent : 1n);
  const down = exponent < 0n ? 10n ** -exponent : 1n;
  if (up % down !== 0n) return "has a fraction";
  const integer = sign === "-" ? -(up / down) : up / down;
  return BigInt.asIntN(64, integer) === integer ? integer : "is outside of it";
}
