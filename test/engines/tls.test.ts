/** TLS to real servers: whom the store trusts, and that it never falls back. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import type { ConnectionOptions } from "node:tls";
import { EngineError } from "../../src/engines/nats.ts";
import { temporaryFolder } from "../support/support.ts";
import { Cluster, withCluster } from "./cluster.ts";
import { compare, Load, serve } from "./load.ts";

const timeout = 60_000;
const folder = temporaryFolder();

/** A certificate that is its own authority, for an address. */
function certify(name: string, subjectName: string): { readonly cert: string; readonly key: string } {
  const [cert, key] = [join(folder, `${name}.pem`), join(folder, `${name}.key`)];
  execFileSync("openssl", ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out",
    cert, "-days", "1", "-subj", `/CN=${name}`, "-addext", `subjectAltName=${subjectName}`],
  { stdio: "ignore" });
  return { cert, key };
}

const good = certify("good", "IP:127.0.0.1");
const other = certify("other", "DNS:plants.example");
const trusting = ({ cert }: { readonly cert: string }): ConnectionOptions =>
  ({ ca: readFileSync(cert) });
const serverOf = async ({ cert, key }: typeof good): Promise<Cluster> => {
  const server = await Cluster.start({ servers: 1,
    tls: `cert_file: "${cert}", key_file: "${key}", timeout: 2`, ca: readFileSync(cert) });
  if ("skip" in withCluster) return server;
  await server.create("plants", { num_replicas: 1 });
  return server;
};
const query = "?replicas=1";

describe("over TLS", { ...withCluster, timeout }, () => {
  for (const scheme of ["tls", "nats"] as const) {
    test(`${scheme}:// stores plants on a server that demands it`, async (t) => {
      const server = await serverOf(good);
      const warnings = t.mock.method(process, "emitWarning", () => undefined);
      const store = await server.open("plants", { scheme, query, tls: trusting(good) });
      assert.equal(warnings.mock.callCount(), 0, "node warns of a server name that is an address");
      const load = new Load(await serve(store), 16);
      await load.more(200);
      await load.end();
      assert.equal((await compare(server, load.acknowledged)).missing, 0);
      await store.close();
    });
  }
  const untrusted: readonly (readonly [string, typeof good, ConnectionOptions, RegExp])[] = [
    ["an unknown authority", good, {}, /self.signed certificate/],
    ["another authority", good, trusting(other), /self.signed certificate/],
    ["a certificate for another name", other, trusting(other), /127\.0\.0\.1.* not in the cert/],
  ];
  for (const [what, certificate, tls, pattern] of untrusted) {
    test(`${what} is refused`, async () => {
      const server = await serverOf(certificate);
      await assert.rejects(server.open("plants", { query, tls }), (error) => {
        assert.ok(error instanceof EngineError, String(error));
        assert.equal(error.code, "refused");
        assert.match(error.message, pattern);
        assert.ok(!error.message.includes("writerpw"));
        return true;
      });
    });
  }
});
