/** The seam between the service and its store. Everything above a store knows only this file. */
import { int64 } from "./json/number.ts";
import { newPlantJson, newPlantOf, type NewPlant } from "./plant.ts";

/** A store of plants: the journal, a replicated store, or a host's own. */
export interface PlantStore {
  /**
   * Resolves once the plant is on stable storage. Rejects with a StoreError if it is not, or if
   * that is unknown.
   */
  append(plant: NewPlant): Promise<Receipt | void>;

  /**
   * Stores a plant once within a window, however often it is called with the same key. Optional:
   * without it the server does not look at `Idempotency-Key`.
   *
   * Resolves with `replayed` if the plant was stored under this key before. While a first call is
   * in progress, a second one waits and shares its outcome. Rejects with the StoreError `conflict`
   * if the key was used for another plant.
   *
   * @param key 16 bytes in base64url, 22 characters: a digest of the client's token and key
   */
  readonly appendOnce?:
    | ((plant: NewPlant, key: string) => Promise<"stored" | "replayed">)
    | undefined;

  /**
   * A variant of both methods without a promise. The service uses it only if both methods are still
   * the store's own: a host may have replaced one, or put a proxy before the store.
   */
  readonly [appendJson]?: Pick<PlantStore, "append" | "appendOnce"> & {
    readonly variant: AppendJson;
  };

  /** Refuses further plants. Resolves when every append has settled. */
  close(): Promise<void>;
}

/** Where the record is, for the access log. A host's own store may leave it out. */
export interface Receipt {
  /** The number of the record in its file or stream. */
  readonly seq: number;

  /** The journal's id, which its header holds; a stream has none. */
  readonly file?: string;
}

/** Not exported to embedders: the store writes what it is given without another check. */
export const appendJson = Symbol("appendJson");

/**
 * Stores a NewPlant in the form of `newPlantJson`.
 *
 * @param settle called once, later: without an error when the plant is on stable storage
 * @throws StoreError if the plant is refused at once
 */
export type AppendJson = (json: string, settle: Settle, key?: string) => void;

/**
 * Called with the outcome, or with an error if the plant is not acknowledged; and with the text of
 * the plant, so that a call that waits for an equal one need not keep its own.
 */
export type Settle = (outcome: Outcome | Error, json: string) => void;

/** Anything but `replayed` means that this call has stored the plant, with a key or without. */
export type Outcome = Receipt | "stored" | "replayed" | void;

/** Returns a store's own AppendJson, or one that passes plants to `append` as objects. */
export function appendJsonOf(store: PlantStore): AppendJson {
  const own = store[appendJson];
  const { append, appendOnce } = store;
  if (own?.append === append && own.appendOnce === appendOnce)
    return own.variant;
  return (json, settle, key) => {
    const plant = newPlantOf(json);
    const stored: Promise<Outcome> | undefined =
      key === undefined ? store.append(plant) : store.appendOnce?.(plant, key);

    // A host's own store may be JavaScript. Awaited, any other value would become a 200.
    if (typeof stored?.then !== "function")
      throw new TypeError("append and appendOnce of a store return promises");
    void stored.then(
      (outcome) => settle(outcome, json),
      (cause: unknown) =>
        settle(
          cause instanceof Error
            ? cause
            : new Error("the store rejected without an error", { cause }),
          json
        )
    );
  };
}

/** Records and bytes: of what is queued, or that a queue still takes. */
export interface QueueSize {
  readonly records: number;
  readonly bytes: number;
}

/**
 * Returns an AppendJson that calls another one once for all calls with the same key and plant that
 * are in progress: these wait and share its outcome.
 *
 * @param roomIn what the queue still takes: so much may wait, too, as if each call were queued
 * @throws StoreError `conflict` while a call with the key and another plant is in progress,
 *   `unknown` if there is no room to wait: the equal one may store the plant
 */
export function shareOutcomes(
  append: AppendJson,
  roomIn: () => QueueSize
): AppendJson {
  const inProgress = new Map<string, { json: string; waiting: Settle[] }>();

  // All calls that wait, whatever they wait for.
  let records = 0;
  let bytes = 0;
  return (json, settle, key) => {
    if (key === undefined) return append(json, settle);
    const first = inProgress.get(key);
    if (first) {
      if (first.json !== json) throw conflict();

      // A disk that stalls must not fill the memory.
      const room = roomIn();
      const size = Buffer.byteLength(json);
      if (records >= room.records || bytes + size > room.bytes)
        throw new StoreError("unknown", "too many calls wait for an equal one");
      records++;
      bytes += size;
      first.waiting.push(settle);
      return;
    }

    // V8 keeps what a Map's former tables refer to until a full collection. With the functions that
    // would be whole requests: collecting took 19 % of a server's time, not 4 %.
    const waiting: Settle[] = [];
    append(
      json,
      (outcome) => {
        inProgress.delete(key);
        const others = outcome instanceof Error ? outcome : "replayed";
        if (waiting.length > 0) {
          records -= waiting.length;
          bytes -= waiting.length * Buffer.byteLength(json);
        }

        // Called later, one by one: an error of one caller's function is no other caller's.
        for (const each of waiting.splice(0))
          queueMicrotask(() => each(others, json));
        settle(outcome, json);
      },
      key
    );
    inProgress.set(key, { json, waiting });
  };
}

/** `unknown`: the plant may have been stored. Any other code: nothing was stored. */
export const storeErrorCodes = [
  "full",
  "busy",
  "closed",
  "unknown",
  "conflict",
  "invalid",
  "unreachable",
  "tooLarge"
] as const;

export type StoreErrorCode = (typeof storeErrorCodes)[number];

/** Why a plant was not acknowledged. */
export class StoreError extends Error {
  override readonly name = "StoreError";
  readonly code: StoreErrorCode;

  constructor(code: StoreErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

export const conflict = () =>
  new StoreError("conflict", "the key was used for another plant");

/**
 * Exit codes of sysexits(3) by their causes: those of a JournalError, of an EngineError, and of the
 * program itself.
 */
export const exitCodes = {
  done: 0,
  usage: 64,
  damaged: 65,
  unreadable: 65,
  data: 65,
  unavailable: 69,
  unreachable: 69,
  internal: 70,
  failed: 74,
  locked: 75,
  config: 78,
  refused: 78
} as const;

/** Why an engine cannot work. A StoreError says what became of a single plant. */
export class EngineError extends Error {
  override readonly name = "EngineError";

  /**
   * `config`: the operator must correct something; `refused`: the same for one host, and another
   * host may accept; `unreachable`: may pass by itself; `data`: a stream or file has other content
   * than it must have.
   */
  readonly code: "config" | "refused" | "unreachable" | "data";

  constructor(code: EngineError["code"], message: string) {
    super(message);
    this.code = code;
  }
}

/** The events of the journal and the engines, with their arguments. */
export interface StoreEvents<Failure extends Error> {
  /** At most once: the store can never write again. */
  readonly failed: [error: Failure];

  /** A batch is acknowledged: it is on stable storage, `millis` after its write began. */
  readonly batch: [records: number, millis: number];

  /** A batch was refused for lack of space. */
  readonly full: [];
}

/**
 * The most bytes of a plant's JSON, so that its line has at most 64 MiB.
 *
 * It is nearly four times the largest body that can be set: only a library's plant can be longer.
 */
export const plantBytesMax = 64 * 1024 * 1024 - 160;

/** 16 bytes in base64url. */
export const keyForm = String.raw`[\w-]{21}[AQgw]`;
const wholeKey = new RegExp(`^${keyForm}$`);

/**
 * Appends the plant of a library's caller, with a key or without one; resolves or rejects as
 * `append` settles.
 *
 * @throws StoreError `invalid`, as a rejection
 */
export function appendPlant(
  plant: NewPlant,
  append: AppendJson
): Promise<Receipt | void>;
export function appendPlant(
  plant: NewPlant,
  append: AppendJson,
  key: string
): Promise<"stored" | "replayed">;
export function appendPlant(
  plant: NewPlant,
  append: AppendJson,
  key?: string
): Promise<Outcome> {
  return new Promise((resolve, reject) => {
    const json = plantText(plant);
    if (key !== undefined && !wholeKey.test(key))
      throw new StoreError("invalid", "a key is 16 bytes in base64url");
    append(
      json,
      (outcome) => {
        if (outcome instanceof Error) reject(outcome);
        else if (key === undefined || outcome === "replayed") resolve(outcome);
        else resolve("stored");
      },
      key
    );
  });
}

/**
 * Returns the JSON in which a library's plant is kept.
 *
 * @throws StoreError `invalid` if it cannot be stored
 */
export function plantText(unchecked: NewPlant) {
  const plant = checkPlant(unchecked);

  // Checked before encoding, too: escapes can make it six times as long, more than a string can be.
  if (plant.name.length + (plant.tag?.length ?? 0) <= plantBytesMax) {
    const text = newPlantJson(plant);
    if (Buffer.byteLength(text) <= plantBytesMax) return text;
  }
  throw new StoreError(
    "invalid",
    `a plant has at most ${plantBytesMax} bytes in the journal`
  );
}

/**
 * Copies a plant that a library's caller gives, if it can be stored.
 *
 * Reads each member once: a getter may return something else the second time, and only what was
 * checked may be written.
 *
 * @throws StoreError `invalid` for what int64 or JSON cannot represent
 */
function checkPlant(unchecked: NewPlant): NewPlant {
  let cause: unknown;
  try {
    const { id, name, tag } = unchecked;
    const isId = typeof id === "bigint" && id >= int64.min && id <= int64.max;
    if (isId && isText(name) && (tag === undefined || isText(tag)))
      return { id, name, tag };
  } catch (error) {
    // null has no members. A getter or a proxy may throw.
    cause = error;
  }
  throw new StoreError(
    "invalid",
    "a plant must have an int64 id as bigint, a name, and a tag or none",
    { cause }
  );
}

const isText = (text: unknown) =>
  typeof text === "string" && text.isWellFormed();
