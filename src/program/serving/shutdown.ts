/** When the server shuts down, and with which exit code: signals, and a journal that fails. */
import { isWindows } from "../../system.ts";
import { exitCodes } from "../../failure.ts";
import type { Host } from "../host.ts";

/** Time within which the same signal is a repetition: npm sends its child each Ctrl-C again. */
const repetitionMillis = 1_000;

/** On Windows SIGHUP says that the console is being closed. SIGBREAK is Ctrl-Break there. */
const signals: readonly NodeJS.Signals[] = isWindows
  ? ["SIGTERM", "SIGINT", "SIGHUP", "SIGBREAK"]
  : ["SIGTERM", "SIGINT"];

export type Shutdown = ReturnType<typeof watchForShutdown>;

/** Listens to signals from now on. */
export function watchForShutdown(host: Host) {
  let resolveReason: (reason: string) => void = () => undefined;
  let first:
    { readonly signal: NodeJS.Signals; readonly at: number } | undefined;
  for (const signal of signals)
    host.onSignal(signal, () => {
      // Monotonic: nobody sets this clock.
      const at = performance.now();
      first ??= { signal, at };
      const isRepetition =
        signal === first.signal && at - first.at < repetitionMillis;
      if (isRepetition) shutdown.request(signal);
      else shutdown.endNow();
    });

  const shutdown = {
    exitCode: Number(exitCodes.done),

    /** Resolves with the first reason. */
    requested: new Promise<string>((resolve) => {
      resolveReason = resolve;
    }),

    /**
     * Requests the shutdown. The exit code of a failed journal is never replaced: a supervisor that
     * sees 69 would look at the clients, not at the disk.
     */
    request(reason: string, exitCode: number = exitCodes.done) {
      shutdown.exitCode ||= exitCode;
      resolveReason(reason);
    },

    /** Ends the process now. Plants in progress may be stored or not. */
    endNow() {
      const code = shutdown.exitCode || exitCodes.unavailable;
      host.log("warn", `ended at once, with ${code}`);
      return host.exit(code);
    }
  };
  return shutdown;
}
