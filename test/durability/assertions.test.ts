/** An invariant that is broken is an internal error: exit code 70, and never a wrong 200. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { launch } from "../support/launch.ts";
import { patched } from "../support/tools.ts";

test("a program in which queued bytes can be negative ends with 70", async () => {
  const change = [
    "this.#bytes += bytes;",
    "this.#bytes += bytes - 1;"
  ] as const;
  const running = await launch({ server: patched("queue.js", [change]) });
  const { status } = await running.post(1);
  assert.equal(await running.ended, 70);
  assert.match(
    running.stderr(),
    /[:,] internal error: queued bytes are never negative\n$/
  );
  assert.equal(status, 503);
});
