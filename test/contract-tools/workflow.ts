/** action-validator: the workflow is what GitHub's schema of workflows allows. */
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { command } from "../support/package.ts";
import { root, temporaryFolder } from "../support/support.ts";

const workflow = join(root, ".github", "workflows", "ci.yml");

const validate = (path: string) =>
  command(
    root,
    process.execPath,
    join(import.meta.dirname, "node_modules/@action-validator/cli/cli.mjs"),
    path
  );

test("the workflow of continuous integration is valid", () => {
  const { status, said } = validate(workflow);
  assert.equal(status, 0, said);
});

for (const [says, from, to] of [
  ["a job without a machine", /^ +runs-on: .*\n/gm, ""],
  ["a step that is a text", /- run: npm ci.*$/gm, "- npm ci"],
  ["an event that does not exist", "pull_request:", "pull_requests:"]
] as const) {
  test(`the control: ${says} is found`, () => {
    const folder = join(temporaryFolder(), "ci.yml");
    const text = readFileSync(workflow, "utf8");
    const broken = text.replace(from, to);
    assert.notEqual(broken, text);
    writeFileSync(folder, broken);
    assert.notEqual(validate(folder).status, 0);
  });
}
