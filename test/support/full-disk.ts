/**
 * A real ext4 whose disk is full behind it: its writes are taken, and its flushes fail.
 *
 * The file system is in a sparse image on a small tmpfs, in a mount namespace of its own: whatever
 * happens, its end removes the mounts, and with them the loop devices. Run `unshare` with
 * `ownMounts` before a process that calls `makeFullDisk`.
 */
import { execFileSync } from "node:child_process";
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  rmSync,
  writeFileSync
} from "node:fs";
import { join } from "node:path";

/** The start of a command line that runs in a mount namespace, and ends with its caller. */
export const ownMounts = [
  "unshare",
  "--mount",
  "--propagation",
  "private",
  "--fork",
  "--kill-child"
] as const;

const run = (command: string, ...args: readonly string[]): string =>
  execFileSync(command, args, { encoding: "utf8", stdio: "pipe" });

/** Bytes of a block of the file system. */
const blockBytes = 4096;

/**
 * Mounts the file system. `folder` is in it.
 *
 * @param base an empty folder
 */
export function makeFullDisk(base: string) {
  const [outer, inner, after] = ["outer", "inner", "after"].map((name) => {
    const path = join(base, name);
    mkdirSync(path);
    return path;
  });
  if (!outer || !inner || !after) throw new Error("three folders are made");
  const image = join(outer, "image");
  const filler = join(outer, "filler");
  run("mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs", outer);
  run("fallocate", "-l", "32m", image);
  run("mkfs.ext4", "-q", "-b", `${blockBytes}`, "-E", "nodiscard", image);

  // mount makes the loop device, which goes with the mount.
  run("mount", "-o", "loop,nodiscard", image, inner);
  const device = run("findmnt", "-no", "SOURCE", inner).trim().slice(5);
  const limit = `/sys/block/${device}/queue/max_sectors_kb`;
  const before = readFileSync(limit, "utf8");

  // The loop driver takes a short write for a whole one: no write may have more than one block.
  writeFileSync(limit, "4");

  return {
    folder: inner,

    /** Takes the space behind all blocks that the file system has not used. */
    fill() {
      run("sync", "-f", inner);
      const groups = run("dumpe2fs", image).matchAll(/Free blocks: (\d.*)/g);
      for (const [, ranges = ""] of groups) {
        for (const range of ranges.split(", ")) {
          const [first = 0, last = first] = range.split("-").map(Number);
          const length = (last - first + 1) * blockBytes;
          const place = ["-o", `${first * blockBytes}`, "-l", `${length}`];
          run("fallocate", "-p", ...place, image);
        }
      }
      try {
        for (;;) appendFileSync(filler, Buffer.alloc(blockBytes));
      } catch {
        // The disk is full.
      }
    },

    /** Gives the space back. */
    empty: () => rmSync(filler, { force: true }),

    /** Returns a file as a power cut would leave it now; empty if it is not there. */
    afterPowerCut(name: string) {
      const copy = join(base, "copy");
      run("cp", image, copy);
      run("mount", "-o", "loop", copy, after);
      try {
        const path = join(after, name);
        return existsSync(path) ? readFileSync(path) : Buffer.alloc(0);
      } finally {
        run("umount", after);
        rmSync(copy);
      }
    },

    /** Restores the device's limit, and removes the mounts. */
    end() {
      rmSync(filler, { force: true });
      writeFileSync(limit, before);
      run("umount", inner);
      run("umount", outer);
    }
  };
}
