/**
 * Runs the tests that take too long for `npm test`: `npm run test:long`. These are the files
 * SUBJECT.long.ts, and the quick ones that read one of the numbers below, which the environment may
 * set, too. Arguments are options of Node's test runner.
 */
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";

const numbers = {
  PLANT_TEST_ROUNDS: "200",
  PLANT_TEST_RELOADS: "1000",
  PLANT_TEST_RUNS: "1000000",
  PLANT_TEST_FUZZ_SECONDS: "600",
  PLANT_TEST_EARLY: "30",
  PLANT_TEST_BODIES: "10000000",
  PLANT_TEST_CLUSTER_ROUNDS: "10",
  PLANT_TEST_MUTANTS: "40"
};

const readsNumber = (name) => {
  const text = readFileSync(name, "utf8");
  return Object.keys(numbers).some((number) => text.includes(number));
};

const files = readdirSync("test")
  .filter((name) => statSync(join("test", name)).isDirectory())
  .flatMap((folder) =>
    readdirSync(join("test", folder)).map((name) => join("test", folder, name))
  )
  .filter(
    (name) =>
      name.endsWith(".long.ts") ||
      (name.endsWith(".test.ts") && readsNumber(name))
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
    "--import",
    "tsx",
    "--test",
    "--test-concurrency=2",
    ...reporter,
    ...given,
    ...files
  ],
  { stdio: "inherit", env: { ...numbers, ...process.env } }
);
process.exitCode = status ?? 1;
