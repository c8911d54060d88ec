/** The journal's format, byte for byte. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import {
  decodeHeader,
  decodeRecord,
  fillChecksums,
  frameBytesMax,
  hasValidChecksum,
  headerBytes,
  headerText,
  lineBytesMax,
  recordText
} from "../../src/journal/record.ts";
import { limitTable } from "../../src/config.ts";
import {
  at,
  crcOf,
  headerStart,
  recordStart,
  uuid
} from "../support/journals.ts";
import { root } from "../support/support.ts";

/** A line as the grammar says: the bytes, their checksum, the end; with a good one by default. */
const line = (start: Buffer | string, crc = crcOf(start)): Buffer =>
  Buffer.concat([Buffer.from(start), Buffer.from(`,"crc":"${crc}"}`)]);

const headerLine = headerStart();
const textOf = (plant: string): string => recordStart(1, 133, plant);

test("the worked example in record.ts has the offsets and checksums that it states", () => {
  const source = readFileSync(join(root, "src/journal/record.ts"), "utf8");
  const pieces = [...source.matchAll(/^ \* +(\d+) {2}([{,].*)$/gm)].map(
    ([, offset, text = ""]) => ({
      offset: Number(offset),
      text: text.replace(/ LF$/, "\n")
    })
  );
  assert.equal(pieces.length, 10);
  const file = pieces.map(({ text }) => text).join("");
  for (const { offset, text } of pieces)
    assert.equal(file.indexOf(text), offset);
  const [header = "", record = "", keyed = ""] = file.split("\n");
  assert.equal(file, `${header}\n${record}\n${keyed}\n`);
  assert.equal(decodeHeader(Buffer.from(header)), header.slice(45, 81));
  assert.deepEqual(decodeRecord(Buffer.from(record)), {
    seq: 1,
    at: "2026-11-21T10:47:01.578Z",
    synced: 133,
    key: undefined,
    plant: Buffer.from('{"id":9007199254740993,"name":"Fern","tag":"shade"}')
  });
  assert.deepEqual(decodeRecord(Buffer.from(keyed)), {
    seq: 2,
    at: "2026-11-21T10:47:02.006Z",
    synced: 265,
    key: "GZvgPTXzRR2v5tOmMDnAFg",
    plant: Buffer.from('{"id":7,"name":"Moss"}')
  });
  assert.match(source, new RegExp(`^ \\* +${file.length}$`, "m"));
});

test("a header is one line of 133 bytes, with the checksum of what stands before it", () => {
  const header = `${fillChecksums(headerText(uuid, at))}`;
  assert.equal(header, `${line(headerLine)}\n`);
  assert.equal(header.length, 133);
  assert.equal(headerBytes, 133);
  assert.equal(decodeHeader(line(headerLine)), uuid);
});

for (const [says, bytes] of [
  ["nothing", Buffer.alloc(0)],
  ["another version", line(headerLine.replace('"version":1', '"version":2'))],
  ["a member more", line(`${headerLine},"more":1`)],
  ["a space", line(headerLine.replace(":1", ": 1"))],
  [
    "a checksum of its own in it",
    line(`${headerLine},"crc":"${crcOf(headerLine)}"}xxx`)
  ],
  ["a wrong checksum", line(headerLine, "00000000")],
  ["a checksum in capitals", line(headerLine, crcOf(headerLine).toUpperCase())],
  ["its LF", Buffer.concat([line(headerLine), Buffer.from("\n")])],
  ["a record", line(textOf('{"id":1,"name":""}'))]
] as const) {
  test(`a header with ${says} is none`, () =>
    assert.equal(decodeHeader(bytes), undefined));
}

test("a record is one line, whatever its plant, and is read back as it was", () => {
  const controls = String.fromCharCode(...Array(32).keys());
  for (const name of [
    "",
    controls,
    '\u007f\u2028\uffff"\\/🌿',
    ',"crc":"00000000"}',
    "ü".repeat(2 ** 19)
  ]) {
    const json = `{"id":7,${JSON.stringify({ name }).slice(1)}`;
    const bytes = fillChecksums(recordText(1, at, 133, json));
    assert.equal(`${bytes}`, `${line(textOf(json))}\n`);
    assert.equal(
      bytes.findIndex((byte) => byte < 0x20),
      bytes.length - 1,
      "its LF, nothing else"
    );
    assert.deepEqual(decodeRecord(bytes.subarray(0, -1)), {
      seq: 1,
      at,
      synced: 133,
      key: undefined,
      plant: Buffer.from(json)
    });
  }
});

test("a checksum is right whatever a line's length is, and wherever in a buffer it stands", () => {
  for (let length = 0; length < 40; length++) {
    const text = line(textOf(`{"id":1,"name":"${"x".repeat(length)}"}`));
    const bytes = Buffer.concat([
      Buffer.alloc(length, "{"),
      text,
      Buffer.from("\n}")
    ]);
    const end = length + text.length;
    assert.ok(decodeRecord(bytes.subarray(length, end)));
    for (const [from, to] of [
      [length + 1, end],
      [length, end - 1],
      [length, end + 1]
    ]) {
      assert.equal(hasValidChecksum(bytes.subarray(from, to)), false);
    }
  }
});

const good = textOf('{"id":7,"name":"Fern"}');

for (const [says, bytes] of [
  ["nothing", Buffer.alloc(0)],
  ["only a checksum", Buffer.from(',"crc":"00000000"}')],
  ["a checksum in capitals", line(good, crcOf(good).toUpperCase())],
  ["no checksum", Buffer.from(`${good}}`)],
  ["a CR at its end", Buffer.concat([line(good), Buffer.from("\r")])],
  [
    "a space before its checksum",
    Buffer.from(`${line(good)}`.replace(',"crc":"', ',"crc": "'))
  ],
  ["two records in it", Buffer.concat([line(good), line(good)])]
] as const) {
  test(`a line with ${says} has a bad checksum`, () =>
    assert.deepEqual(
      [hasValidChecksum(bytes), decodeRecord(bytes)],
      [false, undefined]
    ));
}

for (const [says, start] of [
  ["a header", headerLine],
  ["no plant", `{"seq":1,"at":"${at}","synced":133`],
  ["a member more", `${good},"more":1`],
  ["a space in it", good.replace(":", ": ")],
  ["seq 0", good.replace('"seq":1', '"seq":0')],
  ["seq 01", good.replace('"seq":1', '"seq":01')],
  ["a synced of 0133", good.replace("133", "0133")],
  ["a time without milliseconds", good.replace(".123Z", "Z")],
  ["a plant that is no object", textOf('"Fern"')],
  ["a plant without its end", textOf('{"id":7,"name":"Fern"')],
  ["a plant of one brace", textOf("{")]
] as const) {
  test(`a valid checksum over ${says} is not a record`, () => {
    assert.equal(hasValidChecksum(line(start)), true);
    assert.equal(decodeRecord(line(start)), undefined);
  });
}

test("a valid checksum over any object as the plant is a record: what it must be was checked before", () => {
  for (const plant of [
    "{}",
    '{"name":"Fern","id":7,"age":1}',
    '{"id": 7e0,"name":"\\ud800","name":"\\u0046ern"}',
    '{"id":"9223372036854775808","name":"\t","tag":null}'
  ])
    assert.equal(decodeRecord(line(textOf(plant)))?.seq, 1, plant);
  const bytes = Buffer.from(textOf('{"id":7,"name":"\u00ff"}'), "latin1");
  assert.equal(decodeRecord(line(bytes))?.seq, 1, "not UTF-8");
});

/** As Date writes them; what is no RFC 3339 time would make a line that no reader takes. */
for (const [clock, isTaken] of [
  ["9999-12-31T23:59:59.999Z", true],
  ["0000-01-01T00:00:00.000Z", true],
  ["+010000-01-01T00:00:00.000Z", false],
  ["-000001-12-31T23:59:59.999Z", false]
] as const) {
  test(`a line of ${clock} is ${isTaken ? "written and read" : "not written"}`, () => {
    assert.equal(new Date(clock).toISOString(), clock);
    const record = () => recordText(1, clock, 133, '{"id":1,"name":""}');
    const lines = [() => headerText(uuid, clock), record];
    for (const lineOf of lines) {
      if (isTaken) {
        const bytes = fillChecksums(lineOf()).subarray(0, -1);
        assert.ok(decodeHeader(bytes) ?? decodeRecord(bytes));
      } else
        assert.throws(
          lineOf,
          /the clock says .+: expected a year of four digits/
        );
    }
  });
}

test("a line has at most 64 MiB: no write and no body that can be set makes a longer one", () => {
  assert.equal(lineBytesMax, 64 * 2 ** 20);
  assert.ok(
    recordText(2 ** 53 - 1, at, 2 ** 53 - 1, "", "A".repeat(22)).length <=
      frameBytesMax
  );
  assert.ok(limitTable.batchBytesMax.max <= lineBytesMax);
  assert.ok(4 * limitTable.bodyBytesMax.max <= lineBytesMax);
});
