/** The tokens that are accepted, and the file that names them. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { chmodSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import type { Host } from "../../src/program/host.ts";
import {
  BearerTokens,
  generateToken,
  tokenDigest
} from "../../src/http/bearer.ts";
import { ApiError } from "../../src/http/errors.ts";
import { parseTokensFile, readTokensFile } from "../../src/program/secrets.ts";
import { temporaryFolder } from "../support/support.ts";
import { leavesNoDescriptor, noDescriptors } from "../support/tools.ts";

const secret = "S3cret-._~+/token==";
const hexOf = (token: string): string =>
  createHash("sha256").update(token).digest("hex");

/** Whether a token is accepted; the hostile tables have the forms of Authorization. */
function accepts(tokens: BearerTokens, given: string): boolean {
  try {
    tokens.check(`Bearer ${given}`);
    return true;
  } catch (error) {
    assert.ok(error instanceof ApiError);
    return false;
  }
}

for (const [what, given] of [
  ["none at all", []],
  ["a good one and an empty one", [secret, ""]],
  ["one that ends in a line feed", ["S3cret\n"]],
  ["a digest of 63 digits", [`sha256:${"a".repeat(63)}`]],
  ["a digest in capitals", [`sha256:${"A".repeat(64)}`]],
  ["one with a g", [`sha256:${"g".repeat(64)}`]]
] as const) {
  test(`${what} is refused as tokens, and the old tokens stay`, () => {
    const isUnspoken = (error: unknown): boolean =>
      error instanceof Error && !/S3cret|a{9}|A{9}|g{9}/.test(error.message);
    assert.throws(() => new BearerTokens(given), isUnspoken);
    const bearer = new BearerTokens([secret]);
    assert.throws(() => bearer.replace(given), isUnspoken);
    assert.ok(accepts(bearer, secret));
  });
}

test("replace() accepts the new tokens and refuses the old ones", () => {
  const bearer = new BearerTokens(["old", "both"]);
  bearer.replace(["both", tokenDigest("new")]);
  const verdicts = ["old", "both", "new"].map((name) => accepts(bearer, name));
  assert.deepEqual(verdicts, [false, true, true]);
});

test("a generated token is a new b64token of 256 bits, and is accepted by its digest", () => {
  const made = Array.from({ length: 100 }, generateToken);
  assert.equal(new Set(made).size, 100);
  for (const one of made) {
    assert.match(one, /^[\w-]{43}$/);
    assert.equal(tokenDigest(one), `sha256:${hexOf(one)}`);
    assert.ok(accepts(new BearerTokens([tokenDigest(one)]), one));
  }
});

const [a, b] = ["a", "b"].map((name) => `sha256:${hexOf(name)}`);
for (const [what, text, digests] of [
  ["no line feed at its end", `ci ${a}`, [a]],
  ["blank lines, and lines of spaces", `\n  \n\t\nci ${a}\n\n \n`, [a]],
  [
    "CRLF, blank lines and comments",
    `\r\n# tokens\r\nci ${a}\r\nops ${b}\r\n\r\n`,
    [a, b]
  ],
  ["a comment in another script", `# für 植物 \u2028 x\nci ${a}\n`, [a]],
  ["names with marks", `ci-1.eu@x:y ${a}\nö#1 ${b}\n`, [a, b]],
  [
    "a byte order mark, spaces and tabs",
    `\ufeffci ${a} \n\t ops\t${b}\t\r\n`,
    [a, b]
  ],
  ["a name twice", `x ${a}\nx ${b}`, [a, b]],
  ["a name that looks like a digest", `sha256:x ${a}`, [a]]
] as const) {
  test(`a tokens file with ${what} is read`, () => {
    const found = [...parseTokensFile(text).keys()];
    assert.deepEqual(found, digests);
    new BearerTokens(found).check("Bearer a");
  });
}

test("a tokens file without a token is refused", () => {
  for (const text of ["", "# none\n#\n"])
    assert.throws(() => parseTokensFile(text), /^TypeError: expected at least/);
});

for (const [what, text, line] of [
  ["no name", `${a}\n`, 1],
  ["no digest", "ci\n", 1],
  ["a token itself", "ci S3cret-token\n", 1],
  ["65 digits", `ci ${a}0\n`, 1],
  ["a third word", `ci ${a} more\n`, 1],
  ["a comment behind", `ci ${a} # ours\n`, 1],
  ["a bad line after CRLF", `# x\r\n\r\nci ${a}\r\nS3cret x\r\n`, 4],
  ["CR alone", `ci ${a}\rops ${b}\r`, 1],
  ["the digest of an empty token", `ci ${a}\nops ${tokenDigest("")}`, 2],
  ["a NUL", `ci ${a}\0`, 1]
] as const) {
  test(`a tokens file with ${what} is refused, line ${line} named`, () => {
    assert.throws(
      () => parseTokensFile(text),
      (error) => {
        assert.ok(error instanceof Error);
        assert.match(error.message, new RegExp(`\\bline ${line}\\b`));
        assert.doesNotMatch(error.message, /S3cret|[0-9a-f]{9}/i);
        return true;
      }
    );
  });
}

const folder = temporaryFolder();
const good = `ci ${a}\n`;
const hostWith = (log: Host["log"]): Host =>
  ({ log, logged: new Set() }) as unknown as Host;
const silent = hostWith((_, text) => assert.fail(text));

type Make = (path: string) => void;
const file =
  (text: string, mode: number): Make =>
  (path) => {
    writeFileSync(path, text);
    chmodSync(path, mode);
  };

for (const [mode, isPrivate] of [
  [0o600, true],
  [0o740, true],
  [0o604, false]
] as const) {
  test(`a tokens file of mode ${mode.toString(8)} is read, ${isPrivate ? "silently" : "with an info line"}`, () => {
    const path = join(folder, `mode-${mode}`);
    file(good, mode)(path);
    const lines: string[] = [];
    const host = hostWith((level, text) => void lines.push(`${level} ${text}`));
    assert.deepEqual([...readTokensFile(path, host)], [[a, "ci"]]);
    const wanted = `info tokens file ${path}: others can read it, mode ${mode.toString(8)}`;
    assert.deepEqual(lines, isPrivate ? [] : [wanted]);
  });
}

test("a tokens file behind a symbolic link is read", () => {
  const path = join(folder, "target");
  writeFileSync(path, good, { mode: 0o600 });
  symlinkSync(path, join(folder, "link"));
  assert.deepEqual(
    [...readTokensFile(join(folder, "link"), silent).keys()],
    [a]
  );
});

test(
  "a tokens file is closed, whether it was read or refused",
  { skip: noDescriptors },
  () => {
    const path = join(folder, "closed");
    writeFileSync(path, good, { mode: 0o600 });
    return leavesNoDescriptor(async () => {
      readTokensFile(path, silent);
      assert.throws(() => readTokensFile(folder, silent), /regular file/);
    });
  }
);

for (const [what, make, reason] of [
  ["that the group can write", file(good, 0o620), /write it, found mode 620$/],
  ["that others can write", file(good, 0o602), /write it, found mode 602$/],
  // Its owner may not even read it, unless that is root.
  [
    "that only others can write",
    file(good, 0o002),
    process.getuid?.() === 0 ? /write it, found mode 002$/ : /EACCES/
  ],
  // One that is waited for stops this test, and any start.
  [
    "that is a pipe",
    (path: string) => execFileSync("mkfifo", ["-m", "600", path]),
    /regular file/
  ],
  ["that is missing", () => undefined, /ENOENT|no such file/],
  ["with a bad third line", file(`ci ${a}\n\nS3cret-token\n`, 0o600), /line 3/]
] as const) {
  test(`a tokens file ${what} is refused by its name`, () => {
    const path = join(folder, what.replaceAll(" ", "-"));
    make(path);
    assert.throws(
      () => readTokensFile(path, silent),
      (error) => {
        assert.ok(error instanceof Error && error.message.includes(path));
        assert.match(error.message.replaceAll(path, ""), reason);
        assert.doesNotMatch(error.message, /S3cret|[0-9a-f]{9}/i);
        return true;
      }
    );
  });
}
