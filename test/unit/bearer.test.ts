/** Bearer credentials (RFC 6750), the tokens that are accepted, and the file that names them. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { chmodSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
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
import { headersOf } from "../support/requests.ts";
import { temporaryFolder } from "../support/support.ts";
import { leavesNoDescriptor, noDescriptors } from "../support/tools.ts";

const secret = "S3cret-._~+/token==";
const hexOf = (token: string): string =>
  createHash("sha256").update(token).digest("hex");

interface Refusal {
  readonly error: number;
  readonly challenge: string | undefined;
  readonly body: string;
}

/** Returns how the tokens refuse the value of Authorization, or undefined. */
function refusalOf(
  tokens: BearerTokens,
  authorization: string | undefined
): Refusal | undefined {
  try {
    tokens.check(authorization);
    return undefined;
  } catch (error) {
    assert.ok(error instanceof ApiError);
    const { body, headers } = error;
    const { "WWW-Authenticate": challenge } = headers;
    return { error: Number(/"error":(\d+)/.exec(body)?.[1]), challenge, body };
  }
}

const accepted: readonly string[] = [
  `Bearer ${secret}`,
  `bEaReR ${secret}`,
  `Bearer     ${secret}`,
  "Bearer other-token"
];
for (const authorization of accepted) {
  test(`"${authorization}" is accepted`, () => {
    for (const given of [
      [secret, "other-token"],
      [secret, "other-token"].map(tokenDigest)
    ]) {
      assert.equal(
        refusalOf(new BearerTokens(given), authorization),
        undefined
      );
    }
  });
}

const refused: readonly (readonly [
  authorization: string | undefined,
  error: number
])[] = [
  // No credentials, or another scheme.
  [undefined, 40101],
  ["", 40101],
  [" ", 40101],
  ["Basic dXNlcjpwYXNz", 40101],
  [`Digest Bearer ${secret}`, 40101],
  [`Bearer${secret}`, 40101],
  [`Bear ${secret}`, 40101],
  [secret, 40101],
  [`"Bearer" ${secret}`, 40101],
  [`Bearer=${secret}`, 40101],
  [`Ｂearer ${secret}`, 40101],
  [`Basic ${secret}, Bearer ${secret}`, 40101],
  // Bearer without exactly one b64token.
  ["Bearer", 40006],
  ["bearer ", 40006],
  ["Bearer a b", 40006],
  [`Bearer ${secret},${secret}`, 40006],
  [`Bearer, Bearer ${secret}`, 40006],
  [`Bearer\t${secret}`, 40006],
  [`Bearer ${secret} `, 40006],
  [`Bearer \t${secret}`, 40006],
  ["Bearer ==", 40006],
  ["Bearer a=b", 40006],
  [`Bearer token="${secret}"`, 40006],
  ["Bearer a:b", 40006],
  ["Bearer a%20b", 40006],
  ["Bearer tökén", 40006],
  ["Bearer \u00a0a", 40006],
  ["Bearer a\n", 40006],
  ["Bearer a\\b", 40006],
  // A digest is not accepted as a token: reading the tokens file does not help.
  [`Bearer ${tokenDigest(secret)}`, 40006],
  [`Bearer ${hexOf(secret)}`, 40102],
  // An unknown token.
  ["Bearer a", 40102],
  [`Bearer ${secret}=`, 40102],
  [`Bearer ${secret.slice(0, -1)}`, 40102],
  [`Bearer ${secret.toLowerCase()}`, 40102],
  [`Bearer x${secret}`, 40102],
  ["Bearer -._~+/", 40102],
  [`Bearer ${"a".repeat(16_000)}`, 40102]
];
for (const [authorization, error] of refused) {
  test(`${JSON.stringify(authorization)?.slice(0, 80)} is refused with ${error}`, () => {
    for (const given of [[secret], [tokenDigest(secret)]]) {
      const refusal = refusalOf(new BearerTokens(given), authorization);
      assert.equal(refusal?.error, error);
      assert.equal(refusal?.challenge, headersOf(error)["www-authenticate"]);
      // Neither our token nor what was sent is repeated.
      assert.doesNotMatch(
        refusal?.body ?? "",
        /S3cret|dXNl|a{9}|[0-9a-f]{64}/i
      );
      assert.ok((refusal?.body.length ?? 0) < 200);
    }
  });
}

for (const [what, given] of [
  ["none at all", []],
  ["an empty one", [""]],
  ["a good one and an empty one", [secret, ""]],
  ["one with a space", ["S3cret a"]],
  ["one that ends in a line feed", ["S3cret\n"]],
  ["a digest of 63 digits", [`sha256:${"a".repeat(63)}`]],
  ["one of 65", [`sha256:${"a".repeat(65)}`]],
  ["a digest in capitals", [`sha256:${"A".repeat(64)}`]],
  ["one with a g", [`sha256:${"g".repeat(64)}`]],
  ["another digest", [`sha1:${"a".repeat(40)}`]],
  ["SHA256", [`SHA256:${"a".repeat(64)}`]]
] as const) {
  test(`${what} is refused as tokens, and the old tokens stay`, () => {
    const isUnspoken = (error: unknown): boolean =>
      error instanceof Error && !/S3cret|a{9}|A{9}|g{9}/.test(error.message);
    assert.throws(() => new BearerTokens(given), isUnspoken);
    const bearer = new BearerTokens([secret]);
    assert.throws(() => bearer.replace(given), isUnspoken);
    assert.equal(refusalOf(bearer, `Bearer ${secret}`), undefined);
  });
}

test("replace() accepts the new tokens and refuses the old ones", () => {
  const bearer = new BearerTokens(["old", "both"]);
  bearer.replace(["both", tokenDigest("new")]);
  const verdicts = ["old", "both", "new"].map(
    (name) => refusalOf(bearer, `Bearer ${name}`)?.error
  );
  assert.deepEqual(verdicts, [40102, undefined, undefined]);
});

test("a generated token is a new b64token of 256 bits, and is accepted by its digest", () => {
  const made = Array.from({ length: 100 }, generateToken);
  assert.equal(new Set(made).size, 100);
  for (const one of made) {
    assert.match(one, /^[\w-]{43}$/);
    assert.equal(tokenDigest(one), `sha256:${hexOf(one)}`);
    assert.equal(
      refusalOf(new BearerTokens([tokenDigest(one)]), `Bearer ${one}`),
      undefined
    );
  }
});

const [a, b] = ["a", "b"].map((name) => `sha256:${hexOf(name)}`);
for (const [what, text, digests] of [
  ["no line feed at its end", `ci ${a}`, [a]],
  ["two lines", `ci ${a}\nops ${b}\n`, [a, b]],
  ["blank lines, and lines of spaces", `\n  \n\t\nci ${a}\n\n \n`, [a]],
  ["comments", `#\n  # tokens\n# ops ${b}\nci ${a}\n# end`, [a]],
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
  ["a token alone", "S3cret-token\n", 1],
  ["a digest without its kind", `ci ${hexOf("a")}\n`, 1],
  ["a colon for the space", `ci:${a}\n`, 1],
  ["65 digits", `ci ${a}0\n`, 1],
  ["a third word", `ci ${a} more\n`, 1],
  ["a comment behind", `ci ${a} # ours\n`, 1],
  ["a bad last line", `ci ${a}\n#\nops`, 3],
  ["a bad line after CRLF", `# x\r\n\r\nci ${a}\r\nS3cret x\r\n`, 4],
  ["CR alone", `ci ${a}\rops ${b}\r`, 1],
  ["the digest of an empty token", `ci ${a}\nops ${tokenDigest("")}`, 2],
  ["a NUL", `ci ${a}\0`, 1],
  ["UTF-16", `c\0i\0 \0${a}`, 1]
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
  [0o400, true],
  [0o740, true],
  [0o604, false],
  [0o644, false]
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
  [
    "that is a folder",
    (path: string) => mkdirSync(path, { mode: 0o700 }),
    /regular file/
  ],
  // One that is waited for stops this test, and any start.
  [
    "that is a pipe",
    (path: string) => execFileSync("mkfifo", ["-m", "600", path]),
    /regular file/
  ],
  [
    "that is a device",
    (path: string) => symlinkSync("/dev/null", path),
    /regular file/
  ],
  ["that is missing", () => undefined, /ENOENT|no such file/],
  [
    "behind a dangling link",
    (path: string) => symlinkSync(`${path}-gone`, path),
    /ENOENT|no such file/
  ],
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
