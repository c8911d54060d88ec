/** What a plant costs the flash of a small machine: bytes written to a real ext4. Needs root. */
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { ownMounts } from "../support/full-disk.ts";
import { launch } from "../support/launch.ts";
import { temporaryFolder } from "../support/support.ts";
import { missing } from "../support/tools.ts";
import { documentOf } from "../repository/documents.ts";

const run = (command: string, ...args: readonly string[]): string =>
  execFileSync(command, args, { encoding: "utf8", stdio: "pipe" });

/** Stores plants on a new ext4, and returns the KB that its device has written for each, one after another. */
async function play(features: string): Promise<number> {
  const base = temporaryFolder();
  const [memory, folder] = ["memory", "folder"].map((name) => join(base, name));
  if (!memory || !folder) throw new Error("two folders are named");
  mkdirSync(memory);
  mkdirSync(folder);
  run("mount", "-t", "tmpfs", "-o", "size=300m", "tmpfs", memory);
  const image = join(memory, "image");
  run("truncate", "-s", "256m", image);
  const atOnce = "lazy_itable_init=0,lazy_journal_init=0";
  run("mkfs.ext4", "-q", "-b", "4096", "-E", atOnce, "-O", features, image);
  run("mount", "-o", "loop", image, folder);
  const device = run("findmnt", "-no", "SOURCE", folder).trim().slice(5);
  const written = (): number => {
    run("sync", "-f", folder);
    const stat = readFileSync(`/sys/block/${device}/stat`, "utf8");
    return (Number(stat.trim().split(/\s+/)[6]) * 512) / 1_000;
  };

  const server = await launch({ store: join(folder, "plants.ndjson") });
  const plants = 800;
  const before = written();
  for (let id = 0; id < plants; id++)
    assert.equal((await server.post(id)).status, 200);
  const each = (written() - before) / plants;
  await server.end();
  run("umount", folder);
  run("umount", memory);
  return each;
}

/** Plays it in a mount namespace of its own. */
function kilobytesOf(features: string): number {
  const [command, ...args] = ownMounts;
  const self = fileURLToPath(import.meta.url);
  const { stdout, stderr } = spawnSync(
    command,
    [...args, process.execPath, ...process.execArgv, self],
    {
      encoding: "utf8",
      env: { ...process.env, WEAR_FEATURES: features }
    }
  );
  const [, result] = /^(?:# )?RESULT (.*)$/m.exec(stdout) ?? [];
  assert.ok(result, `${stdout}${stderr}`);
  return Number(result);
}

const { WEAR_FEATURES } = process.env;
if (WEAR_FEATURES !== undefined) {
  console.log(`RESULT ${await play(WEAR_FEATURES)}`);
} else {
  const [command, ...args] = ownMounts;
  const skip = missing(
    [command, ...args, "mount", "-t", "tmpfs", "tmpfs", "/mnt"],
    ["mkfs.ext4", "-V"],
    ["losetup", "-f"],
    ["findmnt", "-V"]
  );
  test(
    "on ext4, a plant costs the flash about as much as the recipe for small machines says",
    { skip },
    (t) => {
      const rows = [
        ...documentOf("src/program/recipes/README.md").text.matchAll(
          /^\| ([^|]*) \| (\d+) KB \|$/gm
        )
      ].map(([, name, figure]) => [name, Number(figure)] as const);
      const costs = ["^fast_commit", "fast_commit"].map(kilobytesOf);
      assert.equal(rows.length, costs.length, "the rows of the recipe");
      for (const [index, [name, figure]] of rows.entries()) {
        const cost = costs[index] ?? 0;
        t.diagnostic(`${name}: ${cost.toFixed(1)} KB`);
        assert.ok(
          cost > figure * 0.6 && cost < figure * 1.4,
          `${name}: ${cost}`
        );
      }
    }
  );
}
