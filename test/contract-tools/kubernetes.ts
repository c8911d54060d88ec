/** The Kubernetes manifests among the recipes: kubernetes-models has the schemas and types of all
 * its objects, so that no cluster and no network is needed. */
import assert from "node:assert/strict";
import {
  chmodSync,
  mkdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync
} from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { parseAllDocuments } from "yaml";
import { limitTable } from "../../src/config.ts";
import { tokenDigest } from "../../src/http/bearer.ts";
import { command } from "../support/package.ts";
import { fetchPlant } from "../support/operator.ts";
import {
  root,
  startProcess,
  temporaryFolder,
  token
} from "../support/support.ts";

const here = import.meta.dirname;
const [text = "", withNats = ""] = [
  "kubernetes.yaml",
  "kubernetes-nats.yaml"
].map((name) =>
  readFileSync(join(root, "src", "program", "recipes", name), "utf8")
);

/** What the tests look at of the objects: they are named by their kind. */
interface Probe {
  readonly httpGet: { readonly path: string };
}
interface Container {
  readonly env: readonly { readonly name: string; readonly value: string }[];
  readonly volumeMounts: readonly {
    readonly name: string;
    readonly mountPath: string;
  }[];
  readonly startupProbe: Probe;
  readonly livenessProbe: Probe;
  readonly readinessProbe: Probe;
}
interface Thing {
  readonly apiVersion: string;
  readonly kind: string;
  readonly spec: {
    readonly replicas: number;
    readonly template: {
      readonly spec: {
        readonly terminationGracePeriodSeconds: number;
        readonly containers: readonly [Container];
        readonly volumes: readonly [
          { readonly secret: { readonly defaultMode: number } }
        ];
      };
    };
  };
}

/** The manifest's objects, without a doubt of the YAML reader. */
function thingsOf(manifest: string): readonly Thing[] {
  return parseAllDocuments(manifest, { strict: true }).map((document) => {
    assert.deepEqual([...document.errors, ...document.warnings], []);
    return document.toJS() as Thing;
  });
}

/** What the schemas find, and what the types find: a name that is not theirs. */
async function faultsOf(manifest: string): Promise<string> {
  const things = thingsOf(manifest);
  const faults: unknown[] = [];
  for (const { apiVersion, kind, ...rest } of things) {
    const models = await import(`kubernetes-models/${apiVersion}`);
    try {
      new models[kind](rest).validate();
    } catch (error) {
      faults.push(error);
    }
  }
  const folder = temporaryFolder();
  symlinkSync(join(here, "node_modules"), join(folder, "node_modules"));
  writeFileSync(
    join(folder, "manifest.ts"),
    things
      .map(
        (thing, index) =>
          `import type { I${thing.kind} as Type${index} } from "kubernetes-models/${thing.apiVersion}";
    export const thing${index}: Type${index} = ${JSON.stringify(thing)};`
      )
      .join("\n")
  );
  const { said } = command(
    folder,
    join(here, "node_modules", ".bin", "tsc"),
    "manifest.ts",
    "--noEmit",
    "--strict",
    "--skipLibCheck"
  );
  return `${faults.join()}${said}`;
}

test("the manifests keep the schemas of Kubernetes and have no name that they do not know", async () => {
  assert.equal(await faultsOf(text), "");
  assert.equal(await faultsOf(withNats), "");
  assert.match(
    await faultsOf(text.replace("replicas: 1", "replicas: one")),
    /data\/spec\/replicas must be integer/,
    "the control: a wrong type"
  );
  assert.match(
    await faultsOf(text.replace("failureThreshold: 6", "failureTreshold: 6")),
    /'failureTreshold'|"failureTreshold"/,
    "the control: a wrong name"
  );
});

test("the pod's settings serve with its secret, its probes respond, and it may drain", async () => {
  const pod = thingsOf(text).find(({ kind }) => kind === "StatefulSet")?.spec;
  assert.ok(pod);
  assert.equal(pod.replicas, 1);
  const {
    terminationGracePeriodSeconds,
    volumes: [{ secret }],
    containers: [container]
  } = pod.template.spec;
  assert.ok(
    terminationGracePeriodSeconds * 1_000 > limitTable.drainMillis.defaultValue
  );

  // A kubelet mounts a secret as links: tokens -> ..data/tokens, ..data -> a folder.
  const folder = temporaryFolder();
  const tokens = join(folder, "..version", "tokens");
  mkdirSync(join(folder, "..version"));
  writeFileSync(tokens, `alice ${tokenDigest(token)}\n`);
  chmodSync(tokens, secret.defaultMode);
  assert.equal(secret.defaultMode, 0o440);
  symlinkSync("..version", join(folder, "..data"));
  symlinkSync("..data/tokens", join(folder, "tokens"));

  const env = Object.fromEntries(
    container.env.map(({ name, value }) => [
      name,
      container.volumeMounts
        .reduce((path, { mountPath }) => path.replace(mountPath, folder), value)
        .replace("0.0.0.0", "127.0.0.1")
        .replace(":9108", ":0")
    ])
  );
  const server = await startProcess({ env: { ...env, PLANTS_TOKEN: "" } });
  const [admin] = server
    .events()
    .flatMap(({ admin: url }) => (url ? [String(url)] : []));
  const { startupProbe, livenessProbe, readinessProbe } = container;
  for (const {
    httpGet: { path }
  } of [startupProbe, livenessProbe, readinessProbe]) {
    assert.equal((await fetch(new URL(path, admin))).status, 200, path);
  }
  assert.equal((await fetchPlant(server.url)).status, 200);
  assert.equal(await server.end(), 0);
  assert.match(readFileSync(join(folder, "plants.ndjson"), "utf8"), /Fern/);
});
