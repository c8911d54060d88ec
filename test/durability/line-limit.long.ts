/**
 * The longest line: what can be appended opens again, what is longer is bounded damage, and files
 * padded with 700 MiB are read in bounded memory.
 */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { statSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { openJournal, StoreError, type NewPlant } from "../../src/index.ts";
import { KeyWindow } from "../../src/journal/keys.ts";
import { frameBytesMax, lineBytesMax } from "../../src/journal/record.ts";
import { examine } from "../../src/journal/recover.ts";
import { planOpening } from "../../src/journal/rewrite.ts";
import { verifyJournal } from "../../src/journal/verify.ts";
import {
  bytesIn,
  header,
  headerBytes,
  lineOf,
  record,
  recordStart,
  uuid
} from "../support/journals.ts";
import {
  cleanEnvironment,
  program,
  temporaryFolder,
  token
} from "../support/support.ts";

const mib = 2 ** 20;

const key = `,"key":"${"A".repeat(22)}"`;
const plantBytesMax = lineBytesMax - frameBytesMax;
const emptyBytes = '{"id":1,"name":""}'.length;
const withTagBytes = '{"id":1,"name":"","tag":""}'.length;

const isInvalid = (error: unknown): boolean =>
  error instanceof StoreError &&
  error.code === "invalid" &&
  /most \d+ bytes/.test(error.message);

/** A plant whose JSON has so many bytes: characters of one byte, and of three. */
const plantOf = (bytes: number): NewPlant => ({
  id: 1n,
  name: "x".repeat((bytes - withTagBytes) % 3),
  tag: "€".repeat(Math.floor((bytes - withTagBytes) / 3))
});

test("the longest line opens again, a longer one is invalid", async () => {
  const path = join(temporaryFolder(), "plants.ndjson");
  const journal = await openJournal(path);
  journal.once("failed", () => assert.fail("nothing fails"));
  await assert.rejects(journal.append(plantOf(plantBytesMax + 1)), isInvalid);
  const plant = plantOf(plantBytesMax);
  assert.equal(await journal.appendOnce?.(plant, "A".repeat(22)), "stored");
  await journal.close();
  const { size } = statSync(path);
  assert.equal(
    size,
    headerBytes + record(1, headerBytes, "").length + key.length + plantBytesMax
  );
  const again = await openJournal(path);
  assert.equal(await again.appendOnce?.(plant, "A".repeat(22)), "replayed");
  await again.append({ id: 2n, name: "after it" });
  await again.close();
  assert.ok(statSync(path).size > size);
});

test("texts whose JSON is longer than a string can be are invalid, too", async () => {
  const journal = await openJournal(join(temporaryFolder(), "plants.ndjson"));
  const escaped = "\u0001".repeat(2 ** 24);
  const longest = "\u0001".repeat(2 ** 26);
  for (const plant of [
    { id: 1n, name: escaped },
    { id: 1n, name: "", tag: escaped },
    { id: 1n, name: longest },
    { id: 1n, name: longest, tag: longest },
    { id: 1n, name: "x".repeat(2 ** 29 - 24) },
    { id: 1n, name: "", tag: "x".repeat(2 ** 29 - 24) }
  ]) {
    await assert.rejects(journal.append(plant), isInvalid);
  }
  await journal.close();
});

test("two of the longest records and a third that is torn, NULs after it: it is torn there", () => {
  const plant = `{"id":1,"name":"${"x".repeat(plantBytesMax - emptyBytes)}"}`;
  const first = Buffer.from(record(1, headerBytes, plant));
  const second = Buffer.from(record(2, headerBytes + first.length, plant));
  const end = headerBytes + first.length + second.length;
  const torn = [second.subarray(9), Buffer.alloc(60 * mib)];
  const file = Buffer.concat([Buffer.from(header), first, second, ...torn]);
  const verdict = examine(bytesIn(file));
  assert.deepEqual(verdict, {
    kind: "torn",
    uuid,
    seq: 2,
    certified: headerBytes + first.length,
    end
  });
});

test("a line of 64 MiB is read by verify, with one byte more it is damaged", () => {
  const fill = (bytes: number): string =>
    `{"id":1,"name":"${"x".repeat(bytes)}"}`;
  const rest = Buffer.from(record(1, headerBytes, fill(0))).length;
  for (const [lineBytes, badLines] of [
    [lineBytesMax, 0],
    [lineBytesMax + 1, 1]
  ] as const) {
    const long = Buffer.from(record(1, headerBytes, fill(lineBytes - rest)));
    assert.equal(long.length, lineBytes);
    const after = Buffer.from(record(2, headerBytes + lineBytes, fill(4)));
    const file = Buffer.concat([Buffer.from(header), long, after]);
    const plan = planOpening(bytesIn(file), undefined);
    const report = verifyJournal(plan, false, () => {});
    const opening =
      badLines === 0
        ? "uses it as it is"
        : `refuses it at offset ${headerBytes}`;
    assert.equal(report.records, 2 - badLines);
    assert.equal(report.badLines, badLines);
    assert.equal(report.opening, opening);
    const reason = "expected a record with its checksum";
    assert.equal(report.damage?.reason, badLines === 0 ? undefined : reason);
  }
});

/** Runs the program; the most memory that it had, in MiB, and its output. The kernel's own
 * maximum of a process begins with that of the process which has started it: not VmHWM. */
function measured(folder: string, ...args: readonly string[]) {
  writeFileSync(
    join(folder, "report.cjs"),
    `process.on("exit", () => console.error(
    /VmHWM:\\s*(.*) kB/.exec(require("node:fs").readFileSync("/proc/self/status", "utf8"))[1]));`
  );
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    ["--require", "./report.cjs", program, ...args],
    {
      cwd: folder,
      encoding: "utf8",
      env: cleanEnvironment({ PLANTS_TOKEN: token })
    }
  );
  return {
    status,
    stdout,
    stderr,
    mebibytes: Number(/(\d+)\n$/.exec(stderr)?.[1]) / 1024
  };
}

const small = (seq: number, offset: number): Buffer =>
  Buffer.from(record(seq, offset, `{"id":${seq},"name":"Fern"}`));
const one = small(1, headerBytes);
const begin = Buffer.concat([Buffer.from(header), one]);

test("700 MiB of NULs after a journal are 65 for verify and for serve, in bounded memory", () => {
  const folder = temporaryFolder();
  const size = 700 * mib;
  writeFileSync(join(folder, "padded"), begin);
  truncateSync(join(folder, "padded"), size);
  const verified = measured(folder, "verify", "--json", "padded");
  assert.equal(verified.status, 65, verified.stderr);
  const { records, opening, damage } = JSON.parse(verified.stdout);
  assert.equal(records, 1);
  assert.equal(opening, `refuses it at offset ${size - 4 * lineBytesMax}`);
  const reason = "expected a record with its checksum";
  assert.deepEqual(damage, { offset: begin.length, reason });
  const served = measured(folder, "--store", "padded", "--port", "0");
  assert.equal(served.status, 65);
  assert.match(
    served.stderr,
    /at offset \d+, expected a record somewhere from here on; .*verify/
  );
  for (const { mebibytes } of [verified, served]) {
    assert.ok(mebibytes > 32 && mebibytes < 200, `${mebibytes} MiB`);
  }
  assert.equal(statSync(join(folder, "padded")).size, size);
});

test("damage longer than any line is not read at once, and the keys around it are remembered", () => {
  const plant = '{"id":1,"name":"Moss"}';
  const keyed = (seq: number, key: string): Buffer => {
    const start = recordStart(seq, headerBytes, plant);
    return Buffer.from(
      lineOf(start.replace(',"plant"', `,"key":"${key}","plant"`))
    );
  };
  const keys = ["A".repeat(22), "B".repeat(21) + "A"] as const;
  const damage = Buffer.alloc(lineBytesMax + 1);
  damage[lineBytesMax] = 0x0a;
  const lines = [keyed(1, keys[0]), damage, keyed(2, keys[1])];
  const file = bytesIn(Buffer.concat([Buffer.from(header), ...lines]));
  const reads: number[] = [];
  const read: typeof file.read = (offset, length) => {
    reads.push(length);
    return file.read(offset, length);
  };
  const window = new KeyWindow(2 * lineBytesMax);
  window.addFile({ ...file, read });
  assert.ok(Math.max(...reads) < lineBytesMax);
  for (const key of keys)
    assert.deepEqual(window.find(key, plant), { isReplay: true });
});
