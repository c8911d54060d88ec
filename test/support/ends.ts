/**
 * The ends that a journal may have: what an opening does with each, and what its readers find.
 *
 * opening.test.ts opens each, and verify.test.ts reads each. Lines are made here, without the code
 * under test; only the checksum is zlib's, which record.test.ts checks.
 */
import {
  crcOf,
  header,
  headerStart,
  lineOf,
  record,
  recordStart,
  uuid
} from "./journals.ts";

export const bytesOf = (...parts: readonly (Buffer | string)[]): Buffer =>
  Buffer.concat(parts.map((part) => Buffer.from(part)));
export const nuls = (count: number): Buffer => Buffer.alloc(count);

/** While `synced` has three digits all records have one length, and the n-th begins here. */
const size = record(1, 133).length;
export const place = (seq: number): number => 133 + (seq - 1) * size;

/** Three batches of two records. The last one is uncertified: C is `place(5)`. */
export const four = bytesOf(
  header,
  record(1, 133),
  record(2, 133),
  record(3, place(3)),
  record(4, place(3))
);
export const C = place(5);
const fifth = record(5, C);
const sixth = record(6, C);
const last = fifth + sixth;
export const six = bytesOf(four, last);
export const end = six.length;

export const changed = (
  file: Buffer,
  offset: number,
  bytes: Buffer | string
): Buffer =>
  bytesOf(
    file.subarray(0, offset),
    bytes,
    file.subarray(offset + Buffer.from(bytes).length)
  );
const cut = (file: Buffer, from: number, to: number): Buffer =>
  bytesOf(file.subarray(0, from), file.subarray(to));
const added = (file: Buffer, offset: number, bytes: string): Buffer =>
  bytesOf(file.subarray(0, offset), bytes, file.subarray(offset));
const capitals = (line: string): string =>
  line.replace(/[\da-f]{8}(?="}\n$)/, (crc) => crc.toUpperCase());

/** The crc of this one has letters. */
const lettered =
  Array.from({ length: 99 }, (_, id) =>
    record(7, C, `{"id":${id},"name":""}`)
  ).find((line) => capitals(line) !== line) ?? "";

export type Verdict =
  | { readonly kind: "new" | "clean" | "unterminated" }
  | { readonly kind: "torn" | "refused"; readonly at: number };
export const fresh: Verdict = { kind: "new" };
export const clean: Verdict = { kind: "clean" };
export const unterminated: Verdict = { kind: "unterminated" };
export const torn = (at: number): Verdict => ({ kind: "torn", at });
export const refused = (at: number): Verdict => ({ kind: "refused", at });

export const noHeader = "expected the header of a journal, version 1";
export const noRecord = "expected a record with its checksum";

/** The end with a record that no schema of this version allows: a journal keeps texts. */
export const noPlant = "an object that is no plant";

export interface End {
  /** Undefined where there is no file. */
  readonly file: Buffer | undefined;
  readonly verdict: Verdict;

  /** What `verify` says of the first bad line, and how many are bad. */
  readonly damage?: readonly [reason: string, badLines: number] | undefined;

  /** FILE.rewrite. */
  readonly copy?: string;

  /** Where the copy's bytes stand, if they complete the file; undefined if not. */
  readonly rewritten?: number | undefined;
}

const mib = 2 ** 20;
const long = record(7, end, `{"id":1,"name":"${"ü".repeat(mib / 2)}"}`);
const plain: Readonly<
  Record<string, readonly [End["file"], Verdict, End["damage"]?]>
> = {
  "no file": [undefined, fresh],
  "an empty file": [bytesOf(""), fresh],
  "a part of a header, NULs up to its length": [
    bytesOf(header.slice(0, 70), nuls(63)),
    fresh
  ],
  "the same and one NUL more": [
    bytesOf(header.slice(0, 70), nuls(64)),
    refused(0)
  ],
  "a header with a NUL for its LF": [
    bytesOf(header.slice(0, -1), nuls(1)),
    fresh
  ],
  "a header without its LF": [bytesOf(header.slice(0, -1)), unterminated],
  "a header without its LF, then two NULs": [
    bytesOf(header.slice(0, -1), nuls(2)),
    refused(0)
  ],
  "133 NULs": [nuls(133), fresh],
  "134 NULs": [nuls(134), refused(0)],
  "a header without its last byte but one, a NUL, an LF": [
    bytesOf(header.slice(0, -2), nuls(1), "\n"),
    refused(0)
  ],
  "a header with a wrong checksum, a NUL for its LF": [
    bytesOf(lineOf(headerStart(), "00000000").slice(0, -1), nuls(1)),
    refused(0)
  ],
  "a part of a header with another member after its UUID": [
    bytesOf(header.slice(0, 81), '","bt":'),
    refused(0)
  ],
  "half a header and an LF": [bytesOf(header.slice(0, 70), "\n"), refused(0)],
  "half a header, NULs, text": [
    bytesOf(header.slice(0, 70), nuls(9), "a"),
    refused(0)
  ],
  "a text": [bytesOf("a\n".repeat(200)), refused(0), [noHeader, 200]],
  "a record and no header": [bytesOf(record(1, 0)), refused(0)],
  "a header of version 2": [
    bytesOf(lineOf(headerStart().replace('"version":1', '"version":2'))),
    refused(0)
  ],
  "a header with a wrong checksum": [
    bytesOf(lineOf(headerStart(), "00000000")),
    refused(0)
  ],
  "a header, no LF, a record": [
    bytesOf(header.slice(0, -1), record(1, 132)),
    refused(0)
  ],
  "a NUL in the header": [changed(six, 20, nuls(1)), refused(0), [noHeader, 1]],
  "line ends that were converted to CRLF": [
    bytesOf(`${six}`.replaceAll("\n", "\r\n")),
    refused(0),
    [noHeader, 7]
  ],
  "a line before the header": [bytesOf("x\n", six), refused(0), [noHeader, 5]],

  "a header alone": [bytesOf(header), clean],
  "a batch of more than 64 KiB": [
    bytesOf(
      header,
      ...Array.from({ length: 900 }, (_, n) => record(n + 1, 133))
    ),
    clean
  ],
  "a record of a mebibyte": [bytesOf(six, long), clean],
  [noPlant]: [bytesOf(six, record(7, C, '{"id":7}')), clean],
  "a bad line before the last certified one": [
    changed(six, place(1) + 20, "x"),
    clean,
    [noRecord, 1]
  ],
  "the same and a torn end": [
    bytesOf(changed(six, place(1) + 20, "x"), "x"),
    torn(end),
    [noRecord, 1]
  ],
  "wrong numbers before it": [
    changed(six, place(2), record(9, 133)),
    clean,
    ["expected seq 2, found 9", 2]
  ],

  "a bad last certified line": [
    changed(six, place(4) + 20, "x"),
    refused(place(4))
  ],
  "NULs in it": [changed(six, place(4) + 20, nuls(9)), refused(place(4))],
  "a blank line in its place": [
    changed(six, C - 1, "\n").fill("\n", place(4), C),
    refused(C - 1)
  ],
  "an acknowledged line gone": [
    cut(six, place(2), place(3)),
    refused(place(4)),
    ["expected seq 2, found 3", 2]
  ],
  "a byte that was lost: all after it stands elsewhere than it says": [
    cut(six, place(1) + 60, place(1) + 61),
    refused(C - 1),
    [noRecord, 3]
  ],
  "a blank line that was added": [
    added(six, place(3), "\n"),
    refused(place(4) + 1),
    [noRecord, 2]
  ],
  "a line that claims more than the file": [
    bytesOf(six, record(7, 999)),
    refused(end)
  ],
  "a line that claims itself": [
    bytesOf(six, record(7, end + size)),
    refused(end)
  ],
  "a line that claims up to the LF before it": [
    bytesOf(six, record(7, end - 1)),
    refused(place(6))
  ],
  "a line that claims more than the file, and one after it": [
    bytesOf(six, record(7, 999), record(8, end + size)),
    refused(end + size)
  ],

  "a first line without its LF": [
    bytesOf(header, record(1, 133).slice(0, -1)),
    unterminated
  ],
  "any text without LF": [bytesOf(six, "hello"), torn(end)],
  "NULs in the last line": [
    changed(six, place(6) + 20, nuls(9)),
    torn(place(6))
  ],
  "NULs in the last write, a good line after it": [
    changed(six, C + 20, nuls(9)),
    torn(C)
  ],
  "a bad line, NULs in the next": [
    changed(changed(six, C + 20, "x"), end - 9, nuls(9)),
    torn(C)
  ],
  "a write of which a crash left NULs, and a record after them": [
    bytesOf(four, "\0\n\0\n", record(7, C)),
    torn(C)
  ],
  "a mebibyte, unfinished": [bytesOf(six, long.slice(0, -9)), torn(end)],

  "a bad first line of the last write": [
    changed(six, C + 20, "x"),
    refused(C),
    [noRecord, 1]
  ],
  "a bad line, half a line after it": [
    changed(six, C + 20, "x").subarray(0, -9),
    refused(C)
  ],
  "a checksum in capitals": [bytesOf(six, capitals(lettered)), refused(end)],
  "a first seq of 2": [bytesOf(header, record(2, 133)), refused(133)],
  "a synced of an older write": [
    bytesOf(six, record(7, place(3))),
    refused(end)
  ],
  "a first synced of 0": [
    bytesOf(header, record(1, 0)),
    refused(133),
    [noRecord, 1]
  ],
  "a key with bits that no digest has": [
    bytesOf(
      six,
      lineOf(
        recordStart(7, C).replace(
          ',"plant"',
          `,"key":"${"A".repeat(21)}B","plant"`
        )
      )
    ),
    refused(end)
  ],
  "a plant that is no object": [bytesOf(six, record(7, C, "7")), refused(end)],
  "a wrong seq, NULs after it": [
    bytesOf(six, record(8, C), nuls(30)),
    refused(end)
  ],
  "a wrong seq, no LF": [bytesOf(six, record(8, C).slice(0, -1)), refused(end)],
  "a blank line after the header": [bytesOf(header, "\n"), refused(133)],
  "a blank line, NULs after it": [bytesOf(six, "\n", nuls(30)), refused(end)],
  "a blank line within the last write": [
    bytesOf(four, fifth, "\n", sixth),
    refused(place(6))
  ],
  "two journals in one file": [
    bytesOf(six, six),
    refused(end),
    ["another journal begins here", 4]
  ],
  // Only the torn write certifies the one before it.
  "a bad line in the last certified write, a torn write after it": [
    bytesOf(changed(six, C + 20, "x"), nuls(size - 1), "\n", record(8, end)),
    refused(C)
  ],
  "a torn write after a certified one, which is whole": [
    bytesOf(six, nuls(size - 1), "\n", record(8, end)),
    torn(end)
  ]
};

/** FILE.rewrite, by default of `six` from C on. */
export const copyOf = ({
  file = uuid,
  offset = C,
  size = end,
  lines = last
} = {}): string => {
  const copy = `{"rewrite":"${file}","offset":${offset},"size":${size}}\n${lines}`;
  return `${crcOf(copy)} ${copy}`;
};
const copy = copyOf();
const another = "0".repeat(36);
const anothers = lineOf(headerStart(another));
const beside = "its .rewrite is the end of another file: ";
const differs: End["damage"] = ["it differs from its copy in .rewrite", 1];

/** Files with a FILE.rewrite: the offset from which it is written, or undefined if it is stale. */
const copied: Readonly<
  Record<
    string,
    readonly [
      file: Buffer,
      copy: string,
      verdict: Verdict,
      rewritten?: number | undefined,
      damage?: End["damage"]
    ]
  >
> = {
  "truncated, nothing is written yet": [four, copy, clean, C],
  "truncated, a part is written": [
    six.subarray(0, -30),
    copyOf({ size: Number.MAX_SAFE_INTEGER }),
    clean,
    C
  ],
  "truncated, NULs in what is written": [
    bytesOf(four, nuls(50)),
    copy,
    clean,
    C
  ],
  "whole: the copy stands by": [six, copy, clean, C],
  "whole and grown: the copy came back after a crash": [
    bytesOf(six, record(7, end)),
    copy,
    clean
  ],
  "whole, a copy that is not": [six, copy.slice(0, -1), clean],
  "whole, an empty copy": [six, "", clean],
  "torn, a copy that is not whole": [
    six.subarray(0, -9),
    copy.slice(0, -1),
    torn(place(6))
  ],
  "truncation undone: the old size, NULs in place of the end": [
    bytesOf(four, nuls(last.length + 9)),
    copyOf({ size: end + 9 }),
    clean,
    C
  ],
  "a part of a header, the copy has it whole": [
    bytesOf(header.slice(0, 50)),
    copyOf({ offset: 0, size: 132, lines: header }),
    clean,
    0
  ],
  "a part of an earlier header, the copy has this one whole": [
    bytesOf(anothers.slice(0, 60)),
    copyOf({ offset: 0, size: 132, lines: header }),
    clean,
    0
  ],
  "truncated, a certified line is written again": [
    bytesOf(six.subarray(0, place(3)), "{"),
    copyOf({ offset: place(3), lines: `${six.subarray(place(3))}` }),
    clean,
    place(3)
  ],
  "truncated, and the copy's own end is torn": [
    four,
    copyOf({ size: end + 4, lines: `${last}torn` }),
    torn(end),
    C
  ],
  "a copy of another journal": [
    four,
    copyOf({ file: another }),
    refused(0),
    undefined,
    [`${beside}move it beside that, as its .rewrite`, 1]
  ],
  "a copy that begins after the file's end": [
    bytesOf(header),
    copy,
    refused(0)
  ],
  "a copy, the journal itself is lost": [bytesOf(""), copy, refused(0)],
  "without its header, its own copy": [
    changed(four, 2, "J"),
    copy,
    refused(0),
    undefined,
    [noHeader, 1]
  ],
  "no journal, a copy that begins at 0": [
    bytesOf("a text\n"),
    copyOf({ offset: 0, size: 132, lines: header }),
    refused(0)
  ],
  // The other's had a torn end, and by chance this file's size: nothing of this one may go.
  "another's copy with a header, and the size that it had": [
    four,
    copyOf({ file: another, offset: 0, size: C, lines: anothers }),
    refused(0)
  ],
  "other records than in its copy": [
    six,
    copyOf({ lines: last.replace("Fern", "Farn") }),
    refused(C),
    undefined,
    differs
  ],
  "other records than in its copy, and another size": [
    bytesOf(six, record(7, end)),
    copyOf({ size: 1, lines: last.replace("Fern", "Farn") }),
    refused(C),
    undefined,
    differs
  ],
  // What follows the NULs may be acknowledged.
  "NULs in place of its end, and grown to another size": [
    bytesOf(four, nuls(last.length), record(7, end)),
    copy,
    refused(C)
  ],
  "damaged before its end, which the copy has": [
    changed(four, place(4) + 60, "x"),
    copy,
    refused(place(4)),
    C
  ]
};

export const ends: Readonly<Record<string, End>> = {
  ...Object.fromEntries(
    Object.entries(plain).map(([says, [file, verdict, damage]]) => [
      says,
      { file, verdict, damage }
    ])
  ),
  ...Object.fromEntries(
    Object.entries(copied).map(
      ([says, [file, copy, verdict, rewritten, damage]]) => [
        says,
        { file, copy, verdict, rewritten, damage }
      ]
    )
  )
};

/** The file once a rewrite is completed, as its readers see it. */
export const completedOf = ({ file, copy = "", rewritten }: End): Buffer =>
  rewritten === undefined
    ? (file ?? nuls(0))
    : bytesOf(
        (file ?? nuls(0)).subarray(0, rewritten),
        copy.slice(copy.indexOf("\n") + 1)
      );
