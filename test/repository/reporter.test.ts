/** What a person reads of tests that fail or hang: each thing once. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { root, temporaryFolder } from "../support/support.ts";

const source = `
import { execFileSync } from "node:child_process";
import { test } from "node:test";

test("is slow", { timeout: 1_000 }, () =>
  new Promise((resolve) => setTimeout(resolve, 600_000)));
test("runs a command", () =>
  execFileSync(process.execPath, ["-e", "console.log(6 * 7); console.error(7 * 8); process.exit(3)"],
    { stdio: "pipe", encoding: "utf8" }));
test("hangs", () => new Promise((resolve) => setTimeout(resolve, 600_000)));
`;

test("a time limit and a failed command's output are printed once", () => {
  const folder = temporaryFolder();
  const file = join(folder, "failing.test.mjs");
  writeFileSync(file, source);
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    [
      "--import=./test/hanging.mjs",
      "--test",
      "--test-reporter=./test/reporter.mjs",
      "--test-reporter-destination=stdout",
      file
    ],
    {
      cwd: root,
      encoding: "utf8",
      env: {
        ...env,
        PLANT_TEST_SLOWNESS: "1",
        RUNNING_TESTS_FOLDER: folder,
        RUNNING_TESTS_SECONDS: "2"
      }
    }
  );
  assert.equal(status, 1, stderr);
  for (const line of [
    "not ok is slow",
    "timed out after 1 s",
    "not ok runs a command",
    "42",
    "56",
    "timed out after 2 s: hangs"
  ])
    assert.equal(
      stdout.match(new RegExp(`^ *${line}$`, "gm"))?.length,
      1,
      `${line} in ${stdout}`
    );
});
