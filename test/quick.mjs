/**
 * Runs the quick tests, which `tsc --project test` has compiled: `npm test`. Arguments are options of
 * Node's test runner: `npm test -- --test-name-pattern "part of a name"`.
 */
import { join } from "node:path";
import { runTests, testFiles } from "./runner.mjs";

// The files of the checkout: a built file whose test has gone is left out.
const files = testFiles()
  .filter((name) => name.endsWith(".test.ts"))
  .map((name) => join("test/.built", name.replace(/\.ts$/, ".js")));

await runTests(files, {
  idleMinutes: 1,
  options: ["--enable-source-maps", "--test-concurrency=4"]
});
