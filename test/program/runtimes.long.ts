/** The library on Deno and Bun, and their locks beside those of all Nodes; the program in one file. */
import assert from "node:assert/strict";
import { linkSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";
import { runtimes } from "../support/life.ts";
import { command } from "../support/package.ts";
import { store } from "../support/operator.ts";
import { assertServes, bundled, nodes, runRecipe } from "../support/recipes.ts";
import {
  complaintsOf,
  program,
  root,
  startProcess,
  temporaryFolder,
  token
} from "../support/support.ts";
import { flagsOf, unless } from "../support/tools.ts";

const skip = unless(
  runtimes.length > 0,
  "PLANT_TEST_RUNTIMES is not set: .ci/run installs Deno and Bun and sets it"
);
test("PLANT_TEST_RUNTIMES names other runtimes to test on", { skip }, () => {
  const others = runtimes.filter(({ name }) => !/^(?:deno|bun) \d/.test(name));
  assert.deepEqual(others, []);
});

for (const { name, path: node, nodeArgs } of runtimes) {
  test(`${name} opens the journal with O_DSYNC and O_APPEND`, async () => {
    const cwd = temporaryFolder();
    const server = await startProcess({ node, nodeArgs, cwd });
    const flags = flagsOf(join(cwd, "plants.ndjson"), server.process.pid);
    const dsyncAndAppend = 0o12000;
    assert.equal(flags & dsyncAndAppend, dsyncAndAppend);
    await server.end();
  });

  test(`${name} runs the library`, () => {
    const cwd = temporaryFolder();
    writeFileSync(
      join(cwd, "library.mjs"),
      `
      import { createPlantServer, openJournal } from "${pathToFileURL(join(root, "dist/index.js"))}";
      const store = await openJournal("plants.ndjson");
      const server = createPlantServer({ store, tokens: ["${token}"] });
      await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
      const answer = await fetch("http://127.0.0.1:" + server.address().port + "/plants", {
        method: "POST", body: '{"id":9007199254740993,"name":"Fern"}',
        headers: { Authorization: "Bearer ${token}", "Content-Type": "application/json" },
      });
      console.log(answer.status, await answer.text(), await server.drain());
      await store.close();`
    );
    const { stdout, said } = command(cwd, node, ...nodeArgs, "library.mjs");
    assert.equal(stdout, '200 {"name":"Fern"}\n true\n', said);
    const journal = readFileSync(join(cwd, "plants.ndjson"), "utf8");
    assert.ok(journal.includes('"id":9007199254740993'));
  });
}

test("a journal has one writer, whichever versions and runtimes the two processes have", async () => {
  const ofNode = nodes.map(({ path }) => ({ path, nodeArgs: [] as string[] }));
  const all = [...ofNode, ...runtimes];
  for (const first of all) {
    const cwd = temporaryFolder();
    const { path: node, nodeArgs } = first;
    const server = await startProcess({ node, nodeArgs, cwd });
    const elsewhere = temporaryFolder();
    linkSync(join(cwd, "plants.ndjson"), join(elsewhere, "plants.ndjson"));
    for (const second of all) {
      // Two Nodes see each other by a hard link elsewhere, too.
      const areNodes = [first, second].every((each) => ofNode.includes(each));
      const { status, said } = command(
        areNodes ? elsewhere : cwd,
        second.path,
        ...[...second.nodeArgs, program, "--port", "0"]
      );
      assert.equal(status, 75, `${second.path} beside ${node}: ${said}`);
      assert.match(complaintsOf(said), /has it open/);
    }
    await store(server, "1");
    assert.equal(await server.end(), 0);
  }
});

// The program in one file, and as a single executable, by the commands of the README.

const folder = bundled();

for (const { path, version } of nodes) {
  test(`one CommonJS file by esbuild serves plants on Node ${version}, minified or not`, async () => {
    for (const made of [folder, bundled("--minify")])
      await assertServes(path, join(made, "plant-store.cjs"));
  });
}

const able = nodes.find(({ major }) => major >= 26);
const reason = unless(
  able !== undefined,
  "no Node 26 among this one and PLANT_TEST_NODES"
);
test(
  "node --build-sea makes an executable that serves plants",
  { skip: reason },
  async (t) => {
    runRecipe("executable", folder, able?.path ?? "");
    const file = join(folder, "plant-store");
    t.diagnostic(`${statSync(file).size} bytes, of Node ${able?.version}`);
    await assertServes(file);
  }
);
