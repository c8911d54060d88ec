/** What a plant is: the three objects of the interface, as JSON Schemas and as types. */
import { exactInteger, int64, JsonNumber } from "./json/number.ts";
import type { JsonValue } from "./json/parse.ts";
import { checkSchema, type Schema } from "./json/schema.ts";

/** A plant as the service returns it: without its `id`. */
export interface Plant {
  readonly name: string;
  /** The type of the plant. */
  readonly tag?: string | undefined;
}

/** A plant as it is posted and kept. */
export interface NewPlant extends Plant {
  /** An int64, exact; not unique. */
  readonly id: bigint;
}

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
export type AppendJson = (
  json: string,
  settle: (error?: unknown) => void
) => void;

/** Where plants are kept; everything above the store knows only this. */
export interface PlantStore {
  /** Resolves when it is on stable storage; rejects with a StoreError where not, or not known. */
  append(plant: NewPlant): Promise<void>;

  /** Stands for `of` alone: who has put another in its place, or a proxy before it, is asked. */
  readonly [appendJson]?: {
    readonly of: PlantStore["append"];
    readonly append: AppendJson;
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
  | "tooLarge";

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

export const plantSchema = {
  title: "Plant",
  type: "object",
  required: ["name"],
  properties: {
    name: { type: "string" },
    tag: { type: "string", description: "the type of the plant" }
  }
} as const satisfies Schema;

export const newPlantSchema = {
  title: "NewPlant",
  allOf: [
    plantSchema,
    {
      type: "object",
      required: ["id"],
      properties: {
        id: {
          type: "integer",
          format: "int64",
          description: "identification number"
        }
      }
    }
  ]
} as const satisfies Schema;

export const errorSchema = {
  title: "Error",
  type: "object",
  required: ["error", "message"],
  properties: {
    error: {
      type: "integer",
      format: "int32",
      description: "numeric error value"
    },
    message: { type: "string" }
  }
} as const satisfies Schema;

/** A value that is no NewPlant; its message names every violation. */
export class PlantError extends Error {}

/**
 * The NewPlant that a JSON value is; members that it does not name are left out. The journal reads
 * its records with it, too.
 *
 * @throws PlantError
 */
export function readNewPlant(value: JsonValue): NewPlant {
  if (value instanceof Map) {
    const number: JsonValue | undefined = value.get("id");
    const name: JsonValue | undefined = value.get("name");
    const tag: JsonValue | undefined = value.get("tag");
    const id = number instanceof JsonNumber && exactInteger(number, int64);

    if (typeof id === "bigint" && typeof name === "string") {
      if (tag === undefined) return { id, name };
      if (typeof tag === "string") return { id, name, tag };
    }
  }

  // The schema says what is wrong; to ask it first would cost every good plant 0.6 µs.
  const violations = checkSchema(newPlantSchema, value).map(
    ({ pointer, message }) => `${pointer || "it"} ${message}`
  );
  throw new PlantError(violations.join("; "));
}

/** In ASCII, without escapes. */
const plainString = String.raw`"([ !#-[\]-~]*)"`;

/** Nearly every NewPlant, as `newPlantJson` writes it: what has this form needs no parsing. */
export const plainForm = String.raw`{"id":(0|-?[1-9]\d{0,17}),"name":${plainString}(?:,"tag":${plainString})?}`;

const plain = new RegExp(`^${plainForm}$`);

/** Whether a text is a NewPlant by its form: it needs no other check. Any other may be one, too. */
export const isPlain = (text: string): boolean => plain.test(text);

/** The one text in which a NewPlant is kept: plain digits, no space, no other member. */
export function newPlantJson({ id, name, tag }: NewPlant): string {
  const end = tag === undefined ? "}" : `,"tag":${JSON.stringify(tag)}}`;
  return `{"id":${id},"name":${JSON.stringify(name)}${end}`;
}

/** Its Plant's text: without the `id`, which stands first. */
export const plantJson = (json: string): string =>
  `{${json.slice(json.indexOf(",") + 1)}`;

/** A host's own store is given plants as objects. */
export const appendJsonTo =
  (store: PlantStore): AppendJson =>
  (json, settle) =>
    void store.append(newPlantOf(json)).then(
      () => settle(),
      (error: unknown) =>
        settle(error ?? new Error("the store rejected, and did not say why"))
    );

/** The NewPlant of such a text: its `id` stands first, and JSON.parse would round it. */
export const newPlantOf = (json: string): NewPlant => ({
  ...JSON.parse(json),
  id: BigInt(json.slice(6, json.indexOf(",")))
});

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
