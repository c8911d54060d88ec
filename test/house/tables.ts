/** The tables of the documents that are computed from the code. */
import { readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { limitTable } from "../../src/config.ts";
import { catalogue } from "../../src/http/errors.ts";
import { metricTable } from "../../src/program/metrics.ts";
import { settingTable, tokenVariable } from "../../src/program/settings.ts";
import { root } from "../support/support.ts";
import { documents, type Document } from "./documents.ts";
import { partOf, runtimeImportsOf, sourcesIn, tokensOf, type Source } from "./source.ts";

export const sources = sourcesIn("src");
export const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));

function tableOf(head: string, rows: readonly (readonly unknown[])[]): string {
  const line = (cells: readonly unknown[]): string => `| ${cells.join(" | ")} |`;
  const titles = head.split(" | ");
  return [line(titles), line(titles.map(() => "---")), ...rows.map(line)].join("\n");
}

const code = (text: string): string => (text === "" ? "none" : `\`${text}\``);
const grouped = (value: number): string => value.toLocaleString("en");
const sumOf = (some: readonly Source[]): string =>
  grouped(some.reduce((sum, source) => sum + tokensOf(source), 0));

function errors(): string {
  const rows = Object.values(catalogue).map(([error, what, ...fields]) =>
    [error, what, fields.map(([name, value]) => code(`${name}: ${value}`)).join(", ")]);
  return tableOf("error | what is wrong | headers", rows);
}

function settings(): string {
  const rows = Object.values(settingTable).map((setting) => [
    code(`--${setting.flag}`) + ("environment" in setting ? `, ${code(setting.environment)}` : ""),
    code(String(setting.defaultValue)), setting.meaning]);
  return tableOf("flag | default | meaning", [...rows, [code(tokenVariable), "none", "one token itself; no flag, because `ps` shows flags"]]);
}

function limits(): string {
  const rows = Object.entries(limitTable).map(([name, limit]) => {
    const { flag, defaultValue, unit, meaning } = limit;
    return [code(`--${flag}`), code(name), `${grouped(defaultValue)} ${unit}`, meaning];
  });
  return tableOf("flag | library | default | meaning", rows);
}

const inside = /node:(?:assert|buffer|diagnostics_channel|events|path|stream.consumers|timers.promises|util|zlib)\b/;

function capabilities(): string {
  const users = new Map<string, string[]>();
  for (const source of sources) {
    const names = runtimeImportsOf(source).filter((from) => from.startsWith("node:"));
    const globals = ["process", "console", "fetch"].filter((name) =>
      new RegExp(String.raw`(?<![\w.])${name}\s*[.[(]`).test(source.bare));
    for (const name of new Set([...names, ...globals])) {
      users.set(code(name), [...users.get(code(name)) ?? [], code(source.name)]);
    }
  }
  const sorted = [...users].sort(([a], [b]) => (a < b ? -1 : 1));
  const rows = sorted.filter(([name]) => !inside.test(name)).map(([name, list]) => [name, list.join(", ")]);
  const others = sorted.flatMap(([name]) => (inside.test(name) ? [name] : []));
  return tableOf("reaches | files", [...rows, [others.join(", "), "any: these reach nothing outside of the process"]]);
}

/**
 * The first sentence of each file, up to a colon or semicolon if that says enough. Keeps the document's order, which is
 * the reader's; files that it lacks come last.
 */
function tour(found: string): string {
  const order = [...found.matchAll(/`(src\/[^`]+)`/g)].map(([, file = ""]) => file);
  const placeOf = ({ name }: Source): number => (order.indexOf(name) + 1 || Infinity);
  const rows = sources.toSorted((a, b) => placeOf(a) - placeOf(b) || 0).map((source) => {
    const [, first = ""] = /\/\*\*\s+(?:\* )?([\s\S]*?[.?])(?=\s)/.exec(source.text) ?? [];
    const sentence = first.replace(/\s*\n \* ?/g, " ").replaceAll("|", "\\|").replace(/\.$/, "");
    const [brief = ""] = sentence.split(/[:;] /);
    return [code(source.name), brief.includes(" ", 12) ? brief : sentence];
  });
  return tableOf("file | what it is", rows);
}

function facts(): string {
  const sum = (part: string): string => sumOf(sources.filter((each) => partOf(each) === part));
  const others = /for version in ([\d ]+);/.exec(readFileSync(join(root, ".ci/run"), "utf8"))?.[1];
  return tableOf("fact | value", [
    ["packages needed at run time", Object.keys(manifest.dependencies ?? {}).length],
    ["files of source", sources.length],
    ["tokens of source (names, numbers, strings, punctuation)", `${sum("core")} in the core, `
      + `${sum("program")} in the program around it, ${sum("engines")} in the optional engine`],
    ["tested on Node", [/\d+/.exec(manifest.engines.node)?.[0], ...others?.split(" ") ?? []].join(", ")],
  ]);
}

/** What loads a file by `import()`, and that file; tidy's layers say where else `import()` may be. */
const onDemand = {
  "`--admin`, besides the defaults": "src/program/admin.ts",
  "`--store nats://…`, besides the defaults": "src/engines/nats.ts",
  "`import` and `export`, besides those of a stream": "src/program/transfer.ts",
};

/** The files that a file loads by import statements, and itself. */
function loadedBy(name: string, known: ReadonlySet<string> = new Set()): ReadonlySet<string> {
  const source = sources.find((each) => each.name === name);
  return !source || known.has(name) ? known
    : runtimeImportsOf(source).reduce<ReadonlySet<string>>((all, from) => loadedBy(from, all), new Set([...known, name]));
}

/** What the program loads with its defaults. */
export const loadedByDefault = [...loadedBy("src/server.ts")];

function loading(): string {
  const found = sources.flatMap(({ name, code: text }) =>
    [...text.matchAll(/\bimport\("([^"]+)"\)/g)].map(([, to = ""]) => join(dirname(name), to)));
  const known = Object.values(onDemand);
  if (found.toSorted().join() !== known.toSorted().join()) {
    throw new Error(`onDemand names ${known.join()}, import() ${found.join()}`);
  }
  const rowOf = (what: string, files: readonly string[], names: string) => [what, files.length,
    sumOf(sources.filter(({ name }) => files.includes(name))), names];
  const all = new Set(loadedByDefault);
  const rest = Object.entries(onDemand).map(([what, file]) => {
    const files = [...loadedBy(file)].filter((name) => !all.has(name));
    for (const name of files) all.add(name);
    return rowOf(what, files, files.map(code).join(", "));
  });
  const types = sources.map(({ name }) => name).filter((name) => !all.has(name));
  return tableOf("what runs | files | tokens | which", [
    rowOf("`serve` with its defaults", loadedByDefault, "all that no other row names"), ...rest,
    rowOf("nothing: only types", types, types.map(code).join(", ") || "none"),
    rowOf("the library alone", [...loadedBy("src/index.ts")], "those of the first row that are neither"
      + " `src/server.ts` nor in `src/program/`"),
  ]);
}

const metrics = (): string => tableOf("metric | type | what it is",
  Object.entries(metricTable).map(([name, [type, help]]) => [code(name), type, help]));

export const tables: Readonly<Record<string, (found: string) => string>> = {
  facts, metrics, errors, settings, limits, capabilities, tour, loading,
};

/** The one document that has a table, the table as it stands there, and as it has to be. */
export function findTable(name: string): {
  readonly document: Document; readonly found: string; readonly expected: string;
} {
  const marks = new RegExp(`(?<=<!-- table: ${name} -->\n)[\\s\\S]*?(?=\n<!-- end -->)`);
  const [document, ...others] = documents.flatMap((each) =>
    Array.from(each.text.matchAll(new RegExp(marks, "g")), () => each));
  if (!document || others.length > 0) throw new Error(`expected one table ${name}`);
  const [found = ""] = marks.exec(document.text) ?? [];
  return { document, found, expected: tables[name]?.(found) ?? "" };
}

/** Writes the tables that differ from the code. */
export function updateTables(): void {
  for (const name of Object.keys(tables)) {
    const { document, found, expected } = findTable(name);
    if (found === expected) continue;
    const path = join(root, document.name);
    writeFileSync(path, readFileSync(path, "utf8").replace(found, () => expected));
    console.error(`${document.name}: wrote the table ${name}`);
  }
}
