/**
 * Runs the tests that take too long for `npm test`: `npm run test:long`. These are the files
 * SUBJECT.long.ts, and the quick ones that read one of the numbers below, which the environment may
 * set, too. Arguments are options of Node's test runner.
 */
import { readFileSync } from "node:fs";
import { runTests, testFiles } from "./runner.mjs";

const numbers = {
  PLANT_TEST_ROUNDS: "200",
  PLANT_TEST_RELOADS: "1000",
  PLANT_TEST_FUZZ_SECONDS: "600",
  PLANT_TEST_BODIES: "10000000",
  PLANT_TEST_CLUSTER_ROUNDS: "10",
  PLANT_TEST_MUTANTS: "40"
};

const readsNumber = (name) => {
  const text = readFileSync(name, "utf8");
  return Object.keys(numbers).some((number) => text.includes(number));
};

const files = testFiles().filter(
  (name) =>
    name.endsWith(".long.ts") ||
    (name.endsWith(".test.ts") && readsNumber(name))
);

await runTests(files, {
  idleMinutes: 30,
  options: ["--import=tsx", "--test-concurrency=3"],
  env: { ...numbers, RUNNING_TESTS_SECONDS: "7200" }
});
