/**
 * Makes what `npm pack` packs: builds from nothing, so that no file of an older build is in the
 * package, and gives each file the same mode, so that the umask does not change the package.
 */
import { execSync } from "node:child_process";
import { chmodSync, readdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";

rmSync("dist", { recursive: true, force: true });
execSync("npm run --silent build", { stdio: "inherit" });

const inside = ["dist", "src", ".github"].flatMap((folder) =>
  readdirSync(folder, { recursive: true, encoding: "utf8" }).map((name) =>
    join(folder, name)
  )
);
const documents = ["README.md", "CHANGELOG.md", "test/README.md"];
const bench = ["test/bench/README.md", "test/bench/chart.svg"];
for (const path of [
  "LICENSE",
  "package.json",
  ...documents,
  ...bench,
  ...inside
])
  if (statSync(path).isFile()) chmodSync(path, 0o644);
