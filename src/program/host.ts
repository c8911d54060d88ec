/** What the program may use of its process. Only `server.ts` has the process itself, and hands
 * this in: who audits the rest of the program need not look for more. */
export interface Host {
  readonly args: readonly string[];
  readonly environment: Environment;

  /** The number of this process. */
  readonly pid: number;

  /** Writes a line to stdout; rejects with an ExitError where it can't be written. */
  print(line: string): Promise<void>;

  /** The same to stderr. */
  printError(line: string): Promise<void>;

  /** Tells an operator on stderr: a line of text, or what `serve` puts in its place, an event of
   * its log. Where nobody can read it, nothing comes of it. */
  warn: (message: string, level?: "warn" | "error") => void;

  readonly stderr: Pick<
    NodeJS.WriteStream,
    "isTTY" | "once" | "write" | "writableNeedDrain"
  >;

  /** Of Node, as in `v22.18.0`. */
  readonly nodeVersion: string;

  /** Microseconds of user and system time, and resident bytes. */
  usage(): {
    readonly user: number;
    readonly system: number;
    readonly rss: number;
  };

  /** Calls back each time the signal comes. Until this is called, the signal is deadly. */
  onSignal(signal: Signal, listener: () => void): void;

  /** Ends the process now; what is under way is cut off. */
  exit(code: number): never;
}

export type Signal = "SIGHUP" | "SIGINT" | "SIGTERM" | "SIGUSR1" | "SIGUSR2";

export type Environment = Readonly<Record<string, string | undefined>>;
