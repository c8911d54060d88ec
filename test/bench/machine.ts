/** What is known of this machine, and who used its CPU. Linux's /proc; elsewhere unknown. */
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync, statfsSync } from "node:fs";
import { cpus, loadavg, release } from "node:os";
import { livePids } from "./child.ts";

/** Clock ticks a second in /proc: 100 on every Linux there is. */
const ticksPerSecond = 100;
const read = (path: string): string | undefined => {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
};

const numbers = (text: string): readonly number[] => text.trim().split(/\s+/).map(Number);

interface Ticks {
  readonly parent: number;
  readonly own: number;
  /** With those of its children that have ended. */
  readonly all: number;
}

function ticksOf(pid: number): Ticks {
  // The name, in brackets, may hold spaces: the numbers begin behind it.
  const fields = numbers(read(`/proc/${pid}/stat`)?.replace(/^.*\) \S+ /s, "") ?? "0");
  const [user = 0, system = 0, childrenUser = 0, childrenSystem = 0] = fields.slice(10);
  const own = user + system;
  return { parent: fields[0] ?? 0, own, all: own + childrenUser + childrenSystem };
}

/** A process that ends leaves its ticks to its parent: the sum over all only grows by use.
 * The kernel's threads are left out: what they flush and deliver here is mostly ours. */
function ticksOfOthers(ours: ReadonlySet<number>): number {
  const pids = readdirSync("/proc").map(Number).filter((pid) => pid > 2 || pid === 1);
  return pids.filter((pid) => !ours.has(pid)).map(ticksOf)
    .reduce((sum, { parent, all }) => sum + (parent === 2 ? 0 : all), 0);
}

interface Reading {
  readonly at: number;
  /** Everybody's, without interrupts: whether those count for a process differs by kernel. */
  readonly everybody: number;
  /** What the hypervisor gave to other machines. */
  readonly steal: number;
  readonly others: number;
  readonly ours: number;
  readonly servers: number;
}

export function readCpu(): Reading | undefined {
  const line = /^cpu (.*)$/m.exec(read("/proc/stat") ?? "")?.[1];
  if (line === undefined) return undefined;
  const [user = 0, nice = 0, system = 0, , , , , steal = 0] = numbers(line);
  const pids = livePids();
  const servers = pids.reduce((sum, pid) => sum + ticksOf(pid).own, 0);
  return {
    at: performance.now(), everybody: user + nice + system, steal, servers,
    others: ticksOfOthers(new Set([...pids, process.pid])),
    ours: servers + ticksOf(process.pid).all,
  };
}

export interface CpuUse {
  /** Parts of one core: everybody else with steal, the servers, and the load generator with us. */
  readonly others: number;
  readonly server: number;
  readonly generator: number;
}

/** Between two readings with the same servers alive. */
export function cpuBetween(from?: Reading, to?: Reading): CpuUse | undefined {
  if (!from || !to) return undefined;
  const window = (ticksPerSecond * (to.at - from.at)) / 1000;
  const ours = to.ours - from.ours;
  const server = to.servers - from.servers;
  // Either sees less than all: the first misses other containers, the second has no interrupts.
  const most = Math.max(to.others - from.others, to.everybody - from.everybody - ours);
  // Two ticks are no news: they may have been earned before.
  const others = Math.max(0, most - 2);
  return {
    others: (others + to.steal - from.steal) / window,
    server: server / window, generator: (ours - server) / window,
  };
}

export interface Memory {
  readonly rssMiB: number;
  readonly peakMiB: number;
}

export function memoryOf(pid: number): Memory {
  const status = read(`/proc/${pid}/status`) ?? "";
  const field = (name: string): number =>
    Number(new RegExp(`^${name}:\\s+(\\d+) kB`, "m").exec(status)?.[1] ?? NaN) / 1024;
  return { rssMiB: field("VmRSS"), peakMiB: field("VmHWM") };
}

export const freeGiB = (folder: string): number => {
  const { bavail, bsize } = statfsSync(folder);
  return (bavail * bsize) / 2 ** 30;
};

export interface Facts {
  readonly [name: string]: string;
}

export function factsOf(folder: string, generator: string, isPinned: boolean): Facts {
  const cores = cpus();
  const [load = 0] = loadavg();
  const kinds = new Map([[0xef53, "ext4"], [0x01021994, "tmpfs"], [0x58465342, "xfs"],
    [0x9123683e, "btrfs"], [0x794c7630, "overlayfs"]]);
  const { type } = statfsSync(folder);
  return {
    date: new Date().toISOString(),
    cpu: cores[0]?.model ?? "unknown",
    cores: String(cores.length),
    node: process.version,
    kernel: `Linux ${release()}`,
    "file system": kinds.get(type) ?? `type 0x${type.toString(16)}`,
    generator,
    pinning: isPinned ? "servers to core 0, load generator to core 1 (taskset)"
      : "NONE: no taskset, or a single core; server and generator may share a core",
    "load average at start": load.toFixed(2),
  };
}

/** What makes these figures worth less. */
export function doubtsOf(facts: Facts): readonly string[] {
  const doubts = [
    "One machine, and server and generator share its memory, caches and kernel.",
    "What a flush costs is this disk's word, and that of its hypervisor.",
  ];
  if (read("/proc/cpuinfo")?.includes("hypervisor")) {
    doubts.push("A virtual machine: its cores may be shared with strangers, who may be unseen.");
  }
  if (facts["file system"] === "tmpfs") {
    doubts.push("THE STORES ARE IN MEMORY (tmpfs): nothing was durable; see --folder.");
  }
  if (facts["pinning"]?.startsWith("NONE")) doubts.push("Nothing was pinned to a core.");
  return doubts;
}

export const hasCommand = (name: string, argument = "--version"): boolean =>
  spawnSync(name, [argument], { stdio: "ignore" }).error === undefined;
