/** The chapter's configuration, stream and users, run as they are written but for their ports. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { openNats } from "../../src/engines/nats.ts";
import { exportStream } from "../../src/program/transfer.ts";
import { root, temporaryFolder } from "../support/support.ts";
import { Cluster, withCluster } from "./cluster.ts";

const chapter = readFileSync(join(root, "src", "engines", "README.md"), "utf8");
const blockOf = (name: string): string => {
  const [, text] = new RegExp(`^\`\`\`${name}\\n([\\s\\S]*?)^\`\`\`$`, "m").exec(chapter) ?? [];
  assert.ok(text !== undefined, `a block ${name}`);
  return text;
};

const cluster = await Cluster.start({ template: blockOf("conf n1\\.conf") });

describe("the chapter of the engines", { ...withCluster, timeout: 60_000 }, () => {
  test("makes a stream that the store takes, by a user that may do no more", async () => {
    await cluster.create("plants", JSON.parse(blockOf("json stream")));
    const [{ monitor } = assert.fail("no server")] = cluster.servers;
    const told: string[] = [];
    const store = await openNats(cluster.url("plants"), { warn: (line) => told.push(line) });
    await store.append({ id: 1n, name: "Fern" });
    await store.close();
    assert.match(told.join("\n"), /^not verified: .*monitor=PORT/);
    assert.ok(monitor > 0);

    const path = join(temporaryFolder(), "out.ndjson");
    const mover = await openNats(cluster.url("plants", { user: "mover:moverpw" }));
    assert.equal(await exportStream(mover, path, () => undefined), 1);
    await mover.close();
    const writer = await openNats(cluster.url("plants"));
    await assert.rejects(exportStream(writer, `${path}2`, () => undefined),
      /Permissions Violation/);
    await writer.close();
  });
});
