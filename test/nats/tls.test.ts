/** TLS to real servers: whom the store trusts, and that it never falls back. */
import assert from "node:assert/strict";
import { copyFileSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import type { ConnectionOptions } from "node:tls";
import { openNats } from "../../src/nats/nats.ts";
import { run, start } from "../support/in-process.ts";
import { answerTo } from "../support/exchange.ts";
import { post, temporaryFolder } from "../support/support.ts";
import { certify } from "../support/tools.ts";
import {
  Cluster,
  credentialsOf,
  environmentFor,
  storeOne,
  withCluster
} from "./cluster.ts";
import { Fake, refused } from "./fake.ts";
import { Proxy } from "./proxy.ts";
import { seconds, until } from "../support/until.ts";

const timeout = seconds(60);

const good = certify(temporaryFolder(), "good", { names: "IP:127.0.0.1" });
const other = certify(temporaryFolder(), "other", {
  names: "DNS:plants.example"
});
const trusting = ({ cert }: { readonly cert: string }): ConnectionOptions => ({
  ca: readFileSync(cert)
});
const serverOf = async (
  { cert, key }: typeof good,
  more = ""
): Promise<Cluster> => {
  const server = await Cluster.start({
    servers: 1,
    isTlsFirst: more.includes("handshake_first"),
    tls: `cert_file: "${cert}", key_file: "${key}", ca_file: "${cert}", timeout: 2, ${more}`,
    client: {
      ca: readFileSync(cert),
      cert: readFileSync(cert),
      key: readFileSync(key)
    }
  });
  if ("skip" in withCluster) return server;
  await server.create("plants", { num_replicas: 1 });
  return server;
};
const query = "?replicas=1";
const server = await serverOf(good);

/** A proxy before a server, and its port for `open`. */
async function proxyOf({ servers: [server] }: Cluster) {
  const proxy = await Proxy.before(server?.port ?? 0);
  return [proxy, [proxy.port]] as const;
}

describe("over TLS", { ...withCluster, timeout }, () => {
  for (const scheme of ["tls", "nats"] as const) {
    test(`${scheme}:// stores plants on a server that demands it`, async (t) => {
      const { length } = await server.read("plants");
      const warnings = t.mock.method(process, "emitWarning", () => undefined);
      const store = await server.open("plants", {
        scheme,
        query,
        tls: trusting(good)
      });
      assert.equal(
        warnings.mock.callCount(),
        0,
        "node warns of a server name that is an address"
      );
      await store.append({ id: 1n, name: "Fern" });
      await store.close();
      assert.equal((await server.read("plants")).length, length + 1);
    });
  }
  test("another authority is refused", () =>
    refused(
      server.open("plants", { query, tls: trusting(other) }),
      "refused",
      /self.signed certificate/
    ));
  test("a certificate for another name is refused", async () => {
    const named = await serverOf(other);
    await refused(
      named.open("plants", { query, tls: trusting(other) }),
      "refused",
      /127\.0\.0\.1.* not in the cert/
    );
  });
  test("a server that begins with TLS needs tls-first in the address", async () => {
    const first = await serverOf(good, "handshake_first: true");
    await storeOne(
      first.open("plants", {
        scheme: "tls",
        query: `${query}&tls-first`,
        tls: trusting(good)
      })
    );
    await assert.rejects(
      first.open("plants", { query: `${query}&tls-first`, tls: {} }),
      { code: "refused", message: /self.signed certificate/ }
    );
    const warnings: string[] = [];
    const waiting = await first.open("plants", {
      scheme: "tls",
      query,
      tls: trusting(good),
      limits: { handshakeMillis: 200 },
      warn: (line) => warnings.push(line)
    });
    assert.match(warnings.join("\n"), /no handshake in time$/m);
    await waiting.close();
  });
  test("tls-first refuses a server that begins in the clear, and tells it nothing", async () => {
    const fake = await Fake.start();
    await assert.rejects(
      openNats(`tls://${fake.host}/plants?tls-first`, {
        credentials: "user u\npassword s3cret"
      }),
      { code: "refused" }
    );
    assert.doesNotMatch(fake.said.join(), /s3cret|CONNECT/);
  });
  test("the program has a client certificate by flags, and reads it again for every connection", async () => {
    const verifying = await serverOf(good, "verify: true");
    const [proxy, ports] = await proxyOf(verifying);
    const [cert, key] = ["cert", "key"].map((name) =>
      join(temporaryFolder(), name)
    );
    assert.ok(cert && key);
    const give = (pair: typeof good): void => {
      copyFileSync(pair.cert, cert);
      copyFileSync(pair.key, key);
    };
    const address = verifying.address("plants", {
      scheme: "tls",
      query,
      ports
    });
    const args = [
      "--store-tls-cert",
      cert,
      "--store-tls-key",
      key,
      "--store-tls-ca",
      good.cert
    ];
    const env = environmentFor(address, credentialsOf("writer"));
    give(other);
    const refused = await run(args, env, temporaryFolder());
    assert.equal(refused.code, 78, refused.stderr);
    assert.match(
      refused.stderr,
      /\nplant-store: 127\.0\.0\.1:\d+: [a-z0-9 ]+ alert [a-z ]+\n$/
    );
    const junk = await run(
      [...args.slice(0, -1), env.PLANTS_STORE_CREDENTIALS],
      env,
      temporaryFolder()
    );
    assert.equal(junk.code, 78, junk.stderr);
    assert.match(junk.stderr, /the store's certificates: TLS authority /);
    give(good);
    const program = await start({ args, env });
    const status = async (): Promise<string> => {
      const answer = await answerTo(
        program.port,
        post('{"id":1,"name":"Fern"}')
      );
      return `${answer.status} ${answer.body.slice(0, 14)}`;
    };
    assert.match(await status(), /^200/);
    const stores = (): Promise<void> =>
      until("it stores", async () => (await status()).startsWith("200"));
    for (const [spoil, reason] of [
      [() => rmSync(key), /the store's certificates: TLS key .*ENOENT/],
      [() => give(other), /127\.0\.0\.1:\d+: .*alert/]
    ] as const) {
      spoil();
      proxy.cut();
      await until("it is refused", async () =>
        (await status()).startsWith("503")
      );
      await until("the log has the reason", () =>
        reason.test(program.stderr())
      );
      give(good);
      await stores();
    }
    assert.equal(await program.end(), 0);
  });
});
