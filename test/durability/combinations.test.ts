/**
 * The design's table of openings, row by row, as predicates over facts. Every combination of the
 * facts that a file can have is made, the first row that holds is the verdict, and the opening,
 * on a simulated disk, must come to it.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { openJournal } from "../../src/journal/journal.ts";
import { JournalError } from "../../src/journal/error.ts";
import { headerStart, lineOf, record } from "../support/journals.ts";
import { SimulatedDisk } from "../support/simdisk.ts";

const path = "/plants.ndjson";
const headerOf = (version: number): string =>
  lineOf(headerStart().replace('"version":1', `"version":${version}`));

const heads = {
  "is ours": headerOf(1), "is of version 2": headerOf(2), "is another's": "hello\n",
  "is empty": "", "is a part": headerOf(1).slice(0, 70),
  "is a part with NULs": `${headerOf(1).slice(0, 70)}${"\0".repeat(63)}`,
  "is NULs": "\0".repeat(133), "has a NUL for its LF": headerOf(1).replace("\n", "\0"),
  "is a part with NULs over a record": `${headerOf(1).slice(0, 70)}${"\0".repeat(64)}`,
  "is NULs, a record too": "\0".repeat(233),
  "has NULs for its LF and a record": headerOf(1).replace("\n", "\0".repeat(101)),
} as const;
const first = `${headerOf(1)}${record(1, 133)}`;
const X = first.length;
/** What stands at X, with its LF. */
const linesAtX = {
  none: "", good: record(2, X), "with a wrong seq": record(5, X),
  "with a wrong synced": record(2, X - 9), "no record": lineOf('{"seq":2'),
  bad: record(2, X).replace("Fern", "Moss"), "bad with a NUL": record(2, X).replace("F", "\0"),
  "NULs": `${"\0".repeat(20)}\n`, blank: "\n", "in CRLF": record(2, X).replace("\n", "\r\n"),
} as const;
const tails = ["nothing", "NULs", "a claim"] as const;

interface Facts {
  readonly isHeld: boolean;
  readonly isRegular: boolean;
  readonly isReadable: boolean;
  readonly head: keyof typeof heads | "is missing";
  readonly line: keyof typeof linesAtX;
  readonly hasLf: boolean;
  readonly tail: (typeof tails)[number];
}

const isOneOf = (line: Facts["line"], ...lines: readonly Facts["line"][]): boolean =>
  lines.includes(line);
const hasChecksum = ({ line }: Facts): boolean =>
  isOneOf(line, "good", "with a wrong seq", "with a wrong synced", "no record");
/** Without its LF a line is one with what follows. */
const isLine = ({ hasLf, tail }: Facts): boolean => hasLf || tail === "nothing";
const hasNul = ({ line, tail }: Facts): boolean =>
  isOneOf(line, "bad with a NUL", "NULs") || tail === "NULs";
/** Only verify compares the last certified line's synced with the line before. */
const continues = (facts: Facts): boolean => isLine(facts) && (isOneOf(facts.line, "none", "good")
  || (facts.line === "with a wrong synced" && facts.hasLf && facts.tail === "a claim"));

/** Each row of the table, in its order: the first that holds is the verdict. */
const rows: readonly (readonly [found: string, verdict: string, holds: (f: Facts) => boolean])[] = [
  ["another process holds it", "locked", (f) => f.isHeld],
  ["not a regular file, a read error", "unreadable", (f) => !f.isRegular || !f.isReadable],
  ["missing, empty, or a part of a header", "new", (f) => isNewHead(f.head)],
  ["a header that is not ours", "damaged", (f) => f.head !== "is ours"],
  ["X is the end", "clean", (f) => continues(f) && f.hasLf && f.tail !== "NULs"],
  ["C > X", "damaged", (f) => !continues(f) && f.hasLf && f.tail === "a claim"],
  ["all is there but the last LF", "unterminated", (f) =>
    f.line === "good" && !f.hasLf && f.tail === "nothing"],
  ["torn", "torn", (f) => isTorn(f)], ["damaged or edited", "damaged", (f) => !isTorn(f)],
];
const isNewHead = (head: Facts["head"]): boolean => head === "is missing" || head === "is empty"
  || head === "is a part" || head === "is a part with NULs" || head === "is NULs"
  || head === "has a NUL for its LF";

/** An unfinished last line, NULs to the end, NULs in the last write; not after an edited line. */
function isTorn(facts: Facts): boolean {
  const { line, hasLf, tail } = facts;
  if (line === "none" || continues(facts)) return tail === "NULs";
  if (!hasLf) return tail === "nothing" ? !hasChecksum(facts) : tail === "NULs" || hasNul(facts);
  return isOneOf(line, "bad", "bad with a NUL", "NULs") && hasNul(facts);
}

function fileOf({ head, line, hasLf, tail }: Facts): Buffer | undefined {
  if (head === "is missing") return undefined;
  if (head !== "is ours") return Buffer.from(heads[head]);
  const text = first + (hasLf ? linesAtX[line] : linesAtX[line].slice(0, -1));
  const seq = line === "none" ? 2 : 3;
  const last = { nothing: "", NULs: "\0".repeat(30), "a claim": record(seq, text.length) };
  return Buffer.from(text + last[tail]);
}

function combinations(): readonly Facts[] {
  const both = [true, false];
  const all: Facts[] = [];
  for (const isHeld of both) for (const isRegular of both) for (const isReadable of both) {
    for (const head of [...Object.keys(heads), "is missing"] as Facts["head"][]) {
      for (const line of Object.keys(linesAtX) as Facts["line"][]) {
        for (const hasLf of both) for (const tail of tails) {
          all.push({ isHeld, isRegular, isReadable, head, line, hasLf, tail });
        }
      }
    }
  }
  // A missing file and one that is not regular are in no use; "none" and "blank" are only an LF.
  return all.filter((f) => (!f.isHeld || (f.isRegular && f.head !== "is missing"))
    && (f.isRegular || f.head !== "is missing")
    && (f.hasLf || !isOneOf(f.line, "none", "blank")));
}

/** What the opening makes of it. */
async function verdictOf(facts: Facts): Promise<string> {
  const disk = new SimulatedDisk();
  const file = fileOf(facts);
  if (file) disk.put(path, file);
  const look = disk.look.bind(disk);
  if (!facts.isRegular) {
    disk.look = (name) => {
      const seen = look(name);
      return seen && { ...seen, isFile: false };
    };
  }
  if (facts.isHeld) await disk.lock(path, look(path)?.identity ?? "", []);
  if (!facts.isReadable) disk.fail("read", { errno: 5 });
  try {
    await (await openJournal(path, { disk, limits: { keysBytesMax: 4096 } })).close();
  } catch (error) {
    assert.ok(error instanceof JournalError);
    assert.deepEqual(disk.bytes(path), file ?? Buffer.alloc(0), "a refusal touches nothing");
    return error.code;
  }
  const after = disk.bytes(path)?.toString() ?? "";
  const before = file?.toString() ?? "";
  if (disk.names().some((name) => name.includes(".torn-"))) {
    const [torn = ""] = disk.names().filter((name) => name.includes(".torn-"));
    assert.equal(after + (disk.bytes(torn)?.toString() ?? ""), before);
    return "torn";
  }
  if (after === before) return "clean";
  if (after === `${before}\n`) return "unterminated";
  return after.length === headerOf(1).length ? "new" : "another";
}

test("every combination of the table's facts fires one row, and has its verdict", async (t) => {
  const fired = new Map(rows.map(([found]) => [found, 0]));
  const wrong: string[] = [];
  for (const facts of combinations()) {
    const [found, verdict] = rows.find(([, , holds]) => holds(facts)) ?? assert.fail("no row");
    fired.set(found, (fired.get(found) ?? 0) + 1);
    const got = await verdictOf(facts);
    if (got !== verdict) wrong.push(`${JSON.stringify(facts)}: ${found}, ${verdict}; found ${got}`);
  }
  t.diagnostic(JSON.stringify(Object.fromEntries(fired)));
  assert.deepEqual(wrong, []);
  assert.deepEqual([...fired].filter(([, times]) => times === 0), [], "every row fires");
});
