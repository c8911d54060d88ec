/** How the program ends: its exit codes, the errors that carry one, and how they are told. */
import { JournalError } from "../journal/error.ts";
import { EngineError } from "../store.ts";
import type { Host } from "./host.ts";

/** sysexits(3). A JournalError has its own, of these and 75 (EX_TEMPFAIL: locked by another). */
export const exitCodes = {
  done: 0,
  usage: 64,
  data: 65,
  unavailable: 69,
  fault: 70,
  io: 74,
  config: 78
} as const;

/** Ends the program; each line of the message is told on stderr. */
export class ExitError extends Error {
  readonly exitCode: number;

  constructor(exit: keyof typeof exitCodes, message: string) {
    super(message);
    this.exitCode = exitCodes[exit];
  }
}

const { config, unavailable, data } = exitCodes;
const engineExits: Readonly<Record<EngineError["code"], number>> = {
  config,
  refused: config,
  unreachable: unavailable,
  data
};

/** Tells what went wrong, a line each, so that grep finds whose they are; the exit code for it. */
export function tell(error: unknown, host: Host): number {
  for (const line of messageOf(error).split("\n")) host.warn(line, "error");
  if (error instanceof ExitError || error instanceof JournalError)
    return error.exitCode;
  if (error instanceof EngineError) return engineExits[error.code];
  // What the system refused; anything else should not have happened.
  const isSystems = error instanceof Error && "errno" in error;
  return isSystems ? exitCodes.io : exitCodes.fault;
}

export const messageOf = (error: unknown): string =>
  error instanceof Error ? error.message : String(error);

/** One line: no stack, which would show paths of the inside. */
export const faultMessage = (error: unknown): string =>
  `a fault of ours: ${messageOf(error)}`;
