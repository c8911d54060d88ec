/** When the server ends, and with which exit code: signals, and a journal that fails. */
import { exitCodes } from "./exit.ts";
import type { Host, Signal } from "./host.ts";

/**
 * npm repeats to its child the Ctrl-C that the terminal has sent to both: the same signal within
 * this time is the same wish.
 */
const sameWishMillis = 1_000;

export type Ending = ReturnType<typeof watchForEnd>;

/** Listens to SIGTERM and SIGINT from now on. */
export function watchForEnd(host: Host) {
  /** Ends the process now: what is under way is cut off, and may be stored or not. */
  const atOnce = (): never => {
    const code = ending.code || exitCodes.unavailable;
    host.warn(`ended at once, with ${code}`);
    return host.exit(code);
  };

  /** Resolves with the signal that asks for the end. The other one, or a later one, is another
   * wish: to end now. */
  const asked = new Promise<string>((resolve) => {
    let first: { readonly signal: Signal; readonly at: number } | undefined;
    for (const signal of ["SIGTERM", "SIGINT"] as const)
      host.onSignal(signal, () => {
        // A clock that nobody sets.
        const at = performance.now();
        first ??= { signal, at };
        const isSame =
          signal === first.signal && at - first.at < sameWishMillis;
        if (isSame) resolve(signal);
        else atOnce();
      });
  });

  /** Its code is the exit code. That of a failed journal is hidden by nothing later: a supervisor
   * that sees 69 would look for clients, not for the disk. */
  const ending = { code: Number(exitCodes.done), asked, atOnce };
  return ending;
}
