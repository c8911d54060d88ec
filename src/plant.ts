/**
 * Plant, NewPlant and Error: JSON Schemas, types, and the text in which a NewPlant is kept.
 *
 * A member of a type that its schema or `newPlantText` lacks does not compile. Stores keep texts: a
 * change here leaves old records readable.
 */
import { exactInteger, int64 } from "./json/number.ts";
import { decodeUtf8, JsonError, parseJson } from "./json/parse.ts";
import { checkSchemas, type ObjectSchema } from "./json/schema.ts";

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
} as const satisfies ObjectSchema<keyof Plant>;

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
} as const satisfies {
  title: string;
  allOf: [
    typeof plantSchema,
    ObjectSchema<Exclude<keyof NewPlant, keyof Plant>>
  ];
};

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
} as const satisfies ObjectSchema;

/** A JSON string of printable ASCII without escapes. */
const asciiString = String.raw`"[ !#-[\]-~]*"`;

/**
 * The form of nearly every text that `newPlantText` writes: an id of up to 18 digits, and plain
 * strings.
 */
export const plainForm =
  String.raw`{"id":(?:0|-?[1-9]\d{0,17}),"name":${asciiString}` +
  String.raw`(?:,"tag":${asciiString})?}`;

const plain = new RegExp(`^${plainForm}$`);

const memberNames = newPlantSchema.allOf.flatMap(({ properties }) =>
  Object.keys(properties)
);

/**
 * Reads a NewPlant from a JSON text, and returns the one text in which it is kept. Other members
 * are checked as JSON and left out.
 *
 * @param nestingMax how many arrays and objects may be open at once
 * @throws JsonError; if its code is `schema`, the message names every violation
 */
export function readNewPlant(json: Buffer, nestingMax: number) {
  // Most clients send the text that newPlantText writes: a regular expression replaces all that
  // follows. This is safe, because its form allows nothing that the strict way would refuse.
  const text = decodeUtf8(json);
  if (plain.test(text)) return text;

  const value = parseJson(text, nestingMax, memberNames);
  const violations = checkSchemas(newPlantSchema.allOf, value);
  if (violations.length > 0)
    throw new JsonError("schema", violations.join("; "));

  const { members } = value;
  return newPlantText({
    id: `${exactInteger(members.get("id") ?? "")}`,
    name: canonicalString(members.get("name")),
    tag: canonicalString(members.get("tag"))
  });
}

/** Returns a JSON string as JSON.stringify writes it. One without escapes is that already. */
const canonicalString = (text: string | undefined) =>
  text?.includes("\\") ? JSON.stringify(JSON.parse(text)) : text;

/** What a library's caller must give, in words. */
export const plantExpected = "an int64 id as bigint, a name, and a tag or none";

/**
 * Returns the text in which the plant of a library's caller is kept; undefined if that has more
 * than `bytesMax` bytes.
 *
 * Reads each member once: a getter may return something else the second time, and only what was
 * checked may be written.
 *
 * @throws Error for what int64 or JSON cannot represent, or what a getter or a proxy throws
 */
export function plantText(unchecked: NewPlant, bytesMax: number) {
  // null has no members.
  const { id, name, tag } = unchecked;
  const isId = typeof id === "bigint" && id >= int64.min && id <= int64.max;
  if (!isId || !isText(name) || (tag !== undefined && !isText(tag)))
    throw new TypeError(`expected ${plantExpected}`);

  // Checked before encoding, too: escapes can make it six times as long, more than a string can be.
  if (name.length + (tag?.length ?? 0) > bytesMax) return undefined;
  const text = newPlantText({
    id: `${id}`,
    name: JSON.stringify(name),
    tag: JSON.stringify(tag)
  });
  return Buffer.byteLength(text) <= bytesMax ? text : undefined;
}

const isText = (text: unknown) =>
  typeof text === "string" && text.isWellFormed();

/**
 * Returns the one text in which a NewPlant is kept: plain digits, no space, no other member.
 *
 * @param members the text of each member, in the order of the text; undefined for an absent one
 */
const newPlantText = (
  members: Readonly<Record<keyof NewPlant, string | undefined>>
) => {
  const texts = Object.entries(members).filter(
    ([, text]) => text !== undefined
  );
  return `{${texts.map(([name, text]) => `"${name}":${text}`).join(",")}}`;
};

/** Returns the Plant's text: that of the NewPlant without `id`, its first member. */
export const plantJson = (json: string) =>
  `{${json.slice(json.indexOf(",") + 1)}`;

/**
 * Parses a text of `newPlantText`. JSON.parse would round the `id`, its first member.
 *
 * @throws Error for another text
 */
export function newPlantOf(json: string): NewPlant {
  const [, id] = /^{"id":(-?\d+),/.exec(json) ?? [];
  if (id === undefined) throw new TypeError("expected a plant with an id");
  return { ...JSON.parse(json), id: BigInt(id) };
}
