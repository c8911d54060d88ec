/** How the program ends: its errors, which carry an exit code, and how errors are reported. */
import { JournalError } from "../journal/error.ts";
import { isError, messageOf, EngineError, exitCodes } from "../failure.ts";
import type { Host } from "./host.ts";

/** Ends the program with a code; each line of the message is reported by itself. */
export class ExitError extends Error {
  readonly exitCode: number;

  constructor(exit: keyof typeof exitCodes, message: string) {
    super(message);
    this.exitCode = exitCodes[exit];
  }
}

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
  if (error instanceof ExitError || error instanceof JournalError)
    return error.exitCode;
  if (error instanceof EngineError) return exitCodes[error.code];

  // An error of the operating system has a number.
  const isSystemError = isError(error) && "errno" in error;
  return isSystemError ? exitCodes.failed : exitCodes.internal;
}
