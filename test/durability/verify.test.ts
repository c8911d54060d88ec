/** `verify` as its operator meets it: whole, damaged and torn files, beside a live server. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import {
  appendFileSync,
  closeSync,
  copyFileSync,
  openSync,
  readdirSync,
  readFileSync,
  statSync,
  truncateSync,
  writeFileSync,
  writeSync
} from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import { openJournal } from "../../src/index.ts";
import { linesOf } from "../../src/journal/lines.ts";
import { verifyJournal } from "../../src/journal/verify.ts";
import { run, start } from "../support/in-process.ts";
import { bytesIn, header, journalWith, record } from "../support/journals.ts";
import { statusOf } from "../support/operator.ts";
import { placeIn, program, temporaryFolder } from "../support/support.ts";
import { missing } from "../support/tools.ts";

/** A journal with three records. */
const journalOf = (folder: string): Promise<string> =>
  journalWith(
    join(folder, "plants.ndjson"),
    ...[1n, 2n, 3n].map((id) => ({ id, name: "Fern" }))
  );

/** What verify says of a journal, in JSON and for people. */
async function verified(cwd: string, name = "plants.ndjson") {
  const { code, stdout } = await run(["verify", "--json", name], {}, cwd);
  const forPeople = await run(["verify", name], {}, cwd);
  assert.equal(forPeople.code, code);
  return { code, text: forPeople.stdout, ...JSON.parse(stdout) };
}

test("verify reports what a journal is, each bad spot, and what opening does, for people and in JSON", async () => {
  const folder = temporaryFolder();
  const text = readFileSync(await journalOf(folder), "utf8");
  const third = text.lastIndexOf("\n", text.length - 2) + 1;
  const begun = text.slice(0, third);
  const damaged = text.replace("Fern", "Farn");
  const repairs = `repairs it from offset ${third}`;
  const creates = "creates a new journal";
  for (const [name, contents, verdict, offsets, opening] of [
    ["whole", text, "whole", [], "uses it as it is"],
    ["damaged", damaged, "damaged", [133], "uses it as it is"],
    [
      "also torn",
      `${damaged}x`,
      "damaged",
      [133, text.length],
      `repairs it from offset ${text.length}`
    ],
    ["unfinished", text.slice(0, -9), "torn", [third], repairs],
    [
      "no LF",
      text.slice(0, -1),
      "torn",
      [third],
      "adds the LF that its last line lacks"
    ],
    ["NULs", `${begun}${"\0".repeat(40)}\n`, "torn", [third], repairs],
    ["a byte", `${begun}x`, "torn", [third], repairs],
    ["lines of NULs", `${begun}\0\n\0\n`, "torn", [third, third + 2], repairs],
    ["empty", "", "empty", [], creates],
    ["a header begun", text.slice(0, 9), "empty", [0], creates],
    ["NULs alone", "\0\0", "empty", [0], creates],
    [
      "a first record that claims nothing",
      header + record(1, 0),
      "damaged",
      [133],
      "refuses it at offset 133"
    ],
    [
      "edited",
      text.replace(/"Fern"(?!.*\n.)/, '"Farn"'),
      "damaged",
      [third],
      `refuses it at offset ${third}`
    ]
  ] as const) {
    writeFileSync(join(folder, name), contents);
    const found = await verified(folder, name);
    const codes = { whole: 0, torn: 1, damaged: 65, empty: 65 };
    assert.equal(found.code, codes[verdict]);
    assert.equal(found.path, name);
    assert.equal(found.verdict, verdict);
    assert.equal(found.isOpen, false);
    assert.equal(found.spotsTotal, offsets.length);
    assert.equal(found.opening, opening);
    assert.deepEqual(
      found.spots.map(({ offset }: { readonly offset: number }) => offset),
      offsets
    );
    const [first = "", ...lines] = found.text.trimEnd().split("\n");
    const does = verdict === "whole" ? "" : `; opening ${opening}`;
    assert.match(
      first,
      new RegExp(
        `^${name}: ${verdict}, ${found.records} records?, ${contents.length} bytes?` +
          `(?:; from 2\\S+Z to 2\\S+Z)?${does}(?:; ${offsets.length} damaged spots?)?$`
      )
    );
    assert.deepEqual(
      lines.map((line: string) =>
        Number(/: at offset (\d+), line/.exec(line)?.[1])
      ),
      offsets
    );
    assert.equal(readFileSync(join(folder, name), "utf8"), contents);
  }
  // An opening keeps the record that lacks only its LF.
  assert.equal((await verified(folder, "no LF")).records, 3);
  assert.equal((await verified(folder, "unfinished")).records, 2);
  writeFileSync(join(folder, "a.gz"), gzipSync(text));
  assert.match(
    (await run(["verify", "a.gz"], {}, folder)).stderr,
    /^plant-store: a\.gz: is compressed: /
  );
});

test("verify reads files alone, and says which command reads standard input", async () => {
  const folder = temporaryFolder();
  const path = await journalOf(folder);
  assert.equal((await run(["verify", path])).code, 0, "the control");
  const { code, stdout, stderr } = await run(["verify", path, "-"]);
  assert.equal(code, 64);
  assert.equal(stdout, "");
  assert.match(
    stderr,
    /^plant-store: verify reads files: use "plant-store cat - > \/dev\/null"/
  );
});

test("in a file of two journals the second one is one damaged spot: another journal begins", async () => {
  const folder = temporaryFolder();
  const bytes = readFileSync(await journalOf(folder));
  const second = record(1, 133) + record(2, 133) + record(3, 133);
  for (const [joined, reason, offset] of [
    [`${bytes}${header}${second}`, "another journal begins here", bytes.length],
    [
      `${bytes}{"seq":4,${header}${second}`,
      "the line's checksum is wrong",
      bytes.length
    ]
  ] as const) {
    writeFileSync(join(folder, "joined"), joined);
    const { code, spots, records } = await verified(folder, "joined");
    assert.equal(code, 65);
    assert.equal(records, 6);
    assert.deepEqual(spots, [{ offset, line: 5, reason }]);
    const printed = await run(["cat", "joined"], {}, folder);
    assert.equal(printed.code, 65);
    assert.equal(printed.stdout.match(/"id"/g)?.length, 6);
    assert.equal(
      printed.stderr,
      `plant-store: joined: at offset ${offset}, ${reason}\n`
    );
  }
});

test("verify of what is no journal is one line, and of several files the worst decides the exit code", async () => {
  const folder = temporaryFolder();
  const whole = readFileSync(await journalOf(folder), "utf8");
  const names = {
    whole,
    torn: whole.slice(0, -9),
    damaged: whole.replace("Fern", "Farn"),
    converted: whole.replaceAll("\n", "\r\n"),
    other: "a\n".repeat(200)
  };
  for (const [name, text] of Object.entries(names))
    writeFileSync(join(folder, name), text);
  for (const [files, code] of [
    ["whole", 0],
    ["torn", 1],
    ["whole torn", 1],
    ["torn damaged", 65],
    ["damaged absent", 65],
    ["torn absent", 74],
    ["other", 65]
  ] as const)
    assert.equal(
      (await run(["verify", ...files.split(" ")], {}, folder)).code,
      code,
      files
    );
  assert.equal(
    (await run(["verify", "other"], {}, folder)).stdout,
    "other: not a journal: at offset 0, line 1: expected the header of a journal, version 1\n"
  );
  assert.match(
    (await run(["verify", "converted"], {}, folder)).stdout,
    /^converted: damaged, .*; 4 damaged spots\nconverted: at offset 0, line 1: the line ends in CRLF\n/,
    "line ends were converted: it is a journal"
  );
});

for (const [program, start] of [
  ["gzip", "1f8b08"],
  ["zstd", "28b52ffd"],
  ["xz", "fd377a585a00"],
  ["bzip2", "425a6839"],
  ["lz4", "04224d18"]
] as const) {
  test(`verify, cat and serve name a journal that ${program} has compressed, and leave it as it is`, async () => {
    const folder = temporaryFolder();
    const path = join(folder, "plants.ndjson");
    const bytes = Buffer.concat([
      Buffer.from(start, "hex"),
      Buffer.alloc(200, 7)
    ]);
    for (const args of [
      ["verify", path],
      ["cat", path],
      ["--port", "0"]
    ]) {
      writeFileSync(path, bytes);
      const { code, stderr } = await run(args, {}, folder);
      assert.equal(code, 65);
      assert.equal(
        stderr.trimEnd().replace(/; the file is untouched.*/, ""),
        `plant-store: ${path}: is compressed: use "${program} -dc FILE | plant-store cat -"`
      );
      assert.deepEqual(readFileSync(path), bytes);
    }
  });
}

test("verify beside a live server does not disturb it, says so, and reads up to the last line", async () => {
  const { folder, path } = placeIn();
  const server = await start({ cwd: folder });
  assert.equal(await statusOf(server), 200);
  // A copy that is not whole: nothing was truncated yet.
  writeFileSync(`${path}.rewrite`, "");
  const { code, records, opening, verdict, isOpen, text } =
    await verified(folder);
  assert.equal(code, 0);
  assert.equal(records, 1);
  assert.equal(opening, undefined);
  assert.equal(verdict, "whole");
  assert.equal(isOpen, true);
  assert.match(
    text,
    /^plants\.ndjson: whole, 1 record, \d+ bytes; from \S+ to \S+; a server has it open\n$/
  );
  assert.equal(await statusOf(server), 200);
  truncateSync(path);
  const empty = await verified(folder);
  assert.equal(empty.verdict, "empty", "as beside a server that creates it");
  assert.equal(empty.isOpen, true, "as beside a server that creates it");
  assert.equal(await server.end(), 0);
});

/** Changes bytes of a file in place, as a disk that loses them. */
function changeAt(path: string, offset: number, bytes: Buffer): void {
  const fd = openSync(path, "r+");
  writeSync(fd, bytes, 0, bytes.length, offset);
  closeSync(fd);
}

for (const [says, bytes] of [
  ["a changed byte", Buffer.from("x")],
  ["NULs", Buffer.alloc(9)]
] as const) {
  test(`${says} in the last write is damage beside a live server, too: verify and cat end with 65`, async () => {
    const { folder, path } = placeIn();
    const journal = await openJournal(path);
    await Promise.all(
      Array.from({ length: 40 }, (_, id) =>
        journal.append({ id: BigInt(id), name: "Fern" })
      )
    );
    const before = await verified(folder);
    assert.equal(before.code, 0, "the control");
    assert.equal(before.records, 40, "the control");
    const second = readFileSync(path).indexOf('{"seq":2,');
    changeAt(path, second + 20, bytes);
    const found = await verified(folder);
    assert.equal(found.code, 65);
    assert.equal(found.verdict, "damaged");
    assert.equal(found.isOpen, true);
    assert.equal(found.spots[0].offset, second);
    assert.equal(found.records, 39, "lines after it are read");
    const printed = await run(["cat", path]);
    assert.equal(printed.code, 65);
    assert.equal(printed.stdout.match(/"id"/g)?.length, 39);
    await journal.close();
  });
}

test("verify and cat refuse a file of which a flush has failed, and no other file", async () => {
  const folder = temporaryFolder();
  const path = await journalOf(folder);
  const note = `${path}.unflushed-${statSync(path).ino}-1-1`;
  const other = `${path}.unflushed-1-1-1`;
  writeFileSync(other, "");
  assert.equal((await run(["verify", path])).code, 0, "the control");
  writeFileSync(note, "");
  for (const command of ["verify", "cat"]) {
    const { code, stdout, stderr } = await run([command, path]);
    assert.equal(code, 65);
    assert.equal(stdout, "");
    assert.ok(
      stderr.includes(`copy the file there again, then remove ${note}`)
    );
  }
});

test("verify reads on if one of several files is missing or damaged, and reports all", async () => {
  const folder = temporaryFolder();
  const path = await journalOf(folder);
  writeFileSync(join(folder, "torn"), readFileSync(path).subarray(0, -9));
  assert.equal(spawnSync("mkfifo", [join(folder, "fifo")]).status, 0);
  const given: readonly (readonly [files: readonly string[], code: number])[] =
    [
      [["plants.ndjson", "plants.ndjson"], 0],
      [["torn", "plants.ndjson"], 1],
      [["nowhere", "plants.ndjson"], 74],
      [["nowhere", "torn", "plants.ndjson"], 74],
      [["torn", "nowhere", "fifo"], 74],
      [["fifo", "nowhere", "plants.ndjson"], 74],
      [["./-"], 74]
    ];
  for (const [files, code] of given) {
    const found = await run(["verify", "--json", ...files], {}, folder);
    const paths = found.stdout
      .split(/\n(?=.)/)
      .filter(Boolean)
      .map((line): unknown => JSON.parse(line).path);
    assert.equal(found.code, code);
    assert.deepEqual(
      paths,
      files.filter((name) => !/nowhere|fifo|-/.test(name))
    );
    assert.equal(
      /nowhere: does not exist/.test(found.stderr),
      files.includes("nowhere")
    );
    assert.equal(
      /fifo: is not a regular file/.test(found.stderr),
      files.includes("fifo")
    );
  }
});

test("verify and cat of FILE* pass over what stands beside a live journal, and say so", async () => {
  const { folder, path } = placeIn();
  const server = await start({ cwd: folder });
  assert.equal(await statusOf(server), 200);
  const name = "plants.ndjson";
  const others = [
    "rewrite.part",
    "closed-7-265-1764207127123456789",
    "torn-265",
    `torn-265-${randomUUID()}`,
    "torn-265.part",
    "unflushed-1-1-1",
    `${randomUUID()}.part`,
    "lock",
    "part"
  ].map((end) => `${name}.${end}`);
  for (const other of others) writeFileSync(join(folder, other), "");
  copyFileSync(path, `${path}-1`);
  const files = readdirSync(folder).filter((file) => file.startsWith(name));
  const beside = files.filter((file) => ![name, `${name}-1`].includes(file));
  const locks = beside.filter((file) => file.includes(".lock-"));
  assert.equal(locks.length, process.platform === "linux" ? 1 : 0);
  const lines = beside
    .map((file) => `plant-store: ${file}: passed over: it belongs to ${name}\n`)
    .join("");
  for (const command of ["verify", "cat"]) {
    const { code, stdout, stderr } = await run([command, ...files], {}, folder);
    assert.equal(code, 0);
    assert.equal(stderr, lines);
    assert.equal(stdout.trimEnd().split("\n").length, 2);
    // The control: one of them alone is read, and so is what has another name.
    for (const file of [`${name}.torn-265`, ...locks])
      assert.notEqual((await run([command, file], {}, folder)).code, 0);
    writeFileSync(join(folder, `${name}.bak`), "x\n");
    const named = await run([command, name, `${name}.bak`], {}, folder);
    assert.equal(named.code, 65);
  }
  assert.equal(await server.end(), 0);
});

const noScript = missing(["script", "--version"]);
test(
  "verify draws a bar on a terminal, and wipes it",
  { skip: noScript },
  async () => {
    const folder = temporaryFolder();
    const path = await journalOf(folder);
    // More blocks than the bar has cells.
    appendFileSync(path, `${`${"x".repeat(63)}\n`.repeat(2 ** 15)}no LF`);
    const drawn = spawnSync(
      "script",
      ["-qec", '"$NODE" "$PROGRAM" verify plants.ndjson', "/dev/null"],
      {
        cwd: folder,
        encoding: "utf8",
        env: { ...process.env, NODE: process.execPath, PROGRAM: program }
      }
    );
    assert.equal(drawn.status, 65);
    const bars = [
      ...drawn.stdout.matchAll(/\rplants\.ndjson \[(#*)(\.*)\]\x1b\[K/g)
    ];
    assert.ok(bars.length > 3, drawn.stdout.slice(0, 200));
    assert.equal(
      new Set(bars.map(([bar]) => bar)).size,
      bars.length,
      "no bar is drawn twice"
    );
    for (const [, done = "", rest = ""] of bars)
      assert.equal(done.length + rest.length, 25);
    assert.match(drawn.stdout, /\]\x1b\[K\r\x1b\[Kplants\.ndjson: damaged/);
    const piped = await run(["verify", "plants.ndjson"], {}, folder);
    assert.equal(piped.code, 65);
    assert.equal(piped.stderr, "");
  }
);

test("after a damaged spot the record before is unknown: it is one spot", async () => {
  const bytes = readFileSync(await journalOf(temporaryFolder()));
  const second = bytes.indexOf("\n", bytes.indexOf("\n") + 1) + 1;
  bytes[second + 20] = 0x78;
  const { records, spots } = verifyJournal(bytesIn(bytes));
  assert.deepEqual(spots, [
    { offset: second, line: 3, reason: "the line's checksum is wrong" }
  ]);
  assert.equal(records, 2);
});

/** The lines of a journal of ten writes: each has one record, or three in turn. */
function linesOfWrites(): string[] {
  const lines = [header];
  let offset = header.length;
  for (let write = 0; write < 10; write++) {
    const synced = offset;
    for (let count = write % 2 === 0 ? 1 : 3; count > 0; count--) {
      const line = record(lines.length, synced);
      lines.push(line);
      offset += line.length;
    }
  }
  return lines;
}

for (const [what, change, line] of [
  ["a byte that was lost", (text: string) => text.replace("F", ""), 5],
  ["a byte that was added", (text: string) => `${text[0]}${text}`, 5],
  ["a byte that was changed", (text: string) => text.replace("F", "f"), 5],
  ["a line that was lost", () => "", 5],
  ["the last line of a write that was lost", () => "", 4],
  ["a line that was added", (text: string) => `new\n${text}`, 5],
  ["an LF that was lost", (text: string) => text.slice(0, -1), 5],
  ["a first record that was lost", () => "", 1],
  ["a header that was lost", () => "", 0],
  ["a header without its LF", (text: string) => text.slice(0, -1), 0],
  ["a header with a byte less", (text: string) => text.slice(1), 0]
] as const) {
  test(`${what} is one damaged spot, whatever follows`, async () => {
    const lines = linesOfWrites();
    const offset = lines.slice(0, line).join("").length;
    lines[line] = change(lines[line] ?? "");
    const text = lines.join("");
    const found = verifyJournal(bytesIn(Buffer.from(text)));
    assert.deepEqual(
      found.spots.map((spot) => spot.offset),
      [offset]
    );

    const folder = temporaryFolder();
    writeFileSync(join(folder, "plants.ndjson"), text);
    const { code, stdout, stderr } = await run(
      ["cat", "plants.ndjson"],
      {},
      folder
    );
    assert.equal(code, 65);
    assert.match(stderr, new RegExp(`^.* at offset ${offset}, .*\n$`));
    assert.equal(stdout.split("\n").length, found.records + 1);

    // A later record with a wrong `synced` is a spot of its own.
    lines[17] = record(17, 1_000);
    const { spots } = verifyJournal(bytesIn(Buffer.from(lines.join(""))));
    assert.match(spots[1]?.reason ?? "", /^expected synced .*, found 1000$/);
    assert.equal(spots.length, 2);
  });
}

test("beside a live server, lines that it truncates and rewrites are not damaged spots", () => {
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
    const read = (from: number, length: number): Buffer => {
      const bytes = file.subarray(from, from + length);
      // The first block is read, and not only the header: now it is truncated.
      if (from === 0 && length > 1_000) file = next;
      return bytes;
    };
    return verifyJournal({ size: () => full.length, read }, { isOpen });
  };
  assert.deepEqual(reading(true).spots, []);
  assert.equal(reading(true).records, 3);
  assert.equal(
    reading(false).spotsTotal,
    2,
    "the control: the truncated bytes were met"
  );
  const underWay = verifyJournal(bytesIn(next.subarray(0, -9)), {
    isOpen: true
  });
  assert.deepEqual(underWay.spots, [], "a last line without LF");
  assert.equal(underWay.records, 3, "a last line without LF");
  // What was certified when the reading began is reported, beside a live server, too; no more is.
  for (const [at, offsets] of [
    [200, [133]],
    [certified.length, []]
  ] as const) {
    const damaged = Buffer.from(next).fill("y", at, at + 10);
    const { spots } = verifyJournal(bytesIn(damaged), { isOpen: true });
    assert.deepEqual(
      spots.map(({ offset }) => offset),
      offsets
    );
  }
});

test("a line longer than a block is read whole, and damage after it is located", async () => {
  const { path } = placeIn();
  const journal = await openJournal(path);
  for (const length of [10, 65_000, 65_536, 300_000, 5]) {
    await journal.append({ id: BigInt(length), name: "x".repeat(length) });
  }
  await journal.close();
  const whole = JSON.parse((await run(["verify", "--json", path])).stdout);
  const bytes = readFileSync(path);
  const [, first, ...others] = [
    ...bytes.toString().matchAll(/"at":"(.*?)"/g)
  ].map(([, at]) => at);
  assert.equal(whole.records, 5);
  assert.equal(whole.spotsTotal, 0);
  assert.equal(whole.idMin, "5");
  assert.equal(whole.idMax, "300000");
  assert.equal(whole.first, first);
  assert.equal(whole.last, others.at(-1));
  const last = bytes.lastIndexOf(10, bytes.length - 2) + 1;
  bytes[bytes.length - 20] = 0x30;
  writeFileSync(path, bytes);
  const { spots } = JSON.parse((await run(["verify", "--json", path])).stdout);
  assert.deepEqual(spots, [
    { offset: last, line: 6, reason: "the line's checksum is wrong" }
  ]);
});

test("the first 1,000 spots are listed, and how many there are in all", () => {
  for (const bad of [1_000, 1_001]) {
    const bytes = Buffer.from(header + "x\n".repeat(bad));
    const { spots, spotsTotal } = verifyJournal(bytesIn(bytes));
    assert.equal(spots.length, 1_000);
    assert.equal(spotsTotal, bad);
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
