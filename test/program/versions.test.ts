/** The built program on other versions of Node, and the source itself without a build.
 * PLANT_TEST_NODES: a list of node binaries, with colons between. */
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { linkSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { after, test } from "node:test";
import {
  cleanEnvironment, complaintsOf, program, root, start, temporaryFolder, token, type Running,
} from "../support/support.ts";

const { PLANT_TEST_NODES: given = "" } = process.env;
const nodes = given.split(":").filter(Boolean);
const versionOf = (node: string): string =>
  execFileSync(node, ["-p", "process.versions.node"], { encoding: "utf8" }).trim();
const runsTypes = (node: string): boolean => {
  const [major = 0, minor = 0] = versionOf(node).split(".").map(Number);
  return major > 22 || (major === 22 && minor >= 18);
};

const servers: Running[] = [];
after(() => servers.map((server) => server.process.kill("SIGKILL")));

async function post(port: number, id: string): Promise<void> {
  const answer = await fetch(`http://127.0.0.1:${port}/plants`, {
    method: "POST", body: `{"id":${id},"name":"Fern"}`,
    headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json" },
  });
  assert.deepEqual([answer.status, await answer.text()], [200, '{"name":"Fern"}\n']);
}

const none = "PLANT_TEST_NODES is not set: .ci/run installs other Nodes and sets it";
test("PLANT_TEST_NODES names Nodes to test on", { skip: given === "" ? none : false }, (t) => {
  t.diagnostic(nodes.map(versionOf).join(", "));
  assert.ok(nodes.length > 0);
});
if (nodes.length === 0) console.error(`versions.test.ts: ${none}`);

for (const node of [process.execPath, ...nodes]) {
  test(`Node ${versionOf(node)} keeps a plant through kill -9, and continues`, async (t) => {
    t.diagnostic(node);
    const cwd = temporaryFolder();
    const file = join(cwd, "plants.ndjson");
    for (const id of ["9007199254740993", "-9223372036854775808"]) {
      const server = await start({ node, cwd });
      servers.push(server);
      await post(server.port, id);
      assert.ok(readFileSync(file, "utf8").includes(`"plant":{"id":${id},"name":"Fern"}`));
      assert.equal(await server.end("SIGKILL"), null);
    }
    const last = await start({ node, cwd });
    servers.push(last);
    assert.equal(await last.end(), 0);
    const lines = readFileSync(file, "utf8").split("\n");
    assert.deepEqual(lines.map((line) => /"seq":(\d+)/.exec(line)?.[1]),
      [undefined, "1", "2", undefined]);
  });
}

for (const node of [process.execPath, ...nodes]) {
  test(`Node ${versionOf(node)} excludes each of the others by a hard link elsewhere`, async () => {
    const cwd = temporaryFolder();
    const server = await start({ node, cwd });
    servers.push(server);
    const elsewhere = join(cwd, "elsewhere");
    mkdirSync(elsewhere);
    linkSync(join(cwd, "plants.ndjson"), join(elsewhere, "plants.ndjson"));
    for (const other of [process.execPath, ...nodes]) {
      const runs = (...args: readonly string[]) => spawnSync(other, [program, ...args],
        { cwd: elsewhere, env: cleanEnvironment(), encoding: "utf8", timeout: 60_000 });
      const { status, stderr } = runs("--port", "0");
      const isTold = /has it open: "ss /.test(complaintsOf(stderr));
      assert.deepEqual([status, isTold], [75, true], versionOf(other));
      assert.doesNotMatch(runs("verify", "--json", "plants.ndjson").stdout, /"opening"/);
    }
    assert.equal(await server.end(), 0);
    const [, shown = ""] = /"opening":"([^"]*)"/.exec(execFileSync(process.execPath,
      [program, "verify", "--json", "plants.ndjson"], { cwd, encoding: "utf8" })) ?? [];
    assert.equal(shown, "uses it as it is", "the control: verify sees whether a server runs");
  });
}

const sourceNodes = [process.execPath, ...nodes].filter(runsTypes);
const noSource = "no Node from 22.18 on, here or in PLANT_TEST_NODES";
if (sourceNodes.length === 0) {
  test("node src/server.ts runs the source itself", { skip: noSource }, (t) => {
    t.diagnostic(noSource);
  });
}
for (const node of sourceNodes) {
  test(`Node ${versionOf(node)} serves under --permission as the README says`, async (t) => {
    t.diagnostic(node);
    const cwd = temporaryFolder();
    const net = Number(versionOf(node).split(".")[0]) >= 25 ? ["--allow-net"] : [];
    const nodeArgs = ["--permission", "--allow-fs-read=*", `--allow-fs-write=${cwd}`, ...net];
    for (const id of ["1", "2"]) {
      const server = await start({ node, nodeArgs, cwd });
      servers.push(server);
      await post(server.port, id);
      assert.equal(await server.end(id === "1" ? "SIGKILL" : "SIGTERM"), id === "1" ? null : 0);
    }
  });

  test(`Node ${versionOf(node)} runs the source itself`, async () => {
    const server = await start({ node, program: join(root, "src", "server.ts") });
    servers.push(server);
    await post(server.port, "1");
    assert.equal(await server.end(), 0, server.stderr());
  });
}
