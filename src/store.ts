/** The seam: where plants are kept. Everything above a store knows only this file. */
import { int64 } from "./json/number.ts";
import { newPlantOf, type NewPlant } from "./plant.ts";

/**
 * The name of a store's own `append` without a promise. It is not exported to embedders: what it
 * is given is written without another look.
 */
export const appendJson = Symbol("appendJson");

/**
 * Takes a NewPlant as `newPlantJson` writes it; `settle` is called once, later: without an error
 * when it is on stable storage.
 *
 * @throws StoreError where it is not taken
 */
export type AppendJson = (json: string, settle: Settle, key?: string) => void;

/** Called with an error, or with the outcome: `stored` if none is given. */
export type Settle = (error?: unknown, outcome?: Outcome) => void;

/** `replayed`: the plant was stored before, under the same key. */
export type Outcome = "stored" | "replayed";

/** Where plants are kept; everything above the store knows only this. */
export interface PlantStore {
  /** Resolves when it is on stable storage; rejects with a StoreError where not, or not known. */
  append(plant: NewPlant): Promise<void>;

  /**
   * Stores a plant at most once within a window, whatever number of calls has its key.
   *
   * Resolves with `replayed` if the plant is stored under this key. A second call waits for one
   * that is in progress, and shares its outcome. Rejects with the StoreError `conflict` if the key
   * was used for another plant. Without this method the header `Idempotency-Key` is not looked at.
   *
   * @param key 16 bytes in base64url: a digest of the client's token and its key
   */
  readonly appendOnce?:
    ((plant: NewPlant, key: string) => Promise<Outcome>) | undefined;

  /** Used in place of these two methods only: a method that a host has replaced is called. */
  readonly [appendJson]?: {
    readonly append: AppendJson;
    readonly of: Pick<PlantStore, "append" | "appendOnce">;
  };

  /** Takes no more; resolves when all that was taken is settled. */
  close(): Promise<void>;
}

/** `unknown`: it may be stored or not; in all other cases nothing was stored. */
export type StoreErrorCode =
  | "full"
  | "busy"
  | "closed"
  | "unknown"
  | "invalid"
  | "unreachable"
  | "tooLarge"
  | "conflict";

/** Why a plant was not acknowledged. */
export class StoreError extends Error {
  override readonly name = "StoreError";
  readonly code: StoreErrorCode;

  constructor(code: StoreErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** What keeps an engine from its work; what became of a single plant, a StoreError tells. */
export class EngineError extends Error {
  override readonly name = "EngineError";

  /**
   * `config`: somebody has to put something right; `refused`: so says one host, perhaps not all;
   * `unreachable`: time may mend it; `data`: a stream or a file does not hold what it must.
   */
  readonly code: "config" | "refused" | "unreachable" | "data";

  constructor(code: EngineError["code"], message: string) {
    super(message);
    this.code = code;
  }
}

/** When it emits what. */
export interface StoreEvents<Failure extends Error = Error> {
  /** Once: no later write can be trusted. */
  readonly failed: [error: Failure];
  /** A batch is durable, and acknowledged now: so long after its write was begun. */
  readonly batch: [records: number, millis: number];
  /** A batch was taken back: there is no space. */
  readonly full: [];
}

/** A host's own store is given plants as objects. */
export const appendJsonTo =
  (store: PlantStore): AppendJson =>
  (json, settle) =>
    void store.append(newPlantOf(json)).then(
      () => settle(),
      (error: unknown) =>
        settle(error ?? new Error("the store rejected, and did not say why"))
    );

/**
 * A plant of a library's caller as it may be kept.
 *
 * Each member is read once: a getter may answer twice differently, and what is checked must be
 * what is written.
 *
 * @throws StoreError `invalid` for what int64 or JSON can't hold
 */
export function checkPlant(given: NewPlant): NewPlant {
  let cause: unknown;
  try {
    const { id, name, tag } = given;
    const isId = typeof id === "bigint" && id >= int64.min && id <= int64.max;
    if (isId && isText(name) && (tag === undefined || isText(tag))) {
      return tag === undefined ? { id, name } : { id, name, tag };
    }
  } catch (error) {
    cause = error; // null has no members, and a getter or a proxy may throw
  }
  const expected =
    "a plant is an int64 id as bigint, a name, and a tag or none";
  throw new StoreError("invalid", expected, { cause });
}

const isText = (text: unknown): boolean =>
  typeof text === "string" && text.isWellFormed();
