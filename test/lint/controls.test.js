/** Negative controls: each rule of form finds a text that breaks it, and passes one that does not. */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { ESLint } from "eslint";
import { check, resolveConfig } from "prettier";

const root = join(import.meta.dirname, "..", "..");
const eslint = new ESLint({
  cwd: root,
  overrideConfigFile: join(import.meta.dirname, "eslint.config.js")
});

/** The names of the rules that a text breaks, were it that of a file. */
async function broken(file, text) {
  const [result] = await eslint.lintText(text, { filePath: join(root, file) });
  return result.messages.map(({ ruleId, message }) => ruleId ?? message);
}

/** The lines of a function with as many code lines, with a comment and a blank line after each. */
const functionOf = (lines) =>
  `export function a(b: () => void) {\n${"  b();\n  // c\n\n".repeat(lines - 2)}}\n`;

const source = "src/plant.ts";
const aTest = "test/unit/plant.test.ts";

for (const [rule, file, text] of [
  ["max-lines-per-function", source, functionOf(46)],
  [
    "max-lines-per-function",
    source,
    `export class A {\n  b = 0;\n\n  c() {\n${"    this.b++;\n".repeat(44)}  }\n}\n`
  ],
  [
    "max-lines-per-function",
    source,
    `export const a = (b: () => void) => {\n${"  b();\n".repeat(44)}};\n`
  ],
  ["@typescript-eslint/no-explicit-any", source, "export const a: any = 1;\n"],
  ["@typescript-eslint/no-explicit-any", aTest, "export const a = 1 as any;\n"],
  [
    "@typescript-eslint/no-non-null-assertion",
    source,
    "export const a = (b?: string) => b!.length;\n"
  ],
  [
    "@typescript-eslint/ban-ts-comment",
    source,
    `// ${"@ts"}-expect-error: it is one\nexport const a: string = 1;\n`
  ],
  [
    "@typescript-eslint/ban-ts-comment",
    aTest,
    `// ${"@ts"}-ignore\nexport const a: string = 1;\n`
  ],
  [
    "no-warning-comments",
    source,
    `// ${"prettier"}-ignore\nexport const a = 1;\n`
  ],
  ["no-restricted-globals", source, "process.exit();\n"],
  ["no-restricted-globals", source, "console.log(1);\n"],
  ["no-restricted-globals", source, "globalThis.process.exit();\n"],
  ["no-restricted-globals", source, "export const a = new WebSocket('b');\n"],
  ["no-restricted-globals", "src/server.ts", "export const a = fetch;\n"],
  [
    "@typescript-eslint/no-floating-promises",
    source,
    "export const a = (b: () => Promise<void>) => {\n  b();\n};\n"
  ],
  [
    "@typescript-eslint/no-floating-promises",
    aTest,
    'import assert from "node:assert";\nassert.rejects(Promise.resolve());\n'
  ],
  [
    "@typescript-eslint/no-misused-promises",
    source,
    "export const a = (b: Promise<boolean>) => (b ? 1 : 2);\n"
  ],
  [
    "@typescript-eslint/await-thenable",
    source,
    "export const a = async (b: number) => await b;\n"
  ],
  [
    "no-restricted-syntax",
    aTest,
    'import { test } from "node:test";\ntest("a", () => {});\nawait Promise.resolve();\n'
  ],
  [
    "no-restricted-syntax",
    aTest,
    'import { test } from "node:test";\ntest("a", () => {});\nexport const b = 1;\nconst c = await Promise.resolve(b);\ntest("d", () => void c);\n'
  ],
  ["@typescript-eslint/no-unused-vars", source, "const a = 1;\n"],
  ["no-var", source, "export var a = 1;\n"]
]) {
  test(`${rule} finds, in ${file}: ${JSON.stringify(text.slice(0, 70))}`, async () => {
    assert.deepEqual(await broken(file, text), [rule]);
  });
}

test("a comment that would switch a rule off has no effect, and is found itself", async () => {
  const text = `/* ${"eslint"}-disable */\nexport const a: any = 1;\n`;
  const [comment, rule, ...others] = await broken(source, text);
  assert.match(comment, /no effect/);
  assert.equal(rule, "@typescript-eslint/no-explicit-any");
  assert.deepEqual(others, []);
});

for (const [file, text] of [
  [source, functionOf(45)],
  [source, 'export const a = "x!.y: any, process.exit()"; // any!\n'],
  [
    source,
    "export const a = (host: { process: { exit(): void } }) => {\n  host.process.exit();\n};\n"
  ],
  ["src/server.ts", "process.exitCode = 70;\n"],
  [
    aTest,
    'import { test } from "node:test";\nconst a = await Promise.resolve(1);\ntest("b", async () => {\n  await Promise.resolve(a);\n});\n'
  ]
]) {
  test(`no rule finds anything, in ${file}: ${JSON.stringify(text.slice(0, 70))}`, async () => {
    assert.deepEqual(await broken(file, text), []);
  });
}

test("Prettier takes a file as it stands, and finds a line that is too long", async () => {
  const filepath = join(root, source);
  const options = { ...(await resolveConfig(filepath)), filepath };
  const text = await readFile(filepath, "utf8");
  assert.equal(await check(text, options), true);
  assert.equal(await check(text.replaceAll(/,\n\s+/g, ", "), options), false);
});
