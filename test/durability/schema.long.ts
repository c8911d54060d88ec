/**
 * A journal keeps texts: no change of the request's schema makes an acknowledged record unreadable,
 * and a change that is made by halves does not compile.
 */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { cpSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { journalWith } from "../support/journals.ts";
import { launch } from "../support/launch.ts";
import { command, modules } from "../support/package.ts";
import { root, temporaryFolder } from "../support/support.ts";
import { patched } from "../support/tools.ts";

test("a program that requires a tag opens, verifies and prints the plants without one", async () => {
  const server = patched(
    "plant.js",
    [
      ['required: ["name"]', 'required: ["name", "tag"]'],
      ['(?:,"tag":${asciiString})?}', '(?:,"tag":${asciiString})}']
    ],
    ""
  );
  const path = await journalWith(
    join(temporaryFolder(), "plants.ndjson"),
    { id: 1n, name: "Fern" },
    { id: 2n, name: "M\u00e4usedorn" }
  );
  const before = readFileSync(path, "utf8");
  const running = await launch({ server, store: path });
  const { status } = await running.post(3);
  assert.equal(status, 400, "the control: its schema is stricter");
  assert.equal(await running.end(), 0, running.stderr());
  assert.equal(readFileSync(path, "utf8"), before);

  const print = (name: string): string =>
    execFileSync(process.execPath, [server, name, path], { encoding: "utf8" });
  assert.equal(
    print("cat"),
    '{"id":1,"name":"Fern"}\n{"id":2,"name":"M\u00e4usedorn"}\n'
  );
  assert.match(print("verify"), /: whole, records: 2, /);
});

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
