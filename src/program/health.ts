/** Whether plants can be taken: what is logged when that changes, and what /readyz answers. */
import type { Log } from "./log.ts";
import type { Store } from "./store.ts";

type State = "starting" | "ready" | "full" | "draining" | "failed";

/** Who is sent no plant never learns that there is space again: so long after the last that found
 * none, it is ready to be tried. */
const fullMillis = 10_000;

export class Health {
  readonly #store: Store;
  #state: State = "starting";
  #fullAt = 0;

  constructor(log: Log, store: Store) {
    this.#store = store;
    store.on("full", () => {
      this.#fullAt = performance.now();
      const isNew = this.become("full", "ready");
      if (isNew) log("error", "the store has no space: plants are refused until it has");
    });
    store.on("batch", () => {
      if (this.become("ready", "full")) log("info", "the store has space again");
    });
    store.once("failed", () => void this.become("failed"));
  }

  /** Whether it does: from that state only, where one is given, and never when it has failed. */
  become(state: State, from = this.#state): boolean {
    const isDone = this.#state === from && from !== "failed";
    if (isDone) this.#state = state;
    return isDone;
  }

  /** Why plants should go elsewhere; undefined where they need not. */
  get hindrance(): State | "unreachable" | undefined {
    const isDue = this.#state === "full" && performance.now() - this.#fullAt >= fullMillis;
    if (this.#state !== "ready" && !isDue) return this.#state;
    return this.#store.figures.isNear === false ? "unreachable" : undefined;
  }
}
