/**
 * What each file of the source imports and uses. Node's own parser reads this from `dist`, which is
 * the source without its types (dist.test.ts); type imports are read from the source.
 */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, posix } from "node:path";
import { root } from "../support/support.ts";

export interface Module {
  /** Path of the source, relative to the project. */
  readonly name: string;
  /** What import statements load: files of the source by path, all others as they are written. */
  readonly imports: readonly string[];
  /** The same for `import()`. */
  readonly onDemand: readonly string[];
  /** Variables that the code reads or calls, and members: `.name`. */
  readonly names: readonly string[];
}

/** Reads files, given as paths of the source and texts of built code. */
export function modulesOf(
  texts: Readonly<Record<string, string>>
): readonly Module[] {
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    ["--expose-internals", join(root, "test/repository/parse.cjs")],
    { input: JSON.stringify(texts), encoding: "utf8", maxBuffer: 1e8 }
  );
  assert.equal(status, 0, stderr);
  const found = JSON.parse(stdout) as Readonly<
    Record<string, Omit<Module, "name">>
  >;
  return Object.entries(found).map(([name, { imports, onDemand, names }]) => ({
    name,
    imports: imports.map((from) => pathOf(name, from)),
    onDemand: onDemand.map((from) => pathOf(name, from)),
    names
  }));
}

/** The path of the source that a file imports, or the name of a module. */
function pathOf(name: string, from: string): string {
  return from.startsWith(".")
    ? posix.join(dirname(name), from).replace(/\.js$/, ".ts")
    : from;
}

/** What a text of the source imports, type imports included. */
export function importsIn(name: string, text: string): readonly string[] {
  const statement = /^(?:import|export)\b[^;]*?(?: from )?"([^"]+)";/gm;
  return [...text.matchAll(statement)].map(([, from = ""]) =>
    pathOf(name, from)
  );
}

/** The paths of the source's files, relative to the project. */
export const sourceNames: readonly string[] = readdirSync(join(root, "src"), {
  recursive: true,
  encoding: "utf8"
})
  .filter((name) => name.endsWith(".ts"))
  .map((name) => `src/${name.replaceAll("\\", "/")}`)
  .sort();

const builtOf = (name: string): string =>
  name.replace(/^src\/(.*)\.ts$/, "dist/$1.js");

const textOf = (name: string): string => readFileSync(join(root, name), "utf8");

export const modules: readonly Module[] = modulesOf(
  Object.fromEntries(sourceNames.map((name) => [name, textOf(builtOf(name))]))
);

/** What each file imports, type imports included. */
export const imports: ReadonlyMap<string, readonly string[]> = new Map(
  sourceNames.map((name) => [name, importsIn(name, textOf(name))])
);

/** A file, and all that import statements load with it. */
export function loadedBy(name: string): ReadonlySet<string> {
  const loaded = new Set<string>();
  const load = (each: string): void => {
    const module = modules.find((one) => one.name === each);
    if (module === undefined || loaded.has(each)) return;
    loaded.add(each);
    module.imports.forEach(load);
  };
  load(name);
  return loaded;
}
