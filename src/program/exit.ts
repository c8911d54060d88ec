/** How errors end the program, and how they are reported. */
import { ExitError, exitCodes, isError, messageOf } from "../failure.ts";
import type { Host } from "./host.ts";

/** Reports an error, the mistakes of an operator in one line each, and returns its exit code. */
export function reportError(error: unknown, { log }: Host) {
  // An error of the operating system has a number.
  const isSystemError = isError(error) && "errno" in error;
  const code =
    error instanceof ExitError
      ? error.exitCode
      : exitCodes[isSystemError ? "failed" : "internal"];
  const message =
    code === exitCodes.internal
      ? internalErrorMessage(error)
      : messageOf(error);
  const isMistake = code === exitCodes.usage || code === exitCodes.config;
  for (const line of isMistake ? message.split("\n") : [message])
    log("error", line);
  return code;
}

/** Returns a text as a line may have it, such as the name of a file. */
export const printable = (text: string) =>
  text.replace(
    unsafe,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`
  );

/**
 * Characters that could forge a line, or reverse its direction on a screen: all controls, C1
 * included, U+2028 and U+2029, bidirectional controls. JSON.stringify escapes some of them only.
 */
const unsafe = /[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}]/gu;

/**
 * Does a step for each item until stdout is closed. An error about one item is reported, and does not
 * keep the others from their turn. Resolves with the worst exit code: damage, else the highest.
 */
export async function reportEach<T>(
  items: readonly T[],
  step: (item: T) => unknown,
  host: Host
) {
  const codes: number[] = [];
  for (const item of items)
    try {
      const result = await step(item);
      if (result === "closed") break;
      if (typeof result === "number") codes.push(result);
    } catch (error) {
      if (!(error instanceof ExitError)) throw error;
      codes.push(reportError(error, host));
    }
  return codes.includes(exitCodes.damaged)
    ? exitCodes.damaged
    : Math.max(exitCodes.done, ...codes);
}

/** One line without a stack, which would show paths of the program. */
export const internalErrorMessage = (error: unknown) =>
  `internal error: ${messageOf(error)}`;
