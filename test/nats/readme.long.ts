/** The chapter's configuration, stream and users, run as they are written but for their ports. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { openNats } from "../../src/nats/nats.ts";
import { blockOf } from "../repository/documents.ts";
import { answerTo } from "../support/exchange.ts";
import {
  cleanEnvironment,
  post,
  root,
  runningOf,
  temporaryFolder,
  token
} from "../support/support.ts";
import { outcomeOf } from "../support/tools.ts";
import { Cluster, environmentFor, storeOne, withCluster } from "./cluster.ts";
import { Fake } from "./fake.ts";
import { seconds } from "../support/until.ts";

/** A file among the secrets of the Kubernetes recipe. */
function secretOf(name: string): string {
  const recipe = readFileSync(
    join(root, "src/program/recipes/kubernetes-nats.yaml"),
    "utf8"
  );
  const [, text = ""] =
    new RegExp(`^  ${name}: \\|\n((?:    .*\n)+)`, "m").exec(recipe) ?? [];
  return text.replaceAll(/^ {4}/gm, "");
}

/** The recipe's servers, with the names and addresses that the tests' own servers have. */
const recipe = secretOf("nats\\.conf")
  .replace("$POD_NAME", "n1")
  .replace("/data", "/var/lib/nats/n1")
  .replace(
    /nats-(\d)\.nats:6222/g,
    (_, index) => `127.0.0.${Number(index) + 1}:6222`
  );
const inPods = await Cluster.start({ template: recipe });
const cluster = await Cluster.start({
  template: blockOf("conf", "n1.conf")
});

test(
  "the example stream.mjs works as written, but for its port",
  { timeout: seconds(60) },
  async () => {
    const folder = temporaryFolder();
    mkdirSync(join(folder, "node_modules"));
    symlinkSync(root, join(folder, "node_modules", "plant-store"));
    const listening = '8080, "127.0.0.1"';
    const text = blockOf("mjs", "stream.mjs");
    assert.ok(text.includes(listening));
    writeFileSync(
      join(folder, "stream.mjs"),
      text.replace(
        listening,
        `0, "127.0.0.1", () => console.log(server.address().port)`
      )
    );
    const fake = await Fake.start();
    const env = {
      ...environmentFor(
        `nats://${fake.host}/plants`,
        "user u\npassword s3cret\n"
      ),
      PLANTS_TOKEN: token
    };
    const child = runningOf(
      spawn(process.execPath, ["stream.mjs"], { cwd: folder, env })
    );
    await child.until(() => child.stdout() !== "", "it listens");
    assert.equal(
      (await answerTo(Number(child.stdout()), post('{"id":1,"name":"Fern"}')))
        .status,
      200
    );
    assert.match(
      fake.plants.at(-1)?.payload ?? "",
      /"plant":\{"id":1,"name":"Fern"\}/
    );
    assert.equal(await child.end(), 0);
  }
);

test("the JSON for a missing stream has the settings of the README's stream, max_bytes included", async () => {
  const fake = await Fake.start({
    stream: {
      error: { code: 404, err_code: 10059, description: "stream not found" }
    }
  });
  let message = "";
  await assert.rejects(
    openNats(`nats://${fake.host}/plants`),
    (error: Error) => {
      ({ message } = error);
      return true;
    }
  );
  assert.match(message, /its max_bytes below each server's max_file_store:\n/);
  const inReadme = JSON.parse(blockOf("json", "stream"));
  const made = JSON.parse(message.slice(message.indexOf("\n{")));
  assert.deepEqual({ ...inReadme, ...made }, inReadme);
  assert.equal(made.max_bytes, inReadme.max_bytes);
});

describe(
  "the README's servers, stream and users",
  { ...withCluster, timeout: seconds(60) },
  () => {
    test("work as written: each user can do what its comment says, and no more", async () => {
      await cluster.create("plants", JSON.parse(blockOf("json", "stream")));
      const warnings: string[] = [];
      await storeOne(
        cluster.open("plants", { warn: (line) => warnings.push(line) })
      );
      assert.match(warnings.join("\n"), /^not verified: .*servers=SUBJECT/);

      const cwd = temporaryFolder();
      symlinkSync(join(root, "dist"), join(cwd, "dist"));
      const commands = cluster.servers.reduce(
        (text, { host, port }) =>
          text.replace(`${host}:4222`, `${host}:${port}`),
        blockOf("sh", "serve").replace(
          "PLANTS_STORE=",
          "exec env PLANTS_STORE="
        )
      );
      const child = spawn("sh", ["-ec", `${commands.trimEnd()} --port 0`], {
        cwd,
        env: cleanEnvironment({ PLANTS_TOKEN: token })
      });
      const running = await outcomeOf(child);
      assert.ok(typeof running === "object", String(running));
      const answer = await answerTo(
        running.port,
        post('{"id":2,"name":"Moss"}')
      );
      // No warning: each server has responded, and nobody else can read the credentials.
      assert.deepEqual(
        [answer.status, await running.end(), running.stderr()],
        [200, 0, ""]
      );
    });
    test("in the Kubernetes recipe: its credentials store a plant, and its probes get a 200", async () => {
      await inPods.create("plants", JSON.parse(blockOf("json", "stream")));
      await storeOne(
        inPods.open("plants", {
          credentials: secretOf("credentials"),
          query: "?servers=servers",
          warn: (line) => assert.fail(line)
        })
      );
      for (const path of ["/healthz", "/healthz?js-enabled-only=true"]) {
        assert.equal(
          (await fetch(`http://127.0.0.1:${inPods.servers[0]?.monitor}${path}`))
            .status,
          200
        );
      }
    });
  }
);
