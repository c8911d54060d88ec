/** The documents, executed: transcripts, commands and examples do what is written. */
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  symlinkSync,
  writeFileSync
} from "node:fs";
import { connect, createServer } from "node:net";
import { join } from "node:path";
import { test } from "node:test";
import { run } from "../support/in-process.ts";
import { adminOf, fetchPlant, logged, pageOf } from "../support/operator.ts";
import { nodes } from "../support/recipes.ts";
import { fern } from "../support/requests.ts";
import { listen } from "../support/serving.ts";
import {
  cleanEnvironment,
  post,
  root,
  type Running,
  runningOf,
  type RunningProcess,
  startProcess,
  temporaryFolder,
  token
} from "../support/support.ts";
import { certify } from "../support/tools.ts";
import { blockOf, blocks } from "./documents.ts";
import { seconds, until } from "../support/until.ts";

const { PLANT_TEST_PEERS: peers = "" } = process.env;

const startIn = (
  cwd: string,
  bearer = token,
  args: readonly string[] = []
): Promise<RunningProcess> =>
  startProcess({ cwd, args, env: { PLANTS_TOKEN: bearer } });

const shell = (command: string, cwd: string, env = {}) =>
  spawnSync("sh", ["-c", command], {
    cwd,
    encoding: "utf8",
    env: cleanEnvironment(env),
    timeout: seconds(60)
  });

/** Makes a folder with a link to dist, in which the README's commands run. */
function checkout(): string {
  const folder = temporaryFolder();
  symlinkSync(join(root, "dist"), join(folder, "dist"));
  symlinkSync(process.execPath, join(folder, "node"));
  return folder;
}
const withNode = (folder: string) => ({
  PATH: `${folder}:${process.env["PATH"]}`
});

// Transcripts

/** Masks what differs from run to run: identities, times, checksums. */
const masked = (text: string): string =>
  text
    .trimEnd()
    .replace(/[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}/g, "UUID")
    .replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, "TIME")
    .replace(/^Date: .*$/gm, "Date: NOW")
    .replace(/"crc":"[\da-f]{8}"/g, '"crc":"CRC"');

/** Runs the commands of a transcript and returns each with its output. */
async function replay(
  transcript: string
): Promise<readonly (readonly [string, string])[]> {
  const folder = checkout();
  // A reader who tried `npm start` before has other plants there.
  writeFileSync(join(folder, "plants.ndjson"), blockOf("ndjson", "example"));
  const outputs: (readonly [string, string])[] = [];
  let server: Running | undefined;
  for (const command of transcript.matchAll(/^\$ (.*)$/gm)) {
    const [, line = ""] = command;
    const [, bearer, args = ""] =
      /^PLANTS_TOKEN=(\w+) node dist\/server\.js( .*)? &$/.exec(line) ?? [];
    if (bearer !== undefined) {
      server = await startIn(folder, bearer, args.split(" ").slice(1));
      outputs.push([
        line,
        server.stdout().replace(`:${server.port}`, ":8080").trimEnd()
      ]);
    } else if (line === "kill -9 $!") {
      assert.equal(await server?.end("SIGKILL"), null);
      outputs.push([line, ""]);
    } else if (line === "kill $!") {
      assert.equal(await server?.end("SIGTERM"), 0);
      outputs.push([line, ""]);
    } else {
      const { status, stdout, stderr } = shell(
        line.replace(":8080", `:${server?.port}`),
        folder
      );
      assert.equal(status, 0, stderr);
      outputs.push([line, stdout.replaceAll("\r", "").trimEnd()]);
    }
  }
  await server?.end();
  return outputs;
}

const transcripts = blocks.filter(({ language }) => language === "console");
for (const { document, text } of transcripts) {
  test(`the transcript in ${document.name} produces what is written`, async () => {
    const outputs = await replay(text);
    const found = outputs
      .map(([line, output]) => `$ ${line}${output && `\n${output}`}\n`)
      .join("");
    assert.equal(masked(found), masked(text));
  });
}

// Commands

test("the front page's commands for production serve with TLS, a token and metrics", async () => {
  const folder = checkout();
  const [make, serve = ""] = blockOf("sh", "production").trim().split("\n");
  const made = shell(make ?? "", folder, withNode(folder));
  assert.equal(made.status, 0, made.stderr);
  const { cert, key } = certify(folder, "own");
  renameSync(cert, join(folder, "cert.pem"));
  renameSync(key, join(folder, "key.pem"));
  const args = serve
    .replace("node dist/server.js ", "")
    .replace("0.0.0.0", "127.0.0.1")
    .replace("9108", "0");
  const server = await startProcess({
    cwd: folder,
    args: args.split(" "),
    env: { PLANTS_TOKEN: "" }
  });
  const { stdout } = shell(
    `curl -s --cacert cert.pem https://localhost:${server.port}/plants -d '${fern}' \
      -H 'Content-Type: application/json' -H 'Authorization: Bearer ${made.stderr.trim()}'`,
    folder
  );
  assert.equal(stdout, '{"name":"Fern"}\n');
  const metrics = await pageOf(adminOf(server), "/metrics");
  assert.match(metrics.body, /^plant_store_ready 1$/m);
  await server.end();
});

test("the commands for tokens make a file that the server accepts", async () => {
  const folder = checkout();
  const [make, serve = ""] = blockOf("sh", "tokens").trim().split("\n");
  const { status, stdout, stderr } = shell(
    `umask 022\n${make}\numask`,
    folder,
    withNode(folder)
  );
  assert.equal(status, 0, stderr);
  assert.equal(stdout, "0022\n", "the umask of the shell stays");
  assert.equal(statSync(join(folder, "tokens")).mode & 0o777, 0o600);
  assert.match(serve, /^node dist\/server\.js --tokens tokens$/);
  const server = await startProcess({
    cwd: folder,
    args: ["--tokens", "tokens"],
    env: { PLANTS_TOKEN: "" }
  });
  assert.equal(
    (await fetchPlant(server.url, undefined, stderr.trim())).status,
    200
  );
  await server.end();
});

test("the commands for TLS make a pair that the server serves, and those of a renewal replace it", async () => {
  const folder = checkout();
  const commands = blockOf("sh", "tls").trim().split("\n");
  const serve = commands.pop() ?? "";
  const issue = commands.join("\n");
  const { status, stderr } = shell(issue, folder);
  assert.equal(status, 0, stderr);
  const args = serve.replace("node dist/server.js ", "").split(" ");
  assert.deepEqual(args, ["--tls-cert", "cert.pem", "--tls-key", "key.pem"]);
  const server = await startProcess({ cwd: folder, args });
  assert.equal(
    server.stdout(),
    `plant-store listening on https://127.0.0.1:${server.port}\n`
  );
  const asked = shell(
    `curl -s --cacert cert.pem https://localhost:${server.port}/plants`,
    folder
  );
  assert.match(asked.stdout, /"error":401/);

  const renewed = temporaryFolder();
  const renewal = shell(
    `(cd "$RENEWED_LINEAGE"\n${issue}\nmv key.pem privkey.pem; mv cert.pem fullchain.pem)
    ${blockOf("sh", "renew")}`,
    folder,
    { RENEWED_LINEAGE: renewed, PID: `${server.process.pid}` }
  );
  assert.equal(renewal.status, 0, renewal.stderr);
  await logged(server, "certificate and key reloaded");
  const shown = shell(
    `openssl s_client -connect 127.0.0.1:${server.port} < /dev/null | openssl x509`,
    folder
  );
  assert.equal(
    shown.stdout,
    readFileSync(join(renewed, "fullchain.pem"), "utf8")
  );
  await server.end();
});

test("the commands for a damaged journal cure each cause that they are for", async () => {
  const whole = blockOf("ndjson", "example");
  const cures = readFileSync(join(root, "src/journal/README.md"), "utf8");
  for (const [cause, damaged, cured] of [
    ["CRLF", whole.replaceAll("\n", "\r\n"), ["cured.ndjson"]],
    ["before the header", `x\n\n${whole}`, ["cured.ndjson"]],
    ["joined", whole + whole, ["cured-1.ndjson", "cured-2.ndjson"]]
  ] as const) {
    const folder = checkout();
    writeFileSync(join(folder, "plants.ndjson"), damaged);
    const { code } = await run(["verify", "plants.ndjson"], {}, folder);
    assert.equal(code, 65, "the control");
    const [, command = ""] =
      new RegExp(`^\\| [^|]*${cause}.*\`(.*)\` \\|$`, "m").exec(cures) ?? [];
    const { status, stderr } = shell(command, folder);
    assert.equal(status, 0, stderr);
    for (const name of cured)
      assert.equal(readFileSync(join(folder, name), "utf8"), whole);
  }
});

test("the example read.mjs prints each plant of the worked example, with its exact id", async () => {
  const folder = project();
  writeFileSync(join(folder, "plants.ndjson"), blockOf("ndjson", "example"));
  writeFileSync(join(folder, "read.mjs"), blockOf("mjs", "read.mjs"));
  const { stdout, stderr } = shell("node read.mjs", folder, withNode(folder));
  assert.match(
    stdout,
    /^1 2\S+Z undefined 9007199254740993n Fern shade\n2 .* -1n M\S+ undefined\n3 2\S+Z GZvgPTXzRR2v5tOmMDnAFg 7n Moss undefined\n$/,
    stderr
  );
});

test("the command for a key finds its record, and no other", async () => {
  const folder = checkout();
  const server = await startIn(folder);
  for (const [id, key] of [
    [1, "a"],
    [2, '"b c"'],
    [3, "b"]
  ] as const) {
    assert.equal(
      (
        await fetchPlant(server.url, `{"id":${id},"name":"Fern"}`, token, {
          "Idempotency-Key": key
        })
      ).status,
      200
    );
  }
  await server.end();
  const { stdout, stderr } = shell(blockOf("sh", "key"), folder, {
    PLANTS_TOKEN: token,
    KEY: "b c"
  });
  assert.match(stdout, /^\{"seq":2,.*\n$/, stderr);
});

test("the commands to verify end well on a valid journal, after a rotation by its commands", async () => {
  const folder = checkout();
  const server = await startIn(folder);
  assert.equal((await fetchPlant(server.url)).status, 200);
  const rotation = blockOf("sh", "rotation");
  assert.equal(
    shell(rotation, folder, { PID: `${server.process.pid}` }).status,
    0
  );
  await until("the server has a new file", async () => {
    await fetchPlant(server.url);
    return existsSync(join(folder, "plants.ndjson"));
  });
  assert.equal((await fetchPlant(server.url)).status, 200);
  await server.end();
  const verified = shell(
    `set -e\n${blockOf("sh", "verify")}`,
    folder,
    withNode(folder)
  );
  assert.equal(verified.status, 0, verified.stderr);
});

for (const [name, tool, question] of [
  ["jq", "jq", "--version"],
  ["sqlite3", "sqlite3", "--version"],
  ["duckdb", "duckdb", "--version"]
] as const) {
  const asked = spawnSync(tool, [question], { encoding: "utf8" });
  const absent = asked.error ? `${tool} is not installed` : false;
  test(
    `the command for ${name} reads a journal`,
    { skip: absent },
    async (t) => {
      const version = asked.stdout.split("\n")[0] ?? "";
      t.diagnostic(version);
      const folder = checkout();
      const server = await startIn(folder);
      // jq 1.6 rounds large numbers, as the README says.
      const ids = /^jq-1\.[0-6]/.test(version)
        ? ["-7", "2147483648"]
        : ["-9223372036854775808", "9007199254740993", "9223372036854775807"];
      for (const id of ids) {
        const headers = id === ids[0] ? { "Idempotency-Key": "key-0" } : {};
        const body = `{"id":${id},"name":"Fern"}`;
        assert.equal(
          (await fetchPlant(server.url, body, token, headers)).status,
          200
        );
      }
      const { stdout, stderr } = shell(blockOf("sh", name), folder);
      const rows = stdout
        .trim()
        .split("\n")
        .map((row) => row.split(/[ \t,]/));
      assert.deepEqual(
        rows,
        ids.map((id) => [id, "Fern"]),
        stderr
      );
      await server.end();
    }
  );
}

// Examples

/** Makes a package that depends on plant-store, and on the peers if they are installed. */
function project(): string {
  const folder = temporaryFolder();
  mkdirSync(join(folder, "node_modules"));
  symlinkSync(root, join(folder, "node_modules", "plant-store"));
  for (const peer of ["express", "fastify"]) {
    const there = join(peers, "node_modules", peer);
    if (peers !== "") symlinkSync(there, join(folder, "node_modules", peer));
  }
  return folder;
}

/** Loaded before an example: makes it listen on PORT or any free port, and prints the port. */
const anyPort = `const { Server } = require("node:net");
const { listen } = Server.prototype;
const { PORT: port = 0 } = process.env;
Server.prototype.listen = function (first, ...others) {
  this.once("listening", () => this.address()?.port && console.log(this.address().port));
  const port = Number(process.env.PORT ?? 0);
  return first === 8080 ? listen.call(this, port, ...others)
    : listen.call(this, first?.port === 8080 ? { ...first, port } : first, ...others);
};`;

/** Starts an example in a new project. */
function startExample(node: string, name: string, text: string, env = {}) {
  const folder = project();
  writeFileSync(join(folder, name), text);
  writeFileSync(join(folder, "any-port.cjs"), anyPort);
  const child = runningOf(
    spawn(node, ["--require", "./any-port.cjs", name], {
      cwd: folder,
      env: cleanEnvironment({ PLANTS_TOKEN: token, ...env })
    })
  );
  const journal = join(folder, "plants.ndjson");
  const own = new Set([...readdirSync(folder), "plants.ndjson"]);
  return {
    folder,
    child,
    journal,

    /** Returns the server's port. */
    listening: async () => {
      const port = () => /^\d+$/m.exec(child.stdout())?.[0];
      await child.until(() => port() !== undefined, "it listens");
      return Number(port());
    },

    /** Returns the names of what stands beside the journal: a lock, while it is open. */
    beside: () =>
      readdirSync(folder).filter(
        (each) => !own.has(each) && !each.includes(".closed-")
      )
  };
}

for (const { name, text } of blocks.filter(
  ({ language }) => language === "js"
)) {
  const peer = ["express", "fastify"].find((each) => name.startsWith(each));
  const newest = nodes.find(
    ({ major }) => name !== "dispose.mjs" || major >= 24
  )?.path;
  const reason =
    peer !== undefined && peers === ""
      ? `PLANT_TEST_PEERS names no ${peer}`
      : newest === undefined
        ? "no Node 24 among this one and PLANT_TEST_NODES"
        : false;
  test(`the example ${name} works as written`, { skip: reason }, async (t) => {
    t.diagnostic(`run by ${newest}`);
    const { child, listening, journal } = startExample(
      newest ?? "",
      name,
      text
    );
    if (name !== "dispose.mjs") {
      const base = `http://127.0.0.1:${await listening()}${/"(\/v1)"/.exec(text)?.[1] ?? ""}`;
      const answer = await fetchPlant(
        base,
        '{"id":9007199254740993,"name":"Fern"}'
      );
      assert.deepEqual(
        [answer.status, await answer.text()],
        [200, '{"name":"Fern"}\n']
      );
      assert.equal((await fetchPlant(base, undefined, "weeds")).status, 401);
      if (name === "handler.mjs")
        assert.equal((await fetch(`${base}/health`)).status, 200);
      child.signal("SIGTERM");
    }
    assert.equal(
      await child.ended,
      /SIGTERM|await using/.test(text) ? 0 : null,
      child.stderr()
    );
    const kept =
      name === "memory.mjs" ? child.stderr() : readFileSync(journal, "utf8");
    assert.match(kept, /"?seq"?: ?1\b[^]*"?id"?: ?9007199254740993/);
  });
}

/** The examples that serve until a signal. */
const lasting = blocks.filter(({ text }) => text.includes("SIGINT"));

test("the examples of servers with a journal handle signals", () => {
  const names = lasting.map(({ name }) => name);
  for (const name of [
    "handler.mjs",
    "require.cjs",
    "express.mjs",
    "fastify.mjs"
  ])
    assert.ok(names.includes(name), name);
});

for (const { name, text } of lasting) {
  const peer = ["express", "fastify"].find((each) => name.startsWith(each));
  const skip =
    peer !== undefined && peers === "" && `PLANT_TEST_PEERS names no ${peer}`;
  const node = process.execPath;
  const path = `${/"(\/v1)"/.exec(text)?.[1] ?? ""}/plants`;

  test(
    `the example ${name} makes no journal without a token`,
    { skip },
    async () => {
      const { child, journal } = startExample(node, name, text, {
        PLANTS_TOKEN: ""
      });
      assert.equal(await child.ended, 1);
      assert.match(
        child.stderr(),
        /TypeError: each of tokens must be a token of/
      );
      assert.ok(!existsSync(journal));
    }
  );

  test(
    `the example ${name} reports a port in use in one line, and releases the journal`,
    { skip },
    async () => {
      const other = createServer();
      const PORT = `${await listen(other)}`;
      const { child, journal, beside } = startExample(node, name, text, {
        PORT
      });
      assert.equal(await child.ended, 1);
      assert.match(child.stderr(), /^listen EADDRINUSE.*\n$/);
      assert.ok(existsSync(journal), "the control: it was opened");
      assert.deepEqual(beside(), []);
    }
  );

  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    test(
      `the example ${name} completes a request after a ${signal}, and releases the journal`,
      { skip },
      async () => {
        const { child, listening, journal, beside } = startExample(
          node,
          name,
          text
        );
        const port = await listening();
        assert.notDeepEqual(beside(), [], "the control: a lock is seen");
        const client = connect(port, "127.0.0.1").setEncoding("utf8");
        let found = "";
        client.on("data", (more) => (found += String(more)));
        const [head = "", body = ""] = post(
          fern,
          "Expect: 100-continue\r\nConnection: close\r\n"
        )
          .toString()
          .replace("/plants", path)
          .split(/(?<=\r\n\r\n)/);
        client.write(head);
        await until("it may send the body", () =>
          /^HTTP\/1\.1 100 /.test(found)
        );
        child.signal(signal);
        await until("it drains", async () => !(await isListening(port)));
        client.write(body);
        await until("it has a 200", () => /HTTP\/1\.1 200 /.test(found));
        assert.equal(await child.ended, 0, child.stderr());
        assert.match(readFileSync(journal, "utf8"), /"seq":1\b/);
        assert.deepEqual(beside(), []);
      }
    );
  }

  test(
    `the example ${name} ends with 74 when its journal has failed`,
    { skip },
    async () => {
      const { child, listening, journal } = startExample(node, name, text);
      const base = `http://127.0.0.1:${await listening()}${path.replace("/plants", "")}`;
      assert.equal((await fetchPlant(base)).status, 200);
      appendFileSync(journal, "of another process");
      await fetchPlant(base).catch(() => undefined);
      assert.equal(await child.ended, 74);
      assert.match(child.stderr(), /process changed it/);
    }
  );
}

/** Returns whether a port accepts a connection. */
const isListening = (port: number) =>
  new Promise<boolean>((resolve) => {
    const client = connect(port, "127.0.0.1");
    client.once("connect", () => {
      client.destroy();
      resolve(true);
    });
    client.once("error", () => resolve(false));
  });

test(
  "Express with app.use gives the handler every path below, as the recipe says",
  { skip: peers === "" && "PLANT_TEST_PEERS names no express" },
  async () => {
    const { document, text } =
      blocks.find(({ name }) => name === "express.mjs") ?? {};
    assert.match(
      document?.text ?? "",
      /`app\.use\("\/v1", handler\)` takes every path below `\/v1`/
    );
    const using = text?.replace('app.all("/plants"', 'app.use("/v1"') ?? "";
    assert.notEqual(using, text);
    const later = `${using}\napp.get("/v1/health", (request, response) => response.end());\n`;
    const { listening } = startExample(process.execPath, "use.mjs", later);
    const base = `http://127.0.0.1:${await listening()}`;
    assert.equal((await fetchPlant(`${base}/v1`)).status, 200);
    const health = async (headers = {}) =>
      (await fetch(`${base}/v1/health`, { headers })).status;
    assert.equal(await health(), 401);
    assert.equal(await health({ Authorization: `Bearer ${token}` }), 404);
  }
);
