/** The built program on other versions of Node, and the source itself without a build.
 * PLANT_TEST_NODES: a list of node binaries, with colons between. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { linkSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { emulated, noArm } from "../support/arm.ts";
import { store } from "../support/operator.ts";
import { command } from "../support/package.ts";
import { nodes, noOtherNode } from "../support/recipes.ts";
import {
  complaintsOf,
  program,
  root,
  startProcess,
  temporaryFolder
} from "../support/support.ts";

test("PLANT_TEST_NODES names Nodes to test on", { skip: noOtherNode }, (t) => {
  t.diagnostic(nodes.map(({ version }) => version).join(", "));
});

test("PLANT_TEST_ARM_NODES names Nodes for arm64", { skip: noArm }, () => {
  assert.ok(
    emulated.length > 0 &&
      emulated.every(({ version }) => version.endsWith(" on arm64"))
  );
});

// npm only warns of an older Node.
const { engines } = JSON.parse(
  readFileSync(join(root, "package.json"), "utf8")
) as { readonly engines: { readonly node: string } };
const min = engines.node.replace(">=", "");

for (const [version, isServed] of [
  ["18.20.8", false],
  ["20.18.3", false],
  ["20.19.0", true],
  ["21.0.0", true],
  ["100.0.0", true]
] as const) {
  const outcome = isServed ? "runs" : "says which one it needs, ends with 78";
  test(`a program that finds Node ${version} ${outcome}`, () => {
    const pretend =
      'Object.defineProperty(process, "versions", ' +
      `{ value: { ...process.versions, node: "${version}" } })`;
    const { status, said } = command(
      temporaryFolder(),
      process.execPath,
      "--import",
      `data:text/javascript,${encodeURIComponent(pretend)}`,
      program,
      "--version"
    );
    assert.equal(status, isServed ? 0 : 78);
    assert.equal(
      said.trim(),
      isServed
        ? "1.0.0"
        : `plant-store: this is Node ${version}; expected ${min} or later`
    );
  });
}

for (const { path: node, nodeArgs, version } of [
  ...nodes.map((each) => ({ ...each, nodeArgs: [] })),
  ...emulated
]) {
  test(`Node ${version} keeps a plant through kill -9, replays its key, and continues`, async () => {
    const cwd = temporaryFolder();
    const key = 'Idempotency-Key: "once"\r\n';
    for (const signal of ["SIGKILL", "SIGTERM"] as const) {
      const server = await startProcess({ node, nodeArgs, cwd });
      const headers = await store(server, "9007199254740993", key);
      assert.equal(
        headers["idempotency-replayed"],
        signal === "SIGTERM" ? "true" : undefined
      );
      const runs = (...args: readonly string[]) =>
        command(cwd, node, ...nodeArgs, program, ...args);
      assert.equal(runs("--port", "0").status, 75);
      await store(server, "-9223372036854775808");
      assert.equal(await server.end(signal), signal === "SIGTERM" ? 0 : null);
      assert.equal(runs("verify", "plants.ndjson").status, 0);
    }
    const lines = readFileSync(join(cwd, "plants.ndjson"), "utf8").split("\n");
    assert.deepEqual(
      lines.map((line) => /"plant":\{"id":(-?\d+)/.exec(line)?.[1]),
      [
        undefined,
        "9007199254740993",
        "-9223372036854775808",
        "-9223372036854775808",
        undefined
      ]
    );
  });
}

for (const { path: node, version } of nodes) {
  test(`Node ${version} excludes each of the others by a hard link elsewhere`, async () => {
    const cwd = temporaryFolder();
    const server = await startProcess({ node, cwd });
    const elsewhere = join(cwd, "elsewhere");
    mkdirSync(elsewhere);
    linkSync(join(cwd, "plants.ndjson"), join(elsewhere, "plants.ndjson"));
    for (const { path: other, version: its } of nodes) {
      const runs = (...args: readonly string[]) =>
        command(elsewhere, other, program, ...args);
      const { status, said } = runs("--port", "0");
      const isTold = /has it open: "ss /.test(complaintsOf(said));
      assert.equal(status, 75, its);
      assert.equal(isTold, true, its);
      assert.doesNotMatch(
        runs("verify", "--json", "plants.ndjson").stdout,
        /"opening"/
      );
    }
    assert.equal(await server.end(), 0);
    const [, shown = ""] =
      /"opening":"([^"]*)"/.exec(
        execFileSync(
          process.execPath,
          [program, "verify", "--json", "plants.ndjson"],
          { cwd, encoding: "utf8" }
        )
      ) ?? [];
    assert.equal(
      shown,
      "uses it as it is",
      "the control: verify sees whether a server runs"
    );
  });
}

const sourceNodes = nodes.filter(
  ({ major, version }) =>
    major > 22 || /^v22\.(?:1[89]|[2-9]\d)\./.test(version)
);
const noSource = "no Node from 22.18 on, here or in PLANT_TEST_NODES";
if (sourceNodes.length === 0)
  test("node src/server.ts runs the source itself", { skip: noSource });
for (const { path: node, version } of sourceNodes) {
  test(`Node ${version} runs the source itself`, async () => {
    const server = await startProcess({
      node,
      program: join(root, "src", "server.ts")
    });
    await store(server, "1");
    assert.equal(await server.end(), 0, server.stderr());
  });
}
