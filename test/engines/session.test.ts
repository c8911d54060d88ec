/** The session with servers: credentials, checks and hosts, on servers that send what a test wants. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { EngineError, openNats } from "../../src/engines/nats.ts";
import type { NatsOptions } from "../../src/engines/nats.ts";
import { until } from "./cluster.ts";
import { Fake, openFake } from "./fake.ts";
import type { Script } from "./fake.ts";

const timeout = 30_000;
const fern = { id: 1n, name: "Fern" };

async function open(script: Script = {}, options: NatsOptions = {}, query = "") {
  const fake = await Fake.start(script);
  const warnings: string[] = [];
  const store = await openFake([fake], { warn: (line) => warnings.push(line), ...options }, query);
  return { fake, store, warnings };
}

const isRefused = (code: string, pattern: RegExp) => (error: unknown): boolean => {
  assert.ok(error instanceof EngineError, String(error));
  assert.equal(error.code, code);
  assert.match(error.message, pattern);
  assert.doesNotMatch(error.message, /s3cret/);
  return true;
};

describe("the credentials", { timeout }, () => {
  const logins: readonly (readonly [credentials: string | undefined, login: object])[] = [
    ["wr1ter\ns3cret\n", { user: "wr1ter", pass: "s3cret" }],
    ["wr1ter\ns3cret", { user: "wr1ter", pass: "s3cret" }],
    ["wr1ter\r\n s3/@: \"ä\r\n\r\n", { user: "wr1ter", pass: " s3/@: \"ä" }],
    [undefined, {}],
  ];
  for (const [credentials, login] of logins) {
    test(`${JSON.stringify(credentials)} are sent in CONNECT`, async () => {
      const fake = await Fake.start();
      const store = await openNats(`nats://${fake.host}/plants`,
        credentials === undefined ? {} : { credentials });
      await store.close();
      const [, connect = ""] = /^CONNECT (.*)\r$/m.exec(fake.said[0] ?? "") ?? [];
      const { user, pass } = JSON.parse(Buffer.from(connect, "latin1").toString());
      assert.deepEqual(JSON.parse(JSON.stringify({ user, pass })), login);
    });
  }
  for (const credentials of ["", "s3cret", "s3cret\n", "\ns3cret", "s3cret\n\n", "u\ns3cret\nx"]) {
    test(`${JSON.stringify(credentials)} are refused before a server is contacted`, async () => {
      const fake = await Fake.start();
      for (const each of [credentials, () => credentials]) {
        await assert.rejects(openFake([fake], { credentials: each }),
          isRefused("refused", /credentials: expected two lines/));
      }
      assert.equal(fake.connections, 0);
    });
  }
  test("of a function are read again for every connection", async () => {
    let count = 0;
    const { fake, store } = await open({}, { credentials: () => `user${++count}\npw` });
    await store.append(fern);
    fake.cut();
    await until("it is back", () => fake.connections === 2);
    await store.append(fern);
    assert.match(fake.said[0] ?? "", /"user":"user2"/, "the first was read for the check");
    assert.match(fake.said[1] ?? "", /"user":"user3"/);
  });
  test("that cannot be read are reported, and read again until they can be", async () => {
    let read = (): string => "u\ns3cret";
    const { fake, store, warnings } = await open({}, { credentials: () => read() });
    for (const next of ["s3cret", new Error("cannot read FILE")]) {
      read = () => {
        if (typeof next === "string") return next;
        throw next;
      };
      const reported = warnings.length;
      fake.cut();
      await until("it is reported", () => warnings.slice(reported).join().includes("credentials"));
      read = () => "u\ns3cret";
      await until("it stores", () => store.append(fern).then(() => true, () => false));
    }
    assert.match(warnings.join("\n"), /credentials: expected two lines/);
    assert.match(warnings.join("\n"), /credentials: cannot read FILE/);
    assert.doesNotMatch(warnings.join("\n"), /s3cret/);
  });
});
