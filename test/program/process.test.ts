/** What the process does when something goes wrong that no request can be blamed for. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync
} from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { catalogue } from "../../src/http/errors.ts";
import { openJournal, tokenDigest } from "../../src/index.ts";
import { begin, start, startWithAdmin } from "../support/in-process.ts";
import { header, idsIn, record } from "../support/journals.ts";
import {
  adminOf,
  ask,
  finish,
  hangUp,
  internalError,
  limitFiles,
  logged,
  noLimits,
  pageOf,
  readyOf,
  statusOf,
  underWay,
  withToken
} from "../support/operator.ts";
import { fern } from "../support/requests.ts";
import {
  cleanEnvironment,
  placeIn,
  post as bytesOf,
  program,
  runningOf,
  type RunningProcess,
  startProcess,
  temporaryFolder,
  token
} from "../support/support.ts";
import { until } from "../support/until.ts";

test("an internal error ends with 70 and one line, without a stack", async () => {
  const server = await startProcess({ nodeArgs: internalError });
  assert.equal(await server.end("SIGUSR2"), 70);
  assert.equal(server.stderr(), "plant-store: internal error: boom\n");
  assert.equal(server.events().at(-1)?.level, 50);
});

test("a command with an internal error ends with 70", async () => {
  const host = { print: () => assert.fail("boom") };
  const running = begin(["openapi"], {}, { host });
  assert.equal(await running.ended, 70);
  assert.equal(running.stderr(), "plant-store: internal error: boom\n");
});

test("a journal that is moved without a rotation ends the server with 503, also of /readyz, and exit code 74, and no SIGHUP rotates it", async () => {
  const cwd = temporaryFolder();
  const server = await startWithAdmin({
    cwd,
    args: ["--rotation-timeout", "10"]
  });
  const socket = await underWay(server);
  renameSync(join(cwd, "plants.ndjson"), join(cwd, "old.ndjson"));
  const [answer] = await ask(server);
  assert.match(`${answer?.status} ${answer?.body}`, /^503 .* unknown whether/);
  await logged(server, "draining: the journal has failed");
  assert.equal(await readyOf(server), "503 draining: the journal has failed");
  assert.equal((await pageOf(adminOf(server), "/livez")).status, 200);
  await hangUp(server, "not rotated: expected a server that is ready");
  assert.deepEqual(await finish(socket), [503]);
  assert.equal(await server.ended, 74);
  assert.match(
    server.stderr(),
    /^plant-store: .*plants\.ndjson: at offset \d+, the journal .*was renamed, /
  );
  const errors = server
    .events()
    .filter(({ level }) => level === 50)
    .map(({ err, msg }) => err?.code ?? /was renamed/.test(msg));
  assert.deepEqual(errors, [catalogue.unknown[0], true, catalogue.unknown[0]]);
});

test("a journal that fails while the program ends still makes the end 74", async () => {
  const cwd = temporaryFolder();
  const server = await start({ cwd, args: ["--rotation-timeout", "300"] });
  renameSync(join(cwd, "plants.ndjson"), join(cwd, "old.ndjson"));
  const answered = statusOf(server);
  // The plant is written, and waits for a rotation that does not come, when the end is asked for.
  await until("it is written", () =>
    readFileSync(join(cwd, "old.ndjson"), "utf8").includes('"seq":1')
  );
  assert.equal(await server.end(), 74);
  assert.equal(await answered, 503);
});

test("each part of a SIGHUP does its work, whatever becomes of the others", async () => {
  const cwd = temporaryFolder();
  const path = join(cwd, "plants.ndjson");
  const tokens = join(cwd, "tokens");
  const write = (text: string): void =>
    writeFileSync(tokens, text, { mode: 0o600 });
  write(`alice ${tokenDigest("one")}\n`);
  const server = await start({ cwd, args: ["--tokens", "tokens"] });
  renameSync(path, `${path}.1`);
  write("no digest\n");
  await hangUp(server, "now writing to");
  renameSync(path, `${path}.2`);
  mkdirSync(path);
  write(`alice ${tokenDigest("two")}\n`);
  await hangUp(server, "still writing to the old file");
  assert.equal(await statusOf(server, withToken("two")), 200);
  assert.match(readFileSync(`${path}.2`, "utf8"), /"name":"Fern"/);
  assert.equal(await server.end(), 0);
  assert.match(
    server.stderr(),
    new RegExp(
      "^plant-store: tokens file tokens: line 1: .*; the old " +
        "tokens stay\nplant-store: rotated: now writing to .*/plants\\.ndjson\n" +
        "plant-store: tokens reloaded\n" +
        "plant-store: .*plants\\.ndjson: is not a regular file; still writing to the old file\n$"
    )
  );
});

test("a SIGHUP does not take a deleted journal for a renamed one", async () => {
  const cwd = temporaryFolder();
  const server = await start({ cwd });
  await ask(server);
  rmSync(join(cwd, "plants.ndjson"));
  assert.equal(await server.end("SIGHUP"), 74);
  assert.match(server.stderr(), /it was deleted or replaced/);
  assert.equal(existsSync(join(cwd, "plants.ndjson")), false);
});

test("a rewrite copy that cannot be looked at is not a missing copy: the journal is not opened", async () => {
  const { path } = placeIn();
  await (await openJournal(path)).close();
  symlinkSync("plants.ndjson.rewrite", `${path}.rewrite`);
  await assert.rejects(openJournal(path), { code: "unreadable", exitCode: 65 });
});

test("a journal stays at its path when the process changes its folder", async () => {
  const before = process.cwd();
  const cwd = temporaryFolder();
  process.chdir(cwd);
  const journal = await openJournal("plants.ndjson");
  process.chdir(before);
  journal.once("failed", () => assert.fail("nothing fails"));
  renameSync(join(cwd, "plants.ndjson"), join(cwd, "old.ndjson"));
  assert.equal(await journal.rotate(), true);
  assert.ok(existsSync(join(cwd, "plants.ndjson")));
  await journal.append({ id: 1n, name: "Fern" });
  await journal.close();
  await (await openJournal(join(cwd, "plants.ndjson"))).close();
});

test("mv and SIGHUP rotate under load: nothing is refused, each plant is in one file", async () => {
  const folder = temporaryFolder();
  const path = join(folder, "plants.ndjson");
  const old = join(folder, "old.ndjson");
  const server = await start({ cwd: folder });
  let id = 0;
  let isOver = false;
  const acknowledged: string[] = [];
  const client = async (): Promise<void> => {
    while (!isOver) {
      const mine = ++id;
      const bytes = bytesOf(fern.replace("1", `${mine}`)).toString();
      assert.equal(await statusOf(server, bytes), 200);
      acknowledged.push(`${mine}`);
    }
  };
  const reach = (count: number) =>
    until(`${count} are acknowledged`, async () => {
      await statusOf(server, withToken("wrong"));
      return acknowledged.length >= count;
    });
  const clients = Array.from({ length: 8 }, client);
  await reach(50);
  renameSync(path, old);
  await hangUp(server, "now writing to");
  await reach(acknowledged.length + 50);
  isOver = true;
  await Promise.all(clients);
  assert.equal(await server.end(), 0);
  const kept = [...idsIn(old), ...idsIn(path)].sort((a, b) => a - b);
  assert.deepEqual(
    kept,
    acknowledged.map(Number).sort((a, b) => a - b)
  );
  assert.ok(idsIn(old).length > 0 && idsIn(path).length > 0);
});

/** Starts the program with a limit on the size of the files that it may write, as on a full disk. */
function startLimited(cwd: string, bytes: number): RunningProcess {
  const args = ["--port", "0", "--admin", "0"];
  return runningOf(
    spawn(
      "prlimit",
      [`--fsize=${bytes}:unlimited`, process.execPath, program, ...args],
      { cwd, env: cleanEnvironment({ PLANTS_TOKEN: token }) }
    )
  );
}

test(
  "a start without space for a repair waits for space, with one line in the log, until a signal",
  { skip: noLimits },
  async () => {
    const cwd = temporaryFolder();
    const torn = '{"seq":2,';
    const journal = header + record(1, 133);
    writeFileSync(join(cwd, "plants.ndjson"), journal + torn);

    // The torn end can be copied, the end to rewrite cannot.
    const first = startLimited(cwd, torn.length + 1);
    await logged(first, "tried again until there is space");
    assert.equal(await first.end(), 74);
    assert.equal(
      readFileSync(join(cwd, "plants.ndjson"), "utf8"),
      journal + torn
    );

    const second = startLimited(cwd, torn.length + 1);
    await logged(second, "tried again until there is space");
    limitFiles(second.process.pid, "unlimited");
    await second.listening();
    assert.equal(await statusOf(second), 200);
    assert.equal(await second.end(), 0);
    const ofSpace = second.events().filter(({ msg }) => /space/.test(msg));
    assert.deepEqual(
      ofSpace.map(({ level }) => level),
      [50]
    );
    const copies = readdirSync(cwd).filter((name) => name.includes(".torn-"));
    assert.deepEqual(copies, [`plants.ndjson.torn-${journal.length}`]);
  }
);

test(
  "a rotation without space is tried again by itself",
  { skip: noLimits },
  async () => {
    const cwd = temporaryFolder();
    const path = join(cwd, "plants.ndjson");
    const server = await startProcess({ cwd });
    limitFiles(server.process.pid, 10);
    renameSync(path, `${path}.1`);
    await hangUp(server, "tried again until there is space");
    limitFiles(server.process.pid, "unlimited");
    await logged(server, `rotated: now writing to ${path}`);
    assert.equal(await statusOf(server), 200);
    assert.equal(await server.end(), 0);
    assert.match(readFileSync(path, "utf8"), /"name":"Fern"/);
  }
);
