/** A simulated Mac: a node that takes its system for another one, and the flag of open(2) it needs. */
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { preload } from "./operator.ts";
import { socketFolder } from "./support.ts";
import { unless } from "./tools.ts";

/** Gives open(2) the flag 0x20 of macOS and the BSDs: flock(2) is what their kernels do then. */
const shim = join(socketFolder(), "shim.so");
const included = ["dlfcn", "errno", "stdarg", "sys/file", "unistd"].flatMap(
  (name) => ["-include", `${name}.h`]
);
const compiled = spawnSync(
  "cc",
  [
    "-shared",
    "-fPIC",
    "-D_GNU_SOURCE",
    ...included,
    "-x",
    "c",
    "-o",
    shim,
    "-"
  ],
  {
    input: `
  #define OPEN(name) int name(const char *path, int flags, ...) { \\
    va_list list; va_start(list, flags); mode_t mode = va_arg(list, mode_t); va_end(list); \\
    int (*real)(const char *, int, ...) = dlsym(RTLD_NEXT, #name), fd = real(path, flags & ~0x20, mode); \\
    if (fd < 0 || !(flags & 0x20) || flock(fd, LOCK_EX | LOCK_NB) == 0) return fd; \\
    close(fd); errno = EAGAIN; return -1; }
  OPEN(open) OPEN(open64) `
  }
);

/** Why a Mac cannot be simulated here, or false. */
export const noShim = unless(
  process.platform === "linux" && compiled.status === 0,
  "no cc with the headers of libc: macOS is not simulated"
);

/** The environment in which a node opens files as a Mac does. */
export const macEnvironment = { LD_PRELOAD: shim };

/** Arguments of a node that takes its system for another one. */
export const systemArgs = (system: string): readonly string[] =>
  preload(
    `Object.defineProperty(process, "platform", { value: "${system}" });`
  );
