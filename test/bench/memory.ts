/** The cost of large bodies: resident memory of the server, and the time that others wait.
 *
 * `node --import tsx test/bench/memory.ts [MIB] [SERVER] [SHAPE]` prints a table. Each shape of a
 * body gets a fresh server, and seven bodies of MIB (16) MiB or a part, one after another. SERVER is another build's
 * `dist/server.js`, SHAPE a part of a shape's name. Linux only, two minutes. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { Agent, request } from "node:http";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { shapes } from "../support/shapes.ts";

const root = dirname(dirname(import.meta.dirname));
const [, , mib = "16", server = join(root, "dist", "server.js"), only = ""] =
  process.argv;
const size = Math.floor(Number(mib) * 2 ** 20);
/** How many bodies of one shape are sent, one after another. */
const bodies = 7;
const folder = mkdtempSync(join(tmpdir(), "plant-store-memory-"));
process.on("exit", () => rmSync(folder, { recursive: true, force: true }));

/** Posts a body; resolves with the status, or with 0 if the server has gone. */
function post(
  url: string,
  agent: Agent,
  body: string | Buffer
): Promise<number> {
  const headers = {
    Authorization: "Bearer garden",
    "Content-Type": "application/json"
  };
  return new Promise((resolve) => {
    const sent = request(
      `${url}/plants`,
      { method: "POST", headers, agent },
      (response) => {
        response.resume().on("end", () => resolve(response.statusCode ?? 0));
      }
    );
    sent.on("error", () => resolve(0)).end(body);
  });
}

interface Cost {
  readonly status: number;
  /** The growth of resident memory, at its highest, as a multiple of the body: after one body. */
  readonly growthOfOne: number;
  /** The same after all: V8 may not have collected the ones before. */
  readonly growthOfAll: number;
  /** The longest time that a small request waited meanwhile; a busy machine adds to it. */
  readonly waitMillis: number;
  /** CPU time of the main thread for each body: on a quiet machine no request waits longer. */
  readonly threadMillis: number;
}

/** @param warmUp a small body of the same shape, so that compiled code is not counted */
async function measure(body: Buffer, warmUp: Buffer): Promise<Cost> {
  const store = join(folder, `${process.hrtime.bigint()}.ndjson`);
  const env = {
    PATH: process.env["PATH"],
    PLANTS_TOKEN: "garden",
    PLANTS_STORE: store
  };
  const child = spawn(
    process.execPath,
    [server, "--port", "0", "--max-body", "16777216"],
    { env, stdio: ["ignore", "pipe", "ignore"] }
  );
  const [line] = await once(child.stdout, "data");
  const [url = ""] = /http:\S+/.exec(String(line)) ?? [];
  const agent = new Agent({ keepAlive: true });
  const memoryOf = (field: string): number => {
    const status = readFileSync(`/proc/${child.pid}/status`, "utf8");
    return (
      Number(new RegExp(`^${field}:\\s+(\\d+)`, "m").exec(status)?.[1]) * 1_024
    );
  };
  /** In ticks of 10 ms. */
  const threadMillis = (): number => {
    const stat = readFileSync(
      `/proc/${child.pid}/task/${child.pid}/stat`,
      "utf8"
    );
    const [user, system] = stat.replace(/.*\)/, "").split(" ").slice(12);
    return 10 * (Number(user) + Number(system));
  };
  const small = '{"id": 1, "name": "Färn"}';
  for (let times = 0; times < 200; times++) await post(url, agent, small);
  for (let times = 0; times < 30; times++) await post(url, agent, warmUp);

  const [before, begunMillis] = [memoryOf("VmRSS"), threadMillis()];
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
  const isAlive = () => child.exitCode === null && child.signalCode === null;
  const growth = () =>
    isAlive() ? (memoryOf("VmHWM") - before) / body.length : NaN;
  const status = await post(url, new Agent(), body);
  const growthOfOne = growth();
  for (let times = 1; times < bodies && isAlive(); times++)
    await post(url, new Agent(), body);
  const growthOfAll = growth();
  isDone = true;
  await beside;
  const isLeft = isAlive();
  const usedMillis = isLeft ? (threadMillis() - begunMillis) / bodies : NaN;
  agent.destroy();
  child.kill("SIGKILL");
  if (isLeft) await once(child, "exit");
  return {
    status,
    growthOfOne,
    growthOfAll,
    waitMillis,
    threadMillis: usedMillis
  };
}

console.log(
  `| body of ${mib} MiB | status | memory: times the body, after one | after ${bodies} | others wait, ms | main thread, ms |`
);
console.log("| --- | --- | --- | --- | --- | --- |");
for (const [what, shape] of shapes.filter(([name]) => name.includes(only))) {
  const [body, warmUp] = [size, 2 ** 16].map((bytes) =>
    Buffer.from(shape(bytes - 100)).subarray(0, bytes)
  ) as [Buffer, Buffer];
  const cost = await measure(body, warmUp);
  const { status, growthOfOne, growthOfAll, waitMillis, threadMillis } = cost;
  console.log(
    `| ${what} | ${status} | ${growthOfOne.toFixed(1)} | ${growthOfAll.toFixed(1)} | ${waitMillis.toFixed(0)} ` +
      `| ${threadMillis.toFixed(0)} |`
  );
}
