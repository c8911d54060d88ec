/** `check`: what is wrong with settings, secret files and paths, without a store or a port. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { chmodSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { run } from "../support/in-process.ts";
import { header } from "../support/journals.ts";
import { timeout } from "../support/serving.ts";
import { cleanEnvironment, temporaryFolder } from "../support/support.ts";
import { readableByAll } from "../support/tools.ts";

/** The words of a command line, parted by single spaces. */
const words = (line: string): string[] => (line === "" ? [] : line.split(" "));

for (const [what, line, code, messages] of [
  [
    "a journal in a folder that is missing",
    "--store none/plants.ndjson",
    74,
    [/none\/plants\.ndjson: ENOENT: .*none'$/]
  ],
  ["a folder as the journal", "--store .", 65, [/: is not a regular file$/]],
  [
    "sockets in folders that are missing",
    "--socket none/a --admin none/b",
    69,
    [
      /: --socket: cannot listen: ENOENT: .*none'/,
      /: --admin: cannot listen: ENOENT: .*none'/
    ]
  ],
  [
    "a file at the path of a socket",
    "--socket file",
    69,
    [/: --socket: cannot listen: what is at file is not a socket$/]
  ],
  [
    "a malformed line in the tokens file",
    "--tokens tokens",
    78,
    [/tokens file tokens: line 1: expected NAME/]
  ],
  [
    "a certificate that is missing",
    "--tls-cert none --tls-key tokens",
    78,
    [/TLS certificate none: ENOENT/]
  ],
  [
    "files and paths in one go, with the code of the first",
    "--tokens none --socket none/s --store none/t",
    78,
    [/tokens file none: ENOENT/, /cannot listen: ENOENT/, /none\/t: ENOENT/]
  ],
  [
    "each secret file, and a stream's address",
    "--tokens none --tls-cert none --tls-key none --store nats://h/p?replica=3 " +
      "--store-credentials none --store-tls-ca none",
    78,
    [
      /: tokens file none: /,
      /: TLS certificate none: /,
      /: the store's address: expected nats:.* without credentials$/,
      /: the store's credentials: credentials file none: /,
      /: the store's certificates: TLS authority none: /
    ]
  ],
  [
    "a stream's credentials that are none",
    "--store nats://h/p --store-credentials tokens",
    78,
    [/: the store's credentials: expected "user NAME"/]
  ]
] as const) {
  test(`check reports ${what}`, async () => {
    const cwd = temporaryFolder();
    writeFileSync(join(cwd, "tokens"), "S3cret\n");
    writeFileSync(join(cwd, "file"), "text");
    chmodSync(join(cwd, "tokens"), 0o600);
    const before = readdirSync(cwd);
    const found = await run(["check", ...words(line)], {}, cwd);
    assert.equal(found.code, code);
    assert.equal(found.stdout, "");
    assert.doesNotMatch(found.stderr, /S3cret/);
    const lines = found.stderr.trimEnd().split("\n");
    assert.equal(lines.length, messages.length, found.stderr);
    for (const [index, message] of messages.entries())
      assert.match(lines[index] ?? "", message);
    assert.deepEqual(readdirSync(cwd), before);

    // What needs no store and no port is refused by `serve`, too, with the same code.
    assert.equal((await run(["serve", ...words(line)], {}, cwd)).code, code);
  });
}

test("check reports a folder or a journal that its user may not write", () => {
  // Root may write everywhere: then another user does it, with a copy of the program.
  const isRoot = process.getuid?.() === 0;
  const user = isRoot ? { uid: 65_534, gid: 65_534 } : {};
  const readable = readableByAll();
  const cwd = temporaryFolder();
  chmodSync(cwd, 0o755);
  mkdirSync(join(cwd, "folder"), { mode: 0o555 });
  writeFileSync(join(cwd, "journal"), header, { mode: 0o444 });
  for (const store of ["folder/plants.ndjson", "journal"]) {
    const { status, stderr } = spawnSync(
      process.execPath,
      [readable, "check", "--store", store],
      { ...user, cwd, env: cleanEnvironment(), encoding: "utf8", timeout }
    );
    assert.match(stderr, /EACCES/);
    assert.equal(status, 74);
  }
});

test("check says that settings can be used, and opens neither store nor port", async () => {
  const cwd = temporaryFolder();
  const environment = { PLANTS_TOKENS: "x" };
  for (const store of ["plants.ndjson", "tls://h/p"]) {
    const line = ["check", "--store", store];
    assert.deepEqual(await run(line, environment, cwd), {
      code: 0,
      stdout: "the settings can be used\n",
      stderr:
        "plant-store: PLANTS_TOKENS is ignored: there is no such setting\n"
    });
  }
  assert.deepEqual(readdirSync(cwd), []);
});
