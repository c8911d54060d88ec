/** The layers of the source: imports lead downwards, without a cycle; what is loaded on demand; what
 * no file may use. */
import assert from "node:assert/strict";
import { dirname } from "node:path";
import { test } from "node:test";
import {
  imports,
  importsIn,
  loadedBy,
  modules,
  modulesOf,
  sourceNames,
  type Module
} from "./modules.ts";

/** The parts from top to bottom: a file imports what stands below it, types included. */
const layers: readonly (readonly string[])[] = [
  ["src/server.ts"],
  ["src/program/run.ts"],
  ["src/program/journals/", "src/program/serving/"],
  ["src/program/"],
  ["src/index.ts"],
  ["src/service.ts", "src/openapi.ts"],
  ["src/options.ts"],
  ["src/nats/"],
  ["src/http/", "src/journal/"],
  ["src/append.ts"],
  ["src/store.ts"],
  ["src/plant.ts"],
  ["src/json/", "src/config.ts", "src/failure.ts", "src/system.ts"]
];

/** Each file that loads others on demand, and these. */
const onDemand: Readonly<Record<string, readonly string[]>> = {
  "src/program/open-store.ts": ["src/nats/nats.ts", "src/nats/address.ts"],
  "src/program/serving/serve.ts": ["src/program/serving/admin.ts"],
  "src/server.ts": [
    "src/failure.ts",
    "src/program/exit.ts",
    "src/program/run.ts"
  ]
};

const heightOf = (name: string): number =>
  layers.findIndex((layer) =>
    layer.some((each) =>
      each.endsWith("/") ? name.startsWith(each) : name === each
    )
  );

/** Those of a file's imports that lead neither to a lower layer nor to its own folder. */
function upward(name: string, all: readonly string[]): readonly string[] {
  return all
    .filter((from) => from.startsWith("src/"))
    .filter((from) => {
      const isInside =
        dirname(name) !== "src" && dirname(from) === dirname(name);
      return !isInside && heightOf(from) <= heightOf(name);
    });
}

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

test("every file of the source is in a layer", () => {
  assert.deepEqual(
    sourceNames.filter((name) => heightOf(name) < 0),
    []
  );
});

test("imports lead downwards, type imports included", () => {
  assert.deepEqual(
    [...imports].flatMap(([name, all]) =>
      upward(name, all).map((from) => `${name} imports ${from}`)
    ),
    []
  );
});

test("the parts of the program do not import each other: the control", () => {
  const from = "src/program/journals/verify.ts";
  for (const to of ["serving/serve.ts", "run.ts"])
    assert.deepEqual(upward(from, [`src/program/${to}`]).length, 1);
  assert.deepEqual(upward(from, ["src/program/host.ts"]), []);
});

test("imports make no cycle, type imports included", () => {
  assert.deepEqual(cycleIn(imports), []);
});

test("the control: imports upwards and sideways are found, and so is a cycle", () => {
  const text = `
import type { B } from "../server.ts";
import { c } from "./c.ts";
import {
  d
} from "../http/d.ts";
export * from "../plant.ts";
import "../store.ts";
`.trimStart();
  const found = importsIn("src/journal/a.ts", text);
  assert.deepEqual(found, [
    "src/server.ts",
    "src/journal/c.ts",
    "src/http/d.ts",
    "src/plant.ts",
    "src/store.ts"
  ]);
  assert.deepEqual(upward("src/journal/a.ts", found), [
    "src/server.ts",
    "src/http/d.ts"
  ]);
  const graph = new Map([
    ["a", ["b", "c"]],
    ["b", ["c"]],
    ["c", ["d"]],
    ["d", ["b"]]
  ]);
  assert.deepEqual(cycleIn(graph), ["b", "c", "d", "b"]);
});

test("no import of the built program is missed in the source", () => {
  for (const module of modules) {
    const known = imports.get(module.name) ?? [];
    assert.deepEqual(
      module.imports.filter((from) => !known.includes(from)),
      [],
      module.name
    );
  }
});

test("only what the table names is loaded on demand", () => {
  const found = modules
    .filter((module) => module.onDemand.length > 0)
    .map((module) => [module.name, module.onDemand]);
  assert.deepEqual(Object.fromEntries(found), onDemand);
});

test("the control: an import on demand is found, also of a computed name", () => {
  const code = 'await import("./b.js"); const load = (x) => import(x);';
  const [module] = modulesOf({ "src/program/a.ts": code });
  assert.deepEqual(module?.onDemand, ["src/program/b.ts", "a computed name"]);
});

test("serve and the library load nothing that is loaded on demand", () => {
  for (const entry of ["src/program/run.ts", "src/index.ts"]) {
    const loaded = loadedBy(entry);
    assert.ok(loaded.size > 10, `the control: what ${entry} loads is seen`);
    const { "src/server.ts": _, ...others } = onDemand;
    for (const name of Object.values(others).flat())
      assert.ok(!loaded.has(name), `${entry} loads ${name}`);
  }
});

test("the writer and the reader of the format never import each other", () => {
  const importsOf = (name: string): readonly string[] =>
    imports.get(name) ?? assert.fail(`there is no ${name}`);
  const reader = importsOf("src/journal/recover.ts");
  const writer = importsOf("src/journal/journal.ts");
  assert.ok(!reader.includes("src/journal/journal.ts"));
  assert.ok(!writer.includes("src/journal/recover.ts"));
  assert.ok(
    reader.includes("src/journal/record.ts"),
    "the control: the reader imports the format"
  );
});

/** Globals that reach something, and other ways to a module or to code from a text. */
const forbidden = new Set([
  ...["globalThis", "global", "fetch", "WebSocket", "EventSource", "Worker"],
  ...["BroadcastChannel", "navigator", "eval", "Function", "require"],
  ...[".createRequire", ".getBuiltinModule"]
]);

/** What a file must not use: these, the process outside of server.ts, packages, "fs" for "node:fs". */
const excessOf = ({ name, imports: imported, names }: Module) => [
  ...imported.filter((from) => !/^(?:src\/|node:)/.test(from)),
  ...names.filter(
    (each) =>
      forbidden.has(each) ||
      (["process", "console"].includes(each) && name !== "src/server.ts")
  )
];

test("no file uses a package, a global that reaches something, or code from a text", () => {
  assert.deepEqual(modules.flatMap(excessOf), []);
});

const controls: readonly (readonly [
  code: string,
  ...found: readonly string[]
])[] = [
  ['import x from "left-pad";', "left-pad"],
  ['import x from "fs";', "fs"],
  ["const { exit } = process;", "process"],
  ["use(console);", "console"],
  ["globalThis.process.exit();", "globalThis"],
  ["await fetch(url);", "fetch"],
  ["new WebSocket(url);", "WebSocket"],
  ["const run = eval;", "eval"],
  ["new Function(text);", "Function"],
  ['require("fs");', "require"],
  ['host.process.getBuiltinModule("fs");', ".getBuiltinModule"],
  ['import { y } from "node:util"; import { z } from "./config.js";'],
  ['host.process.exit(); const text = "process.exit()"; // console.log(1)'],
  ["const of = { fetch: y, console() {} }; class A { static process = z; }"]
];

test("the control: each of these is found, and what only looks like one is not", () => {
  const files = controls.map(([code], index) => [`src/${index}.ts`, code]);
  assert.deepEqual(
    modulesOf(Object.fromEntries(files)).map(excessOf),
    controls.map(([, ...found]) => found)
  );
});
