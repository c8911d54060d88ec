/** How the program ends: its exit codes, and the errors that carry one. */

/** sysexits(3). */
export const exitCodes = {
  done: 0, usage: 64, data: 65, unavailable: 69, fault: 70, io: 74, config: 78,
} as const;
export type Exit = keyof typeof exitCodes;

/** Ends the program; each line of the message is told on stderr. */
export class ExitError extends Error {
  override readonly name: string = "ExitError";
  readonly exitCode: number;

  constructor(exit: Exit, message: string) {
    super(message);
    this.exitCode = exitCodes[exit];
  }
}

/** Everything that is wrong with the command line (`usage`) or the rest (`config`), a line each. */
export class ConfigError extends ExitError {
  override readonly name = "ConfigError";

  constructor(exit: "usage" | "config", mistakes: readonly string[]) {
    super(exit, mistakes.join("\n"));
  }
}
