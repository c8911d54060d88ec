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
  #ask: (why: string) => void = () => undefined;

  /** Resolves when the end is asked for, with who or what asks. */
  readonly asked = new Promise<string>((resolve) => {
    this.#ask = resolve;
  });

  /** The exit code. */
  code: number = exitCodes.done;

  readonly #host: Host;
  #first: { readonly signal: Signal; readonly at: number } | undefined;

  constructor(host: Host) {
    this.#host = host;
    for (const signal of ["SIGTERM", "SIGINT"] as const) {
      host.onSignal(signal, () => this.#onSignal(signal));
    }
  }

  /**
   * Asks for the end, with an exit code that nothing later hides: a supervisor that sees 69 would
   * look for clients, not for the disk.
   */
  fail(code: number): void {
    this.code = code;
    this.#ask("the journal has failed");
  }

  /** Ends the process now: what is under way is cut off, and may be stored or not. */
  atOnce(): never {
    const code = this.code || exitCodes.unavailable;
    this.#host.warn(`ended at once, with ${code}`);
    return this.#host.exit(code);
  }

  /** The first asks for the end. The other one, or a later one, is another wish: to end now. */
  #onSignal(signal: Signal): void {
    // A clock that nobody sets.
    const at = performance.now();
    this.#first ??= { signal, at };
    const isSame = signal === this.#first.signal && at - this.#first.at < sameWishMillis;
    if (isSame) this.#ask(signal);
    else this.atOnce();
  }
}
