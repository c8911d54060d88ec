/**
 * Reads files of JavaScript, `{ name: text }` as JSON on stdin, with the parser that is built into
 * Node: run it with `--expose-internals`. Prints for each file what it imports and which names it
 * uses: variables that it reads or calls, and members with a dot before them.
 */
const { readFileSync } = require("node:fs");
const { parse } = require("internal/deps/acorn/acorn/dist/acorn");
const { simple } = require("internal/deps/acorn/acorn-walk/dist/walk");

function read(text) {
  const imports = new Set();
  const onDemand = new Set();
  const names = new Set();
  const addImport = ({ source }) => source && imports.add(source.value);
  simple(parse(text, { ecmaVersion: "latest", sourceType: "module" }), {
    ImportDeclaration: addImport,
    ExportNamedDeclaration: addImport,
    ExportAllDeclaration: addImport,
    ImportExpression: ({ source }) => {
      onDemand.add(
        typeof source.value === "string" ? source.value : "a computed name"
      );
    },
    Identifier: ({ name }) => names.add(name),
    MemberExpression: ({ computed, property }) => {
      if (!computed) names.add(`.${property.name}`);
    }
  });
  return {
    imports: [...imports],
    onDemand: [...onDemand],
    names: [...names]
  };
}

const files = Object.entries(JSON.parse(readFileSync(0, "utf8")));
console.log(
  JSON.stringify(
    Object.fromEntries(files.map(([name, text]) => [name, read(text)]))
  )
);
