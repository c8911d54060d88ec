/** JournalError: why a journal cannot be opened or written. */
import { AssertionError } from "node:assert";
import { ExitError, isDenied, messageOf } from "../failure.ts";

export type JournalErrorCode =
  "damaged" | "unreadable" | "internal" | "failed" | "locked";

/**
 * Why a journal cannot be opened, or can no longer be written.
 *
 * `damaged`: the file is not as this program leaves one; `unreadable`: it cannot be read;
 * `locked`: another process has it open; `internal`: an assertion failed; `failed`: any other
 * error.
 */
export class JournalError extends ExitError<JournalErrorCode> {
  override readonly name = "JournalError";
  readonly path: string;

  /** The byte offset of the damage, or of the failed write; undefined for the whole file. */
  readonly offset: number | undefined;

  constructor(
    code: JournalErrorCode,
    path: string,
    cause: unknown,
    offset?: number
  ) {
    const isInternal = cause instanceof AssertionError;
    const place = offset === undefined ? "" : `at offset ${offset}, `;
    const reason = messageOf(cause);
    super(
      isInternal ? "internal" : code,
      `${path}: ${place}${isInternal ? "internal error: " : ""}${reason}`,
      { cause }
    );
    this.path = path;
    this.offset = offset;
  }
}

/**
 * Returns what a step returns.
 *
 * @throws JournalError the step's, or one with this path instead of its other errors, and with this
 * code, or `failed` if access is denied
 */
export function attempt<T>(
  code: JournalErrorCode,
  path: string,
  step: () => T
) {
  try {
    return step();
  } catch (error) {
    throw asJournalError(code, path, error);
  }
}

export const asJournalError = (
  code: JournalErrorCode,
  path: string,
  error: unknown
) =>
  error instanceof JournalError
    ? error
    : new JournalError(isDenied(error) ? "failed" : code, path, error);
