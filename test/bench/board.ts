/**
 * How little memory the program needs: the recipe for small machines in a memory cgroup, under 100
 * plants a second, each with a key. The journal has grown to more than the default window of keys.
 *
 * `node --import tsx test/bench/board.ts [SECONDS [MIB,MIB… [NODE…]]]`, as root on Linux, prints one
 * table for each Node. Each run has a copy of Node and of its libraries that is not in the page
 * cache, so that all pages that it touches count, those of files too. The kernel may take such pages
 * back and read them again: with too little memory a process gets slow before it ends.
 */
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  rmSync,
  writeFileSync
} from "node:fs";
import { Agent, request } from "node:http";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { journalWithKeys } from "../support/journals.ts";

const root = dirname(dirname(import.meta.dirname));
const [seconds = "10", limits = "96,80,72,64,60,56,52,48,44", ...given] =
  process.argv.slice(2);
const nodes = given.length > 0 ? given : [process.execPath];
const perSecond = 100;
const startMillisMax = 60_000;

const folder = mkdtempSync(join(tmpdir(), "plant-store-board-"));
const readme = readFileSync(
  join(root, "src", "program", "recipes", "README.md"),
  "utf8"
);
const [, recipe = ""] = /^```sh small\nnode ([^`]+)```$/m.exec(readme) ?? [];
const args = recipe.replaceAll("\\\n", " ").trim().split(/\s+/);

const grown = journalWithKeys(70 * 2 ** 20);

/** A memory cgroup of its own: version 2, or version 1. */
const version2 = "/sys/fs/cgroup";
const isVersion2 = existsSync(join(version2, "cgroup.controllers"));
const group = join(
  isVersion2 ? version2 : "/sys/fs/cgroup/memory",
  basename(folder)
);
const [limitFile, peakFile] = isVersion2
  ? ["memory.max", "memory.peak"]
  : ["memory.limit_in_bytes", "memory.max_usage_in_bytes"];
try {
  mkdirSync(group);
  writeFileSync(join(group, limitFile), String(2 ** 30));
  rmdirSync(group);
} catch (error) {
  console.error(
    `not measured: no memory cgroup can be made here: ${String(error)}`
  );
  process.exit(1);
}
process.on("exit", () => rmSync(folder, { recursive: true, force: true }));

const run = (command: string, ...words: readonly string[]): string => {
  const { status, stdout, stderr } = spawnSync(command, words, {
    cwd: root,
    encoding: "utf8"
  });
  if (status !== 0) throw new Error(`${command}: ${stderr}`);
  return stdout;
};
run(
  "node_modules/.bin/esbuild",
  "src/server.ts",
  "--bundle",
  "--platform=node",
  "--format=cjs",
  "--minify",
  `--outfile=${join(folder, "plant-store.cjs")}`
);

/** Copies Node and its libraries, and drops the copies from the page cache. */
function copyOf(node: string): string {
  const lib = join(folder, "lib");
  mkdirSync(lib, { recursive: true });
  copyFileSync(node, join(folder, "node"));
  for (const [, library = ""] of run("ldd", node).matchAll(/=> (\/\S+)/g)) {
    copyFileSync(library, join(lib, basename(library)));
  }
  for (const file of [
    join(folder, "node"),
    ...readdirSync(lib).map((name) => join(lib, name))
  ]) {
    run("sync", file);
    run("dd", `if=${file}`, "iflag=nocache", "count=0", "status=none");
  }
  return join(folder, "node");
}

/** Posts a plant; resolves with how long that took, or rejects. */
function post(url: string, agent: Agent, id: number): Promise<number> {
  const begun = performance.now();
  const headers = {
    "Authorization": "Bearer garden",
    "Content-Type": "application/json",
    "Idempotency-Key": `plant-${id}`
  };
  return new Promise((resolve, reject) => {
    const sent = request(
      `${url}/plants`,
      { method: "POST", headers, agent },
      (response) => {
        response
          .resume()
          .on("end", () =>
            response.statusCode === 200
              ? resolve(performance.now() - begun)
              : reject(new Error(String(response.statusCode)))
          );
      }
    );
    sent
      .on("error", reject)
      .end(JSON.stringify({ id, name: "Fern", tag: "shade" }));
  });
}

/** The row of one limit. */
async function measure(
  node: string,
  mebibytes: number
): Promise<readonly string[]> {
  const copy = copyOf(node);
  const store = join(folder, `${process.hrtime.bigint()}.ndjson`);
  writeFileSync(store, grown);
  run("sync", store);
  run("dd", `if=${store}`, "iflag=nocache", "count=0", "status=none");
  mkdirSync(group);
  writeFileSync(join(group, limitFile), String(mebibytes * 2 ** 20));
  if (isVersion2) writeFileSync(join(group, "memory.swap.max"), "0");
  const begun = performance.now();
  const child = spawn(
    "sh",
    [
      "-c",
      'echo $$ > "$0" && exec "$@"',
      join(group, "cgroup.procs"),
      copy,
      ...args,
      "--port",
      "0",
      "--store",
      store
    ],
    {
      cwd: folder,
      stdio: ["ignore", "pipe", "ignore"],
      env: {
        PATH: process.env["PATH"],
        PLANTS_TOKEN: "garden",
        LD_LIBRARY_PATH: join(folder, "lib")
      }
    }
  );
  const ended = once(child, "exit");
  const agent = new Agent({ keepAlive: true, maxSockets: 16 });
  const tooLong = setTimeout(startMillisMax, undefined, { ref: false });
  try {
    const [line] = await Promise.race([
      once(child.stdout, "data"),
      tooLong,
      ended
    ]).then((found) => (Array.isArray(found) ? found : []));
    const [url = ""] = /http:\S+/.exec(String(line)) ?? [];
    const isServing =
      url !== "" &&
      (await Promise.race([post(url, agent, 0).then(() => true), tooLong]));
    if (!isServing)
      return [`none in ${startMillisMax / 1_000} s`, "", "", "", ""];
    const start = performance.now() - begun;

    // Each plant is sent in its time, whether or not earlier ones have their responses.
    const count = Number(seconds) * perSecond;
    const first = performance.now();
    const found = await Promise.allSettled(
      Array.from({ length: count }, async (_, index) => {
        const due = first + (index * 1_000) / perSecond;
        await setTimeout(due - performance.now());
        await post(url, agent, index);
        return performance.now() - due;
      })
    );
    const millis = found
      .flatMap((each) => (each.status === "fulfilled" ? [each.value] : []))
      .sort((a, b) => a - b);
    const at = (share: number): string =>
      (millis[Math.floor(share * millis.length)] ?? NaN).toFixed(1);
    const peak = existsSync(join(group, peakFile))
      ? (Number(readFileSync(join(group, peakFile), "utf8")) / 2 ** 20).toFixed(
          1
        )
      : "?";
    return [
      start.toFixed(0),
      at(0.5),
      at(0.99),
      String(count - millis.length),
      peak
    ];
  } finally {
    agent.destroy();
    child.kill("SIGKILL");
    await ended;
    rmSync(store);
    for (let tries = 0; existsSync(group) && tries < 50; tries++) {
      try {
        rmdirSync(group);
      } catch {
        await setTimeout(100);
      }
    }
  }
}

for (const node of nodes) {
  console.log(
    `\n| Node ${run(node, "--version").trim().slice(1)}: limit, MiB | start to first ` +
      "response, ms | p50, ms | p99, ms | not stored | peak, MiB |\n" +
      "| --- | --- | --- | --- | --- | --- |"
  );
  for (const limit of limits.split(",").map(Number)) {
    console.log(`| ${[limit, ...(await measure(node, limit))].join(" | ")} |`);
  }
}
process.exit();
