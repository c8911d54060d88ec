/** The tables of the documents that are computed from the code. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { limitTable } from "../../src/config.ts";
import { catalogue } from "../../src/http/errors.ts";
import { metricTable } from "../../src/program/serving/metrics.ts";
import { settingTable, tokenVariable } from "../../src/program/settings.ts";
import { root } from "../support/support.ts";
import { documentOf, documents, type Document } from "./documents.ts";
import { imports, loadedBy, modules } from "./modules.ts";

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
  /node:(?:assert|buffer|diagnostics_channel|events|path|stream.consumers|timers.promises|url|util|zlib)\b/;

function capabilities(): string {
  const users = new Map<string, string[]>();
  for (const { name, imports, names } of modules) {
    const used = [
      ...imports.filter((from) => from.startsWith("node:")),
      ...["process", "console"].filter((each) => names.includes(each))
    ];
    for (const each of used)
      users.set(code(each), [...(users.get(code(each)) ?? []), code(name)]);
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

/** What an auditor signs for. */
interface Claim {
  readonly name: string;

  /** The files that keep the claim: what they load is read, too. */
  readonly roots: readonly string[];

  /** Why some of these files are not read: files, or whole folders. */
  readonly leftOut?: Readonly<Record<string, readonly string[]>>;

  /** The claim that was signed for before, whose files need no second look. */
  readonly before?: Claim;
}

const journalClaim: Claim = {
  name: "durability: a 200 stays true",
  roots: ["src/service.ts", "src/journal/journal.ts"],
  leftOut: {
    "only values": ["src/config.ts", "src/options.ts", "src/system.ts"],
    "which plants are taken, not what happens to them": [
      "src/http/bearer.ts",
      "src/http/body.ts",
      "src/http/content.ts",
      "src/http/head.ts",
      "src/http/router.ts",
      "src/json/"
    ]
  }
};

const claims: readonly Claim[] = [
  journalClaim,
  {
    name: "durability on a stream: these, too",
    roots: ["src/nats/nats.ts"],
    before: journalClaim
  },
  {
    name: "strictness: nothing doubtful is accepted",
    roots: ["src/http/strict-server.ts", "src/service.ts"],
    leftOut: {
      "only values": ["src/config.ts", "src/options.ts"],
      "after the acceptance": ["src/append.ts", "src/store.ts"]
    }
  },
  {
    name: "secrets: none gets out, none is guessed",
    roots: [
      "src/http/idempotency-key.ts",
      "src/journal/keys.ts",
      "src/nats/address.ts",
      "src/nats/server-connection.ts",
      "src/program/serving/access-log.ts",
      "src/program/serving/listen.ts",
      "src/program/serving/log.ts",
      "src/program/serving/tokens.ts"
    ],
    leftOut: {
      "only values": ["src/config.ts", "src/system.ts", "src/nats/limits.ts"],
      "no secret reaches them": [
        "src/append.ts",
        "src/failure.ts",
        "src/journal/lines.ts",
        "src/journal/record.ts",
        "src/journal/sockets.ts",
        "src/json/",
        "src/plant.ts",
        "src/store.ts"
      ]
    }
  }
];

/** The files that the roots of a claim load, with them. */
const loadedFor = ({ roots }: Claim): readonly string[] =>
  [...new Set(roots.flatMap((root) => [...loadedBy(root)]))].filter((name) =>
    name.startsWith("src/")
  );

/** The files to read for a claim, in the order of the tour. */
function readFor(claim: Claim): readonly string[] {
  const skipped = Object.values(claim.leftOut ?? {}).flat();
  const loaded = loadedFor(claim);
  const unused = skipped.filter(
    (each) => !loaded.some((name) => name.startsWith(each))
  );
  if (unused.length > 0) throw new Error(`not loaded: ${unused.join()}`);
  const known = claim.before ? loadedFor(claim.before) : [];
  const { text } = documentOf("src/README.md");
  return loaded
    .filter((name) => !skipped.some((each) => name.startsWith(each)))
    .filter((name) => !known.includes(name))
    .sort((a, b) => text.indexOf(`\n${a} `) - text.indexOf(`\n${b} `));
}

function audit(): string {
  const rows = claims.map((claim) => {
    const files = readFor(claim);
    const lines = files
      .map((name) => readFileSync(join(root, name), "utf8").split("\n").length)
      .reduce((sum, each) => sum + each);
    const leftOut = Object.entries(claim.leftOut ?? {}).map(
      ([why, skipped]) => `${why}: ${skipped.map(code).join(", ")}`
    );
    return [
      claim.name,
      files.map(code).join(", "),
      leftOut.join("; ") || "nothing",
      `${Math.ceil(lines / 300) / 2}`
    ];
  });
  return tableOf("to sign for | read | left out, and why | hours", rows);
}

/** The box that a file is in: its folder, or itself. */
function boxOf(name: string): string {
  const [file = "", folder = "src"] = name.split("/").toReversed();
  return folder === "src" || file === "run.ts" ? file : `${folder}/`;
}

/** Which box imports which, now or on demand, without arrows that a longer path implies. */
function diagram(): string {
  const boxes = new Map<string, Set<string>>();
  for (const { name, onDemand } of modules) {
    const box = boxOf(name);
    const below = boxes.get(box) ?? new Set<string>();
    for (const from of [...(imports.get(name) ?? []), ...onDemand])
      if (from.startsWith("src/")) below.add(boxOf(from));
    below.delete(box);
    boxes.set(box, below);
  }
  const leadsTo = (from: string, to: string): boolean =>
    [...(boxes.get(from) ?? [])].some(
      (next) => next === to || leadsTo(next, to)
    );
  const arrows = [...boxes].flatMap(([box, below]) =>
    [...below]
      .filter((to) => ![...below].some((other) => leadsTo(other, to)))
      .map((to) => `  ${box} --> ${to}`)
  );
  return ["```mermaid", "flowchart TD", ...arrows.sort(), "```"].join("\n");
}

export const tables: Readonly<Record<string, () => string>> = {
  metrics,
  errors,
  headers,
  settings,
  limits,
  capabilities,
  diagram,
  audit
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
  return { document, found, expected: tables[name]?.() ?? "" };
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
