/** Tokens files as the program meets them: those that it can't read, and pipes. */
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { once } from "node:events";
import { chmodSync, chownSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, test } from "node:test";
import { tokenDigest } from "../../src/http/bearer.ts";
import {
  cleanEnvironment, exchange, post, program, start, temporaryFolder, token, type Running,
} from "../support/support.ts";

const timeout = 60_000;
const servers: Running[] = [];
after(() => servers.map((server) => server.process.kill("SIGKILL")));

/** Root reads what nobody may read: then another user does it, who must reach the program. */
const isRoot = process.getuid?.() === 0;
const user = isRoot ? { uid: 65_534, gid: 65_534 } : {};
const isReached = spawnSync(process.execPath, [program, "--version"], user).status === 0;
const notReached = "user 65534 can't read the checkout";
if (!isReached) console.error(`tokens.test.ts: ${notReached}`);
test("a tokens file of mode 000 is refused for the true reason",
  { skip: isReached ? false : notReached, timeout }, () => {
    const cwd = temporaryFolder();
    chmodSync(cwd, 0o755);
    const tokens = join(cwd, "tokens");
    writeFileSync(tokens, `alice ${tokenDigest(token)}\n`);
    chmodSync(tokens, 0);
    const args = [program, "--port", "0", "--store", "/dev/null", "--tokens", tokens];
    const { status, stderr } = spawnSync(process.execPath, args, {
      ...user, cwd, env: cleanEnvironment(), encoding: "utf8", timeout,
    });
    assert.equal(status, 78);
    assert.match(stderr, /^plant-store: tokens file .*: EACCES: permission denied, open '.*'\n$/);
  });

test("a tokens file that is a pipe holds up neither the start nor a SIGHUP", { timeout },
  async () => {
    const cwd = temporaryFolder();
    execFileSync("mkfifo", ["-m", "600", join(cwd, "pipe")]);
    const refused = spawnSync(process.execPath, [program, "--port", "0", "--tokens", "pipe"], {
      cwd, env: cleanEnvironment(), encoding: "utf8", timeout: timeout / 2,
    });
    assert.equal(refused.status, 78);
    assert.match(refused.stderr, /^plant-store: tokens file pipe: expected a regular file\n$/);
    const tokens = join(cwd, "tokens");
    writeFileSync(tokens, `alice ${tokenDigest(token)}\n`, { mode: 0o600 });
    const server = await start({ cwd, args: ["--tokens", "tokens"], env: { PLANTS_TOKEN: "" } });
    servers.push(server);
    renameSync(join(cwd, "pipe"), tokens);
    const { stderr } = server.process;
    assert.ok(stderr);
    server.process.kill("SIGHUP");
    while (!server.stderr().includes("old tokens stay")) await once(stderr, "data");
    const [answer] = await exchange(server.port, post('{"id":1,"name":"a"}'), { answers: 1 });
    assert.equal(answer?.status, 200);
    assert.equal(await server.end(), 0);
  });

const noChown = isRoot ? false : "only root can give a file to another user";
if (noChown) console.error(`tokens.test.ts: ${noChown}`);
const certificate = ["--tls-cert", "crt", "--tls-key", "key"];
for (const [name, kind, args] of [
  ["tokens", "tokens file", ["--tokens", "tokens"]],
  ["key", "TLS key", certificate],
  ["crt", "TLS certificate", certificate],
] as const) {
  test(`a ${kind} that another user owns is refused, whatever its mode: 78`,
    { skip: noChown, timeout }, async () => {
      const cwd = temporaryFolder();
      execFileSync("openssl", ["req", "-x509", "-newkey", "ec", "-pkeyopt",
        "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", "key", "-out", "crt", "-subj", "/CN=a"],
      { cwd, stdio: "ignore" });
      writeFileSync(join(cwd, "tokens"), `alice ${tokenDigest(token)}\n`, { mode: 0o600 });
      const server = await start({ cwd, args });
      servers.push(server);
      chownSync(join(cwd, name), 65_533, 0);
      const refused = spawnSync(process.execPath, [program, "--port", "0", "--store", "x", ...args],
        { cwd, env: cleanEnvironment(), encoding: "utf8", timeout });
      const message = `${kind} ${name}: expected root or user 0 as the owner, found user 65533`;
      assert.deepEqual([refused.status, refused.stderr], [78, `plant-store: ${message}\n`]);
      server.process.kill("SIGHUP");
      const { stderr } = server.process;
      assert.ok(stderr);
      while (!server.stderr().includes(message)) await once(stderr, "data");
      assert.equal(await server.end(), 0);
    });
}

test("a server that is not root takes files of its own and of root's, and no others",
  { skip: noChown || (isReached ? false : notReached), timeout }, () => {
    const statusOf = (owner: number): number | null => {
      const cwd = temporaryFolder();
      chmodSync(cwd, 0o755);
      const tokens = join(cwd, "tokens");
      writeFileSync(tokens, `alice ${tokenDigest(token)}\n`, { mode: 0o644 });
      chownSync(tokens, owner, 0);
      // Past the tokens file the journal is refused: /dev/null is none.
      const args = [program, "--port", "0", "--store", "/dev/null", "--tokens", tokens];
      return spawnSync(process.execPath, args, { ...user, cwd, env: cleanEnvironment(), timeout }).status;
    };
    assert.deepEqual([0, 65_534, 65_533].map(statusOf), [65, 65, 78]);
  });
