/** The program as its operator meets it: child processes, exit codes, signals, what it prints. */
import assert from "node:assert/strict";
import { execFile, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import {
  appendFileSync, chmodSync, existsSync, readFileSync, renameSync, truncateSync, writeFileSync,
} from "node:fs";
import { request, type RequestOptions } from "node:http";
import { createServer } from "node:net";
import { networkInterfaces } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { promisify } from "node:util";
import { limitTable } from "../../src/config.ts";
import { environmentOf, settingTable } from "../../src/program/settings.ts";
import { tokenDigest } from "../../src/http/bearer.ts";
import {
  cleanEnvironment, program, root, run, start as startProgram, temporaryFolder, token,
  type Running, type StartOptions,
} from "../support/support.ts";

const servers: Running[] = [];
after(() => servers.map((server) => server.process.kill("SIGKILL")));

/** Starts the program; it does not outlive a test that fails. */
async function start(options: StartOptions = {}): Promise<Running> {
  const server = await startProgram(options);
  servers.push(server);
  return server;
}

const json = { encoding: "utf8" } as const;

/** Posts a plant; the answer's status. Where to: a port or a Unix socket. */
async function post(to: RequestOptions, id = 1, bearer = token, path = "/plants"): Promise<number> {
  const asked = request({
    host: "127.0.0.1", ...to, path, method: "POST", agent: false,
    headers: { Authorization: `Bearer ${bearer}`, "Content-Type": "application/json" },
  });
  asked.end(`{"id":${id},"name":"Fern"}`);
  const [answer] = await once(asked, "response");
  answer.resume();
  await once(answer, "end");
  return answer.statusCode;
}

/** Waits until the program has printed a text. */
async function printed(server: Running, stream: "stdout" | "stderr", text: string): Promise<void> {
  const { [stream]: pipe } = server.process;
  assert.ok(pipe);
  while (!server[stream]().includes(text)) await once(pipe, "data");
}

/** Asks until the answer has this status: a signal has no answer of its own. */
async function untilStatus(wanted: number, ask: () => Promise<number>): Promise<void> {
  for (let status = await ask(); status !== wanted; status = await ask()) {
    assert.ok([200, 401].includes(status), `status ${status}`);
  }
}

const idsOf = (path: string): readonly string[] =>
  [...readFileSync(path, "utf8").matchAll(/"plant":\{"id":(\d+)/g)].map(([, id = ""]) => id);

/** Pastes what the program printed into a shell, as an operator would. */
async function paste(text: string): Promise<string> {
  const line = `${text.trim()} -sS -w ' %{http_code}'`;
  return (await promisify(execFile)("sh", ["-c", line], json)).stdout;
}
const fernAnswer = '{"name":"Fern","tag":"shade"}\n 200';
const made = /Bearer ([\w-]{43})'/;

/** A journal with three records, of a server that has ended. */
async function journalOf(folder: string): Promise<string> {
  const server = await start({ cwd: folder });
  for (const id of [1, 2, 3]) assert.equal(await post({ port: server.port }, id), 200);
  assert.equal(await server.end(), 0);
  return join(folder, "plants.ndjson");
}

test("the first line on stdout is the address, and a configured token is never shown", async () => {
  const secret = "a-token-that-nobody-sees";
  const server = await start({ env: { PLANTS_TOKEN: secret } });
  assert.equal(await post({ port: server.port }, 1, secret), 200);
  assert.equal(await post({ port: server.port }, 1, `${secret}x`), 401);
  server.process.kill("SIGHUP");
  assert.equal(await post({ port: server.port }, 1, secret), 200);
  assert.equal(await server.end(), 0);
  assert.equal(server.stdout(), `plant-store listening on http://127.0.0.1:${server.port}\n`);
  assert.ok(!server.stderr().includes(secret));
});

test("a bad PLANTS_TOKEN is refused with 78, and not repeated", async () => {
  const { code, stdout, stderr } = await run(["--port", "0"], { PLANTS_TOKEN: "se cret" });
  assert.equal(code, 78);
  assert.match(stderr, /PLANTS_TOKEN must be/);
  assert.ok(!`${stdout}${stderr}`.includes("se cret"));
});

test("a token that is made is shown once, with a curl line that works when pasted", async () => {
  const server = await start({ env: { PLANTS_TOKEN: "" } });
  await printed(server, "stdout", "-d '");
  const [, curl = ""] = server.stdout().split("\n\n");
  assert.equal(await paste(curl), fernAnswer);
  const bearer = made.exec(server.stdout())?.[1] ?? "";
  assert.equal(await server.end(), 0);
  assert.equal(server.stdout().split(bearer).length, 2);
  assert.equal(server.stderr(), "");
  const again = await start({ env: { PLANTS_TOKEN: "" } });
  assert.equal(await post({ port: again.port }, 1, bearer), 401);
  await again.end();
});

test("the curl line works on a Unix socket and with a base path, with odd characters", async () => {
  const socket = join(temporaryFolder(), "so ck&et");
  const server = await start({
    args: ["--socket", socket, "--base-path", "/a&b(c)"], env: { PLANTS_TOKEN: "" },
  });
  await printed(server, "stdout", "-d '");
  assert.equal(server.stdout().split("\n")[0], `plant-store listening on unix:${socket}`);
  assert.equal(await paste(server.stdout().split("\n\n")[1] ?? ""), fernAnswer);
  assert.equal(await server.end(), 0);
});

test("--help names every flag and variable; --version is that of package.json", async () => {
  const help = await run(["--help"]);
  assert.equal(help.code, 0);
  const settings = Object.values(settingTable).map((setting) =>
    [setting.flag, environmentOf(setting)] as const);
  const limits = Object.values(limitTable).map((limit) =>
    [limit.flag, environmentOf(limit)] as const);
  for (const [flag, variable] of [...settings, ...limits]) {
    assert.ok(help.stdout.includes(`--${flag} `), flag);
    assert.ok(help.stdout.includes(` ${variable} `), variable);
  }
  const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  const shown = await run(["--version"]);
  assert.deepEqual(shown, { code: 0, stdout: `${version}\n`, stderr: "" });
});

test("every mistake is told at once: 64 with one on the command line, else 78", async () => {
  const bad = { PORT: "http", PLANTS_MAX_BODY: "0", PLANTS_BASE_PATH: "v1/" };
  const environment = await run([], bad);
  assert.equal(environment.code, 78);
  const line = await run(["--host", "a b", "--max-queue=0", "--shiny=x", "--port"], bad);
  assert.equal(line.code, 64);
  for (const [{ stderr }, named] of [
    [environment, ["PORT", "PLANTS_MAX_BODY", "PLANTS_BASE_PATH"]],
    [line, ["--host", "--max-queue", "--shiny", "--port", "PLANTS_MAX_BODY", "PLANTS_BASE_PATH"]],
  ] as const) for (const name of named) assert.match(stderr, new RegExp(`[ "]${name}[ "]`));
});

test("arguments that no command takes end with 64, and touch nothing", async () => {
  const folder = temporaryFolder();
  for (const args of [
    ["plant"], ["verify"], ["token", "a", "b"], ["openapi", "x"], ["--port", "1", "--port", "2"],
    ["--port=70000"], ["--store", "redis://host"], ["--max-body", "1e3"], ["--json"],
  ]) await isRefused(args, folder);
  assert.ok(!existsSync(join(folder, "plants.ndjson")));
});

for (const args of [
  ["--store", "file://elsewhere/x"], ["--store", "file:///a%2Fb"], ["token", "two words"],
  ["token", "#name"], ["--head-timeout", "20000", "--request-timeout", "10000"],
]) {
  test(`"${args.join(" ")}" is a mistake on the command line: 64`, async () => {
    await isRefused(args, temporaryFolder());
  });
}

async function isRefused(args: readonly string[], folder: string): Promise<void> {
  const { code, stdout, stderr } = await run(args, {}, folder);
  assert.match(stderr, /^plant-store: /);
  assert.deepEqual([args, code, stdout], [args, 64, ""]);
}

test("a port that is taken ends the program with 69", async () => {
  const other = createServer().listen(0, "127.0.0.1");
  await once(other, "listening");
  const address = other.address();
  assert.ok(typeof address === "object" && address !== null);
  const { code, stderr } = await run(["--port", `${address.port}`], {}, temporaryFolder());
  other.close();
  assert.equal(code, 69);
  assert.match(stderr, /EADDRINUSE/);
});

const hasIpv6 = Object.values(networkInterfaces()).flat().some((each) => each?.address === "::1");
const withoutIpv6 = hasIpv6 ? false : "this machine has no ::1";
test("an IPv6 address stands in brackets", { skip: withoutIpv6 }, async (t) => {
  t.diagnostic(`::1: ${hasIpv6}`);
  const server = await start({ args: ["--host", "::1"] });
  assert.equal(server.stdout(), `plant-store listening on http://[::1]:${server.port}\n`);
  assert.equal(await post({ host: "::1", port: server.port }), 200);
  assert.equal(await server.end(), 0);
});

test("a socket that kill -9 left behind is taken over; one that is served is not", async () => {
  const socketPath = join(temporaryFolder(), "s");
  const first = await start({ args: ["--socket", socketPath] });
  assert.equal(await first.end("SIGKILL"), null);
  assert.ok(existsSync(socketPath));
  const second = await start({ args: ["--socket", socketPath] });
  const third = await run(["--socket", socketPath], {}, temporaryFolder());
  assert.equal(third.code, 69);
  assert.equal(await post({ socketPath }), 200);
  assert.equal(await second.end(), 0);
  assert.ok(!existsSync(socketPath));
  writeFileSync(socketPath, "not a socket");
  assert.equal((await run(["--socket", socketPath], {}, temporaryFolder())).code, 69);
  assert.equal(readFileSync(socketPath, "utf8"), "not a socket");
});

test("--base-path stands before /plants, and nothing else is served", async () => {
  const server = await start({ args: ["--base-path", "/v1/x"] });
  assert.equal(await post({ port: server.port }, 1, token, "/v1/x/plants"), 200);
  assert.equal(await post({ port: server.port }), 404);
  await server.end();
});

test("the token command's stdout is a tokens file, and its stderr the token", async () => {
  const tokens = join(temporaryFolder(), "tokens");
  const { code, stdout, stderr } = await run(["token", "alice"]);
  assert.equal(code, 0);
  assert.equal(stdout, `alice ${tokenDigest(stderr.trim())}\n`);
  writeFileSync(tokens, stdout, { mode: 0o600 });
  const server = await start({ args: ["--tokens", tokens], env: { PLANTS_TOKEN: "" } });
  assert.equal(await post({ port: server.port }, 1, stderr.trim()), 200);
  assert.equal(await post({ port: server.port }, 1, "alice"), 401);
  assert.equal(await server.end(), 0);
  assert.equal(server.stdout().split("\n").length, 2);
});

test("SIGHUP reads the tokens again; a bad file keeps the old ones", async () => {
  const tokens = join(temporaryFolder(), "tokens");
  const write = (text: string): void => writeFileSync(tokens, text, { mode: 0o600 });
  write(`# team\n\nalice ${tokenDigest("one")}\n`);
  const server = await start({ args: ["--tokens", tokens] });
  const ask = (bearer: string) => () => post({ port: server.port }, 1, bearer);
  assert.equal(await ask("one")(), 200);
  write(`alice ${tokenDigest("two")}\n`);
  server.process.kill("SIGHUP");
  await untilStatus(200, ask("two"));
  assert.deepEqual([await ask("one")(), await ask(token)()], [401, 200]);
  write(`alice ${tokenDigest("three")}\nbob\n`);
  server.process.kill("SIGHUP");
  await printed(server, "stderr", "line 2: ");
  await printed(server, "stderr", "old tokens stay");
  assert.deepEqual([await ask("three")(), await ask("two")()], [401, 200]);
  assert.equal(await server.end(), 0);
});

test("a tokens file that is bad, or that others can write, is refused at start: 78", async () => {
  const tokens = join(temporaryFolder(), "tokens");
  for (const [text, mode, message] of [
    ["", 0o600, /line 1/], ["alice sha256:00\n", 0o600, /line 1/],
    [`\na ${tokenDigest("a").toUpperCase()}\n`, 0o600, /line 2/],
    [`a ${tokenDigest("a")}\n`, 0o620, /mode 620/], [`a ${tokenDigest("a")}\n`, 0o602, /mode 602/],
  ] as const) {
    writeFileSync(tokens, text);
    chmodSync(tokens, mode);
    const { code, stderr } = await run(["--tokens", tokens], {}, temporaryFolder());
    assert.equal(code, 78, stderr);
    assert.match(stderr, message);
  }
});

test("a tokens file that others can read is served, with one info line", async () => {
  const tokens = join(temporaryFolder(), "tokens");
  writeFileSync(tokens, `alice ${tokenDigest("one")}\n`);
  chmodSync(tokens, 0o644);
  const cwd = temporaryFolder();
  const server = await start({ cwd, args: ["--tokens", tokens] });
  assert.equal(await post({ port: server.port }, 1, "one"), 200);
  writeFileSync(tokens, `alice ${tokenDigest("two")}\n`);
  server.process.kill("SIGHUP");
  await untilStatus(200, () => post({ port: server.port }, 1, "two"));
  // Anyone who can write it can grant themselves access: such a file is never taken.
  writeFileSync(tokens, `alice ${tokenDigest("three")}\n`);
  chmodSync(tokens, 0o664);
  server.process.kill("SIGHUP");
  await printed(server, "stderr", "old tokens stay");
  assert.equal(await post({ port: server.port }, 1, "three"), 401);
  assert.equal(await server.end(), 0);
  const notRotated = `not rotated: ${join(cwd, "plants.ndjson")} was not renamed`;
  const lines = server.events().filter(({ res }) => !res).map(({ level, msg }) => `${level} ${msg}`);
  assert.deepEqual(lines.filter((line) => !/^30 (?:serving|draining|ended)/.test(line)), [
    `30 tokens file ${tokens}: others can read it, mode 644`,
    "30 tokens reloaded", `30 ${notRotated}`,
    `40 tokens file ${tokens}: expected that group and others cannot write it, found mode 664; `
      + "the old tokens stay",
    `30 ${notRotated}`,
  ]);
});

test("mv and SIGHUP rotate under load: nothing is refused, each plant is in one file", async () => {
  const folder = temporaryFolder();
  const [path, old] = [join(folder, "plants.ndjson"), join(folder, "old.ndjson")];
  const server = await start({ cwd: folder });
  let id = 0;
  let isOver = false;
  const acknowledged: string[] = [];
  const client = async (): Promise<void> => {
    while (!isOver) {
      const mine = ++id;
      assert.equal(await post({ port: server.port }, mine), 200);
      acknowledged.push(`${mine}`);
    }
  };
  const clients = Array.from({ length: 8 }, client);
  while (acknowledged.length < 50) await post({ port: server.port }, ++id, "wrong");
renameSync(path, old);
  server.process.kill("SIGHUP");
  await printed(server, "stderr", "now writing to");
  const before = acknowledged.length;
  while (acknowledged.length < before + 50) await post({ port: server.port }, ++id, "wrong");
  isOver = true;
  await Promise.all(clients);
  assert.equal(await server.end(), 0);
  const kept = [...idsOf(old), ...idsOf(path)].map(Number).sort((a, b) => a - b);
  assert.deepEqual(kept, acknowledged.map(Number).sort((a, b) => a - b));
  assert.ok(idsOf(old).length > 0 && idsOf(path).length > 0);
  assert.equal((await run(["verify", old, path])).code, 0);
});

for (const signal of ["SIGTERM", "SIGINT"] as const) {
  test(`${signal} ends the program with 0, and what it acknowledged is in the file`, async () => {
    const folder = temporaryFolder();
    const server = await start({ cwd: folder });
    assert.equal(await post({ port: server.port }, 5), 200);
    assert.equal(await server.end(signal), 0);
    assert.deepEqual(idsOf(join(folder, "plants.ndjson")), ["5"]);
    assert.equal(server.stderr(), "");
  });
}

test("a reader of stdout that goes away does not end the server", async () => {
  const folder = temporaryFolder();
  const socketPath = join(folder, "s");
  const inner = 'echo $$ >&2; exec "$0" "$@"';
  const child = spawn("sh", ["-c", `sh -c '${inner}' "$0" "$@" | true`, process.execPath,
    program, "--socket", socketPath], { cwd: folder, env: cleanEnvironment() });
  const [pid] = await once(child.stderr, "data");
  const asked = async (): Promise<number> => {
    assert.equal(child.exitCode, null, "the program ended");
    return post({ socketPath }).catch(() => asked());
  };
  assert.equal(await asked(), 401);
  process.kill(Number(`${pid}`), "SIGTERM");
  await once(child, "close");
});

test("openapi prints the description as JSON", () => {
  const api = JSON.parse(execFileSync(process.execPath, [program, "openapi"], json));
  assert.deepEqual([api.openapi, api.info.version, Object.keys(api.paths)],
    ["3.1.0", "1.0.0", ["/plants"]]);
});

test("a locked journal is 75, a damaged one 65, no directory 74; none is touched", async () => {
  const folder = temporaryFolder();
  const server = await start({ cwd: folder });
  const locked = await run(["--port", "0"], {}, folder);
  assert.equal(locked.code, 75);
  assert.match(locked.stderr, /plants\.ndjson: another process/);
  await server.end();
  const path = await journalOf(temporaryFolder());
  truncateSync(path, 200);
  appendFileSync(path, "\n\nx\n");
  const bytes = readFileSync(path);
  const damaged = await run(["--port", "0", "--store", path], {}, folder);
  assert.equal(damaged.code, 65);
  assert.match(damaged.stderr, /at offset \d+, .*verify/);
  assert.deepEqual(readFileSync(path), bytes);
  const missing = await run(["--port", "0", "--store", "none/x"], {}, folder);
  assert.deepEqual([missing.code, missing.stderr], [74,
    `plant-store: ${join(folder, "none/x")}: there is no folder ${join(folder, "none")}\n`]);
});
