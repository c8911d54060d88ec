/** How errors end the program, and how they are reported. */
import { ExitError, exitCodes, isError, messageOf } from "../failure.ts";
import type { Host } from "./host.ts";

/**
 * Reports an error, each line by itself so that grep finds them, and returns its exit code. The
 * mistakes of an operator are always lines of text.
 */
export function reportError(error: unknown, host: Host) {
  const code = exitCodeOf(error);
  const message =
    code === exitCodes.internal
      ? internalErrorMessage(error)
      : messageOf(error);
  const isMistake = code === exitCodes.usage || code === exitCodes.config;
  for (const line of message.split("\n")) {
    if (isMistake) host.warn(line);
    else host.log("error", line);
  }
  return code;
}

/** Returns the code of several files: damage comes first, a torn end last. */
export const worstOf = (codes: readonly number[]) =>
  codes.includes(exitCodes.damaged)
    ? exitCodes.damaged
    : Math.max(exitCodes.done, ...codes);

/** One line without a stack, which would show paths of the program. */
export const internalErrorMessage = (error: unknown) =>
  `internal error: ${messageOf(error)}`;

function exitCodeOf(error: unknown) {
  if (error instanceof ExitError) return error.exitCode;

  // An error of the operating system has a number.
  const isSystemError = isError(error) && "errno" in error;
  return isSystemError ? exitCodes.failed : exitCodes.internal;
}
