/** Forty `verify` and forty `cat` beside a server under load that is killed and rotated. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { readdirSync, renameSync } from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { idsIn } from "../support/journals.ts";
import { launch } from "../support/launch.ts";
import { cleanEnvironment, program, runningOf } from "../support/support.ts";

const readings = 40;

/** What a reader printed, and the plants that were acknowledged before it began. */
interface Reading {
  readonly command: string;
  readonly before: ReadonlySet<number>;
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Reads a journal while a server writes it, until each command has read it forty times. */
async function readUnderLoad() {
  let server = await launch();
  const { path } = server;
  const acknowledged = new Set<number>();
  const readers: Reading[] = [];
  let isOver = false;

  let id = 0;
  const clients = Array.from({ length: 16 }, async () => {
    while (!isOver) {
      const own = ++id;
      const { status } = await server.post(own, "x".repeat(own % 2_000));
      if (status === 200) acknowledged.add(own);
      // The server is down.
      if (status === 0) await pause(1);
    }
  });

  const readingOf = async (command: string): Promise<Reading> => {
    const before = new Set(acknowledged);
    const reader = runningOf(
      spawn(process.execPath, [program, command, path], {
        env: cleanEnvironment({})
      })
    );
    const code = await reader.ended;
    const [stdout, stderr] = [reader.stdout(), reader.stderr()];
    return { command, before, code, stdout, stderr };
  };
  const reading = ["verify", "cat", "verify", "cat"].map(async (command) => {
    for (let count = 0; count < readings / 2; count++)
      readers.push(await readingOf(command));
  });

  const faults = { kills: 0, rotations: 0 };
  const disturbing = (async () => {
    while (!isOver) {
      if (faults.kills <= faults.rotations) {
        faults.kills++;
        await server.end("SIGKILL");
        server = await launch({ store: path });
      } else {
        const name = `old-${++faults.rotations}.ndjson`;
        renameSync(path, join(dirname(path), name));
        server.process.kill("SIGHUP");
      }
      const wanted = acknowledged.size + 200;
      while (acknowledged.size < wanted && !isOver) await pause(1);
    }
  })();

  await Promise.all(reading);
  isOver = true;
  await Promise.all([...clients, disturbing]);
  assert.equal(await server.end(), 0, server.stderr());
  return { path, readers, faults, acknowledged };
}

/**
 * Returns what is wrong with a reading, if the files that were at the path have these ids. Within a
 * rotation there is no file, and while one is created or truncated it must be read again.
 */
function faultOf(
  { command, before, code, stdout, stderr }: Reading,
  files: readonly (readonly number[])[]
): string | undefined {
  const ids = [...stdout.matchAll(/^\{"id":(\d+)/gm)].map(([, id]) =>
    Number(id)
  );
  const isGood =
    code === 0 ||
    (code === 1 && stdout.includes(": torn,")) ||
    (code === 74 && stderr.includes("ENOENT")) ||
    (code === 75 && stderr.endsWith(": read it again\n"));
  if (!isGood) return `${command}: ${code} ${stderr} ${stdout.slice(0, 300)}`;
  const [first] = ids;
  if (code !== 0 || first === undefined) return undefined;
  const file = files.find((each) => each[0] === first) ?? [];
  const missing = file.filter((id, at) => ids[at] !== id && before.has(id));
  return missing.length > 0 ? `cat has not ${missing.join()}` : undefined;
}

test("forty verify and forty cat beside kill -9 and rotations under load raise no false alarm", async (t) => {
  const { path, readers, faults, acknowledged } = await readUnderLoad();
  const files = readdirSync(dirname(path))
    .filter((name) => /^(?:old-\d+|plants)\.ndjson$/.test(name))
    .map((name) => idsIn(join(dirname(path), name)));
  const codes: Record<string, number> = {};
  for (const { command, code } of readers)
    codes[`${command} ${code}`] = (codes[`${command} ${code}`] ?? 0) + 1;
  const counts = { ...faults, ...codes, acknowledged: acknowledged.size };
  t.diagnostic(JSON.stringify(counts));
  assert.equal(readers.length, 2 * readings);
  assert.deepEqual(
    readers.map((each) => faultOf(each, files)).filter(Boolean),
    []
  );
  const plants = new Set(files.flat());
  assert.deepEqual(
    [...acknowledged].filter((id) => !plants.has(id)),
    [],
    "none is lost"
  );
  assert.ok(faults.kills > 1 && faults.rotations > 1, "the control");
  assert.ok(
    readers.filter(({ code }) => code === 0).length > readings,
    "the control"
  );
});
