/** Unix sockets as locks: they end with their process, kill -9 included. */
import { connect, createServer } from "node:net";

/** What a Unix socket's path can be, in bytes, on every system: Node 20 cuts what is longer. */
const pathBytesMax = 103;

/** What any system can be asked for: Node 20 and 22 cut what is longer, and find nobody there. */
const askedBytesMax = 107;

/**
 * The length of every abstract name, in bytes.
 *
 * What is shorter, Node 20 fills up with NULs, and later ones do not: they would not exclude each
 * other.
 */
const abstractBytes = 108;

/** The abstract name that begins so, the same on every Node; no file, and Linux only. */
export const abstractName = (start: string): string =>
  `\0${start}`.padEnd(abstractBytes, ".");

/**
 * Listens on a name until the function is called; whoever can reach a path may connect.
 *
 * @throws Error the system's: EADDRINUSE where the name is taken
 */
export function hold(name: string): Promise<() => void> {
  const isPath = !name.startsWith("\0");
  return new Promise((resolve, reject) => {
    if (isPath && Buffer.byteLength(name) > pathBytesMax) {
      throw new Error(`the path has more than ${pathBytesMax} bytes`);
    }

    // That somebody connects is all that they ask; a lock keeps no process alive.
    const server = createServer((socket) => socket.destroy())
      .unref()
      .on("error", reject);
    const release = (): void => void server.close();

    // A worker of node:cluster would else listen through its primary, together with the others.
    server.listen({ path: name, exclusive: true, writableAll: isPath }, () =>
      resolve(release)
    );
  });
}

/**
 * Who is at a socket's name; undefined: nobody, for sure, as after kill -9.
 *
 * Any failure but two may hide somebody: EACCES, EAGAIN (its queue is full), EPROTOTYPE (it takes
 * no streams).
 */
export function occupantOf(name: string): Promise<string | undefined> {
  return new Promise((resolve) => {
    if (!name.startsWith("\0") && Buffer.byteLength(name) > askedBytesMax) {
      return resolve(
        `a process may listen there: the path has more than ${askedBytesMax} bytes`
      );
    }
    const socket = connect(name, () => {
      socket.destroy();
      resolve("a process listens there");
    });
    socket.once("error", ({ code = "" }: NodeJS.ErrnoException) => {
      const isNobody = code === "ECONNREFUSED" || code === "ENOENT";
      resolve(isNobody ? undefined : `a process may listen there: ${code}`);
    });
  });
}
