/** Whether plants can be taken: what is logged when that changes, and what /readyz answers. */
import type { Log } from "./log.ts";
import type { Store } from "./open-store.ts";

type State = "starting" | "ready" | "full" | "draining" | "failed";

/** Who is sent no plant never learns that there is space again: so long after the last that found
 * none, it is ready to be tried. And so often, at most, it is told: near the end of the space small
 * plants fit in turn with large ones that do not. */
const fullMillis = 10_000;

export type Health = ReturnType<typeof watchHealth>;

export function watchHealth(log: Log, store: Store) {
  let state: State = "starting";
  let fullAt = 0;
  let toldAt = -Infinity;
  let isTold = false;

  /** From that state only, where one is given, and never when it has failed. */
  const become = (next: State, from = state): void => {
    if (state === from && from !== "failed") state = next;
  };

  store.on("full", () => {
    fullAt = performance.now();
    become("full", "ready");
    if (state !== "full" || isTold || fullAt - toldAt < fullMillis) return;
    log("error", "the store has no space: plants are refused until it has");
    toldAt = fullAt;
    isTold = true;
  });
  store.on("batch", () => {
    become("ready", "full");
    if (isTold) log("info", "the store has space again");
    isTold = false;
  });
  store.once("failed", () => become("failed"));

  /** Why plants should go elsewhere; undefined where they need not. */
  const hindrance = (): State | "unreachable" | undefined => {
    const isDue = state === "full" && performance.now() - fullAt >= fullMillis;
    if (state !== "ready" && !isDue) return state;
    return store.stats.isReachable === false ? "unreachable" : undefined;
  };
  return { become, hindrance };
}
