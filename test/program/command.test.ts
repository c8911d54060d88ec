/** The command line and the environment: what is read, and how mistakes are reported. */
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { test } from "node:test";
import { inspect } from "node:util";
import { readCommand } from "../../src/program/command-line/command.ts";
import { limitTable } from "../../src/config.ts";
import {
  environmentOf,
  settingTable,
  warnOfUnknown,
  type Config
} from "../../src/program/settings.ts";
import { openTokens } from "../../src/program/serving/tokens.ts";
import { ExitError } from "../../src/failure.ts";
import type { Host } from "../../src/program/host.ts";
import { run } from "../support/in-process.ts";
import { limitOf, limits, orderedLimits } from "../support/limits.ts";
import { root, temporaryFolder } from "../support/support.ts";

type Environment = Readonly<Record<string, string>>;

/** The words of a command line, parted by single spaces. */
const words = (line: string): string[] => (line === "" ? [] : line.split(" "));

function serve(
  line: string | readonly string[],
  environment: Environment = {}
): Config {
  const {
    command,
    config,
    refusal: found
  } = readCommand({
    args: typeof line === "string" ? words(line) : line,
    environment,
    pid
  });
  assert.equal(found, undefined);
  assert.equal(command, "serve");
  return config;
}

function refusal(
  line: string | readonly string[],
  environment: Environment = {}
): ExitError {
  const { refusal: found } = readCommand({
    args: typeof line === "string" ? words(line) : line,
    environment,
    pid
  });
  assert.ok(
    found,
    `${String(line)} is taken, with ${JSON.stringify(environment)}`
  );
  return found;
}

/** The number of the process, as sockets are handed in for one. */
const pid = 4711;

test("with nothing given, everything has its default", () => {
  const config = serve("");
  assert.deepEqual(config, {
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
    hostSource: "HOST",
    logFormat: "",
    limits: Object.fromEntries(
      limits.map(({ name, defaultValue }) => [name, defaultValue])
    )
  });
  assert.deepEqual(serve("serve"), config);
});

test("the tables of this test know every limit and every setting", () => {
  assert.deepEqual(
    limits.map(({ name }) => name),
    Object.keys(limitTable)
  );
  assert.deepEqual(
    [...settings.map(([flag]) => flag.slice(2)), "log-requests"],
    Object.values(settingTable).map(({ flag }) => flag)
  );
});

for (const { name, flag, variable, min, max, defaultValue } of limits) {
  /** So that no limit is above the one that it must not exceed. */
  const others: Environment = Object.fromEntries(
    orderedLimits.flatMap(([lower, upper]) =>
      name === lower
        ? [[limitOf(upper).variable, `${limitOf(upper).max}`]]
        : name === upper
          ? [[limitOf(lower).variable, `${limitOf(lower).min}`]]
          : []
    )
  );
  test(`${flag} and ${variable} set ${name} from ${min} to ${max}, and no further`, () => {
    for (const value of [min, min + 1, max - 1, max]) {
      assert.equal(serve([flag, `${value}`], others).limits[name], value);
      assert.equal(serve([`${flag}=${value}`], others).limits[name], value);
      assert.equal(
        serve([], { ...others, [variable]: `${value}` }).limits[name],
        value
      );
      const both = { ...others, [variable]: `${value === max ? min : max}` };
      assert.equal(
        serve([flag, `${value}`], both).limits[name],
        value,
        "the flag wins"
      );
    }
    for (const value of [
      min - 1,
      max + 1,
      -1,
      1.5,
      "1e3",
      "0x100",
      "+200",
      " 200",
      "200 ",
      "200ms",
      "1_000",
      "Infinity",
      "NaN",
      "٣٠٠",
      "99999999999999999999",
      "two"
    ]) {
      for (const [error, source, code] of [
        [refusal([`${flag}=${value}`], others), flag, 64],
        [refusal([], { ...others, [variable]: `${value}` }), variable, 78]
      ] as const) {
        assert.equal(error.exitCode, code, `${source}=${value}`);
        assert.match(
          error.message,
          new RegExp(`^${source} .*${min} to ${max}`)
        );
        assert.equal(error.message.split("\n").length, 1, error.message);
      }
    }
    assert.equal(serve([], { [variable]: "" }).limits[name], defaultValue);
  });
}

/**
 * Paths as they come from an env file that was not written for a shell, or from a page from which
 * they were copied; a folder; and the name of a stream.
 */
const oddPaths: readonly string[] = [
  "a # the journal",
  "a\t#",
  "a\u200b",
  "\u2060a",
  "a\u200e/b",
  "\ufeffa",
  "-",
  "a\r",
  '"a"',
  "'a'",
  " a",
  "a ",
  "a\t",
  "a\n",
  "data/"
];

type Setting = readonly [
  flag: string,
  variable: string,
  name: keyof Config,
  good: readonly string[],
  bad: readonly string[]
];
const settings: readonly Setting[] = [
  [
    "--host",
    "HOST",
    "host",
    ["0.0.0.0", "::1", "::", "localhost", "fe80::1%eth0", "a-b.example"],
    [
      "[::1",
      "::1]",
      "[localhost]",
      "[::1]:80",
      "a b",
      "http://x",
      "a/b",
      "[",
      "a\0",
      "a\n",
      " ",
      "127.0.0.1:8080",
      "a:1"
    ]
  ],
  [
    "--port",
    "PORT",
    "port",
    ["0", "1", "80", "8080", "9999", "10000", "59999", "60000", "65535"],
    [
      "65536",
      "70000",
      "99999",
      "100000",
      "-1",
      "80.0",
      "1e3",
      "0x50",
      " 80",
      "80 ",
      "http"
    ]
  ],
  [
    "--socket",
    "PLANTS_SOCKET",
    "socket",
    ["/run/plants.sock", "a b", "a#b", "./s", "./@s", "s".repeat(107)],
    [
      "@plants",
      "unix:/run/plants.sock",
      "http://127.0.0.1:80",
      ...oddPaths,
      "a\0b",
      "\0",
      "s".repeat(108),
      "/run/pflänzchen"
    ]
  ],
  [
    "--base-path",
    "PLANTS_BASE_PATH",
    "basePath",
    ["/v1", "/a/b", "/a-b_c.d~e", "/%C3%A9", "/a:b"],
    [
      "v1",
      "/",
      "/v1/",
      "//",
      "/a//b",
      "/a b",
      "/a?b",
      "/a#b",
      "/é",
      "http://x/v1",
      "/a\n"
    ]
  ],
  [
    "--store",
    "PLANTS_STORE",
    "store",
    [
      "a.ndjson",
      "/var/lib/a",
      "./a b",
      "a:b",
      "a@b",
      "nats://h:1,h2/plants?replicas=3",
      "tls://h/p"
    ],
    [
      ...oddPaths,
      ":memory:",
      "a\0b",
      "gopher://x/y",
      "http://x",
      "file://elsewhere/a",
      "file:///a",
      "nats:x",
      "nats://",
      "nats://u:S3cret@h/plants",
      "tls://S3cret@h/plants",
      " nats://u:S3cret@h/p",
      "NATS://h/p"
    ]
  ],
  [
    "--store-credentials",
    "PLANTS_STORE_CREDENTIALS",
    "storeCredentials",
    ["/run/creds", "c"],
    oddPaths
  ],
  [
    "--store-tls-cert",
    "PLANTS_STORE_TLS_CERT",
    "storeTlsCert",
    ["/run/cert.pem", "c"],
    oddPaths
  ],
  [
    "--store-tls-key",
    "PLANTS_STORE_TLS_KEY",
    "storeTlsKey",
    ["/run/key.pem", "k"],
    oddPaths
  ],
  [
    "--store-tls-ca",
    "PLANTS_STORE_TLS_CA",
    "storeTlsCa",
    ["/run/ca.pem", "c"],
    oddPaths
  ],
  [
    "--store-handshake-timeout",
    "PLANTS_STORE_HANDSHAKE_TIMEOUT",
    "storeHandshakeMillis",
    ["100", "5000", "60000"],
    ["99", "60001", "5s"]
  ],
  [
    "--store-append-timeout",
    "PLANTS_STORE_APPEND_TIMEOUT",
    "storeAppendMillis",
    ["1000", "600000"],
    ["999", "600001"]
  ],
  [
    "--tokens",
    "PLANTS_TOKENS_FILE",
    "tokensFile",
    ["/etc/plants/tokens", "t"],
    oddPaths
  ],
  [
    "--tls-cert",
    "PLANTS_TLS_CERT",
    "tlsCert",
    ["/etc/plants/cert.pem", "c"],
    oddPaths
  ],
  [
    "--tls-key",
    "PLANTS_TLS_KEY",
    "tlsKey",
    ["/etc/plants/key.pem", "k"],
    oddPaths
  ],
  [
    "--admin",
    "PLANTS_ADMIN",
    "admin",
    [
      "0",
      "9090",
      "10000",
      "59999",
      "64999",
      "65499",
      "65529",
      "65535",
      "127.0.0.1:9090",
      "localhost:1",
      "[::1]:9090",
      "/run/a.sock",
      "./a b"
    ],
    [
      "65536",
      "99999",
      "100000",
      "-1",
      ":80",
      "::1:80",
      "a b:80",
      "localhost",
      "a.sock",
      "[::1]",
      "@plants/a",
      "unix:/run/x.sock",
      "http://127.0.0.1:9108",
      "localhost:",
      "localhost:x",
      "localhost:65536",
      "/a\0",
      "/a\r",
      "/a ",
      '"/a"',
      `/${"s".repeat(107)}`,
      "/é",
      " 80"
    ]
  ],
  [
    "--log-format",
    "PLANTS_LOG_FORMAT",
    "logFormat",
    ["text", "json"],
    ["pretty", "TEXT", "json "]
  ],
  [
    "--max-failed-lines",
    "PLANTS_MAX_FAILED_LINES",
    "failedLinesMax",
    ["0", "1", "10", "100000"],
    ["-1", "100001", "1.5", "ten", "1e3", " 1"]
  ]
];

/** What a setting can't be without. */
const companions: Readonly<Record<string, Environment>> = {
  "--tls-cert": { PLANTS_TLS_KEY: "k" },
  "--tls-key": { PLANTS_TLS_CERT: "c" },
  ...Object.fromEntries(
    [
      "--store-credentials",
      "--store-tls-ca",
      "--store-handshake-timeout",
      "--store-append-timeout"
    ].map((flag) => [flag, { PLANTS_STORE: "nats://h/plants" }])
  ),
  "--store-tls-cert": {
    PLANTS_STORE: "nats://h/plants",
    PLANTS_STORE_TLS_KEY: "k"
  },
  "--store-tls-key": {
    PLANTS_STORE: "nats://h/plants",
    PLANTS_STORE_TLS_CERT: "c"
  }
};

test("an IPv6 host may be in brackets, as in a URL", () => {
  assert.equal(serve("--host [::1]").host, "::1");
  assert.equal(serve("", { HOST: "[fe80::1%eth0]" }).host, "fe80::1%eth0");
});

test("a message shows the code of a character that cannot be seen", () => {
  const { message } = refusal("", {
    PLANTS_STORE: "plants\u200b.ndjson\u00a0"
  });
  assert.match(message, /, found "plants<U\+200B>\.ndjson<U\+00A0>"$/);
});

for (const [line, message] of [
  ["--admin 8080", /^--admin must not have the port of --port, 8080$/],
  ["--admin [::1]:80 --port 80 --host ::", /the port of --port, 80$/],
  ["--admin 0.0.0.0:80 --port 80", /the port of --port, 80$/],
  ["--admin ./a --socket a", /^--admin must not be the path of --socket$/],
  ["--admin ./a --store a", /^--admin must not be the path of --store$/],
  ["--socket a --store ./a", /^--socket must not be the path of --store$/]
] as const) {
  test(`\`${line}\` is refused: two would be at one place`, () => {
    const { exitCode, message: found } = refusal(line);
    assert.equal(exitCode, 64);
    assert.match(found, message);
  });
}

test("the admin listener may have the port that an inherited socket replaces", () => {
  const environment = { LISTEN_PID: "4711", LISTEN_FDS: "1" };
  assert.doesNotThrow(() => serve("--admin 8080", environment));
});

for (const line of [
  "--admin 0 --port 0",
  "--admin 127.0.0.2:8080",
  "--admin 8080 --socket a",
  "--admin ./a --socket b --store c",
  "--admin 0.0.0.0:80 --port 80 --host ::1",
  "--admin [::1]:80 --port 80 --host 0.0.0.0"
]) {
  test(`\`${line}\` is accepted: all are at different places`, () => {
    assert.doesNotThrow(() => serve(line));
  });
}

test("--log-requests is a switch without a value, of serve, and given once", () => {
  assert.equal(serve("--log-requests").logRequests, true);
  for (const line of [
    "--log-requests=yes",
    "--log-requests yes",
    "verify --log-requests a",
    "--log-requests --log-requests"
  ])
    assert.equal(refusal(line).exitCode, 64, line);
});

test("PLANTS_LOG_REQUESTS is yes, 1 or true, or no, 0, false or empty", () => {
  for (const value of ["yes", "1", "true"]) {
    assert.equal(serve("", { PLANTS_LOG_REQUESTS: value }).logRequests, true);
  }
  for (const value of ["", "no", "0", "false"]) {
    assert.equal(serve("", { PLANTS_LOG_REQUESTS: value }).logRequests, false);
  }
  for (const value of ["off", "2", "TRUE", "YES", "yes "]) {
    const { exitCode, message } = refusal("", { PLANTS_LOG_REQUESTS: value });
    assert.equal(exitCode, 78, value);
    assert.match(
      message,
      /^PLANTS_LOG_REQUESTS must be yes, 1 or true; or no, 0 or false, /
    );
  }
});

for (const [flag, variable, name, good, bad] of settings) {
  const need = companions[flag] ?? {};
  test(`${flag} and ${variable} set ${name}`, () => {
    /** The path of a journal becomes absolute. */
    const read = (value: string): string =>
      name === "store" && !value.includes("://") ? resolve(value) : value;
    for (const value of good) {
      const other = {
        ...need,
        [variable]: good.find((one) => one !== value) ?? ""
      };
      assert.equal(`${serve([flag, value], need)[name]}`, read(value));
      assert.equal(`${serve([`${flag}=${value}`], need)[name]}`, read(value));
      assert.equal(
        `${serve([], { ...need, [variable]: value })[name]}`,
        read(value)
      );
      assert.equal(
        `${serve([flag, value], other)[name]}`,
        read(value),
        "the flag wins"
      );
    }
    assert.deepEqual(
      serve([], { [variable]: "" }),
      serve(""),
      "an empty variable is none"
    );
  });
  for (const value of bad) {
    test(`${flag} and ${variable} refuse ${JSON.stringify(value)}`, () => {
      const ofFlag = refusal([`${flag}=${value}`], need);
      assert.equal(ofFlag.exitCode, 64);
      assert.match(ofFlag.message, new RegExp(`^${flag} `));
      const ofVariable = refusal([], { ...need, [variable]: value });
      assert.equal(ofVariable.exitCode, 78);
      assert.match(ofVariable.message, new RegExp(`^${variable} `));
      // One line each, whatever stood in the value.
      assert.match(
        `${ofFlag.message}${ofVariable.message}`,
        /^(?!.*S3cret)[^\n\0]*$/
      );
      // A flag that is good wins over a variable that is not.
      assert.doesNotThrow(() =>
        serve([flag, good[0] ?? ""], { ...need, [variable]: value })
      );
    });
  }
}

test("PLANTS_TOKEN is the one token itself, and neither the config nor a message shows it", () => {
  for (const value of ["a", "-._~+/0==", "S3cret".repeat(700)]) {
    assert.deepEqual(serve("", { PLANTS_TOKEN: value }), serve(""));
  }
  for (const value of [
    "S3cret a",
    "S3cret\n",
    "S3crét",
    "=S3cret",
    "S3cret,b",
    "sha256:S3cret"
  ]) {
    const error = refusal("", { PLANTS_TOKEN: value });
    assert.equal(error.exitCode, 78);
    assert.match(error.message, /^PLANTS_TOKEN /);
    assert.doesNotMatch(error.message, /S3cr/);
  }
  // The end of a long path is shown, too.
  assert.match(
    refusal("", { PLANTS_STORE: `/${"a".repeat(90)}\r` }).message,
    /, found "\/aa.*aa\\r"$/
  );
});

const others: readonly (readonly [
  line: string,
  command: string,
  operands?: readonly string[],
  switches?: readonly string[]
])[] = [
  ["verify a", "verify", ["a"]],
  ["verify a b c", "verify", ["a", "b", "c"]],
  ["verify --json a", "verify", ["a"], ["json"]],
  ["verify a --json", "verify", ["a"], ["json"]],
  ["--json verify a", "verify", ["a"], ["json"]],
  ["verify --json -- --odd", "verify", ["--odd"], ["json"]],
  ["verify -- -odd --json", "verify", ["-odd", "--json"]],
  ["verify -", "verify", ["-"]],
  ["cat --at a b --seq", "cat", ["a", "b"], ["at", "seq"]],
  ["token", "token"],
  ["token ci", "token", ["ci"]],
  ["openapi", "openapi"]
];
for (const [line, command, operands = [], switches = []] of others) {
  test(`\`${line}\` is the command ${command}, whatever the environment says`, () => {
    const environment = {
      PORT: "x",
      PLANTS_MAX_BODY: "-1",
      PLANTS_TOKEN: "a b",
      PLANTS_TLS_KEY: "k"
    };
    const found = readCommand({ args: words(line), environment, pid });
    assert.equal(found.command, command);
    assert.deepEqual(found.operands, operands);
    assert.deepEqual([...found.flags.keys()], switches);
    assert.deepEqual(found.config, serve(""), "it has the defaults");
  });
}

test("openapi reads the setting that changes the description", () => {
  const configOf = (line: string, environment: Environment = {}): Config =>
    readCommand({ args: words(line), environment, pid }).config;
  assert.equal(configOf("openapi --key-window 0").limits.keysBytesMax, 0);
  assert.equal(configOf("openapi", { PORT: "1" }).port, 8080);
});

/** Every mistake is in the message, each in a line of its own. */
type Mistakes = readonly [
  line: string,
  Environment,
  code: 64 | 78,
  lines: readonly RegExp[]
];
const mistakes: readonly Mistakes[] = [
  ["start", {}, 64, [/"start"/]],
  ["Serve", {}, 64, [/"Serve"/]],
  ["constructor", {}, 64, [/constr/]],
  ["__proto__", {}, 64, [/__proto__/]],
  ["serve more", {}, 64, [/"more"/]],
  ["-p 80", {}, 64, [/^there is no option "-p" here: see --help$/]],
  [
    "--Port 80",
    {},
    64,
    [/^there is no option "--Port" here: did you mean --port\?$/]
  ],
  ["--prot 80 --host a/b", {}, 64, [/"--prot"/, /^--host /]],
  [
    "--token abc",
    {},
    64,
    [/^(?!.*abc).*"--token" here: did you mean --tokens\?$/]
  ],
  ["--max_body 1", {}, 64, [/"--max_body" here: did you mean --max-body\?$/]],
  ["--colour red", {}, 64, [/"--colour" here: see --help$/]],
  ["--hepl", {}, 64, [/"--hepl" here: did you mean --help\?$/]],
  ["--bogus verify a", {}, 64, [/^there is no option "--bogus" here/]],
  ["verify a --jsno", {}, 64, [/"--jsno" here: did you mean --json\?$/]],
  ["verfy a", {}, 64, [/^there is no command "verfy": did you mean verify\?$/]],
  ["80", {}, 64, [/^there is no command "80": see --help$/]],
  ["--__proto__", {}, 64, [/--__proto__/]],
  ["--port", {}, 64, [/--port.*value/]],
  ["--port=", {}, 64, [/--port.*value/]],
  ["--host --port 80", {}, 64, [/--host.*value/]],
  ["--port 1 --port 2", {}, 64, [/--port is given twice/]],
  ["serve --json", {}, 64, [/--json/]],
  ["verify", {}, 64, [/verify/]],
  ["verify --json", {}, 64, [/verify/]],
  ["verify --port 1 a", {}, 64, [/--port/]],
  ["verify --json=yes a", {}, 64, [/--json.*value/]],
  ["verify --json --json a", {}, 64, [/--json.*twice/]],
  ["token a b", {}, 64, [/"b"/]],
  ["token #a", {}, 64, [/without # as the name, found "#a"$/]],
  ["openapi x", {}, 64, [/"x"/]],
  ["openapi --port 1", {}, 64, [/--port/]],
  ["openapi --key-window x", {}, 64, [/--key-window/]],
  // All at once.
  [
    "--port x --host a/b --max-body 0",
    {},
    64,
    [/^--port /, /^--host /, /^--max-body /]
  ],
  ["more --bogus --port=70000", {}, 64, [/"--bogus"/, /^--port /]],
  ["verify --bogus --port 1", {}, 64, [/"--bogus"/, /--port/]],
  [
    "",
    { PORT: "x", HOST: "a/b", PLANTS_TOKEN: "a b" },
    78,
    [/^PORT /, /^HOST /, /^PLANTS_TOKEN /]
  ],
  [
    "",
    { PLANTS_MAX_BODY: "0", PLANTS_BASE_PATH: "v1" },
    78,
    [/^PLANTS_MAX_BODY /, /BASE_PATH /]
  ],
  ["--port x", { HOST: "a/b" }, 64, [/^--port /, /^HOST /]],
  [
    "--bogus",
    { HOST: "a/b", PLANTS_TOKEN: "a b" },
    64,
    [/--bogus/, /^HOST /, /^PLANTS_TOKEN /]
  ],
  ["--port 1", { HOST: "a/b", PORT: "x" }, 78, [/^HOST /]],
  // The head's time-out is a part of the request's. Named is who says it.
  [
    "--head-timeout 40000",
    {},
    64,
    [
      /^--head-timeout must not be above --request-timeout: 40000 and 30000 milliseconds$/
    ]
  ],
  [
    "",
    { PLANTS_HEAD_TIMEOUT: "30001" },
    78,
    [/^--head-timeout must not be above --request-timeout: 30001 and 30000 /]
  ],
  [
    "--max-body 2000 --max-bodies 1999",
    {},
    64,
    [/^--max-body must not be above --max-bodies: 2000 and 1999 bytes$/]
  ],
  [
    "--port 1",
    { PLANTS_REQUEST_TIMEOUT: "199" },
    78,
    [/^--head-timeout .* 10000 and 199 /]
  ],
  // Both, or neither.
  ["--tls-cert c", {}, 64, [/^--tls-cert and --tls-key need each other$/]],
  [
    "",
    { PLANTS_TLS_KEY: "k" },
    78,
    [/^--tls-cert and --tls-key need each other$/]
  ],
  [
    "",
    { LISTEN_PID: "4711", LISTEN_FDS: "2" },
    78,
    [/^LISTEN_FDS must be 1, found "2"$/]
  ],
  ["--port --host a", {}, 64, [/^--port needs a value, as in --port=VALUE$/]],
  ["--port -- 80", {}, 64, [/^--port needs a value, as in --port=VALUE$/]],
  ["--port -1", {}, 64, [/^--port needs a value, as in --port=VALUE$/]],
  ["--port=-1", {}, 64, [/^--port must be .* 65535, found "-1"$/]],
  ["--log-requests yes", {}, 64, [/^there is no command "yes": see --help$/]],
  ["--bogus S3cret", {}, 64, [/"--bogus" here/]],
  [
    "--log-requests=yes",
    {},
    64,
    [/^--log-requests takes no value, found "yes"$/]
  ],
  ["-abc", {}, 64, [/option "-a"/]],
  [
    "--tls-key k --tls-cert",
    {},
    64,
    [/^--tls-cert needs a value, as in --tls-cert=VALUE$/]
  ],
  // A file of credentials is for a stream, and no address holds any.
  [
    "--store-credentials c",
    {},
    64,
    [/^--store-credentials needs a stream as --store$/]
  ],
  [
    "",
    { PLANTS_STORE_CREDENTIALS: "c", PLANTS_STORE: "a" },
    78,
    [/^--store-credentials needs/]
  ],
  [
    "--store-tls-cert c --store nats://h/p",
    {},
    64,
    [/^--store-tls-cert and --store-tls-key need each other$/]
  ],
  [
    "--store nats://u:S3cret@h/p --store-credentials c",
    {},
    64,
    [/^--store must be .* without credentials, found a text with an @$/]
  ],
  [
    "nats://u:S3cret@h/p",
    {},
    64,
    [/^there is no command a text with an @: see --help$/]
  ]
];
for (const [line, environment, code, lines] of mistakes) {
  test(`\`${line}\` with ${JSON.stringify(environment)} ends with ${code}, and each mistake has its line`, () => {
    const { exitCode, message } = refusal(line, environment);
    assert.equal(exitCode, code, message);
    const found = message.split("\n");
    for (const line of lines)
      assert.ok(
        found.some((one) => line.test(one)),
        `${line}: ${message}`
      );
    assert.equal(
      found.length,
      lines.length,
      `one line for each mistake: ${message}`
    );
    assert.ok(
      found.every((one) => one !== "" && one.length < 250),
      message
    );
    assert.doesNotMatch(message, /S3cret/);
  });
}

test("a socket is inherited by the process that LISTEN_PID names, and by no other", () => {
  assert.equal(
    serve("", { LISTEN_PID: "4711", LISTEN_FDS: "1" }).isInherited,
    true
  );
  for (const environment of [
    { LISTEN_PID: "4712", LISTEN_FDS: "1" },
    { LISTEN_FDS: "1" },
    { LISTEN_PID: "4711" },
    { LISTEN_PID: "4711", LISTEN_FDS: "0" }
  ]) {
    assert.deepEqual(serve("--port 1", environment), serve("--port 1"));
  }
});

/** Returns what is logged of unknown variables. */
function unknownVariables(environment: Environment): string {
  const lines: string[] = [];
  warnOfUnknown({
    environment,
    log: (level, message) => void lines.push(`${level} ${message}`)
  });
  return lines.join("\n");
}

test("one warning names all unknown variables, with suggestions and without their values", () => {
  const links = {
    PLANTS_SERVICE_HOST: "10.0.0.1",
    PLANTS_PORT_80_TCP: "tcp://10.0.0.1:80"
  };
  const unknown = {
    PLANTS_TOKEN_FILE: "S3cret",
    PLANTS_TOKENS: "S3cret",
    PLANTS_PORT: "tcp://S3cret",
    PLANTS_: "1",
    PLANTS_MAXBODY: "S3cret",
    PLANTS_COLOUR: "S3cret",
    ...links
  };
  assert.equal(
    unknownVariables({
      ...unknown,
      PLANTS_TOKEN: "a",
      HOME: "/",
      PLANTS_STOER: ""
    }),
    "warn unknown variables are ignored: PLANTS_TOKEN_FILE (did you mean PLANTS_TOKENS_FILE?), " +
      "PLANTS_TOKENS (did you mean PLANTS_TOKENS_FILE?), PLANTS_PORT (did you mean PORT?), " +
      "PLANTS_ (see --help), PLANTS_MAXBODY (did you mean PLANTS_MAX_BODY?), " +
      "PLANTS_COLOUR (see --help), PLANTS_SERVICE_HOST (see --help), " +
      "PLANTS_PORT_80_TCP (see --help)"
  );
  assert.equal(unknownVariables({ PLANTS_TOKEN: "a", PLANTS_SOCKET: "s" }), "");
  assert.match(
    unknownVariables({ PLANTS_X: "1" }),
    /^warn unknown variables are ignored: PLANTS_X /
  );
  assert.deepEqual(
    serve("", unknown),
    serve(""),
    "and nothing else comes of them"
  );
});

test("neither the settings nor the tokens show a secret when they are inspected", () => {
  const secret = "S3cret-token";
  const config = serve("", { PLANTS_TOKEN: secret, PLANTS_TOKENS_FILE: "" });
  const tokens = openTokens(config, {
    environment: { PLANTS_TOKEN: secret }
  } as unknown as Host);
  const generated = openTokens(config, { environment: {} } as Host);
  assert.notEqual(generated.generated(), "", "the control: there is one");
  for (const shown of [
    config,
    tokens,
    generated,
    { tokens: tokens.accepted }
  ]) {
    for (const text of [
      inspect(shown, { showHidden: true, depth: 9 }),
      JSON.stringify(shown)
    ]) {
      assert.ok(
        !text.includes(secret) && !text.includes(generated.generated()),
        text
      );
      assert.doesNotMatch(text, /[\da-f]{64}/);
    }
  }
});

test("a message has a short, escaped excerpt of what was given", () => {
  const { message } = refusal([`--host=\x1b[31m\n${"/".repeat(10_000)}`]);
  assert.match(message, /^[ -~]{20,250}$/);
  assert.match(refusal(["\x1b]0;x\x07"]).message, /^[ -~]{10,250}$/);
});

test("--help has the commands and the settings of a first day on one screen", async () => {
  const { code, stdout, stderr } = await run(["--help"]);
  assert.equal(code, 0);
  assert.equal(stderr, "");
  const lines = stdout.trimEnd().split("\n");
  assert.ok(lines.length <= 32, `${lines.length} lines`);
  assert.ok(lines.every((line) => line.length <= 100));
  for (const word of [
    "verify",
    "cat",
    "token",
    "--port",
    "--store",
    "--tokens",
    "PLANTS_TOKEN",
    "help all"
  ])
    assert.match(stdout, RegExp(`(?<![\\w-])${word}(?![\\w-])`));
  assert.equal(
    stdout.match(/^ {2}--/gm)?.length,
    10,
    "each setting of the list is known"
  );
  assert.match(
    stdout,
    /^ {2}--port +port to listen on; 0: any free one \(8080\)$/m
  );
  for (const line of [
    "help",
    "-h",
    "verify -h",
    "serve --help",
    "verify --help"
  ])
    assert.equal((await run(words(line))).stdout, stdout, line);
});

test("--help all lists every flag and variable, on stdout, and ends with 0", async () => {
  const { code, stdout, stderr } = await run(["--help", "all"]);
  assert.equal(code, 0);
  assert.equal(stderr, "");
  for (const word of [
    "serve",
    "check",
    "verify",
    "token",
    "openapi",
    "--help",
    "--version",
    "--json"
  ])
    assert.match(stdout, RegExp(`(?<![\\w-])${word}(?![\\w-])`));
  const lines = stdout.split("\n");
  assert.ok(
    lines.every((line) => line.length <= 100),
    "at most 100 columns"
  );
  /** The line of a flag or variable, and the one below, which says what it does. */
  const entryOf = (name: string): string => {
    const at = lines.findIndex(
      (line) => line.includes(` ${name} `) && !/^ {2}plant/.test(line)
    );
    assert.match(
      lines[at + 1] ?? "",
      /^ {6}\w[^.]{15,}$/,
      `${name} does something`
    );
    return `${lines[at]}\n${lines[at + 1]}`;
  };
  for (const limit of Object.values(limitTable)) {
    const entry = entryOf(`--${limit.flag}`);
    for (const part of [
      environmentOf(limit),
      limit.meaning,
      `${limit.defaultValue}`,
      limit.unit
    ]) {
      assert.ok(entry.includes(part), `${part} in: ${entry}`);
    }
  }
  for (const setting of Object.values(settingTable)) {
    const entry = entryOf(`--${setting.flag}`);
    for (const part of [
      environmentOf(setting),
      setting.meaning,
      `${setting.defaultValue}` || "none"
    ]) {
      assert.ok(entry.includes(part), `${part} in: ${entry}`);
    }
  }
  assert.match(entryOf("PLANTS_TOKEN"), /one token itself/);
  for (const line of ["help all", "-h all", "serve --help all"])
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

test("mistakes are lines of stderr, without a stack, and nothing is touched", async () => {
  const cwd = temporaryFolder();
  for (const [line, environment, code, stderr] of [
    [
      "--bogus --port x",
      {},
      64,
      /^plant-store: .*--bogus.*\nplant-store: --port .*\n$/
    ],
    [
      "",
      { PLANTS_TOKEN: "S3cret x" },
      78,
      /^plant-store: PLANTS_TOKEN must(?!.*S3cret).*\n$/
    ]
  ] as const) {
    const found = await run(words(line), environment, cwd);
    assert.equal(found.code, code);
    assert.equal(found.stdout, "");
    assert.match(found.stderr, stderr);
  }
  assert.deepEqual(readdirSync(cwd), []);
});
