/**
 * Runs the quick tests, which `tsc --project test` has compiled: `npm test`. Arguments are options of
 * Node's test runner: `npm test -- --test-name-pattern "part of a name"`.
 */
import { spawnSync } from "node:child_process";
import { readdirSync, statSync } from "node:fs";
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

const { status } = spawnSync(
  process.execPath,
  [
    "--enable-source-maps",
    "--test",
    "--test-concurrency=4",
    "--test-timeout=180000",
    ...reporter,
    ...given,
    ...files
  ],
  { stdio: "inherit" }
);
process.exitCode = status ?? 1;
