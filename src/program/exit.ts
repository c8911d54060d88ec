/** How errors end the program, and how they are reported. */
import { ExitError, exitCodes, isError, messageOf } from "../failure.ts";
import type { Host } from "./host.ts";

/**
 * Reports an error, and returns its exit code. The mistakes of an operator are always lines of text,
 * one for each.
 */
export function reportError(error: unknown, host: Host) {
  const code = exitCodeOf(error);
  const message =
    code === exitCodes.internal
      ? internalErrorMessage(error)
      : messageOf(error);
  const isMistake = code === exitCodes.usage || code === exitCodes.config;
  if (isMistake) for (const line of message.split("\n")) host.warn(line);
  else host.log("error", message);
  return code;
}

/** Returns a text as a line may have it, such as the name of a file. */
export const printable = (text: string) => text.replace(unsafe, escaped);

/**
 * Characters that could forge a line, or reverse its direction on a screen: all controls, C1
 * included, U+2028 and U+2029, bidirectional controls. JSON.stringify escapes some of them only.
 */
const unsafe = /[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}]/gu;

const escaped = (character: string) =>
  `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;

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
