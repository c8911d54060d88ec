/**
 * A change of the request's schema that is made by halves does not compile. verify.test.ts shows that
 * none makes an acknowledged record unreadable.
 */
import assert from "node:assert/strict";
import { cpSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { command, modules } from "../support/package.ts";
import { root, temporaryFolder } from "../support/support.ts";

/** What the compiler says of the source with changes of plant.ts. */
function compiled(changes: readonly (readonly [from: string, to: string])[]) {
  const folder = temporaryFolder();
  for (const name of ["src", "package.json", "tsconfig.json"])
    cpSync(join(root, name), join(folder, name), { recursive: true });
  writeFileSync(
    join(folder, "plant.json"),
    '{ "extends": "./tsconfig.json", "files": ["src/plant.ts"], "include": [] }'
  );
  symlinkSync(modules, join(folder, "node_modules"));
  const path = join(folder, "src/plant.ts");
  let text = readFileSync(path, "utf8");
  for (const [from, to] of changes) {
    assert.ok(text.includes(from), from);
    text = text.replaceAll(from, () => to);
  }
  writeFileSync(path, text);
  const tsc = join(modules, ".bin/tsc");
  const { said } = command(
    folder,
    tsc,
    "--project",
    "plant.json",
    "--noEmit",
    "--pretty",
    "false"
  );

  // Lines that are indented explain the error before them.
  return said.split(/\n(?! |$)/).filter((each) => each.includes("error TS"));
}

const inType = [
  "readonly tag?: string | undefined;",
  "readonly tag?: string | undefined; readonly light?: string | undefined;"
] as const;
const inSchema = [
  'tag: { type: "string",',
  'light: { type: "string" }, tag: { type: "string",'
] as const;
const inTexts = [
  [
    'tag: canonicalString(members.get("tag"))',
    'tag: canonicalString(members.get("tag")), light: canonicalString(members.get("light"))'
  ],
  ["tag: JSON.stringify(tag)", "tag: JSON.stringify(tag), light: undefined"]
] as const;

for (const [says, changes, count] of [
  ["in the type alone", [inType], 3],
  ["in the schema alone", [inSchema], 1],
  ["in type and schema, and not in the texts", [inType, inSchema], 2],
  ["in the text of one door", [inType, inSchema, inTexts[0]], 1]
] as const) {
  test(`a new member of a plant that is ${says} does not compile`, () => {
    const errors = compiled(changes);
    assert.equal(errors.length, count, errors.join("\n"));
    for (const error of errors) assert.match(error, /^src\/plant\.ts.*light/s);
  });
}

test("the control: a new member of a plant that is everywhere compiles", () => {
  assert.deepEqual(compiled([inType, inSchema, ...inTexts]), []);
});
