/**
 * Names a test that hangs. `quick.mjs` loads this into each file's process: Node's own limit counts
 * for whole files in Node 20 and 22, and its message names no test.
 *
 * A test fails here after `testMillis`, unless its own option `timeout` is shorter. A test that
 * never leaves the processor ends by its file's limit. The names of the tests that run are in a file,
 * which `quick.mjs` prints if they did not end.
 */
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach } from "node:test";

const testMillis = 300_000;
const { NODE_TEST_CONTEXT, RUNNING_TESTS_FOLDER: folder } = process.env;

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
      process.off("exit", remove);
      write([name]);
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
