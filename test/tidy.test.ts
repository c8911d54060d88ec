/** The house rules of the source, as tests: budgets, layers, capabilities, nothing silenced. */
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { describe, test } from "node:test";
import { root } from "./support.ts";

interface Source {
  /** Relative to src. */
  readonly name: string;
  readonly text: string;
  readonly lines: readonly string[];
}

const read = (folder: string): readonly Source[] =>
  readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".ts") && !name.includes("node_modules"))
    .map((name) => {
      const text = readFileSync(join(root, folder, name), "utf8");
      return { name: name.replaceAll("\\", "/"), text, lines: text.trimEnd().split("\n") };
    });
const sources = read("src");
const tests = read("test");

const isOfProgram = (name: string): boolean => name.startsWith("program/");

/** The code of a line or file: strings, template text, comments and regular expressions blanked. */
const codeOf = (text: string): string => text
  .replace(/\/\*[\s\S]*?\*\//g, "")
  .replace(/(^|\s)\/\/.*$/gm, "$1")
  .replace(/"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'/g, '""')
  .replace(/`(?:[^`\\]|\\.)*`/g, "``")
  .replace(/([=(,:?] *|\s)\/(?:[^/\\\n[]|\\.|\[(?:[^\]\\\n]|\\.)*\])+\/[a-z]*/g, "$1/ /");

interface Found {
  readonly name: string;
  readonly lines: number;
}

const keywords = /^ *(?:\} )?(?:if|else|for|while|switch|return|do|must|case|catch|new|await)\b/;
const starts = [
  /^( *)(?:export )?(?:async )?function (\w+)/,
  /^( *)(?:export )?const (\w+) = (?:async )?(?:<[^>]*>)?\([^()]*(?:\([^()]*\)[^()]*)*(?:\).*=>|$)/,
  /^( *)(?:static |async |get |readonly )*(#?\w+)(?:<[\w, ]+>)?\((?:[^;]*[{(,])?$/,
];

/** Functions by their layout: from the line that names one to the line that closes its indent. */
function functionsOf({ name, lines }: Source): readonly Found[] {
  return lines.flatMap((line, index) => {
    const match = starts.map((start) => start.exec(line)).find((found) => found !== null);
    if (!match || keywords.test(line)) return [];
    const [, indent = "", called = ""] = match;
    const isExpression = /;$|=>$/.test(line);
    const end = lines.findIndex((other, at) => isExpression
      ? at >= index && other.endsWith(";") : at > index && other.startsWith(`${indent}}`));
    return end < 0 ? [] : [{ name: `${name} ${called}`, lines: end - index + 1 }];
  });
}

/** What a file imports: files of src by name, packages as they are written. */
const importsOf = ({ name, text }: Source): readonly string[] =>
  [...text.matchAll(/^(?:import|export)\b[^;]*? from "([^"]+)";/gm)].map(([, from = ""]) =>
    from.startsWith(".") ? normalize(join(dirname(name), from)).replaceAll("\\", "/") : from);

/** Type imports vanish from the built program: they make no circle at run time. */
const runtimeImportsOf = (source: Source): readonly string[] =>
  importsOf({ ...source, text: source.text.replace(/^(?:import|export) type\b[^;]*;/gm, "") });

describe("the budgets", () => {
  test("the scanner of functions sees them", () => {
    const lines = ["export function one(): void {", "  two();", "}", "const three = (a: number) =>",
      "  a;", "class A {", "  async #four(", "    b: string,", "  ): Promise<void> {", "    b;",
      "  }", "}"];
    const found = functionsOf({ name: "x", text: "", lines });
    assert.deepEqual(found.map((each) => each.lines), [3, 2, 5]);
  });
  test("all of src but program/ has at most 2,700 lines", () => {
    const core = sources.filter(({ name }) => !isOfProgram(name));
    const total = core.reduce((sum, { text }) => sum + text.split("\n").length - 1, 0);
    assert.ok(total <= 2_700, `src has ${total} lines: say the same in fewer, or leave out`);
    assert.ok(total > 1_000, "the count must be of the real source");
  });
  test("program/ has at most 900 lines that are neither blank nor comment", () => {
    const lines = sources.filter(({ name }) => isOfProgram(name)).flatMap(({ text }) =>
      text.replace(/^ *\/\*\*[\s\S]*?\*\/$/gm, "").split("\n"));
    const total = lines.filter((line) => !/^\s*(?:\/\/|$)/.test(line)).length;
    assert.ok(total <= 900, `program/ has ${total} lines of code`);
    assert.ok(total > 200, "the count must be of the real source");
  });
  for (const { name, lines } of sources) {
    test(`src/${name} has at most 220 code lines, and 100 columns`, () => {
      // Blank lines and comments are free: air and reasons.
      const code = lines.filter((line) => !/^ *(?:$|\/\*|\*|\/\/)/.test(line));
      assert.ok(code.length <= 220, `${name} has ${code.length} code lines: split it`);
      const long = lines.flatMap((line, index) => (line.length > 100 ? [index + 1] : []));
      assert.deepEqual(long, [], `${name}: lines over 100 columns`);
    });
  }
  test("a function has at most 60 lines, and at most 12 in the median", () => {
    const found = sources.flatMap(functionsOf).sort((a, b) => a.lines - b.lines);
    assert.ok(found.length > 100, `only ${found.length} functions were seen`);
    assert.deepEqual(found.filter(({ lines }) => lines > 60), [], "too long: split");
    const median = found[Math.floor(found.length / 2)]?.lines ?? Infinity;
    assert.ok(median <= 12, `the median is ${median}`);
  });
});

describe("the layers", () => {
  test("imports go one way: there is no circle", () => {
    const graph = new Map(sources.map((source) => [source.name, runtimeImportsOf(source)]));
    const findCircle = (name: string, path: readonly string[]): readonly string[] => {
      if (path.includes(name)) return [...path, name];
      for (const next of graph.get(name) ?? []) {
        const circle = graph.has(next) ? findCircle(next, [...path, name]) : [];
        if (circle.length > 0) return circle;
      }
      return [];
    };
    for (const name of graph.keys()) assert.deepEqual(findCircle(name, []), []);
  });
  test("json and the format know nothing of http; http knows nothing of the journal", () => {
    for (const source of sources) {
      const forbidden = source.name.startsWith("json/") ? /^(?:http|journal|engines)\//
        : source.name.startsWith("journal/") ? /^(?:http|engines)\//
        : source.name.startsWith("http/") ? /^(?:journal|engines)\// : /^$/;
      const wrong = importsOf(source).filter((name) => forbidden.test(name));
      assert.deepEqual(wrong, [], `${source.name} reaches over a layer`);
    }
  });
  test("only server.ts reaches program/: the library does without it", () => {
    const users = sources.filter((source) => importsOf(source).some(isOfProgram));
    const outside = users.map(({ name }) => name).filter((name) => !isOfProgram(name));
    assert.deepEqual(outside, ["server.ts"]);
    assert.deepEqual(sources.filter((source) => importsOf(source).includes("server.ts")), []);
  });
  test("the writer and the reader of the format never import each other", () => {
    const importsFrom = (name: string): readonly string[] =>
      importsOf(sources.find((source) => source.name === name) ?? { name, text: "", lines: [] });
    assert.ok(!importsFrom("journal/recover.ts").includes("journal/journal.ts"));
    assert.ok(!importsFrom("journal/journal.ts").includes("journal/recover.ts"));
    assert.ok(importsFrom("journal/recover.ts").includes("journal/record.ts"));
  });
});

describe("the capabilities", () => {
  const allowed: Readonly<Record<string, readonly string[]>> = {
    "node:fs": ["journal/disk.ts", "program/secrets.ts"],
    "node:net": ["http/server.ts", "journal/lock.ts"],
    "node:tls": [],
    "node:https": ["http/server.ts"],
    "node:crypto": ["http/bearer.ts", "journal/open.ts"],
    "node:child_process": [], "node:worker_threads": [], "node:vm": [], "node:dgram": [],
    "node:dns": [], "node:inspector": [], "node:module": [], "node:process": [],
  };
  for (const [module, names] of Object.entries(allowed)) {
    test(`${module} is imported by ${names.join(", ") || "nobody"}`, () => {
      const users = sources.filter((source) => runtimeImportsOf(source)
        .some((from) => from === module || from.startsWith(`${module}/`)));
      assert.deepEqual(users.map(({ name }) => name).sort(), [...names].sort());
    });
  }
  test("process and console stand in server.ts only", () => {
    const users = sources.filter(({ text }) =>
      /(?<![.\w])(?:process\s*\.|console\s*\.|globalThis)/.test(codeOf(text)));
    assert.deepEqual(users.map(({ name }) => name), ["server.ts"]);
  });
  test("nothing but Node's own modules is imported, and none dynamically", () => {
    for (const source of sources) {
      const foreign = importsOf(source).filter((from) => !from.startsWith("node:")
        && !sources.some(({ name }) => name === from));
      assert.deepEqual(foreign, [], source.name);
      assert.doesNotMatch(codeOf(source.text),
        /\bimport\s*\(|\brequire\s*\(|\beval\b|\bFunction\(/);
    }
  });
});

describe("the types", () => {
  const silenced = new RegExp(["@ts", "eslint"].map((tool) => `${tool}-`).join("|"));
  for (const { name, text } of [...sources, ...tests]) {
    test(`${name} silences nothing`, () => {
      const code = codeOf(text);
      assert.doesNotMatch(code, /(?:[:<|,]|\bas) *any\b/, "no any");
      assert.doesNotMatch(code, /[\w)\]]!(?=[.;,)\][]|$)/m, "no non-null assertion");
      assert.doesNotMatch(text, silenced, "no compiler or linter comment");
    });
  }
  test("the checks can fail", () => {
    assert.match(codeOf("const a: any = 1;"), /(?:[:<|,]|\bas) *any\b/);
    assert.match(codeOf("use(a!.b);"), /[\w)\]]!(?=[.;,)\][]|$)/m);
    assert.doesNotMatch(codeOf('const a = "x!.y"; // any!'), /!/);
  });
});

describe("the package", () => {
  const json: unknown = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  const lock = readFileSync(join(root, "package-lock.json"), "utf8");
  assert.ok(typeof json === "object" && json !== null);
  test("there is no dependency at run time", () => {
    const kinds = Object.keys(json).filter((key) => key.toLowerCase().endsWith("dependencies"));
    assert.deepEqual(kinds, ["devDependencies"]);
  });
  test("the development packages are three, with exact versions", () => {
    const packages = "devDependencies" in json ? Object(json.devDependencies) : {};
    assert.deepEqual(Object.keys(packages).sort(), ["@types/node", "tsx", "typescript"]);
    for (const version of Object.values(packages)) assert.match(String(version), /^\d+\.\d+\.\d+$/);
  });
  test("the lock file records no download address", () => {
    assert.doesNotMatch(lock, /"resolved": "https?:/);
    assert.match(lock, /"lockfileVersion"/);
  });
});
