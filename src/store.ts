/** The seam between the service and its store: what a store of plants is. */
import type { NewPlant } from "./plant.ts";

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

/**
 * Stores the text of a checked NewPlant; with a key at most once within a window. Embedders cannot
 * call it: the store writes what it is given without another check.
 *
 * @throws StoreError if the plant is not acknowledged, at once or as a rejection
 */
export type AppendJson = (json: string, key?: string) => Promise<Outcome>;

/** A plant that is stored. */
export interface Outcome {
  /** Its text, so that a call that waits for an equal one need not keep its own. */
  readonly json: string;

  /** Whether an earlier call has stored it. */
  readonly isReplay?: boolean;
  readonly receipt?: Receipt | undefined;
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

/** The events of the journal and the engines, with their arguments. */
export interface StoreEvents<Failure extends Error> {
  /** At most once: the store can never write again. */
  readonly failed: [error: Failure];

  /** A batch is acknowledged: it is on stable storage, `millis` after its write began. */
  readonly batch: [records: number, millis: number];

  /** A batch was refused for lack of space. */
  readonly full: [];
}
