/** Unix sockets as locks: a name on which a process listens, until it ends. */
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import * as fs from "node:fs";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { codeOf, ifPossible } from "../failure.ts";

/** O_PATH of Linux, which Node does not name: a descriptor that reads nothing. */
const pathFlag = 0x20_0000;

/** The longest address of a socket that no Node truncates, in bytes. */
const addressBytesMax = 103;

/**
 * Listens on a name. A socket gets its path as the last step, once it listens and every user who
 * can reach it can connect to it.
 *
 * @returns a function that stops listening
 * @throws Error the system's: EADDRINUSE if the name is taken
 */
export async function listenOn(name: string): Promise<() => void> {
  // A probe needs only to connect. A lock does not keep its process running.
  const server = createServer((socket) => socket.destroy()).unref();
  const isPath = !name.startsWith("\0");
  const unfinished = `/.lock-${randomName()}~`;
  const [path, release] = isPath
    ? addressOf(dirname(name), unfinished)
    : addressOf(name);
  try {
    // Otherwise a worker of node:cluster would share its primary's socket with other workers.
    server.listen({ path, exclusive: true, writableAll: isPath });
    await once(server, "listening");
    if (isPath) fs.renameSync(dirname(name) + unfinished, name);
  } catch (error) {
    server.close();
    throw error;
  } finally {
    release();
  }
  return () => {
    if (isPath) ifPossible(() => fs.unlinkSync(name));
    server.close();
  };
}

/**
 * Whether a process listens on a socket, or may do so; false after kill -9.
 *
 * Every error but two may hide a process: EACCES, EAGAIN (its backlog is full), EPROTOTYPE (it is
 * not a stream socket).
 */
export async function mayListenOn(name: string) {
  let release = () => {};
  try {
    const [address, close] = addressOf(name);
    release = close;
    const socket = connect(address);
    await once(socket, "connect").finally(() => socket.destroy());
    return true;
  } catch (error) {
    // Without /proc, the address of a descriptor leads nowhere.
    return !(
      codeOf(error) === "ECONNREFUSED" ||
      (codeOf(error) === "ENOENT" && !fs.existsSync(name))
    );
  } finally {
    release();
  }
}

/**
 * Returns an address for a socket, and a function that releases it.
 *
 * An abstract name is its own address. A path that is too long is replaced by a short one that
 * leads to the same place: that of a descriptor or, without /proc, of a symbolic link in the folder
 * for temporary files.
 *
 * @param end what follows the path in the address
 */
function addressOf(path: string, end = ""): [string, () => void] {
  if (path.startsWith("\0") || Buffer.byteLength(path + end) <= addressBytesMax)
    return [path + end, () => {}];
  const isMissing = ifPossible(
    () => !fs.statSync("/proc/self/fd", { throwIfNoEntry: false })
  );
  // Under the permission model /proc cannot be looked at, but addresses in it work.
  if (!isMissing) {
    const fd = fs.openSync(path, pathFlag);
    return [`/proc/self/fd/${fd}${end}`, () => fs.closeSync(fd)];
  }
  const folder = fs.mkdtempSync(join(tmpdir(), "plants-"));
  fs.symlinkSync(path, join(folder, "l"));
  return [
    join(folder, "l") + end,
    () => fs.rmSync(folder, { recursive: true })
  ];
}

/** Returns eight characters at random. */
export const randomName = () => randomBytes(4).toString("hex");
