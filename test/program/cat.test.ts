/** `cat` prints plants exactly as they are stored, and stops at damage. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { at, crcOf, header, headerBytes, record, uuid } from "../support/journals.ts";
import { ask, hangUp, plant, start } from "../support/operator.ts";
import { cleanEnvironment, program, run, temporaryFolder } from "../support/support.ts";

const timeout = 30_000;
const plants = [
  '{"id":9223372036854775807,"name":"Färn \\u0000\\"","tag":"shade"}', '{"id":0,"name":""}',
];
const first = header + record(1, headerBytes, plants[0]);
const offset = Buffer.byteLength(first);
// A batch of two records.
const whole = first + record(2, headerBytes, plants[1]);
const printed = `${plants.join("\n")}\n`;

const copyOf = (tail: string, size: number): string => {
  const copy = `{"rewrite":"${uuid}","offset":${offset},"size":${size}}\n${tail}`;
  return `${crcOf(copy)} ${copy}`;
};
const bytes = Buffer.byteLength(whole);

const cases: readonly (readonly [says: string, args: string, files: Readonly<Record<string, string>>,
  stdout: string, code: number, stderr: RegExp])[] = [
  ["prints plants as they are stored", "a", { a: whole }, printed, 0, /^$/],
  ["adds seq and at", "--at a --seq", { a: whole },
    plants.map((text, index) => `{"seq":${index + 1},"at":"${at}",${text.slice(1)}\n`).join(""), 0, /^$/],
  ["adds seq alone", "--seq a", { a: first }, `{"seq":1,${plants[0]?.slice(1)}\n`, 0, /^$/],
  ["prints several files in their order", "b a", { a: first, b: whole },
    `${printed}${plants[0]}\n`, 0, /^$/],
  ["prints nothing of a journal without records", "a b", { a: header, b: "" }, "", 0, /^$/],
  ["leaves out a last line without LF", "a", { a: whole.slice(0, -1) }, `${plants[0]}\n`, 0,
    /^plant-store: a: left out the last \d+ bytes: not a whole line\n$/],
  ["reads the end that an interrupted opening left in .rewrite", "a",
    { a: first, "a.rewrite": copyOf(whole.slice(first.length), bytes) }, printed, 0, /^$/],
  ["refuses a .rewrite of other records", "a",
    { a: whole, "a.rewrite": copyOf(record(2, offset, '{"id":3,"name":"x"}'), bytes) }, "", 65,
    /^plant-store: a: at offset \d+, it differs from its copy in \.rewrite\n$/],
  ["ends at a wrong checksum, after the plants before it", "a b",
    { a: whole.replace('"name":""', '"name":"x"'), b: whole }, `${plants[0]}\n`, 65,
    new RegExp(`^plant-store: a: at offset ${offset}, the line's checksum is wrong\n$`)],
  ["ends at a gap", "a", { a: first + record(3, offset) }, `${plants[0]}\n`, 65,
    /: at offset \d+, expected seq 2, found 3\n$/],
  ["refuses what is no journal", "a", { a: "{}\n" }, "", 65, /: at offset 0, expected the header of a journal/],
  ["names a file that is missing", "none", {}, "", 74, /^plant-store: none: does not exist\n$/],
  ["needs a file", "--seq", {}, "", 64, /cat needs the path of a journal/],
];
for (const [says, args, files, stdout, code, stderr] of cases) {
  test(`cat ${says}`, { timeout }, async () => {
    const cwd = temporaryFolder();
    for (const [name, text] of Object.entries(files)) writeFileSync(join(cwd, name), text);
    const found = await run(["cat", ...args.split(" ")], {}, cwd);
    assert.match(found.stderr, stderr);
    assert.deepEqual([found.stdout, found.code], [stdout, code]);
    for (const [name, text] of Object.entries(files)) assert.equal(readFileSync(join(cwd, name), "utf8"), text);
  });
}

test("cat ends quietly, without reading on, when its reader has gone", { timeout }, async () => {
  const cwd = temporaryFolder();
  let text = header;
  for (let seq = 1; seq <= 5_000; seq++) text += record(seq, text.length, '{"id":1,"name":"x"}');
  // Neither the damage at its end is met, nor the next file, which is missing.
  writeFileSync(join(cwd, "damaged"), `${text}x\n`);
  const child = spawn(process.execPath, [program, "cat", "damaged", "none"], { cwd, env: cleanEnvironment({}) });
  let stderr = "";
  child.stderr.on("data", (data: Buffer) => { stderr += data.toString(); });
  child.stdout.once("data", () => child.stdout.destroy());
  const [code] = await once(child, "close");
  assert.deepEqual([code, stderr], [0, ""]);
  const { code: damaged, stdout } = await run(["cat", "damaged"], {}, cwd);
  assert.deepEqual([damaged, stdout], [65, '{"id":1,"name":"x"}\n'.repeat(5_000)], "the control");
});

test("the access log says in which record of which file a plant is, also after a rotation", { timeout }, async () => {
  const cwd = temporaryFolder();
  const server = await start({ cwd, args: ["--log-requests"] });
  const path = join(cwd, "plants.ndjson");
  const keyed = plant.replace("\r\n", "\r\nIdempotency-Key: k\r\n");
  for (const request of [plant, keyed, keyed]) assert.equal((await ask(server, request))[0]?.status, 200);
  renameSync(path, join(cwd, "old"));
  await hangUp(server, "now writing to");
  assert.equal((await ask(server, plant))[0]?.status, 200);
  await server.end();
  const fileOf = (name: string) => /"file":"(.*?)"/.exec(readFileSync(join(cwd, name), "utf8"))?.[1];
  const [old, file] = [fileOf("old"), fileOf("plants.ndjson")];
  assert.notEqual(old, file);
  const lines = server.events().filter(({ res }) => res !== undefined);
  assert.deepEqual(lines.map((line) => [line["seq"], line["file"], line["replayed"]]), [
    [1, old, undefined], [2, old, undefined], [undefined, undefined, true], [1, file, undefined],
  ]);
});
