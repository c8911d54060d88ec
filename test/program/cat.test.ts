/** `cat` prints plants exactly as they are stored, also those after damage. */
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { at, header, headerBytes, record } from "../support/journals.ts";
import { begin, run } from "../support/in-process.ts";
import { temporaryFolder } from "../support/support.ts";

const plants = [
  '{"id":9223372036854775807,"name":"Färn \\u0000\\"","tag":"shade"}',
  '{"id":0,"name":""}'
];
const first = header + record(1, headerBytes, plants[0]);
const offset = Buffer.byteLength(first);
// A batch of two records.
const whole = first + record(2, headerBytes, plants[1]);
const printed = `${plants.join("\n")}\n`;

const bytes = Buffer.byteLength(whole);

for (const [says, args, files, stdout, code, stderr] of [
  ["prints plants as they are stored", "a", { a: whole }, printed, 0, /^$/],
  [
    "adds seq and at",
    "--at a --seq",
    { a: whole },
    plants
      .map(
        (text, index) => `{"seq":${index + 1},"at":"${at}",${text.slice(1)}\n`
      )
      .join(""),
    0,
    /^$/
  ],
  [
    "prints valid JSON for a plant without a member",
    "--seq a",
    { a: header + record(1, headerBytes, "{}") },
    '{"seq":1}\n',
    0,
    /^$/
  ],
  [
    "prints several files in their order",
    "b a",
    { a: first, b: whole },
    `${printed}${plants[0]}\n`,
    0,
    /^$/
  ],
  [
    "prints the plants after damage and those of the next file, and ends with 65",
    "a b",
    {
      a: whole.replace('"name":""', '"name":"x"') + record(3, bytes, plants[1]),
      b: whole
    },
    `${printed}${printed}`,
    65,
    new RegExp(
      `^plant-store: a: at offset ${offset}, expected a record with its checksum; bad lines: 1\n$`
    )
  ]
] as const) {
  test(`cat ${says}`, async () => {
    const cwd = temporaryFolder();
    for (const [name, text] of Object.entries(files))
      writeFileSync(join(cwd, name), text);
    const found = await run(["cat", ...args.split(" ")], {}, cwd);
    assert.match(found.stderr, stderr);
    assert.equal(found.stdout, stdout);
    assert.equal(found.code, code);
  });
}

const long = record(3, bytes, `{"id":3,"name":"${"ä\u2028".repeat(100_000)}"}`);
const longPlant = /"plant":(.*),"crc"/s.exec(long)?.[1];
const noRecord = "expected a record with its checksum";
const noHeader = "expected the header of a journal, version 1";

for (const [says, input, stdout, damage] of [
  [
    "a journal, and a line longer than a block",
    whole + long,
    `${printed}${longPlant}\n`
  ],
  ["a last record without its LF", whole.slice(0, -1), printed],
  ["several journals", whole + header + whole, printed + printed],
  ["nothing", "", "", [0, noHeader, 1]],
  ["a header begun", header.slice(0, 9), "", [0, noHeader, 1]],
  [
    "a changed byte",
    whole.replace('"name":""', '"name":"x"') + long,
    `${plants[0]}\n${longPlant}\n`,
    [offset, noRecord, 1]
  ],
  [
    "a torn end, because a compressed journal is complete",
    whole.slice(0, -9),
    `${plants[0]}\n`,
    [offset, noRecord, 1]
  ],
  [
    "damage in a second journal, where it is in the input",
    whole + whole.replace('"name":""', '"name":"x"'),
    `${printed}${plants[0]}\n`,
    [bytes + offset, noRecord, 1]
  ],
  [
    "a torn end before another journal",
    whole.slice(0, -9) + whole,
    `${plants[0]}\n${printed}`,
    [offset, noRecord, 1]
  ]
] as const) {
  test(`cat - reads ${says}`, async () => {
    const found = await run(["cat", "-"], {}, temporaryFolder(), input);
    const [place, reason, badLines] = damage ?? [];
    assert.equal(found.code, damage ? 65 : 0);
    assert.equal(found.stdout, stdout);
    assert.equal(
      found.stderr,
      damage
        ? `plant-store: -: at offset ${place}, ${reason}; bad lines: ${badLines}\n`
        : ""
    );
  });
}

test("cat ends quietly, without reading on, when its reader has gone", async () => {
  const cwd = temporaryFolder();
  let text = header;
  for (let seq = 1; seq <= 20_000; seq++)
    text += record(seq, text.length, '{"id":1,"name":"x"}');
  // Neither the damage at its end is met, nor the next file, which is missing.
  writeFileSync(join(cwd, "damaged"), `${text}x\n`);
  let prints = 0;
  const print = (): Promise<"closed"> => {
    prints++;
    return Promise.resolve("closed");
  };
  const options = { cwd, host: { print } };
  const running = begin(["cat", "damaged", "none"], {}, options);
  assert.equal(await running.ended, 0);
  assert.equal(running.stderr(), "");
  assert.equal(prints, 1);
  const { code: damaged, stdout } = await run(["cat", "damaged"], {}, cwd);
  assert.equal(damaged, 65, "the control");
  assert.equal(stdout, '{"id":1,"name":"x"}\n'.repeat(20_000), "the control");
});
