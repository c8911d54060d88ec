/** What the process does when something goes wrong that no request can be blamed for. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { test } from "node:test";
import {
  cleanEnvironment, exchange, post, program, start, temporaryFolder, token,
} from "./support.ts";

const plant = (id: number): Buffer => post(`{"id":${id},"name":"Fern"}`);

test("a fault of ours ends with 70 and one line, without a stack", async () => {
  const fault = "process.once('SIGUSR2', () => { throw new Error('boom'); })";
  const server = await start({ nodeArgs: ["--import", `data:text/javascript,${fault}`] });
  assert.equal(await server.end("SIGUSR2"), 70);
  assert.equal(server.stderr(), "plant-store: a fault of ours: boom\n");
});

test("a file that is moved, and not rotated, fails for good: 503, and the end is 74", async () => {
  const cwd = temporaryFolder();
  const server = await start({ cwd, args: ["--rotation-timeout", "100"] });
  renameSync(join(cwd, "plants.ndjson"), join(cwd, "old.ndjson"));
  const [answer] = await exchange(server.port, plant(1), { answers: 1 });
  assert.equal(answer?.status, 503);
  assert.match(answer.body, /^\{"error":50302,/);
  await once(server.process, "exit");
  assert.equal(server.process.exitCode, 74);
  assert.match(server.stderr(), /^plant-store: .*plants\.ndjson: at offset \d+, it was renamed, /);
});

test("more connections than descriptors end nothing: later ones are served", async () => {
  const cwd = temporaryFolder();
  const limited = 'ulimit -n 64; exec "$@"';
  const child = spawn("bash", ["-c", limited, "-", process.execPath, program, "--port", "0"], {
    cwd, env: cleanEnvironment({ PLANTS_TOKEN: token }), stdio: ["ignore", "pipe", "inherit"],
  });
  const [line] = await once(child.stdout.setEncoding("utf8"), "data");
  const port = Number(/:(\d+)\n/.exec(String(line))?.[1]);
  const sockets = Array.from({ length: 100 }, () => connect(port, "127.0.0.1"));
  const results = await Promise.all(sockets.map((socket) => new Promise<string>((resolve) => {
    socket.on("error", () => resolve("refused")).on("close", () => resolve("refused"));
    socket.on("data", () => resolve("served")).write(plant(1));
  })));
  assert.ok(results.includes("refused"), "the descriptors must have run out");
  assert.ok(results.includes("served"));
  for (const socket of sockets) socket.destroy();
  const [answer] = await exchange(port, plant(2), { answers: 1 });
  assert.equal(answer?.status, 200);
  child.kill();
  assert.deepEqual(await once(child, "exit"), [0, null]);
});

test("a name in the place of a lock or a copy that is no such thing stays as it is", async () => {
  const cwd = temporaryFolder();
  const socket = join(cwd, "socket");
  writeFileSync(socket, "a file of somebody's");
  await assert.rejects(start({ cwd, args: ["--socket", socket] }), /can't listen/);
  assert.equal(readFileSync(socket, "utf8"), "a file of somebody's");
});
