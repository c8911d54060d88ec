/** The system that the process runs on. */
import { platform } from "node:os";
import ownProcess from "node:process";

const system = platform();

/** Linux, and Android as in Termux. */
export const isLinux = system === "linux" || system === "android";
export const isWindows = system === "win32";

/** Returns the number of the user that the process acts as; undefined on systems without such. */
export const userId = () => ownProcess.geteuid?.();
