/** The peers, in this folder and nowhere else. better-sqlite3 is native code: where no binary
 * comes along it is built here, and where that fails its rows say so. */
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { here } from "./options.ts";

export function installPeers(log: (text: string) => void): void {
  const modules = join(here, "node_modules");
  const stamp = join(modules, ".installed-for");
  // Another lock file, or another Node, whose native code would be another.
  const wanted = createHash("sha256")
    .update(readFileSync(join(here, "package-lock.json")))
    .update(process.version)
    .digest("hex");
  if (existsSync(stamp) && readFileSync(stamp, "utf8") === wanted) return;
  log("installing the peers into test/bench/node_modules");
  const quiet = ["--no-audit", "--no-fund", "--loglevel=error"];
  const install = npm(["ci", "--ignore-scripts", ...quiet]);
  if (install !== "")
    throw new Error(`npm ci --prefix test/bench failed: ${install}`);
  log("building better-sqlite3 (a minute or two)");
  const failure =
    npm(["rebuild", "better-sqlite3", "--foreground-scripts", ...quiet]) ||
    loadSqlite();
  writeFileSync(join(modules, ".no-sqlite"), failure);
  writeFileSync(stamp, wanted);
}

/** Empty, or why it failed. */
function npm(args: readonly string[]): string {
  // The headers that came with this Node, where they did: else node-gyp downloads them.
  const prefix = dirname(dirname(process.execPath));
  const hasHeaders = existsSync(
    join(prefix, "include", "node", "node_version.h")
  );
  const env = {
    ...process.env,
    npm_config_build_from_source: "true",
    ...(hasHeaders && { npm_config_nodedir: prefix })
  };
  // The settings of an outer `npm run` would point at the outer package.
  const { status, stdout, stderr, error } = spawnSync("npm", args, {
    cwd: here,
    env,
    encoding: "utf8"
  });
  if (status === 0) return "";
  return (
    error?.message ??
    `${stdout}${stderr}`.trim().split("\n").slice(-3).join(" ")
  );
}

function loadSqlite(): string {
  const script = "import D from 'better-sqlite3'; new D(':memory:').close();";
  const { status, stderr } = spawnSync(
    process.execPath,
    ["--input-type=module", "-e", script],
    { cwd: here, encoding: "utf8" }
  );
  const reason = stderr.trim().split("\n").slice(0, 5).join(" ");
  return status === 0 ? "" : `it can't be loaded: ${reason}`;
}
