/** JournalError: why a journal cannot be opened, or can no longer be written. */

/** Those of sysexits. */
const exitCodes = {
  damaged: 65,
  unreadable: 65,
  failed: 74,
  locked: 75
} as const;

export type JournalErrorCode = keyof typeof exitCodes;

/** `damaged`: not as this program leaves a file; `locked`: another process has it; else I/O. */
export class JournalError extends Error {
  override readonly name = "JournalError";
  readonly code: JournalErrorCode;
  readonly path: string;
  readonly offset: number | undefined;
  readonly exitCode: number;

  constructor(
    code: JournalErrorCode,
    path: string,
    cause: unknown,
    offset?: number
  ) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    super(
      `${path}: ${offset === undefined ? "" : `at offset ${offset}, `}${reason}`,
      { cause }
    );
    this.code = code;
    this.path = path;
    this.offset = offset;
    this.exitCode = exitCodes[code];
  }
}
