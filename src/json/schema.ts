/** Checks JSON values against JSON Schemas: what plant.ts uses of them, all violations at once. */
import { exactInteger, JsonNumber } from "./number.ts";
import type { JsonValue } from "./parse.ts";

/** The keywords that are understood (JSON Schema 2020-12); `title` and `description` only tell. */
export interface Schema {
  readonly title?: string;
  readonly description?: string;
  readonly type?: "object" | "string" | "integer";
  readonly format?: "int32" | "int64";
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly allOf?: readonly Schema[];
}

/** A place, as a JSON Pointer (RFC 6901), and what it must be, but is: "" is the whole value. */
export type Violation = { readonly pointer: string; readonly message: string };
/** Every violation, in the schema's order; none means valid. Nothing is coerced. */
export function checkSchema(schema: Schema, value: JsonValue, pointer = ""): readonly Violation[] {
  const found: Violation[] = [];
  const wrong = schema.type && typeViolation(schema.type, schema.format, value);
  if (wrong !== undefined) found.push({ pointer, message: wrong });
  if (value instanceof Map) {
    for (const name of schema.required ?? []) {
      if (value.has(name)) continue;
      found.push({ pointer: `${pointer}/${name}`, message: "is required, but missing" });
    }
    for (const [name, inner] of Object.entries(schema.properties ?? {})) {
      const member: JsonValue | undefined = value.get(name);
      if (member !== undefined) found.push(...checkSchema(inner, member, `${pointer}/${name}`));
    }
  }
  for (const part of schema.allOf ?? []) found.push(...checkSchema(part, value, pointer));
  // Two parts of an `allOf` may say the same of the same place: it is told once.
  return found.filter((one, index) => index === found.findIndex((other) =>
    other.pointer === one.pointer && other.message === one.message));
}

const formats = {
  int32: { min: -(2n ** 31n), max: 2n ** 31n - 1n },
  int64: { min: -(2n ** 63n), max: 2n ** 63n - 1n },
} as const;

const problems = new Map([["fraction", "has a fraction"], ["range", "is outside of it"]]);

function typeViolation(
  type: NonNullable<Schema["type"]>, format: Schema["format"] = "int64", value: JsonValue,
): string | undefined {
  if (type === "object") {
    return value instanceof Map ? undefined : `must be an object, but is ${kindOf(value)}`;
  }
  if (type === "string") {
    return typeof value === "string" ? undefined : `must be a string, but is ${kindOf(value)}`;
  }
  const { min, max } = formats[format];
  const integer = value instanceof JsonNumber ? exactInteger(value, min, max) : kindOf(value);
  if (typeof integer === "bigint") return undefined;
  const problem = problems.get(integer) ?? `is ${integer}`;
  return `must be an integer from ${min} to ${max}, but ${problem}`;
}

function kindOf(value: JsonValue): string {
  if (value === null || typeof value === "boolean") return String(value);
  if (typeof value === "string") return "a string";
  if (value instanceof JsonNumber) return "a number";
  return value instanceof Map ? "an object" : "an array";
}
