/** Program and library on Deno and Bun, and their locks beside Node's; the program in one file.
 * PLANT_TEST_RUNTIMES: binaries named deno or bun, with colons between. */
import assert from "node:assert/strict";
import { readFileSync, statSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";
import { run } from "../support/in-process.ts";
import { command } from "../support/package.ts";
import { store } from "../support/operator.ts";
import { assertServes, bundled, nodes, runRecipe } from "../support/recipes.ts";
import {
  program,
  root,
  startProcess,
  temporaryFolder,
  token
} from "../support/support.ts";
import { flagsOf, unless } from "../support/tools.ts";

const given = (process.env["PLANT_TEST_RUNTIMES"] ?? "")
  .split(":")
  .filter(Boolean);
const skip = unless(
  given.length > 0,
  "PLANT_TEST_RUNTIMES is not set: .ci/run installs Deno and Bun and sets it"
);
test("PLANT_TEST_RUNTIMES names other runtimes to test on", { skip }, () => {
  assert.ok(
    given.every((path) => ["deno", "bun"].includes(basename(path))),
    given.join()
  );
});

const argsOf = (node: string) =>
  basename(node) === "deno" ? ["run", "--allow-all"] : [];
const plants = (cwd: string): string =>
  readFileSync(join(cwd, "plants.ndjson"), "utf8");

for (const node of given) {
  const name = `${basename(node)} ${command(root, node, "--version").stdout.match(/\d+[.\d]+/)}`;

  test(`${name} keeps a plant through kill -9, with O_DSYNC, and drains on SIGTERM`, async () => {
    const cwd = temporaryFolder();
    for (const [id, signal, code] of [
      ["9007199254740993", "SIGKILL", null],
      ["-9223372036854775808", "SIGTERM", 0]
    ] as const) {
      const server = await startProcess({ node, nodeArgs: argsOf(node), cwd });
      await store(server, id);
      const dsyncAndAppend = 0o12000;
      assert.equal(
        flagsOf(join(cwd, "plants.ndjson"), server.process.pid) &
          dsyncAndAppend,
        dsyncAndAppend
      );
      assert.equal(await server.end(signal), code);
      assert.ok(plants(cwd).includes(`"plant":{"id":${id},"name":"Fern"}`));
    }
    assert.equal((await run(["verify", "plants.ndjson"], {}, cwd)).code, 0);
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
    const { stdout, said } = command(cwd, node, ...argsOf(node), "library.mjs");
    assert.equal(stdout, '200 {"name":"Fern"}\n true\n', said);
    assert.ok(plants(cwd).includes('"id":9007199254740993'));
  });
}

test(
  "a journal has one writer, whichever runtimes the two processes have",
  { skip },
  async () => {
    const all = [...given, process.execPath];
    for (const first of all) {
      const cwd = temporaryFolder();
      const server = await startProcess({
        node: first,
        nodeArgs: argsOf(first),
        cwd
      });
      for (const second of all) {
        const { status, said } = command(
          cwd,
          second,
          ...argsOf(second),
          program,
          "--port",
          "0"
        );
        assert.equal(status, 75, `${second} beside ${first}: ${said}`);
      }
      await store(server, "1");
      assert.equal(await server.end(), 0);
    }
  }
);

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
