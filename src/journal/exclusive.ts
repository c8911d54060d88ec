/** Exclusive opening: a file that one descriptor may have open with a lock, on other systems. */
import * as fs from "node:fs";
import { isWindows } from "../system.ts";
import { codeOf } from "../failure.ts";

/** libuv's UV_FS_O_EXLOCK, which Node does not name. */
const exclusiveFlag = isWindows ? 0x1000_0000 : 0x20;

/** Whether a process has the file's lock, this one included; false if it cannot be opened. */
export function isExclusive(path: string) {
  try {
    const fd = openExclusive(exclusiveNameOf(path));
    if (fd !== undefined) fs.closeSync(fd);
    return fd === undefined;
  } catch {
    return false;
  }
}

export const exclusiveNameOf = (path: string) =>
  isWindows ? `${path}.lock` : path;

/** Opens a file with a lock. Returns its descriptor; undefined if another one has the lock. */
export function openExclusive(name: string, flags = 0) {
  const { O_RDONLY, O_NONBLOCK = 0 } = fs.constants;
  try {
    return fs.openSync(name, O_RDONLY | O_NONBLOCK | exclusiveFlag | flags);
  } catch (error) {
    if (codeOf(error) === "EAGAIN" || codeOf(error) === "EBUSY")
      return undefined;
    throw error;
  }
}
