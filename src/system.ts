/** The system that the process runs on. */
import { platform } from "node:os";

/** Its name, as in Node. */
export const system: string = platform();

/** Linux, and Android as in Termux. */
export const isLinux = system === "linux" || system === "android";
export const isWindows = system === "win32";
export const isBsd = ["darwin", "freebsd", "netbsd", "openbsd"].includes(
  system
);
