/** What a plant is: the three objects of the interface, as JSON Schemas and as types. */
import { exactInteger, JsonNumber } from "./json/number.ts";
import type { JsonValue } from "./json/parse.ts";
import { checkSchema, type Schema, type Violation } from "./json/schema.ts";

/** A plant as the service returns it: without its `id`. */
export interface Plant {
  readonly name: string;
  readonly tag?: string;
}

/** A plant as it is posted and kept; `id` is an int64, exact. */
export interface NewPlant extends Plant {
  readonly id: bigint;
}

export interface PlantStore {
  /** Resolves when it is on stable storage; rejects with a StoreError where not, or not known. */
  append(plant: NewPlant): Promise<void>;
  close(): Promise<void>;
}

/** `unknown`: it may be stored or not; in all other cases nothing was stored. */
export type StoreErrorCode = "full" | "busy" | "closed" | "unknown" | "invalid";

export class StoreError extends Error {
  override readonly name = "StoreError";
  readonly code: StoreErrorCode;
  constructor(code: StoreErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

const [int64Min, int64Max] = [-(2n ** 63n), 2n ** 63n - 1n];
export const plantSchema = {
  title: "Plant", type: "object", required: ["name"],
  properties: {
    name: { type: "string" },
    tag: { type: "string", description: "the type of the plant" },
  },
} as const satisfies Schema;

export const newPlantSchema = {
  title: "NewPlant",
  allOf: [plantSchema, {
    type: "object", required: ["id"],
    properties: { id: { type: "integer", format: "int64", description: "identification number" } },
  }],
} as const satisfies Schema;

export const errorSchema = {
  title: "Error", type: "object", required: ["error", "message"],
  properties: {
    error: { type: "integer", format: "int32", description: "numeric error value" },
    message: { type: "string" },
  },
} as const satisfies Schema;
/** A value that is no NewPlant; its message names every violation. */
export class PlantError extends Error {
  override readonly name = "PlantError";
  constructor(violations: readonly Violation[]) {
    super(violations.map(({ pointer, message }) => `${pointer || "it"} ${message}`).join("; "));
  }
}

/** @throws PlantError */
export function readNewPlant(value: JsonValue): NewPlant {
  if (value instanceof Map) {
    const [number, name, tag] = [value.get("id"), value.get("name"), value.get("tag")];
    const id = number instanceof JsonNumber && exactInteger(number, int64Min, int64Max);
    if (typeof id === "bigint" && typeof name === "string") {
      if (tag === undefined) return { id, name };
      if (typeof tag === "string") return { id, name, tag };
    }
  }
  // The schema says what is wrong; to ask it first would cost every good plant 0.6 µs.
  throw new PlantError(checkSchema(newPlantSchema, value));
}

/** @throws StoreError `invalid` for what int64, JSON, or a line that is read again can't hold */
export function checkPlant({ id, name, tag = "" }: NewPlant): void {
  const isId = typeof id === "bigint" && id >= int64Min && id <= int64Max;
  if (isId && isText(name) && isText(tag)) return;
  throw new StoreError("invalid", "a plant is an int64 id as bigint, a name, and a tag or none");
}

const isText = (text: unknown): boolean =>
  typeof text === "string" && text.isWellFormed();
