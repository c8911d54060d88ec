/**
 * Invariants: a failed assertion is an internal error, exit code 70, and never a wrong 200.
 *
 * Each program is a copy of `dist` in which one line breaks the invariant.
 */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { launch } from "../support/launch.ts";
import { patched } from "../support/tools.ts";

/** Starts a program and posts two plants; the statuses, the exit code, stderr and the journal. */
async function live(server: string) {
  const running = await launch({ server });
  const statuses: number[] = [];
  for (const id of [1, 2]) {
    const { status } = await running.post(id);
    statuses.push(status);
    if (status !== 200) break;
  }
  const code = await running.ended;
  const ids = [
    ...readFileSync(running.path, "utf8").matchAll(/"name":"plant-(\d)"/g)
  ].map(([, id]) => Number(id));
  return { statuses, end: `${code} ${running.stderr()}`, ids };
}

for (const [invariant, file, from, to, statuses] of [
  [
    "queued bytes are never negative",
    "queue.js",
    "this.#bytes += bytes;",
    "this.#bytes += bytes - 1;",
    [503]
  ],
  [
    "every append of a batch settles",
    "queue.js",
    "file } });\n        }\n        this.batch = [];",
    "file } });\n        }",
    [200, 503]
  ]
] as const) {
  test(`a program in which it is not true that ${invariant} ends with 70`, async () => {
    const found = await live(patched(file, [[from, to]]));
    assert.match(
      found.end,
      new RegExp(`^70 .*[:,] internal error: ${invariant}\n$`)
    );
    assert.deepEqual(found.statuses.slice(0, statuses.length), statuses);
    for (const [index, status] of statuses.entries()) {
      if (status === 200)
        assert.ok(found.ids.includes(index + 1), "a 200 is stored");
    }
  });
}
