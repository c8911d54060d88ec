/** The forms of credentials: what is sent to a server, what is refused before, and real servers. */
import assert from "node:assert/strict";
import { hostname } from "node:os";
import { after, describe, test } from "node:test";
import { inspect } from "node:util";
import { version } from "../../src/config.ts";
import { loginOf } from "../../src/nats/credentials.ts";
import { fern } from "../support/journals.ts";
import { Cluster, storeOne, withCluster } from "./cluster.ts";
import { Fake, openFake, refused, resumes } from "./fake.ts";
import { createKey, credsOf, jwtOf } from "./nkeys.ts";
import { seconds, until } from "../support/until.ts";

const timeout = seconds(60);

/** The seed and public key of the NATS documentation. */
const seed = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY";
const nkey = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4";
const jwt = "eyJhbGci.eyJqdGki-_x.c2lnbmF0dXJl";

/** A text that is not a key, and no login: nothing of it may reach a server. */
const damagedSeeds = [
  `${seed.slice(0, 30)}\n${seed.slice(30)}`,
  (seed.match(/.{1,4}/g) ?? []).join(" "),
  seed.replaceAll("I", "1"),
  seed.slice(0, -1),
  `${seed}${seed}`
];

/** As PowerShell's `>` writes it, read as UTF-8. */
const utf16 = (text: string) =>
  Buffer.from(`\uFEFF${text}`, "utf16le").toString();

/** The signature of the nonce by the seed, as OpenSSL makes it: Ed25519 has only
 * one (RFC 8032). */
const nonce = "n0nce-_";
const sig =
  "zy6YabDz8vGmFVydJUMBL1Jn20FPWb0wMAhSbPXm9vlUBMIITUiUzjfTab70sURBygNPm0ErS_3qFCvS3R6zDQ";

const isExpected =
  /^the store's credentials: expected "user NAME" and "password TEXT" on two lines, a \.creds file, or the seed/;

const operator = createKey("operator");
const [system, plants, stranger] = [
  createKey("account"),
  createKey("account"),
  createKey("account")
];
const unlimited = {
  subs: -1,
  data: -1,
  payload: -1,
  imports: -1,
  exports: -1,
  wildcards: true,
  conn: -1,
  leaf: -1
};
const storing = {
  mem_storage: -1,
  disk_storage: -1,
  streams: -1,
  consumer: -1
};
const userOf = (account = plants, more = {}, publish = [">"]) => {
  const key = createKey("user");
  const claims = {
    pub: { allow: publish },
    sub: { allow: ["_INBOX.>"] },
    subs: -1,
    data: -1,
    payload: -1
  };
  return { key, jwt: jwtOf("user", key.id, account, claims, more) };
};
const adminUser = userOf();
const accountJwts = [system, plants].map((key) => {
  const limits = { ...unlimited, ...(key === plants ? storing : {}) };
  return `${key.id}: ${jwtOf("account", key.id, operator, { limits, default_permissions: {} })}`;
});
const cluster = await Cluster.start({
  accounts: `operator: ${jwtOf("operator", operator.id, operator, { system_account: system.id })}
resolver: MEMORY
resolver_preload: { ${accountJwts.join("\n")} }
`,
  login: (nonce) => ({ jwt: adminUser.jwt, sig: adminUser.key.sign(nonce) })
});
const credsFor = ({ key, jwt: text }: ReturnType<typeof userOf>): string =>
  credsOf(text, key.seed);
const writer = () => [
  "plants",
  "$JS.API.STREAM.INFO.plants",
  "$JS.API.STREAM.MSG.GET.plants"
];

describe("the credentials", { timeout }, () => {
  const forms: readonly (readonly [
    what: string,
    text: string | undefined,
    login: object
  ])[] = [
    [
      "user and password, with white space and blank lines around them",
      "\r\n  user   wr1ter \r\n\r\n\tpassword s3cret\t\r\n",
      { user: "wr1ter", pass: "s3cret" }
    ],
    [
      "both behind a byte order mark, with CR alone, and no end of line",
      "\uFEFFuser wr1ter\rpassword s3cret",
      { user: "wr1ter", pass: "s3cret" }
    ],
    [
      "a user and a password of any printable ASCII",
      'user token x\npassword s3/ @: "~',
      { user: "token x", pass: 's3/ @: "~' }
    ],
    [
      "a password that looks like a seed, because the file says that it is one",
      `user plants\npassword ${seed}`,
      { user: "plants", pass: seed }
    ],
    ["a seed with white space around it", `\n  ${seed}\t\n \n`, { nkey, sig }],
    [
      "an indented .creds file, as from YAML",
      credsOf(jwt, seed).replaceAll(/^/gm, "    "),
      { jwt, nkey, sig }
    ],
    ["a .creds file", credsOf(jwt, seed), { jwt, nkey, sig }],
    [
      "a seed and its public key, as NATS' tool prints them",
      `${seed}\n${nkey}\n`,
      { nkey, sig }
    ],
    ["a JWT and a seed", `${jwt}\r\n${seed}\r\n`, { jwt, nkey, sig }],
    ["a comment and a seed", `# of the writer\n${seed}\n`, { nkey, sig }],
    ["none", undefined, {}]
  ];
  for (const [what, credentials, login] of forms) {
    test(`${what}: what logs in, with the nonce signed where there is a seed`, () => {
      assert.deepEqual(
        JSON.parse(JSON.stringify(loginOf(credentials, nonce))),
        login
      );
    });
  }
  test("are sent in CONNECT, with the nonce of INFO", async () => {
    const fake = await Fake.start({ info: { nonce } });
    await openFake([fake], { credentials: credsOf(jwt, seed) });
    const [, connect = ""] = /^CONNECT (.*)\r$/m.exec(fake.said[0] ?? "") ?? [];
    assert.deepEqual(JSON.parse(connect), {
      name: `plant-store ${hostname()} ${process.pid}`,
      lang: "node",
      version,
      verbose: false,
      pedantic: false,
      protocol: 1,
      headers: true,
      no_responders: true,
      jwt,
      nkey,
      sig
    });
  });
  const wrong = [
    "",
    "u\npassword s3cret",
    "user u",
    "password s3cret\nuser u",
    "user u\npassword s3cret\nx",
    "user u\npassword s3cr\u00E4t",
    "user u\npassword s3cret\x7F",
    utf16("user u\r\npassword s3cret\r\n"),
    ...damagedSeeds.flatMap((text) => [text, `writer\n${text}`]),
    nkey,
    createKey("account").seed,
    `${seed}\n${createKey("user").id}`,
    `${seed}\n${createKey("user").seed}`,
    `${jwt}\n${seed.slice(0, -1)}`
  ];
  test("of another form are refused before a server is contacted", async () => {
    const fake = await Fake.start();
    for (const text of wrong)
      for (const credentials of [text, () => text])
        await refused(openFake([fake], { credentials }), "config", isExpected);
    assert.equal(fake.connections, 0);
  });
  test("with 2,000 single mistakes in a seed: each is found, or has no effect", () => {
    const right = loginOf(seed, "nonce");
    let found = 0;
    for (let round = 0; round < 2_000; round++) {
      const at = Math.floor(Math.random() * seed.length);
      const char = String.fromCharCode(33 + Math.floor(Math.random() * 94));
      const text =
        seed.slice(0, at) +
        [char, "", char + seed[at]][round % 3] +
        seed.slice(at + 1);
      try {
        assert.deepEqual(loginOf(text, "nonce"), right, text);
      } catch (error) {
        if (error instanceof assert.AssertionError) throw error;
        assert.match(String(error), /^TypeError: expected "user NAME"/);
        found++;
      }
    }
    assert.ok(found > 1_900, `${found} were found`);
  });
  test("are not in a store that is logged or inspected", async () => {
    for (const credentials of [
      credsOf(jwt, seed),
      "user writer\npassword s3cret"
    ]) {
      const store = await openFake([await Fake.start()], { credentials });
      const shown = inspect(store, {
        showHidden: true,
        depth: 20,
        getters: true
      });
      assert.doesNotMatch(shown, /SUAC|eyJ|s3cret|writer/);
      assert.match(shown, /NatsStore/);
    }
  });
  test("that cannot be read are reported, and read again until they can be", async () => {
    let read = (): string => "user u\npassword s3cret";
    const fake = await Fake.start();
    const warnings: string[] = [];
    const store = await openFake([fake], {
      credentials: () => read(),
      warn: (line) => warnings.push(line)
    });
    for (const next of ["s3cret", new Error("cannot read FILE")]) {
      read = () => {
        if (typeof next === "string") return next;
        throw next;
      };
      const reported = warnings.length;
      fake.cut();
      await until("it is reported", () =>
        warnings.slice(reported).join().includes("credentials")
      );
      read = () => "user u\npassword s3cret";
      await resumes(store);
    }
    assert.match(warnings.join("\n"), /credentials: expected "user NAME"/);
    assert.match(warnings.join("\n"), /credentials: cannot read FILE/);
    assert.doesNotMatch(warnings.join("\n"), /s3cret/);
  });
});

describe(
  "servers with operator, account and user JWTs",
  { ...withCluster, timeout, concurrency: 2 },
  () => {
    test("serve a user by its .creds, and no other user", async () => {
      await cluster.create("plants");
      await storeOne(
        cluster.open("plants", {
          credentials: credsFor(userOf(plants, {}, writer()))
        })
      );
      assert.equal((await cluster.read("plants")).length, 1);
      const [one, two] = [userOf(), userOf()];
      const past = { exp: Math.floor(Date.now() / 1000) - 10 };
      for (const credentials of [
        credsOf(one.jwt, two.key.seed),
        credsFor(userOf(stranger)),
        credsFor(userOf(plants, past)),
        one.key.seed
      ]) {
        await assert.rejects(cluster.open("plants", { credentials }), {
          code: "refused",
          message: /Authorization Violation/
        });
      }
    });
    test("refuse a JWT that expires while it serves, and take a new one without a restart", async () => {
      await cluster.create("short");
      let credentials = credsFor(
        userOf(plants, { exp: Math.floor(Date.now() / 1000) + 3 })
      );
      const warnings: string[] = [];
      const store = await cluster.open("short", {
        credentials: () => credentials,
        warn: (line) => warnings.push(line)
      });
      after(() => store.close());
      await store.append(fern);
      await until("it has expired", () => !store.stats.isReachable);
      assert.match(warnings.join("\n"), /User Authentication Expired/);
      await assert.rejects(store.append(fern), { code: "unreachable" });
      credentials = credsFor(userOf());
      await resumes(store);
    });
  }
);

test(
  "servers that know a user by an nkey serve the right one, and no wrong one",
  { ...withCluster, timeout },
  async () => {
    const { id, seed: right } = createKey("user");
    const { seed: wrong } = createKey("user");
    const query = "?replicas=1";
    const servers = await Cluster.start({
      users: `{ nkey: ${id} }`,
      servers: 1
    });
    await servers.create("plants", { num_replicas: 1 });
    await assert.rejects(
      servers.open("plants", { credentials: wrong, query }),
      { code: "refused", message: /Authorization Violation/ }
    );
    await storeOne(servers.open("plants", { credentials: right, query }));
  }
);
