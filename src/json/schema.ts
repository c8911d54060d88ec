/** Checks JSON values against the JSON Schemas of plant.ts: all violations. */
import { exactInteger, int64 } from "./number.ts";
import type { JsonValue } from "./parse.ts";

/**
 * The keywords of a member (JSON Schema 2020-12). `description` and `format` check nothing: every
 * integer must be an int64.
 */
export interface MemberSchema {
  readonly type: keyof typeof expected;
  readonly description?: string;
  readonly format?: string;
}

/** The keywords of an object. The members of members are not kept, so nothing checks them. */
export interface ObjectSchema<Name extends string = string> {
  readonly title?: string;
  readonly type: "object";
  readonly required: readonly string[];
  readonly properties: Readonly<Record<Name, MemberSchema>>;
}

const expected = {
  string: "a string",
  integer: `an integer from ${int64.min} to ${int64.max}`
};

const isOf = (type: keyof typeof expected, text: string) =>
  type === "string" ? text.startsWith('"') : exactInteger(text) !== undefined;

/**
 * Returns every violation of schemas that an object must match, in their order. None means valid:
 * nothing is coerced.
 *
 * A violation is a clause that begins with its place: a JSON Pointer (RFC 6901), or `it` for the
 * whole value.
 */
export function checkSchemas(
  schemas: readonly ObjectSchema[],
  { text, members }: JsonValue
): readonly string[] {
  if (!text.startsWith("{")) return ["it must be an object"];
  const violations: string[] = [];
  for (const { required, properties } of schemas)
    for (const [name, { type }] of Object.entries(properties)) {
      const member = members.get(name);
      if (member === undefined && required.includes(name))
        violations.push(`/${name} is required, but missing`);
      else if (member !== undefined && !isOf(type, member))
        violations.push(`/${name} must be ${expected[type]}`);
    }
  return violations;
}
