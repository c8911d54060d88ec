/** The clients that the README shows for a lost response: what they repeat, with which key, and how they end. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer as createHttpServer } from "node:http";
import { connect, createServer } from "node:net";
import { join } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { openJournal } from "../../src/index.ts";
import { modules } from "../support/package.ts";
import { recipeOf, recipeWith } from "../support/recipes.ts";
import { listen, serve } from "../support/serving.ts";
import { cleanEnvironment, root, temporaryFolder } from "../support/support.ts";
import { missing } from "../support/tools.ts";
import { seconds } from "../support/until.ts";

/** A server on a journal, and the journal's lines. */
async function serving() {
  const file = join(temporaryFolder(), "plants.ndjson");
  const { port } = await serve({
    store: await openJournal(file),
    tokens: ["a"]
  });
  const lines = () => readFileSync(file, "utf8").trimEnd().split("\n").slice(1);
  return { port, lines };
}

/** A proxy: loses the first response when it arrives, refuses the second request with 503, passes the third. */
function losingProxy(port: number): Promise<number> {
  let connections = 0;
  return listen(
    createServer((client) => {
      const attempt = ++connections;
      if (attempt === 2) {
        const refusal =
          "HTTP/1.1 503 Busy\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
        return void client.once("data", () => client.end(refusal));
      }
      const server = connect(port, "127.0.0.1");
      client
        .on("error", () => server.destroy())
        .on("close", () => server.destroy())
        .pipe(server);
      server
        .on("error", () => client.destroy())
        .on("close", () => client.destroy());
      server.on("data", (data) =>
        attempt === 1 ? client.destroy() : client.write(data)
      );
    })
  );
}

const noPython = missing(["python3", "--version"]);
const interpreters = {
  "retry": ["sh", "-e"],
  "retry.mts": [process.execPath, "--import", "tsx"],
  "retry.py": ["python3"]
} as const;

for (const [name, field, skip] of [
  [
    "retry",
    '-H "Idempotency-Key: $key" ',
    missing(["curl", "--retry-all-errors", "--version"])
  ],
  ["retry.mts", '"Idempotency-Key": key,', false],
  ["retry.py", ', "Idempotency-Key": key', noPython]
] as const) {
  test(
    `the README's ${name} stores a plant once although the first response is lost and the second is a 503`,
    { skip },
    async () => {
      await Promise.all(
        [{}, { [field]: "" }].map(async (replaced, times) => {
          const { port, lines } = await serving();
          const url = `http://127.0.0.1:${await losingProxy(port)}`;
          const file = join(temporaryFolder(), name);
          writeFileSync(
            file,
            recipeWith(name, {
              "http://127.0.0.1:8080": url,
              ...(name === "retry" && {
                "PLANTS_TOKEN=garden": "PLANTS_TOKEN=a"
              }),
              ...replaced
            })
          );
          const [command = "", ...args] = interpreters[name];
          const { stdout } = await promisify(execFile)(
            command,
            [...args, file],
            {
              cwd: root,
              env: cleanEnvironment({ PLANTS_TOKEN: "a" }),
              timeout: seconds(60)
            }
          );
          assert.equal(
            stdout.trim(),
            '{"name":"Moss"}',
            JSON.stringify(replaced)
          );
          assert.equal(lines().length, 1 + times, JSON.stringify(replaced));
        })
      );
    }
  );
}

const loader = pathToFileURL(join(modules, "tsx", "dist", "loader.mjs"));

/** What a server, or a proxy before it, does with one request. */
type Behaviour =
  | "loses the request"
  | readonly [status: number, body: string, retryAfter?: string | undefined];

const taken: Behaviour = [200, '{"name":"Moss"}'];
const failed = (error: number, retryAfter?: string): Behaviour => [
  Math.floor(error / 100),
  `{"error":${error},"message":"m"}`,
  retryAfter
];
const lost: Behaviour = "loses the request";
const allPauses = [1_000, 2_000, 4_000, 8_000];

const retries: readonly (readonly [
  says: string,
  behaviours: readonly Behaviour[],
  pauses: readonly number[],
  output: RegExp
])[] = [
  [
    "ends after five refusals, without a last pause, and says that nothing was stored",
    [50301, 50303, 50304, 50305, 50306].map((error) => failed(error, "1")),
    allPauses,
    /^(?![^]*unknown)[^]*^nothing was stored: try again later with the key [-\da-f]{36}; the last try got: \{"error":50306,.*\n$/m
  ],
  [
    "says that the outcome is unknown if one of five requests was lost",
    [lost, ...Array.from({ length: 4 }, () => failed(50301))],
    allPauses,
    /^it is unknown whether the plant was stored: try again later with the key /m
  ],
  [
    "waits as long as Retry-After says",
    [failed(50301, "30"), failed(50301, "1"), taken],
    [30_000, 2_000],
    /^\{"name":"Moss"\}$/m
  ],
  [
    "repeats a request that did not arrive in time, one too many and those that a server or a proxy failed",
    [failed(40801), [429, "slow down"], failed(50001), [502, "<h1>"], taken],
    allPauses,
    /^\{"name":"Moss"\}$/m
  ],
  ["does not repeat what got 42201", [failed(42201)], [], /"error":42201/]
];

/** Runs a client, which prints each pause and takes none, against a server or a port without one. */
async function runClient(
  name: "retry.mts" | "retry.py",
  behaviours: readonly Behaviour[] | "no server",
  ...args: readonly string[]
) {
  const keys: unknown[] = [];
  const server = createHttpServer((request, response) => {
    const behaviour = behaviours[keys.length] ?? lost;
    keys.push(request.headers["idempotency-key"]);
    if (typeof behaviour === "string") return void request.socket.destroy();
    const [status, body, retryAfter] = behaviour;
    response.statusCode = status;
    response.setHeader("Connection", "close");
    if (retryAfter !== undefined) response.setHeader("Retry-After", retryAfter);
    request.resume().once("end", () => response.end(body));
  });
  const port = behaviours === "no server" ? 2 : await listen(server);
  const file = join(temporaryFolder(), name);
  const pause =
    name === "retry.py"
      ? { "time.sleep(": 'print("pause", 1000 * ' }
      : {
          'import { setTimeout } from "node:timers/promises";':
            'const setTimeout = async (millis: number) => console.log("pause", millis);'
        };
  const url = { "http://127.0.0.1:8080": `http://127.0.0.1:${port}` };
  writeFileSync(file, recipeWith(name, { ...url, ...pause }));
  const [command, ...before] = interpreters[name];
  const result: unknown = await promisify(execFile)(
    command,
    [...before, file, ...args],
    { cwd: root, env: cleanEnvironment({ PLANTS_TOKEN: "a" }) }
  ).catch((error: unknown) => error);
  const { code = 0, stdout, stderr } = Object(result);
  const pauses = [...`${stdout}`.matchAll(/^pause (\d+)$/gm)];
  return {
    code: Number(code),
    output: `${stdout}${stderr}`.replaceAll(/^pause .*\n/gm, ""),
    pauses: pauses.map(([, millis]) => Number(millis)),
    keys
  };
}

for (const [says, behaviours, pauses, output] of retries) {
  test(`the README's retry.mts ${says}`, async () => {
    const found = await runClient("retry.mts", behaviours);
    assert.deepEqual(found.pauses, pauses, found.output);
    assert.match(found.output, output);
    assert.equal(found.keys.length, behaviours.length);
    assert.equal(new Set(found.keys).size, 1, "all tries have the same key");
  });
}

test("the README's retry.mts says in one line that no server listens, that nothing was stored, and the key, which it takes", async () => {
  const { code, output } = await runClient("retry.mts", "no server");
  assert.equal(code, 1);
  const [, key = ""] =
    /^nothing was stored: try again .* the key ([^;]+); the last try got: connect ECONNREFUSED 127\.0\.0\.1:2\n$/.exec(
      output
    ) ?? [];
  const { keys } = await runClient("retry.mts", [taken], key);
  assert.deepEqual(keys, [key]);
});

test(
  "the README's retry.py waits, repeats what may succeed later, and takes a key",
  { skip: noPython },
  async () => {
    const date = "Wed, 21 Oct 2015 07:28:00 GMT";
    assert.deepEqual(
      await runClient(
        "retry.py",
        [lost, failed(50301, date), [429, "", "30"], failed(40014)],
        "a"
      ),
      {
        code: 1,
        output: 'with the key a: {"error":40014,"message":"m"}\n',
        pauses: [1_000, 2_000, 30_000],
        keys: ["a", "a", "a", "a"]
      }
    );
    const { output } = await runClient("retry.py", "no server");
    assert.match(output, /^with the key [-\da-f]{36}: .*refused.*\n$/);
  }
);

test(
  "the examples of the README on HTTP run in one shell, in order, and leave no server",
  { skip: missing(["curl", "--retry-all-errors", "--version"]) },
  async () => {
    const cwd = temporaryFolder();
    const tools = temporaryFolder();
    symlinkSync(join(root, "dist"), join(cwd, "dist"));
    symlinkSync(process.execPath, join(tools, "node"));
    writeFileSync(join(cwd, "retry.mts"), recipeOf("retry.mts"));
    const page = readFileSync(join(root, "src/http/README.md"), "utf8");
    const examples = [
      ...page.matchAll(/^```(console|sh)\b.*\n([^]*?)^```$/gm)
    ].map(([, language, text = ""]) =>
      language === "sh" ? text : (text.match(/(?<=^\$ ).*\n/gm) ?? []).join("")
    );
    const start = "node dist/server.js &\n";
    const [before = "", after] = examples.join("").split(start);
    assert.ok(after, "one server is started");
    const script = [
      // On any port. A reader waits for the first line, too.
      `${before}node dist/server.js --port 0 > listening &`,
      "until [ -s listening ]; do sleep 0.1; done",
      "export PLANTS_URL=$(sed 's/.* //' listening)",
      after
        .replaceAll("http://127.0.0.1:8080", "$PLANTS_URL")
        .replace("node retry.mts", `node --import '${loader}' retry.mts`),
      "wait $!"
    ].join("\n");
    const { stdout } = await promisify(execFile)("sh", ["-ec", script], {
      cwd,
      env: cleanEnvironment({ PATH: `${tools}:${process.env["PATH"]}` }),
      timeout: seconds(60)
    });
    assert.match(
      stdout,
      /^\{"error":40014,.*\n\{"name":"Moss"\}\n\{"name":"Moss"\}\n$/
    );
    const journal = readFileSync(join(cwd, "plants.ndjson"), "utf8");
    assert.equal(journal.match(/^\{"seq":/gm)?.length, 2);
  }
);

test(
  "the README's curl example makes a key for each plant",
  { skip: missing(["curl", "--retry-all-errors", "--version"]) },
  async () => {
    const { port, lines } = await serving();
    const example = (name: string) => [
      "-ec",
      recipeWith("retry", {
        "http://127.0.0.1:8080": `http://127.0.0.1:${port}`,
        "PLANTS_TOKEN=garden": "PLANTS_TOKEN=a",
        Moss: name
      })
    ];
    for (const name of ["Moss", "Fern"]) {
      const { stdout } = await promisify(execFile)("sh", example(name), {
        env: cleanEnvironment({ PLANTS_TOKEN: "a" })
      });
      assert.equal(stdout, `{"name":"${name}"}\n`);
    }
    assert.equal(lines().length, 2);
  }
);
