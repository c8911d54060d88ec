/** The program on a stream: start, refusals, two processes on one stream, loading a journal. A
 * server with a journal loads none of this. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { chmodSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { openJournal } from "../../src/journal/journal.ts";
import { run, start } from "../support/in-process.ts";
import { answerTo } from "../support/exchange.ts";
import {
  cleanEnvironment,
  post,
  root,
  runningOf,
  startProcess,
  temporaryFolder,
  token
} from "../support/support.ts";
import { Cluster, environmentFor, withCluster } from "./cluster.ts";
import { Fake } from "./fake.ts";
import { compare, Load } from "./load.ts";
import { seconds, until } from "../support/until.ts";

const timeout = seconds(240);
const cluster = await Cluster.start();
const login = "user u\npassword s3cret\n";
const fern = (id: number): Buffer => post(`{"id":${id},"name":"Fern"}`);

const refusals: readonly (readonly [
  what: string,
  mode: number,
  pattern: RegExp
])[] = [
  ["a wrong one", 0o600, /: 'Authorization Violation'\n$/],
  ["a missing one", 0, /the store's credentials: credentials file .*ENOENT/],
  [
    "one that others can write",
    0o602,
    /credentials file .*: expected .* cannot write it, found mode 602/
  ]
];
for (const [what, mode, pattern] of refusals) {
  test(
    `a file of credentials, ${what}: 78, and no secret is shown`,
    { timeout },
    async () => {
      const fake = await Fake.start({
        onConnect: "-ERR 'Authorization Violation'\r\n"
      });
      const env = environmentFor(`nats://${fake.host}/plants`, login);
      if (mode === 0) rmSync(env.PLANTS_STORE_CREDENTIALS);
      else chmodSync(env.PLANTS_STORE_CREDENTIALS, mode);
      const { code, stderr, stdout } = await run([], env, temporaryFolder());
      assert.equal(code, 78, stderr);
      assert.match(stderr, pattern);
      assert.doesNotMatch(stdout + stderr, /s3cret/);

      // A file that is refused is refused before any server is asked.
      const isSent = pattern.source.includes("Violation");
      assert.equal(fake.connections, isSent ? 1 : 0);
    }
  );
}

test(
  "the file of credentials is read again for each connection, with one warning if others can read it",
  { timeout },
  async () => {
    const fake = await Fake.start({});
    const env = environmentFor(`nats://${fake.host}/plants`, login);
    chmodSync(env.PLANTS_STORE_CREDENTIALS, 0o644);
    const server = await start({ env });
    const hasLoggedIn = (user: string, pass: string): boolean =>
      fake.said.some((said) =>
        said.includes(`"user":"${user}","pass":"${pass}"`)
      );
    assert.ok(hasLoggedIn("u", "s3cret"), fake.said.join());
    writeFileSync(env.PLANTS_STORE_CREDENTIALS, "user v\npassword s3cret2\n");
    fake.cut();
    await until("it is connected again", () =>
      Promise.resolve(hasLoggedIn("v", "s3cret2"))
    );
    assert.equal(await server.end(), 0);
    const warnings = server
      .events()
      .filter(({ msg }) => msg.includes("others can read it"));
    assert.deepEqual(
      warnings.map(({ level, msg }) => `${level} ${msg}`),
      [
        `40 credentials file ${env.PLANTS_STORE_CREDENTIALS}: others can read it, mode 644`
      ]
    );
    assert.doesNotMatch(
      server.stdout() + JSON.stringify(server.events()),
      /s3cret/
    );
  }
);

test(
  "without a server it listens, and responds with 503 until one can be reached",
  { timeout },
  async () => {
    const fake = await Fake.start({ greeting: "", hangsUp: true });
    const server = await start({
      env: environmentFor(`nats://${fake.host}/plants`, login)
    });
    const refusal = await answerTo(server.port, fern(1));
    assert.match(`${refusal.status} ${refusal.body}`, /^503 \{"error":50306,/);
    assert.equal(refusal.headers["retry-after"], "1");
    const statusOf = async () => (await answerTo(server.port, fern(1))).status;
    fake.script = {};
    await until("it takes plants", async () => (await statusOf()) === 200);
    assert.equal(await server.end(), 0);
    assert.equal(
      server
        .events()
        .filter(({ msg }) => msg === "plants are acknowledged again").length,
      1
    );
    assert.doesNotMatch(server.stdout() + server.stderr(), /s3cret/);
  }
);

describe("the program on a stream", { ...withCluster, timeout }, () => {
  test("a missing stream ends with 78 and the JSON that creates it", async () => {
    const { code, stderr, stdout } = await run(
      [],
      cluster.env("plants"),
      temporaryFolder()
    );
    assert.equal(code, 78);
    assert.match(stderr, /^plant-store: \{"name":"plants",.*"storage":"file"/m);
    assert.doesNotMatch(stdout + stderr, /writerpw/);
  });
  test("two processes on one stream, 200 connections, one process killed: every acknowledged plant is there", async (t) => {
    await cluster.create("plants");
    const env = cluster.env("plants");
    const [first, second] = [
      await startProcess({ env }),
      await startProcess({ env })
    ];
    t.after(() =>
      [first, second].map((server) => server.process.kill("SIGKILL"))
    );
    const loads = [
      new Load(first.port, 100),
      new Load(second.port, 100)
    ] as const;
    await Promise.all(loads.map((load) => load.more(500)));
    assert.equal(await first.end("SIGKILL"), null);
    await loads[1].more(500);
    await Promise.all(loads.map((load) => load.end()));
    assert.equal(await second.end(), 0, second.stderr());
    const acknowledged = loads.flatMap((load) => load.acknowledged);
    const compared = await compare(cluster, acknowledged);
    t.diagnostic(
      `${acknowledged.length} acknowledged, ${JSON.stringify(compared)}`
    );
    assert.equal(compared.missing, 0);
    assert.equal(compared.twice, 0);
    assert.deepEqual([...loads[1].refused], []);
  });
  test("SIGTERM waits for plants in flight, and SIGHUP leaves the stream alone", async () => {
    const server = await startProcess({ env: cluster.env("plants") });
    server.process.kill("SIGHUP");
    const load = new Load(server.port, 32);
    await load.more(200);
    server.process.kill("SIGTERM");
    await load.end();
    assert.equal(await server.end(), 0, server.stderr());
    assert.equal((await compare(cluster, load.acknowledged)).missing, 0);
  });
  test("a journal is loaded twice by load.mjs: each plant is stored once, with its exact id", async () => {
    const folder = temporaryFolder();
    const journal = await openJournal(join(folder, "plants.ndjson"));
    for (let first = 1; first <= 2_000; first += 1_000)
      await Promise.all(
        Array.from({ length: 1_000 }, (_, index) =>
          journal.append({
            id: 2n ** 63n - BigInt(first + index),
            name: 'Fern ä€😀\n\u0000"\\'
          })
        )
      );
    await journal.close();
    const { stdout } = await run(["cat", "plants.ndjson"], {}, folder);
    const plants = join(folder, "plants.txt");
    writeFileSync(plants, stdout);

    await cluster.create("moved", { duplicate_window: 3_600e9 });
    const server = await startProcess({ env: cluster.env("moved", "admin") });
    const env = cleanEnvironment({
      PLANTS_URL: `http://127.0.0.1:${server.port}`,
      PLANTS_TOKEN: token
    });
    const script = join(root, "src/program/recipes/load.mjs");
    for (let time = 0; time < 2; time++) {
      rmSync(`${plants}.loaded`, { force: true });
      const child = runningOf(
        spawn(process.execPath, [script, plants], { env })
      );
      assert.equal(await child.ended, 0, child.stderr());
      assert.match(child.stdout(), /^2000 lines are done, 0 of them refused/);
    }
    assert.equal(await server.end(), 0, server.stderr());
    const messages = await cluster.read("moved");
    assert.deepEqual(
      messages.map((text) => /"plant":(\{.*\}),"crc"/.exec(text)?.[1]).sort(),
      stdout.trimEnd().split("\n").sort()
    );
  });
});
