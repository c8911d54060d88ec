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
export function checkSchema(schema: Schema, value: JsonValue, pointer = ""): readonly Violation[] {
  const found: Violation[] = [];
  const wrong = schema.type && typeViolation(schema.type, schema.format, value);
  if (wrong !== undefined) found.push({ pointer, message: wrong });

  // Other values have no members: their type is told, and that is enough.
  if (value instanceof Map) {
    for (const name of schema.required ?? []) {
      if (value.has(name)) continue;
      found.push({ pointer: `${pointer}/${name}`, message: "is required, but missing" });
    }
    for (const [name, inner] of Object.entries(schema.properties ?? {})) {
      const member: JsonValue | undefined = value.get(name);
      if (member === undefined) continue;
      found.push(...checkSchema(inner, member, `${pointer}/${name}`));
    }
  }

  for (const part of schema.allOf ?? []) found.push(...checkSchema(part, value, pointer));
  // Two parts of an `allOf` may say the same of the same place: it is told once.
  return [...new Map(found.map((each) => [`${each.pointer} ${each.message}`, each])).values()];
}

const ranges = { int32, int64 } as const;

function typeViolation(
  type: NonNullable<Schema["type"]>,
  format: Schema["format"] = "int64",
  value: JsonValue,
): string | undefined {
  const kind = kindOf(value);
  if (type !== "integer") {
    const wanted = type === "object" ? "an object" : "a string";
    return kind === wanted ? undefined : `must be ${wanted}, but is ${kind}`;
  }

  const range = ranges[format];
  const integer = value instanceof JsonNumber ? exactInteger(value, range) : kind;
  if (typeof integer === "bigint") return undefined;
  const problem = problems.get(integer) ?? `is ${kind}`;
  return `must be an integer from ${range.min} to ${range.max}, but ${problem}`;
}

/** Why a number is none of the integers that are meant. */
const problems: ReadonlyMap<string, string> = new Map([
  ["fraction", "has a fraction"],
  ["range", "is outside of it"],
]);

/** What a value is, in words: never the value, for an answer does not repeat what was sent. */
function kindOf(value: JsonValue): string {
  if (value === null || typeof value === "boolean") return String(value);
  if (typeof value === "string") return "a string";
  if (value instanceof JsonNumber) return "a number";
  return value instanceof Map ? "an object" : "an array";
}
