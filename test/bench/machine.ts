/** Facts of this machine, and the CPU that each process used: from Linux's /proc, elsewhere unknown. */
import { readdirSync, readFileSync, statfsSync } from "node:fs";
import { cpus, loadavg, release } from "node:os";
import { livePids } from "./child.ts";

const read = (path: string): string | undefined => {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
};

const numbers = (text: string): readonly number[] =>
  text.trim().split(/\s+/).map(Number);

/** Microseconds of CPU that all threads of a process have used; NaN if unknown.
 * The scheduler's own count of nanoseconds (the first field of schedstat), no ticks of 10 ms. */
export function cpuMicrosOf(pid: number): number {
  const threads =
    read(`/proc/${pid}/stat`) === undefined
      ? []
      : readdirSync(`/proc/${pid}/task`);
  const nanos = threads.map(
    (thread) => read(`/proc/${pid}/task/${thread}/schedstat`) ?? "0"
  );
  const sum = nanos.reduce(
    (total, text) => total + (numbers(text)[0] ?? NaN),
    0
  );
  return threads.length === 0 ? NaN : sum / 1000;
}

/** Clock ticks a second in /proc: 100 on every Linux there is. */
const ticksPerSecond = 100;

/** A process's own time in ticks, user's and system's, and that of its children that ended. */
function ticksOf(pid: number): {
  readonly own: number;
  readonly ended: number;
} {
  // The name, in brackets, may have spaces. The numbers begin after it.
  const fields = numbers(
    read(`/proc/${pid}/stat`)?.replace(/^.*\) \S+ /s, "") ?? "0"
  );
  const [user = 0, system = 0, endedUser = 0, endedSystem = 0] =
    fields.slice(10);
  return { own: user + system, ended: endedUser + endedSystem };
}

export interface UseReading {
  readonly at: number;
  /** Ticks of all processes, with what the hypervisor gave to other machines. */
  readonly everybody: number;
  /** Ticks of this process and of its children, living or ended. */
  readonly ours: number;
}

export function readUse(): UseReading {
  const line = /^cpu (.*)$/m.exec(read("/proc/stat") ?? "")?.[1] ?? "";
  // Without interrupts: whether those count for a process differs by kernel.
  const [user = NaN, nice = NaN, system = NaN, , , , , steal = 0] =
    numbers(line);
  const { own, ended } = ticksOf(process.pid);
  const servers = livePids().reduce((sum, pid) => sum + ticksOf(pid).own, 0);
  return {
    at: performance.now(),
    everybody: user + nice + system + steal,
    ours: own + ended + servers
  };
}

/** The CPU that other processes used between two readings, in parts of one core; NaN if unknown. */
export function othersBetween(from: UseReading, to: UseReading): number {
  const others = to.everybody - from.everybody - (to.ours - from.ours);
  const ticks = (ticksPerSecond * (to.at - from.at)) / 1000;
  return Math.max(0, others / ticks);
}

export interface Memory {
  readonly rssMiB: number;
  readonly peakMiB: number;
}

export function memoryOf(pid: number): Memory {
  const status = read(`/proc/${pid}/status`) ?? "";
  const field = (name: string): number =>
    Number(new RegExp(`^${name}:\\s+(\\d+) kB`, "m").exec(status)?.[1] ?? NaN) /
    1024;
  return { rssMiB: field("VmRSS"), peakMiB: field("VmHWM") };
}

export const freeGiB = (folder: string): number => {
  const { bavail, bsize } = statfsSync(folder);
  return (bavail * bsize) / 2 ** 30;
};

export interface Facts {
  readonly [name: string]: string;
}

export function factsOf(
  folder: string,
  generator: string,
  isPinned: boolean
): Facts {
  const cores = cpus();
  const [load = 0] = loadavg();
  const kinds = new Map([
    [0xef53, "ext4"],
    [0x01021994, "tmpfs"],
    [0x58465342, "xfs"],
    [0x9123683e, "btrfs"],
    [0x794c7630, "overlayfs"]
  ]);
  const { type } = statfsSync(folder);
  return {
    date: new Date().toISOString(),
    cpu: cores[0]?.model ?? "unknown",
    cores: String(cores.length),
    node: process.version,
    kernel: `Linux ${release()}`,
    "file system": kinds.get(type) ?? `type 0x${type.toString(16)}`,
    generator,
    pinning: isPinned
      ? "by taskset, to the cores that each table names"
      : "NONE: no taskset, or a single core; server and generator may share a core",
    "load average at start": load.toFixed(2)
  };
}

/** The reasons to doubt these numbers. */
export function doubtsOf(facts: Facts): readonly string[] {
  const doubts = [
    "One machine, and server and generator share its memory, caches and kernel.",
    "What a flush costs is this disk's word, and that of its hypervisor.",
    "Neighbours slow a durable server more than one that keeps nothing: behind each write it waits " +
      "for a core again. Where others used much, its rate is too low; CPU a request hardly moves."
  ];
  if (read("/proc/cpuinfo")?.includes("hypervisor")) {
    doubts.push(
      "A virtual machine: its cores may be shared with strangers, who may be unseen."
    );
  }
  if (facts["file system"] === "tmpfs") {
    doubts.push(
      "THE STORES ARE IN MEMORY (tmpfs): nothing was durable; see --folder."
    );
  }
  if (facts["pinning"]?.startsWith("NONE"))
    doubts.push("Nothing was pinned to a core.");
  return doubts;
}
