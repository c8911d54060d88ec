/** The tables of the documents that are computed from the code. */
import { readFileSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { limitTable } from "../../src/config.ts";
import { catalogue } from "../../src/http/errors.ts";
import { metricTable } from "../../src/program/metrics.ts";
import { settingTable, tokenVariable } from "../../src/program/settings.ts";
import { root } from "../support/support.ts";
import { documents, type Document } from "./documents.ts";
import {
  importsOf,
  runtimeImportsOf,
  sourcesIn,
  tokensOf,
  type Source
} from "./source.ts";

export const sources = sourcesIn("src");
export const manifest = JSON.parse(
  readFileSync(join(root, "package.json"), "utf8")
);

function tableOf(head: string, rows: readonly (readonly unknown[])[]): string {
  const line = (cells: readonly unknown[]): string =>
    `| ${cells.join(" | ")} |`;
  const titles = head.split(" | ");
  return [line(titles), line(titles.map(() => "---")), ...rows.map(line)].join(
    "\n"
  );
}

const code = (text: string): string => (text === "" ? "none" : `\`${text}\``);
const grouped = (value: number): string => value.toLocaleString("en");
const sumOf = (some: readonly Source[]): string =>
  grouped(some.reduce((sum, source) => sum + tokensOf(source), 0));

const closing = ([name]: readonly [string, string]): boolean =>
  name === "Connection";

function errors(): string {
  const rows = Object.values(catalogue).map(([error, what, ...fields]) => [
    `${error}${fields.some(closing) ? "*" : ""}`,
    what
  ]);
  return tableOf("error | what is wrong", rows);
}

function headers(): string {
  const fields = Object.values(catalogue).flatMap(([error, , ...those]) =>
    those
      .filter((field) => !closing(field))
      .map(([name, value]) => [`${name}: ${value}`, error] as const)
  );
  const rows = [...new Set(fields.map(([field]) => field))].map((field) => [
    code(field),
    fields
      .flatMap(([each, error]) => (each === field ? [error] : []))
      .join(", ")
  ]);
  return tableOf("field | errors", rows);
}

/**
 * What a flag is for, without what follows after a colon, which `--help` shows, and without when a
 * file is read, which the prose says.
 */
const briefly = (meaning: string): string =>
  meaning.replace(/(?<=\p{L}): .*|, read .*/u, "");

function settings(): string {
  const rows = Object.values(settingTable).map((setting) => [
    code(`--${setting.flag}`) +
      ("environment" in setting ? `, ${code(setting.environment)}` : ""),
    code(String(setting.defaultValue)),
    briefly(setting.meaning)
  ]);
  return tableOf("flag | default | meaning", [
    ...rows,
    [code(tokenVariable), "none", "one token itself"]
  ]);
}

function limits(): string {
  const rows = Object.entries(limitTable).map(([name, limit]) => {
    const { flag, defaultValue, unit, meaning } = limit;
    return [
      code(`--${flag}`),
      code(name),
      `${grouped(defaultValue)} ${unit}`,
      briefly(meaning)
    ];
  });
  return tableOf("flag | library | default | meaning", rows);
}

const inside =
  /node:(?:assert|buffer|diagnostics_channel|events|path|stream.consumers|timers.promises|util|zlib)\b/;

function capabilities(): string {
  const users = new Map<string, string[]>();
  for (const source of sources) {
    const names = runtimeImportsOf(source).filter((from) =>
      from.startsWith("node:")
    );
    const globals = ["process", "console", "fetch"].filter((name) =>
      new RegExp(String.raw`(?<![\w.])${name}\s*[.[(]`).test(source.bare)
    );
    for (const name of new Set([...names, ...globals])) {
      users.set(code(name), [
        ...(users.get(code(name)) ?? []),
        code(source.name)
      ]);
    }
  }
  const sorted = [...users].sort(([a], [b]) => (a < b ? -1 : 1));
  const rows = sorted
    .filter(([name]) => !inside.test(name))
    .map(([name, list]) => [name, list.join(", ")]);
  const others = sorted.flatMap(([name]) => (inside.test(name) ? [name] : []));
  return tableOf("reaches | files", [
    ...rows,
    [others.join(", "), "any: these reach nothing outside of the process"]
  ]);
}

/** Words with which a sentence goes on after it has said what a file is. */
const addition =
  /(?:(?<=^(?=[\w`]+ ).{14,})[:;] |(?<=.{15}), (?:and )?(?:as|bounded|built|by|compared|each|exactly|for|from|in|the|under|with|within) ).*$/;

/**
 * The first sentence of each file, without what it adds. Keeps the document's order, which is the
 * reader's; files that it lacks come last.
 */
function tour(found: string): string {
  const order = [...found.matchAll(/^src\/\S+/gm)].map(([file]) => file);
  const placeOf = ({ name }: Source): number =>
    order.indexOf(name) + 1 || Infinity;
  const width = Math.max(...sources.map(({ name }) => name.length));
  const rows = sources
    .toSorted((a, b) => placeOf(a) - placeOf(b) || 0)
    .map(({ name, text }) => {
      const [, first = ""] =
        /\/\*\*\s+(?:\* )?([\s\S]*?[.?])(?=\s)/.exec(text) ?? [];
      const sentence = first
        .replace(/\s*\n \* ?/g, " ")
        .replace(/ \([^)]*\)|\.$/g, "");
      return `${name.padEnd(width)}  ${sentence.replace(addition, "")}`;
    });
  return ["```text", ...rows, "```"].join("\n");
}

function facts(): string {
  const others = /for version in ([\d ]+);/.exec(
    readFileSync(join(root, ".ci/run"), "utf8")
  )?.[1];
  const nodes = [
    /\d+/.exec(manifest.engines.node)?.[0],
    ...(others?.split(" ") ?? [])
  ].join(", ");
  return `Tested on Node ${nodes}. [The source](src/README.md) has ${sources.length} files.`;
}

/** What loads a file by `import()`, and that file; tidy's layers say where else `import()` may be. */
const onDemand = {
  "`--admin` adds": "src/program/admin.ts",
  "`--store nats://…` adds": "src/engines/nats.ts",
  "`import` and `export` add to a stream's": "src/program/transfer.ts"
};

/** The files that a file loads by import statements, and itself. */
function loadedBy(
  name: string,
  known: ReadonlySet<string> = new Set()
): ReadonlySet<string> {
  const source = sources.find((each) => each.name === name);
  return !source || known.has(name)
    ? known
    : runtimeImportsOf(source).reduce<ReadonlySet<string>>(
        (all, from) => loadedBy(from, all),
        new Set([...known, name])
      );
}

/** What the program loads with its defaults. */
export const loadedByDefault = [...loadedBy("src/server.ts")];

function loading(): string {
  const found = sources.flatMap(({ name, code: text }) =>
    [...text.matchAll(/\bimport\("([^"]+)"\)/g)].map(([, to = ""]) =>
      join(dirname(name), to)
    )
  );
  const known = Object.values(onDemand);
  if (found.toSorted().join() !== known.toSorted().join()) {
    throw new Error(`onDemand names ${known.join()}, import() ${found.join()}`);
  }
  const rowOf = (what: string, files: readonly string[], names: string) => [
    what,
    files.length,
    sumOf(sources.filter(({ name }) => files.includes(name))),
    names
  ];
  const all = new Set(loadedByDefault);
  const namesOf = (files: readonly string[]): string => {
    const folder = dirname(files[0] ?? "");
    const isWhole = sources.every(
      ({ name }) => (dirname(name) === folder) === files.includes(name)
    );
    return isWhole
      ? `all of ${code(`${folder}/`)}`
      : files.map(code).join(", ") || "none";
  };
  const rest = Object.entries(onDemand).map(([what, file]) => {
    const files = [...loadedBy(file)].filter((name) => !all.has(name));
    for (const name of files) all.add(name);
    return rowOf(what, files, namesOf(files));
  });
  const types = sources
    .map(({ name }) => name)
    .filter((name) => !all.has(name));
  return tableOf("what runs | files | tokens | which", [
    rowOf("`serve` with its defaults", loadedByDefault, "all not named below"),
    ...rest,
    rowOf("nothing: only types", types, namesOf(types)),
    rowOf(
      "the library alone",
      [...loadedBy("src/index.ts")],
      "the first row's, without `src/server.ts`" + " and `src/program/`"
    )
  ]);
}

/** The folders and single files of src, an arrow from each to what it imports; ways around are left out. */
function layers(): string {
  const groupOf = (name: string): string =>
    relative("src", name).replace(/\/.*/, "/");
  const below = new Map(
    sources.map(({ name }) => [groupOf(name), new Set<string>()])
  );
  for (const source of sources) {
    for (const to of importsOf(source).map(groupOf)) {
      if (below.has(to) && to !== groupOf(source.name))
        below.get(groupOf(source.name))?.add(to);
    }
  }
  const reaches = (from: string, to: string): boolean =>
    [...(below.get(from) ?? [])].some(
      (each) => each === to || reaches(each, to)
    );
  const arrows = [...below].flatMap(([from, targets]) =>
    [...targets]
      .filter((to) => ![...targets].some((each) => reaches(each, to)))
      .map((to) => `  ${from} --> ${to}`)
  );
  return ["```mermaid", "flowchart TD", ...arrows, "```"].join("\n");
}

/** The names by type; what each one is, its HELP text says. */
function metrics(): string {
  const entries = Object.entries(metricTable);
  const rows = [...new Set(entries.map(([, [type]]) => type))].map((type) => [
    type,
    entries
      .flatMap(([name, [found]]) => (found === type ? [code(name)] : []))
      .join(", ")
  ]);
  return tableOf("type | metrics", rows);
}

export const tables: Readonly<Record<string, (found: string) => string>> = {
  facts,
  metrics,
  errors,
  headers,
  settings,
  limits,
  capabilities,
  tour,
  layers,
  loading
};

/** The one document that has a table, the table as it stands there, and as it has to be. */
export function findTable(name: string): {
  readonly document: Document;
  readonly found: string;
  readonly expected: string;
} {
  const marks = new RegExp(
    `(?<=<!-- table: ${name} -->\n)[\\s\\S]*?(?=\n<!-- end -->)`
  );
  const [document, ...others] = documents.flatMap((each) =>
    Array.from(each.text.matchAll(new RegExp(marks, "g")), () => each)
  );
  if (!document || others.length > 0)
    throw new Error(`expected one table ${name}`);
  const [found = ""] = marks.exec(document.text) ?? [];
  return { document, found, expected: tables[name]?.(found) ?? "" };
}

/** Writes the tables that differ from the code. */
export function updateTables(): void {
  for (const name of Object.keys(tables)) {
    const { document, found, expected } = findTable(name);
    if (found === expected) continue;
    const path = join(root, document.name);
    writeFileSync(
      path,
      readFileSync(path, "utf8").replace(found, () => expected)
    );
    console.error(`${document.name}: wrote the table ${name}`);
  }
}
