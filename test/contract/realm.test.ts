/**
 * The library in a realm of its own, as Jest evaluates it: there, the errors of Node are not
 * `instanceof Error`.
 */
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { command } from "../support/package.ts";
import { noLimits } from "../support/operator.ts";
import { nodes } from "../support/recipes.ts";
import { library, root, temporaryFolder } from "../support/support.ts";
import { missing } from "../support/tools.ts";

/**
 * Runs a module in a realm of its own, in an empty folder; returns what it reports.
 *
 * @param code may use the library, and calls `report` with what JSON can hold
 */
function reportsIn(
  code: string,
  node: string = process.execPath,
  flagsFor: (folder: string) => readonly string[] = () => []
): unknown {
  const folder = temporaryFolder();
  const path = join(folder, "module.mjs");
  writeFileSync(
    path,
    `
    import assert from "node:assert";
    import { spawnSync } from "node:child_process";
    import { once } from "node:events";
    import * as fs from "node:fs";
    import { createServer } from "node:net";
    import { createPlantServer, JournalError, openJournal, StoreError } from ${JSON.stringify(library)};
    import { openNats } from ${JSON.stringify(library.replace("index.js", "nats/nats.js"))};

    const reports = [];
    const report = (...values) => reports.push(...values);
    const reasonOf = (promise) => promise.then(() => "fulfilled", (error) => error);
    const fern = { id: 1n, name: "Fern" };

    /** Serves a store for one POST of a plant; reports status and body. */
    async function reportPost(options) {
      const server = createPlantServer({ tokens: ["garden"], ...options });
      await once(server.listen(0, "127.0.0.1"), "listening");
      const url = "http://127.0.0.1:" + server.address().port + "/plants";
      const headers = { Authorization: "Bearer garden", "Content-Type": "application/json" };
      const body = '{"id":1,"name":"Fern"}';
      const response = await fetch(url, { method: "POST", headers, body });
      report(response.status, await response.json());
      await server.drain();
    }
    ${code}
    console.log(JSON.stringify(reports));`
  );
  const { status, stdout, said } = command(
    folder,
    node,
    "--experimental-vm-modules",
    "--no-warnings",
    ...flagsFor(folder),
    join(root, "test", "support", "realm.mjs"),
    path
  );
  assert.equal(status, 0, said);
  return JSON.parse(stdout);
}

test("in a realm of its own, where an error of node:fs is not instanceof Error, the library serves, and errors have their codes", () => {
  assert.deepEqual(
    reportsIn(`
    try {
      fs.readFileSync("missing");
    } catch (error) {
      report(error instanceof Error, error.code);
    }
    report(new JournalError("failed", "", "") instanceof Error);

    const journal = await openJournal("plants.ndjson");
    report((await journal.append(fern)).seq);
    await reportPost({ store: journal });

    fs.symlinkSync("cycle", "cycle");
    for (const path of ["cycle", "plants.ndjson"]) {
      const { code, exitCode, message } = await reasonOf(openJournal(path));
      report(code, exitCode, /(?:Error: )?ELOOP|another process/.exec(message)?.[0]);
    }
    journal.on("failed", ({ code, exitCode }) => report(code, exitCode));
    fs.rmSync("plants.ndjson");
    report((await reasonOf(journal.append(fern))).code);
    await journal.close();

    const close = async () => undefined;
    const append = () => fs.promises.readFile("missing").then(() => undefined);
    const onFault = ({ code }) => report(code);
    await reportPost({ store: { append, close }, onFault });

    const tls = { key: "no key", cert: "no certificate" };
    try {
      createPlantServer({ store: { append, close }, tokens: ["garden"], tls });
    } catch (error) {
      report(/: ERR_\\w+$/.test(error.message));
    }

    const unused = createServer().listen(0, "127.0.0.1");
    await once(unused, "listening");
    const { port } = unused.address();
    unused.close();
    await once(unused, "close");
    const warn = (message) => report(message.replaceAll(port, "PORT"));
    const limits = { unreachableMillis: 1, appendMillis: 1000 };
    const stream = await openNats(\`nats://127.0.0.1:\${port}/plants\`, { warn, limits });
    await stream.close();`),
    [
      ...[false, "ENOENT", true],
      ...[1, 200, { name: "Fern" }],
      ...["failed", 74, "ELOOP", "locked", 75, "another process"],
      ...["failed", 74, "unknown"],
      "ENOENT",
      500,
      {
        error: 50001,
        message: "Internal error: it is unknown whether the plant was stored."
      },
      true,
      "not verified: that the servers sync each write: import $SYS.REQ.SERVER.PING.VARZ of the system account, and name its subject in the address (servers=SUBJECT)",
      "127.0.0.1:PORT: connect ECONNREFUSED 127.0.0.1:PORT"
    ]
  );
});

test(
  "in a realm of its own, a full disk stores nothing, and the next plant is stored",
  { skip: noLimits },
  () => {
    assert.deepEqual(
      reportsIn(`
    const limitFiles = (bytes) =>
      assert.equal(spawnSync("prlimit", ["--fsize=" + bytes, "--pid", process.pid]).status, 0);
    const journal = await openJournal("plants.ndjson");
    journal.on("failed", ({ message }) => report(message));
    await journal.append(fern);
    const before = fs.readFileSync("plants.ndjson", "utf8");
    limitFiles(before.length + 50 + ":unlimited");
    const error = await reasonOf(journal.append(fern));
    report(error instanceof StoreError, error.code, error.cause.code);
    report(fs.readFileSync("plants.ndjson", "utf8") === before);
    limitFiles("unlimited");
    report((await journal.append(fern)).seq);
    await journal.close();`),
      [true, "full", "EFBIG", true, 2]
    );
  }
);

for (const { path: node, version, major } of nodes) {
  test(
    `in a realm of its own, Node ${version} with its permission model opens a journal`,
    { skip: missing([node, "--permission", "--eval", "0"]) },
    () => {
      assert.deepEqual(
        reportsIn(
          `
    const journal = await openJournal("plants.ndjson");
    report((await journal.append(fern)).seq);
    await journal.close();
    const fd = fs.openSync("plants.ndjson", "r+");
    try {
      fs.fsyncSync(fd);
    } catch (error) {
      report("permission" in error);
    }`,
          node,
          (folder) => [
            "--permission",
            "--allow-fs-read=*",
            `--allow-fs-write=${folder}`,
            ...(major >= 25 ? ["--allow-net"] : [])
          ]
        ),
        [1, true]
      );
    }
  );
}
