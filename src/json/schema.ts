/** Checks JSON values against JSON Schemas: the keywords that plant.ts uses, all violations. */
import { exactInteger, int32, int64 } from "./number.ts";
import type { JsonValue } from "./parse.ts";

/** The keywords of a member (JSON Schema 2020-12). `title` and `description` check nothing. */
export interface MemberSchema {
  readonly title?: string;
  readonly description?: string;
  readonly type?: "object" | "string" | "integer";

  /** The range of an integer. Default: int64. */
  readonly format?: "int32" | "int64";
}

/** The keywords of a whole value. The members of members are not kept, so nothing checks them. */
export interface Schema extends MemberSchema {
  readonly properties?: Readonly<Record<string, MemberSchema>>;
  readonly required?: readonly string[];
  readonly allOf?: readonly Schema[];
}

/**
 * Returns every violation once, in the schema's order. None means valid: nothing is coerced.
 *
 * A violation is a clause that begins with its place: a JSON Pointer (RFC 6901), or `it` for the
 * whole value.
 *
 * @param found the violations of the schema that this one is a part of
 */
export function checkSchema(
  schema: Schema,
  value: JsonValue,
  found = new Set<string>()
): ReadonlySet<string> {
  const { required, properties, allOf } = schema;
  const problem = typeProblem(schema, value);
  if (problem !== undefined) found.add(`it ${problem}`);

  // A value of another type has no members that could be missing.
  if (typeof value !== "string") {
    for (const name of required ?? []) {
      if (!value.has(name)) found.add(`/${name} is required, but missing`);
    }
    for (const name in properties) {
      const [member, text] = [properties[name], value.get(name)];
      if (member === undefined || text === undefined) continue;
      const wrong = typeProblem(member, text);
      if (wrong !== undefined) found.add(`/${name} ${wrong}`);
    }
  }

  for (const part of allOf ?? []) checkSchema(part, value, found);
  return found;
}

const ranges = { int32, int64 } as const;

/** Why a number is not an integer of its range. */
const problems = {
  fraction: "has a fraction",
  range: "is outside of it"
} as const;

/** Returns what a value must be and what it is, or undefined if it is that. */
function typeProblem(
  { type, format = "int64" }: MemberSchema,
  value: JsonValue
): string | undefined {
  const kind = kindOf(value);
  if (type !== "integer") {
    const expected = type === "object" ? "an object" : "a string";
    const isExpected = type === undefined || kind === expected;
    return isExpected ? undefined : `must be ${expected}, but is ${kind}`;
  }

  const range = ranges[format];
  const integer =
    typeof value === "string" && kind === "a number"
      ? exactInteger(value, range)
      : undefined;
  if (typeof integer === "bigint") return undefined;
  const found = integer === undefined ? `is ${kind}` : problems[integer];
  return `must be an integer from ${range.min} to ${range.max}, but ${found}`;
}

/** The kinds of values by the first characters of their texts; all others are numbers. */
const kinds: Readonly<Record<string, string>> = {
  "{": "an object",
  "[": "an array",
  '"': "a string",
  t: "true",
  f: "false",
  n: "null"
};

/** Returns what a value is, in words: a response never repeats the value itself. */
const kindOf = (value: JsonValue): string =>
  typeof value === "string"
    ? (kinds[value.charAt(0)] ?? "a number")
    : "an object";
