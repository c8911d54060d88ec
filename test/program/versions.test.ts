/** The built program on other versions of Node, and the source itself without a build.
 * PLANT_TEST_NODES: a list of node binaries, with colons between. */
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { linkSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { start, store } from "../support/operator.ts";
import { nodes } from "../support/recipes.ts";
import { cleanEnvironment, complaintsOf, program, root, temporaryFolder } from "../support/support.ts";

const none = "PLANT_TEST_NODES is not set: .ci/run installs other Nodes and sets it";
test("PLANT_TEST_NODES names Nodes to test on", { skip: nodes.length > 1 ? false : none }, (t) => {
  t.diagnostic(nodes.map(({ version }) => version).join(", "));
});
if (nodes.length === 1) console.error(`versions.test.ts: ${none}`);

for (const { path: node, version } of nodes) {
  test(`Node ${version} keeps a plant through kill -9, and continues`, async (t) => {
    t.diagnostic(node);
    const cwd = temporaryFolder();
    const file = join(cwd, "plants.ndjson");
    for (const id of ["9007199254740993", "-9223372036854775808"]) {
      const server = await start({ node, cwd });
      await store(server, id);
      assert.ok(readFileSync(file, "utf8").includes(`"plant":{"id":${id},"name":"Fern"}`));
      assert.equal(await server.end("SIGKILL"), null);
    }
    const last = await start({ node, cwd });
    assert.equal(await last.end(), 0);
    const lines = readFileSync(file, "utf8").split("\n");
    assert.deepEqual(lines.map((line) => /"seq":(\d+)/.exec(line)?.[1]),
      [undefined, "1", "2", undefined]);
  });
}

for (const { path: node, version } of nodes) {
  test(`Node ${version} excludes each of the others by a hard link elsewhere`, async () => {
    const cwd = temporaryFolder();
    const server = await start({ node, cwd });
    const elsewhere = join(cwd, "elsewhere");
    mkdirSync(elsewhere);
    linkSync(join(cwd, "plants.ndjson"), join(elsewhere, "plants.ndjson"));
    for (const { path: other, version: its } of nodes) {
      const runs = (...args: readonly string[]) => spawnSync(other, [program, ...args],
        { cwd: elsewhere, env: cleanEnvironment(), encoding: "utf8", timeout: 60_000 });
      const { status, stderr } = runs("--port", "0");
      const isTold = /has it open: "ss /.test(complaintsOf(stderr));
      assert.deepEqual([status, isTold], [75, true], its);
      assert.doesNotMatch(runs("verify", "--json", "plants.ndjson").stdout, /"opening"/);
    }
    assert.equal(await server.end(), 0);
    const [, shown = ""] = /"opening":"([^"]*)"/.exec(execFileSync(process.execPath,
      [program, "verify", "--json", "plants.ndjson"], { cwd, encoding: "utf8" })) ?? [];
    assert.equal(shown, "uses it as it is", "the control: verify sees whether a server runs");
  });
}

const sourceNodes = nodes.filter(({ major, version }) => major > 22 || /^v22\.(?:1[89]|[2-9]\d)\./.test(version));
const noSource = "no Node from 22.18 on, here or in PLANT_TEST_NODES";
if (sourceNodes.length === 0) {
  test("node src/server.ts runs the source itself", { skip: noSource }, (t) => {
    t.diagnostic(noSource);
  });
}
for (const { path: node, major, version } of sourceNodes) {
  test(`Node ${version} serves under --permission as the README says`, async (t) => {
    t.diagnostic(node);
    const cwd = temporaryFolder();
    const net = major >= 25 ? ["--allow-net"] : [];
    const nodeArgs = ["--permission", "--allow-fs-read=*", `--allow-fs-write=${cwd}`, ...net];
    for (const id of ["1", "2"]) {
      const server = await start({ node, nodeArgs, cwd });
      await store(server, id);
      assert.equal(await server.end(id === "1" ? "SIGKILL" : "SIGTERM"), id === "1" ? null : 0);
    }
  });

  test(`Node ${version} runs the source itself`, async () => {
    const server = await start({ node, program: join(root, "src", "server.ts") });
    await store(server, "1");
    assert.equal(await server.end(), 0, server.stderr());
  });
}
