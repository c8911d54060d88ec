/**
 * Runs the quick tests, which `tsc --project test` has compiled: `npm test`. Arguments are options of
 * Node's test runner: `npm test -- --test-name-pattern "part of a name"`.
 */
import { spawnSync } from "node:child_process";
import {
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

// The files of the checkout: a built file whose test has gone is left out.
const files = readdirSync("test")
  .filter((name) => statSync(join("test", name)).isDirectory())
  .flatMap((folder) =>
    readdirSync(join("test", folder))
      .filter((name) => name.endsWith(".test.ts"))
      .map((name) =>
        join("test/.built/test", folder, name.replace(/\.ts$/, ".js"))
      )
  );

const given = process.argv.slice(2);
const reporter = given.some((each) => each.startsWith("--test-reporter"))
  ? []
  : [
      "--test-reporter=./test/reporter.mjs",
      "--test-reporter-destination=stdout"
    ];

// hanging.mjs keeps a file there for each process of the runner, while that runs.
const hanging = mkdtempSync(join(tmpdir(), "plant-store-hanging-"));

const { status } = spawnSync(
  process.execPath,
  [
    "--enable-source-maps",
    "--import=./test/hanging.mjs",
    "--test",
    "--test-concurrency=4",
    "--test-timeout=900000",
    ...reporter,
    ...given,
    ...files
  ],
  { stdio: "inherit", env: { ...process.env, RUNNING_TESTS_FOLDER: hanging } }
);

for (const name of readdirSync(hanging)) {
  const running = readFileSync(join(hanging, name), "utf8").trimEnd();
  if (running !== "") console.error(`These tests had not ended:\n${running}`);
}
rmSync(hanging, { recursive: true });
process.exitCode = status ?? 1;
