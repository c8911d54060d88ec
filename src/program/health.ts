/** Whether plants can be taken: logs each change, and gives /readyz its reason. */
import type { Log } from "./host.ts";
import type { Store } from "./open-store.ts";

type State = "starting" | "ready" | "full" | "draining" | "failed";

/**
 * The time from the last plant that found no space until the server counts as ready again. A server
 * that is sent no plants cannot learn that there is space. Also the least time between two log
 * lines on missing space: near the end, small plants still fit where large ones do not.
 */
const fullMillis = 10_000;

export type Health = ReturnType<typeof watchHealth>;

/** Watches a store from now on; the state begins as `starting`. */
export function watchHealth(log: Log, store: Store) {
  let state: State = "starting";
  let fullAt = 0;

  /** Time of the last log line on missing space, and whether its counterpart is still to come. */
  let loggedAt = -Infinity;
  let isFullLogged = false;

  /** Changes the state, if it is `from` and not `failed`, which is final. */
  const become = (next: State, from = state) => {
    if (state === from && from !== "failed") state = next;
  };

  store.on("full", () => {
    fullAt = performance.now();
    become("full", "ready");
    const isTooSoon = fullAt - loggedAt < fullMillis;
    if (state !== "full" || isFullLogged || isTooSoon) return;
    log("error", "the store has no space: plants are refused until it has");
    loggedAt = fullAt;
    isFullLogged = true;
  });
  store.on("batch", () => {
    become("ready", "full");
    if (isFullLogged) log("info", "the store has space again");
    isFullLogged = false;
  });
  store.once("failed", () => become("failed"));

  /** Returns why plants should go elsewhere; undefined if the server is ready. */
  const notReadyReason = () => {
    const isExpired =
      state === "full" && performance.now() - fullAt >= fullMillis;
    if (state !== "ready" && !isExpired) return state;
    return store.stats.isReachable === false ? "unreachable" : undefined;
  };
  return { become, notReadyReason };
}
