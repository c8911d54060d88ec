/** Checks JSON values against JSON Schemas: the keywords that plant.ts uses, all violations. */
import { exactInteger, int64 } from "./number.ts";
import type { JsonValue } from "./parse.ts";

/**
 * The keywords of a member (JSON Schema 2020-12). `title`, `description` and `format` check
 * nothing: every integer must be an int64.
 */
export interface MemberSchema {
  readonly title?: string;
  readonly description?: string;
  readonly type?: "object" | "string" | "integer";
  readonly format?: string;
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
 * @param violations those of the schema that this one is a part of
 */
export function checkSchema(
  { type, required = [], properties = {}, allOf = [] }: Schema,
  value: JsonValue,
  violations = new Set<string>()
): ReadonlySet<string> {
  const { text, members } = value;
  const problem = typeProblem(type, text);
  if (problem) violations.add(`it ${problem}`);

  // A value of another type has no members that could be missing.
  if (text.startsWith("{"))
    for (const name of required)
      if (!members.has(name))
        violations.add(`/${name} is required, but missing`);
  for (const [name, member] of Object.entries(properties)) {
    const memberText = members.get(name);
    const memberProblem = memberText && typeProblem(member.type, memberText);
    if (memberProblem) violations.add(`/${name} ${memberProblem}`);
  }

  for (const part of allOf) checkSchema(part, value, violations);
  return violations;
}

/** Returns what a value must be, or undefined if it is that. */
function typeProblem(type: MemberSchema["type"], text: string) {
  if (type === "integer")
    return exactInteger(text) === undefined
      ? `must be an integer from ${int64.min} to ${int64.max}`
      : undefined;
  if (type === "object")
    return text.startsWith("{") ? undefined : "must be an object";
  return type === undefined || text.startsWith('"')
    ? undefined
    : "must be a string";
}
