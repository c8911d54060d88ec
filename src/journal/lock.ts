/** One writer for a journal: a lock that ends with its process, kill -9 included.
 * On Linux an abstract Unix socket named after the file's device and inode: the same file by any
 * of its names, within one network namespace. Elsewhere a Unix socket at PATH.lock. */
import { createServer } from "node:net";
import { platform } from "node:os";

/** Holds the file for this process until `release`; undefined: another process has it. */
export function lockFile(
  path: string, identity: string,
): Promise<{ release(): void } | undefined> {
  return new Promise((resolve, reject) => {
    // Nobody has anything to say here: that one can connect is the lock.
    const server = createServer((socket) => socket.destroy()).unref();
    server.once("error", (error: NodeJS.ErrnoException) => {
      if (error.code === "EADDRINUSE") resolve(undefined);
      else reject(error);
    });
    const name = platform() === "linux" ? `\0plant-store-${identity}` : `${path}.lock`;
    server.listen(name, () => resolve({ release: () => void server.close() }));
  });
}
