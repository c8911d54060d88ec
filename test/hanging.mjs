/**
 * Names a test that hangs. `runner.mjs` loads this into each file's process: Node's own limit counts
 * for whole files in Node 20 and 22, and its message names no test.
 *
 * A test fails here after `testMillis`, unless its own option `timeout` is shorter. The names of the
 * tests that run are in a file, which `runner.mjs` prints if their process could not do that.
 */
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach } from "node:test";

const {
  NODE_TEST_CONTEXT,
  PLANT_TEST_SLOWNESS = "1",
  RUNNING_TESTS_FOLDER: folder,
  RUNNING_TESTS_SECONDS: seconds = "300"
} = process.env;
const testMillis = Number(seconds) * 1_000 * Number(PLANT_TEST_SLOWNESS);

// The runner itself loads this, too.
if (NODE_TEST_CONTEXT !== undefined && folder !== undefined) {
  const path = join(folder, String(process.pid));
  const timers = new Map();
  const write = (names) =>
    writeFileSync(path, names.map((name) => `${name}\n`).join(""));
  const remove = () => rmSync(path, { force: true });
  process.once("exit", remove);

  beforeEach(({ name }) => {
    const fail = () => {
      console.error(`timed out after ${testMillis / 1_000} s: ${name}`);
      process.exit(1);
    };
    timers.set(name, setTimeout(fail, testMillis).unref());
    write([...timers.keys()]);
  });
  afterEach(({ name }) => {
    clearTimeout(timers.get(name));
    timers.delete(name);
    write([...timers.keys()]);
  });
}
