/**
 * One writer for a journal: locks that end with their process, kill -9 included.
 *
 * On Linux an abstract Unix socket named after the file's device and inode: the same file by any
 * of its names, within one network namespace. Elsewhere, and between network namespaces (two
 * containers on one volume), a Unix socket at PATH.lock: one that nobody listens on is abandoned.
 */
import { createServer } from "node:net";
import type { Server } from "node:net";
import { platform } from "node:os";
import type { Lock } from "./disk.ts";

/** Undefined: another process holds the file. */
export async function lockFile(path: string, identity: string): Promise<Lock | undefined> {
  const server = await listen(platform() === "linux" ? `\0plant-store-${identity}` : `${path}.lock`);
  return server && { release: () => void server.close() };
}

function listen(path: string): Promise<Server | undefined> {
  return new Promise((resolve, reject) => {
    // Nobody has anything to say here: who connects learns that the lock is held.
    const server = createServer((socket) => socket.destroy());
    server.unref();
    server.once("error", (error: NodeJS.ErrnoException) => {
      if (error.code === "EADDRINUSE") resolve(undefined);
      else reject(error);
    });
    server.listen(path, () => resolve(server));
  });
}
