/**
 * The parts of the process that the program may use. Only `server.ts` has the process itself: an
 * auditor of the rest finds every use of it in this interface.
 */
export interface Host {
  readonly args: readonly string[];
  readonly environment: Readonly<Record<string, string | undefined>>;

  /** Number of this process. */
  readonly pid: number;

  /** Whether the process was started on a terminal that is closed by now. */
  isHungUp(): boolean;

  /** Standard input, which nothing reads before. */
  stdin(): NodeJS.ReadableStream;

  /**
   * Writes a line to stdout. A reader that has gone away, as in `| head -1`, is no error: its pipe
   * is closed.
   *
   * @throws ExitError `failed` if the line cannot be written as a whole
   */
  print(line: string): Promise<"written" | "closed">;

  /**
   * Writes a line to stderr.
   *
   * @throws ExitError `failed` if the line cannot be written whole, or if its reader has gone away
   */
  printError(line: string): Promise<unknown>;

  /** Writes a line of text to stderr, for a person. A line that cannot be written is lost. */
  warn(message: string): void;

  /** Reports an event: as a line of text, until `serve` replaces this function by its log. */
  log: Log;

  /** What was logged about secret files: it is logged once, however often a file is read. */
  readonly logged: Set<string>;

  readonly stderr: Pick<
    NodeJS.WriteStream,
    "isTTY" | "write" | "writableNeedDrain"
  >;

  /** Version of Node, as in `v22.18.0`. */
  readonly nodeVersion: string;

  /** Microseconds of user and system time. */
  cpuUsage(): { readonly user: number; readonly system: number };

  /** @throws Error where /proc cannot be read, as without a free descriptor */
  residentBytes(): number;

  /** Calls the listener for each such signal. Until then the signal ends the process. */
  onSignal(signal: Signal, listener: () => void): void;

  /** Ends the process now, whatever it is doing. */
  exit(code: number): never;
}

export type Signal =
  "SIGBREAK" | "SIGHUP" | "SIGINT" | "SIGTERM" | "SIGUSR1" | "SIGUSR2";

/** Logs an event in one sentence; its parts are in the fields, for programs. */
export type Log = (
  level: "info" | "warn" | "error",
  msg: string,
  fields?: LogFields
) => void;

/** Parts of an event, by their names in pino's logs. A line of text shows those that are named here. */
export interface LogFields {
  readonly seq?: number | undefined;

  /** Milliseconds. */
  readonly responseTime?: number | undefined;
  readonly req?: {
    readonly remoteAddress?: string | undefined;
    readonly [name: string]: unknown;
  };
  readonly reqId?: string | undefined;
  readonly [name: string]: unknown;
}
