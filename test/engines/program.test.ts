/** The program on a stream: how it starts and is refused, two of them on one stream, moving in and
 * out, and that it costs nothing who does not ask for it. */
import assert from "node:assert/strict";
import { cpSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, test } from "node:test";
import { exchange, post, program, run, start, temporaryFolder } from "../support/support.ts";
import { Cluster, until, withCluster } from "./cluster.ts";
import { Fake } from "./fake.ts";
import { compare, Load } from "./load.ts";

const timeout = 120_000;
const cluster = await Cluster.start();
const fern = (id: number): Buffer => post(`{"id":${id},"name":"Fern"}`);

const addresses: readonly (readonly [args: readonly string[], code: number, pattern: RegExp])[] = [
  [["--store", "nats://u:s3cret@h/pla.nts"], 78, /the store's address: expected nats:\/\//],
  [["--store", "nats://u:s3cret/x@h/plants"], 78, /expected nats:\/\//],
  [["--store", "nats://u:s3cret@h/plants?replicas=s3"], 78, /expected nats:\/\//],
  [["--store", "natss://u:s3cret@h/plants"], 64, /--store must be a path, or nats:\/\/ .*:\/\/\*\*\*/],
  [["--store", "http://s3cret"], 64, /--store must be a path, or nats:\/\//],
  [["--store", " nats://u:s3cret@h/plants"], 64, /--store must be a path.*found " nats:\/\/\*\*\*"/],
  [["--store", "nats//u:s3cret@h/plants"], 64, /--store must be a path.*found "\*\*\*@h\/plants"/],
  [["--store", "u:s3cret@h/plants"], 64, /--store must be a path.*found "\*\*\*@h\/plants"/],
  [["-store=nats://u:s3@h/plants"], 64, /^plant-store: serve has no option "-s": .*\n$/],
  [["--tokens", "nats://u:s3cret@h/plants"], 64, /--tokens must be a path, found "nats:\/\/\*\*\*"/],
  [["--socket", "nats://u:s3cret@h/plants"], 64, /--socket must be a path/],
  [["--admin", "nats://u:s3cret@h/plants"], 64, /--admin must be a port/],
  [["--tls-cert", "nats://u:s3cret@h/plants"], 64, /--tls-cert must be a path/],
  [["verify", "nats://u:s3cret@h/plants"], 64, /verify takes no address, found "nats:\/\/\*\*\*"/],
  [["verify", "--json", "u:s3cret@h"], 64, /verify takes no address, found "\*\*\*@h"/],
  [["import", "nats://u:s3cret@h/plants"], 64, /import takes no address/],
  [["--store", "s3cret@127.0.0.1:4222/plants"], 64, /--store must be a path.*found "\*\*\*@127/],
  [["verify", "s3cret@127.0.0.1:4222/plants"], 64, /verify takes no address, found "\*\*\*@127/],
  [["verify", "/no/10:00/@home/plants.ndjson"], 74, /\/no\/10:00\/@home\/plants\.ndjson/],
  [["verify", "./10:00@daily/plants.ndjson"], 74, /10:00@daily/],
  [["token", "svc:alice@example.org"], 0, /^/],
  [["nats://u:s3cret@h/plants"], 64, /there is no command "nats:\/\/\*\*\*"/],
  [["import", "f.ndjson", "--store", "u:s3cret@h"], 64, /import needs --store nats:\/\//],
  [["import", "--store", "nats://u:s3cret@h/plants"], 64, /import needs the path of a journal/],
  [["export", "a", "nats://u:s3cret@h/plants"], 64, /export takes no "nats:\/\/\*\*\*"/],
  [["token", "nats://u:s3cret@h/plants", "--store", "x"], 64, /token has no option "--store"/],
];
for (const [args, code, pattern] of addresses) {
  test(`${args.join(" ")}: exit ${code}, and no password is shown`, { timeout }, async () => {
    const ended = await run(args, {}, temporaryFolder());
    assert.equal(ended.code, code, ended.stderr);
    assert.match(ended.stderr, pattern);
    assert.doesNotMatch(ended.stdout + ended.stderr, /s3/);
  });
}

test("an address in the environment that keeps its quotes is not shown", { timeout }, async () => {
  const env = { PLANTS_STORE: '"nats://u:s3cret@h/plants"' };
  const { code, stderr, stdout } = await run([], env, temporaryFolder());
  assert.equal(code, 78);
  assert.match(stderr, /PLANTS_STORE must be a path, or nats:/);
  assert.doesNotMatch(stdout + stderr, /s3cret/);
});

test("an address in the environment is read, and its password is not shown either", { timeout },
  async () => {
    const fake = await Fake.start({ onConnect: "-ERR 'Authorization Violation'\r\n" });
    const { code, stderr, stdout } =
      await run([], { PLANTS_STORE: `nats://u:s3cret@${fake.host}/plants` }, temporaryFolder());
    assert.equal(code, 78);
    assert.match(stderr, /plant-store: 127\.0\.0\.1:\d+: 'Authorization Violation'/);
    assert.doesNotMatch(stdout + stderr, /s3cret/);
  });

test("who has a journal needs nothing of an engine: without its files all goes on", { timeout },
  async () => {
    const folder = join(temporaryFolder(), "dist");
    cpSync(dirname(program), folder, { recursive: true });
    writeFileSync(join(folder, "package.json"), '{"type":"module"}');
    rmSync(join(folder, "engines"), { recursive: true });
    rmSync(join(folder, "program", "transfer.js"));
    const server = await start({ program: join(folder, "server.js") });
    const [answer] = await exchange(server.port, fern(1), { answers: 1 });
    assert.equal(answer?.status, 200);
    assert.equal(await server.end(), 0);
    await assert.rejects(start({ program: join(folder, "server.js"),
      args: ["--store", "nats://127.0.0.1:1/plants"] }), /Cannot find module|a fault of ours/,
    "the control: with a stream they are needed");
  });

test("no host is there: it listens, and answers 503 until one is", { timeout }, async () => {
  const fake = await Fake.start({ greeting: "" });
  const server = await start({ env: { PLANTS_STORE: `nats://u:s3cret@${fake.host}/plants` } });
  const [refusal] = await exchange(server.port, fern(1), { answers: 1 });
  assert.match(`${refusal?.status} ${refusal?.body}`, /^503 \{"error":50306,/);
  assert.equal(refusal?.headers["retry-after"], "1");
  fake.script = {};
  await until("it takes plants", async () => {
    const [answer] = await exchange(server.port, fern(1), { answers: 1 });
    return answer?.status === 200;
  });
  assert.equal(await server.end(), 0);
  assert.match(server.stderr(), /plants are acknowledged again/);
  assert.doesNotMatch(server.stdout() + server.stderr(), /s3cret/);
});

describe("the program on a stream", { ...withCluster, timeout }, () => {
  test("a stream that is not there is refused with its JSON: exit 78", async () => {
    const { code, stderr, stdout } =
      await run([], cluster.env("plants"), temporaryFolder());
    assert.equal(code, 78);
    assert.match(stderr, /^plant-store: \{"name":"plants",.*"storage":"file"/m);
    assert.doesNotMatch(stdout + stderr, /writerpw/);
  });
  test("two on one stream, 1,000 connections, one killed: all that either acknowledged is there",
    async (t) => {
      await cluster.create("plants");
      const env = cluster.env("plants");
      const [first, second] = [await start({ env }), await start({ env })];
      t.after(() => [first, second].map((server) => server.process.kill("SIGKILL")));
      const loads = [new Load(first.port, 500), new Load(second.port, 500)] as const;
      await Promise.all(loads.map((load) => load.more(2_000)));
      assert.equal(await first.end("SIGKILL"), null);
      await loads[1].more(2_000);
      await Promise.all(loads.map((load) => load.end()));
      assert.equal(await second.end(), 0, second.stderr());
      const acknowledged = loads.flatMap((load) => load.acknowledged);
      const compared = await compare(cluster, acknowledged);
      t.diagnostic(`${acknowledged.length} acknowledged, ${JSON.stringify(compared)}`);
      assert.equal(compared.missing, 0);
      assert.equal(compared.twice, 0);
      assert.deepEqual([...loads[1].refused], []);
    });
  test("SIGTERM waits for what is in flight, and SIGHUP does no harm", async () => {
    const server = await start({ env: cluster.env("plants") });
    server.process.kill("SIGHUP");
    const load = new Load(server.port, 32);
    await load.more(200);
    server.process.kill("SIGTERM");
    await load.end();
    assert.equal(await server.end(), 0, server.stderr());
    assert.equal((await compare(cluster, load.acknowledged)).missing, 0);
  });
  test("import and export: their exit codes and words, and a journal that verify accepts", async () => {
    const folder = temporaryFolder();
    await cluster.create("moved");
    const env = cluster.env("moved", "admin");
    const server = await start({ cwd: folder });
    for (let id = 1; id <= 20; id++) await exchange(server.port, fern(id), { answers: 1 });
    const locked = await run(["import", "plants.ndjson"], env, folder);
    assert.equal(locked.code, 75, locked.stderr);
    assert.equal(await server.end(), 0);
    const words: string[] = [];
    for (let time = 0; time < 2; time++) {
      const { code, stdout, stderr } = await run(["import", "plants.ndjson"], env, folder);
      assert.equal(code, 0, stderr);
      words.push(stdout);
    }
    assert.deepEqual(words, ["the stream has all 20 records, 20 of them from now\n",
      "the stream has all 20 records, 0 of them from now\n"]);
    const out = await run(["export", "--store", env.PLANTS_STORE, "out.ndjson"], {}, folder);
    assert.equal(`${out.code} ${out.stdout}`, "0 out.ndjson has all 20 records of the stream\n");
    assert.equal((await run(["verify", "out.ndjson"], {}, folder)).code, 0);
    const plants = (name: string) => readFileSync(join(folder, name), "utf8").split("\n").slice(1)
      .map((line) => /"plant":\{.*\}(?=,"crc")/.exec(line)?.[0]);
    assert.deepEqual(plants("out.ndjson"), plants("plants.ndjson"));
    const again = await run(["export", "out.ndjson"], env, folder);
    assert.equal(again.code, 65);
    assert.match(again.stderr, /out\.ndjson is there already/);
    const missing = await run(["import", "none.ndjson"], env, folder);
    assert.equal(missing.code, 74);
    // A journal goes on where the export ends.
    const journal = await start({ cwd: folder, args: ["--store", "out.ndjson"] });
    const [answer] = await exchange(journal.port, fern(21), { answers: 1 });
    assert.equal(answer?.status, 200);
    await journal.end();
    assert.equal((await run(["verify", "out.ndjson"], {}, folder)).code, 0);
    const damaged = readFileSync(join(folder, "out.ndjson"), "utf8").replace('"id":5', '"id":6');
    writeFileSync(join(folder, "damaged.ndjson"), damaged);
    const refused = await run(["import", "damaged.ndjson"], env, folder);
    assert.equal(refused.code, 65);
    assert.match(refused.stderr, /damaged\.ndjson: at offset \d+: the line's checksum is wrong/);
    for (const each of [locked, out, again, missing, refused]) {
      assert.doesNotMatch(each.stderr + each.stdout, /adminpw/);
    }
  });
});
