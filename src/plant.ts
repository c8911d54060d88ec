/**
 * Plant, NewPlant and Error, as JSON Schemas and as types.
 *
 * The journal reads its records with the schemas and with `plainForm`: a change of either also
 * applies to old records.
 */
import { ok as assert } from "node:assert";
import { exactInteger } from "./json/number.ts";
import { decodeUtf8, JsonError, parseJson } from "./json/parse.ts";
import { checkSchema, type Schema } from "./json/schema.ts";

/** A plant as the service returns it: without its `id`. */
export interface Plant {
  readonly name: string;

  /** The plant's type. */
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

/** A JSON string of printable ASCII without escapes. */
const asciiString = String.raw`"([ !#-[\]-~]*)"`;

/**
 * The form of nearly every NewPlant that `newPlantJson` writes: an id of up to 18 digits, and plain
 * strings.
 */
export const plainForm =
  String.raw`{"id":(0|-?[1-9]\d{0,17}),"name":${asciiString}` +
  String.raw`(?:,"tag":${asciiString})?}`;

const plain = new RegExp(`^${plainForm}$`);

/**
 * Reads a NewPlant from a JSON text, and returns the one text in which it is kept. Other members
 * are checked as JSON and left out.
 *
 * @param nestingMax how many arrays and objects may be open at once
 * @throws JsonError; if its code is `schema`, the message names every violation
 */
export function readNewPlant(json: Buffer, nestingMax: number) {
  // Most clients send the text that newPlantJson writes: a regular expression replaces all that
  // follows. This is safe, because its form allows nothing that the strict way would refuse.
  const text = decodeUtf8(json);
  if (plain.test(text)) return text;

  const value = parseJson(text, nestingMax, ["id", "name", "tag"]);
  const violations = checkSchema(newPlantSchema, value);
  if (violations.size > 0)
    throw new JsonError("schema", [...violations].join("; "));

  const { members } = value;
  const id = exactInteger(members.get("id") ?? "");
  const name = canonicalString(members.get("name"));
  assert(typeof id === "bigint" && name !== undefined, "the schema is checked");
  return newPlantText(id, name, canonicalString(members.get("tag")));
}

/** Returns a JSON string as JSON.stringify writes it. One without escapes is that already. */
const canonicalString = (text: string | undefined) =>
  text?.includes("\\") ? JSON.stringify(JSON.parse(text)) : text;

/** Returns the one text in which a NewPlant is kept: plain digits, no space, no other member. */
export const newPlantJson = ({ id, name, tag }: NewPlant) =>
  newPlantText(id, JSON.stringify(name), JSON.stringify(tag));

/** Joins the texts of a NewPlant's members. JSON.stringify returns undefined for an absent tag. */
const newPlantText = (id: bigint, name: string, tag?: string) =>
  `{"id":${id},"name":${name}${tag === undefined ? "" : `,"tag":${tag}`}}`;

/** Returns the Plant's text: that of the NewPlant without `id`, its first member. */
export const plantJson = (json: string) =>
  `{${json.slice(json.indexOf(",") + 1)}`;

/** Parses a text of `newPlantJson`. JSON.parse would round the `id`, its first member. */
export const newPlantOf = (json: string): NewPlant => ({
  ...JSON.parse(json),
  id: BigInt(json.slice(6, json.indexOf(",")))
});
