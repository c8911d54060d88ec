/** When the server ends, and with which exit code: signals, and a journal that fails. */
import { exitCodes } from "./exit.ts";
import type { Host, Signal } from "./host.ts";

/**
 * npm repeats to its child the Ctrl-C that the terminal has sent to both: the same signal within
 * this time is the same wish.
 */
const sameWishMillis = 1_000;

/** Listens to SIGTERM and SIGINT from its making on. */
export class Ending {
  /** Resolves when the end is asked for, with the signal that asks. */
  readonly asked: Promise<string>;

  /**
   * The exit code. That of a failed journal is hidden by nothing later: a supervisor that sees 69
   * would look for clients, not for the disk.
   */
  code: number = exitCodes.done;

  readonly #host: Host;

  constructor(host: Host) {
    this.#host = host;
    this.asked = new Promise((resolve) => {
      let first: { readonly signal: Signal; readonly at: number } | undefined;

      // The first asks for the end. The other one, or a later one, is another wish: to end now.
      for (const signal of ["SIGTERM", "SIGINT"] as const) host.onSignal(signal, () => {
        // A clock that nobody sets.
        const at = performance.now();
        first ??= { signal, at };
        const isSame = signal === first.signal && at - first.at < sameWishMillis;
        if (isSame) resolve(signal);
        else this.atOnce();
      });
    });
  }

  /** Ends the process now: what is under way is cut off, and may be stored or not. */
  atOnce(): never {
    const code = this.code || exitCodes.unavailable;
    this.#host.warn(`ended at once, with ${code}`);
    return this.#host.exit(code);
  }
}
