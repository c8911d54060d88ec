/** The package, as npm makes it of a fresh clone. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { cleanEnvironment, root, temporaryFolder } from "./support.ts";
import { seconds } from "./until.ts";

/** Where the packages of development are. */
export const modules = join(root, "node_modules");

const npmCache = join(temporaryFolder(), "npm");

/** Runs to its end, in at most two minutes. */
export function command(cwd: string, name: string, ...args: readonly string[]) {
  const { status, stdout, stderr, error } = spawnSync(name, args, {
    cwd,
    encoding: "utf8",
    timeout: seconds(120),
    // npm keeps its cache and logs in a home, which not every user has.
    env: cleanEnvironment({ npm_config_cache: npmCache })
  });
  return { status, stdout, said: `${error ?? ""}${stdout}${stderr}` };
}

/** The path of the package: as after `git clone` and `npm ci`; what an older build has left in
 * dist is not in it. */
export function pack(): string {
  const clone = temporaryFolder();
  for (const name of [
    ".ci/prepack.mjs",
    "src",
    "package.json",
    "tsconfig.json",
    "README.md",
    "CHANGELOG.md",
    "LICENSE",
    ".github",
    "test/README.md",
    "test/bench/README.md",
    "test/bench/chart.svg"
  ]) {
    cpSync(join(root, name), join(clone, name), { recursive: true });
  }
  symlinkSync(modules, join(clone, "node_modules"));
  mkdirSync(join(clone, "dist"));
  writeFileSync(join(clone, "dist", "gone.js"), "");
  const { status, said } = command(
    clone,
    "sh",
    "-c",
    "umask 077 && exec npm pack --loglevel=error --offline"
  );
  assert.equal(status, 0, said);
  return join(clone, "plant-store-1.0.0.tgz");
}
