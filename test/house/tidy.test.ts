/** The house rules of the source, as tests: budgets, layers, capabilities, nothing silenced. */
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { describe, test } from "node:test";
import { root } from "../support/support.ts";

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

function sourceOf(name: string): Source {
  const found = sources.find((source) => source.name === name);
  assert.ok(found, `src/${name}`);
  return found;
}

/** The code of a line or file: strings, template text, comments and regular expressions blanked. */
const codeOf = (text: string): string => text
  .replace(/\/\*[\s\S]*?\*\//g, "")
  .replace(/(^|\s)\/\/.*$/gm, "$1")
  .replace(/"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'/g, '""')
  .replace(/`(?:[^`\\]|\\.)*`/g, "``")
  .replace(/([=(,:?] *|\s)\/(?:[^/\\\n[]|\\.|\[(?:[^\]\\\n]|\\.)*\])+\/[a-z]*/g, "$1/ /");

interface Found {
  readonly name: string;
  /** Code lines. */
  readonly lines: number;
}

const keywords = /^ *(?:\} )?(?:if|else|for|while|switch|return|do|must|case|catch|new|await)\b/;
const starts = [
  /^( *)(?:export )?(?:async )?function (\w+)/,
  /^( *)(?:export )?const (\w+) = (?:async )?(?:<[^>]*>)?\([^()]*(?:\([^()]*\)[^()]*)*(?:\).*=>|$)/,
  /^( *)(?:static |async |get |readonly )*(#?\w+)(?:<[\w, ]+>)?\((?:[^;]*[{(,])?$/,
];

/** Functions by their layout: from the line that names one to the line that closes its indent. */
function functionsOf({ name, lines: all }: Source): readonly Found[] {
  return all.flatMap((line, index) => {
    const match = starts.map((start) => start.exec(line)).find((found) => found !== null);
    if (!match || keywords.test(line)) return [];
    const [, indent = "", called = ""] = match;
    const isExpression = /;$|=>$/.test(line);
    const end = all.findIndex((other, at) => isExpression
      ? at >= index && other.endsWith(";") : at > index && other.startsWith(`${indent}}`));
    const lines = weigh(all.slice(index, end + 1)).code.length;
    return end < 0 ? [] : [{ name: `${name} ${called}`, lines }];
  });
}

/** What a file imports: files of src by name, packages as they are written. */
const importsOf = ({ name, text }: Source): readonly string[] =>
  [...text.matchAll(/^(?:import|export)\b[^;]*? from "([^"]+)";/gm)].map(([, from = ""]) =>
    from.startsWith(".") ? normalize(join(dirname(name), from)).replaceAll("\\", "/") : from);

/** Type imports vanish from the built program: they make no circle at run time. */
const runtimeImportsOf = (source: Source): readonly string[] =>
  importsOf({ ...source, text: source.text.replace(/^(?:import|export) type\b[^;]*;/gm, "") });

/** The rooms of the source, each with its budget of code lines. */
const rooms = { core: 2_200, program: 1_035, engines: 500 } as const;
const roomOf = ({ name }: Source): keyof typeof rooms =>
  name.startsWith("program/") ? "program" : name.startsWith("engines/") ? "engines" : "core";

interface Weight {
  /** The lines that are neither blank nor comment, without white space at their ends. */
  readonly code: readonly string[];
  /** How many lines are comment alone. */
  readonly comments: number;
}

/** Code and comments by their layout: a line with code and a comment is code. */
function weigh(lines: readonly string[]): Weight {
  const code: string[] = [];
  let comments = 0;
  let isInside = false;
  for (const line of lines.map((each) => each.trimEnd()).filter((each) => each !== "")) {
    const starts = /^ *\/\*/.test(line);
    if (isInside || starts || /^ *\/\//.test(line)) comments++;
    else code.push(line);
    if (isInside || starts) isInside = !line.includes("*/");
  }
  return { code, comments };
}

const median = (numbers: readonly number[]): number =>
  numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? NaN;

/** What no layout can change: the characters of code that are no white space. */
const charactersOf = (lines: readonly string[]): number =>
  lines.join("").replace(/\s/g, "").length;

describe("the budgets", () => {
  test("the scanners see functions, code and comments as they are", () => {
    const lines = ["export function one(): void {", "  two();", "", "  // three", "}",
      "const three = (a: number) =>", "  a;", "class A {", "  /** b", "   * c */", "  async #four(",
      "    b: string,", "  ): Promise<void> {", "    b; // c", "  }", "}"];
    const found = functionsOf({ name: "x", text: "", lines });
    assert.deepEqual(found.map((each) => each.lines), [3, 2, 5]);
    const { code, comments } = weigh(lines);
    assert.deepEqual([code.length, comments], [12, 3]);
    assert.equal(charactersOf(["  a b", " c"]), 3);
    assert.equal(median([100, 1, 2]), 2);
  });
  for (const [room, linesMax] of Object.entries(rooms)) {
    test(`${room} has at most ${linesMax} code lines`, (t) => {
      const code = sources.filter((source) => roomOf(source) === room)
        .flatMap(({ lines }) => weigh(lines).code);
      t.diagnostic(`${room}: ${code.length} code lines, ${charactersOf(code)} characters of code`);
      assert.ok(code.length <= linesMax, `${room} has ${code.length} code lines: `
        + "say the same in fewer, or leave out");
      assert.ok(room === "engines" || code.length > 200, "the count must be of the real source");
    });
  }
  for (const { name, lines } of sources) {
    test(`src/${name} has at most 220 code lines, and 100 columns`, () => {
      const { code } = weigh(lines);
      assert.ok(code.length <= 220, `${name} has ${code.length} code lines: split it`);
      const long = lines.flatMap((line, index) => (line.length > 100 ? [index + 1] : []));
      assert.deepEqual(long, [], `${name}: lines over 100 columns`);
    });
  }
  test("a function has at most 45 code lines, and at most 10 in the median", () => {
    const found = sources.flatMap(functionsOf);
    assert.ok(found.length > 100, `only ${found.length} functions were seen`);
    assert.deepEqual(found.filter(({ lines }) => lines > 45), [], "too long: split");
    const middle = median(found.map(({ lines }) => lines));
    assert.ok(middle <= 10, `the median is ${middle}`);
  });
  test("a code line of the core has at most 40 characters in the median", () => {
    // Characters, not columns: how deep it stands is told by the limit of a function's lines.
    const middle = median(sources.filter((source) => roomOf(source) === "core")
      .flatMap(({ lines }) => weigh(lines).code.map((line) => line.trim().length)));
    assert.ok(middle <= 40, `the median is ${middle}: one statement, one member a line`);
  });
  test("20 to 35 % of the lines that are not blank are comment", (t) => {
    const all = sources.map(({ lines }) => weigh(lines));
    const comments = all.reduce((sum, each) => sum + each.comments, 0);
    const code = all.reduce((sum, each) => sum + each.code.length, 0);
    const percent = (100 * comments) / (comments + code);
    t.diagnostic(`${percent.toFixed(1)} % comment`);
    assert.ok(percent >= 20 && percent <= 35, `${percent.toFixed(1)} %: say why, or say less`);
  });
  test("service.ts, the journey of a request, has at most 110 code lines", () => {
    const { code } = weigh(sourceOf("service.ts").lines);
    assert.ok(code.length > 50 && code.length <= 110, `it has ${code.length}`);
  });
});

/** The house from top to bottom. Types count too: who needs a type from above knows too much. */
const storeys: readonly (readonly string[])[] = [
  ["server.ts"],
  ["program/"],
  ["index.ts"],
  ["service.ts", "openapi.ts"],
  ["options.ts"],
  ["engines/"],
  ["http/", "journal/"],
  ["plant.ts"],
  ["json/", "config.ts"],
];

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
  test("imports run downwards: a file knows only what stands below it", () => {
    const heightOf = (name: string): number => {
      const height = storeys.findIndex((storey) =>
        storey.some((each) => (each.endsWith("/") ? name.startsWith(each) : name === each)));
      assert.ok(height >= 0, `src/${name} stands on no storey`);
      return height;
    };
    let crossings = 0;
    for (const source of sources) {
      const height = heightOf(source.name);
      const folder = dirname(source.name);
      for (const name of importsOf(source).filter((each) => !each.startsWith("node:"))) {
        const isInside = folder !== "." && dirname(name) === folder;
        assert.ok(isInside || heightOf(name) > height, `src/${source.name} imports ${name}`);
        crossings += isInside ? 0 : 1;
      }
    }
    assert.ok(crossings > 30, `the control: ${crossings} imports between storeys were seen`);
  });
  test("only server.ts reaches program/: the library does without it", () => {
    const users = sources.filter((source) => importsOf(source).some(isOfProgram));
    const outside = users.map(({ name }) => name).filter((name) => !isOfProgram(name));
    assert.deepEqual(outside, ["server.ts"]);
    assert.deepEqual(sources.filter((source) => importsOf(source).includes("server.ts")), []);
  });
  test("an engine is loaded by moving in and out alone, and by the store that was asked for", () => {
    const isOfEngine = (name: string): boolean => name.startsWith("engines/");
    const users = sources.filter((source) => runtimeImportsOf(source).some(isOfEngine));
    const outside = users.map(({ name }) => name).filter((name) => !isOfEngine(name));
    assert.deepEqual(outside, ["program/transfer.ts"]);
    const loading = sources.filter((source) => runtimeImportsOf(source)
      .includes("program/transfer.ts"));
    assert.deepEqual(loading, [], "nobody loads it with itself: see what is imported on demand");
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
    "node:fs": ["journal/files.ts", "program/secrets.ts"],
    "node:net": ["engines/server-connection.ts", "journal/lock.ts"],
    "node:diagnostics_channel": ["program/access-log.ts"],
    "node:tls": ["engines/server-connection.ts", "program/secrets.ts"],
    "node:https": ["http/strict-server.ts"],
    "node:crypto": [
        "engines/protocol.ts", "http/bearer.ts", "journal/open.ts", "program/access-log.ts",
        "program/secrets.ts", "program/transfer.ts",
      ],
    "node:child_process": [], "node:worker_threads": [], "node:vm": [], "node:dgram": [],
    "node:dns": ["engines/address.ts"], "node:inspector": [], "node:module": [], "node:process": [],
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
  test("fetch, which reaches any host, asks the servers' monitors only", () => {
    const users = sources.filter(({ text }) => /(?<![.\w])fetch\b/.test(codeOf(text)));
    assert.deepEqual(users.map(({ name }) => name), ["engines/checks.ts"]);
  });
  test("no other global of Node's reaches the network, or starts a thread", () => {
    const ways = /(?<![.\w])(?:WebSocket|EventSource|Worker|BroadcastChannel|navigator)\b/;
    assert.match(codeOf("new WebSocket(url);"), ways, "the control");
    for (const { name, text } of sources) assert.doesNotMatch(codeOf(text), ways, name);
  });
  test("nothing but Node's own modules is imported; on demand only what is named here", () => {
    const onDemand: Readonly<Record<string, string>> = {
      "program/serve.ts": 'import("./admin.ts")',
      "program/run.ts": 'import("./transfer.ts")',
      "program/open-store.ts": 'import("../engines/nats.ts")',
    };
    for (const source of sources) {
      const { [source.name]: literal } = onDemand;
      assert.equal(source.text.split(/\bimport\s*\(/).length, literal ? 2 : 1, source.name);
      assert.ok(source.text.includes(literal ?? ""), source.name);
      const foreign = importsOf(source).filter((from) => !from.startsWith("node:")
        && !sources.some(({ name }) => name === from));
      assert.deepEqual(foreign, [], source.name);
      assert.doesNotMatch(codeOf(source.text), /\brequire\s*\(|\beval\b|\bFunction\(/);
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
  test("no install script of a package is needed: each is known, and switched off", () => {
    const { packages } = JSON.parse(lock) as {
      readonly packages: Readonly<Record<string, { readonly hasInstallScript?: boolean }>>;
    };
    const withScripts = Object.entries(packages)
      .filter(([, { hasInstallScript = false }]) => hasInstallScript)
      .map(([path]) => [path.replace(/^.*node_modules\//, ""), false] as const);
    assert.ok(withScripts.length > 0, "the control: the lock file tells of them");
    assert.deepEqual("allowScripts" in json && json.allowScripts, Object.fromEntries(withScripts));
  });
  test("the lock file records no download address", () => {
    assert.doesNotMatch(lock, /"resolved": "https?:/);
    assert.match(lock, /"lockfileVersion"/);
  });
});
