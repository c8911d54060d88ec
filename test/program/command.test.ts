/** The command line and the environment: what is read, and how mistakes are reported. */
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { test } from "node:test";
import { inspect } from "node:util";
import { limitTable } from "../../src/config.ts";
import type { Host } from "../../src/program/host.ts";
import { openTokens } from "../../src/program/serving/tokens.ts";
import {
  entries,
  environmentOf,
  readConfig,
  settingTable,
  warnOfUnknown,
  type Config
} from "../../src/program/settings.ts";
import { ExitError } from "../../src/failure.ts";
import { run } from "../support/in-process.ts";
import { limits } from "../support/limits.ts";
import { root, temporaryFolder } from "../support/support.ts";

type Texts = Readonly<Record<string, string>>;

/** The words of a command line, parted by single spaces. */
const words = (line: string): string[] => (line === "" ? [] : line.split(" "));

/** The number of the process, as sockets are handed in for one. */
const pid = 4711;

/** Reads the settings from flags, without their dashes, and variables. */
const accepted = (flags: Texts, environment: Texts = {}): Config =>
  readConfig(flags, { environment, pid } as Host);

/** The code and the lines of the message. */
function refused(flags: Texts, environment: Texts = {}): readonly unknown[] {
  try {
    accepted(flags, environment);
  } catch (error) {
    assert.ok(error instanceof ExitError);
    return [error.exitCode, ...error.message.split("\n")];
  }
  return assert.fail(`${inspect(flags)} is taken with ${inspect(environment)}`);
}

test("with nothing given, everything has its default", () => {
  assert.deepEqual(accepted({}), {
    host: "127.0.0.1",
    port: 8080,
    socket: "",
    basePath: "",
    store: resolve("plants.ndjson"),
    storeCredentials: "",
    storeTlsCert: "",
    storeTlsKey: "",
    storeTlsCa: "",
    storeHandshakeMillis: 2_000,
    storeAppendMillis: 10_000,
    tokensFile: "",
    tlsCert: "",
    tlsKey: "",
    isInherited: false,
    admin: "",
    failedLinesMax: 10,
    logRequests: false,
    logFormat: "",
    limits: Object.fromEntries(
      limits.map(({ name, defaultValue }) => [name, defaultValue])
    )
  });
});

const port = "a port, 0 to 65535";
const path = "a path without control characters";
const notPaths = ["a\0b", "a\r", "a\n", "a\tb", "\x1b[31m", "a\u0085"];
const oddPaths = [
  "my plants #1 (ü)/a b",
  "a # b",
  " a ",
  "-",
  '"a"',
  "data/",
  "a\u200bb"
];

/** One row for each form of a value: what is expected, and texts of that form and of none. */
type Form = readonly [
  flag: string,
  expected: string,
  good: readonly string[],
  bad: readonly string[]
];
const forms: readonly Form[] = [
  [
    "host",
    "a host name or an address, without a port or brackets",
    ["0.0.0.0", "::1", "localhost", "fe80::1%eth0", "a-b.example"],
    [
      "[::1]",
      "::1]",
      "[localhost]",
      "[::1]:80",
      "a b",
      "http://x",
      "a\0",
      "a:1"
    ]
  ],
  [
    "port",
    port,
    ["0", "1", "9999", "10000", "59999", "65535"],
    ["65536", "100000", "-1", "80.0", "1e3", "0x50", " 80", "80 ", "http", "٣"]
  ],
  [
    "socket",
    `${path} of at most 107 characters`,
    [...oddPaths, "@a", "unix:a", "s".repeat(107)],
    [...notPaths, "s".repeat(108)]
  ],
  [
    "base-path",
    "a path such as /v1, with no / at its end",
    ["", "/v1", "/a/b", "/a-b_c.d~e", "/%C3%A9", "/a:b"],
    ["v1", "/", "/v1/", "//", "/a//b", "/a b", "/a?b", "/a#b", "/é", "/a\n"]
  ],
  [
    "store",
    `${path}, or nats://HOSTS/STREAM or tls:// without credentials`,
    [...oddPaths, "a@b", "nats://h:1,h2/p?replicas=3", "tls://h/p"],
    [
      ...notPaths,
      "http://S3cret@x",
      "file:///a",
      "nats:x",
      "nats://",
      "nats://u:S3cret@h/p",
      "tls://S3cret@h/p",
      " nats://u:S3cret@h/p",
      "NATS://h/p"
    ]
  ],
  ["tokens", path, oddPaths, notPaths],
  [
    "admin",
    `a port, HOST:PORT, or with a / ${path} of at most 107 characters`,
    ["0", "65535", "localhost:1", "[::1]:9090", "/run/a.sock", "./a b"],
    [
      "65536",
      "-1",
      ":80",
      "::1:80",
      "localhost",
      "a.sock",
      "localhost:65536",
      "/a\0",
      `/${"s".repeat(107)}`,
      " 80"
    ]
  ],
  ["log-format", "text or json", ["text", "json"], ["pretty", "TEXT", "json "]],
  [
    "log-requests",
    "yes, 1 or true; or no, 0 or false",
    ["yes", "1", "true", "no", "0", "false"],
    ["off", "2", "TRUE", "yes "]
  ],
  [
    "max-failed-lines",
    "a whole number of lines, 0 to 100000",
    ["0", "100000"],
    ["-1", "100001", "1.5", "1e3", "0x1", "+2", "2 ", "2ms", "1_0", "NaN", "٣"]
  ]
];
const flagOf = new Map(entries.map((entry) => [entry.flag, entry]));

/** The variable of a flag. */
function variableOf(flag: string): string {
  const entry = flagOf.get(flag);
  assert.ok(entry, flag);
  return environmentOf(entry);
}

/** No limit is above the one that it must not exceed. */
const apart: Texts = {
  PLANTS_HEAD_TIMEOUT: "100",
  PLANTS_REQUEST_TIMEOUT: "3600000",
  PLANTS_MAX_BODY: "1",
  PLANTS_MAX_BODIES: `${2 ** 32}`
};
const limitForms = limits.map(({ flag, unit, min, max }): Form => [
  flag.slice(2),
  `a whole number of ${unit}, ${min} to ${max}`,
  [`${min}`, `${max}`],
  [`${min - 1}`, `${max + 1}`]
]);

for (const [flag, expected, good, bad] of [...forms, ...limitForms]) {
  test(`--${flag} takes ${good.length} texts of its form, and refuses others without repeating them`, () => {
    const message = `must be ${expected}`;
    for (const value of good) accepted({ [flag]: value }, apart);
    for (const value of good.includes("") ? bad : ["", ...bad])
      assert.deepEqual(refused({ [flag]: value }, apart), [
        64,
        `--${flag} ${message}`
      ]);
    const variable = variableOf(flag);
    const environment = { ...apart, [variable]: bad[0] ?? "" };
    assert.deepEqual(refused({}, environment), [78, `${variable} ${message}`]);
  });
}

test("each limit has the flag and the variable of its name", () => {
  for (const { name, flag, variable, max } of limits) {
    const { limits } = accepted({ [flag.slice(2)]: `${max}` }, apart);
    assert.equal(limits[name], max);
    assert.equal(variableOf(flag.slice(2)), variable);
  }
});

test("a flag and its variable are read the same, the flag wins, and an empty variable is none", () => {
  const values: Texts = {
    "host": "::1",
    "port": "1",
    "base-path": "/v1",
    "log-format": "json",
    "log-requests": "yes",
    "store": "nats://h/p",
    "admin": "./a"
  };
  const companions: Texts = {
    PLANTS_STORE: "nats://h/p",
    PLANTS_TLS_CERT: "c",
    PLANTS_TLS_KEY: "k",
    PLANTS_STORE_TLS_CERT: "c",
    PLANTS_STORE_TLS_KEY: "k"
  };
  for (const entry of entries) {
    const { flag, defaultValue } = entry;
    const variable = environmentOf(entry);
    const value = values[flag] ?? ("min" in entry ? `${defaultValue}` : "./x");
    const given = accepted({ [flag]: value }, companions);
    assert.deepEqual(accepted({}, { ...companions, [variable]: value }), given);
    const bad = { ...companions, [variable]: "\0" };
    assert.deepEqual(accepted({ [flag]: value }, bad), given, flag);
    assert.deepEqual(accepted({}, { [variable]: "" }), accepted({}));
  }
});

/** Settings that need others: each mistake has its line. */
for (const [flags, environment, ...found] of [
  [{ "tls-cert": "c" }, {}, 64, "--tls-cert must be given with --tls-key"],
  [
    {},
    { PLANTS_TLS_KEY: "k" },
    78,
    "PLANTS_TLS_KEY must be given with --tls-cert"
  ],
  [
    { store: "nats://h/p" },
    { PLANTS_STORE_TLS_CERT: "c" },
    78,
    "PLANTS_STORE_TLS_CERT must be given with --store-tls-key"
  ],
  [
    { "store-credentials": "c", "store": "a" },
    {},
    64,
    "--store-credentials must be left out without a stream as --store"
  ],
  [
    { port: "1" },
    { PLANTS_MAX_BODIES: "1" },
    78,
    "--max-body (bodyBytesMax) must be at most --max-bodies (bodiesBytesMax)"
  ],
  [
    { "max-bodies": "1" },
    {},
    64,
    "--max-body (bodyBytesMax) must be at most --max-bodies (bodiesBytesMax)"
  ],
  [
    { "port": "x", "max-body": "0" },
    {
      HOST: "a/b",
      PLANTS_TOKEN: "S3cret x",
      LISTEN_PID: "4711",
      LISTEN_FDS: "2"
    },
    64,
    "HOST must be a host name or an address, without a port or brackets",
    `--port must be ${port}`,
    "--max-body must be a whole number of bytes, 1 to 16777216",
    "PLANTS_TOKEN must be a token of letters, digits and -._~+/, with = at the end only",
    "LISTEN_FDS must be 1"
  ],
  [
    { port: "1" },
    { HOST: "a/b", PORT: "x" },
    78,
    "HOST must be a host name or an address, without a port or brackets"
  ]
] as const) {
  test(`all mistakes come at once: ${inspect([flags, environment])}`, () => {
    assert.deepEqual(refused(flags, environment), found);
  });
}

test("a socket is inherited by the process that LISTEN_PID names, and by no other", () => {
  const mine = { LISTEN_PID: "4711", LISTEN_FDS: "1" };
  assert.equal(accepted({}, mine).isInherited, true);
  for (const change of [
    { LISTEN_PID: "4712" },
    { LISTEN_PID: "" },
    { LISTEN_FDS: "0" }
  ])
    assert.equal(accepted({}, { ...mine, ...change }).isInherited, false);
});

test("a warning names each unknown variable, without its value", () => {
  const lines: string[] = [];
  const log: Host["log"] = (level, message) =>
    void lines.push(`${level} ${message}`);
  const environment = {
    HOME: "/",
    PLANTS_TOKEN: "a",
    PLANTS_TOKENS: "S3cret",
    PLANTS_PORT: "S3cret",
    PLANTS_X: ""
  };
  warnOfUnknown({ environment, log } as unknown as Host);
  assert.deepEqual(lines, [
    "warn PLANTS_TOKENS is ignored: there is no such setting",
    "warn PLANTS_PORT is ignored: there is no such setting"
  ]);
});

test("neither the settings nor the tokens show a secret when they are inspected", () => {
  const environment = { PLANTS_TOKEN: "S3cret-token" };
  const config = accepted({}, environment);
  const tokens = openTokens(config, { environment } as unknown as Host);
  const generated = openTokens(config, { environment: {} } as Host);
  assert.notEqual(generated.generated(), "", "the control: there is one");
  for (const shown of [config, tokens, generated, [tokens.accepted]])
    for (const text of [
      inspect(shown, { showHidden: true, depth: 9 }),
      JSON.stringify(shown)
    ]) {
      assert.ok(!text.includes("S3cret"), text);
      assert.ok(!text.includes(generated.generated()), text);
      assert.doesNotMatch(text, /[\da-f]{64}/);
    }
});

/** Words of the line that Node's parseArgs or the table of commands refuses, and the lines of stderr. */
for (const [line, ...messages] of [
  ["start", /^expected one of the commands serve, check, verify, /],
  ["__proto__", /^expected one of the commands/],
  ["--bogus verify a", /^Unknown option '--bogus'/],
  ["-p 80", /^Unknown option '-p'/],
  ["--__proto__", /^Unknown option '--__proto__'/],
  ["--json", /^Unknown option '--json'/],
  ["verify --port 1 a", /^Unknown option '--port'/],
  ["--port", /^Option '--port <value>' argument missing$/],
  ["--log-requests=yes", /^Option '--log-requests' does not take an argument$/],
  ["serve more", /^expected plant-store serve \[options\]$/],
  ["--log-requests yes", /^expected plant-store serve \[options\]$/],
  ["verify", /^expected plant-store verify \[options\] FILE\.\.\.$/],
  ["cat --seq", /^expected plant-store cat \[options\] FILE\.\.\.$/],
  ["token a b", /^expected plant-store token \[NAME\]$/],
  ["token #a", /^the name must be a word without # at its start$/],
  ["openapi x", /^expected plant-store openapi \[options\]$/],
  ["openapi --key-window x", /^--key-window must be a whole number of bytes/],
  ["--port=x --host=a/b", /^--host must be /, /^--port must be /]
] as const) {
  test(`\`${line}\` ends with 64, and touches nothing`, async () => {
    const cwd = temporaryFolder();
    const { code, stdout, stderr } = await run(words(line), {}, cwd);
    assert.equal(code, 64);
    assert.equal(stdout, "");
    const lines = stderr.trimEnd().split("\n");
    assert.equal(lines.length, messages.length, stderr);
    for (const [index, message] of messages.entries())
      assert.match(lines[index]?.replace("plant-store: ", "") ?? "", message);
    assert.deepEqual(readdirSync(cwd), []);
  });
}

for (const [line, environment, expected] of [
  ["--token=S3cret", {}, 64],
  ["-S3cret", {}, 64],
  ["", { PLANTS_TOKEN: "S3cret x" }, 78],
  ["--store nats://u:S3cret@h/p", {}, 64],
  ["nats://u:S3cret@h/p", {}, 64],
  ["serve S3cret", {}, 64],
  ["--port S3cret", {}, 64],
  ["--host=a/S3cret", {}, 64],
  ["--bogus S3cret", {}, 64],
  ["verify --json=S3cret a", {}, 64],
  ["", { PLANTS_STORE: "tls://S3cret@h/p", PORT: "S3cret" }, 78],
  ["", { PLANTS_TOKEN: "S3cret\u200b" }, 78]
] as const) {
  test(`no output has the secret in \`${line}\` or ${inspect(environment)}, and the code is ${expected}`, async () => {
    for (const command of line.startsWith("-") || line === ""
      ? ["", "check"]
      : [""]) {
      const args = [...words(command), ...words(line)];
      const { code, stdout, stderr } = await run(args, environment);
      assert.equal(code, expected);
      assert.equal(stdout, "");
      assert.match(stderr, /^(?!.*S3c)plant-store: /s);
    }
  });
}

test("openapi reads the settings of serve, and other commands do not", async () => {
  const environment = { PORT: "x", PLANTS_TOKEN: "a b", PLANTS_TLS_KEY: "k" };
  const of = (line: string, env = {}) => run(words(line), env);
  assert.equal((await of("token ci", environment)).code, 0);
  assert.equal((await of("openapi", environment)).code, 78);
  const [all, without] = await Promise.all(
    ["openapi", "openapi --key-window 0"].map((line) => of(line))
  );
  assert.match(all?.stdout ?? "", /"Idempotency-Key"/);
  assert.doesNotMatch(without?.stdout ?? "", /"Idempotency-Key"/);
});

test("help lists every command, flag and own variable, and is what --help prints", async () => {
  const { code, stdout, stderr } = await run(["help"]);
  assert.deepEqual([code, stderr], [0, ""]);
  for (const command of ["serve", "check", "verify", "cat", "token", "openapi"])
    assert.match(stdout, RegExp(`^  plant-store ${command} .*\\w{5}`, "m"));
  for (const { flag, meaning, defaultValue } of [
    ...Object.values(limitTable),
    ...Object.values(settingTable)
  ]) {
    const line = stdout
      .split("\n")
      .find((each) => RegExp(`^  --${flag}[ ,]`).test(each));
    assert.ok(line?.includes(meaning), flag);
    assert.ok(line?.includes(`${defaultValue}`), flag);
  }
  for (const name of ["HOST", "PORT", "PLANTS_TOKENS_FILE", "PLANTS_TOKEN"])
    assert.match(stdout, RegExp(`\\b${name} `));
  for (const line of ["--help", "-h", "verify -h", "serve --help"])
    assert.equal((await run(words(line))).stdout, stdout, line);
});

test("--version prints package.json's version and nothing else", async () => {
  const { version } = JSON.parse(
    readFileSync(join(root, "package.json"), "utf8")
  );
  for (const word of ["--version", "-v", "version"])
    assert.deepEqual(await run([word]), {
      code: 0,
      stdout: `${version}\n`,
      stderr: ""
    });
});
