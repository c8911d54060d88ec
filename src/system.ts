/** The system that the process runs on. */
import { platform } from "node:os";

const system = platform();

/** Linux, and Android as in Termux. */
export const isLinux = system === "linux" || system === "android";
export const isWindows = system === "win32";
