/** The tests of what the server builds on, beyond node:http's documentation, on other Nodes. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { join } from "node:path";
import { test } from "node:test";
import { nodes, noOtherNode } from "../support/recipes.ts";
import { cleanEnvironment, root, runningOf } from "../support/support.ts";
import { seconds } from "../support/until.ts";

/** Files whose server runs in the process of the tests, or on PLANT_TEST_NODE. */
const behaviours = [
  "attack/body-budget",
  "contract/connection-close",
  "contract/shutdown",
  "contract/embedding",
  "contract/framing",
  "contract/idle-timeout",
  "contract/last-response",
  "contract/tls",
  "contract/options",
  "contract/pipelining",
  "program/admin",
  "program/metrics",
  "program/log"
];
test("PLANT_TEST_NODES names Nodes to test on", { skip: noOtherNode }, (t) => {
  t.diagnostic(nodes.map(({ version }) => version).join(", "));
});

for (const { path: node, version } of nodes.slice(1)) {
  const name = `Node ${version} ends and logs connections as this one does`;
  test(name, { timeout: seconds(300) }, async () => {
    const files = behaviours.map((file) =>
      join(root, "test", `${file}.test.ts`)
    );
    const { PLANT_TEST_PEERS = "" } = process.env;
    const env = cleanEnvironment({ PLANT_TEST_NODE: node, PLANT_TEST_PEERS });
    const child = runningOf(
      spawn(node, ["--import", "tsx", "--test", ...files], { cwd: root, env })
    );
    assert.equal(await child.ended, 0, child.stdout());
    assert.match(child.stdout(), /\bpass [1-9]/);
  });
}
