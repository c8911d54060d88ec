/** Checks JSON values against JSON Schemas: the subset that plant.ts uses, all violations at once. */
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

export interface Violation {
  /** A JSON Pointer (RFC 6901): "" is the whole value. */
  readonly pointer: string;
  /** What the schema asks for and what is there: "must be a string, but is null". */
  readonly message: string;
}

/** Every violation of the schema, in the schema's order; none means valid. Nothing is coerced. */
export function checkSchema(schema: Schema, value: JsonValue): readonly Violation[] {
  const violations: Violation[] = [];
  collect(schema, value, "", violations);
  return violations;
}

function collect(schema: Schema, value: JsonValue, pointer: string, into: Violation[]): void {
  const message = typeViolation(schema, value);
  if (message !== undefined) report(pointer, message, into);
  if (value instanceof Map) {
    for (const name of schema.required ?? []) {
      if (!value.has(name)) report(`${pointer}/${name}`, "is required, but missing", into);
    }
    for (const name in schema.properties) {
      const member = value.get(name);
      const inner = schema.properties[name];
      if (member !== undefined && inner) collect(inner, member, `${pointer}/${name}`, into);
    }
  }
  for (const part of schema.allOf ?? []) collect(part, value, pointer, into);
}

/** Two parts of an `allOf` may say the same of the same place: it is told once. */
function report(pointer: string, message: string, into: Violation[]): void {
  if (into.some((known) => known.pointer === pointer && known.message === message)) return;
  into.push({ pointer, message });
}

const formats = {
  int32: { min: -(2n ** 31n), max: 2n ** 31n - 1n },
  int64: { min: -(2n ** 63n), max: 2n ** 63n - 1n },
} as const;

function typeViolation(schema: Schema, value: JsonValue): string | undefined {
  switch (schema.type) {
    case "object":
      return value instanceof Map ? undefined : `must be an object, but is ${kindOf(value)}`;
    case "string":
      return typeof value === "string" ? undefined : `must be a string, but is ${kindOf(value)}`;
    case "integer": {
      const { min, max } = formats[schema.format ?? "int64"];
      const range = `must be an integer from ${min} to ${max}`;
      if (!(value instanceof JsonNumber)) return `${range}, but is ${kindOf(value)}`;
      const integer = exactInteger(value, min, max);
      if (integer === "fraction") return `${range}, but has a fraction`;
      if (integer === "range") return `${range}, but is outside of it`;
      return undefined;
    }
    default:
      return undefined;
  }
}

function kindOf(value: JsonValue): string {
  if (value === null) return "null";
  if (typeof value === "boolean") return value ? "true" : "false";
  if (typeof value === "string") return "a string";
  if (value instanceof JsonNumber) return "a number";
  return value instanceof Map ? "an object" : "an array";
}
