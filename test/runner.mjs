/** Runs files of tests with Node's test runner, for quick.mjs and long.mjs. */
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import {
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync
} from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";

/** Returns the paths of all files in the folders of test. */
export const testFiles = () =>
  readdirSync("test")
    .filter((name) => statSync(join("test", name)).isDirectory())
    .flatMap((folder) =>
      readdirSync(join("test", folder)).map((name) =>
        join("test", folder, name)
      )
    );

/**
 * Runs files of tests to their end, and sets the exit code. The command line's arguments are options
 * of Node's test runner.
 *
 * @param files their paths
 * @param idleMinutes how long they take on an idle machine
 * @param options of Node, for this kind of tests
 * @param env variables that the environment may replace
 */
export async function runTests(files, { idleMinutes, options, env = {} }) {
  const slowness = await measureSlowness();
  const minutes = (count) => `${Number(count.toPrecision(2))} min`;
  const slow =
    slowness < 1.5
      ? ""
      : ` This machine is busy or slow: expect ${minutes(idleMinutes * slowness)}.`;
  console.log(
    `${files.length} files of tests: ${minutes(idleMinutes)} on an idle machine with two cores.${slow}`
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
      ...options,
      "--import=./test/hanging.mjs",
      "--test",
      ...reporter,
      ...given,
      ...files
    ],
    {
      stdio: "inherit",
      env: {
        ...env,
        ...process.env,
        PLANT_TEST_SLOWNESS: `${slowness}`,
        RUNNING_TESTS_FOLDER: hanging,
        RUNNING_TESTS_FILES: `${files.length}`
      }
    }
  );

  for (const name of readdirSync(hanging)) {
    const running = readFileSync(join(hanging, name), "utf8").trimEnd();
    if (running !== "") console.error(`These tests had not ended:\n${running}`);
  }
  rmSync(hanging, { recursive: true });
  process.exitCode = status ?? 1;
}

/** Returns how many times slower this machine is than an idle one with two cores: up to 10. */
async function measureSlowness() {
  const idleMillis = 50;
  const rounds = 2;
  const begun = performance.now();
  const start = () => once(spawn(process.execPath, ["-e", "0"]), "exit");
  for (let round = 0; round < rounds; round++)
    await Promise.all(Array.from({ length: availableParallelism() }, start));
  const slowness = (performance.now() - begun) / rounds / idleMillis;
  return Math.min(10, Math.max(1, slowness));
}
