/** What one large body costs: resident memory of the server, and the time that others wait.
 *
 * `node --import tsx test/bench/memory.ts [MIB] [SERVER]` prints a table: a fresh server for each
 * shape of a body, of MIB (16) MiB or a part of one. SERVER is another build's `dist/server.js`.
 * Linux only, two minutes. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { Agent, request } from "node:http";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { shapes } from "../support/shapes.ts";

const root = dirname(dirname(import.meta.dirname));
const [mib = "16", server = join(root, "dist", "server.js")] = process.argv.slice(2);
const size = Math.floor(Number(mib) * 2 ** 20);
const folder = mkdtempSync(join(tmpdir(), "plant-store-memory-"));
process.on("exit", () => rmSync(folder, { recursive: true, force: true }));

/** Posts a body; its status, or 0 where the server is gone. */
function post(url: string, agent: Agent, body: string | Buffer): Promise<number> {
  const headers = { Authorization: "Bearer garden", "Content-Type": "application/json" };
  return new Promise((resolve) => {
    const sent = request(`${url}/plants`, { method: "POST", headers, agent }, (response) => {
      response.resume().on("end", () => resolve(response.statusCode ?? 0));
    });
    sent.on("error", () => resolve(0)).end(body);
  });
}

interface Cost {
  readonly status: number;
  /** How much resident memory grew, at its highest, as a multiple of the body. */
  readonly growth: number;
  /** The longest time that a small request waited meanwhile. */
  readonly waitMillis: number;
}

async function measure(body: Buffer): Promise<Cost> {
  const store = join(folder, `${process.hrtime.bigint()}.ndjson`);
  const env = { PATH: process.env["PATH"], PLANTS_TOKEN: "garden", PLANTS_STORE: store };
  const child = spawn(process.execPath, [server, "--port", "0", "--max-body", "16777216"],
    { env, stdio: ["ignore", "pipe", "ignore"] });
  const [line] = await once(child.stdout, "data");
  const [url = ""] = /http:\S+/.exec(String(line)) ?? [];
  const agent = new Agent({ keepAlive: true });
  const memoryOf = (field: string): number => {
    const status = readFileSync(`/proc/${child.pid}/status`, "utf8");
    return Number(new RegExp(`^${field}:\\s+(\\d+)`, "m").exec(status)?.[1]) * 1_024;
  };
  const small = '{"id": 1, "name": "Färn"}';
  for (let id = 0; id < 200; id++) await post(url, agent, small);

  const before = memoryOf("VmRSS");
  let isDone = false;
  let waitMillis = 0;
  const beside = (async () => {
    while (!isDone) {
      const begun = performance.now();
      await post(url, agent, small);
      waitMillis = Math.max(waitMillis, performance.now() - begun);
      await setTimeout(1);
    }
  })();
  const status = await post(url, new Agent(), body);
  isDone = true;
  await beside;
  const growth = status === 0 ? NaN : (memoryOf("VmHWM") - before) / body.length;
  agent.destroy();
  child.kill("SIGKILL");
  if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
  return { status, growth, waitMillis };
}

console.log(`| body of ${mib} MiB | status | memory: times the body | others wait, ms |`);
console.log("| --- | --- | --- | --- |");
for (const [what, shape] of shapes) {
  const body = Buffer.from(shape(size - 100)).subarray(0, size);
  const { status, growth, waitMillis } = await measure(body);
  console.log(`| ${what} | ${status} | ${growth.toFixed(1)} | ${waitMillis.toFixed(0)} |`);
}
