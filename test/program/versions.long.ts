/** The built program on other versions of Node, and the source itself without a build.
 * PLANT_TEST_NODES: a list of node binaries, with colons between. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { emulated, noArm } from "../support/arm.ts";
import { store } from "../support/operator.ts";
import { command } from "../support/package.ts";
import { nodes, noOtherNode } from "../support/recipes.ts";
import {
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
