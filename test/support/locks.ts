/** Other users, network namespaces and mounts, for tests of the lock. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { missing } from "./tools.ts";

/** A group that all users of these tests have. */
export const group = 5000;

/** The start of a command line that becomes another user. */
export const as = (uid: number): readonly [string, ...string[]] => [
  "setpriv",
  "--reuid",
  `${uid}`,
  "--regid",
  `${group}`,
  "--clear-groups"
];

/** The start of a command line in a network namespace of its own. */
export const apart = ["unshare", "-n"] as const;

export const noUsers = missing([
  ...apart,
  ...as(5001),
  process.execPath,
  "--version"
]);

/** The start of a command line that mounts something upon itself, in a mount namespace of its own. */
export const mounting = (path: string): readonly string[] => [
  "unshare",
  "-m",
  "sh",
  "-c",
  'mount --bind "$0" "$0" && exec "$@"',
  path
];

export const locksIn = (folder: string): readonly string[] =>
  readdirSync(folder).filter((name) => name.includes(".lock-"));

const sticky = "/proc/sys/fs/protected_regular";

/** How the kernel itself refuses files of other users: "1" and "2" in folders open to all, "2" in sticky ones. */
export const protection = existsSync(sticky)
  ? readFileSync(sticky, "utf8").trim()
  : "0";
