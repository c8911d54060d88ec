/** The cost of the program on a small machine, beside a bare node:http server: start to the first
 * response, memory at rest and under load. `node --import tsx test/bench/small.ts [NODE]` prints
 * the numbers of src/program/recipes/README.md, in less than a minute; Linux only. */
import { spawn, spawnSync, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { Agent, request } from "node:http";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout } from "node:timers/promises";

const root = dirname(dirname(import.meta.dirname));
const [node = process.execPath] = process.argv.slice(2);
const folder = mkdtempSync(join(tmpdir(), "plant-store-small-"));
process.on("exit", () => rmSync(folder, { recursive: true, force: true }));

const turns = 7;
const restMillis = 600;
const loadMillis = 2_000;
const connections = 16;

/** Logs where it listens as the program does, and responds as shortly. */
const bare = join(folder, "bare.mjs");
writeFileSync(
  bare,
  `import { createServer } from "node:http";
const server = createServer((request, response) => {
  request.resume().on("end", () => response.end('{"name":"Fern"}'));
});
server.listen(0, "127.0.0.1", () => {
  console.log("bare listening on http://127.0.0.1:" + server.address().port);
});`
);

/** By the recipe of the same README. */
const bundle = join(folder, "plant-store.cjs");
const { status, stderr } = spawnSync(
  join(root, "node_modules/.bin/esbuild"),
  [
    "src/server.ts",
    "--bundle",
    "--platform=node",
    "--format=cjs",
    `--outfile=${bundle}`
  ],
  { cwd: root }
);
if (status !== 0) throw new Error(String(stderr));

const flags = ["--max-old-space-size=24", "--max-semi-space-size=1"];
const limits = [
  "--max-connections",
  "16",
  "--max-body",
  "16384",
  "--max-bodies",
  "262144",
  "--max-discard",
  "65536",
  "--max-queue-bytes",
  "262144",
  "--max-batch",
  "131072",
  "--key-window",
  "1048576"
];
const port = ["--port", "0"];
const variants: Readonly<Record<string, readonly string[]>> = {
  "bare node:http": [bare],
  "as built": [join(root, "dist", "server.js"), ...port],
  "one file": [bundle, ...port],
  "one file, small": [...flags, bundle, ...limits, ...port],
  "one file, small, no JIT": ["--jitless", ...flags, bundle, ...limits, ...port]
};

/** From /proc, in MiB: resident memory, the part that is not shared with files, and the peak. */
function memoryOf(
  { pid }: ChildProcess,
  field: "VmRSS" | "RssAnon" | "VmHWM"
): number {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  const [, kib] = new RegExp(`^${field}:\\s+(\\d+)`, "m").exec(status) ?? [];
  return Number(kib) / 1_024;
}

/** Posts a plant; resolves when its response has been read. */
function post(url: string, agent: Agent, id: number): Promise<void> {
  const headers = {
    Authorization: "Bearer garden",
    "Content-Type": "application/json"
  };
  return new Promise((resolve, reject) => {
    const sent = request(
      `${url}/plants`,
      { method: "POST", headers, agent },
      (answer) => {
        if (answer.statusCode !== 200)
          reject(new Error(`status ${answer.statusCode}`));
        answer.resume().on("end", resolve);
      }
    );
    sent
      .on("error", reject)
      .end(JSON.stringify({ id, name: "Fern", tag: "shade" }));
  });
}

interface Numbers {
  readonly start: number;
  readonly rest: number;
  readonly own: number;
  readonly peak: number;
}

/** Starts it, waits for its first answer, leaves it alone, and loads it where asked. */
async function measure(
  args: readonly string[],
  isLoaded: boolean
): Promise<Numbers> {
  const store = join(folder, `${process.hrtime.bigint()}.ndjson`);
  const env = {
    PATH: process.env["PATH"],
    PLANTS_TOKEN: "garden",
    PLANTS_STORE: store
  };
  const begun = performance.now();
  const child = spawn(node, args, { env, stdio: ["ignore", "pipe", "ignore"] });
  const [said] = await once(child.stdout, "data");
  const [url = ""] = /http:\S+/.exec(String(said)) ?? [];
  const agent = new Agent({ keepAlive: true, maxSockets: connections });
  await post(url, agent, 0);
  const start = performance.now() - begun;

  await setTimeout(restMillis);
  const rest = memoryOf(child, "VmRSS");
  const own = memoryOf(child, "RssAnon");
  const end = performance.now() + loadMillis;
  const load = async (): Promise<void> => {
    for (let id = 0; performance.now() < end; id++) await post(url, agent, id);
  };
  if (isLoaded) await Promise.all(Array.from({ length: connections }, load));
  const peak = memoryOf(child, "VmHWM");
  agent.destroy();
  child.kill("SIGKILL");
  await once(child, "exit");
  return { start, rest, own, peak };
}

// In turns, so that what the machine does besides falls on all alike; the last one under load.
const all = new Map<string, Numbers[]>();
for (let turn = 1; turn <= turns; turn++) {
  for (const [name, args] of Object.entries(variants)) {
    all.set(name, [
      ...(all.get(name) ?? []),
      await measure(args, turn === turns)
    ]);
  }
}

console.log(
  "| | start to first response, ms | at rest, MiB | of it its own | peak under load |"
);
console.log("| --- | --- | --- | --- | --- |");
for (const [name, numbers] of all) {
  const median = (field: keyof Numbers): string =>
    (
      numbers.map((each) => each[field]).toSorted((a, b) => a - b)[
        turns >> 1
      ] ?? NaN
    ).toFixed(1);
  const peak = numbers.at(-1)?.peak.toFixed(1);
  console.log(
    `| ${name} | ${median("start")} | ${median("rest")} | ${median("own")} | ${peak} |`
  );
}
