/** Tokens as the program meets them: generated, from the environment, from files good and bad. */
import assert from "node:assert/strict";
import { execFile, execFileSync, spawnSync } from "node:child_process";
import {
  chmodSync,
  chownSync,
  mkdirSync,
  renameSync,
  writeFileSync
} from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import { tokenDigest } from "../../src/http/bearer.ts";
import { run, start } from "../support/in-process.ts";
import {
  hangUp,
  metricsOf,
  readyOf,
  statusOf,
  withToken
} from "../support/operator.ts";
import {
  cleanEnvironment,
  type Running,
  socketFolder,
  temporaryFolder,
  token
} from "../support/support.ts";
import { certify, readableByAll } from "../support/tools.ts";

const fernAnswer = '{"name":"Fern","tag":"shade"}\n 200';

/** Pastes the curl line that the program printed into a shell, as an operator would. */
async function paste(server: Running): Promise<string> {
  await server.until(
    () => server.stdout().includes("-d '"),
    "it printed the line"
  );
  const line = `${server.stdout().split("\n\n")[1]?.trim()} -sS -w ' %{http_code}'`;
  return (
    await promisify(execFile)("sh", ["-c", line], { env: cleanEnvironment() })
  ).stdout;
}

test("a generated token is shown once, with a curl line that works when pasted", async () => {
  const env = { PLANTS_TOKEN: undefined };
  const server = await start({ env });
  assert.equal(await paste(server), fernAnswer);
  const bearer = /Bearer ([\w-]{43})'/.exec(server.stdout())?.[1] ?? "";
  assert.equal(await server.end(), 0);
  assert.equal(server.stdout().split(bearer).length, 2);
  assert.equal(server.stderr(), "");
  assert.deepEqual(server.events()[0]?.["tokens"], ["generated"]);
  const empty = await start({ env: { PLANTS_TOKEN: "" } });
  assert.equal(await empty.end(), 0);
  assert.equal(
    empty.stderr(),
    "plant-store: PLANTS_TOKEN is empty: a token is generated\n"
  );
  const again = await start({ env });
  assert.equal(await statusOf(again, withToken(bearer)), 401);
});

test("the curl line works on a Unix socket and with a base path, with odd characters", async () => {
  const socket = join(socketFolder(), "s'o'c k&et $x");
  const args = ["--socket", socket, "--base-path", "/a&b($c)"];
  const server = await start({ args, env: { PLANTS_TOKEN: "" } });
  assert.equal(await paste(server), fernAnswer);
  assert.equal(
    server.stdout().split("\n")[0],
    `plant-store listening on unix:${socket}`
  );
  assert.equal(
    server.events().find(({ msg }) => msg === "serving")?.["url"],
    "http://localhost/a&b($c)/plants"
  );
});

test("a folder may have any name: journal, secret files and sockets in it work", async () => {
  const name = "my plants #1 (ü)";
  const cwd = socketFolder();
  const at = (file: string): string => join(name, file);
  mkdirSync(join(cwd, name));
  certify(join(cwd, name), "localhost");
  const { stdout: line } = await run(["token", "alice"]);
  writeFileSync(join(cwd, at("tokens")), line, { mode: 0o600 });
  const args = [
    ...["--store", at("plants.ndjson"), "--socket", at("s")],
    ...["--tls-cert", at("localhost.crt"), "--tls-key", at("localhost.key")]
  ];
  const env = { PLANTS_TOKEN: "" };
  const server = await start({
    args: [...args, "--admin", at("a")],
    env,
    cwd
  });
  assert.equal(await paste(server), fernAnswer);
  assert.equal(await readyOf(server), "200 ready");
  assert.equal(await server.end(), 0);

  const withTokens = [...args, "--tokens", at("tokens")];
  assert.equal((await run(["check", ...withTokens], {}, cwd)).code, 0);
  const again = await start({ args: withTokens, env, cwd });
  renameSync(join(cwd, at("plants.ndjson")), join(cwd, at("old #1")));
  await hangUp(again, "rotated: now writing to");
  assert.equal(await again.end(), 0);
  for (const command of ["verify", "cat"]) {
    const { code, stdout } = await run([command, at("old #1")], {}, cwd);
    assert.equal(code, 0);
    assert.match(stdout, command === "cat" ? /"Fern"/ : /whole, records: 1,/);
  }
});

test("the token command's stdout is a tokens file, and its stderr the token", async () => {
  const tokens = join(temporaryFolder(), "tokens");
  const { code, stdout, stderr } = await run(["token", "alice"]);
  assert.equal(code, 0);
  assert.equal(stdout, `alice ${tokenDigest(stderr.trim())}\n`);
  writeFileSync(tokens, stdout, { mode: 0o600 });
  const server = await start({
    args: ["--tokens", tokens],
    env: { PLANTS_TOKEN: "" }
  });
  assert.equal(await statusOf(server, withToken(stderr.trim())), 200);
  assert.equal(await statusOf(server, withToken("alice")), 401);
  assert.equal(await server.end(), 0);
  assert.equal(server.stdout().split("\n").length, 2);
});

test("SIGHUP reads the tokens again, and keeps the old ones and logs why if it refuses the file", async () => {
  const cwd = temporaryFolder();
  const tokens = join(cwd, "tokens");
  const write = (text: string, mode = 0o600): void => {
    writeFileSync(tokens, text);
    chmodSync(tokens, mode);
  };
  const statuses = async (...bearers: readonly string[]) => {
    const found: unknown[] = [];
    for (const bearer of bearers)
      found.push(await statusOf(server, withToken(bearer)));
    return found;
  };
  write(`# team\n\nalice ${tokenDigest("one")}\n`, 0o644);
  const args = ["--tokens", tokens, "--admin", "0"];
  const server = await start({ cwd, args });

  /** Whether the last reload succeeded, and when one last did, in milliseconds. */
  const reloads = async () => {
    const metrics = await metricsOf(server);
    const name = "plant_store_last_reload_success";
    const at = metrics.get(`${name}_timestamp_seconds`) ?? 0;
    return [metrics.get(`${name}ful`), Math.round(at * 1_000)] as const;
  };
  const [atStart, startedAt] = await reloads();
  assert.equal(atStart, 1);
  assert.deepEqual(await statuses("one", token, "two"), [200, 200, 401]);
  write(`alice ${tokenDigest("two")}\n`, 0o644);
  await hangUp(server, "tokens reloaded");
  const [isGood, reloadedAt] = await reloads();
  assert.equal(isGood, 1);
  assert.ok(reloadedAt > startedAt && reloadedAt <= Date.now());
  assert.deepEqual(await statuses("one", token, "two"), [401, 200, 200]);
  // Anyone who can write it can grant themselves access: such a file is never taken.
  for (const [times, text, mode] of [
    [1, `alice ${tokenDigest("three")}\nbob\n`, 0o600],
    [2, `alice ${tokenDigest("three")}\n`, 0o664]
  ] as const) {
    write(text, mode);
    await hangUp(server, "old tokens stay", times);
    assert.deepEqual(await statuses("three", "two"), [401, 200]);
    assert.deepEqual(await reloads(), [0, reloadedAt]);
  }
  assert.equal(await server.end(), 0);
  const lines = server
    .events()
    .filter(({ res }) => !res)
    .map(({ level, msg }) => `${level} ${msg}`);
  assert.deepEqual(
    lines.filter((line) => !/^30 (?:serving|draining|ended|not r)/.test(line)),
    [
      `30 tokens file ${tokens}: others can read it, mode 644`,
      "30 tokens reloaded",
      `40 tokens file ${tokens}: line 2: expected NAME sha256:HEX with 64 lower-case digits, not those of an empty token; the old tokens stay`,
      `40 tokens file ${tokens}: expected that group and others cannot write it, found mode 664; ` +
        "the old tokens stay"
    ]
  );
});

test("a tokens file that is a pipe holds up neither the start nor a SIGHUP", async () => {
  const cwd = temporaryFolder();
  execFileSync("mkfifo", ["-m", "600", join(cwd, "pipe")]);
  assert.deepEqual(await run(["--port", "0", "--tokens", "pipe"], {}, cwd), {
    code: 78,
    stdout: "",
    stderr: "plant-store: tokens file pipe: expected a regular file\n"
  });
  const tokens = join(cwd, "tokens");
  writeFileSync(tokens, `alice ${tokenDigest(token)}\n`, { mode: 0o600 });
  const server = await start({
    cwd,
    args: ["--tokens", "tokens"],
    env: { PLANTS_TOKEN: "" }
  });
  renameSync(join(cwd, "pipe"), tokens);
  await hangUp(server, "old tokens stay");
  assert.equal(await statusOf(server), 200);
  assert.equal(await server.end(), 0);
});

const isRoot = process.getuid?.() === 0;
const noChown = isRoot ? false : "only root can give a file to another user";
if (noChown) console.error(`tokens.test.ts: ${noChown}`);
const certificate = ["--tls-cert", "pair.crt", "--tls-key", "pair.key"];
test(
  "a file that another user owns is refused, whatever its mode: 78",
  { skip: noChown },
  async () => {
    const cwd = temporaryFolder();
    certify(cwd, "pair");
    const line = `alice ${tokenDigest(token)}\n`;
    writeFileSync(join(cwd, "tokens"), line, { mode: 0o600 });
    for (const [name, kind, args] of [
      ["tokens", "tokens file", ["--tokens", "tokens"]],
      ["pair.key", "TLS key", certificate],
      ["pair.crt", "TLS certificate", certificate]
    ] as const) {
      chownSync(join(cwd, name), 65_533, 0);
      const message = `${kind} ${name}: expected root or user 0 as the owner, found user 65533`;
      assert.deepEqual(
        await run(["--port", "0", "--store", "x", ...args], {}, cwd),
        { code: 78, stdout: "", stderr: `plant-store: ${message}\n` }
      );
      chownSync(join(cwd, name), 0, 0);
    }
  }
);

test(
  "a server that is not root reads files of its own and of root's, and no others",
  { skip: noChown },
  () => {
    const server = readableByAll();
    const cwd = temporaryFolder();
    chmodSync(cwd, 0o755);
    // Past the tokens file the journal is refused: /dev/null is none.
    for (const [owner, mode, message] of [
      [0, 0o644, /^65 [^]*null: is not a regular file/],
      [65_534, 0o600, /^65 [^]*null: is not a regular file/],
      [65_533, 0o644, /^78 .*tokens file .*, found user 65533/],
      [0, 0o600, /^78 .*tokens file .*: EACCES: /]
    ] as const) {
      const tokens = join(cwd, `${owner}-${mode}`);
      writeFileSync(tokens, `alice ${tokenDigest(token)}\n`);
      chmodSync(tokens, mode);
      chownSync(tokens, owner, 0);
      const line = ["--port", "0", "--store", "/dev/null", "--tokens", tokens];
      const { status, stderr } = spawnSync(
        process.execPath,
        [server, ...line],
        {
          cwd,
          encoding: "utf8",
          env: cleanEnvironment(),
          uid: 65_534
        }
      );
      assert.match(`${status} ${stderr}`, message);
    }
  }
);
