/** How parts fail: exit codes, the error that carries one, and helpers for errors. */

/** Exit codes by their causes: those of sysexits(3), but for a torn end, which is no failure. */
export const exitCodes = {
  done: 0,
  torn: 1,
  usage: 64,
  damaged: 65,
  unreadable: 65,
  unavailable: 69,
  unreachable: 69,
  internal: 70,
  failed: 74,
  locked: 75,
  config: 78,
  refused: 78
} as const;

export type ExitCause = keyof typeof exitCodes;

/**
 * Why a store or the program cannot work. The program reports each line of the message by itself,
 * and ends with the code. A StoreError says what became of a single plant.
 *
 * Of a stream, `config`: the operator must correct something; `refused`: the same for one host, and
 * another host may accept; `unreachable`: may pass by itself.
 */
export class ExitError<Cause extends ExitCause = ExitCause> extends Error {
  override readonly name: string = "ExitError";
  readonly code: Cause;
  readonly exitCode: number;

  constructor(code: Cause, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
    this.exitCode = exitCodes[code];
  }
}

/** Returns what a step returns; undefined if it throws, for steps whose failure does no harm. */
export function ifPossible<T>(step: () => T) {
  try {
    return step();
  } catch {
    return undefined;
  }
}

/**
 * Whether a thrown value is an error of any realm. Jest evaluates modules in a realm of its own:
 * there, errors of Node and of a host are not `instanceof Error`. They have a message all the same.
 */
export const isError = (thrown: unknown): thrown is Error =>
  typeof thrown === "object" &&
  thrown !== null &&
  "message" in thrown &&
  typeof thrown.message === "string";

export const messageOf = (error: unknown) =>
  isError(error) ? error.message : String(error);

/** Whether the system denies access to a file. */
export const isDenied = (error: unknown): error is Error =>
  ["EACCES", "EPERM", "EROFS"].some((code) => codeOf(error) === code);

/** Returns the code of an error, as ENOENT of the system's; undefined if it has none. */
export const codeOf = (error: unknown) =>
  isError(error) && "code" in error ? error.code : undefined;
