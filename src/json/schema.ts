/** Checks JSON values against JSON Schemas: what plant.ts uses of them, all violations at once. */
import { exactInteger, int32, int64, JsonNumber } from "./number.ts";
import type { JsonValue } from "./parse.ts";

/** The keywords that are understood (JSON Schema 2020-12); `title` and `description` only tell. */
export interface Schema {
  readonly title?: string;
  readonly description?: string;
  readonly type?: "object" | "string" | "integer";
  /** Of an integer; without it an int64 is meant. */
  readonly format?: "int32" | "int64";
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly allOf?: readonly Schema[];
}

/** What is wrong, and where. */
export interface Violation {
  /** A JSON Pointer (RFC 6901): "" is the whole value. */
  readonly pointer: string;
  /** What the place must be, and what it is; it completes a sentence that begins with the place. */
  readonly message: string;
}

/**
 * Every violation, in the schema's order; none means valid. Nothing is coerced.
 *
 * @param pointer where the value stands in the whole
 */
export function checkSchema(
  schema: Schema,
  value: JsonValue,
  pointer = ""
): readonly Violation[] {
  const { required = [], properties = {}, allOf = [] } = schema;
  const found: Violation[] = [];
  const wrong = typeViolation(schema, value);
  if (wrong !== undefined) found.push({ pointer, message: wrong });

  // Other values have no members: their type is told, and that is enough.
  if (value instanceof Map) {
    for (const name of required.filter((each) => !value.has(each))) {
      found.push({
        pointer: `${pointer}/${name}`,
        message: "is required, but missing"
      });
    }
    for (const [name, inner] of Object.entries(properties)) {
      const member: JsonValue | undefined = value.get(name);
      if (member !== undefined)
        found.push(...checkSchema(inner, member, `${pointer}/${name}`));
    }
  }

  for (const part of allOf) found.push(...checkSchema(part, value, pointer));
  // Two parts of an `allOf` may say the same of the same place: it is told once.
  return [
    ...new Map(
      found.map((each) => [`${each.pointer} ${each.message}`, each])
    ).values()
  ];
}

const ranges = { int32, int64 } as const;

/** What a value must be, and what it is instead; undefined where it is what it must be. */
function typeViolation(
  { type, format = "int64" }: Schema,
  value: JsonValue
): string | undefined {
  const kind = kindOf(value);
  if (type !== "integer") {
    const wanted = type === "object" ? "an object" : "a string";
    const isWanted = type === undefined || kind === wanted;
    return isWanted ? undefined : `must be ${wanted}, but is ${kind}`;
  }

  const range = ranges[format];
  const must = `must be an integer from ${range.min} to ${range.max}`;
  if (!(value instanceof JsonNumber)) return `${must}, but is ${kind}`;
  const integer = exactInteger(value, range);
  return typeof integer === "bigint"
    ? undefined
    : `${must}, but ${problems[integer]}`;
}

/** Why a number is none of the integers that are meant. */
const problems = {
  fraction: "has a fraction",
  range: "is outside of it"
} as const;

/** What a value is, in words: never the value, for an answer does not repeat what was sent. */
function kindOf(value: JsonValue): string {
  if (value === null || typeof value === "boolean") return String(value);
  if (typeof value === "string") return "a string";
  if (value instanceof JsonNumber) return "a number";
  return value instanceof Map ? "an object" : "an array";
}
