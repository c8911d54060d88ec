/** The rules of the source as tests: each failure names the place and the fix. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, test } from "node:test";
import { root } from "../support/support.ts";
import { documents } from "./documents.ts";
import {
  clausesOf,
  importsOf,
  isFunction,
  itemsOf,
  runtimeImportsOf,
  sourceOf,
  sourcesIn,
  type Source
} from "./source.ts";

const sources = sourcesIn("src");
const tests = sourcesIn("test").filter(
  ({ name }) => !name.startsWith("test/bench/")
);

/** The parts from top to bottom: a file imports what stands below it, types included. */
const layers: readonly (readonly string[])[] = [
  ["src/server.ts"],
  ["src/program/"],
  ["src/index.ts"],
  ["src/service.ts", "src/openapi.ts"],
  ["src/options.ts"],
  ["src/engines/"],
  ["src/http/", "src/journal/"],
  ["src/store.ts"],
  ["src/plant.ts"],
  ["src/json/", "src/config.ts"]
];

/** Which files may import a module of Node that reaches something; a folder ends in a slash. */
const capabilities: Readonly<Record<string, readonly string[]>> = {
  "node:fs": [
    "journal/files.ts",
    "journal/lock.ts",
    "program/listen.ts",
    "program/secrets.ts"
  ],
  "node:net": ["http/", "journal/lock.ts", "program/", "engines/"],
  "node:tls": ["http/", "journal/lock.ts", "program/", "engines/"],
  "node:dns": ["engines/address.ts"],
  "node:https": ["http/strict-server.ts", "engines/checks.ts"],
  "node:diagnostics_channel": ["program/access-log.ts"],
  "node:crypto": [
    "engines/credentials.ts",
    "engines/protocol.ts",
    "http/bearer.ts",
    "journal/keys.ts",
    "journal/open.ts",
    "program/access-log.ts",
    "program/secrets.ts",
    "program/transfer.ts"
  ],
  "node:child_process": [],
  "node:worker_threads": [],
  "node:vm": [],
  "node:dgram": [],
  "node:inspector": [],
  "node:module": [],
  "node:process": ["engines/server-connection.ts"],
  "node:cluster": []
};

/** What is loaded on demand, and by which file. */
const onDemand: Readonly<Record<string, string>> = {
  "src/program/serve.ts": "./admin.ts",
  "src/program/run.ts": "./transfer.ts",
  "src/program/open-store.ts": "../engines/nats.ts"
};

const oddBeginnings = /^(?:Who|What|Where|Of|Told|Nobody|Unheard|Behind|Nor)\b/;

/** Words that are not used, each with its replacement; also as a part of a name. */
const words: Readonly<Record<string, string>> = {
  mend: "repair",
  anew: "rewrite",
  unheard: "without a listener",
  seal: "checksum",
  blame: "addMistake",
  carrier: "socket",
  bell: "wake up",
  hindrance: "not-ready reason",
  occupant: "holder of the lock",
  figures: "metrics, stats",
  "gone on in": "rotated",
  "is told": "is reported",
  "are told": "are reported"
};
const unwanted = new RegExp(
  `(?<![A-Za-z])(?:${Object.keys(words)
    .map(
      (word) =>
        `[${word.charAt(0)}${word.charAt(0).toUpperCase()}]${word.slice(1)}`
    )
    .join("|")
    .replaceAll(" ", String.raw`\s+(?:\*\s+)?`)})(?![a-z])`,
  "g"
);

const unwantedIn = (text: string): readonly string[] =>
  (text.match(unwanted) ?? []).map(
    (word) =>
      `${word}: say ${words[word.toLowerCase().replace(/[\s*]+/g, " ")]}`
  );

const lineOf = (text: string, at: number): number =>
  text.slice(0, at).split("\n").length;

/** Each place of a text where a pattern matches. */
const placesOf = (text: string, pattern: RegExp): readonly string[] =>
  [...text.matchAll(new RegExp(pattern, "gm"))].map(
    (match) => `line ${lineOf(text, match.index)}: ${match[0].trim()}`
  );

function assertNone(found: readonly string[]): void {
  assert.ok(found.length === 0, `expected none of these:\n${found.join("\n")}`);
}

function usersOf(
  { name, bare }: Source,
  pattern: RegExp,
  allowed: string
): readonly string[] {
  return name === allowed ? [] : placesOf(bare, pattern);
}

function unspacedIn(source: Source): readonly string[] {
  const lines = source.text.split("\n");
  const isBlank = (at: number): boolean => (lines[at] ?? "").trim() === "";
  const opens = (at: number): boolean =>
    /^#!|(?:[{([=:]|=>)$/.test((lines[at] ?? "").trimEnd());
  const docblocks = lines.flatMap((line, at) =>
    /^\s*\/\*\*/.test(line) && at > 0 && !isBlank(at - 1) && !opens(at - 1)
      ? [`line ${at + 1}: a blank line before the docblock`]
      : []
  );
  const members = itemsOf(source)
    .filter(isFunction)
    .flatMap(({ first, last, indent, code }) => {
      const [next = "", isInner] = [
        lines[last + 1],
        indent > 0 && /^(?:async )?(?:const|function) /.test(code)
      ];
      const isMember = last > first && !isInner && /\};?$/.test(code);
      return isMember && next.trim() !== "" && next.search(/\S/) >= indent
        ? [`line ${last + 2}: a blank line after the function`]
        : [];
    });
  return [...docblocks, ...members];
}

function longFunctionsOf(source: Source): readonly string[] {
  const lines = source.code.split("\n");
  return itemsOf(source)
    .filter(isFunction)
    .flatMap(({ first, last, code }) => {
      const count = lines
        .slice(first, last + 1)
        .filter((line) => line.trim() !== "").length;
      return count > 45
        ? [
            `line ${first + 1}: ${count} code lines, split it: ${code.slice(0, 50)}`
          ]
        : [];
    });
}

function importedCapabilitiesOf(source: Source): readonly string[] {
  return runtimeImportsOf(source).flatMap((module) => {
    const { [module.replace(/(?<=:\w+)\/.*$/, "")]: allowed } = capabilities;
    const isAllowed = allowed?.some((place) =>
      place.endsWith("/")
        ? source.name.startsWith(`src/${place}`)
        : source.name === `src/${place}`
    );
    return (isAllowed ?? true)
      ? []
      : [`${module} belongs to ${allowed?.join(", ") || "no file"}`];
  });
}

function importsOnDemandOf({ name, code, bare }: Source): readonly string[] {
  const { [name]: expected } = onDemand;
  const found = [...code.matchAll(/\bimport\s*\(([^)]*)\)/g)].map(
    ([, from = ""]) => from.trim()
  );
  const others = placesOf(
    bare,
    /\brequire\s*\(|\beval\b|\bFunction\s*\(|getBuiltinModule|createRequire/
  );
  return [...found.filter((from) => from !== `"${expected}"`), ...others].map(
    (place) => `${place}: not one of the imports on demand`
  );
}

interface Rule {
  /** What holds, as the test's name. */
  readonly name: string;
  readonly find: (source: Source) => readonly string[];
  /** Text that breaks the rule, and where it would stand: by default in src/plant.ts. */
  readonly broken: readonly string[];
  readonly place?: string;
  /** Text that does not. */
  readonly fine?: string;
}

const silencing = new RegExp(
  `${["@ts", "eslint"].map((tool) => `${tool}-`).join("|")}`
);

const rules: readonly Rule[] = [
  {
    name: "a line has at most 100 columns",
    find: ({ text }) => placesOf(text, /^.{101,}$/),
    broken: ["x".repeat(101)],
    fine: "x".repeat(100)
  },
  {
    name: "a function has at most 45 code lines",
    find: longFunctionsOf,
    broken: [
      `function a() {\n${"  b();\n".repeat(44)}}`,
      `const a = (b) => {\n${"  b();\n".repeat(44)}};`,
      `class A {\n  async #a<T>(\n    b: T\n  ): Promise<T> {\n${"    b();\n".repeat(42)}  }\n}`,
      `const a = ({\n  b\n}: C): D =>\n  e(\n${"    f,\n".repeat(41)}  );`
    ],
    fine: `function a() {\n${"  b(); // c\n  // d\n\n".repeat(43)}}\na(\n${"  b,\n".repeat(50)});`
  },
  {
    name: "a blank line stands before every docblock and between functions",
    find: unspacedIn,
    broken: [
      "a();\n/** b */\nc();",
      "class A {\n  b() {\n    c();\n  }\n  d() {\n  }\n}"
    ],
    fine: "class A {\n  /** b */\n  b() {\n    c();\n  }\n\n  /** d */\n  d() {}\n}"
  },
  {
    name: "no type is any, no value is asserted to be there, no compiler message is silenced",
    find: ({ bare, text }) => [
      ...placesOf(bare, /(?:[:<|,]|\bas) *any\b/),
      ...placesOf(bare, /[\w)\]]!(?=[.;,)\][]|$)/),
      ...placesOf(text, silencing)
    ],
    broken: ["const a: any = 1;", "use(a!.b);", `// ${"@ts"}-ignore`],
    fine: 'const a = "x!.y"; // any!'
  },
  {
    name: "process and console are used by server.ts alone",
    find: (source) =>
      usersOf(
        source,
        /(?<![.\w])(?:process\s*\.|console\s*\.|globalThis)/,
        "src/server.ts"
      ),
    broken: ["process.exit();", "console.log(1);"],
    fine: "host.process.exit(); // console.log"
  },
  {
    name: "no other global of Node reaches the network or starts a thread",
    find: ({ bare }) =>
      placesOf(
        bare,
        /(?<![.\w])(?:fetch|WebSocket|EventSource|Worker|BroadcastChannel|navigator)\b/
      ),
    broken: ["await fetch(url);", "new WebSocket(url);"]
  },
  {
    name: "a module of Node that reaches something is imported only where the table says",
    find: importedCapabilitiesOf,
    broken: [
      'import { x } from "node:fs";',
      'import x from "node:fs/promises";',
      'import {\n  x\n} from "node:crypto";',
      'import "node:vm";'
    ],
    fine: 'import type { x } from "node:net";\nimport { y } from "node:util";'
  },
  {
    name: "only an engine, the admin listener and import and export are loaded on demand",
    find: importsOnDemandOf,
    broken: [
      'await import("./other.ts");',
      "await import(name);",
      'require("fs");',
      "eval(text);"
    ],
    place: "src/program/serve.ts",
    fine: 'await import("./admin.ts");'
  },
  {
    name: "nothing but Node's own modules and files of src is imported",
    find: (source) =>
      importsOf(source).filter(
        (from) =>
          !from.startsWith("node:") &&
          !sources.some(({ name }) => name === from)
      ),
    broken: ['import a from "left-pad";', 'import a from "./none.ts";'],
    fine: 'import { a } from "./config.ts";'
  }
];

describe("the source", () => {
  for (const {
    name,
    find,
    broken,
    place = "src/plant.ts",
    fine = ""
  } of rules) {
    test(name, () => {
      for (const text of broken) {
        assert.notDeepEqual(
          find(sourceOf(place, text)),
          [],
          `the control must fail: ${text}`
        );
      }
      assert.deepEqual(
        find(sourceOf(place, fine)),
        [],
        "the control must pass"
      );
      const found = sources.flatMap((source) =>
        find(source).map((each) => `${source.name}: ${each}`)
      );
      assertNone(found);
    });
  }
  test("tests silence no compiler message, either", () => {
    const { find } =
      rules.find(({ name }) => name.startsWith("no type is any")) ?? {};
    assertNone(
      tests.flatMap(
        (source) =>
          find?.(source).map((each) => `${source.name}: ${each}`) ?? []
      )
    );
  });
});

/** Returns the lines that wait at the top level of a file after its first test. Node runs a file's
 * `after` hooks once no test is left, which may be during such a wait: what is started then never
 * ends, and so the file does not. */
const lateWaitsOf = ({ code }: Source): readonly string[] => {
  const lines = code.split("\n");
  const first = lines.findIndex((line) => /^(?:describe|test)\(/.test(line));
  return first < 0
    ? []
    : lines.slice(first).filter((line) => /^(?:const .*= )?await /.test(line));
};

test("a file of tests waits for what it starts before its first test", () => {
  const control =
    'test("a", b);\nconst c = await start();\nawait d();\n  await e();';
  assert.equal(lateWaitsOf(sourceOf("x.ts", control)).length, 2);
  assert.deepEqual(
    lateWaitsOf(sourceOf("x.ts", 'const a = await b();\ntest("c", d);')),
    []
  );
  assertNone(
    tests.flatMap((source) =>
      lateWaitsOf(source).map((each) => `${source.name}: ${each}`)
    )
  );
});

describe("the layers", () => {
  /** The first cycle of a graph, as the path around it. */
  function cycleIn(
    graph: ReadonlyMap<string, readonly string[]>
  ): readonly string[] {
    const done = new Set<string>();
    const walk = (name: string, path: readonly string[]): readonly string[] => {
      if (path.includes(name)) return [...path.slice(path.indexOf(name)), name];
      if (done.has(name)) return [];
      const cycles = (graph.get(name) ?? []).map((next) =>
        walk(next, [...path, name])
      );
      done.add(name);
      return cycles.find((cycle) => cycle.length > 0) ?? [];
    };
    return (
      [...graph.keys()]
        .map((name) => walk(name, []))
        .find((cycle) => cycle.length > 0) ?? []
    );
  }
  test("imports make no cycle, type imports included", () => {
    const control = new Map([
      ["a", ["b", "c"]],
      ["b", ["c"]],
      ["c", ["d"]],
      ["d", ["b"]]
    ]);
    assert.deepEqual(cycleIn(control), ["b", "c", "d", "b"]);
    const typed = sourceOf(
      "src/a.ts",
      'import type { B } from "./b.ts";\nexport * from "./c.ts";'
    );
    assert.deepEqual(importsOf(typed), ["src/b.ts", "src/c.ts"]);
    assert.deepEqual(
      cycleIn(new Map(sources.map((each) => [each.name, importsOf(each)]))),
      []
    );
  });

  const heightOf = (name: string): number =>
    layers.findIndex((layer) =>
      layer.some((each) =>
        each.endsWith("/") ? name.startsWith(each) : name === each
      )
    );

  /** Imports of another folder that do not lead to a lower layer. */
  const upwardOf = (source: Source): readonly string[] =>
    importsOf(source)
      .filter((name) => name.startsWith("src/"))
      .filter((name) => {
        const isInside =
          dirname(source.name) !== "src" &&
          dirname(name) === dirname(source.name);
        return !isInside && heightOf(name) <= heightOf(source.name);
      });
  test("imports lead downwards, type imports included", () => {
    const control = sourceOf(
      "src/journal/a.ts",
      'import type { B } from "../engines/b.ts";\n' +
        'import { c } from "./c.ts";\nimport d from "../http/d.ts";\nimport e from "../plant.ts";'
    );
    assert.deepEqual(upwardOf(control), ["src/engines/b.ts", "src/http/d.ts"]);
    for (const { name } of sources)
      assert.ok(heightOf(name) >= 0, `${name} is in no layer`);
    assertNone(
      sources.flatMap((source) =>
        upwardOf(source).map((name) => `${source.name} imports ${name}`)
      )
    );
  });
  test("an engine is loaded on demand, by import and export and the store that was configured", () => {
    const users = sources.filter(
      (source) =>
        !source.name.startsWith("src/engines/") &&
        runtimeImportsOf(source).some((name) => name.startsWith("src/engines/"))
    );
    assert.deepEqual(
      users.map(({ name }) => name),
      ["src/program/transfer.ts"]
    );
  });
  test("the writer and the reader of the format never import each other", () => {
    const importsFrom = (name: string): readonly string[] =>
      sources
        .filter((source) => source.name === `src/journal/${name}.ts`)
        .flatMap(importsOf);
    assert.ok(!importsFrom("recover").includes("src/journal/journal.ts"));
    assert.ok(!importsFrom("journal").includes("src/journal/recover.ts"));
    assert.ok(
      importsFrom("recover").includes("src/journal/record.ts"),
      "the control"
    );
  });
});

describe("the language", () => {
  test("at most 2 % of comment clauses begin oddly", (t) => {
    const control = sourceOf(
      "x.ts",
      "/** Who asks. Returns: of it; nor. */\n// Where\n// two 1.5."
    );
    assert.deepEqual(clausesOf(control), [
      "Who asks",
      "Returns",
      "of it",
      "nor",
      "Where two 1.5"
    ]);
    assert.equal(
      clausesOf(control).filter((clause) => oddBeginnings.test(clause)).length,
      2
    );
    const all = sources.flatMap((source) =>
      clausesOf(source).map((clause) => ({ name: source.name, clause }))
    );
    const odd = all.filter(({ clause }) => oddBeginnings.test(clause));
    t.diagnostic(`${odd.length} of ${all.length} clauses`);
    const places = odd
      .map(({ name, clause }) => `${name}: ${clause}`)
      .join("\n");
    assert.ok(
      all.length > 300 && odd.length <= all.length / 50,
      `name the actor:\n${places}`
    );
  });
  for (const [name, texts] of [
    ["src uses", sources],
    ["the documents use", documents],
    [
      "the tests use",
      tests.filter((source) => source.name !== "test/repository/tidy.test.ts")
    ]
  ] as const) {
    test(`${name} the words of the glossary`, () => {
      assert.equal(
        unwantedIn(
          "is\n * told, mendEnd, Seal, theBell? no: mended, sealed, bellow"
        ).length,
        3
      );
      assert.ok(texts.length > 5, "the control: texts are there");
      const found = texts.flatMap((each) =>
        unwantedIn(each.text).map((hit) => `${each.name}: ${hit}`)
      );
      assertNone(found);
    });
  }
});

describe("the package", () => {
  const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  const lock = readFileSync(join(root, "package-lock.json"), "utf8");
  test("there is no dependency at run time, and three packages of development, with exact versions", () => {
    const kinds = Object.keys(manifest).filter((key) =>
      key.toLowerCase().endsWith("dependencies")
    );
    assert.deepEqual(kinds, ["devDependencies"]);
    const { devDependencies } = manifest;
    assert.deepEqual(Object.keys(devDependencies).sort(), [
      "@types/node",
      "tsx",
      "typescript"
    ]);
    for (const version of Object.values(devDependencies)) {
      assert.match(String(version), /^\d+\.\d+\.\d+$/);
    }
  });
  test("no install script of a package is needed: each is named, and switched off", () => {
    const { packages } = JSON.parse(lock) as {
      readonly packages: Readonly<
        Record<string, { readonly hasInstallScript?: boolean }>
      >;
    };
    const withScripts = Object.entries(packages)
      .filter(([, { hasInstallScript = false }]) => hasInstallScript)
      .map(([path]) => [path.replace(/^.*node_modules\//, ""), false] as const);
    assert.ok(withScripts.length > 0, "the control: the lock file names them");
    assert.deepEqual(manifest.allowScripts, Object.fromEntries(withScripts));
  });
  test("the lock file records no download address", () => {
    assert.doesNotMatch(lock, /"resolved": "https?:/);
    assert.match(lock, /"lockfileVersion"/);
  });
});
