/** Certificate and key: what is served, files that are refused, SIGHUP under load, the end of validity. */
import assert from "node:assert/strict";
import { generateKeyPairSync } from "node:crypto";
import { once } from "node:events";
import {
  chmodSync,
  copyFileSync,
  readdirSync,
  readFileSync,
  writeFileSync
} from "node:fs";
import { Agent, createServer, type RequestOptions } from "node:https";
import { connect as connectPlain } from "node:net";
import { networkInterfaces } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import tls, { connect, type ConnectionOptions, type TLSSocket } from "node:tls";
import { tokenDigest } from "../../src/http/bearer.ts";
import { run, start, startWithAdmin } from "../support/in-process.ts";
import { hangUp, metricsOf, post } from "../support/operator.ts";
import { plant } from "../support/requests.ts";
import { exchange } from "../support/exchange.ts";
import { listen } from "../support/serving.ts";
import {
  startProcess,
  temporaryFolder,
  token,
  type RunningProcess
} from "../support/support.ts";
import { certify } from "../support/tools.ts";
import { until } from "../support/until.ts";

/** Pairs, made once. */
const pairs = temporaryFolder();
for (const [name, days] of [
  ["a", 30],
  ["b", 30],
  ["soon", 29],
  ["later", 33]
] as const) {
  certify(pairs, name, { days });
}
const read = (file: string): string => readFileSync(join(pairs, file), "utf8");
const ca = ["a.crt", "b.crt"].map(read);

/** Puts a pair, or of each another one, in the places that the program reads. */
function put(cwd: string, cert: string, key = cert): void {
  copyFileSync(join(pairs, `${cert}.crt`), join(cwd, "crt"));
  copyFileSync(join(pairs, `${key}.key`), join(cwd, "key"));
  chmodSync(join(cwd, "key"), 0o600);
}

function folderWith(cert: string, key = cert): string {
  const cwd = temporaryFolder();
  put(cwd, cert, key);
  return cwd;
}

const args = ["--tls-cert", "crt", "--tls-key", "key"];

/** What a client may ask for that is older than TLS 1.2. */
const old = {
  minVersion: "TLSv1",
  maxVersion: "TLSv1.1",
  ciphers: "DEFAULT:@SECLEVEL=0"
} as const;

async function handshake(port: number, options = {}): Promise<TLSSocket> {
  const client = connect({ port, host: "127.0.0.1", ca, ...options });
  // A connection that was closed may be reset.
  client.on("error", () => undefined);
  await once(client, "secureConnect");
  return client;
}

/** Whose certificate is shown. */
async function shown(port: number): Promise<string | undefined> {
  const client = await handshake(port);
  const { subject } = client.getPeerCertificate();
  // Destroyed instead, it might not finish the handshake: the server would wait for it. The server
  // may close first, which is a reset, of a connection that has shown what it had to.
  client.once("error", () => undefined).end();
  return `${subject.CN}`;
}

/** Posts a plant over a connection of an agent; the answer's status. */
const ask = (port: number, agent: Agent, bearer = token) =>
  post({ port, agent, ca, protocol: "https:" } as RequestOptions, bearer);

test("with a certificate and its key it serves https, TLS 1.2 and 1.3 and no older", async () => {
  const cwd = folderWith("a");
  const server = await start({ cwd, args });
  assert.equal(
    server.stdout(),
    `plant-store listening on https://127.0.0.1:${server.port}\n`
  );
  const agent = new Agent();
  assert.equal(await ask(server.port, agent), 200);
  agent.destroy();
  for (const version of ["TLSv1.2", "TLSv1.3"] as const) {
    const client = await handshake(server.port, {
      minVersion: version,
      maxVersion: version
    });
    assert.equal(client.getProtocol(), version);
    client.destroy();
  }
  await assert.rejects(handshake(server.port, old));
  assert.deepEqual(
    await exchange(server.port, plant),
    [],
    "a client without TLS gets no response"
  );
  assert.equal(await server.end(), 0);
  assert.match(
    server.stderr(),
    /^.*handshake failed: unsupported protocol\n.*handshake failed: http request\n?$/
  );
});

test("Node's own defaults, which NODE_OPTIONS may set, allow no TLS before 1.2, also after a reload", async () => {
  const { DEFAULT_MIN_VERSION, DEFAULT_CIPHERS } = tls;
  tls.DEFAULT_MIN_VERSION = "TLSv1";
  tls.DEFAULT_CIPHERS = "DEFAULT:@SECLEVEL=0";
  try {
    const pair = { cert: read("a.crt"), key: read("a.key") };
    const port = await listen(createServer(pair));
    const client = await handshake(port, old);
    assert.equal(client.getProtocol(), "TLSv1.1", "the control");
    client.destroy();

    const cwd = folderWith("a");
    const server = await start({ cwd, args });
    await assert.rejects(handshake(server.port, old));
    put(cwd, "b");
    await hangUp(server, "certificate and key reloaded");
    assert.equal(await shown(server.port), "b");
    await assert.rejects(handshake(server.port, old));
    assert.equal(await server.end(), 0);
  } finally {
    Object.assign(tls, { DEFAULT_MIN_VERSION, DEFAULT_CIPHERS });
  }
});

const refused: readonly (readonly [
  says: string,
  change: (cwd: string) => void,
  told: RegExp
])[] = [
  [
    "a key of another certificate",
    (cwd) => put(cwd, "a", "b"),
    /TLS key key: expected the key of the first certificate in crt/
  ],
  [
    "an encrypted key",
    (cwd) => {
      put(cwd, "a", "a");
      const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
      const options = {
        type: "pkcs8",
        format: "pem",
        cipher: "aes-256-cbc",
        passphrase: "x"
      } as const;
      writeFileSync(join(cwd, "key"), privateKey.export(options));
    },
    /TLS key key: expected PEM of a PRIVATE KEY, whole and without a passphrase: ERR_\w+(?:;|$)/m
  ],
  [
    "no key",
    (cwd) => writeFileSync(join(cwd, "key"), ""),
    /TLS key key: expected PEM of a PRIVATE KEY, .*: ERR_OSSL_/
  ],
  [
    "no certificate",
    (cwd) => writeFileSync(join(cwd, "crt"), "x"),
    /TLS certificate crt: expected PEM of a CERTIFICATE, .*: ERR_OSSL_PEM_NO_START_LINE(?:;|$)/m
  ],
  [
    "a chain in the wrong order",
    (cwd) => writeFileSync(join(cwd, "crt"), read("a.crt") + read("b.crt")),
    /TLS key key: expected the key of the first certificate in crt/
  ],
  [
    "a weak RSA key",
    (cwd) => {
      certify(cwd, "weak", { days: 30, kind: ["rsa:512"] });
      for (const end of ["crt", "key"])
        copyFileSync(join(cwd, `weak.${end}`), join(cwd, end));
    },
    /TLS certificate crt: .*: ERR_SSL_EE_KEY_TOO_SMALL(?:;|$)/m
  ],
  [
    "a key that its group can write",
    (cwd) => chmodSync(join(cwd, "key"), 0o660),
    /TLS key key: expected that group and others cannot write it, found mode 660/
  ]
];
test("a pair that is refused ends a start with 78, and at SIGHUP the old pair stays", async () => {
  const cwd = folderWith("a");
  const server = await start({ cwd, args });
  for (const [index, [says, change, message]] of refused.entries()) {
    chmodSync(join(cwd, "crt"), 0o644);
    put(cwd, "b");
    change(cwd);
    const { code, stdout, stderr } = await run(
      ["--port", "0", "--store", "x", ...args],
      {},
      cwd
    );
    assert.equal(code, 78, says);
    assert.equal(stdout, "");
    assert.match(stderr, message);
    assert.doesNotMatch(stderr.replace(/ERR_\w+/, ""), /BEGIN|[\w+/]{40}/);
    assert.ok(!readdirSync(cwd).includes("x"), "no journal is made");
    await hangUp(server, "the old certificate and key stay", index + 1);
    assert.match(server.stderr(), message);
    assert.equal(await shown(server.port), "a");
  }
  chmodSync(join(cwd, "crt"), 0o644);
  put(cwd, "b");
  await hangUp(server, "certificate and key reloaded");
  assert.equal(await shown(server.port), "b");
  assert.equal(await server.end(), 0);
});

test("a key that others can read is served, with one warning", async () => {
  const cwd = folderWith("a");
  chmodSync(join(cwd, "key"), 0o644);
  const server = await start({ cwd, args });
  for (const times of [1, 2]) await hangUp(server, "reloaded", times);
  assert.equal(await server.end(), 0);
  const warnings = server
    .stderr()
    .split("\n")
    .filter((line) => line.includes("can read"));
  assert.deepEqual(warnings, [
    "plant-store: TLS key key: others can read it, mode 644"
  ]);
});

test("the end of the certificate is logged, and is a metric", async () => {
  const cwd = folderWith("soon");
  const server = await start({ cwd, args: [...args, "--admin", "0"] });
  const scraped = async (): Promise<number> =>
    (await metricsOf(server)).get(
      "plant_store_tls_not_after_timestamp_seconds"
    ) ?? 0;
  const inDays =
    (days: number) =>
    (seconds: number): boolean =>
      Math.abs(seconds - Date.now() / 1_000 - days * 86_400) < 3_600;
  assert.ok(inDays(29)(await scraped()));
  put(cwd, "later");
  await hangUp(server, "certificate and key reloaded");
  assert.ok(inDays(33)(await scraped()));
  const client = await handshake(server.port, { rejectUnauthorized: false });
  client.resume().end(plant);
  await once(client, "close");
  let read = 0;
  await until("its bytes are counted", async () => {
    const name = "plant_store_http_received_bytes_total";
    read = (await metricsOf(server)).get(name) ?? 0;
    return read > 0;
  });
  assert.ok(
    read > plant.length,
    "the bytes on the wire are counted, the handshake included"
  );
  assert.equal(await server.end(), 0);
  const ends = server
    .events()
    .flatMap(({ notAfter }) =>
      typeof notAfter === "string" ? [notAfter] : []
    );
  assert.equal(ends.length, 2, "at the start and at the reload");
  assert.ok(
    inDays(29)(Date.parse(ends[0] ?? "") / 1_000) &&
      inDays(33)(Date.parse(ends[1] ?? "") / 1_000)
  );
});

/** How many descriptors a process has open. */
const descriptors = (server: RunningProcess): number =>
  readdirSync(`/proc/${server.process.pid}/fd`).length;

test(
  "SIGHUP under load, with other certificates and tokens each time, fails no request",
  { skip: process.platform === "linux" ? false : "there is no /proc" },
  async () => {
    const rounds = Number(process.env["PLANT_TEST_RELOADS"] ?? 3);
    const cwd = folderWith("a");
    const tokens = join(cwd, "tokens");
    const write = (round: number): void =>
      writeFileSync(
        tokens,
        `old ${tokenDigest(`t${round - 1}`)}\nnew ${tokenDigest(`t${round}`)}\n`,
        { mode: 0o600 }
      );
    write(0);
    const server = await startProcess({
      cwd,
      args: [...args, "--tokens", "tokens"]
    });
    const { port } = server;
    const kept = new Agent({ keepAlive: true, maxSockets: 1 });
    assert.equal(await ask(port, kept), 200);
    const before = descriptors(server);

    let isOver = false;
    let answered = 0;
    const clients = [new Agent({ keepAlive: true }), new Agent()].map(
      async (agent) => {
        for (; !isOver; answered++) assert.equal(await ask(port, agent), 200);
        agent.destroy();
      }
    );
    const fresh = new Agent();
    for (let round = 1; round <= rounds; round++) {
      const name = round % 2 === 0 ? "a" : "b";
      put(cwd, name);
      write(round);
      await hangUp(server, "certificate and key reloaded", round);
      assert.equal(await shown(port), name);
      // What SIGHUP has told is so from the next request on, on an old connection too.
      assert.equal(await ask(port, kept, `t${round}`), 200);
      assert.equal(await ask(port, kept, `t${round - 2}`), 401);
      assert.equal(await ask(port, fresh, `t${round - 1}`), 200);
    }
    isOver = true;
    await Promise.all(clients);
    assert.ok(
      answered > 2,
      `only ${answered} requests were answered meanwhile`
    );
    fresh.destroy();
    // A connection's other end needs some turns to be closed.
    await until("it is closed", async () => {
      await ask(port, kept);
      return descriptors(server) <= before;
    });
    kept.destroy();
    assert.equal(await server.end(), 0);
    assert.doesNotMatch(server.stderr(), /stay/);
    assert.equal(
      server.events().filter(({ msg }) => msg === "tokens reloaded").length,
      rounds,
      "without the old certificate's end"
    );
  }
);

const hasIpv6 = Object.values(networkInterfaces()).some((each) =>
  each?.some(({ address }) => address === "::1")
);

test("a server beyond loopback without TLS warns once", async () => {
  const warning =
    /^plant-store: listens beyond loopback without TLS: .*\(RFC 6750, 5\.3\)\n$/;
  for (const [host, others, message] of [
    ["0.0.0.0", [], warning],
    ["0.0.0.0", args, /^$/],
    ["127.0.0.2", [], /^$/],
    ["LOCALHOST", [], /^$/],
    ["::ffff:127.0.0.1", [], /^$/],
    ["::1", [], /^$/]
  ] as const) {
    if (host.includes(":") && !hasIpv6) continue;
    const server = await start({
      cwd: folderWith("a"),
      args: ["--host", host, ...others]
    });
    assert.equal(await server.end(), 0);
    assert.match(server.stderr(), message, host);
  }
});

const failing: readonly (readonly [
  says: string,
  options: ConnectionOptions | undefined,
  reason: RegExp
])[] = [
  ["HTTP without TLS", undefined, /^http request$/],
  ["TLS 1.1 alone", old, /^unsupported protocol$/],
  ["h2 alone", { ALPNProtocols: ["h2"] }, /no application protocol/]
];

test("a failed handshake is logged with its address and OpenSSL's reason, and counted; one that goes away is counted alone", async () => {
  const limit = ["--max-failed-lines", `${failing.length}`];
  const server = await startWithAdmin({
    cwd: folderWith("a"),
    args: [...args, ...limit]
  });
  const failed = (count: number) =>
    until(`${count} have failed`, async () => {
      const name = "plant_store_tls_handshakes_failed_total";
      return (await metricsOf(server)).get(name) === count;
    });
  connectPlain(server.port, "127.0.0.1").end();
  await failed(1);
  // The last one is beyond the lines of a second.
  for (const [, options] of [...failing, ...failing.slice(0, 1)]) {
    const client =
      options === undefined
        ? connectPlain(server.port, "127.0.0.1").end(plant)
        : connect({ port: server.port, host: "127.0.0.1", ca, ...options });
    client.on("error", () => undefined).resume();
    await new Promise((resolve) => client.once("close", resolve));
  }
  await failed(2 + failing.length);
  await server.end();
  const lines = server.events().filter(({ msg }) => msg.includes("handshake"));
  assert.equal(lines.length, failing.length);
  for (const [index, [says, , reason]] of failing.entries()) {
    const { msg = "", level, req } = lines[index] ?? {};
    assert.match(msg.replace("the TLS handshake failed: ", ""), reason, says);
    assert.equal(level, 40);
    assert.equal(req?.remoteAddress, "127.0.0.1");
  }
});
