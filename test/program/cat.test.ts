/** `cat` prints plants exactly as they are stored, also those after damage. */
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { readFileSync, renameSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import { lineBytesMax } from "../../src/journal/record.ts";
import {
  at,
  crcOf,
  header,
  headerBytes,
  record,
  uuid
} from "../support/journals.ts";
import { run, start } from "../support/in-process.ts";
import { ask, hangUp } from "../support/operator.ts";
import { recipeOf } from "../support/recipes.ts";
import { plant } from "../support/requests.ts";
import {
  cleanEnvironment,
  program,
  root,
  runningOf,
  temporaryFolder
} from "../support/support.ts";
import { missing } from "../support/tools.ts";

const timeout = 30_000;
const noJq = missing(["jq", "--version"]);
const plants = [
  '{"id":9223372036854775807,"name":"Färn \\u0000\\"","tag":"shade"}',
  '{"id":0,"name":""}'
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

const leftOut = new RegExp(
  `^plant-store: a: left out the end, from offset ${offset}: it is torn\n$`
);

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
    "prints several files in their order",
    "b a",
    { a: first, b: whole },
    `${printed}${plants[0]}\n`,
    0,
    /^$/
  ],
  [
    "prints nothing of a journal without records",
    "a",
    { a: header },
    "",
    0,
    /^$/
  ],
  [
    "refuses an empty file",
    "a b",
    { a: first, b: "" },
    `${plants[0]}\n`,
    65,
    /^plant-store: b: is empty: expected the header of a journal, version 1\n$/
  ],
  [
    "refuses a part of a header",
    "a",
    { a: header.slice(0, 9) },
    "",
    65,
    /: at offset 0, expected the header of a journal/
  ],
  [
    "keeps a last record that lacks only its LF",
    "a",
    { a: whole.slice(0, -1) },
    printed,
    0,
    /^$/
  ],
  [
    "leaves out an unfinished line",
    "a",
    { a: whole.slice(0, -9) },
    `${plants[0]}\n`,
    0,
    leftOut
  ],
  [
    "leaves out a torn write with NULs and an LF",
    "a",
    { a: `${first}${"\0".repeat(40)}\n` },
    `${plants[0]}\n`,
    0,
    leftOut
  ],
  [
    "refuses a text without LF",
    "a",
    { a: "plants" },
    "",
    65,
    /: at offset 0, expected the header of a journal/
  ],
  [
    "refuses NULs",
    "a",
    { a: "\0".repeat(300_000) },
    "",
    65,
    /: at offset 0, expected the header of a journal/
  ],
  [
    "names a compressed journal, and the command that helps",
    "a",
    { a: gzipSync(whole) },
    "",
    65,
    /^plant-store: a: is compressed: use "gzip -dc FILE \| plant-store cat -"\n$/
  ],
  [
    "takes a file with the beginning of a compressed one for no such one",
    "a",
    { a: Buffer.from([0x28, 0xb5, 0x2f]) },
    "",
    65,
    /: at offset 0, /
  ],
  [
    "reads the end that an interrupted opening left in .rewrite",
    "a",
    { a: first, "a.rewrite": copyOf(whole.slice(first.length), bytes) },
    printed,
    0,
    /^$/
  ],
  [
    "refuses a .rewrite of other records",
    "a",
    {
      a: whole,
      "a.rewrite": copyOf(record(2, offset, '{"id":3,"name":"x"}'), bytes)
    },
    "",
    65,
    /^plant-store: a: at offset \d+, it differs from its copy in \.rewrite\n$/
  ],
  [
    "prints the plants after a wrong checksum and those of the next file, and ends with 65",
    "a b",
    {
      a: whole.replace('"name":""', '"name":"x"') + record(3, bytes, plants[1]),
      b: whole
    },
    `${printed}${printed}`,
    65,
    new RegExp(
      `^plant-store: a: at offset ${offset}, the line's checksum is wrong\n$`
    )
  ],
  [
    "reports each damaged spot, and prints every plant between them",
    "a",
    {
      a:
        header +
        "x\n\ny\n" +
        record(2, headerBytes, plants[0]) +
        "x\n" +
        record(4, headerBytes, plants[1])
    },
    printed,
    65,
    new RegExp(
      `^plant-store: a: at offset ${headerBytes}, the line's checksum is wrong; bad lines after it: 2\n` +
        `plant-store: a: at offset \\d+, the line's checksum is wrong\n$`
    )
  ],
  [
    "prints the plants after a damaged header",
    "a",
    { a: whole.replace("journal", "yournal") },
    printed,
    65,
    /^plant-store: a: at offset 0, expected the header of a journal, version 1\n$/
  ],
  [
    "reports a gap, and prints the plant after it",
    "a",
    { a: `${first}${record(3, offset, plants[1])}x\n` },
    printed,
    65,
    new RegExp(
      "^plant-store: a: at offset \\d+, expected seq 2, found 3\n" +
        "plant-store: a: at offset \\d+, the line's checksum is wrong\n$"
    )
  ],
  [
    "reports what is no journal in one line, however many it has",
    "a",
    { a: "text\n".repeat(111) },
    "",
    65,
    /^plant-store: a: at offset 0, expected the header of a journal, version 1; bad lines after it: 110\n$/
  ],
  [
    "refuses what is no journal",
    "a",
    { a: "{}\n" },
    "",
    65,
    /: at offset 0, expected the header of a journal/
  ],
  [
    "names a file that is missing",
    "none",
    {},
    "",
    74,
    /^plant-store: none: does not exist\n$/
  ],
  [
    "goes on after files that it cannot read, and ends with the code of the worst",
    "none a b",
    { a: gzipSync(whole), b: whole },
    printed,
    65,
    /^plant-store: none: does not exist\nplant-store: a: is compressed: .*\n$/
  ],
  ["needs a file", "--seq", {}, "", 64, /cat needs the path of a journal/]
] as const) {
  test(`cat ${says}`, { timeout }, async () => {
    const cwd = temporaryFolder();
    for (const [name, text] of Object.entries(files))
      writeFileSync(join(cwd, name), text);
    const found = await run(["cat", ...args.split(" ")], {}, cwd);
    assert.match(found.stderr, stderr);
    assert.equal(found.stdout, stdout);
    assert.equal(found.code, code);
    for (const [name, text] of Object.entries(files))
      assert.deepEqual(readFileSync(join(cwd, name)), Buffer.from(text));
  });
}

test(
  "cat - prints what comes on standard input, and verifies it",
  { timeout },
  async () => {
    const long = record(
      3,
      bytes,
      `{"id":3,"name":"${"ä\u2028".repeat(100_000)}"}`
    );
    const catOf = async (input: string | Buffer) => {
      const { code, stdout, stderr } = await run(
        ["cat", "-"],
        {},
        temporaryFolder(),
        input
      );
      return [code, stdout, stderr] as const;
    };
    assert.deepEqual(await catOf(whole + long), [
      0,
      `${printed}${/"plant":(.*),"crc"/s.exec(long)?.[1]}\n`,
      ""
    ]);
    assert.deepEqual(await catOf(""), [
      65,
      "",
      "plant-store: -: is empty: expected the header of a journal, version 1\n"
    ]);
    const damage = `plant-store: -: at offset ${offset}, the line's checksum is wrong\n`;
    assert.deepEqual(
      await catOf(whole.replace('"name":""', '"name":"x"') + long),
      [65, `${plants[0]}\n${/"plant":(.*),"crc"/s.exec(long)?.[1]}\n`, damage]
    );
    assert.equal((await catOf(gzipSync(whole)))[0], 65);
    assert.deepEqual(
      await catOf(whole.slice(0, -1)),
      [0, printed, ""],
      "a last record that lacks only its LF"
    );
    assert.deepEqual(
      await catOf(whole.slice(0, -9)),
      [
        65,
        `${plants[0]}\n`,
        `plant-store: -: at offset ${offset}, the last ${bytes - offset - 9} bytes are not a whole line\n`
      ],
      "a torn end"
    );
    assert.match(
      (await catOf(whole.replaceAll("\n", "\r\n")))[2],
      /: at offset 0, the line ends in CRLF; bad lines after it: 2\n$/
    );
    assert.match(
      (await catOf(`${first}${record(2, offset).replace("\n", "\r\n")}`))[2],
      /the line ends in CRLF\n$/
    );
    assert.deepEqual(
      await catOf(
        `${first}${"x".repeat(lineBytesMax + 1)}\n${record(3, headerBytes, plants[1])}`
      ),
      [
        65,
        printed,
        `plant-store: -: at offset ${offset}, the line has over ${lineBytesMax} bytes\n`
      ]
    );
    const cwd = temporaryFolder();
    symlinkSync(join(root, "dist"), join(cwd, "dist"));
    const compressed = gzipSync(whole);
    for (const [bytes, status] of [
      [compressed, 0],
      [gzipSync(whole.replace("shade", "x")), 65],
      ["", 65],
      [compressed.subarray(9), 65]
    ] as const) {
      writeFileSync(join(cwd, "plants.ndjson-1.gz"), bytes);
      assert.equal(
        spawnSync("sh", ["-c", recipeOf("compressed")], {
          cwd,
          env: cleanEnvironment({})
        }).status,
        status
      );
    }
  }
);

test("cat - goes on with the next of several journals, and reports damage where it is in the input", async () => {
  const catOf = (input: string) =>
    run(["cat", "--seq", "-"], {}, temporaryFolder(), input);
  const numbered = plants
    .map((text, index) => `{"seq":${index + 1},${text.slice(1)}\n`)
    .join("");
  const joined = await catOf(whole + header + whole);
  assert.equal(joined.code, 0);
  assert.equal(joined.stderr, "");
  assert.equal(joined.stdout, numbered + numbered);
  const damaged = await catOf(whole + whole.replace('"name":""', '"name":"x"'));
  assert.equal(damaged.code, 65);
  assert.equal(
    damaged.stderr,
    `plant-store: -: at offset ${bytes + offset}, the line's checksum is wrong\n`
  );
  const torn = await catOf(whole.slice(0, -9) + whole);
  assert.equal(torn.code, 65);
  assert.equal(
    torn.stderr,
    `plant-store: -: at offset ${offset}, the line's checksum is wrong\n`
  );
  assert.equal(torn.stdout, `${numbered.split("\n")[0]}\n${numbered}`);
});

test(
  "cat ends quietly, without reading on, when its reader has gone",
  { timeout },
  async () => {
    const cwd = temporaryFolder();
    let text = header;
    for (let seq = 1; seq <= 20_000; seq++)
      text += record(seq, text.length, '{"id":1,"name":"x"}');
    // Neither the damage at its end is met, nor the next file, which is missing.
    writeFileSync(join(cwd, "damaged"), `${text}x\n`);
    const child = spawn(process.execPath, [program, "cat", "damaged", "none"], {
      cwd,
      env: cleanEnvironment({})
    });
    child.stdout.once("data", () => child.stdout.destroy());
    const running = runningOf(child);
    assert.equal(await running.ended, 0);
    assert.equal(running.stderr(), "");
    const { code: damaged, stdout } = await run(["cat", "damaged"], {}, cwd);
    assert.equal(damaged, 65, "the control");
    assert.equal(stdout, '{"id":1,"name":"x"}\n'.repeat(20_000), "the control");
  }
);

test(
  "the access log says in which record of which file a plant is, also after a rotation",
  { timeout },
  async () => {
    const cwd = temporaryFolder();
    const server = await start({ cwd, args: ["--log-requests"] });
    const path = join(cwd, "plants.ndjson");
    const keyed = plant.replace("\r\n", "\r\nIdempotency-Key: k\r\n");
    for (const request of [plant, keyed, keyed])
      assert.equal((await ask(server, request))[0]?.status, 200);
    renameSync(path, join(cwd, "old"));
    await hangUp(server, "now writing to");
    assert.equal((await ask(server, plant))[0]?.status, 200);
    await server.end();
    // A container's log has both outputs.
    const log =
      server.stdout() +
      server
        .events()
        .map((event) => JSON.stringify(event))
        .join("\n");
    const { stdout } = spawnSync(
      "sh",
      ["-c", recipeOf("readable").replace(" log", " -")],
      { encoding: "utf8", input: log }
    );
    if (noJq === false)
      assert.match(
        stdout,
        /^plant-store listening.*\n\d{4}-\d\d-\d\dT[\d:]+Z 30 serving http:.*\n/
      );
    const fileOf = (name: string) =>
      /"file":"(.*?)"/.exec(readFileSync(join(cwd, name), "utf8"))?.[1];
    const old = fileOf("old");
    const file = fileOf("plants.ndjson");
    assert.notEqual(old, file);
    const lines = server.events().filter(({ res }) => res !== undefined);
    assert.deepEqual(
      lines.map((line) => [line["seq"], line["file"], line["replayed"]]),
      [
        [1, old, undefined],
        [2, old, undefined],
        [undefined, undefined, true],
        [1, file, undefined]
      ]
    );
  }
);
