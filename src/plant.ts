/** What a plant is: the three objects of the interface, as JSON Schemas and as types. */
import { exactInteger, int64 } from "./json/number.ts";
import { canonicalString } from "./json/string.ts";
import { parseJson } from "./json/parse.ts";
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
 * Reads a NewPlant from a JSON text, and returns the one text in which it is kept. Other members
 * are checked as JSON and left out.
 *
 * @param nestingMax how many arrays and objects may be open at once
 * @throws JsonError, PlantError
 */
export function readNewPlant(json: Buffer, nestingMax: number): string {
  const value = parseJson(json, nestingMax, ["id", "name", "tag"]);
  const violations = checkSchema(newPlantSchema, value);
  if (typeof value === "string" || violations.size > 0)
    throw new PlantError([...violations].join("; "));

  return joined(
    exactInteger(value.get("id") ?? "", int64),
    canonicalString(value.get("name")),
    canonicalString(value.get("tag"))
  );
}

/** In ASCII, without escapes. */
const plainString = String.raw`"([ !#-[\]-~]*)"`;

/** Nearly every NewPlant, as `newPlantJson` writes it: what has this form needs no parsing. */
export const plainForm = String.raw`{"id":(0|-?[1-9]\d{0,17}),"name":${plainString}(?:,"tag":${plainString})?}`;

const plain = new RegExp(`^${plainForm}$`);

/** Whether a text is a NewPlant by its form: it needs no other check. Any other may be one, too. */
export const isPlain = (text: string): boolean => plain.test(text);

/** Returns the one text in which a NewPlant is kept: plain digits, no space, no other member. */
export const newPlantJson = ({ id, name, tag }: NewPlant): string =>
  joined(id, JSON.stringify(name), JSON.stringify(tag));

/** Joins the texts of a NewPlant's members; JSON.stringify, too, has no text for no tag. */
const joined = (id: bigint | string, name?: string, tag?: string): string =>
  `{"id":${id},"name":${name}${tag === undefined ? "" : `,"tag":${tag}`}}`;

/** Its Plant's text: without the `id`, which stands first. */
export const plantJson = (json: string): string =>
  `{${json.slice(json.indexOf(",") + 1)}`;

/** The NewPlant of such a text: its `id` stands first, and JSON.parse would round it. */
export const newPlantOf = (json: string): NewPlant => ({
  ...JSON.parse(json),
  id: BigInt(json.slice(6, json.indexOf(",")))
});
