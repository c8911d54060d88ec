/** `dist` is `src` without its types: Node's own stripTypeScriptTypes (Node 22.18 and later) leaves
 * the same code. Both are parsed, so that white space, comments, trailing commas and redundant
 * parentheses do not count; empty statements, `export {}` and the endings of imports are left out;
 * everything else must be equal, the spelling of numbers and strings included. */
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { command } from "../support/package.ts";
import { nodes } from "../support/recipes.ts";
import { root } from "../support/support.ts";
import { unless } from "../support/tools.ts";

/** Runs in a Node that strips types. Its first argument is one operator to change in each built file,
 * and what to change it to; the others are pairs of a source and its built file. Prints the built
 * files whose code differs. The parser is the acorn that is built into Node. */
const compare = `
const { stripTypeScriptTypes } = require("node:module");
const { readFileSync } = require("node:fs");
const { parse } = require("internal/deps/acorn/acorn/dist/acorn");
const [from, to, ...files] = process.argv.slice(1);
const isEmpty = (node) => node?.type === "EmptyStatement" || (
  node?.type === "ExportNamedDeclaration" && !node.declaration && !node.source
  && node.specifiers.length === 0);
const essence = (key, value) => {
  if (key === "start" || key === "end") return undefined;
  if (typeof value === "bigint") return String(value);
  if (Array.isArray(value)) return value.filter((node) => !isEmpty(node));
  if (value?.source?.type !== "Literal") return value;
  const raw = value.source.raw.replace(/^("\\.\\.?\\/.*)\\.ts"$/, '$1.js"');
  return { ...value, source: { type: "Literal", raw } };
};
const codeOf = (text) =>
  JSON.stringify(parse(text, { ecmaVersion: "latest", sourceType: "module" }), essence);
for (let at = 0; at < files.length; at += 2) {
  const stripped = stripTypeScriptTypes(readFileSync(files[at], "utf8"));
  const built = readFileSync(files[at + 1], "utf8").replace(from, to);
  if (codeOf(stripped) !== codeOf(built)) console.log(files[at + 1]);
}`;

const node = nodes.find(
  ({ path }) =>
    command(
      root,
      path,
      "-e",
      'process.exit(require("node:module").stripTypeScriptTypes ? 0 : 1)'
    ).status === 0
);
const skip = unless(
  node !== undefined,
  "no Node from 22.18 on, here or in PLANT_TEST_NODES"
);

const namesIn = (folder: string, ending: string): readonly string[] =>
  readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(ending))
    .map((name) => name.slice(0, -ending.length))
    .sort();
const names = namesIn("src", ".ts");

function differing(from = "", to = ""): readonly string[] {
  const files = names.flatMap((name) => [
    join(root, "src", `${name}.ts`),
    join(root, "dist", `${name}.js`)
  ]);
  const { status, stdout, said } = command(
    root,
    node?.path ?? "",
    "--no-warnings",
    "--expose-internals",
    "-e",
    compare,
    from,
    to,
    ...files
  );
  assert.equal(status, 0, said);
  return stdout.split("\n").filter(Boolean);
}

test("dist has one file of code for each file of src, and no other", () => {
  assert.deepEqual(namesIn("dist", ".js"), names);
});

test(
  "every file of dist has the code that Node leaves of its source",
  { skip },
  (t) => {
    t.diagnostic(`${names.length} files, compared by Node ${node?.version}`);
    assert.deepEqual(differing(), []);
  }
);

test(
  "the control: one changed operator is found in each file that has it",
  { skip },
  () => {
    const having = names
      .map((name) => join(root, "dist", `${name}.js`))
      .filter((path) => readFileSync(path, "utf8").includes(" === "));
    assert.ok(having.length > 20, `${having.length}`);
    assert.deepEqual(differing(" === ", " !== "), having);
  }
);
