/** Tokens files as the program meets them: those that it can't read, and pipes. */
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { once } from "node:events";
import { chmodSync, renameSync, writeFileSync } from "node:fs";
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
