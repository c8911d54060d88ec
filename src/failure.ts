/** How parts fail: exit codes, the error of an engine, and helpers for errors. */

/**
 * Exit codes by their causes: those of a JournalError, of an EngineError, and of the program itself.
 * They are those of sysexits(3), but for a torn end, which is no failure.
 */
export const exitCodes = {
  done: 0,
  torn: 1,
  usage: 64,
  damaged: 65,
  unreadable: 65,
  data: 65,
  unavailable: 69,
  unreachable: 69,
  internal: 70,
  failed: 74,
  locked: 75,
  config: 78,
  refused: 78
} as const;

/** Why an engine cannot work. A StoreError says what became of a single plant. */
export class EngineError extends Error {
  override readonly name = "EngineError";

  /**
   * `config`: the operator must correct something; `refused`: the same for one host, and another
   * host may accept; `unreachable`: may pass by itself; `data`: a stream or file has other content
   * than it must have.
   */
  readonly code: "config" | "refused" | "unreachable" | "data";

  constructor(code: EngineError["code"], message: string) {
    super(message);
    this.code = code;
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

/** Whether an error is the system's, with this code. */
export const hasCode = (error: unknown, code: string) => codeOf(error) === code;

/** Returns the code of an error of the system, as ENOENT; undefined for another error. */
export const codeOf = (error: unknown) =>
  isError(error) && "code" in error ? error.code : undefined;
