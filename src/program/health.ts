/** Whether plants can be taken: what is logged when that changes, and what /readyz answers. */
import type { Journal } from "../index.ts";
import type { Log } from "./log.ts";

type State = "starting" | "ready" | "full" | "draining" | "failed";

/** Who is sent no plant never learns that there is space again: so long after the last that found
 * none, it is ready to be tried. */
const fullMillis = 10_000;

export class Health {
  #state: State = "starting";
  #fullAt = 0;

  constructor(log: Log, journal: Journal) {
    journal.on("full", () => {
      this.#fullAt = performance.now();
      const isNew = this.become("full", "ready");
      if (isNew) log("error", "there is no space for the journal: plants are refused until then");
    });
    journal.on("batch", () => {
      if (this.become("ready", "full")) log("info", "there is space for the journal again");
    });
    journal.once("failed", () => void this.become("failed"));
  }

  /** Whether it does: from that state only, where one is given, and never when it has failed. */
  become(state: State, from = this.#state): boolean {
    const isDone = this.#state === from && from !== "failed";
    if (isDone) this.#state = state;
    return isDone;
  }

  /** Why plants should go elsewhere; undefined where they need not. */
  get hindrance(): State | undefined {
    const isDue = this.#state === "full" && performance.now() - this.#fullAt >= fullMillis;
    return this.#state === "ready" || isDue ? undefined : this.#state;
  }
}
