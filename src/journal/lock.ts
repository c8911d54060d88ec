/** Unix sockets as locks: they end with their process, kill -9 included. */
import { connect, createServer } from "node:net";

/** What a Unix socket's path can be, in bytes: what is longer is cut without a word. */
const nameBytesMax = 107;
/** Holds a name until the function is called; undefined: another process holds it. Where no
 * socket can be (too long a path, a directory that can't be written) nothing is held. */
export function hold(name: string): Promise<(() => void) | undefined> {
  return new Promise((resolve, reject) => {
    const release = (): void => void server.close();
    const server = createServer((socket) => socket.destroy()).unref();
    server.once("error", ({ code = "", message }: NodeJS.ErrnoException) => {
      if (code === "EADDRINUSE") resolve(undefined);
      else if (/^(?:EACCES|EPERM|EROFS)$/.test(code)) resolve(release);
      else reject(new Error(message));
    });
    if (Buffer.byteLength(name) > nameBytesMax) resolve(release);
    else server.listen(name, () => resolve(release));
  });
}

/** Whether a process holds a name; after kill -9 a path stays, and nobody does. */
export function isHeld(name: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(name, () => {
      socket.destroy();
      resolve(true);
    });
    // Its queue is full: somebody is there. Whatever else fails is nobody, or not ours to know.
    socket.once("error", ({ code }: NodeJS.ErrnoException) => resolve(code === "EAGAIN"));
  });
}
