/** One reader of whole journals: what `verify`, `cat` and `readJournal` find, each kind of damage. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { readJournal } from "../../src/index.ts";
import { linesOf, type Bytes } from "../../src/journal/lines.ts";
import { planOpening } from "../../src/journal/rewrite.ts";
import { verifyJournal } from "../../src/journal/verify.ts";
import type { Host } from "../../src/program/host.ts";
import { begin, run, start } from "../support/in-process.ts";
import {
  bytesOf,
  completedOf,
  ends,
  noHeader,
  noPlant,
  six,
  type End
} from "../support/ends.ts";
import {
  at,
  bytesIn,
  header,
  journalWithKeys,
  lineOf,
  read,
  record
} from "../support/journals.ts";
import { statusOf } from "../support/operator.ts";
import { placeIn, temporaryFolder } from "../support/support.ts";
import { mockFs } from "../support/tools.ts";

const name = "plants.ndjson";

const whole = `${six}`;
const codes = { whole: 0, torn: 1, damaged: 65, empty: 65 };

/** What an opening does with an end, as `verify` says it. */
function openingOf({ file, rewritten, verdict }: End): string {
  if (verdict.kind === "refused") return `refuses it at offset ${verdict.at}`;
  if (verdict.kind === "new") return "creates a new journal";
  if (rewritten !== undefined)
    return `rewrites it from offset ${rewritten} as in .rewrite`;
  if (verdict.kind === "clean") return "uses it as it is";
  const end = verdict.kind === "torn" ? verdict.at : file?.length;
  return `repairs it from offset ${end}`;
}

/** What an opening leaves of an end; all of a file that it refuses. */
function leftOf(state: End): Buffer {
  const { verdict } = state;
  const completed = completedOf(state);
  switch (verdict.kind) {
    case "torn":
      return completed.subarray(0, verdict.at);
    case "unterminated":
      return bytesOf(completed, "\n");
    default:
      return completed;
  }
}

/** The ids of all lines that are records, also after bad ones. */
const idsOf = (file: Buffer): readonly number[] =>
  file
    .toString()
    .split("\n")
    .map((line) => `${line}\n`)
    .filter((line) => line === lineOf(line.slice(0, -19)))
    .flatMap((line) =>
      /^\{"seq":[1-9]\d*,.*"synced":[1-9]\d*,"plant":\{/.test(line)
        ? [Number(JSON.parse(line).plant.id)]
        : []
    );

/** What the readers say of an end: the independent reader of these tests finds the first bad line. */
function expectedOf(state: End) {
  const { verdict, damage, rewritten } = state;
  const left = leftOf(state);
  const isEmpty = verdict.kind === "new";
  const [, fault] = / at (\d+)$/.exec(read(left).fault) ?? [];
  const isDamaged = fault !== undefined || verdict.kind === "refused";
  const offset = fault ?? ("at" in verdict ? verdict.at : 0);
  const isRepaired =
    rewritten !== undefined || /^(?:torn|unterm)/.test(verdict.kind);
  return {
    verdict: isEmpty
      ? "empty"
      : isDamaged
        ? "damaged"
        : isRepaired
          ? "torn"
          : "whole",
    ids: isEmpty ? [] : idsOf(left),
    offset: isEmpty || isDamaged ? Number(isEmpty ? 0 : offset) : undefined,
    damage: damage ?? (isEmpty ? ([noHeader, 1] as const) : undefined)
  } as const;
}

const folder = temporaryFolder();
const path = join(folder, name);

for (const [says, state] of Object.entries(ends)) {
  const { file, copy } = state;
  if (!file) continue;
  test(`verify, cat and readJournal agree on this end: ${says}`, async () => {
    rmSync(`${path}.rewrite`, { force: true });
    writeFileSync(path, file);
    if (copy !== undefined) writeFileSync(`${path}.rewrite`, copy);
    const { verdict, ids, offset, damage } = expectedOf(state);
    const opening = openingOf(state);

    const json = await run(["verify", "--json", name], {}, folder);
    assert.equal(json.code, codes[verdict], json.stdout);
    const report = JSON.parse(json.stdout);
    const { first, last, bytes, badLines, damage: found, ...others } = report;
    assert.deepEqual(others, {
      path: name,
      verdict,
      records: ids.length,
      opening,
      isOpen: false
    });
    assert.equal(first, ids.length > 0 ? at : undefined);
    assert.equal(last, first);
    assert.equal(found?.offset, offset);
    if (damage) assert.deepEqual([found.reason, badLines], damage);

    const text = await run(["verify", name], {}, folder);
    assert.equal(text.code, json.code);
    assert.equal(
      text.stdout,
      `${name}: ${verdict}, records: ${ids.length}, bytes: ${bytes}` +
        (first === undefined ? "" : `; from ${first} to ${last}`) +
        (verdict === "whole" ? "" : `; opening ${opening}`) +
        (found ? `; at offset ${offset}, ${found.reason}` : "") +
        (found ? `; bad lines: ${badLines}\n` : "\n") +
        (verdict === "damaged"
          ? `${name}: restore it from a backup, or go on with what cat prints\n`
          : "")
    );

    const printed = await run(["cat", name], {}, folder);
    assert.equal(printed.code, found ? 65 : 0);
    assert.deepEqual(
      [...printed.stdout.matchAll(/^\{"id":(\d+)/gm)].map(([, id]) =>
        Number(id)
      ),
      ids
    );
    const what = `at offset ${offset}, ${found?.reason}; bad lines: ${badLines}`;
    assert.equal(
      printed.stderr,
      found ? `plant-store: ${name}: ${what}\n` : ""
    );

    const read: number[] = [];
    const reading = (async () => {
      for await (const { plant } of readJournal(path))
        read.push(Number(plant.id));
    })();
    // Whatever a plant must be, its text is kept; the library gives plants with an id and a name.
    if (says === noPlant)
      await assert.rejects(reading, {
        code: "damaged",
        message: new RegExp(
          `^${path}: at offset \\d+, expected a plant with an id$`
        )
      });
    else if (found)
      await assert.rejects(reading, {
        name: "JournalError",
        code: "damaged",
        offset,
        message: `${path}: ${what}`
      });
    else await reading;
    assert.deepEqual(read, says === noPlant ? ids.slice(0, -1) : ids);
    assert.deepEqual(readFileSync(path), file, "untouched");
  });
}

test("the worst of several files decides the exit code, and all are reported", async () => {
  const folder = temporaryFolder();
  const files = {
    whole,
    torn: whole.slice(0, -9),
    damaged: whole.replace("Fern", "Farn")
  };
  for (const [file, text] of Object.entries(files))
    writeFileSync(join(folder, file), text);
  assert.equal(spawnSync("mkfifo", [join(folder, "fifo")]).status, 0);
  for (const [given, verified, printed] of [
    ["whole whole", 0, 0],
    ["whole torn", 1, 0],
    ["torn damaged", 65, 65],
    ["damaged nowhere", 65, 65],
    ["torn nowhere whole", 74, 74],
    ["nowhere fifo whole", 65, 65],
    [". whole", 65, 65],
    ["./- whole", 74, 74]
  ] as const)
    for (const [command, code] of [
      ["verify", verified],
      ["cat", printed]
    ] as const) {
      const names = given.split(" ");
      const found = await run([command, ...names], {}, folder);
      assert.equal(found.code, code, `${command} ${given}`);
      for (const file of names)
        assert.equal(
          found.stderr.includes(`plant-store: ${file}: `),
          /nowhere|fifo|\.|-/.test(file) ||
            (command === "cat" && file === "damaged"),
          `${command} ${given}: ${found.stderr}`
        );
      assert.match(found.stdout, /Fern|whole|torn|damaged/);
    }
});

test("a read error within a file has the file's name, and the next file is read", async (t) => {
  const folder = temporaryFolder();
  writeFileSync(join(folder, "a"), journalWithKeys(300_000));
  writeFileSync(join(folder, "b"), whole);
  mockFs(t, "readSync", (real, ...given) => {
    // Neither the start, nor the end, which an opening reads.
    const offset = Number(given[4]);
    if (offset > 65_536 && offset < 200_000)
      throw Object.assign(new Error("EIO: i/o error, read"), { errno: -5 });
    return real();
  });
  for (const command of ["verify", "cat"]) {
    const found = await run([command, "a", "b"], {}, folder);
    assert.equal(found.code, 65);
    assert.equal(found.stderr, "plant-store: a: EIO: i/o error, read\n");
    assert.match(found.stdout, /b: whole|^\{"id":3,"name":"Fern"\}$/m);
  }
});

test("beside a live server, verify reads up to the last line, says so, and does not disturb it", async () => {
  const { folder, path } = placeIn();
  const server = await start({ cwd: folder });
  assert.equal(await statusOf(server), 200);
  // A copy that is not whole: nothing was truncated yet.
  writeFileSync(`${path}.rewrite`, "");
  const { code, stdout } = await run(["verify", "--json", name], {}, folder);
  assert.equal(code, 0);
  const report = JSON.parse(stdout);
  assert.equal(report.records, 1);
  assert.equal(report.opening, undefined);
  assert.equal(report.isOpen, true);
  assert.match(
    (await run(["verify", name], {}, folder)).stdout,
    /^plants\.ndjson: whole, records: 1, bytes: \d+; from \S+ to \S+; a server has it open\n$/
  );
  assert.equal(await statusOf(server), 200);

  // As beside a server that creates it.
  truncateSync(path);
  for (const command of ["verify", "cat"]) {
    const created = await run([command, name], {}, folder);
    assert.equal(created.code, 75);
    assert.equal(
      created.stderr,
      `plant-store: ${name}: changed while it was read: read it again\n`
    );
  }
  assert.equal(await server.end(), 0);
});

/** Verifies a file; shows only what a server's own write may change. */
function verifiedBeside(file: Bytes, isOpen: boolean) {
  const plan = planOpening(file, undefined);
  const { records, damage } = verifyJournal(plan, isOpen, () => {});
  return [records, damage?.offset];
}

test("beside a live server, lines that it truncates and rewrites are no damage", () => {
  const textOf = (length: number): string =>
    `{"id":7,"name":"${"x".repeat(length)}"}`;
  const certified = header + record(1, 133, textOf(30_000));
  const write = (...lengths: readonly number[]): Buffer =>
    Buffer.from(
      certified +
        lengths
          .map((length, index) =>
            record(2 + index, certified.length, textOf(length))
          )
          .join("")
    );
  // A write that found no space, in part; it is truncated, and another takes its place.
  const full = write(20_000, 10_000, 40_000, 40_000).subarray(0, -9);
  const next = write(100, 50_000, 60_000);
  const reading = (isOpen: boolean) => {
    let file = full;
    let headers = 0;
    const read = (from: number, length: number): Buffer => {
      // The walk begins: its first block is read, then it is truncated.
      if (from === 0 && length > 1_000) headers++;
      const bytes = file.subarray(from, from + length);
      if (headers > 0) file = next;
      return bytes;
    };
    return verifiedBeside({ size: () => full.length, read }, isOpen);
  };
  assert.deepEqual(reading(true), [3, undefined]);
  assert.equal(typeof reading(false)[1], "number", "the control: it is met");
  assert.deepEqual(
    verifiedBeside(bytesIn(next.subarray(0, -9)), true),
    [3, undefined],
    "a last line without LF"
  );
  // What was certified when the reading began is reported, beside a live server, too; no more is.
  for (const [at, found] of [
    [200, 133],
    [certified.length, undefined]
  ] as const) {
    const damaged = Buffer.from(next).fill("y", at, at + 10);
    assert.equal(verifiedBeside(bytesIn(damaged), true)[1], found);
  }
});

test("verify draws a bar on a terminal alone, and wipes it", async () => {
  const folder = temporaryFolder();
  // More thousands of lines than the bar has cells.
  writeFileSync(join(folder, name), `${whole}${"x\n".repeat(40_000)}no LF`);
  for (const isTTY of [true, false]) {
    let drawn = "";
    const stderr = { isTTY, write: (text: string) => void (drawn += text) };
    const host = { stderr: stderr as unknown as Host["stderr"] };
    const running = begin(["verify", name], {}, { cwd: folder, host });
    assert.equal(await running.ended, 65);
    const bars = drawn.match(/\r\[#*\.*\]\x1b\[K/g) ?? [];
    assert.equal(new Set(bars).size, isTTY ? 25 : 0);
    for (const bar of bars) assert.equal(bar.length, bars[0]?.length);
    assert.equal(drawn, isTTY ? `${bars.join("")}\r\x1b[K` : "");
  }
});

test("lines whose ends are at a block's end, or near it, are read whole", () => {
  for (const blocks of [1, 2, 3]) {
    for (const more of [-1, 0, 1]) {
      const lengths = [blocks * 65_536 + more, 5, blocks * 65_536 - 7 + more];
      const texts = lengths.map((length) => "x".repeat(length));
      const file = Buffer.from(texts.join("\n"));
      const found = [...linesOf(bytesIn(file), 0, file.length)];
      assert.deepEqual(
        found.map(({ text, isWhole }) => [`${text}`, isWhole]),
        texts.map((text, index) => [text, index < 2])
      );
      assert.deepEqual(
        found.map(({ offset }) => offset),
        [0, found[0]?.end, found[1]?.end]
      );
      assert.equal(found.at(-1)?.end, file.length);
    }
  }
});
