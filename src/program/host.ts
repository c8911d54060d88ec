/**
 * The parts of the process that the program may use. Only `server.ts` has the process itself: an
 * auditor of the rest finds every use of it in this interface.
 */
export interface Host extends Pick<
  NodeJS.Process,
  "cpuUsage" | "exit" | "memoryUsage" | "pid" | "stderr" | "version"
> {
  readonly args: readonly string[];
  readonly environment: Readonly<Record<string, string | undefined>>;

  /** Whether the process was started on a terminal that is closed by now. */
  isHungUp(): boolean;

  /** Standard input, which nothing reads before. */
  stdin(): NodeJS.ReadableStream;

  /**
   * Writes a line to stdout. A reader that has gone away, as in `| head -1`, is no error: its pipe
   * is closed.
   *
   * @throws Error of the system if the line cannot be written as a whole
   */
  print(line: string): Promise<"written" | "closed">;

  /**
   * Writes a line to stderr.
   *
   * @throws Error of the system if the line cannot be written whole, or if its reader has gone away
   */
  printError(line: string): Promise<unknown>;

  /** Reports an event: as a line of text, until `serve` replaces this function by its log. */
  log: Log;

  /** What was logged about secret files: it is logged once, however often a file is read. */
  readonly logged: Set<string>;

  /** Calls the listener for each such signal. Until then the signal ends the process. */
  onSignal(signal: NodeJS.Signals, listener: () => void): void;
}

/** Logs an event. What its message does not say is in the fields, by their names in pino's logs. */
export type Log = (
  level: "info" | "warn" | "error",
  msg: string,
  fields?: Readonly<Record<string, unknown>>
) => void;
