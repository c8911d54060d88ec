/** The program on a stream: start, refusals, two processes on one stream, import and export. A
 * server with a journal loads none of this. */
import assert from "node:assert/strict";
import { chmodSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { openJournal } from "../../src/journal/journal.ts";
import { run, start } from "../support/in-process.ts";
import { header, journalWith } from "../support/journals.ts";
import {
  answerTo,
  exchange,
  post,
  startProcess,
  temporaryFolder
} from "../support/support.ts";
import { Cluster, environmentFor, until, withCluster } from "./cluster.ts";
import { ack, fails, Fake, holding, type Script } from "./fake.ts";
import { compare, Load } from "./load.ts";

const timeout = 120_000;
const cluster = await Cluster.start();
const fern = (id: number): Buffer => post(`{"id":${id},"name":"Fern"}`);

// The command line's own test has what is refused without a look at the address.
test(
  "a wrong address ends with 78, and no password is shown",
  { timeout },
  async () => {
    for (const [PLANTS_STORE, pattern] of [
      ["nats://h/pla.nts", /the store's address: expected nats:\/\//],
      ['"nats://u:s3cret@h/plants"', /PLANTS_STORE must be a path .*, or nats:/]
    ] as const) {
      const { code, stdout, stderr } = await run(
        [],
        { PLANTS_STORE },
        temporaryFolder()
      );
      assert.equal(code, 78, stderr);
      assert.match(stderr, pattern);
      assert.doesNotMatch(stdout + stderr, /s3/);
    }
  }
);

test(
  "import and export end with 69 at once if no server can be reached at their start",
  { timeout },
  async () => {
    const folder = temporaryFolder();
    writeFileSync(join(folder, "whole"), header);
    for (const [command, name] of [
      ["import", "whole"],
      ["export", "out"]
    ] as const) {
      const begunAt = performance.now();
      const { code, stderr } = await run(
        [command, name, "--store", "nats://127.0.0.1:1/plants"],
        {},
        folder
      );
      assert.equal(code, 69, stderr);
      assert.match(
        stderr,
        /ECONNREFUSED 127.0.0.1:1\n.*: no connected server has completed the request; run it again\n$/
      );
      assert.ok(
        performance.now() - begunAt < 15_000,
        "an outage after the start has 30 s"
      );
    }
  }
);

for (const [what, text, advice] of [
  ["no", undefined, "no credentials were given; set"],
  [
    "wrong",
    "u\ns3cret\n",
    "the server does not accept the given credentials; correct"
  ]
] as const)
  test(
    `a server that refuses ${what} credentials: 78, with the flag and without a secret`,
    { timeout },
    async () => {
      const fake = await Fake.start({
        onConnect: "-ERR 'Authorization Violation'\r\n"
      });
      const url = `nats://${fake.host}/plants`;
      const env =
        text === undefined ? { PLANTS_STORE: url } : environmentFor(url, text);
      const { code, stderr, stdout } = await run([], env, temporaryFolder());
      assert.equal(code, 78);
      assert.ok(
        stderr.includes(
          `plant-store: ${fake.host}: 'Authorization Violation': ${advice} ` +
            "--store-credentials (in a library, the option credentials)\n"
        ),
        stderr
      );
      assert.doesNotMatch(stdout + stderr, /s3cret/);
    }
  );

const files: readonly (readonly [
  what: string,
  text: string,
  mode: number,
  pattern: RegExp
])[] = [
  [
    "is missing",
    "",
    0,
    /^plant-store: the store's credentials: credentials file \S*\/none: ENOENT/
  ],
  [
    "others can write",
    "u\ns3cret\n",
    0o602,
    /credentials file .*: expected .* cannot write it, found mode 602/
  ],
  [
    "has one line",
    "s3cret\n",
    0o600,
    /the store's credentials: expected a \.creds file/
  ]
];
for (const command of [[], ["import", "plants.ndjson"]]) {
  for (const [what, text, mode, pattern] of files) {
    test(
      `${command[0] ?? "serve"}: a file of credentials that ${what} ends with 78 before any server is asked`,
      { timeout },
      async () => {
        const cwd = temporaryFolder();
        await journalWith(join(cwd, "plants.ndjson"));
        const fake = await Fake.start({});
        const env = environmentFor(`nats://${fake.host}/plants`, text);
        if (mode === 0) env.PLANTS_STORE_CREDENTIALS = join(cwd, "none");
        else chmodSync(env.PLANTS_STORE_CREDENTIALS, mode);
        const { code, stderr, stdout } = await run(command, env, cwd);
        assert.equal(code, 78, stderr);
        assert.match(stderr, pattern);
        assert.doesNotMatch(stdout + stderr, /s3cret/);
        assert.equal(fake.connections, 0);
      }
    );
  }
}

test(
  "the file of credentials is read again for each connection, with one warning if others can read it",
  { timeout },
  async () => {
    const fake = await Fake.start({});
    const env = environmentFor(`nats://${fake.host}/plants`, "u\ns3cret\n");
    chmodSync(env.PLANTS_STORE_CREDENTIALS, 0o644);
    const server = await start({ env });
    const hasLoggedIn = (user: string, pass: string): boolean =>
      fake.said.some((said) =>
        said.includes(`"user":"${user}","pass":"${pass}"`)
      );
    assert.ok(hasLoggedIn("u", "s3cret"), fake.said.join());
    writeFileSync(env.PLANTS_STORE_CREDENTIALS, "v\ns3cret2\n");
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
    const fake = await Fake.start({ greeting: "" });
    const server = await start({
      env: environmentFor(`nats://${fake.host}/plants`, "u\ns3cret\n")
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

const acknowledge: Script["onPlant"] = ({ headers }) =>
  ack(Number(/Sequence: (\d+)/.exec(headers)?.[1]) + 1);
const imports: readonly (readonly [
  what: string,
  script: Script,
  code: number,
  said: RegExp
])[] = [
  [
    "of 17 MB, whose connection is cut, goes on by itself",
    {
      onPlant: (plant, count, fake) =>
        count === 3 ? void fake.cut() : acknowledge(plant, count, fake)
    },
    0,
    /^the stream has all 17 records, 17 new\n/
  ],
  [
    "of a record that the servers do not take ends with 65",
    { info: { max_payload: 1_000 } },
    65,
    /no message of this size/
  ],
  [
    "into a full stream ends with 69, and says to run it again",
    { onPlant: () => fails(10023) },
    69,
    /; run it again\n$/
  ]
];
for (const [what, script, code, said] of imports) {
  test(`an import ${what}`, { timeout }, async () => {
    const fake = await Fake.start({ stream: holding(0), ...script });
    const cwd = temporaryFolder();
    const journal = await openJournal(join(cwd, "plants.ndjson"));
    for (let id = 1n; id <= 17n; id++)
      await journal.append({ id, name: "x".repeat(1_000_000) });
    await journal.close();
    const {
      code: found,
      stdout,
      stderr
    } = await run(
      ["import", "plants.ndjson"],
      environmentFor(`nats://${fake.host}/plants`, "u\ns3cret\n"),
      cwd
    );
    assert.equal(found, code, stderr);
    assert.match(stdout + stderr, said);
  });
}

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
  test("two processes on one stream, 1,000 connections, one process killed: every acknowledged plant is there", async (t) => {
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
      new Load(first.port, 500),
      new Load(second.port, 500)
    ] as const;
    await Promise.all(loads.map((load) => load.more(2_000)));
    assert.equal(await first.end("SIGKILL"), null);
    await loads[1].more(2_000);
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
  test("import and export: exit codes, output, and a journal that verify accepts", async () => {
    const folder = temporaryFolder();
    await cluster.create("moved");
    const env = cluster.env("moved", "admin");
    const server = await start({ cwd: folder });
    for (let id = 1; id <= 20; id++)
      await exchange(server.port, fern(id), { answers: 1 });
    const locked = await run(["import", "plants.ndjson"], env, folder);
    assert.equal(locked.code, 75, locked.stderr);
    assert.equal(await server.end(), 0);
    const words: string[] = [];
    for (let time = 0; time < 2; time++) {
      const { code, stdout, stderr } = await run(
        ["import", "plants.ndjson"],
        env,
        folder
      );
      assert.equal(code, 0, stderr);
      words.push(stdout);
    }
    assert.deepEqual(words, [
      "the stream has all 20 records, 20 new\n",
      "the stream has all 20 records, 0 new\n"
    ]);
    const { PLANTS_STORE, PLANTS_STORE_CREDENTIALS: file } = env;
    const args = [
      "export",
      "--store",
      PLANTS_STORE,
      "--store-credentials",
      file,
      "out.ndjson"
    ];
    const out = await run(args, {}, folder);
    assert.equal(
      `${out.code} ${out.stdout}`,
      "0 out.ndjson has all 20 records of the stream\n"
    );
    assert.equal((await run(["verify", "out.ndjson"], {}, folder)).code, 0);
    const plants = (name: string) =>
      readFileSync(join(folder, name), "utf8")
        .split("\n")
        .slice(1)
        .map((line) => /"plant":\{.*\}(?=,"crc")/.exec(line)?.[0]);
    assert.deepEqual(plants("out.ndjson"), plants("plants.ndjson"));
    const again = await run(["export", "out.ndjson"], env, folder);
    assert.equal(again.code, 65);
    assert.match(again.stderr, /out\.ndjson exists/);
    const nowhere = await run(["export", "none/out.ndjson"], env, folder);
    assert.deepEqual(
      [nowhere.code, nowhere.stderr],
      [
        74,
        `plant-store: none/out.ndjson: there is no directory ${join(folder, "none")}\n`
      ]
    );
    const missing = await run(["import", "none.ndjson"], env, folder);
    assert.equal(missing.code, 74);
    // A journal goes on where the export ends.
    const journal = await start({
      cwd: folder,
      args: ["--store", "out.ndjson"]
    });
    assert.equal((await answerTo(journal.port, fern(21))).status, 200);
    await journal.end();
    assert.equal((await run(["verify", "out.ndjson"], {}, folder)).code, 0);
    for (const each of [locked, out, again, missing]) {
      assert.doesNotMatch(each.stderr + each.stdout, /adminpw/);
    }
  });
});
